//! What a reader is told of runs with a known truth.

use lasthop_load::spec::Transport;
use textwrap::core::display_width;

use super::*;
use crate::{
    analyse::{
        across::{
            beside::beside,
            diff::{Diff, diff},
        },
        testing::{self, TCP, Truth, UNIX},
    },
    record::data::RunData,
};

const TLS: Truth = Truth { transport: Transport::Tls, rate: 15_000.0, service_cpu_us: 30.0 };

fn run(name: &str, truths: &[Truth]) -> RunData {
    let mut data = testing::run(truths, 6, 5);
    data.header.run = name.to_owned();
    data
}

/// Against a run of all three.
fn against(new: &[Truth]) -> Diff {
    let mut new = run("new", new);
    new.environment.as_mut().unwrap().kernel = "6.19".to_owned();
    diff(&run("old", &[TCP, UNIX, TLS]), &new).unwrap()
}

fn told(result: &impl Told, format: Format) -> String {
    let everything = Options { verbose: true, ..Options::default() };
    String::from_utf8(render(result, format, &everything)).unwrap()
}

fn answer(diff: &Diff) -> Vec<String> {
    let lines = diff.answer();
    assert!((1..=3).contains(&lines.len()), "{lines:?}");
    lines.iter().map(|line| line.to_string().replace(NBSP, " ")).collect()
}

#[test]
fn the_same_twice_is_said_in_two_lines() {
    let same = answer(&against(&[TCP, UNIX, TLS]));
    assert_eq!(same, ["Nothing changed beyond ±2 %: each ratio is what it was.", "What differs: kernel."]);
}

#[test]
fn a_change_is_said_with_what_it_was() {
    let slower = Truth { rate: 23_400.0, ..UNIX };
    let said = answer(&against(&[TCP, slower, TLS])).remove(0);
    assert!(said.starts_with("The Unix socket's advantage over TCP shrank from 1.3"), "{said}");
    assert!(said.contains(" times the requests/s (−10") && said.contains("95 % interval −1"), "{said}");
    let faster = Truth { rate: 18_000.0, ..TLS };
    let said = answer(&against(&[TCP, slower, faster])).remove(0);
    let lead = "2 of 4 ratios changed, this one most: TLS over TCP's disadvantage against TCP shrank from 0.7";
    assert!(said.starts_with(lead), "{said}");
    let behind = Truth { rate: 18_000.0, ..UNIX };
    let said = answer(&against(&[TCP, behind, TLS])).remove(0);
    assert!(said.starts_with("The Unix socket lost to TCP and went from 1.305 to 0.904 times"), "{said}");
}

#[test]
fn a_slower_machine_is_no_change_of_a_ratio() {
    let half = |truth: Truth| Truth { rate: truth.rate / 2.0, ..truth };
    let said = answer(&against(&[half(TCP), half(UNIX), half(TLS)]));
    assert!(said[0].starts_with("Nothing changed"), "{said:?}");
    assert!(said[1].starts_with("Every case is slower than before, with 0.50 to 0.50 times"), "{said:?}");
}

#[test]
fn lines_fit_and_foreign_text_stays_text() {
    let (mut old, mut new) = (run("old", &[TCP, UNIX]), run("<script>alert(1)</script>\u{202e}", &[TCP, UNIX, TLS]));
    for (data, host) in [(&mut old, "one"), (&mut new, "</p><img src=x>")] {
        data.environment.as_mut().unwrap().host = host.to_owned();
    }
    let diff = diff(&old, &new).unwrap();
    let several = beside(&[old, new]).unwrap();
    for (terminal, page) in [
        (told(&diff, Format::Terminal), told(&diff, Format::Html)),
        (told(&several, Format::Terminal), told(&several, Format::Html)),
    ] {
        assert!(terminal.lines().all(|line| display_width(line) <= 80), "{terminal}");
        assert!(!terminal.contains('\u{202e}') && !terminal.contains("NaN"), "{terminal}");
        assert!(!page.contains("<script>alert") && !page.contains("<img") && page.contains("class=\"forest\""));
    }
    assert!(told(&diff, Format::Terminal).contains("only in the new run: tls"));
    for (format, lines) in [(Format::Markdown, 20), (Format::Csv, 10), (Format::Svg, 10)] {
        assert!(
            told(&diff, format).lines().count() > lines && told(&several, format).lines().count() > 3,
            "{format:?}"
        );
    }
}
