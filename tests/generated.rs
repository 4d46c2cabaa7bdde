//! What is generated from the code and kept in the repository is not stale, and documents lead somewhere.
//! `script/generate` runs this to write the former anew.

mod answers;
mod common;
#[path = "../benches/peers/page.rs"]
#[allow(dead_code)]
mod page;

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use common::{Lasthop, installed, needs};
use lasthop::load;
use lasthop::selftest::outcome::SelfTest;
use lasthop_analyse::{
    across::{diff::Diff, fleet::Fleet},
    answers::Answers,
};
use lasthop_plan::schema;
use lasthop_report::explained;
use lasthop_repro::{outcome::Repetition, study};
use lasthop_survey::links::Survey;
use regex::Regex;
use serde_json::{Map, Value};

/// By path below `docs`.
type Files = BTreeMap<String, Vec<u8>>;

fn man_pages(files: &mut Files) {
    let folder = tempfile::tempdir().unwrap();
    clap_mangen::generate_to(lasthop::cli::command(), folder.path()).unwrap();
    read(folder.path(), "man", files);
}

fn completions(files: &mut Files) {
    let lasthop = Lasthop::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = lasthop.run(["completions", shell]).ok().stdout;
        files.insert(format!("completions/lasthop.{shell}"), script.into_bytes());
    }
}

fn schemas(files: &mut Files) {
    let schemas = [
        ("experiment", schema::experiment_schema().clone()),
        ("recipe", schema::recipe_schema().clone()),
        ("load", load::schema()),
        ("driver", lasthop_protocol::wire::schema()),
        ("result", lasthop_report::schema()),
        ("page", lasthop_report::page_schema()),
        ("answers", schemars::schema_for!(Answers).to_value()),
        ("diff", schemars::schema_for!(Diff).to_value()),
        ("fleet", schemars::schema_for!(Fleet).to_value()),
        ("study", study::catalog::schema().clone()),
        ("repro", schemars::schema_for!(Repetition).to_value()),
        ("runs", schemars::schema_for!(lasthop_report::Runs).to_value()),
        ("selftest", schemars::schema_for!(SelfTest).to_value()),
        ("survey", schemars::schema_for!(Survey).to_value()),
    ];
    for (name, schema) in schemas {
        let mut named = Map::from_iter([("$id".to_owned(), schema::id(name).into())]);
        named.extend(schema.as_object().unwrap().clone());
        files.insert(
            format!("schema/{name}.json"),
            format!("{:#}\n", Value::from(named)).into_bytes(),
        );
    }
}

fn read(folder: &Path, name: &str, files: &mut Files) {
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let entry = entry.unwrap();
        files.insert(
            format!("{name}/{}", entry.file_name().display()),
            fs::read(entry.path()).unwrap(),
        );
    }
}

/// Replaces the folders, so that nothing stays in them that is not generated any more.
fn write(files: &Files, docs: &Path) {
    for folder in FOLDERS {
        fs::remove_dir_all(docs.join(folder)).unwrap();
        fs::create_dir(docs.join(folder)).unwrap();
    }
    for (name, content) in files {
        fs::write(docs.join(name), content).unwrap();
    }
}

const FOLDERS: [&str; 3] = ["man", "completions", "schema"];

#[test]
fn man_pages_completions_and_schemas_are_those_of_the_code() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let (mut fresh, mut kept) = (Files::new(), Files::new());
    man_pages(&mut fresh);
    completions(&mut fresh);
    schemas(&mut fresh);
    if env::var_os("LASTHOP_GENERATE").is_some() {
        write(&fresh, &docs);
    }
    FOLDERS
        .iter()
        .for_each(|folder| read(&docs.join(folder), folder, &mut kept));
    let stale: Vec<&String> = fresh
        .keys()
        .chain(kept.keys())
        .filter(|name| fresh.get(*name) != kept.get(*name))
        .collect();
    assert!(stale.is_empty(), "stale: {stale:?}; run script/generate");
    assert!(
        fresh.contains_key("man/lasthop.1") && fresh.contains_key("schema/result.json"),
        "{:?}",
        fresh.keys()
    );
}

