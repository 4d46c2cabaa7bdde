//! The kept answers: `docs/answers/records` has the records, from which the pages beside it, `answers.json`, and what README
//! shows are made. An experiment whose record is not there yet keeps the page that it has. `docs/answers/runs` has what is
//! left of older runs, with which those of the records are pooled.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    thread,
};

use lasthop_analyse::{
    answers::{
        Answer, Answers,
        runs::{KeptRun, pool},
        speed,
    },
    summarise,
    summary::Summary,
};
use lasthop_page::text;
use lasthop_plan::catalog::Catalog;
use lasthop_record::RunData;
use lasthop_report::{
    Extras, Format,
    answers::{Compared, advise, answer_of, compared, lead, of_machine},
};
use lasthop_repro::outcome::Repetition;
use regex::{Captures, Regex};
use serde::Deserialize;

use crate::common::{installed, needs, skip};

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

/// What a kept record says, as an answer, in a terminal and as a page.
struct KeptAnswer {
    answer: Answer,
    summary: Summary,
    terminal: String,
    page: String,
    picture: Vec<u8>,
}

fn kept_answer(record: &Path, group: &str) -> KeptAnswer {
    let data = unpacked(record);
    let mut summary = Summary {
        word: data.header.run.clone(),
        // Of the experiment as it is now, so that its words are tried.
        template: Catalog::default().load(&data.header.experiment.name).unwrap().answer,
        ..summarise(&data)
    };
    // The published ranges follow from this record, too.
    summary.comparisons.iter_mut().for_each(|one| one.published = None);
    let render = |format| lasthop_report::render(&summary, &Extras::default(), format, &Default::default());
    let page = String::from_utf8(render(Format::Markdown)).unwrap();
    assert!(!page.contains("cannot be written"), "{page}");
    KeptAnswer {
        answer: answer_of(&summary, group, speed(&data))
            .unwrap_or_else(|| panic!("{} answers nothing: remove it", record.display())),
        terminal: String::from_utf8(render(Format::Terminal)).unwrap(),
        page,
        picture: render(Format::Svg),
        summary,
    }
}

/// By name of the experiment.
fn all_kept() -> BTreeMap<String, KeptAnswer> {
    let catalog = Catalog::default();
    let group = |name: &str| catalog.load(name).unwrap().group;
    let records = files(&docs().join("records"), ".tar.xz").into_iter();
    let records: Vec<(String, PathBuf, String)> = records
        .map(|(name, record)| (name.clone(), record, group(&name)))
        .collect();
    let tell = |(name, record, group): &(String, PathBuf, String)| (name.clone(), kept_answer(record, group));
    thread::scope(|scope| {
        let halves = records.chunks(records.len().div_ceil(2).max(1));
        let workers: Vec<_> = halves
            .map(|half| scope.spawn(move || half.iter().map(tell).collect::<Vec<_>>()))
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    })
}

/// What is left of older runs, by name of the experiment.
fn older_runs() -> BTreeMap<String, Vec<KeptRun>> {
    let read = |path: &Path| {
        let text = fs::read_to_string(path).unwrap();
        let runs = text.lines().map(serde_json::from_str);
        runs.collect::<Result<_, _>>()
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let files = files(&docs().join("runs"), ".jsonl");
    files.into_iter().map(|(name, path)| (name, read(&path))).collect()
}

#[test]
fn pages_and_answers_are_those_of_the_records() {
    needs!(installed("xz"));
    let kept = all_kept();
    let older = older_runs();
    let mut all: Vec<Answer> = kept.values().map(|one| one.answer.clone()).collect();
    pool(&mut all, &older);
    for ((name, one), answer) in kept.iter().zip(&mut all) {
        assert_eq!(*name, answer.experiment);
        advise(answer, &one.summary);
        keep(&docs().join(format!("{name}.md")), page(&one.page, answer).as_bytes());
        let picture = docs().join(format!("{name}.svg"));
        if picture.exists() {
            keep(&picture, &one.picture);
        }
    }
    let answers = Answers::of(all);
    keep(&docs().join("answers.json"), &text::json(&answers));
    let schema: serde_json::Value = schemars::schema_for!(Answers).to_value();
    let value = serde_json::to_value(&answers).unwrap();
    assert!(jsonschema::is_valid(&schema, &value));
    readme(&answers, &older, &kept["sockets"].terminal);
    overloads();
    studies();
    findings();
}

/// The report of a run, and below its first line what it says together with the other runs.
fn page(report: &str, answer: &Answer) -> String {
    let Some(lead) = lead(answer) else {
        return report.to_owned();
    };
    let (first, rest) = report.split_once("\n\n").unwrap();
    format!(
        "{first}\n\nThis page is one run. Together with the others: **{}** {lead}\n[All settings](../findings.md#every-comparison).\n\n{rest}",
        answer.advice[0]
    )
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
    let has_packages = python()
        .args(["-c", "import jinja2, markdown_it, vl_convert"])
        .output()
        .is_ok_and(|output| output.status.success());
    needs!(has_packages || skip("packages of script/findings are missing in target/tools; script/setup installs them"));
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
    needs!(installed("xz"));
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
    all += files(&docs().join("runs"), ".jsonl")
        .values()
        .map(|path| path.metadata().unwrap().len())
        .sum::<u64>();
    assert!(all < 12 << 20, "the records have {all} bytes");
}

/// README's table is between these lines.
const ANSWERS: [&str; 2] = ["<!-- written by script/answers -->\n", "<!-- end of the answers -->\n"];
const FIGURES: &str = "\
| link | Unix socket / TCP | another machine | CPU a request | CPU freed at 1,000/s | sure? |
|---|--:|---|--:|--:|---|
";

/// What `docs/answers/readme.toml` names, and `script/findings` draws, too.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rows {
    row: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    experiment: String,
    setting: String,
    case: String,
}

