//! One round: starts services and drivers afresh, verifies the cases, drives them in blocks, and stops everything.

mod capacity;
mod headroom;
mod overload;
mod profile;
mod turns;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Display,
    path::{Path, PathBuf},
    sync::Arc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use indexmap::IndexMap;
use lasthop_classic::{self, Tool, drive::Foreign, tool_of};
use lasthop_model::{
    binding::{Account, Bindings, SOCKET, service_of},
    driver::ToolChoice,
    observation::{InContainer, Role},
    record::{CasePlan, CaseProof, Cpus, Failure, RoundRecord, Stage, TrialRecord},
};
use lasthop_observe::{
    link::{LinkWatch, Listening},
    observer::Observer,
};
use lasthop_plan::{
    model::RunAs,
    plan::{Plan, Stack as PlannedStack, StackService},
    render::RenderedCase,
};
use lasthop_protocol::{
    spec::Spec,
    wire::{self, TrialPhases},
};
use lasthop_stack::{
    account,
    container::site::Housing,
    exit::Exit,
    guard::{GuardedChild, SpawnRequest},
    locate,
    sandbox::Wanted,
    stack::{Instance, Log, Stack, StackPlan, StartError},
};
use lasthop_stats::random;
use lasthop_system::{executable::own_executable, files::Folder, interrupt, listener};
use lasthop_trial::{TrialResult, address::Address, options::Model, result::Proof};

use super::{
    Runner,
    driver::{self, Driver, DriverError},
    driver_place::DriverPlace,
    event::Event,
    given,
    job::{RunError, nanoseconds},
    kept, lengths, probe, site,
};

/// HOME of an account without one, as on Debian for `nobody`.
const NO_HOME: &str = "/nonexistent";
/// Name of lasthop's own driver among the others.
const OWN: &str = "lasthop";

/// The running processes of a round.
pub struct Round {
    number: u32,
    /// How long the start took, without steps of the first round only.
    started: Duration,
    /// The planned number of blocks.
    planned: u32,
    /// Stacks by number; `None` for a stack that did not start.
    stacks: Vec<Option<RunningStack>>,
    /// Drivers by command.
    drivers: BTreeMap<String, RunningDriver>,
    /// Drivers started so far, including those that have ended.
    drivers_started: usize,
    /// Drivers by index of the case; `None` if the case does not work.
    ready: Vec<Option<Ready>>,
    observer: Observer,
}

/// The driver that prepared a case. A driver that replaces it does not know the case.
#[derive(Clone)]
struct Ready {
    driver: String,
    pid: i32,
    /// The specification that the driver has.
    spec: Box<Spec>,
}

/// A stack whose services are ready.
struct RunningStack {
    stack: Stack,
    bindings: Bindings,
    /// Whether failures no longer wait for a service to end: one has waited, or this is not the first round.
    waited: bool,
}

/// How long a service that fails during its start may take to end after its first wrong reply.
const LAST_WORDS: Duration = Duration::from_secs(1);

struct RunningDriver {
    driver: Driver,
    process: GuardedChild,
    log: std::path::PathBuf,
}

impl RunningDriver {
    /// Prepares a case, with file paths as the driver sees them.
    fn prepare(&mut self, place: Option<&DriverPlace>, case: &str, spec: &Spec) -> Result<Proof, DriverError> {
        let there = place.map(|place| place.localise(spec)).transpose();
        let there = there.map_err(|cause| DriverError::Refused {
            stage: wire::Stage::Spec,
            cause,
        })?;
        self.driver.prepare(case, there.as_ref().unwrap_or(spec))
    }

    /// Ends the driver by closing its input.
    fn stop(self) {
        drop(self.driver);
        let _ = self.process.stop(libc::SIGTERM, Duration::from_secs(2));
    }

    /// Runs a short trial that does not count, and another of up to the usual length if the first had fewer replies
    /// than `least` says.
    fn warm_up(
        &mut self,
        case: &str,
        phases: TrialPhases,
        least: impl FnOnce(&TrialResult) -> u64,
    ) -> Result<TrialResult, DriverError> {
        let short = TrialPhases {
            measure_ns: phases.measure_ns.min(WARM_NS),
            ..phases
        };
        let warm = self.driver.trial(case, short);
        let is_enough = match &warm {
            Ok(warm) => warm.requests_total >= least(warm),
            // A trial without a reply is refused at this stage; a longer one may have some.
            Err(error) => !matches!(
                error,
                DriverError::Refused {
                    stage: wire::Stage::Trial,
                    ..
                }
            ),
        };
        if is_enough || short == phases {
            return warm;
        }
        self.driver.trial(
            case,
            TrialPhases {
                measure_ns: phases.measure_ns.min(FEW_NS),
                ..phases
            },
        )
    }
}

