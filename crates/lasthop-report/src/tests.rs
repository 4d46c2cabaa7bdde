//! Snapshots of every format for every fixture, and properties of all of them.

use std::collections::{BTreeMap, BTreeSet};

use lasthop_analyse::summary::Check;
use lasthop_model::record::Stopped;
use lasthop_trial::options::Reuse;
use textwrap::core::display_width;

use super::*;
use crate::fixtures;

fn text(summary: &Summary, format: Format) -> String {
    let mut summary = summary.clone();
    summary.decide();
    let everything = Options {
        verbose: true,
        ..Options::default()
    };
    String::from_utf8(render(&summary, &Extras::default(), format, &everything)).expect("reports are UTF-8")
}

/// The default report for a terminal.
#[test]
fn a_report_fits_a_screen() {
    for (name, summary) in fixtures::all() {
        let page = String::from_utf8(render(
            &summary,
            &Extras::default(),
            Format::Terminal,
            &Options::default(),
        ))
        .unwrap();
        assert!(
            // Layers are only there on request, so they may exceed the screen.
            page.lines().count() <= 40 || summary.failures.len() > 1 || summary.explained.is_some(),
            "{name}:\n{page}"
        );
        if !["three_transports", "patterns", "lower_bound"].contains(&name) {
            continue;
        }
        insta::assert_snapshot!(format!("brief_{name}"), page);
    }
}

#[test]
fn terminal_snapshots() {
    for (name, summary) in fixtures::all() {
        insta::assert_snapshot!(format!("terminal_{name}"), text(&summary, Format::Terminal));
    }
}

/// The other formats of the fixtures that show something of their own there.
#[test]
fn snapshots_of_other_formats() {
    let shown = [
        (
            Format::Markdown,
            "markdown",
            &["at_a_rate", "explained", "failed_case"][..],
        ),
        (
            Format::Csv,
            "csv",
            &[
                "at_a_rate",
                "failed_case",
                "lower_bound",
                "patterns",
                "three_transports",
            ][..],
        ),
        (Format::Json, "json", &["three_transports"][..]),
    ];
    let all: BTreeMap<&str, Summary> = fixtures::all().into_iter().collect();
    for (format, title, names) in shown {
        for name in names {
            insta::assert_snapshot!(format!("{title}_{name}"), text(&all[name], format));
        }
    }
}

#[test]
fn json_of_a_failed_case() {
    let json: serde_json::Value = serde_json::from_str(&text(&fixtures::failed_case(), Format::Json)).unwrap();
    let shown = serde_json::json!({"case": json["cases"][2], "failures": json["failures"]});
    insta::assert_snapshot!(serde_json::to_string_pretty(&shown).unwrap());
}

#[test]
fn a_reference_alone_is_compared_with_nothing() {
    let mut summary = fixtures::failed_case();
    let failed = summary.failures[0].case.clone();
    summary.cases.retain(|case| case.reference || case.case == failed);
    summary.comparisons.clear();
    summary.stopped = Stopped::Failed;
    let page = text(&summary, Format::Terminal)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    assert!(page.contains("No answer. "), "{page}");
    assert!(page.contains("stopped: nothing was left to compare"), "{page}");
}

#[test]
fn no_terminal_line_is_wider_than_asked() {
    for width in [40, 60, 80, 100] {
        for (name, summary) in fixtures::all() {
            for color in [false, true] {
                let page = render(
                    &summary,
                    &Extras::default(),
                    Format::Terminal,
                    &Options {
                        color,
                        width,
                        verbose: true,
                        unicode: true,
                    },
                );
                for line in String::from_utf8(page).unwrap().lines() {
                    assert!(display_width(line) <= width, "{name} at {width}: {line:?}");
                }
            }
        }
    }
}

