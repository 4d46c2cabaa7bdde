//! RUN: rounds, blocks, trials. Emits events, prints nothing.
//!
//! The stages of a run, in order; this crate leads from one to the next:
//!
//! | stage | in | yields |
//! |---|---|---|
//! | plan | [`lasthop_plan`] | a valid [`lasthop_plan::model::Experiment`], its cases and schedule |
//! | start | [`lasthop_stack`] | running servers, started by a guard |
//! | drive | [`lasthop_load`] | one [`lasthop_trial::TrialResult`] per trial |
//! | observe | [`lasthop_observe`] | CPU, switches, run delay, steal per trial; the environment per run |
//! | keep | [`lasthop_record`] | a directory; every report is made from it |
//! | analyse | [`lasthop_analyse`] | estimates, comparisons, checks, verdicts |
//! | report | `lasthop-report` | bytes |
//!
//! ```text
//! run    ── round (services and drivers started afresh) ── block (every case once, random order) ── trial
//! ```
//!
//! The services of a round end while those of the next one start, before anything is measured. After each round, the
//! run checks which intervals are narrow enough (`rotation`); before each block, whether time is left. A resumed run
//! starts with a new round ([`resume`]).

pub mod compare;
pub mod consent;
pub mod driver;
pub mod driver_place;
pub mod event;
mod given;
pub mod hint;
mod job;
mod kept;
mod lengths;
mod own_network;
mod pace;
mod pause;
mod probe;
mod programs;
pub mod repeat;
pub mod resume;
mod rotation;
mod round;
mod site;