#[test]
fn the_page_of_checks_is_that_of_the_code() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/checks.md");
    if env::var_os("LASTHOP_GENERATE").is_some() {
        fs::write(&page, explained::page()).unwrap();
    }
    assert!(
        fs::read_to_string(page).unwrap() == explained::page(),
        "docs/checks.md is stale; run script/generate"
    );
}

#[test]
fn the_page_of_performance_shows_the_newest_measurements() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let kept = fs::read_to_string(root.join("docs/performance.md")).unwrap();
    let fresh = page::page(&kept, &root.join("benches/record")).unwrap();
    let other = Path::new(env!("CARGO_TARGET_TMPDIR")).join("performance.md");
    fs::write(&other, &fresh).unwrap();
    assert!(
        kept == fresh,
        "docs/performance.md is stale; copy {} over it",
        other.display()
    );
}

/// Every Markdown document of the repository that somebody wrote, by its path.
fn documents() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut git = Command::new("git");
    git.args(["ls-files", "--cached", "--others", "--exclude-standard", "*.md"]);
    let output = git.current_dir(root).output().unwrap();
    let listed = String::from_utf8(output.stdout).unwrap();
    let written = listed.lines().filter(|line| !line.starts_with("docs/answers/"));
    let found: Vec<PathBuf> = written.map(|line| root.join(line)).collect();
    assert!(found.len() > 20, "{found:?}");
    found
}

