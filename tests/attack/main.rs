//! The attack: `script/attack` for minutes or for a night. Other tests run a short form.

#[path = "../../crates/lasthop-load/tests/common/accepting.rs"]
mod accepting;
#[path = "../common/mod.rs"]
mod common;

mod arena;
mod draw;
mod ended;
mod kills;
mod mutants;
mod names;
mod neighbour;
mod places;
mod processes;
mod race;
mod servers;
mod soak;
mod tried;

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use arena::Arena;
use common::{engines::have_engine, needs};
use lasthop_stats::random::{Draws, seed_for};
use tried::Tried;

/// Options of `script/attack`.
#[derive(Debug, Default)]
struct Options {
    /// Minutes of the long form; `None` for the short form.
    minutes: Option<u64>,
    seed: Option<u64>,
    /// Only this step of those that follow from the seed.
    step: Option<u64>,
    only: Option<String>,
    engine: Option<String>,
    /// Requests per second of the soak's load, to leave CPU time to other work.
    rate: Option<u32>,
    keep: bool,
}

impl Options {
    fn read() -> Self {
        let mut options = Self::default();
        fn number<T: std::str::FromStr>(text: &str) -> T {
            text.parse()
                .unwrap_or_else(|_| panic!("`{text}` is not a number; see script/attack"))
        }
        for word in std::env::var("LASTHOP_ATTACK").unwrap_or_default().split_whitespace() {
            match word.split_once('=') {
                None if word == "keep" => options.keep = true,
                None => options.minutes = Some(number(word)),
                Some(("seed", text)) => options.seed = Some(number(text)),
                Some(("step", text)) => options.step = Some(number(text)),
                Some(("rate", text)) => options.rate = Some(number(text)),
                Some(("only", text)) => options.only = Some(text.to_owned()),
                Some(("engine", text)) => options.engine = Some(text.to_owned()),
                Some(_) => panic!("`{word}` is no option; see script/attack"),
            }
        }
        options
    }

    /// The path of a data file: in the repository if the data is to be kept.
    fn data(&self, name: &str) -> PathBuf {
        let folder =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(if self.keep { "docs/attack" } else { "target/attack" });
        fs::create_dir_all(&folder).unwrap();
        folder.join(format!("{name}.csv"))
    }

    fn write_page(&self) {
        if self.keep {
            fs::write(
                page(),
                tried::page(&fs::read_to_string(page()).unwrap(), &page().with_extension("")),
            )
            .unwrap();
        }
    }
}

/// The page of results, with its data in the folder beside it.
fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/attack.md")
}

/// A kind of attack.
struct Part {
    name: &'static str,
    /// Its weight among draws in the long form.
    weight: u32,
    /// Its number in the short form.
    short: u32,
    run: fn(&mut Arena, &mut Draws, &mut kills::Lengths, bool) -> Vec<Tried>,
}

const PARTS: [Part; 9] = [
    Part {
        name: "kill",
        weight: 60,
        short: 5,
        run: kills::kill,
    },
    Part {
        name: "stop",
        weight: 10,
        short: 2,
        run: kills::stop,
    },
    Part {
        name: "server",
        weight: 10,
        short: 8,
        run: |arena, draws, _, _| servers::misbehave(arena, draws),
    },
    Part {
        name: "place",
        weight: 10,
        short: 4,
        run: |arena, draws, _, _| places::put(arena, draws),
    },
    Part {
        name: "record",
        weight: 5,
        short: 2,
        run: |arena, draws, _, _| mutants::records(arena, draws),
    },
    Part {
        name: "experiment",
        weight: 5,
        short: 2,
        run: |arena, draws, _, _| mutants::experiments(arena, draws),
    },
    Part {
        name: "name",
        weight: 8,
        short: 4,
        run: |arena, draws, _, _| names::name(arena, draws),
    },
    Part {
        name: "neighbour",
        weight: 4,
        short: 1,
        run: |arena, draws, _, _| neighbour::intrude(arena, draws),
    },
    Part {
        name: "race",
        weight: 10,
        // The race has its own test.
        short: 0,
        run: |arena, draws, _, _| race::race(arena, draws),
    },
];

