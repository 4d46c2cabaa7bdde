//! What holds for any text that lasthop is given, by a user, in a file, by a tool or by its own other processes: it has a
//! meaning or an error, and both can be shown. Used by the fuzz targets, and by `tests/corpus.rs`, which replays their corpus.
#![allow(dead_code, reason = "each fuzz target uses its own part")]

use std::{
    collections::BTreeMap,
    fmt::Display,
    fs,
    path::{Path, PathBuf},
    str::FromStr,
};

use lasthop::cli::Cli;
use lasthop_classic::{Order, TOOLS};
use lasthop_model::{
    driver::DriverAt,
    quantity,
    rate::{Rate, arrivals},
    selection::{Choice, Selection},
};
use lasthop_page::Options;
use lasthop_plan::{catalog::Catalog, model::Source, plan::Plan, template};
use lasthop_protocol::{
    spec::Spec,
    url::{UrlOptions, parse},
};
use lasthop_record::store;
use lasthop_report::{Extras, Format};
use lasthop_repro::study::{catalog, model::number};
use lasthop_stack::guard::message;

/// Name of a target, and what judges its input.
pub type Target = (&'static str, fn(&[u8]));

pub const TARGETS: [Target; 9] = [
    ("words", words),
    ("arguments", arguments),
    ("experiment", experiment),
    ("recipe", recipe),
    ("template", template),
    ("study", study),
    ("record", record),
    ("tools", tools),
    ("guard", guard),
];

fn text(data: &[u8]) -> Option<&str> {
    std::str::from_utf8(data).ok()
}

/// What it means, if anything, is shown as a text that means the same.
fn round_trip<T: FromStr<Err: Display> + Display + PartialEq + std::fmt::Debug>(text: &str) {
    match text.parse::<T>() {
        Ok(meaning) => {
            let shown = meaning.to_string();
            assert_eq!(shown.parse().ok(), Some(meaning), "{shown:?}");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Quantities, places, choices: the values of options and of keys in files.
pub fn words(data: &[u8]) {
    let Some(text) = text(data) else { return };
    if let Ok(duration) = quantity::duration(text) {
        assert!(!duration.is_zero());
        assert_eq!(quantity::duration_or_none(text).ok(), Some(duration));
    }
    if let Ok(share) = quantity::share(text) {
        assert!(share > 0.0 && share <= 1.0, "{share}");
    }
    round_trip::<DriverAt>(text);
    let _ = text.parse::<Choice>();
    if let Ok(rate) = text.parse::<Rate>() {
        let _ = rate.model(Default::default());
    }
    let _ = arrivals(text);
    if let Ok(choice) = lasthop_classic::choice(text) {
        let _ = choice.to_string();
    }
    assert!(number(text).is_none_or(|number| number >= 0.0));
}

/// A whole command line, one argument a line.
pub fn arguments(data: &[u8]) {
    let Some(text) = text(data) else { return };
    let words = std::iter::once("lasthop").chain(text.split('\n'));
    if let Err(error) = <Cli as clap::Parser>::try_parse_from(words) {
        assert!(!error.to_string().is_empty());
    }
}

const EXPERIMENT: &str = include_str!("../../experiments/_template/experiment.toml");
const RECIPE: &str = include_str!("../../experiments/_template/services/python-app/recipe.toml");

/// A folder of these two files and a template, as far as planning its cases.
fn folder(experiment: &[u8], recipe: &[u8]) {
    let files: BTreeMap<PathBuf, Vec<u8>> = [
        ("experiment.toml", experiment),
        ("services/python-app/recipe.toml", recipe),
        ("app/app.py", b""),
        ("nginx.conf.j2", b"{{ connections }}"),
    ]
    .into_iter()
    .map(|(path, content)| (path.into(), content.to_vec()))
    .collect();
    match Catalog::default().check("fuzzed", "./fuzzed", Source::BuiltIn, &files) {
        Ok(experiment) => match Plan::new(experiment, &Selection::default()) {
            Ok(plan) => drop(plan.summary()),
            Err(error) => assert!(!error.to_string().is_empty()),
        },
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

pub fn experiment(data: &[u8]) {
    folder(data, RECIPE.as_bytes());
}

pub fn recipe(data: &[u8]) {
    folder(EXPERIMENT.as_bytes(), data);
}

pub fn template(data: &[u8]) {
    let Some(text) = text(data) else { return };
    let context = minijinja::context! {
        connections => 3, transport => "unix", nodelay => true, listen => minijinja::context! { path => "/s", port => 80 },
    };
    if let Err(error) = template::render("fuzzed", text, &context) {
        assert!(!error.to_string().is_empty());
    }
}

pub fn study(data: &[u8]) {
    let Some(text) = text(data) else { return };
    if let Err(found) = catalog::read("fuzzed", "fuzzed.toml", text) {
        assert!(!found.to_string().is_empty());
    }
}

/// The first lines are `run.json`, `environment.json` and `end.json`, an empty one for a file that is not there; the rest is
/// `trials.jsonl`. What can be read can be reported in every format.
pub fn record(data: &[u8]) {
    let mut lines = data.splitn(4, |byte| *byte == b'\n');
    let folder = tempfile::tempdir().expect("there is a folder for temporary files");
    for name in ["run.json", "environment.json", "end.json", "trials.jsonl"] {
        let content = lines.next().unwrap_or_default();
        if !content.is_empty() {
            fs::write(folder.path().join(name), content).expect("there is room for a small file");
        }
    }
    match store::read(folder.path()) {
        Ok(data) => {
            let summary = lasthop_analyse::summarise(&data);
            let (plots, trials) = (lasthop_analyse::plots::plots(&data), lasthop_analyse::rows::rows(&data));
            let extras = Extras {
                plots,
                trials,
                ..Extras::default()
            };
            let everything = Options {
                verbose: true,
                ..Options::default()
            };
            for (format, ..) in Format::ALL {
                assert!(!lasthop_report::render(&summary, &extras, format, &everything).is_empty());
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// What a classic tool printed; the first byte says which one.
pub fn tools(data: &[u8]) {
    let Some((&choice, output)) = data.split_first() else {
        return;
    };
    let Some(output) = text(output) else { return };
    let tool = &TOOLS[usize::from(choice) % TOOLS.len()];
    let url = match tool.name {
        "psql" | "pgbench" => "postgres://u@127.0.0.1/d",
        "redis-benchmark" => "redis://127.0.0.1",
        _ => "http://127.0.0.1/",
    };
    let (endpoint, protocol) = parse(url, &UrlOptions::default()).expect("it is right");
    let spec = Spec::new(endpoint, protocol);
    let order = Order {
        spec: &spec,
        seconds: 1,
        count: 3,
        flags: &[],
        scratch: Path::new("/nonexistent"),
    };
    match tool.read(output, &order, 1_000_000_000) {
        Ok(reading) => assert!(reading.rate >= 0.0 && reading.rate.is_finite(), "{}", reading.rate),
        Err(misread) => assert!(!misread.to_string().is_empty()),
    }
}

/// What lasthop and its guard say to each other.
pub fn guard(data: &[u8]) {
    if let Ok(request) = serde_json::from_slice::<message::Request>(data) {
        same_again(&request);
    }
    if let Ok(report) = serde_json::from_slice::<message::Report>(data) {
        same_again(&report);
    }
}

fn same_again<T: serde::Serialize + serde::de::DeserializeOwned>(message: &T) {
    let said = serde_json::to_vec(message).expect("it can be said");
    let heard: T = serde_json::from_slice(&said).expect("what is said is understood");
    assert_eq!(serde_json::to_vec(&heard).expect("it can be said"), said);
}
