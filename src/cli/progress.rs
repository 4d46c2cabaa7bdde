//! What a run shows while it goes on: one line on a terminal, sentences where something fails.

use std::{
    io::IsTerminal,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    thread,
    time::Duration,
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use lasthop_analyse::{ProgressLine, summary::Metric};
use lasthop_model::record::Stage;
use lasthop_page::{text, units::significant};
use lasthop_run::event::Event;
use lasthop_system::interrupt;

use super::output::{counted, talk};

/// After an interrupt, a wait that lasts this long is named.
const AWAITED: Duration = Duration::from_secs(1);
/// A wait is named again after this many [`AWAITED`].
const AGAIN: u32 = 10;

/// An interval of a comparison is still to become narrower than this.
pub const WIDE: f64 = 0.05;

/// A ratio whose interval is wider, in logarithms, says nothing.
const TOO_WIDE: f64 = 1.0;

/// How much is printed to standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Talk {
    /// One line that is rewritten.
    Line,
    /// A sentence per round, for logs.
    Sentences,
    /// Only failures.
    Warnings,
}

impl Talk {
    pub fn choose(quiet: bool, no_progress: bool) -> Self {
        match (quiet, no_progress || !std::io::stderr().is_terminal()) {
            (true, _) => Self::Warnings,
            (false, true) => Self::Sentences,
            (false, false) => Self::Line,
        }
    }
}

/// A line that is rewritten, if it is to be seen.
fn bar(is_shown: bool, length: Duration) -> ProgressBar {
    drawn("{bar:16} {wide_msg}", is_shown, length)
}

/// The same with another line below, the prefix.
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
    so_far: String,
    shown: Vec<String>,
    /// Whether it was said that there are restarts.
    restarts: bool,
    awaited: Arc<Awaited>,
}