proptest::proptest! {
    /// The page stays within its width, and formatting loses no figure.
    #[test]
    fn any_figures_fit(scale in -4.0f64..7.0, low in 0.01f64..4.0, up in 0.0f64..1.0, further in 0.0f64..1.0) {
        let mut summary = fixtures::three_transports();
        for metrics in summary.cases.iter_mut().filter_map(|case| case.metrics.as_mut()) {
            metrics.throughput.interval.estimate *= 10f64.powf(-scale);
            metrics.cpu_per_request.driver *= 10f64.powf(scale);
            for latency in [&mut metrics.latency_p50, &mut metrics.latency_p99].into_iter().flatten() {
                latency.interval.estimate *= 10f64.powf(scale);
            }
        }
        for comparison in &mut summary.comparisons {
            comparison.ratio = fixtures::interval([low, low + up, low + up + further]);
        }
        let page = text(&summary, Format::Terminal);
        for line in page.lines() {
            proptest::prop_assert!(display_width(line) <= 80, "{line}");
        }
        proptest::prop_assert!(!page.contains("NaN") && !page.contains("inf"));
    }
}

#[test]
fn escape_sequences_appear_only_when_colour_is_asked_for() {
    for (name, summary) in fixtures::all() {
        for (format, ..) in Format::ALL {
            let page = text(&summary, format);
            assert!(!page.contains('\u{1b}'), "{name} as {format:?}");
            assert!(!page.contains('\u{a0}'), "{name} as {format:?} has a no-break space");
        }
        let coloured = render(
            &summary,
            &Extras::default(),
            Format::Terminal,
            &Options {
                color: true,
                width: 80,
                verbose: true,
                unicode: true,
            },
        );
        let coloured = String::from_utf8(coloured).unwrap();
        assert!(coloured.contains("\u{1b}["), "{name} has no colour");
        let plain = anstream::adapter::strip_str(&coloured).to_string();
        let plain: String = plain.lines().map(|line| line.trim_end().to_owned() + "\n").collect();
        assert_eq!(
            plain,
            text(&summary, Format::Terminal),
            "{name}: colour changes the text"
        );
    }
}

#[test]
fn what_must_not_be_used_has_no_verdict_and_no_colour() {
    let summary = fixtures::lower_bound();
    let page = String::from_utf8(render(
        &summary,
        &Extras::default(),
        Format::Terminal,
        &Options {
            color: true,
            width: 80,
            verbose: true,
            unicode: true,
        },
    ))
    .unwrap();
    let plain = anstream::adapter::strip_str(&page).to_string();
    assert!(
        plain.contains("tls: 12 of 432,100 answers had the wrong content"),
        "{plain}"
    );
    assert!(
        !plain.contains("slower") && !plain.contains("TLS over TCP takes"),
        "{plain}"
    );
    let row = page
        .lines()
        .find(|line| line.contains("invalid") && line.contains("tls"))
        .unwrap();
    assert!(row.contains("  invalid  ") && !row.contains("\u{1b}[31m"), "{row:?}");

    // An unusable reference makes the other cases unusable.
    let mut summary = fixtures::lower_bound();
    summary.checks[3].case = Some("tcp/pattern=echo/size=64".into());
    summary.decide();
    assert_eq!(headline(&summary), "No answer");

    let mut summary = fixtures::twelve_cases();
    summary.checks.push(Check {
        case: Some(summary.cases[0].case.clone()),
        ..fixtures::lower_bound().checks[3].clone()
    });
    summary.decide();
    let settings = &summary.decision.settings;
    let counts = [&settings.better, &settings.undecided, &settings.unusable].map(Vec::len);
    assert_eq!(counts, [2, 1, 1]);
    assert_eq!(headline(&summary), "Perhaps the Unix socket: 1.15 to 1.27 times");
}

/// A connection's time with several requests is not the latency of a request.
#[test]
fn the_time_of_several_requests_is_not_called_a_latency() {
    let mut summary = fixtures::three_transports();
    assert!(text(&summary, Format::Markdown).contains("latency p50"));
    for case in &mut summary.cases {
        (case.load.reuse, case.load.requests_per_connection) = (Reuse::PerRequest, 1_024);
    }
    let page = text(&summary, Format::Markdown);
    assert!(
        !page.contains("latency") && page.contains("1,024 requests p50"),
        "{page}"
    );
    assert!(
        page.contains("carries 1,024 requests, p50 and p99 are the time of all of them"),
        "{page}"
    );
}

#[test]
fn no_line_ends_in_space() {
    for (name, summary) in fixtures::all() {
        for line in text(&summary, Format::Terminal).lines() {
            assert_eq!(line, line.trim_end(), "{name}");
        }
    }
}

