//! The load loop, closed or open: warm-up, measure, drain, on one thread or several. Threads share nothing during a
//! trial.

mod backoff;
mod blocking;
mod connection;
mod epoll;
mod one_way;
mod poller;
mod resend;
mod worker;

use std::{collections::BTreeMap, sync::Arc};

use blocking::Blocking;
pub use lasthop_protocol::wire::CaseError;
use lasthop_protocol::{
    spec::Spec,
    wire::{Stage, TrialPhases},
};
use lasthop_system::limits;
use lasthop_trial::{
    address::Address,
    options::{Engine, LoadStage, Model, possible_rate},
    result::{ErrorClass, ErrorCount, Proof, TrialResult},
};
use worker::{Worker, WorkerTrial};

pub use crate::supervisor::{Onlooker, supervised};
use crate::{
    at_once::AtOnce,
    pacer::Pacer,
    ports::Ports,
    receipt::Receipts,
    recorder,
    supervisor::Supervisor,
    transport::{Connector, Watch},
};

/// A prepared endpoint, with verified replies, open connections and waiting threads. They last across trials, until the
/// case is dropped.
pub struct Case {
    workers: Vec<Worker>,
    supervisor: Supervisor,
    engine: Engine,
    model: Model,
    /// Requests of a batch: sent together, or one after another on a connection that is then closed.
    batch: u64,
    proof: Proof,
    /// Connections of a closed loop with keep-alive and one request at a time on each; otherwise 0.
    keeps: u32,
    /// The server's count of received requests; only for a protocol without replies.
    receipts: Option<Receipts>,
    /// The local ports; only with a connection per request over TCP.
    ports: Option<Ports>,
}

impl Case {
    /// Verifies two replies, proves what the connection is, and opens all connections.
    ///
    /// # Errors
    ///
    /// The specification is invalid, a connect failed, or a reply is wrong; the stage tells which.
    pub fn prepare(spec: &Spec) -> Result<Self, CaseError> {
        Self::watched_prepare(spec, || true)
    }

    /// Like [`Case::prepare`]. If `go_on` returns false, preparing ends with a meaningless error.
    pub fn watched_prepare(spec: &Spec, go_on: impl FnMut() -> bool) -> Result<Self, CaseError> {
        Self::patient_prepare(spec, 1, go_on)
    }

    /// Like [`Case::watched_prepare`], with up to `tries` attempts to get each correct reply.
    pub fn patient_prepare(spec: &Spec, tries: u32, mut go_on: impl FnMut() -> bool) -> Result<Self, CaseError> {
        spec.validate().map_err(|error| CaseError::new(Stage::Spec, error))?;
        raise_descriptor_limit(spec.connections)?;
        let connector = Connector::new(spec).map_err(|error| CaseError::new(Stage::Spec, error))?;
        let receipts = receipts(spec)?;
        let mut probe = || {
            let probed = supervised(spec.timeouts, &mut go_on, |watch| {
                probe_twice(spec, tries, &connector, watch)
            });
            probed.map_err(|failure| CaseError::new(Stage::Verify, failure))?
        };
        let proof = match &receipts {
            Some(receipts) => one_way::verified(receipts, probe)?,
            None => probe()?,
        };
        let engine = chosen_engine(spec);
        let mut workers = Vec::with_capacity(spec.threads as usize);
        for index in 0..spec.threads {
            let share = spec.connections / spec.threads + u32::from(index < spec.connections % spec.threads);
            let pacer = match &spec.model {
                Model::Closed => None,
                Model::Open(open) => Some(Pacer::new(open, index, spec.threads)),
            };
            let worker = Worker::start(spec, &connector, engine, share, pacer);
            workers.push(worker.map_err(|error| CaseError::new(Stage::Connect, error))?);
        }
        let supervisor = Supervisor::new(workers.iter().map(Worker::watch).collect(), spec.timeouts);
        for worker in &workers {
            let opened = worker.opened(&supervisor, &mut go_on);
            opened.map_err(|failure| CaseError::failed(Stage::Connect, &failure))?;
        }
        Ok(Self {
            workers,
            supervisor,
            engine,
            model: spec.model,
            batch: u64::from(spec.pipeline) * u64::from(spec.requests_per_connection),
            proof,
            keeps: if spec.model == Model::Closed && spec.pipeline == 1 && !spec.closes_each_time() {
                spec.connections
            } else {
                0
            },
            receipts,
            ports: ports_of(spec),
        })
    }