use std::{
    collections::BTreeSet,
    path::PathBuf,
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use jiff::Timestamp;
use lasthop_model::{
    binding::Account,
    record::{
        CasePlan, ComparedEndpoints, Digests, Environment, Failure, Origin, PacketFilter, ProfileRecord, RunEnd,
        RunHeader, Stopped, TrialRecord,
    },
    run_name,
};

pub use self::job::{Changed, Job, RunError};
use lasthop_plan::{
    plan::Plan,
    schedule::{self, Schedule},
};
use lasthop_profile::Layers;
use lasthop_record::{RunData, Store, Writer};
use lasthop_stack::{account, container::site::Site, guard::Guard, sandbox::Sandbox};
use lasthop_system::{date, facts, interrupt, names::Names};

use self::{
    driver_place::DriverPlace,
    event::Event,
    job::nanoseconds,
    kept::Kept,
    lengths::Lengths,
    own_network::OwnNetwork,
    pace::Pace,
    programs::Programs,
    resume::{Past, Unfinished},
    rotation::Rotation,
    round::{Round, StoppingRound},
};

/// A run that ended in order, with or without results.
#[derive(Debug)]
pub struct Outcome {
    pub record: PathBuf,
    pub stopped: Stopped,
}

impl Outcome {
    /// The record of the run. A lost guard is an error: such a run ends like an interrupted run, without an interrupt.
    pub fn guarded(self) -> Result<PathBuf, String> {
        if self.stopped == Stopped::Interrupted && !interrupt::heard() {
            return Err("lasthop's guard process was lost".to_owned());
        }
        Ok(self.record)
    }
}

/// Runs a job and writes its record, or continues the record of an unfinished run. The job's budget covers the whole
/// run.
///
/// # Errors
/// [`RunError`] if nothing could be started or written, or if a resumed run would measure something else. Failures of
/// services are rows of the record, not errors.
pub fn carry_out(
    job: &Job<'_>,
    unfinished: Option<Unfinished>,
    tell: &mut dyn FnMut(&Event<'_>),
) -> Result<Outcome, RunError> {
    measure(job, unfinished, tell).map_err(|error| match error {
        RunError::Write(_) | RunError::Changed(_) => error,
        // An interrupt is not a failure.
        _ if interrupt::heard() => RunError::Interrupted,
        _ => error,
    })
}

fn measure(
    job: &Job<'_>,
    unfinished: Option<Unfinished>,
    tell: &mut dyn FnMut(&Event<'_>),
) -> Result<Outcome, RunError> {
    let mut programs = Programs::locate(job.plan, &job.settings.tools, job.locator).map_err(RunError::Missing)?;
    if let Some(why) = programs.all_missing(job.plan, |service| site::may_bring(job, service)) {
        return Err(if programs.are_absent() {
            RunError::Missing(why)
        } else {
            RunError::Unusable(why)
        });
    }
    // Only a run that can be resumed needs digests, and computing them reads whole executables.
    let executables = if job.origin.is_some() {
        programs.digests()
    } else {
        Digests::new()
    };
    let sandbox = Sandbox::create().map_err(RunError::Folder)?;
    let mut own_network = OwnNetwork::enter(job.plan, sandbox.path()).map_err(RunError::OwnNetwork)?;
    let guard = Guard::launch(&sandbox)?;
    let driver_place = match &job.settings.driver_at {
        Some(at) => Some(DriverPlace::open(at, &job.remote, &guard, &sandbox).map_err(RunError::DriverPlace)?),
        None => None,
    };
    let rules_before = packet_filter();
    let site = site::open(job, sandbox.path(), tell);
    if interrupt::heard() {
        return Err(RunError::Interrupted);
    }
    if let Some(Ok(site)) = &site {
        programs.add_site(site);
    }
    // Building an image does not count, so that the first run has as much time for its trials as later ones.
    let begun = Instant::now();
    let Open { mut writer, data, past } = match unfinished {
        None => begin(job, executables, tell)?,
        Some(run) => run.go_on(
            job,
            &environment(&programs, driver_place.as_ref(), None),
            &executables,
            tell,
        )?,
    };
    let contains = site.is_some();
    let comparisons = comparisons(job.plan);
    let groups = schedule::groups(&job.plan.cases);
    let mut lengths = Lengths::new(&job.settings, groups.clone());
    for trial in data.trials() {
        if let Some(case) = job.plan.cases.iter().position(|case| case.case == trial.case) {
            lengths.resume(case, trial);
        }
    }
    let mut runner = Runner {
        job,
        programs,
        sandbox: &sandbox,
        guard: &guard,
        driver_place,
        schedule: Schedule::new(job.settings.seed, groups),
        lengths,
        round: 0,
        threads: driver_threads(&data),
        begun,
        past,
        writer: &mut writer,
        data,
        rotation: Rotation::new(job.plan.cases.len(), comparisons.iter().cloned()),
        comparisons,
        pace: Pace::default(),
        stopping: None,
        kept: Kept::default(),
        site,
        layers: None,
        own_network: own_network.as_mut(),
        tell,
    };
    runner.begin_to_observe()?;
    let stopped = runner.until_stopped()?;
    let took = runner.elapsed();
    drop(runner);
    let record = writer.directory().to_owned();
    writer.end(&RunEnd {
        stopped,
        ended: date::now(),
        took_ns: nanoseconds(took),
        packet_filter: own_network.is_none().then(packet_filter),
    })?;
    // Last, when the record is complete: clearing up takes as long as a container engine hangs.
    tell(&Event::Clearing { guard: guard.pid() });
    if let Err(error) = guard.end() {
        tell(&Event::GuardFailed(&error));
    }
    let rules_after = packet_filter();
    if contains && rules_after.chains > rules_before.chains {
        tell(&Event::RulesLeft {
            before: &rules_before,
            after: &rules_after,
        });
    }
    tell(&Event::Ended);
    Ok(Outcome { record, stopped })
}

/// An open record, and what it already contains.
struct Open {
    writer: Writer,
    data: RunData,
    past: Past,
}

fn begin(job: &Job<'_>, executables: Digests, tell: &mut dyn FnMut(&Event<'_>)) -> Result<Open, RunError> {
    let header = header(job, executables);
    let runs = job.home.writable("runs").map_err(RunError::Folder)?;
    // A run that cannot be resumed needs no proof.
    let key = job.origin.as_ref().and_then(|_| Store::new(job.home.path()).key());
    let writer = Writer::create(&runs, key, &header)?;
    tell(&Event::Began {
        run: &header.run,
        cases: job.plan.cases.len(),
        budget: Duration::from_nanos(job.settings.budget_ns),
    });
    let data = RunData {
        header,
        environment: None,
        records: Vec::new(),
        profiles: Vec::new(),
        end: None,
    };
    Ok(Open {
        writer,
        data,
        past: Past::default(),
    })
}

fn header(job: &Job<'_>, executables: Digests) -> RunHeader {
    let started = date::now();
    let experiment = job.plan.summary();
    RunHeader {
        record: lasthop_model::record::VERSION,
        run: name_of_run(started, &experiment.name, job.labels.get(MACHINE)),
        lasthop: env!("CARGO_PKG_VERSION").to_owned(),
        command: job.command.clone(),
        started,
        experiment,
        settings: job.settings.clone(),
        factors: job.plan.factors.clone(),
        cases: job.plan.cases.clone(),
        derived: job.plan.derived.clone(),
        answer: job.plan.experiment.answer.clone(),
        differences: job.plan.differences.clone(),
        given: job.plan.given.clone().map(ComparedEndpoints::without_secrets),
        labels: job.labels.clone(),
        origin: job.origin.clone().map(|origin| Origin { executables, ..origin }),
    }
}

fn environment(programs: &Programs, driver_place: Option<&DriverPlace>, label: Option<&String>) -> Environment {
    let here = lasthop_observe::environment::read(&facts::Facts::here(), programs.versions());
    let host = label.cloned().unwrap_or(here.host);
    Environment {
        driver: driver_place.map(DriverPlace::describe),
        host,
        ..here
    }
}

/// The packet filter that TCP on loopback passes.
fn packet_filter() -> PacketFilter {
    lasthop_observe::environment::packet_filter(&facts::Facts::here())
}

/// The label that names the machine.
const MACHINE: &str = "machine";

/// A name that sorts by time. The pid tells runs in the same second apart, the machine's name those of two machines.
fn name_of_run(started: Timestamp, experiment: &str, machine: Option<&String>) -> String {
    // One process makes several runs when it repeats a study.
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let further = match RUNS.fetch_add(1, Ordering::Relaxed) {
        0 => String::new(),
        number => format!("-{number}"),
    };
    let process = format!("{}{further}", std::process::id());
    let words: Vec<&str> = [Some(experiment), machine.map(String::as_str), Some(&process)]
        .into_iter()
        .flatten()
        .collect();
    run_name::made(started, &words)
}

/// Threads of lasthop's own driver in the finished rounds.
fn driver_threads(data: &RunData) -> u32 {
    let proofs = data.rounds().flat_map(|round| round.cases.values());
    proofs.map(|proof| proof.spec.threads).max().unwrap_or(1)
}

/// Indices of compared cases: each case with its reference, and the cases of a derived quantity.
fn comparisons(plan: &Plan) -> Vec<Vec<usize>> {
    let pairs = plan
        .cases
        .iter()
        .filter_map(|case| Some(vec![&case.case, case.reference.as_ref()?]));
    let derived = plan.derived.iter().map(|derived| derived.from.cases());
    pairs
        .chain(derived)
        .map(|names| {
            names
                .into_iter()
                .filter_map(|name| plan.cases.iter().position(|case| case.case == *name))
                .collect()
        })
        .collect()
}

/// A run in progress.
struct Runner<'a> {
    job: &'a Job<'a>,
    programs: Programs,
    sandbox: &'a Sandbox,
    guard: &'a Guard,
    /// Where the driver runs, if not next to the services.
    driver_place: Option<DriverPlace>,
    schedule: Schedule,
    /// The number of the current round.
    round: u32,
    /// Threads of lasthop's own driver, for cases with at least as many connections.
    threads: u32,
    /// When this lasthop began. If the run was resumed, the run began earlier.
    begun: Instant,
    past: Past,
    writer: &'a mut Writer,
    /// The record so far, for the check after each round.
    data: RunData,
    comparisons: Vec<Vec<usize>>,
    rotation: Rotation,
    pace: Pace,
    lengths: Lengths,
    /// The previous round, while it ends.
    stopping: Option<StoppingRound>,
    kept: Kept,
    /// Engine, image and network, if the plan has containers.
    site: Option<Result<Site, String>>,
    /// The layers to observe; `None` if processes are not observed.
    layers: Option<Layers>,
    /// The run's own network namespace, if cases set conditions for TCP on loopback.
    own_network: Option<&'a mut OwnNetwork>,
    tell: &'a mut dyn FnMut(&Event<'_>),
}