/// The longest measure phase of a warm-up trial, in nanoseconds.
const WARM_NS: u64 = 20_000_000;
/// The longest measure phase of a second warm-up trial, if the first had few replies, in nanoseconds.
const FEW_NS: u64 = 50_000_000;
/// The longest trial that settles a server, in nanoseconds. Ctrl-C is noticed between trials.
const SETTLE_NS: u64 = 1_000_000_000;
/// The fewest requests that show how long a case's replies take. After the first round this is known.
const TELLING_REQUESTS: u64 = 5;
/// The longest time to warm a case up again until a connection of its link is seen.
const LINK_PATIENCE: Duration = Duration::from_secs(2);

/// A failure without its round and case.
#[derive(Clone)]
struct Trouble {
    stage: Stage,
    cause: String,
    log: Log,
    /// The failed trial's result, as far as its driver reported it.
    result: Option<Box<TrialResult>>,
}

impl From<&StartError> for Trouble {
    fn from(error: &StartError) -> Self {
        let cause = format!("service `{}`: {}", error.service, error.cause);
        Self::at(error.stage.clone(), cause).with(error.log.clone())
    }
}

impl Trouble {
    /// A failure without a log.
    fn at(stage: Stage, cause: impl ToString) -> Self {
        Self {
            stage,
            cause: cause.to_string(),
            log: Log::default(),
            result: None,
        }
    }

    fn with(self, log: Log) -> Self {
        Self { log, ..self }
    }

    fn ended(stage: Stage, instance: &Instance, exit: Exit) -> Self {
        let cause = format!("service `{}` {exit}{}", instance.name, exit.advice());
        Self::at(stage, cause).with(instance.read_log())
    }

    /// Adds the result of the failed trial.
    fn after(self, result: Box<TrialResult>) -> Self {
        let result = Some(result);
        Self { result, ..self }
    }

    fn preparing(cause: impl ToString) -> Self {
        Self::at(Stage::Prepare, cause)
    }

    fn into_failure(self, round: u32, block: Option<u32>, case: &CasePlan) -> Failure {
        let Self {
            stage,
            cause,
            log,
            result,
        } = self;
        let (requests, errors) = result
            .map(|result| (result.requests_total, result.errors))
            .unwrap_or_default();
        Failure {
            round,
            block,
            case: case.case.clone(),
            stage,
            cause,
            log: log.tail,
            log_file: log.file,
            hint: None,
            requests,
            errors,
        }
    }
}

/// Restarts servers that lasthop did not start, if there is a command for it and they have been measured already.
fn restart_given(runner: &mut Runner<'_>, number: u32) -> Result<Vec<String>, String> {
    let Some(given) = runner.job.plan.given.as_ref().filter(|_| number > 0) else {
        return Ok(Vec::new());
    };
    let Some(command) = &given.restart else {
        return Ok(Vec::new());
    };
    let patience = given::patience(runner.left());
    (runner.tell)(&Event::Restarting { patience });
    given::restart(given, command, patience, || !runner.is_cut_short())
}

