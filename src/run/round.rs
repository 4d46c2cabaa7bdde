//! One round: services and drivers started afresh, verified, driven in blocks, stopped.

mod headroom;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Display,
    os::fd::OwnedFd,
    path::Path,
    time::{Duration, Instant},
};

use indexmap::IndexMap;
use lasthop_load::{
    TrialResult,
    result::Proof,
    spec::{Model, Spec},
    wire::{Stage as WireStage, TrialPhases},
};
use lasthop_stats::random;

use super::{
    RunError, Runner,
    away::Away,
    driver::{Driver, DriverError},
    event::Event,
    nanoseconds, placement, probe, site,
};
use crate::{
    experiment::plan::{Stack as PlannedStack, StackService, tool_of},
    observe::{
        self,
        observer::Observer,
        procfs::{InContainer, Role},
    },
    record::schema::{CasePlan, CaseProof, Failure, MeasuredTrial, RoundRecord, Stopped, TrialRecord},
    service::{
        bindings::{Bindings, service_of},
        container::site::Housing,
        guard::{Exit, GuardedChild, Input, Output, Spawn},
        sandbox::Wanted,
        stack::{Instance, Stack, StackPlan, StartError},
    },
    tool::{Tool, ToolChoice, drive::Foreign},
};

/// Name under which lasthop's own driver is kept among foreign ones.
const OWN: &str = "lasthop";

/// The running processes of a round.
pub struct Round {
    number: u32,
    /// By number of the stack; `None` where it did not come up.
    stacks: Vec<Option<Up>>,
    /// By command.
    drivers: BTreeMap<String, RunningDriver>,
    /// By index of the case: the name of its driver, where the case works.
    ready: Vec<Option<String>>,
    observer: Observer,
}

/// A stack that is up.
struct Up {
    stack: Stack,
    bindings: Bindings,
    /// Whether a failure of it has waited for a service to end already; only the first round has time for that.
    waited: bool,
}

/// Time in which a service that fails while it starts may still end after its first wrong answer.
const LAST_WORDS: Duration = Duration::from_secs(1);

struct RunningDriver {
    driver: Driver,
    process: GuardedChild,
    log: std::path::PathBuf,
}

impl RunningDriver {
    /// Prepares a case with the paths of files as they are where the driver is.
    fn prepare(&mut self, away: Option<&Away>, case: &str, spec: &Spec) -> Result<Proof, DriverError> {
        let there = away.map(|away| away.localise(spec)).transpose();
        let there = there.map_err(|cause| DriverError::Refused { stage: WireStage::Spec, cause })?;
        self.driver.prepare(case, there.as_ref().unwrap_or(spec))
    }
}

/// A failure before it has its round and its case.
struct Trouble {
    stage: String,
    cause: String,
    log: String,
}

impl From<&StartError> for Trouble {
    fn from(error: &StartError) -> Self {
        Self {
            stage: error.stage.name().to_owned(),
            cause: format!("service `{}`: {}", error.service, error.cause),
            log: error.log.clone(),
        }
    }
}

impl Trouble {
    fn ended(stage: &str, instance: &Instance, exit: Exit) -> Self {
        let cause = format!("service `{}` {exit}", instance.name);
        Self { stage: stage.to_owned(), cause, log: instance.log_tail() }
    }

    fn plan(cause: &impl ToString) -> Self {
        Self { stage: "prepare".to_owned(), cause: cause.to_string(), log: String::new() }
    }
}

impl Round {
    /// Starts all stacks at the same time, then verifies each case.
    ///
    /// # Errors
    /// Only what keeps the record from being written. Whatever does not come up is a failure row of its cases.
    pub fn start(runner: &mut Runner<'_>, number: u32) -> Result<Self, RunError> {
        let (at, begun) = (runner.elapsed(), Instant::now());
        let plan = runner.job.plan;
        let services = plan.stacks.iter().map(|stack| stack.services.len()).sum();
        (runner.tell)(&Event::Starting { round: number, services });
        let mut round = Self {
            number,
            stacks: plan.stacks.iter().map(|_| None).collect(),
            drivers: BTreeMap::new(),
            ready: plan.cases.iter().map(|_| None).collect(),
            observer: Observer::new(Vec::new()),
        };
        round.start_stacks(runner)?;
        round.observer = Observer::new(round.roles());
        runner.keep_environment()?;
        let mut proofs = IndexMap::new();
        for index in 0..plan.cases.len() {
            if runner.interrupted() {
                break;
            }
            if let Some(proof) = round.open(runner, index)? {
                proofs.insert(plan.cases[index].case.clone(), proof);
            }
        }
        let headroom = self::headroom::calibrate(&mut round, runner, &proofs);
        runner.append(TrialRecord::Round(RoundRecord {
            round: number,
            at_ns: nanoseconds(at),
            start_ns: nanoseconds(begun.elapsed()),
            cases: proofs,
            headroom,
        }))?;
        Ok(round)
    }

