//! The text of Go's benchmarks, which `benchstat` reads: a line per trial, so that it has a sample of each case.
//!
//! A case is a benchmark whose name holds its levels: `BenchmarkSockets/transport=unix/pattern=hello-1`, where the last
//! number is the threads of the driver. `benchstat -col /transport` compares transports. It treats trials as
//! independent: it does not know that those of a block are pairs and those of a round share a start, so its intervals
//! are not lasthop's.

use std::fmt::Write as _;

use lasthop_analyse::{
    rows::{QUANTILES, TrialRow},
    summary::{CaseSummary, Summary},
};

use super::units::capital;
use crate::text;

/// Which way is better, where `benchstat` does not know it.
const UNITS: &str = "Unit req/s better=higher\nUnit B/s better=higher\n";
/// Go's names of architectures, where they differ from the kernel's.
const ARCHITECTURES: [(&str, &str); 4] = [
    ("x86_64", "amd64"),
    ("aarch64", "arm64"),
    ("armv7l", "arm"),
    ("i686", "386"),
];

/// The report for `benchstat`.
#[must_use]
pub fn render(summary: &Summary, trials: &[TrialRow]) -> Vec<u8> {
    let mut page = String::new();
    for (key, value) in configuration(summary) {
        let _ = writeln!(page, "{key}: {}", text::line(&value));
    }
    page.push_str(UNITS);
    for trial in trials {
        page.push_str(&line(&name(summary, &summary.cases[trial.case]), trial));
    }
    page.into_bytes()
}

/// What all trials share. `benchstat` compares results whose configurations differ, so nothing here names a moment.
fn configuration(summary: &Summary) -> Vec<(&'static str, String)> {
    let mut all = vec![("pkg", format!("lasthop/{}", summary.experiment))];
    if let Some(environment) = &summary.environment {
        let known = ARCHITECTURES
            .iter()
            .find(|(kernel, _)| *kernel == environment.architecture);
        let architecture = known.map_or(environment.architecture.as_str(), |(_, go)| go);
        all.extend([("goos", "linux".to_owned()), ("goarch", architecture.to_owned())]);
        all.push(("cpu", environment.cpu_model.clone()));
        all.push(("kernel", environment.kernel.clone()));
    }
    all.extend([
        ("link", format!("{} to {}", summary.link.from, summary.link.to)),
        ("lasthop", summary.lasthop.clone()),
    ]);
    all
}

fn name(summary: &Summary, case: &CaseSummary) -> String {
    let levels = case
        .levels
        .iter()
        .map(|(factor, level)| format!("/{}={}", word(factor), word(&level.to_string())));
    let levels: String = if case.levels.is_empty() {
        format!("/{}", word(&case.case))
    } else {
        levels.collect()
    };
    format!(
        "Benchmark{}{levels}-{}",
        capital(&word(&summary.experiment)),
        case.load.threads
    )
}

/// Text as a part of a name, in which spaces and slashes would begin something else.
fn word(text: &str) -> String {
    text::line(text)
        .chars()
        .map(|one| if one.is_whitespace() || one == '/' { '_' } else { one })
        .collect()
}

/// Iterations, then values with their units.
fn line(name: &str, trial: &TrialRow) -> String {
    let mut line = format!(
        "{name} {} {:.1} ns/op {:.1} req/s",
        trial.requests,
        1e9 / trial.rate,
        trial.rate
    );
    for ((_, name), micros) in QUANTILES.iter().zip(trial.latencies.iter().flatten()) {
        let _ = write!(line, " {:.0} {name}-ns", micros * 1e3);
    }
    let _ = writeln!(line, " {:.0} B/s", trial.bytes as f64 / trial.seconds);
    line
}

#[cfg(test)]
mod tests {
    use lasthop_analyse::{rows, summarise, testing};

    use super::*;
    use crate::{Extras, Format, Options, render};

    #[test]
    fn every_line_is_one_that_go_writes() {
        let data = testing::healthy();
        let summary = summarise(&data);
        let trials = rows::rows(&data);
        let extras = Extras {
            trials: trials.clone(),
            ..Extras::default()
        };
        let shown = String::from_utf8(render(&summary, &extras, Format::Benchstat, &Options::default())).unwrap();
        let (results, others): (Vec<&str>, Vec<&str>) = shown.lines().partition(|line| line.starts_with("Benchmark"));
        assert_eq!(results.len(), trials.len());
        for (line, trial) in results.iter().zip(&trials) {
            let fields: Vec<&str> = line.split(' ').collect();
            let case = &summary.cases[trial.case];
            assert!(
                fields[0].contains(&format!("/transport={}", case.levels["transport"])),
                "{line}"
            );
            assert!(
                fields[0].ends_with("-1") && fields[0].as_bytes()[9].is_ascii_uppercase(),
                "{line}"
            );
            assert_eq!(fields[1], trial.requests.to_string());
            let values: Vec<(f64, &str)> = fields[2..]
                .chunks(2)
                .map(|two| (two[0].parse().unwrap(), two[1]))
                .collect();
            let value = |unit: &str| values.iter().find(|(_, one)| *one == unit).unwrap().0;
            assert!((value("ns/op") * value("req/s") / 1e9 - 1.0).abs() < 1e-3, "{line}");
            assert!(value("p50-ns") <= value("max-ns"), "{line}");
        }
        assert!(others.contains(&"Unit req/s better=higher"), "{others:?}");
        let key = |line: &&str| {
            line.split_once(": ")
                .is_some_and(|(key, _)| key.bytes().all(|b| b.is_ascii_lowercase()))
        };
        assert!(
            others.iter().all(|line| key(line) || line.starts_with("Unit ")),
            "{others:?}"
        );
    }

    #[test]
    fn a_level_stays_one_word() {
        assert_eq!(word("a b/c\u{202e}"), "a_b_c\\u{202e}");
    }
}
