//! Reports of runs with a known truth.

use lasthop_analyse::{
    across::{
        diff::{Diff, diff},
        fleet::{Fleet, Member, NoFleet, fleet},
    },
    testing::{self, TCP, Truth, UNIX},
};
use lasthop_record::data::RunData;
use lasthop_trial::address::Transport;
use textwrap::core::display_width;

use super::*;
use crate::agreement::contradictions_within_rows;

const TLS: Truth = Truth {
    transport: Transport::Tls,
    rate: 15_000.0,
    service_cpu_us: 30.0,
};

fn run(name: &str, truths: &[Truth]) -> RunData {
    let mut data = testing::run(truths, 6, 5);
    data.header.run = name.to_owned();
    data
}

/// A diff between this run and a run of all three.
fn against(new: &[Truth]) -> Diff {
    let mut new = run("new", new);
    new.environment.as_mut().unwrap().kernel = "6.19".to_owned();
    diff(&run("old", &[TCP, UNIX, TLS]), &new).unwrap()
}

fn rendered(result: &impl Reportable, format: Format) -> String {
    let everything = Options {
        verbose: true,
        ..Options::default()
    };
    String::from_utf8(render(result, format, &everything)).unwrap()
}

fn answer(diff: &Diff) -> Vec<String> {
    let lines = diff.parts().answer;
    assert!((1..=3).contains(&lines.len()), "{lines:?}");
    lines.iter().map(|line| line.to_string().replace(NBSP, " ")).collect()
}

#[test]
fn the_same_twice_is_said_in_two_lines() {
    let same = answer(&against(&[TCP, UNIX, TLS]));
    assert_eq!(same, ["Nothing changed.", "What differs: kernel."]);
}

#[test]
fn a_change_is_named_and_the_table_says_how_large_it_is() {
    let slower = Truth { rate: 23_400.0, ..UNIX };
    let diff = against(&[TCP, slower, TLS]);
    assert_eq!(
        answer(&diff),
        [
            "Changed: the Unix socket against TCP.",
            "Requests/s: 1.305 → 1.175 times, unix against tcp.",
            "What differs: kernel."
        ]
    );
    let page = rendered(&diff, Format::Markdown);
    let mut rows = page.lines().filter(|line| line.starts_with("| unix |"));
    assert!(rows.next().unwrap().starts_with("| unix | 1.3"), "{page}");
    let faster = Truth { rate: 18_000.0, ..TLS };
    let said = answer(&against(&[TCP, slower, faster]));
    assert_eq!(said[0], "Changed: 2 of 4 ratios.");
}

#[test]
fn cpu_time_is_told_as_what_is_saved_behind_the_throughput() {
    let cheaper = Truth {
        rate: 30_000.0,
        service_cpu_us: 10.0,
        ..UNIX
    };
    let said = answer(&against(&[TCP, cheaper, TLS]));
    let [requests, cpu] =
        ["Requests/s: 1.30", "CPU saved: 30 % → 50 %, unix against tcp."].map(|text| said[1].find(text));
    assert!(requests < cpu && requests.is_some(), "{said:?}");
    let page = rendered(&against(&[TCP, cheaper, TLS]), Format::Markdown);
    assert!(page.contains("| 30 % → 50 % |"), "{page}");
}