    fn start_stacks(&mut self, runner: &mut Runner<'_>) -> Result<(), RunError> {
        let mut plans = Vec::new();
        for stack in &runner.job.plan.stacks {
            if !runner.wanted(stack.number) {
                continue;
            }
            match runner.stack_plan(stack, self.number) {
                Ok(plan) => plans.push(plan),
                Err(trouble) => runner.fail_stack(self.number, stack.number, &trouble)?,
            }
        }
        let waited = !runner.is_first_round();
        let started = Stack::start_all(runner.guard, &plans);
        for (plan, started) in plans.into_iter().zip(started) {
            let number = plan.bindings.stack;
            match started {
                Ok(stack) => {
                    self.stacks[number] = Some(Up { stack, bindings: plan.bindings, waited });
                }
                Err(error) => runner.fail_stack(self.number, number, &Trouble::from(&error))?,
            }
        }
        Ok(())
    }

    /// Opens a case's connections, verifies its answers and its link, and warms it up.
    fn open(&mut self, runner: &mut Runner<'_>, index: usize) -> Result<Option<CaseProof>, RunError> {
        let case = &runner.job.plan.cases[index];
        let Some(up) = &self.stacks[case.stack].as_ref().filter(|_| !runner.given_up(index)) else { return Ok(None) };
        let bindings = up.bindings.clone();
        match self.verify(runner, case, &bindings) {
            Ok((driver, proof)) => {
                self.ready[index] = Some(driver);
                Ok(Some(proof))
            }
            Err(trouble) => {
                runner.fail(self.failure(None, case, trouble))?;
                Ok(None)
            }
        }
    }

    fn verify(
        &mut self,
        runner: &Runner<'_>,
        case: &CasePlan,
        bindings: &Bindings,
    ) -> Result<(String, CaseProof), Trouble> {
        let plan = runner.job.plan;
        let mut load = plan.load(case, bindings).map_err(|error| Trouble::plan(&error))?;
        if let Model::Open(open) = &mut load.spec.model {
            open.seed = self.arrivals_seed(runner);
        }
        if let Some(cause) = runner.away.as_ref().and_then(|away| away.refuses(&load.spec.endpoint.address)) {
            return Err(Trouble { stage: "connect".to_owned(), cause, log: String::new() });
        }
        let tool = tool_of(&case.levels);
        let command = match tool {
            Some(tool) => Some(runner.tool_command(tool)?),
            None => load.driver.clone(),
        };
        let name = command.as_ref().map_or_else(|| OWN.to_owned(), |command| command.join(" "));
        self.driver(runner, &name, command.as_deref())?;
        let wanted = plan.proof(case, bindings).map_err(|error| Trouble::plan(&error))?;
        let running = self.drivers.get_mut(&name).expect("it has just been started");
        let driven = running.prepare(runner.away.as_ref(), &case.case, &load.spec).and_then(|proof| {
            // A tool's shortest trial is long, and its driver has verified the answers by lasthop's own engine.
            if tool.is_none() {
                running.driver.trial(&case.case, runner.phases(case))?;
            }
            Ok(proof)
        });
        let driver = driven.map_err(|error| self.trouble(runner, &name, case, &error))?;
        let link = match wanted {
            Some(wanted) => Some(probe::link(&load.spec, &wanted).map_err(|cause| Trouble {
                stage: "verify".to_owned(),
                cause: format!("the application does not say which connection a request came over: {cause}"),
                log: self.log_of(case),
            })?),
            None => None,
        };
        let path = match (&runner.site, runner.is_first_round()) {
            (Some(_), true) => self.path(runner, case, bindings),
            _ => Vec::new(),
        };
        Ok((name, CaseProof { spec: load.spec, driver, link, path }))
    }

