//! RUN: rounds, blocks, trials. Emits events, prints nothing.
//!
//! ```text
//! run    ── round (services and drivers started afresh) ── block (every case once, random order) ── trial
//! ```
//!
//! A round ends its services before the next begins. After each round the run looks whether every interval is as narrow
//! as asked; before each block, whether the time is spent. A run that was ended before goes on with a new round ([`resume()`]).

pub mod away;
pub mod driver;
pub mod event;
pub mod placement;
mod probe;
mod programs;
pub mod resume;
mod round;
mod site;

use std::{
    path::PathBuf,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    time::{Duration, Instant},
};

use jiff::Timestamp;

use self::{
    away::{Away, AwayError, Remote},
    event::Event,
    programs::Programs,
    resume::{Changed, Past, Unfinished},
    round::Round,
};
use crate::{
    analyse,
    experiment::{digest::Digests, plan::Plan, schedule::Schedule},
    observe,
    record::{
        RunData, WriteError, Writer,
        schema::{Environment, Failure, Origin, RunEnd, RunHeader, Settings, Stopped, TrialRecord},
    },
    service::{
        container::{
            engine::Kind,
            image::{self, Images},
            site::{Site, SiteError},
        },
        guard::{Guard, GuardError},
        home::{Home, HomeError},
        locate::Locator,
        sandbox::{Sandbox, SandboxError},
    },
};

/// A case that yields nothing in so many rounds on end is given up.
const GIVE_UP_AFTER: u32 = 2;

/// What is to be run, decided in every detail.
#[derive(Debug)]
pub struct Job<'a> {
    pub plan: &'a Plan,
    pub settings: Settings,
    pub locator: &'a Locator,
    /// The container engine that is wanted; `None` takes the first that can be used.
    pub engine: Option<Kind>,
    /// How the images of containers are made.
    pub images: Images,
    /// How a driver on another host is reached.
    pub remote: Remote,
    pub home: &'a Home,
    /// The command line, for the record.
    pub command: Vec<String>,
    /// Whether the first round has all its blocks even where the budget is spent before: one block has no interval.
    pub whole_round: bool,
    /// Set by a signal: end in order, soon.
    pub interrupt: &'a AtomicBool,
    /// What it is made from, for `lasthop resume`; the digests of executables are filled in when these are found.
    pub origin: Option<Origin>,
}

/// A run that could not be made, or not be recorded.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Home(#[from] HomeError),
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    #[error(transparent)]
    Guard(#[from] GuardError),
    #[error(transparent)]
    Away(#[from] AwayError),
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A run that was to go on would measure something else.
    #[error(transparent)]
    Changed(#[from] Changed),
    /// No case can be run at all: programs are not on this machine.
    #[error("{0}")]
    Missing(String),
    /// No case can be run at all: a program is there and cannot be used.
    #[error("{0}")]
    Unusable(String),
}

/// A run that has ended in order, with or without results.
#[derive(Debug)]
pub struct Outcome {
    pub record: PathBuf,
    pub stopped: Stopped,
}

/// Runs a job and leaves its record.
///
/// # Errors
/// [`RunError`] when nothing could be started or written. Services that fail are rows of the record, not errors.
pub fn execute(job: &Job<'_>, tell: &mut dyn FnMut(&Event<'_>)) -> Result<Outcome, RunError> {
    carry_out(job, None, tell)
}

/// Goes on with a run that had ended, in its record. The budget of the job's settings is that of the whole run.
///
/// # Errors
/// As [`execute`], and [`RunError::Changed`] when the machine or a program is not what it was.
pub fn resume(job: &Job<'_>, run: Unfinished, tell: &mut dyn FnMut(&Event<'_>)) -> Result<Outcome, RunError> {
    carry_out(job, Some(run), tell)
}