impl Round {
    /// Starts all stacks at the same time, then verifies each case.
    ///
    /// # Errors
    /// The record cannot be written. A stack that does not start becomes failure rows of its cases.
    pub fn start(runner: &mut Runner<'_>, number: u32) -> Result<Self, RunError> {
        runner.round = number;
        let at = runner.elapsed();
        let begun = Instant::now();
        let plan = runner.job.plan;
        let services = plan.stacks.iter().map(|stack| stack.services.len()).sum();
        (runner.tell)(&Event::Starting { services });
        let mut round = Self {
            number,
            started: Duration::ZERO,
            planned: 0,
            stacks: plan.stacks.iter().map(|_| None).collect(),
            drivers: BTreeMap::new(),
            drivers_started: 0,
            ready: plan.cases.iter().map(|_| None).collect(),
            observer: Observer::new(Vec::new()),
        };
        let mut same_servers = Vec::new();
        match restart_given(runner, number) {
            Ok(same) => {
                same_servers = same;
                round.start_stacks(runner)?;
            }
            // A guard that ends takes services along, which is no failure of the stack.
            Err(_) if runner.was_cut_off() => {}
            Err(trouble) => runner.fail_stack(number, 0, &Trouble::at(Stage::Start, trouble))?,
        }
        let ready = begun.elapsed();
        round.observer = Observer::new(round.roles(runner.job.plan));
        runner.keep_environment()?;
        let mut proofs = IndexMap::new();
        for index in 0..plan.cases.len() {
            if runner.is_cut_short() {
                break;
            }
            if let Some(proof) = round.open(runner, index)? {
                proofs.insert(plan.cases[index].case.clone(), proof.into());
            }
        }
        round.started = begun.elapsed();
        let headroom = headroom::calibrate(&mut round, runner, &mut proofs)?;
        // Nothing is measured while servers of the previous round still end.
        runner.wait_for_stop()?;
        if runner.is_cut_short() {
            // An incomplete round does not count: the next one examines what only the first round examines.
            return Ok(round);
        }
        round.lengthen(runner);
        round.planned = round.blocks_to_come(runner);
        runner.append(TrialRecord::Round(Box::new(RoundRecord {
            round: number,
            at_ns: nanoseconds(at),
            start_ns: nanoseconds(begun.elapsed()),
            ready_ns: Some(nanoseconds(ready)),
            cases: proofs,
            headroom,
            blocks: Some(round.planned),
            left: runner
                .rotation
                .left()
                .map(|index| plan.cases[index].case.clone())
                .collect(),
            same_servers,
        })))?;
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
                Err(_) if runner.was_cut_off() => return Ok(()),
                Err(trouble) => runner.fail_stack(self.number, stack.number, &trouble)?,
            }
        }
        let waited = !runner.is_first_round();
        let started = Stack::start_all(runner.guard, &plans);
        for (plan, started) in plans.into_iter().zip(started) {
            let number = plan.bindings.stack;
            match started {
                Ok(stack) => {
                    self.stacks[number] = Some(RunningStack {
                        stack,
                        bindings: plan.bindings,
                        waited,
                    });
                }
                Err(_) if runner.was_cut_off() => {}
                Err(error) => runner.fail_stack(self.number, number, &Trouble::from(&error))?,
            }
        }
        Ok(())
    }

    /// Lengthens the trials of slow cases. Returns whether any became longer.
    fn lengthen(&self, runner: &mut Runner<'_>) -> bool {
        if !lengths::may_grow(self.number, runner.left(), runner.budget()) {
            return false;
        }
        let changed = runner.lengths.adapt(runner.left(), |case| self.ready[case].is_some());
        if changed {
            runner.pace.forget_blocks();
        }
        changed
    }

    /// How many more blocks the round gets.
    fn blocks_to_come(&self, runner: &Runner<'_>) -> u32 {
        let settings = &runner.job.settings;
        let loads = settings.overload.as_ref().map(|overload| overload.times.len() as u32);
        loads.or(settings.blocks).unwrap_or_else(|| {
            let block = self.block_length(runner);
            let start = self.started + self.profiling(runner);
            runner.pace.blocks(runner.budget(), runner.left(), start, block)
        })
    }

    /// How long a block takes, as planned.
    fn block_length(&self, runner: &Runner<'_>) -> Duration {
        let trials = (0..self.ready.len()).filter(|index| self.ready[*index].is_some());
        let phases = trials.map(|index| runner.phases(index));
        Duration::from_nanos(phases.map(|phases| phases.warm_up_ns + phases.measure_ns).sum())
    }

    /// Opens a case's connections, verifies its replies and its link, and warms it up.
    fn open(&mut self, runner: &mut Runner<'_>, index: usize) -> Result<Option<CaseProof>, RunError> {
        let case = runner.case(index);
        let Some(up) = &self.stacks[case.stack].as_ref().filter(|_| runner.rotation.has(index)) else {
            return Ok(None);
        };
        let bindings = up.bindings.clone();
        let met = runner.meet(index).map_err(Trouble::preparing);
        let prepared = met.and_then(|_| self.prepare(runner, case, &bindings));
        let proven = prepared.and_then(|(rendered, driver)| {
            let proof = self.prove(runner, index, &bindings, rendered, &driver)?;
            Ok((proof, driver))
        });
        match proven {
            Ok((proof, driver)) => {
                let pid = self.drivers[&driver].process.pid;
                self.ready[index] = Some(Ready {
                    driver,
                    pid,
                    spec: Box::new(proof.spec.clone()),
                });
                Ok(Some(proof))
            }
            Err(_) if runner.was_cut_off() => Ok(None),
            Err(trouble) => {
                runner.fail(trouble.into_failure(self.number, None, case))?;
                Ok(None)
            }
        }
    }

    /// Renders a case and starts its driver. Returns the driver's name.
    fn prepare(
        &mut self,
        runner: &Runner<'_>,
        case: &CasePlan,
        bindings: &Bindings,
    ) -> Result<(RenderedCase, String), Trouble> {
        let mut rendered = runner.job.plan.render(case, bindings).map_err(Trouble::preparing)?;
        if let Model::Open(open) = &mut rendered.spec.model {
            open.seed = self.arrivals_seed(runner);
        }
        if let Some(cause) = runner
            .driver_place
            .as_ref()
            .and_then(|place| place.refuses(&rendered.spec.endpoint.address))
        {
            return Err(Trouble::at(Stage::Connect, cause));
        }
        let command = match tool_of(&case.levels) {
            Some(tool) => Some(runner.tool_command(tool)?),
            None => rendered.driver.clone(),
        };
        if command.is_none() {
            let spec = &mut rendered.spec;
            spec.threads = runner.threads.min(spec.connections).max(spec.threads);
        }
        let driver = self.start_driver(runner, command)?;
        Ok((rendered, driver))
    }

    /// Verifies the replies and the link of a prepared case.
    fn prove(
        &mut self,
        runner: &mut Runner<'_>,
        index: usize,
        bindings: &Bindings,
        RenderedCase { spec, proof, .. }: RenderedCase,
        driver: &str,
    ) -> Result<CaseProof, Trouble> {
        let case = runner.case(index);
        let settling = self.settling(runner, index);
        let watch = self.watch_link(runner, case, bindings, proof.is_some());
        let budget_ns = runner.job.settings.budget_ns;
        let mut room = Ok(());
        let running = self.drivers.get_mut(driver).expect("it has just been started");
        let verified = running
            .prepare(runner.driver_place.as_ref(), &case.case, &spec)
            .and_then(|seen| {
                // A tool's shortest trial is long, and its driver has already verified the replies with lasthop's own
                // engine.
                if tool_of(&case.levels).is_some() {
                    return Ok((seen, 0));
                }
                // In a run with overload the open loop has no rate before the capacity is measured.
                let name = match &runner.job.settings.overload {
                    None => case.case.clone(),
                    Some(_) => {
                        let name = capacity::closed_name(&case.case);
                        running.prepare(runner.driver_place.as_ref(), &name, &capacity::closed(&spec))?;
                        name
                    }
                };
                let begun = Instant::now();
                let mut requests = 0;
                let is_first = runner.is_first_round();
                while settling > begun.elapsed() && !runner.is_cut_short() {
                    let left = nanoseconds(settling - begun.elapsed()).clamp(WARM_NS, SETTLE_NS);
                    let slice = TrialPhases {
                        warm_up_ns: 0,
                        measure_ns: left,
                    };
                    requests += running.driver.trial(&name, slice)?.requests_total;
                }
                let begun = Instant::now();
                let phases = runner.phases(index);
                let mut asks_more = false;
                let warm = running.warm_up(&name, phases, |first| {
                    if is_first && runner.job.settings.overload.is_none() && !runner.job.whole_round {
                        room = runner.lengths.check_first(index, first, budget_ns);
                    }
                    asks_more = is_first && room.is_ok() && runner.lengths.may_ask_more(budget_ns);
                    if asks_more { TELLING_REQUESTS } else { 1 }
                })?;
                requests += warm.requests_total;
                if room.is_err() {
                    return Ok((seen, requests));
                }
                if asks_more && runner.lengths.is_short_for(index, &warm) {
                    let before = self.observer.snapshot(case.stack);
                    let again = running.warm_up(&name, phases, |_| TELLING_REQUESTS)?;
                    let after = self.observer.snapshot(case.stack);
                    let observed = self.observer.between(&before, &after, case.stack);
                    requests += again.requests_total;
                    runner.lengths.expect(index, [&warm, &again], observed.machine.taken());
                }
                while watch.as_ref().is_some_and(|watch| !watch.has_seen())
                    && begun.elapsed() < LINK_PATIENCE
                    && !runner.is_cut_short()
                {
                    let least = if is_first { TELLING_REQUESTS } else { 1 };
                    requests += running.warm_up(&name, phases, |_| least)?.requests_total;
                }
                Ok((seen, requests))
            });
        let (seen, requests) = verified.map_err(|error| self.examine_driver(runner, driver, case, &error))?;
        room.map_err(|cause| Trouble::at(Stage::Verify, cause))?;
        let (seen_link, elsewhere) = watch.map_or((None, None), |watch| watch.saw(requests));
        let link = match proof {
            None => seen_link,
            Some(wanted) => Some(probe::link(&spec, &wanted, || !runner.is_cut_short()).map_err(|cause| {
                let cause = format!("the application does not say which connection a request came over: {cause}");
                Trouble::at(Stage::Verify, cause).with(self.log_of(case))
            })?),
        };
        let path = match (&runner.site, runner.is_first_round()) {
            (Some(_), true) => self.path(runner, case),
            _ => Vec::new(),
        };
        let mut spec = spec;
        if runner.job.plan.given.is_some() {
            spec.protocol.hide_secrets();
        }
        Ok(CaseProof {
            spec,
            driver: seen,
            link,
            elsewhere,
            path,
        })
    }

    /// How long a case loads its servers before the measurement. Servers that are never restarted settle only once.
    fn settling(&self, runner: &Runner<'_>, index: usize) -> Duration {
        let cases = &runner.job.plan.cases;
        // The cases of a stack load the same servers, one after the other, so each takes its share of the time.
        let sharing = (0..cases.len())
            .filter(|case| cases[*case].stack == cases[index].stack && runner.rotation.has(*case))
            .count()
            .max(1) as u32;
        let given = runner.job.plan.given.as_ref();
        let runs_already = self.number > 0 && given.is_some_and(|given| given.restart.is_none());
        if runs_already {
            Duration::ZERO
        } else {
            Duration::from_nanos(runner.job.settings.settle_ns) / sharing
        }
    }

    /// Watches the link's server while the driver sends, unless the driver is the client of the link. If the
    /// application reports its connections (`tells`), a server is watched only if it also listens at other addresses.
    fn watch_link(&self, runner: &Runner<'_>, case: &CasePlan, bindings: &Bindings, tells: bool) -> Option<LinkWatch> {
        let link = &runner.job.plan.experiment.link;
        if !runner.job.plan.experiment.services.contains_key(&link.from) {
            return None;
        }
        let stack = &self.stacks[case.stack].as_ref()?.stack;
        let servers = bindings
            .services
            .values()
            .filter(|server| service_of(&server.name) == link.to);
        let listening = servers.filter_map(|server| Some((stack.instance(&server.name)?.pid, server.listen.clone())));
        let listening: Vec<Listening> = listening.collect();
        let is_known = |(_, address): &Listening| bindings.services.values().any(|one| is_at(&one.listen, address));
        // The configuration never changes between rounds, and long tables take long to read.
        let looked_at = listening.iter().filter(|_| runner.is_first_round());
        let all = looked_at.flat_map(|(pid, _)| listener::listening(*pid).into_iter().map(|at| (*pid, at)));
        let others: Vec<Listening> = all.filter(|other| !is_known(other)).collect();
        (!tells || !others.is_empty()).then(|| LinkWatch::start(listening, others))
    }

    /// The seed of arrivals, equal for all cases of a round and new in each round.
    fn arrivals_seed(&self, runner: &Runner<'_>) -> u64 {
        random::seed_for(runner.job.settings.seed, &["arrivals", &self.number.to_string()])
    }

    /// The path to the container of the link's server, in words.
    fn path(&self, runner: &Runner<'_>, case: &CasePlan) -> Vec<String> {
        let link = &runner.job.plan.experiment.link;
        let service = |name: &str| self.stacks[case.stack].as_ref().and_then(|up| up.stack.instance(name));
        let server = service(&link.to);
        server
            .map(|server| server.path(service(&link.from)))
            .unwrap_or_default()
    }

    /// Starts a driver, lasthop's own without a command, unless it already runs. Returns its name.
    fn start_driver(&mut self, runner: &Runner<'_>, command: Option<Vec<String>>) -> Result<String, Trouble> {
        let name = command
            .as_ref()
            .map_or_else(|| OWN.to_owned(), |command| command.join(" "));
        if self.drivers.contains_key(&name) {
            return Ok(name);
        }
        let folder = runner.writer.services().join(self.number.to_string());
        let log = folder.join(format!("driver-{}.log", self.drivers_started));
        self.drivers_started += 1;
        let running = spawn_driver(runner, command, &log)
            .map_err(|cause| Trouble::at(Stage::Start, cause).with(Log::read(&log)))?;
        if runner.driver_place.as_ref().and_then(DriverPlace::network).is_some() {
            self.observer.also_network_of(running.process.pid);
        }
        self.drivers.insert(name.clone(), running);
        Ok(name)
    }

    /// Opens every working case again, with new drivers.
    fn reopen(
        &mut self,
        runner: &mut Runner<'_>,
        proofs: &mut IndexMap<String, Arc<CaseProof>>,
    ) -> Result<(), RunError> {
        for running in std::mem::take(&mut self.drivers).into_values() {
            running.stop();
        }
        for index in 0..self.ready.len() {
            if self.ready[index].take().is_none() || runner.is_cut_short() {
                continue;
            }
            let case = runner.case(index).case.clone();
            match self.open(runner, index)? {
                Some(proof) => proofs.insert(case, proof.into()),
                None => proofs.shift_remove(&case),
            };
        }
        Ok(())
    }

    /// Begins to end drivers and services, in any state.
    pub fn stop(self, runner: &mut Runner<'_>) -> StoppingRound {
        let services = self.stacks.iter().flatten().map(|up| up.stack.instances.len()).sum();
        (runner.tell)(&Event::Stopping { services });
        let round = self.number;
        let drivers = self.drivers;
        let stacks = self.stacks;
        let ending = thread::Builder::new().name("stopping".to_owned()).spawn(move || {
            let _shield = interrupt::shield();
            for running in drivers.into_values() {
                running.stop();
            }
            let stacks: Vec<Stack> = stacks.into_iter().flatten().map(|up| up.stack).collect();
            let ended = Stack::stop_all(&stacks);
            stacks.iter().map(|stack| stack.stack).zip(ended).collect()
        });
        // If there is no thread, everything was dropped, which kills the processes.
        StoppingRound {
            round,
            ending: ending.ok(),
        }
    }

    fn roles(&self, plan: &Plan) -> Vec<Role> {
        let mut roles = plan.given.as_ref().map(given::roles).unwrap_or_default();
        for up in self.stacks.iter().flatten() {
            let stack = up.bindings.stack;
            for one in &up.stack.instances {
                let name = service_of(&one.name).to_owned();
                roles.push(Role {
                    stack,
                    name,
                    pid: one.pid,
                    container: one.in_container(),
                });
                for (name, pid) in &one.helpers {
                    roles.push(Role {
                        stack,
                        name: name.clone(),
                        pid: *pid,
                        container: InContainer::No,
                    });
                }
            }
        }
        roles
    }

    /// Why a driver's request failed. Removes the driver if it is dead and no service has ended.
    fn examine_driver(&mut self, runner: &Runner<'_>, name: &str, case: &CasePlan, error: &DriverError) -> Trouble {
        if error.is_alive() {
            return self.examine(case, error.stage(), error);
        }
        self.wait_for_end(case, error.stage(), error).unwrap_or_else(|| {
            let log = self
                .drivers
                .remove(name)
                .map(|dead| Log::read(&dead.log))
                .unwrap_or_default();
            let explained = runner
                .driver_place
                .as_ref()
                .map(DriverPlace::explain_end)
                .unwrap_or_default();
            Trouble::at(error.stage(), format!("{error}{explained}")).with(log)
        })
    }

    /// Why a case failed.
    fn examine(&mut self, case: &CasePlan, stage: Stage, seen: impl Display) -> Trouble {
        let ended = self.wait_for_end(case, stage.clone(), &seen);
        ended.unwrap_or_else(|| Trouble::at(stage, seen).with(self.log_of(case)))
    }

    /// The end of a service of the case, if it ends: that explains more than a reset connection.
    fn wait_for_end(&mut self, case: &CasePlan, stage: Stage, seen: impl Display) -> Option<Trouble> {
        let (instance, exit) = self.stacks[case.stack].as_mut()?.wait_for_end()?;
        let ended = Trouble::ended(stage, instance, exit);
        Some(Trouble {
            cause: format!("{} ({seen})", ended.cause),
            ..ended
        })
    }

    /// Checks that the case's services run and share no port. Otherwise replies may come from another process, such as
    /// a worker that outlives its master, and must not be measured.
    fn alive(&self, case: &CasePlan) -> Result<(), Trouble> {
        let Some(stack) = self.stacks[case.stack].as_ref().map(|up| &up.stack) else {
            return Ok(());
        };
        if let Some((instance, exit)) = stack.died() {
            return Err(Trouble::ended(Stage::Trial, instance, exit));
        }
        match stack.instances.iter().find_map(Instance::shares_with) {
            Some(cause) => Err(Trouble::at(Stage::Trial, cause)),
            None => Ok(()),
        }
    }

    /// The log of the service that a case's driver talks to.
    fn log_of(&self, case: &CasePlan) -> Log {
        let target = self.stacks[case.stack]
            .as_ref()
            .and_then(|up| up.stack.instance(&case.load.target));
        target.map(Instance::read_log).unwrap_or_default()
    }
}