    /// Every case of a round faces the same arrivals, and every round has others.
    fn arrivals_seed(&self, runner: &Runner<'_>) -> u64 {
        random::seed_for(runner.job.settings.seed, &["arrivals", &self.number.to_string()])
    }

    /// The hops of the link. Rules and proxies that a container meets are others than those that a process here meets.
    fn path(&self, runner: &Runner<'_>, case: &CasePlan, bindings: &Bindings) -> Vec<String> {
        let link = &runner.job.plan.experiment.link;
        let Some(to) = bindings.services.get(&link.to) else { return Vec::new() };
        let from = self.stacks[case.stack].as_ref().and_then(|up| up.stack.instance(&link.from));
        match from {
            Some(from) => observe::path::decode_from(from.pid, &to.address),
            None => observe::path::decode(&to.address),
        }
    }

    /// Starts the driver of a case unless it runs already.
    fn driver(&mut self, runner: &Runner<'_>, name: &str, command: Option<&[String]>) -> Result<(), Trouble> {
        if !self.drivers.contains_key(name) {
            let log = runner
                .writer
                .services()
                .join(self.number.to_string())
                .join(format!("driver-{}.log", self.drivers.len()));
            let running = start_driver(runner, command, &log).map_err(|cause| Trouble {
                stage: "start".to_owned(),
                cause,
                log: crate::service::stack::tail(&log),
            })?;
            if runner.away.as_ref().is_some_and(Away::is_space) {
                self.observer.also_network_of(running.process.pid);
            }
            self.drivers.insert(name.to_owned(), running);
        }
        Ok(())
    }

    /// Drives blocks until the round is over; `Some` when the whole run is to end.
    ///
    /// # Errors
    /// Only what keeps the record from being written.
    pub fn blocks(&mut self, runner: &mut Runner<'_>) -> Result<Option<Stopped>, RunError> {
        let mut longest = Duration::ZERO;
        for block in 0..runner.job.settings.blocks {
            let begun = Instant::now();
            for position in runner.schedule.order(self.number, block, self.ready.len()).into_iter().enumerate() {
                if runner.interrupted() {
                    return Ok(Some(Stopped::Interrupted));
                }
                self.trial(runner, block, position)?;
            }
            longest = longest.max(begun.elapsed());
            let must = runner.job.whole_round && self.number == 0;
            if !must && !runner.time_for(longest) {
                return Ok((block + 1 < runner.job.settings.blocks).then_some(Stopped::Budget));
            }
        }
        Ok(None)
    }

    fn trial(
        &mut self,
        runner: &mut Runner<'_>,
        block: u32,
        (position, index): (usize, usize),
    ) -> Result<(), RunError> {
        let case = &runner.job.plan.cases[index];
        let Some(name) = self.ready[index].clone() else { return Ok(()) };
        let elapsed = runner.elapsed();
        (runner.tell)(&Event::Trial { round: self.number, block, case: &case.case, elapsed });
        let Some(running) = self.drivers.get_mut(&name) else {
            // It ended in the trial of another case, whose row has the reason.
            self.ready[index] = None;
            let trouble =
                Trouble { stage: "trial".to_owned(), cause: DriverError::Ended.to_string(), log: String::new() };
            return runner.fail(self.failure(Some(block), case, trouble));
        };
        let before = self.observer.snapshot();
        let result = running.driver.trial(&case.case, runner.phases(case));
        let after = self.observer.snapshot();
        let result = match result {
            Ok(result) => answered(result).map_err(|cause| self.unanswered(case, cause)),
            Err(error) => Err(self.trouble(runner, &name, case, &error)),
        };
        match result.and_then(|result| self.alive(case).map(|()| result)) {
            Ok(result) => {
                let mut observations = self.observer.between(&before, &after, case.stack);
                if runner.away.as_ref().is_some_and(Away::is_stranger_here) {
                    // It descends from sshd, and is no stranger all the same.
                    let foreign = &mut observations.machine.foreign_ns;
                    *foreign = foreign.saturating_sub(result.cost.cpu_ns());
                }
                runner.append(TrialRecord::Trial(Box::new(MeasuredTrial {
                    round: self.number,
                    block,
                    position: position as u32,
                    case: case.case.clone(),
                    at_ns: nanoseconds(elapsed),
                    result,
                    observations,
                })))
            }
            Err(trouble) => {
                self.ready[index] = None;
                runner.fail(self.failure(Some(block), case, trouble))
            }
        }
    }

