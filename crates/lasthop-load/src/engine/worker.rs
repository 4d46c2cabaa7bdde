//! A thread with its share of the connections. It takes trials from a channel and gives records back.

use std::{
    io,
    sync::{
        Arc,
        mpsc::{Receiver, Sender, channel},
    },
    thread::{self, JoinHandle},
};

use lasthop_protocol::{spec::Spec, wire::TrialPhases};
use lasthop_trial::{
    failure::Failure,
    options::{Engine, LoadStage},
    result::{ErrorClass, TrialResult},
};

use super::{blocking::Blocking, epoll::Epoll};
use crate::{
    pacer::Pacer,
    supervisor::Supervisor,
    transport::{Connector, Watch},
};

#[derive(Clone)]
pub struct WorkerTrial {
    pub phases: TrialPhases,
    /// Stages that pace an open loop instead of its rate; none in an ordinary trial.
    pub stages: Arc<[LoadStage]>,
    /// Batches of requests after which the trial ends, if not before.
    pub batches: Option<u64>,
}

pub struct Worker {
    /// `None` once the worker is told to end.
    trials: Option<Sender<WorkerTrial>>,
    opened: Receiver<Result<(), Failure>>,
    records: Receiver<TrialResult>,
    thread: Option<JoinHandle<()>>,
    watch: Arc<Watch>,
}

impl Worker {
    /// Starts the thread, which opens its `connections` at once.
    pub fn start(
        spec: &Spec,
        connector: &Connector,
        engine: Engine,
        connections: u32,
        pacer: Option<Pacer>,
    ) -> io::Result<Self> {
        let (trials, take_trials) = channel();
        let (tell_opened, opened) = channel();
        let (give_records, records) = channel();
        let spec = spec.clone();
        let connector = connector.clone();
        let watch = Arc::new(Watch::default());
        let watched = Arc::clone(&watch);
        // The thread makes its own loop: `Calls` is not `Send`, and a cost meter measures the thread that makes it.
        let body = move || match Loop::new(&spec, connector, engine, connections, pacer, watched) {
            Ok(mut own) => {
                sleep_precisely();
                let result = own.open();
                let failed = result.is_err();
                if tell_opened.send(result).is_ok() && !failed {
                    serve(&mut own, &take_trials, &give_records);
                }
            }
            Err(failure) => drop(tell_opened.send(Err(failure))),
        };
        let thread = thread::Builder::new().name("lasthop-load".to_owned()).spawn(body)?;
        Ok(Self {
            trials: Some(trials),
            opened,
            records,
            thread: Some(thread),
            watch,
        })
    }

    /// Waits until the connections are open.
    pub fn opened(&self, supervisor: &Supervisor, go_on: impl FnMut() -> bool) -> Result<(), Failure> {
        let opened = supervisor.receive(&self.opened, go_on);
        opened.unwrap_or_else(|| Err(Failure::new(ErrorClass::Os, "a worker thread died")))
    }

    /// The worker's deadline.
    pub fn watch(&self) -> Arc<Watch> {
        Arc::clone(&self.watch)
    }

    pub fn begin(&self, trial: WorkerTrial) {
        self.watch.carry_on();
        if let Some(trials) = &self.trials {
            // A dead worker is noticed when its record does not come.
            let _ = trials.send(trial);
        }
    }

    /// The record of the trial under way; `None` if the thread died.
    pub fn record(&self, supervisor: &Supervisor, go_on: impl FnMut() -> bool) -> Option<TrialResult> {
        supervisor.receive(&self.records, go_on)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Both before `join`: no further trial comes, and the wait of the current one ends.
        self.trials = None;
        self.watch.abandon();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(own: &mut Loop, trials: &Receiver<WorkerTrial>, records: &Sender<TrialResult>) {
    for trial in trials {
        if records.send(own.trial(&trial)).is_err() {
            return;
        }
    }
}

/// Makes timers of this thread fire when due; the kernel's default allows 50 µs of delay.
fn sleep_precisely() {
    // SAFETY: sets an attribute of the calling thread, from an integer.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_usize) };
}

enum Loop {
    /// A worker of this kind has one connection per loop.
    Blocking(Box<Blocking>),
    Epoll(Box<Epoll>),
}

impl Loop {
    fn new(
        spec: &Spec,
        connector: Connector,
        engine: Engine,
        connections: u32,
        pacer: Option<Pacer>,
        watch: Arc<Watch>,
    ) -> Result<Self, Failure> {
        match engine {
            Engine::Blocking => Ok(Self::Blocking(Box::new(Blocking::new(spec, connector, watch)))),
            Engine::Epoll | Engine::Auto => {
                let epoll = Epoll::new(spec, connector, connections, pacer, watch);
                Ok(Self::Epoll(Box::new(
                    epoll.map_err(|error| Failure::io("epoll", &error))?,
                )))
            }
        }
    }

    fn open(&mut self) -> Result<(), Failure> {
        match self {
            Self::Blocking(blocking) => blocking.open(),
            Self::Epoll(epoll) => epoll.open(),
        }
    }

    fn trial(&mut self, trial: &WorkerTrial) -> TrialResult {
        match self {
            Self::Blocking(blocking) => blocking.trial(trial.phases, trial.batches),
            Self::Epoll(epoll) => epoll.trial(trial.phases, &trial.stages, trial.batches),
        }
    }
}