/// Old, new and their ratio, as in the tables of a single run.
#[test]
fn old_and_new_divide_to_the_ratio_beside_them() {
    let slower = Truth { rate: 23_400.0, ..UNIX };
    for unix in [UNIX, slower] {
        let page = rendered(&against(&[TCP, unix, TLS]), Format::Markdown);
        assert!(page.contains("| old requests/s | new requests/s | new/old |"), "{page}");
        let wrong = contradictions_within_rows(&page, &["new/old", "95 % interval"]);
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}

#[test]
fn a_slower_machine_is_no_change_of_a_ratio() {
    let half = |truth: Truth| Truth {
        rate: truth.rate / 2.0,
        ..truth
    };
    let said = answer(&against(&[half(TCP), half(UNIX), half(TLS)]));
    assert_eq!(said[0], "Every case is slower; no ratio is known to have changed.");
}

#[test]
fn lines_fit_and_foreign_text_stays_text() {
    let (mut old, mut new) = (
        run("old", &[TCP, UNIX]),
        run("<script>alert(1)</script>\u{202e}", &[TCP, UNIX, TLS]),
    );
    for (data, host) in [(&mut old, "one"), (&mut new, "</p><img src=x>")] {
        data.environment.as_mut().unwrap().host = host.to_owned();
    }
    let diff = diff(&old, &new).unwrap();
    let several = together(&[old, new], &[]).unwrap();
    for (terminal, page) in [
        (rendered(&diff, Format::Terminal), rendered(&diff, Format::Html)),
        (rendered(&several, Format::Terminal), rendered(&several, Format::Html)),
    ] {
        assert!(terminal.lines().all(|line| display_width(line) <= 80), "{terminal}");
        assert!(
            !terminal.contains('\u{202e}') && !terminal.contains("NaN"),
            "{terminal}"
        );
        assert!(!page.contains("<script>alert") && !page.contains("<img") && page.contains("class=\"forest\""));
    }
    assert!(rendered(&diff, Format::Terminal).contains("only in the new run: tls"));
    for (format, lines) in [(Format::Markdown, 20), (Format::Csv, 10), (Format::Svg, 10)] {
        assert!(
            rendered(&diff, format).lines().count() > lines && rendered(&several, format).lines().count() > 3,
            "{format:?}"
        );
    }
}

/// A run on a machine of a kind.
fn machine(name: &str, kind: &str, unix: f64) -> RunData {
    let mut data = run(name, &[TCP, Truth { rate: unix, ..UNIX }]);
    data.header.labels = [("machine", name), ("instance", kind)]
        .map(|(name, value)| (name.into(), value.into()))
        .into();
    data
}

fn together(runs: &[RunData], by: &[&str]) -> Result<Fleet, NoFleet> {
    let by: Vec<String> = by.iter().map(|name| (*name).to_owned()).collect();
    fleet(runs.iter().cloned().map(Member::of).collect(), &by)
}

fn said(fleet: &Fleet) -> Vec<String> {
    fleet
        .parts()
        .answer
        .iter()
        .map(|line| line.to_string().replace(NBSP, " "))
        .collect()
}

#[test]
fn machines_that_are_alike_have_one_answer() {
    let runs = [26_000.0, 26_050.0, 25_950.0].map(|rate| machine(&format!("m{rate}"), "one", rate));
    let fleet = together(&runs, &[]).unwrap();
    let said = said(&fleet);
    assert_eq!(said[0], "Use the Unix socket.");
    assert!(
        said[1].starts_with("No difference between machines was found; one of up to ±"),
        "{said:?}"
    );
    assert_eq!((said.len(), fleet.by.len(), fleet.kinds.len()), (2, 0, 1), "{said:?}");
    let declared = fleet.comparisons.iter().find(|one| one.declared).unwrap();
    let mean = declared.mean.unwrap();
    assert!(mean.low < 1.3 && 1.3 < mean.high && mean.high < 1.4, "{mean:?}");
}

#[test]
fn kinds_that_differ_are_named_with_their_means() {
    let rates = [
        ("a", "x", 26_000.0),
        ("b", "x", 26_100.0),
        ("c", "y", 39_000.0),
        ("d", "y", 39_200.0),
    ];
    let runs = rates.map(|(name, kind, rate)| machine(name, kind, rate));
    let by_label = together(&runs, &[]).unwrap();
    let said = said(&by_label);
    assert_eq!(said[1], "How large the difference is depends on the machine.");
    assert_eq!(said[2], "Kinds of machines differ (instance).");
    let page = rendered(&by_label, Format::Html);
    assert!(
        rates
            .iter()
            .all(|(name, _, _)| page.contains(&format!("<th scope=\"row\">{name}</th>"))),
        "{page}"
    );
    let terminal = rendered(&by_label, Format::Terminal);
    assert!(
        terminal.lines().all(|line| display_width(line) <= 80) && !terminal.contains("NaN"),
        "{terminal}"
    );
    let has = |name: &str, ratio: &str| {
        let mut rows = terminal.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        rows.any(|row| row.first() == Some(&name) && row.contains(&ratio))
    };
    for (name, ratio) in [("a", "1.30"), ("d", "1.95"), ("x", "1.30"), ("y", "1.95")] {
        assert!(has(name, ratio), "{name}: {terminal}");
    }
    let csv = rendered(&by_label, Format::Csv);
    let scopes = |scope: &str| {
        csv.lines()
            .filter(|line| line.starts_with(scope) && line.contains(",throughput,"))
            .count()
    };
    assert_eq!((scopes("machine"), scopes("kind"), scopes("all")), (4, 2, 1), "{csv}");
}

#[test]
fn machines_that_contradict_each_other_are_not_averaged_away() {
    let runs = [("a", 26_000.0), ("b", 26_000.0), ("c", 14_000.0)].map(|(name, rate)| machine(name, "x", rate));
    let said = said(&together(&runs, &[]).unwrap());
    assert_eq!(said[0], "It depends on the machine or the setting.");
}

#[test]
fn runs_of_one_machine_are_told_as_runs() {
    let runs = ["a", "b", "c"].map(|name| run(name, &[TCP, UNIX]));
    let of_runs = together(&runs, &[]).unwrap();
    let said = said(&of_runs);
    assert_eq!(said[0], "Use the Unix socket.");
    assert!(said[1].starts_with("No difference between runs was found"), "{said:?}");
    let terminal = rendered(&of_runs, Format::Terminal);
    assert!(
        terminal.contains("All runs") && !terminal.contains("machine"),
        "{terminal}"
    );
}

#[test]
fn a_case_has_a_row_for_each_declared_metric() {
    let closed = ["a", "b"].map(|name| machine(name, "x", 26_000.0));
    let open = ["c", "d"].map(|name| testing::at_rate(machine(name, "x", 26_000.0), 1_000.0));
    let terminal = rendered(&together(&[closed, open].concat(), &[]).unwrap(), Format::Terminal);
    let all = &terminal[terminal.find("All machines").unwrap()..];
    assert!(
        all.contains(", requests/s") && all.contains(", median response time"),
        "{terminal}"
    );
}

#[test]
fn machines_of_about_as_many_cpus_are_of_one_kind() {
    let of = |name, cpus| {
        let mut run = machine(name, "x", 26_000.0);
        run.environment.as_mut().unwrap().cpus = cpus;
        run
    };
    let fleet = together(&[of("a", 2), of("b", 4), of("c", 16), of("d", 64)], &[]).unwrap();
    let kinds: Vec<(&str, usize)> = fleet
        .kinds
        .iter()
        .map(|kind| (kind.values[0].as_deref().unwrap(), kind.machines))
        .collect();
    assert_eq!(fleet.by, ["size"]);
    assert_eq!(kinds, [("2 to 4 CPUs", 2), ("16 CPUs and more", 2)]);
}

#[test]
fn a_fleet_says_what_it_cannot_know() {
    let runs = [("a", "x"), ("b", "y")].map(|(name, kind)| machine(name, kind, 26_000.0));
    let of_two = said(&together(&runs, &[]).unwrap());
    assert!(
        of_two[2].starts_with("Kinds cannot be told from machines: each has instance of its own."),
        "{of_two:?}"
    );
    let of_one = said(&together(&runs[..1], &[]).unwrap());
    let takes_two = "Whether the answer depends on the machine takes two with a ratio in common.";
    assert_eq!(of_one[1], takes_two);
    let mut apart = runs.clone();
    apart[1] = testing::at_rate(apart[1].clone(), 1_000.0);
    let of_none = said(&together(&apart, &[]).unwrap());
    assert_eq!(of_none[1], takes_two);
    let unknown = together(&runs, &["colour"]).unwrap_err().to_string();
    assert!(
        unknown.starts_with("no record has `colour`: kinds are made of architecture, cpu, size"),
        "{unknown}"
    );
    let twice = [runs[0].clone(), machine("a", "x", 26_000.0)];
    assert!(matches!(together(&twice, &[]), Err(NoFleet::NotAlike(_))));
    let mut again = [twice.to_vec(), vec![runs[1].clone()]].concat();
    again[1].header.run = "later".to_owned();
    let terminal = rendered(&together(&again, &[]).unwrap(), Format::Terminal);
    assert!(
        terminal.contains("a has 2 runs: each counts as a machine"),
        "{terminal}"
    );
}
