//! The progress of a run: the answer so far and the time left in one line, and a sentence for each failure.

use std::{
    io::IsTerminal,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    thread,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use lasthop_analyse::{ProgressLine, summary::Metric};
use lasthop_model::record::Stage;
use lasthop_page::{
    text,
    units::{decimals_for, ratio},
};
use lasthop_run::event::Event;
use lasthop_system::interrupt;

use super::output::{counted, talk};

/// How long a wait lasts after an interrupt before it is named.
const AWAITED: Duration = Duration::from_secs(1);
/// The number of [`AWAITED`] after which a wait is named again.
const AGAIN: u32 = 10;

/// The widest interval of a ratio, in logarithms, that still says something.
const TOO_WIDE: f64 = 1.0;

/// The shortest time between two lines without a terminal.
const EVERY: Duration = Duration::from_secs(10);

/// The amount of messages on standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Talk {
    /// One line that is rewritten.
    Line,
    /// A line every ten seconds, for logs.
    Lines,
    /// Only failures.
    Warnings,
}

impl Talk {
    pub fn choose(quiet: bool, no_progress: bool) -> Self {
        match (quiet, no_progress || !std::io::stderr().is_terminal()) {
            (true, _) => Self::Warnings,
            (false, true) => Self::Lines,
            (false, false) => Self::Line,
        }
    }
}

/// A line that is rewritten, hidden unless `is_shown`.
fn bar(is_shown: bool, length: Duration) -> ProgressBar {
    drawn("{bar:10} {wide_msg}", is_shown, length)
}

/// A line like that of `bar`, with another line below, the prefix.
pub fn block(is_shown: bool, length: Duration) -> ProgressBar {
    drawn("{bar:16} {wide_msg}\n{prefix}", is_shown, length)
}

