//! The kept answers: `docs/answers/records` has the records, from which the pages beside it, `answers.json`, and README's
//! tables are made. An experiment whose record is not there yet keeps the page that it has.

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    thread,
};

use lasthop_analyse::{
    answers::{Answer, Answers, speed},
    summarise,
    summary::Summary,
};
use lasthop_page::text;
use lasthop_plan::catalog::Catalog;
use lasthop_record::RunData;
use lasthop_report::{
    Extras, Format,
    answers::{answer_of, extremes},
};
use lasthop_repro::outcome::Repetition;

use crate::common::skip;

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/answers")
}

fn is_generating() -> bool {
    env::var_os("LASTHOP_GENERATE").is_some()
}

/// The file as it must be; `script/generate` writes it.
fn keep(path: &Path, fresh: &[u8]) {
    if is_generating() {
        fs::write(path, fresh).unwrap();
    }
    let kept = fs::read(path).unwrap_or_default();
    assert!(kept == fresh, "{} is stale; run script/generate", path.display());
}

/// The files of this kind in a folder, by the name before the end.
fn files(folder: &Path, end: &str) -> BTreeMap<String, PathBuf> {
    let entries = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().path());
    let named = entries.filter_map(|path| {
        let name = path.file_name()?.to_str()?.strip_suffix(end)?.to_owned();
        Some((name, path))
    });
    named.collect()
}

/// A kept record.
fn unpacked(record: &Path) -> RunData {
    let folder = tempfile::tempdir().unwrap();
    let mut tar = Command::new("tar");
    tar.arg("-xJf").arg(record).arg("-C").arg(folder.path());
    assert!(tar.status().unwrap().success(), "{} is unpacked", record.display());
    lasthop_record::store::read(folder.path()).unwrap()
}

/// What a kept record says, as an answer and as a page.
struct Told {
    answer: Answer,
    page: Vec<u8>,
    picture: Vec<u8>,
}

fn told(record: &Path, group: &str) -> Told {
    let data = unpacked(record);
    let summary = Summary {
        word: data.header.run.clone(),
        // Of the experiment as it is now, so that its words are tried.
        template: Catalog::default().load(&data.header.experiment.name).unwrap().answer,
        ..summarise(&data)
    };
    let render = |format| lasthop_report::render(&summary, &Extras::default(), format, &Default::default());
    let page = String::from_utf8(render(Format::Markdown)).unwrap();
    assert!(!page.contains("cannot be written"), "{page}");
    Told {
        answer: answer_of(&summary, group, speed(&data))
            .unwrap_or_else(|| panic!("{} answers nothing: remove it", record.display())),
        page: page.into(),
        picture: render(Format::Svg),
    }
}

/// By name of the experiment.
fn all_told() -> BTreeMap<String, Told> {
    let catalog = Catalog::default();
    let group = |name: &str| catalog.load(name).unwrap().group;
    let records = files(&docs().join("records"), ".tar.xz").into_iter();
    let records: Vec<(String, PathBuf, String)> = records
        .map(|(name, record)| (name.clone(), record, group(&name)))
        .collect();
    let tell = |(name, record, group): &(String, PathBuf, String)| (name.clone(), told(record, group));
    thread::scope(|scope| {
        let halves = records.chunks(records.len().div_ceil(2).max(1));
        let workers: Vec<_> = halves
            .map(|half| scope.spawn(move || half.iter().map(tell).collect::<Vec<_>>()))
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    })
}

#[test]
fn pages_and_answers_are_those_of_the_records() {
    let told = all_told();
    for (name, one) in &told {
        assert_eq!(*name, one.answer.experiment);
        keep(&docs().join(format!("{name}.md")), &one.page);
        let picture = docs().join(format!("{name}.svg"));
        if picture.exists() {
            keep(&picture, &one.picture);
        }
    }
    let answers = Answers::of(told.into_values().map(|one| one.answer).collect());
    keep(&docs().join("answers.json"), &text::json(&answers));
    let schema: serde_json::Value = schemars::schema_for!(Answers).to_value();
    let value = serde_json::to_value(&answers).unwrap();
    assert!(jsonschema::is_valid(&schema, &value));
    readme(&answers);
    overloads();
    studies();
    findings();
}

/// What the page of all answers shows of runs with overload.
fn overloads() {
    let folder = docs().join("overload");
    for (name, record) in files(&folder, ".tar.xz") {
        let overload = summarise(&unpacked(&record)).overload.unwrap();
        keep(&folder.join(format!("{name}.json")), &text::json(&overload));
    }
}

/// Kept repetitions of studies, their claims judged anew, and a page of each.
fn studies() {
    let folder = docs().join("studies");
    for (name, path) in files(&folder, ".json") {
        let study = lasthop_repro::study::catalog::load(&name).unwrap();
        let result = Repetition::read(&fs::read_to_string(&path).unwrap(), &study).unwrap();
        keep(&path, &text::json(&result));
        let page = lasthop_page::document_markdown(&lasthop_repro::page::document(&result));
        keep(&folder.join(format!("{name}.md")), &page);
    }
}