fn carry_out(
    job: &Job<'_>,
    unfinished: Option<Unfinished>,
    tell: &mut dyn FnMut(&Event<'_>),
) -> Result<Outcome, RunError> {
    let mut programs = Programs::locate(job.plan, &job.settings.tools, job.locator)
        .map_err(|error| RunError::Missing(error.to_string()))?;
    if let Some(why) = programs.all_missing(job.plan, |service| site::may_bring(job, service)) {
        return Err(if programs.are_absent() { RunError::Missing(why) } else { RunError::Unusable(why) });
    }
    // Only a run that can go on has a use for them, and whole executables are read.
    let executables = if job.origin.is_some() { programs.digests() } else { Digests::new() };
    let sandbox = Sandbox::create()?;
    let guard = Guard::launch(&sandbox)?;
    let wish = job.settings.driver_at.as_ref();
    let away = wish.map(|wish| Away::open(wish, &job.remote, &guard, &sandbox)).transpose()?;
    let site = site::open(job, &programs, sandbox.path());
    if let Some(Ok(site)) = &site {
        programs.add_site(site);
        if let image::Origin::Packages { because: Some(because), .. } = &site.image.origin {
            tell(&Event::Instead { because });
        }
    }
    // An image is made once: the first run has as much time for its trials as the others.
    let begun = Instant::now();
    let Open { mut writer, data, past } = match unfinished {
        None => begin(job, executables, tell)?,
        Some(run) => run.go_on(job, &environment(&programs, away.as_ref()), &executables, tell)?,
    };
    let mut runner = Runner {
        job,
        programs,
        sandbox: &sandbox,
        guard: &guard,
        away,
        schedule: Schedule::new(job.settings.seed),
        begun,
        past,
        writer: &mut writer,
        data,
        failing: vec![0; job.plan.cases.len()],
        site,
        tell,
    };
    let stopped = runner.until_stopped()?;
    let took = runner.elapsed();
    let record = writer.directory().to_owned();
    writer.end(&RunEnd { stopped, ended: Timestamp::now(), took_ns: nanoseconds(took) })?;
    tell(&Event::Ended { stopped, record: record.clone(), elapsed: took });
    Ok(Outcome { record, stopped })
}

/// A record that can be written, and what it holds already.
struct Open {
    writer: Writer,
    data: RunData,
    past: Past,
}

fn begin(job: &Job<'_>, executables: Digests, tell: &mut dyn FnMut(&Event<'_>)) -> Result<Open, RunError> {
    let header = header(job, executables);
    let writer = Writer::create(&job.home.writable("runs")?, &header)?;
    tell(&Event::Began {
        run: &header.run,
        cases: job.plan.cases.len(),
        stacks: job.plan.stacks.len(),
        budget: Duration::from_nanos(job.settings.budget_ns),
    });
    let data = RunData { header, environment: None, records: Vec::new(), end: None };
    Ok(Open { writer, data, past: Past::default() })
}

fn header(job: &Job<'_>, executables: Digests) -> RunHeader {
    let started = Timestamp::now();
    let experiment = job.plan.summary();
    RunHeader {
        record: crate::record::schema::VERSION,
        run: name_of_run(started, &experiment.name),
        lasthop: env!("CARGO_PKG_VERSION").to_owned(),
        command: job.command.clone(),
        started,
        experiment,
        settings: job.settings.clone(),
        factors: job.plan.factors.clone(),
        cases: job.plan.cases.clone(),
        derived: job.plan.derived.clone(),
        differences: job.plan.differences.clone(),
        origin: job.origin.clone().map(|origin| Origin { executables, ..origin }),
    }
}

fn environment(programs: &Programs, away: Option<&Away>) -> Environment {
    let here = observe::environment::read(&observe::facts::Facts::here(), programs.versions());
    Environment { driver: away.map(Away::describe), ..here }
}

/// Sorts by time, and two runs of one second differ by their process.
fn name_of_run(started: Timestamp, experiment: &str) -> String {
    // One process makes several runs when it repeats a study.
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let further = match RUNS.fetch_add(1, Ordering::Relaxed) {
        0 => String::new(),
        number => format!("-{number}"),
    };
    format!("{}-{experiment}-{}{further}", started.strftime("%Y%m%dT%H%M%S"), std::process::id())
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A run under way.
struct Runner<'a> {
    job: &'a Job<'a>,
    programs: Programs,
    sandbox: &'a Sandbox,
    guard: &'a Guard,
    /// Where the driver is, if not beside the services.
    away: Option<Away>,
    schedule: Schedule,
    /// When lasthop began, which for a run that goes on is not when the run did.
    begun: Instant,
    past: Past,
    writer: &'a mut Writer,
    /// What is on disk, for the look after each round.
    data: RunData,
    /// Rounds on end in which each case yielded nothing.
    failing: Vec<u32>,
    /// Engine, image and network, where the plan has containers.
    site: Option<Result<Site, SiteError>>,
    tell: &'a mut dyn FnMut(&Event<'_>),
}

