//! Reports for other tools: what `docs/formats.md` shows runs, and a job of GitHub Actions gets its page.

use crate::common;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use common::{Lasthop, have, list, needs, one_line, output, words};

const RUN: &str = "run sockets --only pattern=echo --rounds 3 --budget 60s --blocks 4 --no-headroom --quiet";

/// The blocks of the page in a language, without prompts.
fn blocks(language: &str) -> Vec<String> {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/formats.md")).unwrap();
    let blocks = page.split("```").skip(1).step_by(2);
    blocks
        .filter_map(|block| Some(block.strip_prefix(language)?.trim_start().to_owned()))
        .collect()
}

/// Where `script/setup` puts what only readers of reports need.
fn tools() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("target/tools/bin")
}

pub fn execute(lasthop: &Lasthop, program: &str, arguments: &[&str]) -> Output {
    let bin = lasthop.home().join("bin");
    if fs::create_dir(&bin).is_ok() {
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_lasthop"), bin.join("lasthop")).unwrap();
    }
    let path = format!(
        "{}:{}:{}",
        bin.display(),
        tools().display(),
        std::env::var("PATH").unwrap()
    );
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env("PATH", path)
        .env("LASTHOP_HOME", lasthop.home())
        .current_dir(lasthop.home());
    command.env_remove("GITHUB_STEP_SUMMARY");
    command.output().unwrap()
}

#[test]
fn the_lines_of_the_page_run() {
    needs!(have("jq"), have("python3"));
    let lasthop = Lasthop::new();
    lasthop.run(RUN.split(' ')).ok();
    let consoles = blocks("console");
    let lines = consoles
        .iter()
        .flat_map(|text| text.lines())
        .filter_map(|line| line.strip_prefix("$ "));
    let mut with_jq = 0;
    for line in lines.filter(|line| line.contains("| jq ")) {
        let output = execute(&lasthop, "bash", &["-o", "pipefail", "-c", line]);
        let printed = String::from_utf8(output.stdout).unwrap();
        let judges = line.contains("jq -e");
        assert!(
            judges || output.status.success(),
            "{line}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(
            !judges || ["true\n", "false\n"].contains(&&printed[..]),
            "{line}: {printed}"
        );
        if line.contains("@tsv") {
            assert!(
                printed.lines().count() == 2 && printed.contains("unix/") | printed.contains("unix\t"),
                "{printed}"
            );
        }
        with_jq += 1;
    }
    assert_eq!(with_jq, 4);
    let python = |with: &str| {
        let all = blocks("python");
        let text = all.iter().find(|text| text.contains(with)).unwrap();
        let output = execute(&lasthop, "python3", &["-c", text]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(python("csv.DictReader").lines().count(), 3, "a line for each case");
    if have(tools().join("uvx").to_str().unwrap()) {
        let described = python("import pandas");
        assert!(described.contains("unix") && described.contains("50%"), "{described}");
    }
    if have(tools().join("benchstat").to_str().unwrap()) {
        let lines = consoles
            .iter()
            .flat_map(|text| text.lines())
            .filter_map(|line| line.strip_prefix("$ "));
        for line in lines.filter(|line| line.contains("last.txt")) {
            let output = execute(&lasthop, "bash", &["-o", "pipefail", "-c", line]);
            let printed = String::from_utf8(output.stdout).unwrap();
            assert!(
                output.status.success(),
                "{line}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
            let compares = line.starts_with("benchstat");
            assert!(
                !compares
                    || ["req/s", "tcp", "unix", "vs base"]
                        .iter()
                        .all(|word| printed.contains(word)),
                "{printed}"
            );
        }
    }
}

#[test]
fn rows_of_trials_are_as_many_as_recorded() {
    let lasthop = Lasthop::new();
    lasthop.run(RUN.split(' ')).ok();
    let summary = lasthop.run(["report", "last", "--format", "json"]).ok().json();
    let cases = list(&summary["cases"]);
    let trials: u64 = cases.iter().map(|case| case["trials"].as_u64().unwrap()).sum();
    let rows = lasthop.run(["report", "last", "--format", "trials"]).ok().stdout;
    assert_eq!(rows.lines().count() as u64, trials + 1, "and a header");
}

#[test]
fn a_job_gets_every_report_on_its_page() {
    let lasthop = Lasthop::new();
    let page = lasthop.home().join("page.md");
    fs::write(&page, "before\n").unwrap();
    let job = |arguments: &[&str]| {
        output(lasthop.command(arguments).env("GITHUB_STEP_SUMMARY", &page));
        fs::read_to_string(&page).unwrap()
    };
    let first = job(&words(RUN));
    assert!(
        first.starts_with("before\n## ") && first.contains("\n\nsockets: "),
        "{first}"
    );
    for part in [
        "| transport |",
        "<details><summary>Environment</summary>",
        "lasthop run sockets",
        "--seed ",
    ] {
        assert!(first.contains(part), "{part} is missing: {first}");
    }
    let second = job(&["report", "last", "--format", "json"]);
    assert_eq!(second.matches("\n\nsockets: ").count(), 2);
    let output = lasthop
        .command(["report", "last"])
        .env("GITHUB_STEP_SUMMARY", "/nowhere/page")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot write /nowhere/page"));
}

#[test]
fn the_same_record_gives_the_same_report() {
    let lasthop = Lasthop::new();
    let first = lasthop.brief(
        "sockets",
        &["--only", "transport=unix,tcp", "--set", "pattern=echo", "--seed", "7"],
    );
    let again = lasthop.run(["report", "last", "--format", "json"]).ok().json();
    assert_eq!(first, again);
    assert_eq!(first["seed"], 7);
}

#[test]
fn every_format_is_rendered_from_a_record() {
    let lasthop = Lasthop::new();
    lasthop.brief("sockets", &["--only", "transport=unix,tcp", "--set", "pattern=echo"]);
    let terminal = lasthop.run(["report"]).ok().stdout;
    assert!(terminal.contains("unix") && !terminal.contains('\u{1b}'), "{terminal}");
    assert!(terminal.lines().all(|line| line.chars().count() <= 80), "{terminal}");
    let markdown = lasthop.run(["report", "--format", "markdown"]).ok().stdout;
    assert!(markdown.contains("| unix"), "{markdown}");
    let csv = lasthop.run(["report", "--format", "csv"]).ok().stdout;
    assert!(csv.lines().count() > 2, "{csv}");
    let file = lasthop.home().join("out.md");
    let ran = lasthop
        .run(["report", "--format", "markdown", "--output", file.to_str().unwrap()])
        .ok();
    assert_eq!(ran.stdout, "");
    assert_eq!(fs::read_to_string(file).unwrap(), markdown);
}

#[test]
fn a_load_without_replies_has_columns_of_its_own() {
    let lasthop = Lasthop::new();
    lasthop.brief("datagrams", &["--only", "receiver=lasthop", "--only", "reader=1ms"]);
    let report = lasthop.run(["report", "last", "--verbose"]).ok().stdout;
    for text in [
        "received/s",
        "sent/s",
        "lost",
        "never arrived",
        "the time that a send took",
        "services per sent",
    ] {
        assert!(one_line(&report).contains(text), "{text}: {report}");
    }
    let table = lasthop.run(["report", "last", "--format", "csv"]).ok().stdout;
    let columns = "sent_per_s,lost_share,dropped,waited_share,cpu_per_sent_us";
    assert!(table.lines().next().unwrap().contains(columns), "{table}");
}
