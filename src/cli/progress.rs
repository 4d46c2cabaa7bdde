//! What a run shows while it goes on: one line on a terminal, sentences where something fails.

use std::{
    io::{IsTerminal, Write},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::{analyse::ProgressLine, run::event::Event};

/// How much is said on standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Talk {
    /// A line that is rewritten.
    Line,
    /// A sentence a round, for logs.
    Sentences,
    /// Only what fails.
    Warnings,
}

impl Talk {
    #[must_use]
    pub fn choose(quiet: bool, no_progress: bool) -> Self {
        match (quiet, no_progress || !std::io::stderr().is_terminal()) {
            (true, _) => Self::Warnings,
            (false, true) => Self::Sentences,
            (false, false) => Self::Line,
        }
    }
}

/// Shows events.
pub struct Progress {
    talk: Talk,
    bar: ProgressBar,
    budget: Duration,
    elapsed: Duration,
    so_far: String,
    shown: Vec<String>,
}

impl Progress {
    #[must_use]
    pub fn new(talk: Talk) -> Self {
        let target = if talk == Talk::Line { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(1), target);
        let style = ProgressStyle::with_template("{bar:16} {msg}").expect("the template is a constant");
        bar.set_style(style.progress_chars("━╸ "));
        Self { talk, bar, budget: Duration::ZERO, elapsed: Duration::ZERO, so_far: String::new(), shown: Vec::new() }
    }

    pub fn show(&mut self, event: &Event<'_>) {
        match event {
            Event::Began { run, cases, budget, .. } => {
                self.budget = *budget;
                self.bar.set_length(milliseconds(*budget));
                let of = if *cases == 1 { "1 case".to_owned() } else { format!("{cases} cases") };
                self.say(&format!("{run}: {of}, at most {}", seconds(*budget)));
            }
            Event::Starting { round, services } => {
                let servers = if *services == 1 { "1 service".to_owned() } else { format!("{services} services") };
                self.bar.set_message(line(
                    *round,
                    &format!("starting {servers}"),
                    self.elapsed,
                    self.budget,
                    &self.so_far,
                ));
            }
            Event::Trial { round, case, elapsed, .. } => {
                self.elapsed = *elapsed;
                self.bar.set_position(milliseconds(*elapsed));
                self.bar.set_message(line(*round, case, *elapsed, self.budget, &self.so_far));
            }
            Event::Instead { because } => self.bar.suspend(|| {
                write(&format!(
                    "images: {because}\n  an image of this machine's own packages is used (--images packages)"
                ));
            }),
            Event::CaseFailed(failure) => self.warn(&failure.case, &failure.stage, &failure.cause),
            Event::Progress { round, elapsed, comparisons } => {
                self.so_far = narrowing(comparisons);
                self.say(&format!("round {} done after {}: {}", round + 1, seconds(*elapsed), self.so_far));
            }
            Event::Ended { elapsed, .. } => {
                self.bar.finish_and_clear();
                self.say(&format!("ended after {}", seconds(*elapsed)));
            }
        }
    }

    /// Each cause once: a service that does not start fails every case and every round.
    fn warn(&mut self, case: &str, stage: &str, cause: &str) {
        if !self.shown.iter().any(|shown| shown == cause) {
            self.shown.push(cause.to_owned());
            self.bar.suspend(|| write(&format!("warning: {case} failed ({stage}): {cause}")));
        }
    }

    fn say(&self, text: &str) {
        if self.talk == Talk::Sentences {
            write(text);
        }
    }
}

fn write(text: &str) {
    // Nothing is left to do when standard error is closed.
    let _ = writeln!(std::io::stderr(), "{text}");
}

fn line(round: u32, case: &str, elapsed: Duration, budget: Duration, so_far: &str) -> String {
    let time = format!("{:.0}/{:.0} s", elapsed.as_secs_f64(), budget.as_secs_f64());
    if so_far.is_empty() { format!("{time}  round {}  {case}", round + 1) } else { format!("{time}  {so_far}") }
}

/// The widest interval leads: it decides when the run may stop.
fn narrowing(comparisons: &[ProgressLine]) -> String {
    let known = comparisons.iter().filter_map(|line| Some((&line.case, line.ratio?)));
    let Some((case, ratio)) = known.max_by(|a, b| a.1.log_half_width().total_cmp(&b.1.log_half_width())) else {
        return "nothing to compare yet".to_owned();
    };
    let others = match comparisons.len() - 1 {
        0 => String::new(),
        more => format!(", {more} more narrower"),
    };
    format!("{case} {:.3} ±{:.1} %{others}", ratio.estimate, ratio.log_half_width() * 100.0)
}

fn milliseconds(duration: Duration) -> u64 {
    duration.as_millis() as u64
}

fn seconds(duration: Duration) -> String {
    format!("{:.0} s", duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use lasthop_stats::Interval;

    use super::*;
    use crate::analyse::summary::Metric;

    fn comparison(case: &str, low: f64, estimate: f64, high: f64) -> ProgressLine {
        ProgressLine {
            case: case.to_owned(),
            reference: "tcp".to_owned(),
            metric: Metric::Throughput,
            ratio: Some(Interval { estimate, low, high }),
            rounds: 4,
            blocks: 20,
        }
    }

    #[test]
    fn the_widest_interval_leads() {
        let text = narrowing(&[comparison("unix", 1.8, 1.9, 2.0), comparison("tls", 0.69, 0.70, 0.71)]);
        assert_eq!(text, "unix 1.900 ±5.3 %, 1 more narrower");
        assert_eq!(narrowing(&[]), "nothing to compare yet");
    }

    #[test]
    fn a_line_says_time_and_what_is_known() {
        let line = line(0, "unix", Duration::from_secs(3), Duration::from_secs(25), "unix 1.9 ±5.3 %");
        assert_eq!(line, "3/25 s  unix 1.9 ±5.3 %");
    }
}