impl Runner<'_> {
    /// Where the budget ends with nothing measured every case had its turn: nothing works, and more time would not help.
    fn until_stopped(&mut self) -> Result<Stopped, RunError> {
        let stopped = self.rounds()?;
        let nothing = self.data.trials().next().is_none();
        Ok(if nothing && stopped == Stopped::Budget { Stopped::Failed } else { stopped })
    }

    fn rounds(&mut self) -> Result<Stopped, RunError> {
        for number in self.past.next_round.. {
            let begun = Instant::now();
            let trials_before = self.trials();
            let mut round = Round::start(self, number)?;
            let stopped = round.blocks(self);
            round.stop(self)?;
            if let Some(stopped) = stopped? {
                return Ok(stopped);
            }
            self.count_failures(trials_before);
            if (0..self.failing.len()).all(|case| self.given_up(case)) {
                return Ok(Stopped::Failed);
            }
            let precise = self.look(number);
            if self.job.settings.rounds.is_some_and(|most| self.whole_rounds(number) >= most) {
                return Ok(Stopped::Rounds);
            }
            if precise {
                return Ok(Stopped::Precision);
            }
            if !self.time_for(begun.elapsed() / 2) {
                return Ok(Stopped::Budget);
            }
        }
        unreachable!("rounds are numbered without end")
    }

    /// Running time of the whole run.
    fn elapsed(&self) -> Duration {
        self.past.took + self.begun.elapsed()
    }

    /// When round `number` has come to its end.
    fn whole_rounds(&self, number: u32) -> u32 {
        self.past.whole_rounds + number - self.past.next_round + 1
    }

    /// Whether no round was up yet: what is looked at once is looked at then.
    fn is_first_round(&self) -> bool {
        self.data.rounds().next().is_none()
    }

    fn trials(&self) -> usize {
        self.data.records.len()
    }

    /// A case whose trials all failed in this round comes nearer to being given up.
    fn count_failures(&mut self, trials_before: usize) {
        let records = &self.data.records[trials_before..];
        for (index, case) in self.job.plan.cases.iter().enumerate() {
            let measured =
                records.iter().any(|record| matches!(record, TrialRecord::Trial(trial) if trial.case == case.case));
            self.failing[index] = if measured { 0 } else { self.failing[index] + 1 };
        }
    }

    /// By index of the case.
    fn given_up(&self, case: usize) -> bool {
        self.failing[case] >= GIVE_UP_AFTER
    }

    /// Tells how far the comparisons are; true when all are as narrow as asked.
    fn look(&mut self, round: u32) -> bool {
        let comparisons = analyse::progress(&self.data);
        let elapsed = self.elapsed();
        (self.tell)(&Event::Progress { round, elapsed, comparisons: &comparisons });
        analyse::precision_reached(&self.data)
    }

    /// Whether the budget has room for `more`.
    fn time_for(&self, more: Duration) -> bool {
        self.elapsed() + more <= Duration::from_nanos(self.job.settings.budget_ns)
    }

    fn interrupted(&self) -> bool {
        self.job.interrupt.load(Ordering::Relaxed)
    }

    fn append(&mut self, record: TrialRecord) -> Result<(), RunError> {
        self.writer.append(&record)?;
        self.data.records.push(record);
        Ok(())
    }

    fn fail(&mut self, failure: Failure) -> Result<(), RunError> {
        (self.tell)(&Event::CaseFailed(&failure));
        self.append(TrialRecord::Failure(failure))
    }

    /// Written once, when every program has been started and told its version.
    fn keep_environment(&mut self) -> Result<(), RunError> {
        if self.data.environment.is_none() {
            let environment = environment(&self.programs, self.away.as_ref());
            self.writer.environment(&environment)?;
            self.data.environment = Some(environment);
        }
        Ok(())
    }
}