/// The name that a heading has in a link.
fn anchor(heading: &str) -> String {
    let kept = heading
        .chars()
        .filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

#[test]
fn links_of_documents_lead_somewhere() {
    needs!(installed("git"));
    let link = Regex::new(r"\]\(([^)\s#]*)(?:#([^)\s]*))?\)").unwrap();
    let mut broken = Vec::new();
    for file in documents() {
        let text = fs::read_to_string(&file).unwrap();
        for found in link.captures_iter(&text).filter(|found| !found[1].starts_with("http")) {
            let target = if found[1].is_empty() {
                file.clone()
            } else {
                file.parent().unwrap().join(&found[1])
            };
            let leads = match found.get(2) {
                None => target.exists(),
                Some(name) => fs::read_to_string(&target).is_ok_and(|text| {
                    let headings = text
                        .lines()
                        .filter_map(|line| line.trim_start_matches('#').strip_prefix(' '));
                    headings.map(anchor).any(|heading| heading == name.as_str())
                }),
            };
            if !leads {
                broken.push(format!("{}: {}", file.display(), &found[0]));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

/// What went, as commands, options and formats were called.
const GONE: &str = r"(?x)
    folklore | answers/explained | answers\ --explain | findings-(costs|gains)
    | --images | images\ packages
    | lasthop\ (export|path)\b | survey-diff | survey\ --fail-if | fleet\ clean | benchstat:
    | --repeat\b | --over\b | --no-noise | planted\ noise
    | mqueue | message\ queue | ratio-under-load
";

/// The changelog says what went, and the page of all answers has figures of kept records.
#[test]
fn no_document_mentions_what_is_gone() {
    needs!(installed("git"));
    let gone = Regex::new(GONE).unwrap();
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let folders = FOLDERS.iter().chain(&["help"]).map(|name| docs.join(name));
    let generated = folders.flat_map(|folder| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()));
    let written = documents()
        .into_iter()
        .filter(|file| !file.ends_with("CHANGELOG.md") && !file.ends_with("docs/findings.md"));
    let mut found = Vec::new();
    for file in written.chain(generated) {
        // In a manual page, a hyphen is escaped.
        let text = fs::read_to_string(&file).unwrap().replace("\\-", "-");
        let lines = text.lines().filter(|line| gone.is_match(line));
        found.extend(lines.map(|line| format!("{}: {line}", file.display())));
    }
    assert!(found.is_empty(), "{found:#?}");
}

/// Tables and examples are as wide as they are, and the page of all answers is made of lines of any length.
#[test]
fn documents_are_wrapped_at_120() {
    needs!(installed("git"));
    let mut wide = Vec::new();
    for file in documents()
        .into_iter()
        .filter(|file| !file.ends_with("docs/findings.md"))
    {
        let text = fs::read_to_string(&file).unwrap();
        let mut in_example = false;
        for (at, line) in text.lines().enumerate() {
            in_example ^= line.starts_with("```");
            let prose = !in_example && !line.starts_with(['|', '#']);
            if prose && line.chars().count() > 120 {
                wide.push(format!("{}:{}", file.display(), at + 1));
            }
        }
    }
    assert!(wide.is_empty(), "{wide:#?}");
}

/// Places in a schema whose keys have no description, or that allow keys that nobody knows.
fn gaps(schema: &Value, place: &str, found: &mut Vec<String>) {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        for inner in ["items", "additionalProperties"] {
            schema
                .get(inner)
                .into_iter()
                .for_each(|schema| gaps(schema, &format!("{place}.*"), found));
        }
        return;
    };
    if schema.get("additionalProperties") != Some(&Value::Bool(false)) {
        found.push(format!("{place} takes unknown keys"));
    }
    for (name, property) in properties {
        let place = format!("{place}.{name}");
        if property
            .get("description")
            .and_then(Value::as_str)
            .is_none_or(str::is_empty)
        {
            found.push(format!("{place} has no description"));
        }
        gaps(property, &place, found);
    }
}

#[test]
fn every_key_of_a_file_is_described_and_no_other_is_taken() {
    let mut found = Vec::new();
    gaps(schema::experiment_schema(), "experiment", &mut found);
    gaps(schema::recipe_schema(), "recipe", &mut found);
    gaps(study::catalog::schema(), "study", &mut found);
    assert_eq!(found, Vec::<String>::new());
}

/// Names of all tests of the workspace, of the runs in `tests/experiments`, and of the parts of `script/attack` as
/// `only=PART`.
fn tests() -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let test = Regex::new(r"#\[test\]\s*(?:(?:#\[[^\n]*\]|//[^\n]*)\s*)*fn (\w+)\(").unwrap();
    let part = Regex::new(r#"Part \{\s*name: "(\w+)""#).unwrap();
    let run = Regex::new(r"(?m)^\[run\.(\w+)\]").unwrap();
    let mut names = BTreeSet::new();
    let mut folders = vec![root.join("tests"), root.join("crates"), root.join("src")];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs" || end == "toml") {
                let text = fs::read_to_string(&path).unwrap();
                names.extend(run.captures_iter(&text).map(|found| found[1].to_owned()));
                names.extend(test.captures_iter(&text).map(|found| found[1].to_owned()));
                names.extend(part.captures_iter(&text).map(|found| format!("only={}", &found[1])));
            }
        }
    }
    names
}

#[test]
fn every_promise_names_tests_that_there_are() {
    let tests = tests();
    assert!(tests.len() > 1_000 && tests.contains("only=kill"), "{}", tests.len());
    let name = Regex::new(r"`([^`]+)`").unwrap();
    let mut rows = 0;
    for page in ["SECURITY.md", "docs/attack.md"] {
        let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(page)).unwrap();
        let mut lines = text.lines();
        while lines.by_ref().any(|line| line.ends_with("| held by |")) {
            for row in lines.by_ref().skip(1).take_while(|line| line.starts_with('|')) {
                let held_by = row.trim_end_matches([' ', '|']).rsplit('|').next().unwrap();
                let named: Vec<&str> = name
                    .captures_iter(held_by)
                    .map(|found| found.extract::<1>().1[0])
                    .collect();
                assert!(!named.is_empty(), "{page}: nothing holds {row}");
                let missing: Vec<&&str> = named.iter().filter(|name| !tests.contains(**name)).collect();
                assert!(
                    missing.is_empty(),
                    "{page} names {missing:?}, and there is no such test"
                );
                rows += 1;
            }
        }
    }
    assert!(rows > 50, "{rows} promises and attacks were found");
}