    /// Ends drivers and services, whatever state they are in.
    ///
    /// # Errors
    /// Only what keeps the record from being written; a service that does not end is a failure row.
    pub fn stop(self, runner: &mut Runner<'_>) -> Result<(), RunError> {
        for running in self.drivers.into_values() {
            // The end of its input ends a driver.
            drop(running.driver);
            let _ = running.process.stop(libc::SIGTERM, Duration::from_secs(2));
        }
        let stacks: Vec<Up> = self.stacks.into_iter().flatten().collect();
        let numbers: Vec<usize> = stacks.iter().map(|up| up.bindings.stack).collect();
        let stopped = Stack::stop_all(stacks.into_iter().map(|up| up.stack).collect());
        for (number, stopped) in numbers.into_iter().zip(stopped) {
            if let Err(error) = stopped {
                runner.fail_stack(self.number, number, &Trouble::from(&error))?;
            }
        }
        Ok(())
    }

    fn roles(&self) -> Vec<Role> {
        let up = self.stacks.iter().flatten().flat_map(|up| &up.stack.instances);
        let stacks = self.stacks.iter().flatten().flat_map(|up| up.stack.instances.iter().map(|_| up.bindings.stack));
        let roles = |(one, stack): (&Instance, usize)| {
            let role = |name: &str, pid, container| Role { stack, name: name.to_owned(), pid, container };
            let helpers = one.helpers.iter().map(|(name, pid)| role(name, *pid, InContainer::No));
            let own = role(service_of(&one.name), one.pid, one.in_container());
            std::iter::once(own).chain(helpers).collect::<Vec<_>>()
        };
        up.zip(stacks).flat_map(roles).collect()
    }

    fn failure(&self, block: Option<u32>, case: &CasePlan, trouble: Trouble) -> Failure {
        Failure {
            round: self.number,
            block,
            case: case.case.clone(),
            stage: trouble.stage,
            cause: trouble.cause,
            log: trouble.log,
        }
    }

    /// Why a driver's request failed.
    fn trouble(&mut self, runner: &Runner<'_>, name: &str, case: &CasePlan, error: &DriverError) -> Trouble {
        if let Some(ended) = self.ended(case, error.stage(), error) {
            return ended;
        }
        if error.is_alive() {
            return Trouble { stage: error.stage().to_owned(), cause: error.to_string(), log: self.log_of(case) };
        }
        let log = self.drivers.remove(name).map(|dead| crate::service::stack::tail(&dead.log)).unwrap_or_default();
        let explained = runner.away.as_ref().map(Away::explain_end).unwrap_or_default();
        Trouble { stage: error.stage().to_owned(), cause: format!("{error}{explained}"), log }
    }

    /// Why a trial had too few right answers.
    fn unanswered(&mut self, case: &CasePlan, cause: String) -> Trouble {
        let ended = self.ended(case, "trial", &cause);
        ended.unwrap_or_else(|| Trouble { stage: "trial".to_owned(), cause, log: self.log_of(case) })
    }

    /// A service that has died meanwhile explains more than a reset connection.
    fn ended(&mut self, case: &CasePlan, stage: &str, seen: impl Display) -> Option<Trouble> {
        let (instance, exit) = self.stacks[case.stack].as_mut()?.died()?;
        let ended = Trouble::ended(stage, instance, exit);
        Some(Trouble { cause: format!("{} ({seen})", ended.cause), ..ended })
    }

    /// What others answer for a service that has ended (a worker that outlives its master) is not what was to be measured.
    fn alive(&self, case: &CasePlan) -> Result<(), Trouble> {
        match self.stacks[case.stack].as_ref().and_then(|up| up.stack.died()) {
            None => Ok(()),
            Some((instance, exit)) => Err(Trouble::ended("trial", instance, exit)),
        }
    }