#[test]
fn json_reads_back_and_fits_its_schema() {
    let validator = jsonschema::validator_for(&schema()).expect("the schema is a schema");
    for (name, summary) in fixtures::all() {
        let json = text(&summary, Format::Json);
        assert!(json.ends_with("}\n"), "{name}");
        let read: Summary = serde_json::from_str(&json).unwrap();
        let said: Vec<String> = answer(&summary)
            .iter()
            .map(|line| line.to_string().replace('\u{a0}', " "))
            .collect();
        assert_eq!(read.answer, said, "{name}");
        assert_eq!(
            Summary {
                answer: vec![],
                word: summary.word.clone(),
                ..read
            },
            summary,
            "{name}"
        );
        let value = serde_json::from_str(&json).unwrap();
        assert!(
            validator.is_valid(&value),
            "{name}: {:?}",
            validator.iter_errors(&value).next()
        );
    }
    assert!(!validator.is_valid(&serde_json::json!({ "schema": "lasthop/1" })));
}

/// Keys that scripts rely on. New keys may be added, but none may disappear.
#[test]
fn json_keeps_the_keys_that_scripts_rely_on() {
    let summary = Summary {
        checks: fixtures::lower_bound().checks,
        ..fixtures::failed_case()
    };
    let json: serde_json::Value = serde_json::from_str(&text(&summary, Format::Json)).unwrap();
    let has = |value: &serde_json::Value, keys: &[&str]| {
        let found: BTreeSet<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
        for key in keys {
            assert!(found.contains(key), "{key} is not among {found:?}");
        }
    };
    let top = [
        "schema",
        "experiment",
        "run",
        "seed",
        "stopped",
        "environment",
        "cases",
        "comparisons",
        "checks",
        "failures",
    ];
    has(&json, &top);
    let case = &json["cases"][0];
    has(
        case,
        &["case", "levels", "reference", "trials", "failed_trials", "metrics"],
    );
    has(
        &case["metrics"],
        &["throughput", "latency_p50", "latency_p99", "cpu_per_request"],
    );
    for metric in ["throughput", "latency_p50", "latency_p99"] {
        has(&case["metrics"][metric], &["unit", "estimate", "low", "high"]);
    }
    has(&case["metrics"]["cpu_per_request"], &["unit", "driver", "roles"]);
    assert_eq!(case["metrics"]["cpu_per_request"]["unit"], "us");
    assert_eq!(json["schema"], "lasthop/1");
    assert_eq!(json["stopped"], "precision");
    assert_eq!(case["levels"]["transport"], "unix");
    has(
        &json["comparisons"][0],
        &["case", "reference", "metric", "ratio", "low", "high", "verdict"],
    );
    has(&json["checks"][0], &["id", "severity", "case", "evidence", "effect"]);
    has(&json["failures"][0], &["case", "stage", "cause", "log"]);
}

/// Numbers of a text, thousands separators removed.
fn numbers(text: &str) -> BTreeSet<String> {
    let pattern = regex::Regex::new(r"[0-9][0-9,]*(\.[0-9]+)?").unwrap();
    pattern
        .find_iter(text)
        .map(|found| found.as_str().replace(',', ""))
        .collect()
}

#[test]
fn terminal_and_markdown_say_the_numbers_of_the_json() {
    for (name, summary) in fixtures::all() {
        let (terminal, markdown) = (
            numbers(&text(&summary, Format::Terminal)),
            numbers(&text(&summary, Format::Markdown)),
        );
        for metrics in summary.cases.iter().filter_map(|case| case.metrics.as_ref()) {
            let rate = match name {
                "stream" => units::significant(metrics.bandwidth.as_ref().unwrap().interval.estimate / 1e6, 3),
                _ => units::significant(metrics.throughput.interval.estimate, 3),
            };
            let rate = rate.replace(',', "");
            assert!(
                terminal.contains(&rate) && markdown.contains(&rate),
                "{name}: {rate} of {terminal:?}"
            );
        }
        for comparison in summary
            .comparisons
            .iter()
            .filter(|c| c.metric == lasthop_analyse::summary::Metric::Throughput)
        {
            let near = |text: &BTreeSet<String>| {
                text.iter()
                    .filter_map(|number| number.parse::<f64>().ok())
                    .any(|n| (n - comparison.ratio.estimate).abs() <= 0.005)
            };
            assert!(
                near(&terminal) && near(&markdown),
                "{name}: ratio {} is not said",
                comparison.ratio.estimate
            );
        }
    }
}

