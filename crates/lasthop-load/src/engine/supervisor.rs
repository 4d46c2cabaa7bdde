//! The thread that waits for its workers keeps their deadlines meanwhile.

use std::{
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::Duration,
};

use crate::{spec::Timeouts, transport::Watch};

/// A timeout is noticed at most a tenth of itself too late, and not more than so late.
const TICK_MAX_NS: u64 = 500_000_000;
const TICK_MIN_NS: u64 = 1_000_000;

pub struct Supervisor {
    watches: Vec<Arc<Watch>>,
    tick: Duration,
}

impl Supervisor {
    #[must_use]
    pub fn new(watches: Vec<Arc<Watch>>, timeouts: Timeouts) -> Self {
        let tick = timeouts.connect_ns.min(timeouts.request_ns) / 10;
        Self { watches, tick: Duration::from_nanos(tick.clamp(TICK_MIN_NS, TICK_MAX_NS)) }
    }

    /// What a worker sends; `None` when it died.
    #[must_use]
    pub fn receive<T>(&self, from: &Receiver<T>) -> Option<T> {
        self.receive_and(from, || {})
    }

    /// As [`Supervisor::receive`], with something else to look at now and then.
    #[must_use]
    pub fn receive_and<T>(&self, from: &Receiver<T>, mut look: impl FnMut()) -> Option<T> {
        loop {
            match from.recv_timeout(self.tick) {
                Ok(received) => return Some(received),
                Err(RecvTimeoutError::Timeout) => {
                    self.watches.iter().for_each(|watch| watch.check());
                    look();
                }
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
    }
}