/// The order of parts, which follows from the seed: for the short form each part as often as given, otherwise endless
/// draws.
fn order(seed: u64, options: &Options) -> Box<dyn Iterator<Item = &'static Part>> {
    let wanted = |part: &&Part| options.only.as_deref().is_none_or(|only| part.name == only);
    let parts: Vec<&Part> = PARTS.iter().filter(wanted).collect();
    assert!(!parts.is_empty(), "there is no part {:?}", options.only);
    let mut draws = Draws::new(seed_for(seed, &["order"]));
    let times = |part: &&'static Part| if options.minutes.is_some() { part.weight } else { part.short } as usize;
    let mut all: Vec<&Part> = parts
        .into_iter()
        .flat_map(|part| std::iter::repeat_n(part, times(&part)))
        .collect();
    draws.shuffle(&mut all);
    match options.minutes {
        None => Box::new(all.into_iter()),
        Some(_) => Box::new(std::iter::repeat_with(move || {
            all[draws.below(all.len() as u32) as usize]
        })),
    }
}

#[test]
#[expect(clippy::print_stdout, reason = "its table is its purpose")]
fn attack() {
    let engine = if Options::read().engine.as_deref() == Some("docker") {
        "docker"
    } else {
        "podman"
    };
    needs!(have_engine(engine));
    let options = Options::read();
    let seed = options.seed.unwrap_or_else(|| {
        if options.minutes.is_some() {
            u64::from(std::process::id())
        } else {
            1
        }
    });
    println!("seed={seed}");
    let data = options.data(&jiff::Zoned::now().date().to_string());
    let mut writer = csv::Writer::from_path(&data).unwrap();
    let (mut arena, mut lengths, mut all) = (Arena::new(engine), kills::Lengths::default(), Vec::new());
    let end = options
        .minutes
        .map(|minutes| Instant::now() + Duration::from_secs(60 * minutes));
    for (step, part) in (0..).zip(order(seed, &options)) {
        if end.is_some_and(|end| Instant::now() > end) || options.step.is_some_and(|only| step > only) {
            break;
        }
        if options.step.is_some_and(|only| step != only) {
            continue;
        }
        let mut draws = Draws::new(seed_for(seed, &[part.name, &step.to_string()]));
        for mut tried in (part.run)(&mut arena, &mut draws, &mut lengths, options.minutes.is_none()) {
            (tried.seed, tried.step) = (seed, step);
            println!("{}", tried.line());
            writer.serialize(&tried).unwrap();
            writer.flush().unwrap();
            all.push(tried);
        }
    }
    println!("\n{}", tried::table(&all));
    options.write_page();
    let wrong: Vec<String> = all
        .iter()
        .filter(|tried| !tried.wrong.is_empty())
        .map(Tried::line)
        .collect();
    assert!(
        wrong.is_empty(),
        "with seed={seed}, data in {}:\n{}",
        data.display(),
        wrong.join("\n")
    );
}

#[test]
#[ignore = "it takes as long as you ask for; script/attack soak"]
fn soak() {
    let options = Options::read();
    let data = options.data(&format!("soak-{}", jiff::Zoned::now().date()));
    let wrong = soak::soak(
        Duration::from_secs(60 * options.minutes.unwrap_or(1)),
        options.rate,
        &data,
    );
    options.write_page();
    assert!(wrong.is_empty(), "{}\nsamples: {}", wrong.join("\n"), data.display());
}

#[test]
fn every_built_in_experiment_is_attacked() {
    let entries = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("experiments"))
        .unwrap()
        .flatten();
    let there = entries
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().into_string().unwrap());
    let mut there: Vec<String> = there.filter(|name| !name.starts_with('_')).collect();
    let mut attacked: Vec<&str> = kills::SUBJECTS
        .iter()
        .map(|subject| subject.experiment)
        .chain(kills::NOT_HERE)
        .collect();
    there.sort();
    attacked.sort_unstable();
    attacked.dedup();
    assert_eq!(attacked, there);
}

#[test]
fn the_page_has_the_totals_of_its_data() {
    let kept = fs::read_to_string(page()).unwrap();
    let fresh = tried::page(&kept, &page().with_extension(""));
    assert!(kept == fresh, "docs/attack.md is stale; it should be:\n{fresh}");
}