/// Whether a service of a stack runs in a container.
fn is_contained(stack: &PlannedStack) -> bool {
    stack.services.values().any(|service| service.container.is_some())
}

/// Whether a listener is at an address; any address of the machine will do.
fn is_at(address: &Address, listener: &Address) -> bool {
    match (address, listener) {
        (Address::Tcp(address), Address::Tcp(listener)) => address.port() == listener.port(),
        _ => address.unix_name().is_some() && address.unix_name() == listener.unix_name(),
    }
}

/// A stack's number, and how the stack ended.
type Ended = (usize, Result<(), StartError>);

/// A round whose drivers and services are ending. A service that exceeds its deadline is killed.
pub struct StoppingRound {
    round: u32,
    ending: Option<JoinHandle<Vec<Ended>>>,
}

impl StoppingRound {
    /// Waits until all have ended.
    ///
    /// # Errors
    /// The record cannot be written. A service that does not end becomes a failure row.
    pub fn wait(self, runner: &mut Runner<'_>) -> Result<(), RunError> {
        let Some(ending) = self.ending else { return Ok(()) };
        let ended = ending.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        for (number, ended) in ended {
            if let Err(error) = ended
                && !runner.guard.is_lost()
            {
                runner.fail_stack(self.round, number, &Trouble::from(&error))?;
            }
        }
        let folder = runner.writer.directory().join("services").join(self.round.to_string());
        // Before files are shared: a file that is rewritten later would no longer be a link.
        kept::hide_names(&folder);
        for (first, copy) in runner.kept.copies(&folder) {
            // A file that cannot be shared stays a copy.
            let _ = kept::share(&first, &copy);
        }
        Ok(())
    }
}