    pub fn proof(&self) -> &Proof {
        &self.proof
    }

    /// A view of the progress of a running trial.
    pub fn onlooker(&self) -> Onlooker {
        Onlooker(self.workers.iter().map(Worker::watch).collect())
    }

    /// Runs one trial.
    pub fn trial(&mut self, phases: TrialPhases) -> Result<TrialResult, CaseError> {
        let result = self.watched_trial(phases, || true)?;
        if result.requests == 0 {
            return Err(CaseError::new(Stage::Trial, nothing_right(phases, &result.errors)));
        }
        match self.few_at_once(phases, &result) {
            Some(few) => Err(CaseError::new(Stage::Trial, few.in_words())),
            None => Ok(result),
        }
    }

    /// `Some` if the server served only some of the connections in this trial.
    pub fn few_at_once(&self, phases: TrialPhases, result: &TrialResult) -> Option<AtOnce> {
        AtOnce::of_trial(self.keeps, phases, result)
    }

    /// Runs a trial in stages on a case with an open loop. Failed requests are part of the result, even if all fail.
    pub fn staged(&mut self, stages: &[LoadStage]) -> Result<TrialResult, CaseError> {
        if self.model == Model::Closed {
            return Err(CaseError::new(Stage::Spec, "a closed loop has no stages"));
        }
        let possible = stages.iter().try_for_each(|stage| possible_rate(stage.rate));
        possible.map_err(|cause| CaseError::new(Stage::Spec, cause))?;
        let phases = TrialPhases::without_warm_up(LoadStage::total_ns(stages));
        self.ask(phases, stages, None, || true)
    }

    /// Runs one trial and calls `go_on` every 50 ms. If `go_on` returns false, the trial ends early with the counts so
    /// far and does not wait for late replies. Without any correct reply, `requests` is 0 and the errors say why.
    pub fn watched_trial(
        &mut self,
        phases: TrialPhases,
        go_on: impl FnMut() -> bool,
    ) -> Result<TrialResult, CaseError> {
        self.counted_trial(phases, None, go_on)
    }

    /// Like [`Case::watched_trial`]. A number of requests ends the trial once they have been sent and answered, unless
    /// the time ends before. All of them count: there is no warm-up. The number is rounded up to whole batches of
    /// pipelines and of connections with several requests.
    pub fn counted_trial(
        &mut self,
        phases: TrialPhases,
        requests: Option<u64>,
        go_on: impl FnMut() -> bool,
    ) -> Result<TrialResult, CaseError> {
        let Some(receipts) = self.receipts.take() else {
            return self.ask(phases, &[], requests, go_on);
        };
        let result = one_way::trial(&receipts, phases, go_on, |phases, go_on| {
            self.ask(phases, &[], requests, go_on)
        });
        self.receipts = Some(receipts);
        result
    }