impl<'a> Runner<'a> {
    fn case(&self, index: usize) -> &'a CasePlan {
        &self.job.plan.cases[index]
    }

    /// Applies the case's conditions to TCP on loopback. Returns whether they changed.
    fn meet(&mut self, index: usize) -> Result<bool, String> {
        let wanted = self.case(index).conditions.as_ref();
        match (&mut self.own_network, wanted) {
            (Some(network), Some(wanted)) => network.meet(wanted),
            _ => Ok(false),
        }
    }

    /// Runs rounds until a reason to stop. If the budget ends without a result, no case works and more time would not
    /// help.
    fn until_stopped(&mut self) -> Result<Stopped, RunError> {
        let stopped = self.rounds();
        // After an error too: services of the last round are still ending.
        self.wait_for_stop()?;
        let stopped = stopped?;
        let nothing = !self.data.has_measured();
        Ok(if nothing && stopped == Stopped::Budget {
            Stopped::Failed
        } else {
            stopped
        })
    }

    fn rounds(&mut self) -> Result<Stopped, RunError> {
        for number in self.past.next_round.. {
            let begun = Instant::now();
            let trials_before = self.trials();
            let mut round = Round::start(self, number)?;
            let (stopped, driven) = match self.job.settings.overload {
                None => round.blocks(self),
                Some(_) => round.overload(self),
            };
            let profiled = match stopped {
                Ok(_) if !self.is_cut_short() => round.profile(self),
                _ => Ok(()),
            };
            self.stopping = Some(round.stop(self));
            // Containers have fixed addresses, which the next round uses too.
            if self.site.is_some() || self.is_cut_short() {
                self.wait_for_stop()?;
            }
            // First, because failures while the guard was ending say nothing about the cases.
            if let Err(error) = self.guard.check() {
                (self.tell)(&Event::GuardFailed(&error));
                return Ok(Stopped::Interrupted);
            }
            if let Some(stopped) = stopped? {
                return profiled.map(|()| stopped);
            }
            profiled?;
            self.count_failures(trials_before);
            if self.rotation.all_failed() || self.compares_nothing(|case| !self.rotation.given_up(case)) {
                return Ok(Stopped::Failed);
            }
            // After the last round too, because this reports the progress.
            let precise = self.is_precise(number);
            if self
                .job
                .settings
                .rounds
                .is_some_and(|most| self.whole_rounds(number) >= most)
            {
                return Ok(Stopped::Rounds);
            }
            if precise {
                return Ok(Stopped::Precision);
            }
            // The last round ends with the budget. A round that would not reach its middle is not worth a start.
            if !self.time_for(begun.elapsed() / 2) {
                return Ok(Stopped::Budget);
            }
            self.pace.started(begun.elapsed().saturating_sub(driven));
        }
        unreachable!("rounds are numbered without end")
    }

    /// Running time of the whole run.
    fn elapsed(&self) -> Duration {
        self.past.took + self.begun.elapsed()
    }

    fn budget(&self) -> Duration {
        Duration::from_nanos(self.job.settings.budget_ns)
    }

    /// The rest of the budget.
    fn left(&self) -> Duration {
        self.budget().saturating_sub(self.elapsed())
    }

    /// Completed rounds at the end of round `number`.
    fn whole_rounds(&self, number: u32) -> u32 {
        self.past.whole_rounds + number - self.past.next_round + 1
    }

    /// Whether this is the first round to start. Some things are examined only then.
    fn is_first_round(&self) -> bool {
        self.data.rounds().next().is_none()
    }

    fn trials(&self) -> usize {
        self.data.records.len()
    }

    /// Counts the cases whose trials all failed in this round. Cases that fail repeatedly are given up.
    fn count_failures(&mut self, trials_before: usize) {
        let records = &self.data.records[trials_before..];
        let trials = records.iter().filter_map(|record| match record {
            TrialRecord::Trial(trial) => Some(trial.case.as_str()),
            TrialRecord::Overload(trial) => Some(trial.case.as_str()),
            _ => None,
        });
        let measured: BTreeSet<&str> = trials.collect();
        self.rotation
            .count_failures(|case| measured.contains(&*self.job.plan.cases[case].case));
    }

    /// Waits until the previous round has ended.
    fn wait_for_stop(&mut self) -> Result<(), RunError> {
        self.stopping.take().map_or(Ok(()), |stopping| stopping.wait(self))
    }

    /// Whether every comparison lacks a working case. A run without comparisons continues.
    fn compares_nothing(&self, works: impl Fn(usize) -> bool) -> bool {
        !self.comparisons.is_empty()
            && self
                .comparisons
                .iter()
                .all(|cases| !cases.iter().all(|case| works(*case)))
    }

    /// Reports the comparisons so far, unless it is too early, and releases cases whose intervals are narrow enough.
    /// Returns whether all are.
    fn is_precise(&mut self, round: u32) -> bool {
        if !lasthop_analyse::is_due(round + 1) || self.job.settings.overload.is_some() {
            return false;
        }
        let look = lasthop_analyse::look(&self.data);
        let elapsed = self.elapsed();
        (self.tell)(&Event::Progress {
            elapsed,
            comparisons: &look.lines,
        });
        let rounds = self.whole_rounds(round) as usize;
        self.pace
            .learn(look.lines.iter().filter_map(|line| line.luck).collect(), rounds);
        let line = |case: &CasePlan| look.lines.iter().find(|line| line.case == case.case && line.blocks > 0);
        self.rotation
            .let_go(|case| line(&self.job.plan.cases[case]).map(|line| line.precise));
        look.precise
    }

    /// Whether the budget has room for `more`.
    fn time_for(&self, more: Duration) -> bool {
        self.elapsed() + more <= self.budget()
    }

    /// Whether the run ends here, because of an interrupt or because its guard is lost.
    fn is_cut_short(&self) -> bool {
        interrupt::heard() || self.guard.is_lost()
    }

    /// Like [`Self::is_cut_short`], after a failure: an ending guard takes drivers and services along before its own
    /// end is noticed.
    fn was_cut_off(&self) -> bool {
        interrupt::heard() || self.guard.check().is_err()
    }

    fn append(&mut self, record: TrialRecord) -> Result<(), RunError> {
        self.writer.append(&record)?;
        self.data.keep(record);
        Ok(())
    }

    fn append_profile(&mut self, record: ProfileRecord) -> Result<(), RunError> {
        Ok(self.writer.append_profile(&record)?)
    }

    fn fail(&mut self, mut failure: Failure) -> Result<(), RunError> {
        let folder = std::path::absolute(self.writer.directory()).unwrap_or_default();
        failure.hint = hint::advice(&failure, self.account_of(&failure.case).as_ref());
        failure.log_file = failure
            .log_file
            .and_then(|file| Some(file.strip_prefix(&folder).ok()?.to_owned()));
        (self.tell)(&Event::CaseFailed(&failure));
        // After the event: the user may see these names, but the record is shared.
        let log = Names::here().without_both(failure.log.as_bytes()).into_owned();
        failure.log = String::from_utf8(log).unwrap_or_default();
        self.append(TrialRecord::Failure(Box::new(failure)))
    }

    /// The account of a case's servers; `None` in a container, where accounts differ.
    fn account_of(&self, case: &str) -> Option<Account> {
        let case = self
            .job
            .plan
            .cases
            .iter()
            .find(|one| one.case == case && self.job.plan.given.is_none())?;
        let mut services = self.job.plan.stacks[case.stack].services.values();
        if services.any(|service| service.container.is_some()) {
            None
        } else {
            account::unprivileged().ok()
        }
    }

    /// Writes the environment once every program has started and printed its version. A round that is cut short starts
    /// only some.
    fn keep_environment(&mut self) -> Result<(), RunError> {
        if self.data.environment.is_none() && !self.was_cut_off() {
            let label = self.data.header.labels.get(MACHINE);
            let environment = environment(&self.programs, self.driver_place.as_ref(), label);
            self.writer.environment(&environment)?;
            self.data.environment = Some(environment);
        }
        Ok(())
    }
}