/// The page of all answers, which `script/findings` makes of the files beside the records.
fn findings() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = || Command::new(root.join("target/tools/bin/python3"));
    let has_jinja = python()
        .args(["-c", "import jinja2"])
        .output()
        .is_ok_and(|output| output.status.success());
    if !has_jinja && !skip("jinja2 is missing in target/tools; script/setup installs it") {
        return;
    }
    let fresh = tempfile::tempdir().unwrap();
    let output = python()
        .arg(root.join("script/findings"))
        .arg(fresh.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for file in fs::read_dir(fresh.path()).unwrap().map(|file| file.unwrap()) {
        keep(
            &root.join("docs").join(file.file_name()),
            &fs::read(file.path()).unwrap(),
        );
    }
}

/// They are passed on: see `script/answers`.
#[test]
fn no_record_says_whose_machine_it_was() {
    let mut all = 0;
    let kinds = ["records", "overload"].map(|kind| files(&docs().join(kind), ".tar.xz"));
    for (name, record) in kinds.into_iter().flatten() {
        all += record.metadata().unwrap().len();
        let mut tar = Command::new("tar");
        let listing = tar.args(["-xJOf"]).arg(&record).output().unwrap().stdout;
        let listing = String::from_utf8(listing).unwrap();
        for private in ["/home/", "/root/", "/Users/"] {
            assert!(!listing.contains(private), "{name} has {private}");
        }
        let owners = Command::new("tar").arg("-tvJf").arg(&record).output().unwrap().stdout;
        let owners = String::from_utf8(owners).unwrap();
        assert!(owners.lines().all(|line| line.contains(" 0/0 ")), "{name}: {owners}");
    }
    assert!(all < 10 << 20, "the records have {all} bytes");
}

/// Between these lines, README says what the pages found.
const ANSWERS: [&str; 2] = ["<!-- written by script/answers -->\n", "<!-- end of the answers -->\n"];
const APPLICATIONS: &str = "\
    The same links as an application meets them, through its client library, beside what they are bare:\n\n\
    | experiment | setting | compared | ratio (95 % interval) | freed at 1,000/s | matters below | bare |\n\
    |---|---|---|--:|--:|--:|--:|\n";
const FIGURES: &str = "\
| experiment | setting | compared | ratio (95 % interval) | freed at 1,000/s | matters below |
|---|---|---|--:|--:|--:|
";

/// The rows of README about an experiment.
fn rows(answer: &Answer) -> String {
    let name = &answer.experiment;
    let rows = extremes(answer).into_iter().map(|one| {
        format!(
            "| [{}](docs/answers/{name}.md) | {} | {} | {} ({}) | {} | {} |\n",
            answer.named(),
            text::markdown(&one.setting.name),
            one.levels(),
            one.ratio(),
            one.ends(),
            one.freed(),
            one.matters_below(),
        )
    });
    rows.collect::<String>().replace(lasthop_page::units::NBSP, " ")
}

/// The rows of experiments whose link is behind an application, each with the ratios of the experiment that drives it.
fn beside_bare(answers: &Answers) -> String {
    let ratios = |rows: &str| {
        let cells = rows.lines().map(|row| row.split(" | ").nth(3).unwrap());
        cells.collect::<Vec<_>>().join(", ")
    };
    let mut all = String::new();
    for answer in answers
        .answers
        .iter()
        .filter(|answer| is_application(&answer.experiment))
    {
        let bare = Catalog::default().load(&answer.experiment).unwrap().link.to;
        let beside = answers.get(&bare).map(|answer| ratios(&rows(answer)));
        let beside = beside.map(|ratios| format!("[{ratios}](docs/answers/{bare}.md)"));
        for row in rows(answer).lines() {
            all += &format!("{row} {} |\n", beside.as_deref().unwrap_or("–"));
        }
    }
    all
}

fn is_application(name: &str) -> bool {
    Catalog::default()
        .load(name)
        .is_ok_and(|experiment| experiment.group == "through an application")
}

/// README begins with the picture of all stacks, once half of them have been asked.
fn headed(readme: &str, answers: &Answers) -> String {
    let enough = 2 * answers.answers.len() >= Catalog::default().names().len();
    let picture = if enough {
        "docs/findings.svg"
    } else {
        "docs/answers/sockets.svg"
    };
    let image = regex::Regex::new(r"(?m)^!\[Every ratio with its interval\]\(.*\)$").unwrap();
    assert!(image.is_match(readme));
    let image = image.replace(readme, format!("![Every ratio with its interval]({picture})"));
    image.into_owned()
}

/// README has the tables of these answers.
fn readme(answers: &Answers) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let on_disk = fs::read_to_string(root.join("README.md")).unwrap();
    let kept = headed(&on_disk, answers);
    let (before, rest) = kept.split_once(ANSWERS[0]).unwrap();
    let (_, after) = rest.split_once(ANSWERS[1]).unwrap();
    let bare = answers
        .answers
        .iter()
        .filter(|answer| !is_application(&answer.experiment));
    let figures: String = bare.map(rows).collect();
    let applications = match beside_bare(answers) {
        rows if rows.is_empty() => rows,
        rows => format!("\n{APPLICATIONS}{rows}"),
    };
    let page = if answers.answers.is_empty() {
        ""
    } else {
        "[What the last hop costs](docs/findings.md) puts these together ([one file](docs/findings.html)).\n\n"
    };
    let fresh = format!(
        "{before}{}{page}{FIGURES}{figures}{applications}{}{after}",
        ANSWERS[0], ANSWERS[1]
    );
    keep(&root.join("README.md"), fresh.as_bytes());
}
