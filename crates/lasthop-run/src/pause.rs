//! Detects pauses in a trial: lasthop was suspended (Ctrl-Z) and continued, or the machine slept. The driver and the
//! servers may have kept running, so the system's counters do not cover the trial alone.

use std::{
    sync::{
        Arc, LazyLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use lasthop_system::clock;

/// The longest time between reading two clocks, only one of which counts sleep.
const APART: Duration = Duration::from_millis(50);

/// The number of SIGCONT signals to this process.
static CONTINUED: LazyLock<Arc<AtomicUsize>> = LazyLock::new(|| {
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    // SAFETY: the handler does one atomic addition.
    let _ = unsafe {
        // A process cannot handle SIGSTOP, but can handle the SIGCONT that ends it.
        signal_hook::low_level::register(libc::SIGCONT, move || {
            counter.fetch_add(1, Ordering::Relaxed);
        })
    };
    count
});

/// The state when a trial began.
pub struct Pause {
    continued: usize,
    slept: Duration,
}

impl Pause {
    pub fn watch() -> Self {
        Self {
            continued: CONTINUED.load(Ordering::Relaxed),
            slept: Duration::from_nanos(clock::slept()),
        }
    }

    pub fn has_seen_one(&self) -> bool {
        let now = Self::watch();
        now.continued != self.continued || now.slept > self.slept + APART
    }
}