impl RunningStack {
    /// The service that ended by itself. A server whose workers cannot start may accept a connection and end a little
    /// later, so the first failure waits.
    fn wait_for_end(&mut self) -> Option<(&Instance, Exit)> {
        let begun = Instant::now();
        while !self.waited
            && self.stack.died().is_none()
            && begun.elapsed() < LAST_WORDS
            && interrupt::pause(Duration::from_millis(10))
        {}
        self.waited = true;
        self.stack.died()
    }
}

fn spawn_driver(runner: &Runner<'_>, command: Option<Vec<String>>, log: &Path) -> Result<RunningDriver, String> {
    let own = own_executable()?;
    let command = match &runner.driver_place {
        Some(place) => place.command(&own, command)?,
        None => command.unwrap_or_else(|| vec![own, "drive".to_owned()]),
    };
    let record = runner.writer.directory();
    let below = log.strip_prefix(record).expect("it is in the record");
    // Without following links, because a resumed record may be somebody else's.
    let file = Folder::open(record).and_then(|record| {
        record.make(below.parent().expect("it has a folder"), 0o755)?;
        record.create(below, 0o644)
    });
    let file = file.map_err(|error| format!("cannot write {}: {error}", log.display()))?;
    let network = runner.driver_place.as_ref().and_then(DriverPlace::network);
    let mut request = SpawnRequest {
        cpus: runner.cpus().driver.to_vec(),
        network: network.map(Path::to_owned),
        ..SpawnRequest::of(&command)
    };
    if let Some(account) = runner.driver_account() {
        request.user = Some(account.ids);
        request.needed = runner.sandbox.needed(runner.files_of_driver(&command), &account)?;
        // The account may have no access to lasthop's working directory and home.
        request.directory = Some("/".into());
        request.environment = vec![("HOME".to_owned(), NO_HOME.to_owned())];
    }
    let (process, lines) = runner.guard.spawn_with_lines(request, Some(file), driver::LONGEST)?;
    let driver = Driver::greet(lines).map_err(|error| error.to_string())?;
    Ok(RunningDriver {
        driver,
        process,
        log: log.to_owned(),
    })
}

