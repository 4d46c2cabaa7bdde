//! Other work beside a run: bursts on every CPU, in a process of lasthop's own that ends with its guard.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use lasthop_observe::procfs;
use lasthop_stack::{
    guard::{Guard, GuardedChild, Spawn},
    sandbox::Sandbox,
};
use lasthop_stats::random::Draws;
use lasthop_system::{clock, cpus, executable::own_executable};

/// Mean length of a burst, in nanoseconds of CPU time.
const BURST_NS: f64 = 20e6;
/// The longest pause is so many mean ones.
const LONGEST: f64 = 10.0;

/// Runs until it is dropped.
pub struct Noise {
    process: GuardedChild,
    _guard: Guard,
    _sandbox: Sandbox,
}

impl Noise {
    /// Takes `share` of each CPU, for `most` if nothing ends it before.
    ///
    /// # Errors
    /// Its process cannot be started.
    pub fn start(share: f64, most: Duration) -> Result<Self, String> {
        let text = |error: &dyn std::error::Error| format!("noise: {error}");
        let sandbox = Sandbox::create()?;
        let guard = Guard::launch(&sandbox).map_err(|error| text(&error))?;
        let command = [
            own_executable()?,
            "noise".to_owned(),
            share.to_string(),
            most.as_secs().to_string(),
        ];
        let process = guard.spawn(Spawn::new(command)).map_err(|error| text(&error))?;
        Ok(Self {
            process,
            _guard: guard,
            _sandbox: sandbox,
        })
    }
}

impl Drop for Noise {
    fn drop(&mut self) {
        let _ = self.process.stop(libc::SIGKILL, Duration::from_secs(1));
    }
}

/// What its process does: bursts and pauses of random lengths in a thread for each CPU, for `most` at the longest.
pub fn make(share: f64, most: Duration) {
    // By this name it counts as foreign.
    let _ = fs::write("/proc/self/comm", procfs::NOISE);
    let end = Instant::now() + most;
    let threads = cpus::allowed()
        .into_iter()
        .map(|cpu| thread::spawn(move || bursts(u64::from(cpu), share, end)));
    for thread in threads.collect::<Vec<_>>() {
        let _ = thread.join();
    }
}

fn bursts(seed: u64, share: f64, end: Instant) {
    let mut random = Draws::new(seed ^ clock::now());
    // Bursts are `share` of bursts and pauses together, where they get the CPU at once.
    let pause_ns = BURST_NS * (1.0 - share) / share;
    while Instant::now() < end {
        // CPU time, not elapsed time: a burst that has to share its CPU lasts longer.
        let until = clock::thread_cpu() + exponential(&mut random, BURST_NS);
        while clock::thread_cpu() < until {}
        clock::sleep(exponential(&mut random, pause_ns));
    }
}

fn exponential(random: &mut Draws, mean: f64) -> u64 {
    // By inversion of the distribution; the logarithm of 0 is infinite.
    ((-random.unit().max(f64::MIN_POSITIVE).ln()).min(LONGEST) * mean) as u64
}