#[test]
fn csv_holds_the_numbers_of_the_json_in_full() {
    for (name, summary) in fixtures::all() {
        let page = text(&summary, Format::Csv);
        let mut lines = page
            .split_terminator("\r\n")
            .map(|line| line.split(',').collect::<Vec<_>>());
        let header = lines.next().unwrap();
        assert_eq!(
            header.len(),
            header.iter().collect::<BTreeSet<_>>().len(),
            "{name}: two columns of one name"
        );
        let rows: Vec<_> = lines.collect();
        assert_eq!(rows.len(), summary.cases.len(), "{name}");
        for (row, case) in rows.iter().zip(&summary.cases) {
            assert_eq!(row.len(), header.len(), "{name}");
            let field = |title: &str| row[header.iter().position(|column| *column == title).unwrap()];
            assert_eq!(field("case"), case.case);
            let rate = case
                .metrics
                .as_ref()
                .map(|metrics| metrics.throughput.interval.estimate);
            assert_eq!(field("throughput_per_s").parse().ok(), rate, "{name}");
        }
    }
}

#[test]
fn headlines() {
    let lines: Vec<String> = fixtures::all()
        .iter()
        .map(|(name, summary)| format!("{name}: {}", headline(summary)))
        .collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn lists() {
    let run = |run: &str, state, headline: &str| RunEntry {
        run: run.into(),
        experiment: "sockets".into(),
        started: "2026-08-01T10:00:00Z".into(),
        when: "2026-08-01 12:00".into(),
        bytes: 345_678,
        state,
        is_own: run != "sockets-20260801-130000",
        headline: headline.into(),
    };
    let runs = [
        run(
            "sockets-20260801-120000",
            RunState::Complete,
            &headline(&fixtures::three_transports()),
        ),
        run("sockets-20260801-130000", RunState::CutOff, "no result"),
        run(
            "sockets-20260801-140000",
            RunState::Unreadable,
            "run.json line 3: unknown field `x`",
        ),
    ];
    let experiments = [
        ExperimentEntry {
            name: "sockets".into(),
            title: "Unix socket, TCP and TLS between two processes".into(),
            group: "raw".into(),
            source: "built-in".into(),
            missing: vec![],
        },
        ExperimentEntry {
            name: "nginx-gunicorn".into(),
            title: "nginx in front of gunicorn".into(),
            group: "web".into(),
            source: "/home/me/nginx-gunicorn".into(),
            missing: vec!["nginx".into(), "gunicorn".into()],
        },
    ];
    let options = Options::default();
    let lists = [false, true]
        .map(|all| experiments_table(&experiments, all, &options))
        .concat();
    let all = [Format::Terminal, Format::Markdown, Format::Csv]
        .map(|format| super::runs(&runs, format, &options))
        .concat();
    let text = [all, lists].concat();
    insta::assert_snapshot!(String::from_utf8(text).unwrap());
}

#[test]
fn a_run_that_died_before_its_first_case_renders() {
    let summary = Summary {
        cases: vec![],
        comparisons: vec![],
        failures: vec![],
        ..fixtures::without_result()
    };
    for (format, ..) in Format::ALL {
        assert!(!render(&summary, &Extras::default(), format, &Options::default()).is_empty());
    }
    assert!(text(&summary, Format::Terminal).contains("No case has a result."));
    assert_eq!(text(&summary, Format::Csv).lines().count(), 1);
}

/// Prints the page for a terminal: `cargo test --lib report::tests::show -- --ignored --nocapture`.
#[test]
#[ignore = "prints for inspection by eye"]
#[expect(clippy::print_stdout, reason = "the only purpose of this test")]
fn show() {
    for (_, summary) in fixtures::all() {
        let page = render(
            &summary,
            &Extras::default(),
            Format::Terminal,
            &Options {
                color: true,
                width: 80,
                verbose: true,
                unicode: true,
            },
        );
        println!("{}", String::from_utf8(page).unwrap());
    }
}
