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
    decision::{Advice, Decision},
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
        ..summarise(&data)
    };
    let render = |format| lasthop_report::render(&summary, &Extras::default(), format, &Default::default());
    agrees(&summary, &render(Format::Json));
    Told {
        answer: answer_of(&summary, group, speed(&data))
            .unwrap_or_else(|| panic!("{} answers nothing: remove it", record.display())),
        page: render(Format::Markdown),
        picture: render(Format::Svg),
    }
}

/// What is decided is what the answer says in words.
fn agrees(summary: &Summary, json: &[u8]) {
    let Decision { advice, perhaps, .. } = summary.decision;
    let start = match (advice, perhaps) {
        (Advice::Use, None) => "Use ",
        (Advice::Use, Some(_)) => "Perhaps ",
        (Advice::Depends, None) => "It depends: ",
        (Advice::Depends, Some(_)) => "Perhaps it depends: ",
        (Advice::Stay, None) => "Stay with ",
        (Advice::Stay, Some(_)) => "Perhaps stay with ",
        (Advice::Same, None) => "It makes no difference: ",
        (Advice::Same, Some(_)) => "Perhaps it makes no difference: ",
        (Advice::Undecided, _) => "Undecided: ",
        (Advice::None, _) => "No answer: ",
    };
    let said: serde_json::Value = serde_json::from_slice(json).unwrap();
    let lines = said["answer"].as_array().unwrap();
    let mut lines = lines.iter().map(|line| line.as_str().unwrap());
    let name = &summary.experiment;
    assert!(
        summary.overload.is_some() || lines.any(|line| line.starts_with(start)),
        "{name}: {start}: {}",
        said["answer"]
    );
    println!("{name}: {start}");
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
fn rows(name: &str, page: &str, answers: &Answers) -> String {
    let Some(answer) = answers.get(name) else {
        return rows_of_page(name, page);
    };
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

/// The rows of an experiment that has no record yet, from its page: the largest and the smallest ratio, of the first
/// alternative in all settings, or of all alternatives in the only one.
fn rows_of_page(name: &str, report: &str) -> String {
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
fn beside_bare(pages: &BTreeMap<String, String>, answers: &Answers) -> String {
    let ratios = |rows: &str| {
        let cells = rows.lines().map(|row| row.split(" | ").nth(3).unwrap());
        cells.collect::<Vec<_>>().join(", ")
    };
    let mut all = String::new();
    for (name, page) in pages.iter().filter(|(name, _)| is_application(name)) {
        let bare = Catalog::default().load(name).unwrap().link.to;
        let beside = pages.get(&bare).map(|page| ratios(&rows(&bare, page, answers)));
        let beside = beside.map(|ratios| format!("[{ratios}](docs/answers/{bare}.md)"));
        for row in rows(name, page, answers).lines() {
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

/// What an experiment asks besides which transport to choose.
fn own_answer(name: &str, page: &str, answers: &Answers) -> String {
    let own: Vec<String> = match answers.get(name) {
        Some(answer) => answer.asked.iter().map(|line| text::markdown(line)).collect(),
        None => {
            let quoted: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("> ")).collect();
            assert!((1..=7).contains(&quoted.len()), "{name}: {quoted:?}");
            let own = quoted.into_iter().take_while(|line| !line.contains("**"));
            own.map(str::to_owned).collect()
        }
    };
    if own.is_empty() {
        String::new()
    } else {
        let named = answers.get(name).map_or_else(|| name.to_owned(), Answer::named);
        format!("| [{named}](docs/answers/{name}.md) | {} |\n", own.join(" "))
    }
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

/// README has the tables of these answers, and of the pages that have no record yet.
fn readme(answers: &Answers) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let pages: BTreeMap<String, String> = files(&docs(), ".md")
        .into_iter()
        .map(|(name, path)| (name, fs::read_to_string(path).unwrap()))
        .collect();
    let all = |of: fn(&str, &str, &Answers) -> String| {
        let bare = pages.iter().filter(|(name, _)| !is_application(name));
        bare.map(|(name, page)| of(name, page, answers)).collect::<String>()
    };
    let on_disk = fs::read_to_string(root.join("README.md")).unwrap();
    let kept = headed(&on_disk, answers);
    let (before, rest) = kept.split_once(ANSWERS[0]).unwrap();
    let (_, after) = rest.split_once(ANSWERS[1]).unwrap();
    let (figures, own) = (all(rows), all(own_answer));
    let applications = match beside_bare(&pages, answers) {
        rows if rows.is_empty() => rows,
        rows => format!("{APPLICATIONS}{rows}\n"),
    };
    let more = "Some experiments ask more than which transport to choose:\n\n| experiment | answer |\n|---|---|\n";
    let page = if answers.answers.is_empty() {
        ""
    } else {
        "[What the last hop costs](docs/findings.md) puts these together ([one file](docs/findings.html)).\n\n"
    };
    let fresh = format!(
        "{before}{}{page}{FIGURES}{figures}\n{applications}{more}{own}{}{after}",
        ANSWERS[0], ANSWERS[1]
    );
    keep(&root.join("README.md"), fresh.as_bytes());
}