    /// The log of the service that a case's driver talks to.
    fn log_of(&self, case: &CasePlan) -> String {
        let target = self.stacks[case.stack].as_ref().and_then(|up| up.stack.instance(&case.load.target));
        target.map(|instance| instance.log_tail()).unwrap_or_default()
    }
}

impl Up {
    /// The service that ended by itself. A server whose workers cannot start accepts a connection first and ends a
    /// little later: the first failure waits for that.
    fn died(&mut self) -> Option<(&Instance, Exit)> {
        let begun = Instant::now();
        while !self.waited && self.stack.died().is_none() && begun.elapsed() < LAST_WORDS {
            std::thread::sleep(Duration::from_millis(10));
        }
        self.waited = true;
        self.stack.died()
    }
}

/// A trial without a single right answer is a failure, and so is one in which every tenth is wrong.
fn answered(result: TrialResult) -> Result<TrialResult, String> {
    let errors = result.error_total();
    if result.requests > 0 && errors * 10 < result.requests_total {
        return Ok(result);
    }
    let first = result.errors.values().next().map_or_else(|| "no answer came".to_owned(), |error| error.first.clone());
    Err(format!("{errors} errors against {} right answers; the first: {first}", result.requests_total))
}

fn start_driver(runner: &Runner<'_>, command: Option<&[String]>, log: &Path) -> Result<RunningDriver, String> {
    let own = own_executable()?;
    let command = command.map(<[String]>::to_vec);
    let command = match &runner.away {
        Some(away) => away.command(&own, command)?,
        None => command.unwrap_or_else(|| vec![own, "drive".to_owned()]),
    };
    let file = log.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| std::fs::File::create(log));
    let file = file.map_err(|error| format!("cannot write {}: {error}", log.display()))?;
    let (cpus, _) = placement::cpus(&runner.job.settings.placement);
    let spawn = Spawn::new(command)
        .stdin(Input::Pipe)
        .stdout(Output::Pipe)
        .stderr(Output::File(file))
        .cpus(cpus.unwrap_or_default().into_iter().map(|cpu| cpu as usize));
    let mut process = runner.guard.spawn(spawn).map_err(|error| error.to_string())?;
    let requests: OwnedFd = process.stdin.take().expect("asked for").into();
    let replies: OwnedFd = process.stdout.take().expect("asked for").into();
    let driver = Driver::greet(requests, replies).map_err(|error| error.to_string())?;
    Ok(RunningDriver { driver, process, log: log.to_owned() })
}

/// By its link in `/proc` where the file was replaced since lasthop started: the guard, which starts it, is the same file.
pub(super) fn own_executable() -> Result<String, String> {
    let path = std::env::current_exe().map_err(|error| format!("cannot find lasthop's own executable: {error}"))?;
    Ok(if path.exists() { path.display().to_string() } else { "/proc/self/exe".to_owned() })
}

