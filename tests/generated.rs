//! What is generated from the code and kept in the repository is not stale, and documents lead somewhere.
//! `script/generate` runs this to write the former anew.

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

use clap::CommandFactory;
use common::Lasthop;
use lasthop::cli::Cli;
use lasthop::load;
use lasthop::selftest::outcome::SelfTest;
use lasthop_analyse::across::{diff::Diff, fleet::Fleet};
use lasthop_plan::{catalog::Catalog, schema};
use lasthop_report::explained;
use lasthop_repro::{outcome::Repetition, study};
use regex::Regex;
use serde_json::{Map, Value};

/// By path below `docs`.
type Files = BTreeMap<String, Vec<u8>>;

fn man_pages(files: &mut Files) {
    let folder = tempfile::tempdir().unwrap();
    clap_mangen::generate_to(Cli::command(), folder.path()).unwrap();
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
        ("diff", schemars::schema_for!(Diff).to_value()),
        ("fleet", schemars::schema_for!(Fleet).to_value()),
        ("study", study::catalog::schema().clone()),
        ("repro", schemars::schema_for!(Repetition).to_value()),
        ("runs", schemars::schema_for!(lasthop_report::Runs).to_value()),
        ("selftest", schemars::schema_for!(SelfTest).to_value()),
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

/// Between these lines, README says what each report in `docs/answers` found.
const ANSWERS: [&str; 2] = ["<!-- written by script/answers -->\n", "<!-- end of the answers -->\n"];
const APPLICATIONS: &str = "\
    The same links as an application meets them, through its client library, beside what they are bare:\n\n\
    | experiment | setting | compared | ratio (95 % interval) | CPU saved | matters below | bare |\n\
    |---|---|---|--:|--:|--:|--:|\n";
const FIGURES: &str = "\
| experiment | setting | compared | ratio (95 % interval) | CPU saved | matters below |
|---|---|---|--:|--:|--:|
";

/// The rows of a report's tables that have these columns: their setting, and these cells.
fn cells(report: &str, columns: &[&str]) -> Vec<(String, Vec<String>)> {
    let mut found = Vec::new();
    let (mut at, mut setting) = (Vec::new(), String::new());
    for line in report.lines() {
        let Some(row) = line.strip_prefix("| ").and_then(|line| line.strip_suffix(" |")) else {
            at.clear();
            setting.clear();
            continue;
        };
        let row: Vec<String> = row.split(" | ").map(|cell| cell.trim().replace("**", "")).collect();
        let place = |column: &&str| row.iter().position(|cell| cell == column);
        if at.is_empty() {
            at = columns.iter().filter_map(place).collect();
            at.resize(if at.len() == columns.len() { at.len() } else { 0 }, 0);
        } else if row[1..].iter().all(String::is_empty) {
            setting.clone_from(&row[0]);
        } else if !row[0].starts_with(":-") {
            let cells = [0].iter().chain(&at).map(|column| row[*column].clone());
            found.push((setting.clone(), cells.collect()));
        }
    }
    found
}

/// The largest and the smallest ratio: of the first alternative in all settings, or of all alternatives in the only one.
fn figures(name: &str, report: &str) -> String {
    let all = cells(report, &["ratio", "95 % interval", "verdict"]);
    let reference = &all.iter().find(|(_, row)| row[3] == "reference").unwrap().1[0];
    let compared = |row: &[String]| row[3] != "reference" && !row[2].is_empty();
    let first = &all.iter().find(|(_, row)| compared(row)).unwrap().1[0];
    let mut rows: Vec<_> = all
        .iter()
        .filter(|(_, row)| row[0] == *first && compared(row))
        .collect();
    if rows.len() == 1 {
        rows = all.iter().filter(|(_, row)| compared(row)).collect();
    }
    let ratio = |row: &[String]| {
        row[1]
            .trim_start_matches(|c: char| !c.is_ascii_digit())
            .parse::<f64>()
            .unwrap()
    };
    rows.sort_by(|one, other| ratio(&other.1).total_cmp(&ratio(&one.1)));
    if rows.len() > 2 {
        rows.drain(1..rows.len() - 1);
    }
    let saved = cells(report, &["µs CPU saved", "throughput below"]);
    let written = rows.into_iter().map(|(setting, row)| {
        let level = &row[0];
        let saved = saved.iter().find(|(place, saved)| place == setting && saved[0] == *level);
        let [cpu, below] = [1, 2].map(|at| saved.map_or("–", |(_, cells)| cells[at].as_str()));
        let unit = if cpu == "–" { "" } else { " µs" };
        format!(
            "| [{name}](docs/answers/{name}.md) | {setting} | {level} / {reference} | {} ({}) | {cpu}{unit} | {below} |\n",
            row[1], row[2]
        )
    });
    written.collect()
}

/// The rows of experiments whose link is behind an application, each with the ratios of the experiment that drives it.
fn beside_bare(reports: &[(String, String)]) -> String {
    let of = |wanted: &str| {
        reports
            .iter()
            .find(|(name, _)| name == wanted)
            .map(|(name, report)| figures(name, report))
    };
    let ratios = |rows: &str| {
        let cells = rows.lines().map(|row| row.split(" | ").nth(3).unwrap());
        cells.collect::<Vec<_>>().join(", ")
    };
    let mut all = String::new();
    for (name, report) in reports.iter().filter(|(name, _)| is_application(name)) {
        let bare = Catalog::default().load(name).unwrap().link.to;
        let ratios = of(&bare).map(|rows| format!("[{}](docs/answers/{bare}.md)", ratios(&rows)));
        for row in figures(name, report).lines() {
            all += &format!("{row} {} |\n", ratios.as_deref().unwrap_or("–"));
        }
    }
    all
}

fn is_application(name: &str) -> bool {
    Catalog::default()
        .load(name)
        .is_ok_and(|experiment| experiment.group == "through an application")
}

/// What an experiment asks besides which transport to choose.
fn own_answer(name: &str, report: &str) -> String {
    let quoted: Vec<&str> = report.lines().filter_map(|line| line.strip_prefix("> ")).collect();
    assert!((1..=7).contains(&quoted.len()), "{name}: {quoted:?}");
    let own: Vec<&str> = quoted.into_iter().take_while(|line| !line.contains("**")).collect();
    if own.is_empty() {
        String::new()
    } else {
        format!("| [{name}](docs/answers/{name}.md) | {} |\n", own.join(" "))
    }
}

#[test]
fn the_answers_of_the_readme_are_those_of_the_reports() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = fs::read_dir(root.join("docs/answers"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = files
        .filter(|path| path.extension().is_some_and(|end| end == "md"))
        .collect();
    files.sort();
    let reports: Vec<(String, String)> = files
        .iter()
        .map(|file| {
            (
                file.file_stem().unwrap().display().to_string(),
                fs::read_to_string(file).unwrap(),
            )
        })
        .collect();
    let all = |of: fn(&str, &str) -> String| {
        let bare = reports.iter().filter(|(name, _)| !is_application(name));
        bare.map(|(name, report)| of(name, report)).collect::<String>()
    };
    let kept = fs::read_to_string(root.join("README.md")).unwrap();
    let (before, rest) = kept.split_once(ANSWERS[0]).unwrap();
    let (_, after) = rest.split_once(ANSWERS[1]).unwrap();
    let (figures, own) = (all(figures), all(own_answer));
    let applications = match beside_bare(&reports) {
        rows if rows.is_empty() => rows,
        rows => format!("{APPLICATIONS}{rows}\n"),
    };
    let more = "Some experiments ask more than which transport to choose:\n\n| experiment | answer |\n|---|---|\n";
    let fresh = format!(
        "{before}{}{FIGURES}{figures}\n{applications}{more}{own}{}{after}",
        ANSWERS[0], ANSWERS[1]
    );
    if env::var_os("LASTHOP_GENERATE").is_some() {
        fs::write(root.join("README.md"), &fresh).unwrap();
    } else {
        assert!(kept == fresh, "README.md's answers are stale; run script/generate");
    }
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

/// Tables and examples are as wide as they are.
#[test]
fn documents_are_wrapped_at_120() {
    let mut wide = Vec::new();
    for file in documents() {
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

/// Names of all tests of the workspace, and those of the parts of `script/attack` as `only=PART`.
fn tests() -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let test = Regex::new(r"#\[test\]\s*(?:(?:#\[[^\n]*\]|//[^\n]*)\s*)*fn (\w+)\(").unwrap();
    let part = Regex::new(r#"Part \{\s*name: "(\w+)""#).unwrap();
    let mut names = BTreeSet::new();
    let mut folders = vec![root.join("tests"), root.join("crates"), root.join("src")];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                let text = fs::read_to_string(&path).unwrap();
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