fn drawn(template: &str, is_shown: bool, length: Duration) -> ProgressBar {
    let target = if is_shown {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let bar = ProgressBar::with_draw_target(Some(milliseconds(length)), target);
    let style = ProgressStyle::with_template(template).expect("the template is a constant");
    bar.with_style(style.progress_chars("━╸ "))
}

/// Shows events.
pub struct Progress {
    talk: Talk,
    bar: ProgressBar,
    budget: Duration,
    elapsed: Duration,
    answer: Option<String>,
    /// The time of the last of the [`Talk::Lines`].
    said: Instant,
    shown: Vec<String>,
    /// Whether the restarts have been announced.
    restarts: bool,
    awaited: Arc<Awaited>,
}

/// The current wait of the run, in words: shown after Ctrl-C.
struct Awaited {
    bar: ProgressBar,
    what: Mutex<String>,
}

impl Progress {
    pub fn new(talk: Talk) -> Self {
        // Any length will do until the run has its budget.
        let bar = bar(talk == Talk::Line, Duration::from_millis(1));
        let awaited = Arc::new(Awaited {
            bar: bar.clone(),
            what: Mutex::new("programs to report their versions".to_owned()),
        });
        // Weak, so that the thread ends with the run.
        Awaited::watch(Arc::downgrade(&awaited));
        Self {
            talk,
            bar,
            budget: Duration::ZERO,
            elapsed: Duration::ZERO,
            answer: None,
            said: Instant::now(),
            shown: Vec::new(),
            restarts: false,
            awaited,
        }
    }

    pub fn show(&mut self, event: &Event<'_>) {
        match event {
            Event::Began { run, cases, budget } => {
                let cases = counted(*cases, "case");
                self.begin(&format!("{run}: {cases}"), *budget, Duration::ZERO);
            }
            Event::Resumed { run, resumption } => {
                let [budget, elapsed] = [resumption.budget_ns, resumption.at_ns].map(Duration::from_nanos);
                self.begin(&format!("{run}: resumed"), budget, elapsed);
            }
            Event::Containing => self
                .awaited
                .set("the container engine to create image and network".to_owned()),
            Event::Starting { services } => {
                self.awaited.set(format!("{} to finish starting", members(*services)));
                self.update(&format!("starting {}", members(*services)));
            }
            Event::Restarting { patience } => {
                self.awaited.set("the restart command to end".to_owned());
                self.update("restarting the servers");
                if !std::mem::replace(&mut self.restarts, true) {
                    self.say(&format!("restarting the servers, for at most {}", seconds(*patience)));
                }
            }
            Event::Stopping { services } => self.awaited.set(format!("{} to stop", members(*services))),
            Event::Clearing { guard } => self.awaited.set(format!(
                "lasthop's guard (process {guard}) to end what still runs and remove the sandbox"
            )),
            Event::RulesLeft { before, after } => self.bar.suspend(|| {
                talk(&format!(
                    "the container engine has left rules of the packet filter, which TCP on loopback passes from now on (before: \
                     {before}; now: {after}): they are the engine's, and lasthop removes none"
                ));
            }),
            Event::GuardFailed(error) => self.bar.suspend(|| talk(&format!("warning: {error}"))),
            Event::Trial { case, elapsed } => {
                self.awaited.set(format!("the trial of {case} to end"));
                self.elapsed = *elapsed;
                self.update(&format!("measuring {case}"));
            }
            Event::Profiling { case } => {
                self.awaited.set(format!("the profile trial of {case} to end"));
                self.update(&format!("observing {case}"));
            }
            Event::NotObserved { why } => self.bar.suspend(|| talk(&format!("warning: {why}"))),
            Event::Paused { case } => self.bar.suspend(|| {
                talk(&format!(
                    "discarded a trial of {case}: lasthop was suspended during it, or the machine slept"
                ));
            }),
            Event::CaseFailed(failure) => self.warn(&failure.case, &failure.stage, &failure.cause),
            Event::Progress { elapsed, comparisons } => {
                self.elapsed = *elapsed;
                self.answer = answer(comparisons);
            }
            Event::Ended => {
                self.bar.finish_and_clear();
                self.awaited.set("the report".to_owned());
            }
        }
    }

    fn begin(&mut self, what: &str, budget: Duration, elapsed: Duration) {
        self.budget = budget;
        self.elapsed = elapsed;
        self.bar.set_length(milliseconds(budget));
        self.say(&format!("{what}, at most {}", seconds(budget.saturating_sub(elapsed))));
    }

    /// Shows the time left and the answer so far, or the current step until there is an answer.
    fn update(&mut self, now: &str) {
        let left = seconds(self.budget.saturating_sub(self.elapsed));
        let line = format!("{left} left  {}", text::line(self.answer.as_deref().unwrap_or(now)));
        if self.said.elapsed() >= EVERY {
            self.say(&line);
        }
        self.bar.set_position(milliseconds(self.elapsed));
        self.bar.set_message(line);
    }

    /// Shows each cause once, because a service that does not start fails every case in every round.
    fn warn(&mut self, case: &str, stage: &Stage, cause: &str) {
        if !self.shown.iter().any(|shown| shown == cause) {
            self.shown.push(cause.to_owned());
            self.bar
                .suspend(|| talk(&format!("warning: {case} failed ({stage}): {cause}")));
        }
    }

    fn say(&mut self, text: &str) {
        self.said = Instant::now();
        if self.talk == Talk::Lines {
            talk(text);
        }
    }
}

impl Awaited {
    fn lock(&self) -> MutexGuard<'_, String> {
        self.what.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, what: String) {
        *self.lock() = what;
    }

    /// Names long waits after an interrupt, in a thread of its own, because the run's thread may be stuck in the wait.
    fn watch(run: Weak<Self>) {
        // Without the thread the interrupt still works; only the messages are missing.
        let _ = thread::Builder::new().name("interrupt".to_owned()).spawn(move || {
            interrupt::wait();
            say(
                &run,
                "interrupted: stopping the servers; press Ctrl-C again to stop at once",
            );
            let mut named = String::new();
            let mut times = 0;
            loop {
                thread::sleep(AWAITED);
                let Some(what) = run.upgrade().map(|run| run.lock().clone()) else {
                    return;
                };
                times = if named == what { times + 1 } else { 0 };
                if times % AGAIN == 0 {
                    say(
                        &run,
                        &format!("{} for {what}", if times == 0 { "waiting" } else { "still waiting" }),
                    );
                }
                named = what;
            }
        });
    }
}

