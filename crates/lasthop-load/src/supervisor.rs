//! The supervisor waits for the workers and enforces their deadlines.

use std::{
    sync::{
        Arc,
        mpsc::{self, Receiver, RecvTimeoutError},
    },
    thread,
    time::Duration,
};

use lasthop_trial::{failure::Failure, options::Timeouts, result::ErrorClass};

use crate::{live::Live, transport::Watch};

/// An early end is noticed within this time, and a timeout within a tenth of its own length.
const TICK_MAX_NS: u64 = 50_000_000;
const TICK_MIN_NS: u64 = 1_000_000;

pub struct Supervisor {
    watches: Vec<Arc<Watch>>,
    tick: Duration,
}

impl Supervisor {
    pub fn new(watches: Vec<Arc<Watch>>, timeouts: Timeouts) -> Self {
        let tick = timeouts.connect_ns.min(timeouts.request_ns) / 10;
        Self {
            watches,
            tick: Duration::from_nanos(tick.clamp(TICK_MIN_NS, TICK_MAX_NS)),
        }
    }

    /// What a worker sends; `None` if it died. Calls `go_on` meanwhile: if that returns false, all waits end.
    pub fn receive<T>(&self, from: &Receiver<T>, mut go_on: impl FnMut() -> bool) -> Option<T> {
        loop {
            if !go_on() {
                // Repeated every tick; `cut_short` keeps the grace period of the first call.
                self.watches.iter().for_each(|watch| watch.cut_short());
            }
            match from.recv_timeout(self.tick) {
                Ok(received) => return Some(received),
                Err(RecvTimeoutError::Timeout) => self.watches.iter().for_each(|watch| watch.check()),
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
    }
}

/// Observes a trial from outside its threads.
pub struct Onlooker(pub(crate) Vec<Arc<Watch>>);

impl Onlooker {
    /// Asks all threads for their counts. A thread answers within its loop, soon or with its next reply, which takes it
    /// some 50 µs.
    pub fn ask(&self) {
        self.0.iter().for_each(|watch| watch.ask());
    }

    /// The answers so far.
    pub fn answer(&self) -> Live {
        let mut all = Live::default();
        self.0.iter().for_each(|watch| all += watch.answer());
        all
    }
}

/// Runs a conversation on a separate thread, and enforces its deadlines here. The conversation ends if `go_on` returns
/// false.
pub fn supervised<T: Send>(
    timeouts: Timeouts,
    go_on: impl FnMut() -> bool,
    conversation: impl FnOnce(Arc<Watch>) -> T + Send,
) -> Result<T, Failure> {
    let watch = Arc::new(Watch::default());
    let supervisor = Supervisor::new(vec![Arc::clone(&watch)], timeouts);
    let (tell, told) = mpsc::channel();
    let failed = |cause: String| Failure::new(ErrorClass::Os, cause);
    thread::scope(|scope| {
        let thread = thread::Builder::new().spawn_scoped(scope, move || drop(tell.send(conversation(watch))));
        thread.map_err(|error| failed(format!("cannot create a thread: {error}")))?;
        supervisor
            .receive(&told, go_on)
            .ok_or_else(|| failed("a thread died".to_owned()))
    })
}