    /// `stages` pace an open loop instead of its rate; an ordinary trial has none.
    fn ask(
        &mut self,
        phases: TrialPhases,
        stages: &[LoadStage],
        requests: Option<u64>,
        mut go_on: impl FnMut() -> bool,
    ) -> Result<TrialResult, CaseError> {
        let stages: Arc<[LoadStage]> = stages.into();
        let seconds = (phases.warm_up_ns + phases.measure_ns) as f64 / 1e9;
        let mut port_use = self.ports.as_ref().map(|ports| ports.before(seconds));
        let threads = self.workers.len() as u64;
        let batches = requests.map(|requests| requests.div_ceil(self.batch));
        for (index, worker) in (0..).zip(&self.workers) {
            worker.begin(WorkerTrial {
                phases,
                stages: Arc::clone(&stages),
                batches: batches.map(|batches| batches / threads + u64::from(index < batches % threads)),
            });
        }
        let mut look = || {
            port_use.iter_mut().for_each(Ports::during);
            go_on()
        };
        // While it waits for one record, the supervisor enforces the deadlines of all workers.
        let records = self
            .workers
            .iter()
            .map(|worker| worker.record(&self.supervisor, &mut look));
        let records: Option<Vec<TrialResult>> = records.collect();
        look();
        let records = records.ok_or_else(|| CaseError::new(Stage::Trial, "a worker thread died"))?;
        if let Some(ports) = &mut self.ports {
            ports.after(records.iter().map(|record| record.connections_opened).sum(), seconds);
        }
        let merged = recorder::merge(records, self.engine, self.model);
        Ok(TrialResult {
            ports: port_use.map(Box::new),
            ..merged
        })
    }
}

fn receipts(spec: &Spec) -> Result<Option<Receipts>, CaseError> {
    let receipt = spec.protocol.receipt();
    let made = receipt.map(|receipt| Receipts::new(&receipt, &spec.endpoint.address, spec.timeouts));
    made.transpose().map_err(|error| CaseError::new(Stage::Spec, error))
}

fn ports_of(spec: &Spec) -> Option<Ports> {
    match spec.endpoint.address {
        Address::Tcp(server) if spec.closes_each_time() => Some(Ports::new(server)),
        _ => None,
    }
}

/// The error message of a trial without a correct reply.
fn nothing_right(phases: TrialPhases, errors: &BTreeMap<ErrorClass, ErrorCount>) -> String {
    let milliseconds = phases.measure_ns as f64 / 1e6;
    let counts: Vec<String> = errors
        .values()
        .map(|error| format!("{} × {}", error.count, error.first))
        .collect();
    let why = if counts.is_empty() {
        "there was no error either; the phase may be too short".to_owned()
    } else {
        counts.join("; ")
    };
    format!("no correct reply within the measure phase of {milliseconds} ms: {why}")
}

/// Sends two requests like the case's, on a separate connection.
fn probe_twice(spec: &Spec, tries: u32, connector: &Connector, watch: Arc<Watch>) -> Result<Proof, CaseError> {
    let mut probe = Blocking::new(spec, connector.clone(), watch);
    let mut probe = || {
        let mut left = tries;
        loop {
            left = left.saturating_sub(1);
            match probe.probe() {
                Err(error) if left > 0 && error.class.is_some_and(ErrorClass::is_of_reply) => {}
                probed => return probed,
            }
        }
    };
    let first = probe()?;
    let second = probe()?;
    Ok(Proof {
        reused: second.reused,
        ..first
    })
}

fn chosen_engine(spec: &Spec) -> Engine {
    match spec.engine {
        // A blocking receive cannot busy-poll. With one connection per thread, it saves epoll's wait.
        Engine::Auto if spec.spins() => Engine::Epoll,
        Engine::Auto if spec.connections == spec.threads && spec.model == Model::Closed => Engine::Blocking,
        Engine::Auto => Engine::Epoll,
        forced => forced,
    }
}

/// Descriptors that a driver needs in addition to its connections: standard streams, epoll, timer, probes.
const OTHER_DESCRIPTORS: u64 = 64;

/// Raises the limit of open descriptors to what the connections need.
fn raise_descriptor_limit(connections: u32) -> Result<(), CaseError> {
    let needed = u64::from(connections) + OTHER_DESCRIPTORS;
    let limit = limits::lift_descriptors();
    if limit >= needed {
        return Ok(());
    }
    let text = format!(
        "{connections} connections need {needed} open files, but the hard limit is {limit} (raise it with `ulimit -Hn`)"
    );
    Err(CaseError::new(Stage::Spec, text))
}