fn say(run: &Weak<Awaited>, text: &str) {
    if let Some(run) = run.upgrade() {
        run.bar.suspend(|| talk(text));
    }
}

/// The processes that a round starts and stops, in words.
fn members(services: usize) -> String {
    if services == 0 {
        "connections".to_owned()
    } else {
        counted(services, "service")
    }
}

/// The first comparison, once its interval is narrow enough:
/// `unix / tcp 1.28 (1.21 to 1.35), 3 of 6 decided, pattern=echo`
fn answer(comparisons: &[ProgressLine]) -> Option<String> {
    let decided = comparisons.iter().filter(|line| line.decided).count();
    let line = comparisons.first()?;
    let decided = format!("{decided} of {} decided", comparisons.len());
    let Some(interval) = line.ratio.filter(|ratio| ratio.log_half_width() < TOO_WIDE) else {
        return Some(decided);
    };
    let places = decimals_for(interval.high - interval.low, 10.0, 2, 3);
    let [estimate, low, high] = [interval.estimate, interval.low, interval.high].map(|value| ratio(value, places));
    let (case, setting) = line.case.split_once('/').unwrap_or((&line.case, ""));
    let reference = line.reference.split('/').next().unwrap_or_default();
    let of = if line.metric == Metric::Throughput {
        ""
    } else {
        "times of "
    };
    let answer = format!("{of}{case} / {reference} {estimate} ({low} to {high}), {decided}, {setting}");
    Some(answer.trim_end_matches(", ").to_owned())
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

    fn comparison(case: &str, reference: &str, [low, estimate, high]: [f64; 3], decided: bool) -> ProgressLine {
        ProgressLine {
            case: case.to_owned(),
            reference: reference.to_owned(),
            metric: Metric::Throughput,
            ratio: Some(Interval { estimate, low, high }),
            rounds: 4,
            blocks: 20,
            luck: None,
            precise: false,
            decided,
        }
    }

    #[test]
    fn the_first_comparison_is_the_answer_so_far() {
        let unix = comparison("unix/pattern=echo", "tcp/pattern=echo", [1.2, 1.63, 2.2], true);
        let tls = comparison("tls/pattern=echo", "tcp/pattern=echo", [0.98, 1.004, 1.03], false);
        let said = |lines: &[ProgressLine]| answer(lines).unwrap_or_default();
        assert_eq!(
            said(&[unix.clone(), tls.clone()]),
            "unix / tcp 1.63 (1.20 to 2.20), 1 of 2 decided, pattern=echo"
        );
        assert_eq!(
            said(std::slice::from_ref(&tls)),
            "tls / tcp 1.004 (0.980 to 1.030), 0 of 1 decided, pattern=echo"
        );
        let slower = ProgressLine {
            metric: Metric::LatencyP50,
            ..comparison("unix", "tcp", [0.7, 0.8, 0.9], true)
        };
        assert_eq!(
            said(&[slower]),
            "times of unix / tcp 0.80 (0.70 to 0.90), 1 of 1 decided"
        );
        let wild = comparison("unix", "tcp", [0.1, 1.5, 22.5], false);
        let none = ProgressLine { ratio: None, ..unix };
        assert_eq!(said(&[wild, tls.clone()]), "0 of 2 decided");
        assert_eq!(said(&[none, tls]), "1 of 2 decided");
        assert_eq!(answer(&[]), None);
    }
}