/// What the run is waiting for, in words: shown after Ctrl-C.
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
            so_far: String::new(),
            shown: Vec::new(),
            restarts: false,
            awaited,
        }
    }

    pub fn show(&mut self, event: &Event<'_>) {
        match event {
            Event::Began { run, cases, budget, .. } => {
                self.budget = *budget;
                self.bar.set_length(milliseconds(*budget));
                self.say(&format!(
                    "{run}: {}, at most {}",
                    counted(*cases, "case"),
                    seconds(*budget)
                ));
            }
            Event::Resumed { run, resumption } => {
                let [used, budget] = [resumption.at_ns, resumption.budget_ns].map(Duration::from_nanos);
                self.budget = budget;
                self.bar.set_length(milliseconds(budget));
                let pause = seconds(Duration::from_nanos(resumption.pause_ns));
                self.say(&format!(
                    "{run}: resumed after {pause}, {} of {} used",
                    seconds(used),
                    seconds(budget)
                ));
            }
            Event::Containing => self
                .awaited
                .set("the container engine to create image and network".to_owned()),
            Event::Starting { services, .. } => {
                let what = format!("starting {}", members(*services));
                self.awaited.set(format!("{} to finish starting", members(*services)));
                self.bar
                    .set_message(line(&what, self.elapsed, self.budget, &self.so_far));
            }
            Event::Restarting { patience } => {
                self.awaited.set("the restart command to end".to_owned());
                self.bar
                    .set_message(line("restarting the servers", self.elapsed, self.budget, &self.so_far));
                if !std::mem::replace(&mut self.restarts, true) {
                    self.say(&format!("restarting the servers, for at most {}", seconds(*patience)));
                }
            }
            Event::Stopping { services } => self.awaited.set(format!("{} to stop", members(*services))),
            Event::Clearing { guard } => self.awaited.set(format!(
                "lasthop's guard (process {guard}) to end what still runs and remove the sandbox"
            )),
            Event::GuardFailed(error) => self.bar.suspend(|| talk(&format!("warning: {error}"))),
            Event::Trial { case, elapsed, .. } => {
                self.awaited.set(format!("the trial of {case} to end"));
                self.elapsed = *elapsed;
                self.bar.set_position(milliseconds(*elapsed));
                self.bar
                    .set_message(line(&format!("measuring {case}"), *elapsed, self.budget, &self.so_far));
            }
            Event::Profiling { case } => {
                self.awaited.set(format!("the profile trial of {case} to end"));
                self.bar.set_message(line(
                    &format!("observing {case}"),
                    self.elapsed,
                    self.budget,
                    &self.so_far,
                ));
            }
            Event::NotObserved { why } => self.bar.suspend(|| talk(&format!("warning: {why}"))),
            Event::Paused { case } => self.bar.suspend(|| {
                talk(&format!(
                    "discarded a trial of {case}: lasthop was suspended during it, or the machine slept"
                ));
            }),
            Event::CaseFailed(failure) => self.warn(&failure.case, &failure.stage, &failure.cause),
            Event::Progress {
                round,
                elapsed,
                comparisons,
            } => {
                self.so_far = known(comparisons);
                self.say(&format!(
                    "round {} done after {}: {}",
                    round + 1,
                    seconds(*elapsed),
                    self.so_far
                ));
            }
            Event::Ended { elapsed, .. } => {
                self.bar.finish_and_clear();
                self.awaited.set("the report".to_owned());
                self.say(&format!("ended after {}", seconds(*elapsed)));
            }
        }
    }

    /// Shows each cause once, because a service that does not start fails every case in every round.
    fn warn(&mut self, case: &str, stage: &Stage, cause: &str) {
        if !self.shown.iter().any(|shown| shown == cause) {
            self.shown.push(cause.to_owned());
            self.bar
                .suspend(|| talk(&format!("warning: {case} failed ({stage}): {cause}")));
        }
    }

    fn say(&self, text: &str) {
        if self.talk == Talk::Sentences {
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

    /// Runs in its own thread, because the run may be stuck in what hangs.
    fn watch(run: Weak<Self>) {
        // If there is no thread, the interrupt still works; only the messages are missing.
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

/// What starts or stops in a round.
fn members(services: usize) -> String {
    if services == 0 {
        "connections".to_owned()
    } else {
        counted(services, "service")
    }
}

fn line(now: &str, elapsed: Duration, budget: Duration, so_far: &str) -> String {
    let time = format!("{:.0}/{:.0} s", elapsed.as_secs_f64(), budget.as_secs_f64());
    format!("{time}  {}", text::line(if so_far.is_empty() { now } else { so_far }))
}

/// `3 of 6 comparisons decided, 2 wider than ±5 %; unix is about 1.6 × tcp, ±12 %`. Shows the widest interval of those that are not
/// decided, or else of all, because it decides when the run may stop.
fn known(comparisons: &[ProgressLine]) -> String {
    let width = |line: &ProgressLine| line.ratio.map_or(0.0, |ratio| ratio.log_half_width());
    let with_ratio = || comparisons.iter().filter(|line| line.ratio.is_some());
    let awaited = with_ratio().max_by(|one, other| {
        one.decided
            .cmp(&other.decided)
            .reverse()
            .then(width(one).total_cmp(&width(other)))
    });
    let Some((line, ratio)) = awaited.and_then(|line| Some((line, line.ratio?))) else {
        return "nothing to compare yet".to_owned();
    };
    let decided = comparisons.iter().filter(|line| line.decided).count();
    let decided = match comparisons.len() {
        1 => if decided == 1 { "decided" } else { "not decided yet" }.to_owned(),
        all => {
            let wide = with_ratio().filter(|line| width(line) > WIDE.ln_1p()).count();
            let wide = wide + comparisons.len() - with_ratio().count();
            let open = match wide {
                0 => "all within".to_owned(),
                some => format!("{some} wider than"),
            };
            format!("{decided} of {all} comparisons decided, {open} ±{:.0} %", WIDE * 100.0)
        }
    };
    let (case, setting) = line.case.split_once('/').unwrap_or((&line.case, ""));
    let reference = line.reference.split('/').next().unwrap_or_default();
    let setting = if setting.is_empty() {
        String::new()
    } else {
        format!(" ({setting})")
    };
    if ratio.log_half_width() > TOO_WIDE {
        return format!("{decided}; it is too early to say anything about {case}{setting}");
    }
    let (is, times) = match line.metric {
        Metric::Throughput => ("is", "×"),
        _ => ("takes", "× the time of"),
    };
    let about = rounded(ratio.estimate);
    let width = (ratio.log_half_width() * 100.0).ceil();
    format!("{decided}; {case} {is} about {about} {times} {reference}{setting}, ±{width:.0} %")
}

/// Two digits, or three from 0.95 to 1.05, where the third matters.
fn rounded(ratio: f64) -> String {
    let near_one = (ratio - 1.0).abs() < 0.05;
    significant(ratio, if near_one { 3 } else { 2 })
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
    fn what_is_awaited_leads() {
        let unix = comparison("unix/pattern=echo", "tcp/pattern=echo", [1.2, 1.63, 2.2], true);
        let tls = comparison("tls/pattern=echo", "tcp/pattern=echo", [0.98, 1.004, 1.03], false);
        let lines = [unix.clone(), tls.clone()];
        assert_eq!(
            known(&lines),
            "1 of 2 comparisons decided, 1 wider than ±5 %; tls is about 1.00 × tcp (pattern=echo), ±3 %"
        );
        let lines = [unix.clone(), ProgressLine { decided: true, ..tls }];
        assert_eq!(
            known(&lines),
            "2 of 2 comparisons decided, 1 wider than ±5 %; unix is about 1.6 × tcp (pattern=echo), ±31 %"
        );
        let narrow = comparison("unix", "tcp", [0.995, 1.0, 1.005], true);
        assert_eq!(
            known(&[narrow.clone(), narrow]),
            "2 of 2 comparisons decided, all within ±5 %; unix is about 1.00 × tcp, ±1 %"
        );
        let slower = ProgressLine {
            metric: Metric::LatencyP50,
            ..comparison("unix", "tcp", [0.7, 0.8, 0.9], true)
        };
        assert_eq!(
            known(&[slower]),
            "decided; unix takes about 0.80 × the time of tcp, ±13 %"
        );
        let wild = comparison("unix/pattern=echo", "tcp/pattern=echo", [0.1, 1.5, 22.5], false);
        assert_eq!(
            known(&[wild]),
            "not decided yet; it is too early to say anything about unix (pattern=echo)"
        );
        assert_eq!(known(&[]), "nothing to compare yet");
        assert_eq!(known(&[ProgressLine { ratio: None, ..unix }]), "nothing to compare yet");
    }

    #[test]
    fn a_line_says_time_and_what_is_known() {
        let line = |so_far| {
            line(
                "measuring unix",
                Duration::from_secs(3),
                Duration::from_secs(25),
                so_far,
            )
        };
        assert_eq!(line(""), "3/25 s  measuring unix");
        assert_eq!(
            line("decided; unix is about 1.9 × tcp, ±5 %"),
            "3/25 s  decided; unix is about 1.9 × tcp, ±5 %"
        );
    }
}