impl Runner<'_> {
    /// Lengths of a case's trials. Tools count whole seconds and leave no warm-up out.
    fn phases(&self, case: &CasePlan) -> TrialPhases {
        let settings = &self.job.settings;
        match tool_of(&case.levels) {
            None => TrialPhases { warm_up_ns: settings.warm_up_ns, measure_ns: settings.trial_ns },
            Some(tool) => {
                let wanted = settings.trial_ns.div_ceil(1_000_000_000) * 1_000_000_000;
                TrialPhases { warm_up_ns: 0, measure_ns: wanted.max(nanoseconds(tool.shortest_trial())) }
            }
        }
    }

    /// lasthop as the driver that runs a tool.
    fn tool_command(&self, tool: Tool) -> Result<Vec<String>, Trouble> {
        let located = self.programs.tool(tool);
        let choice = self.job.settings.tools.iter().find(|choice| choice.tool == tool);
        let scratch = self.sandbox.path().join(format!("tool-{tool}"));
        std::fs::create_dir_all(&scratch).map_err(|error| Trouble::plan(&error))?;
        let foreign = Foreign {
            choice: choice.cloned().unwrap_or_else(|| ToolChoice::plain(tool)),
            program: located.path.clone(),
            version: located.version.clone(),
            scratch,
        };
        let own = own_executable().map_err(|cause| Trouble::plan(&cause))?;
        let json = serde_json::to_string(&foreign).expect("plain data with text keys");
        Ok(vec![own, "drive".to_owned(), "--foreign".to_owned(), json])
    }

    /// Whether a stack still has a case that is not given up.
    fn wanted(&self, stack: usize) -> bool {
        self.job.plan.cases.iter().enumerate().any(|(index, case)| case.stack == stack && !self.given_up(index))
    }

    fn stack_plan(&self, stack: &PlannedStack, round: u32) -> Result<StackPlan, Trouble> {
        let may_bring = stack.services.values().any(|service| site::may_bring(self.job, service));
        if let (true, Some(Err(error))) = (may_bring, &self.site) {
            return Err(Trouble { stage: "locate".to_owned(), cause: error.to_string(), log: String::new() });
        }
        if let Some((service, error)) = self.programs.missing(stack, |service| self.program_in_image(service).is_some())
        {
            let cause = format!("service `{service}`: {error}");
            return Err(Trouble { stage: "locate".to_owned(), cause, log: String::new() });
        }
        let wanted: Vec<Wanted> =
            stack.services.iter().map(|(name, service)| self.wanted_service(name, service)).collect();
        let record = self.writer.services();
        let mut bindings =
            self.sandbox.bind(&record, round, stack.number, &wanted).map_err(|error| Trouble::plan(&error))?;
        let containers = self.contain(stack, &mut bindings)?;
        if let Some(away) = &self.away {
            let cases = self.job.plan.cases.iter().filter(|case| case.stack == stack.number);
            for target in cases.map(|case| case.load.target.as_str()).collect::<BTreeSet<_>>() {
                away.place(&mut bindings, target, &containers).map_err(|cause| Trouble::plan(&cause))?;
            }
        }
        let services = self.job.plan.services(stack, &bindings).map_err(|error| Trouble::plan(&error))?;
        Ok(StackPlan { bindings, services, containers })
    }

    /// Puts those services of a stack into containers that the plan says.
    fn contain(&self, stack: &PlannedStack, bindings: &mut Bindings) -> Result<IndexMap<String, Housing>, Trouble> {
        let containers: IndexMap<_, _> = stack
            .services
            .iter()
            .filter_map(|(name, service)| Some((name.clone(), service.container.clone()?)))
            .collect();
        let (_, cpus) = placement::cpus(&self.job.settings.placement);
        bindings.cpus = cpus.unwrap_or_default();
        match &self.site {
            _ if containers.is_empty() => Ok(IndexMap::new()),
            None => unreachable!("a plan with containers has looked for an engine"),
            Some(Ok(site)) => site.place(bindings, &containers).map_err(|error| Trouble::plan(&error)),
            Some(Err(error)) => {
                Err(Trouble { stage: "locate".to_owned(), cause: error.to_string(), log: String::new() })
            }
        }
    }

    /// The program of a service in a container, where that is not this machine's.
    fn program_in_image(&self, service: &StackService) -> Option<&Path> {
        let site = self.site.as_ref()?.as_ref().ok().filter(|_| service.container.is_some())?;
        site.image.programs.get(&service.recipe).map(|located| located.path.as_path())
    }

    fn wanted_service(&self, name: &str, service: &StackService) -> Wanted {
        let recipe = &self.job.plan.experiment.recipes[&service.recipe];
        let inside = self.program_in_image(service);
        let here = || self.programs.get(&service.recipe).expect("nothing is missing").path.as_path();
        let program = inside.unwrap_or_else(here);
        let mut wanted = Wanted::new(name, service.transport, program);
        wanted.recipe.clone_from(&service.recipe);
        wanted.unprivileged = recipe.unprivileged;
        let listen = recipe.listen.get(&service.transport);
        if let Some(file) = listen.and_then(|listen| listen.file.as_ref()) {
            wanted.socket.clone_from(file);
        }
        wanted.authority = listen.and_then(|listen| listen.authority.clone());
        wanted
    }

    /// A failure row for each case of a stack.
    fn fail_stack(&mut self, round: u32, stack: usize, trouble: &Trouble) -> Result<(), RunError> {
        for case in self.job.plan.cases.iter().filter(|case| case.stack == stack) {
            self.fail(Failure {
                round,
                block: None,
                case: case.case.clone(),
                stage: trouble.stage.clone(),
                cause: trouble.cause.clone(),
                log: trouble.log.clone(),
            })?;
        }
        Ok(())
    }
}