impl Runner<'_> {
    /// Lengths of a case's trials. Tools run for whole seconds and have no warm-up.
    fn phases(&self, case: usize) -> TrialPhases {
        let phases = self.lengths.phases(case);
        match tool_of(&self.case(case).levels) {
            None => phases,
            Some(_) => {
                let wanted = phases.measure_ns.div_ceil(1_000_000_000) * 1_000_000_000;
                TrialPhases {
                    warm_up_ns: 0,
                    measure_ns: wanted.max(nanoseconds(lasthop_classic::SHORTEST_TRIAL)),
                }
            }
        }
    }

    /// The CPUs of this round.
    pub(super) fn cpus(&self) -> Cpus<'_> {
        self.job.settings.placement.in_round(self.round, self.threads)
    }

    /// The account of drivers, if not lasthop's: that of the servers, unless one keeps lasthop's rights or runs in a
    /// container, where sockets belong to the user inside. Servers that run already may require rights that only
    /// lasthop's user has.
    pub(super) fn driver_account(&self) -> Option<Account> {
        let plan = self.job.plan;
        let elsewhere = matches!(self.driver_place, Some(DriverPlace::Host(_)));
        if elsewhere || plan.given.is_some() || !account::current().is_root {
            return None;
        }
        let mut stacks = plan.stacks.iter();
        let unprivileged = stacks.all(|stack| {
            !is_contained(stack)
                && stack
                    .services
                    .values()
                    .all(|service| self.is_unprivileged(service, false))
        });
        unprivileged.then(account::unprivileged)?.ok()
    }

    /// Files that a driver with this command reads: programs, and files in its arguments.
    fn files_of_driver(&self, command: &[String]) -> Vec<PathBuf> {
        let words = command.iter().map(|word| {
            let path = word.contains('/').then(|| PathBuf::from(word));
            path.or_else(|| locate::on_path(word))
        });
        let tools = self.programs.tools().map(|tool| Some(tool.path.clone()));
        words.chain(tools).flatten().filter(|path| path.is_absolute()).collect()
    }

    /// The command line of lasthop as the driver that runs a tool.
    fn tool_command(&self, tool: &Tool) -> Result<Vec<String>, Trouble> {
        let located = self.programs.tool(tool.name);
        let choice = self.job.settings.tools.iter().find(|choice| choice.tool == tool.name);
        let name = format!("tool-{}", tool.name);
        let scratch = self.sandbox.path().join(&name);
        let made = Folder::open(self.sandbox.path()).and_then(|sandbox| sandbox.make(Path::new(&name), 0o700));
        made.and_then(|made| match self.driver_account() {
            Some(Account { ids: (user, group), .. }) => made.give(Some(user), Some(group)),
            None => Ok(()),
        })
        .map_err(Trouble::preparing)?;
        let foreign = Foreign {
            choice: choice.cloned().unwrap_or_else(|| ToolChoice::plain(tool.name)),
            program: located.path.clone(),
            version: located.version.clone(),
            scratch,
        };
        let own = own_executable().map_err(Trouble::preparing)?;
        let json = serde_json::to_string(&foreign).expect("plain data with text keys");
        Ok(vec![own, "drive".to_owned(), "--foreign".to_owned(), json])
    }

    /// Whether a stack still has a case that takes turns.
    fn wanted(&self, stack: usize) -> bool {
        self.job
            .plan
            .cases
            .iter()
            .enumerate()
            .any(|(index, case)| case.stack == stack && self.rotation.has(index))
    }

    fn stack_plan(&self, stack: &PlannedStack, round: u32) -> Result<StackPlan, Trouble> {
        let may_bring = stack
            .services
            .values()
            .any(|service| site::may_bring(self.job, service));
        if let (true, Some(Err(error))) = (may_bring, &self.site) {
            return Err(Trouble::at(Stage::Locate, error));
        }
        if let Some((service, error)) = self
            .programs
            .missing(stack, |service| self.program_in_image(service).is_some())
        {
            return Err(Trouble::at(Stage::Locate, format!("service `{service}`: {error}")));
        }
        let contained = is_contained(stack);
        let wanted: Vec<Wanted> = stack
            .services
            .iter()
            .map(|(name, service)| self.wanted_service(name, service, contained))
            .collect();
        let record = self.writer.services();
        let mut bindings = self
            .sandbox
            .bind(&record, round, stack.number, &wanted)
            .map_err(Trouble::preparing)?;
        let containers = self.contain(stack, &mut bindings)?;
        if let Some(place) = &self.driver_place {
            let cases = self.job.plan.cases.iter().filter(|case| case.stack == stack.number);
            for target in cases.map(|case| case.load.target.as_str()).collect::<BTreeSet<_>>() {
                place
                    .make_reachable(&mut bindings, target, &containers)
                    .map_err(Trouble::preparing)?;
            }
        }
        let services = self.job.plan.services(stack, &bindings).map_err(Trouble::preparing)?;
        Ok(StackPlan {
            bindings,
            services,
            containers,
        })
    }

    /// Assigns services of a stack to containers, as planned.
    fn contain(&self, stack: &PlannedStack, bindings: &mut Bindings) -> Result<IndexMap<String, Housing>, Trouble> {
        let containers: IndexMap<_, _> = stack
            .services
            .iter()
            .filter_map(|(name, service)| Some((name.clone(), service.container.clone()?)))
            .collect();
        bindings.cpus = self.cpus().services.to_vec();
        match &self.site {
            _ if containers.is_empty() => Ok(IndexMap::new()),
            None => unreachable!("a plan with containers has looked for an engine"),
            Some(Ok(site)) => site.place(bindings, &containers).map_err(Trouble::preparing),
            Some(Err(error)) => Err(Trouble::at(Stage::Locate, error)),
        }
    }

    /// The program of a service in a container, if it differs from this machine's.
    fn program_in_image(&self, service: &StackService) -> Option<&Path> {
        let site = self
            .site
            .as_ref()?
            .as_ref()
            .ok()
            .filter(|_| service.container.is_some())?;
        site.image
            .programs
            .get(&service.recipe)
            .map(|located| located.path.as_path())
    }

    /// The wanted service; `contained` says whether its stack has containers.
    fn wanted_service(&self, name: &str, service: &StackService, contained: bool) -> Wanted {
        let experiment = &self.job.plan.experiment;
        let recipe = &experiment.recipes[&service.recipe];
        let inside = self.program_in_image(service);
        let program = inside.unwrap_or_else(|| {
            self.programs
                .get(&service.recipe)
                .expect("nothing is missing")
                .path
                .as_path()
        });
        let listen = recipe.listen.get(&service.transport);
        let socket = listen.and_then(|listen| listen.file.clone());
        Wanted {
            name: name.to_owned(),
            transport: service.transport,
            program: program.to_owned(),
            recipe: service.recipe.clone(),
            packages: experiment.services[service_of(name)]
                .packages(recipe, |language| self.job.locator.packages(language)),
            socket: socket.unwrap_or_else(|| SOCKET.to_owned()),
            unprivileged: self.is_unprivileged(service, contained),
            in_container: service.container.is_some(),
            is_built: !recipe.start.build.is_empty(),
            authority: listen.and_then(|listen| listen.authority.clone()),
        }
    }

    /// Whether a service gives up root's rights. In a stack with containers it keeps them, to share sockets with these.
    fn is_unprivileged(&self, service: &StackService, contained: bool) -> bool {
        match self.job.plan.experiment.recipes[&service.recipe].start.run_as {
            Some(RunAs::Own) => false,
            Some(RunAs::Unprivileged) => true,
            None => !contained,
        }
    }

    /// A failure row for each case of a stack.
    fn fail_stack(&mut self, round: u32, stack: usize, trouble: &Trouble) -> Result<(), RunError> {
        for case in self.job.plan.cases.iter().filter(|case| case.stack == stack) {
            self.fail(trouble.clone().into_failure(round, None, case))?;
        }
        Ok(())
    }
}