impl Row {
    fn find<'a>(&self, answers: &'a Answers) -> (&'a Answer, Compared<'a>) {
        let answer = answers.get(&self.experiment).unwrap();
        let found = compared(answer).find(|one| one.setting.name == self.setting && one.case.level == self.case);
        (answer, found.unwrap_or_else(|| panic!("there is no {}", self.name)))
    }

    fn text(&self, answer: &Answer, one: Compared<'_>) -> String {
        let Self { name, experiment, .. } = self;
        let engine = answer.machine.engine.iter().map(|engine| format!(" ({engine})"));
        let elsewhere = one.elsewhere();
        let ratio = if elsewhere.is_some() {
            one.ratio()
        } else {
            format!("{} ({})", one.ratio(), one.ends())
        };
        format!(
            "| [{name}](docs/answers/{experiment}.md){} | {} | {} | {} | {} | {} |\n",
            engine.collect::<String>(),
            ratio,
            elsewhere.as_deref().unwrap_or("–"),
            one.cpu(),
            one.freed().trim_end_matches(" of a CPU"),
            one.sure().text,
        )
    }
}

/// The rows, and what they were measured on.
fn table(answers: &Answers, older: &BTreeMap<String, Vec<KeptRun>>) -> String {
    let rows: Rows = toml::from_str(&fs::read_to_string(docs().join("readme.toml")).unwrap()).unwrap();
    let found: Vec<(&Answer, Compared<'_>)> = rows.row.iter().map(|row| row.find(answers)).collect();
    let pooled = rows.row.iter().filter_map(|row| older.get(&row.experiment)).flatten();
    let machines = found.iter().map(|(answer, _)| &answer.machine);
    let machines = machines.chain(pooled.map(|run| &run.machine)).map(of_machine);
    let machines: Vec<String> = machines.collect::<BTreeSet<_>>().into_iter().collect();
    let machines = machines.join(",\nand on ");
    let rows = rows.row.iter().zip(found);
    let rows: String = rows.map(|(row, (answer, one))| row.text(answer, one)).collect();
    let legend = "Another machine: the range that should hold its ratio, from three runs or more; it
[held about nine in ten](docs/methodology/statistics.md#answers-of-several-runs) of those that we checked.";
    format!("{FIGURES}{rows}\n{legend}\nMeasured on {machines}.\n").replace(lasthop_page::units::NBSP, " ")
}

/// README with the head of the default run's report below its command: the answer, the table and the conditions.
fn sampled(readme: &str, report: &str) -> String {
    let head = report.split("\n\n").take(3).collect::<Vec<_>>().join("\n\n");
    assert!(head.starts_with("Use ") && head.contains("  TCP: "), "{head}");
    let sample = Regex::new(r"(?s)(\n\$ cargo run --profile quick[^\n]*\n).*?(\n…\n```\n)").unwrap();
    assert!(sample.is_match(readme));
    let sampled = sample.replace(readme, |found: &Captures<'_>| {
        format!("{}{head}{}", &found[1], &found[2])
    });
    sampled.into_owned()
}

/// README shows these answers, and what the default run found.
fn readme(answers: &Answers, older: &BTreeMap<String, Vec<KeptRun>>, first: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let kept = sampled(&fs::read_to_string(&path).unwrap(), first);
    let (before, rest) = kept.split_once(ANSWERS[0]).unwrap();
    let (_, after) = rest.split_once(ANSWERS[1]).unwrap();
    let fresh = format!("{before}{}{}{}{after}", ANSWERS[0], table(answers, older), ANSWERS[1]);
    keep(&path, fresh.as_bytes());
}
