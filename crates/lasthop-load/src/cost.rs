//! CPU time, run delay, context switches and system calls of a worker's thread.

use std::{fs::File, os::unix::fs::FileExt, path::Path};

use lasthop_system::{clock, files, run_delay};
use lasthop_trial::result::DriverCost;

use crate::transport::Calls;

/// Reads the cost so far of the thread that created the meter.
pub struct CostMeter {
    calls: Calls,
    /// Kept open, so that a reading takes about a microsecond: readings happen while requests are due.
    scheduler: Option<File>,
}

/// A reading of a [`CostMeter`].
#[derive(Clone, Copy, Debug, Default)]
pub struct CostSnapshot {
    cpu_ns: u64,
    user_us: u64,
    system_us: u64,
    voluntary: u64,
    involuntary: u64,
    calls: u64,
    run_delay_ns: Option<u64>,
}

impl CostMeter {
    /// A meter for the calling thread, whose sockets count `calls`.
    pub fn new(calls: Calls) -> Self {
        Self {
            calls,
            scheduler: files::open_linked(Path::new("/proc/thread-self/schedstat")).ok(),
        }
    }

    pub fn read(&self) -> CostSnapshot {
        // SAFETY: all-zero is a valid rusage.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: `usage` is valid for the call to fill.
        unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
        let microseconds = |time: libc::timeval| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64;
        CostSnapshot {
            cpu_ns: clock::thread_cpu(),
            user_us: microseconds(usage.ru_utime),
            system_us: microseconds(usage.ru_stime),
            voluntary: usage.ru_nvcsw as u64,
            involuntary: usage.ru_nivcsw as u64,
            calls: self.calls.get(),
            run_delay_ns: self.run_delay(),
        }
    }

    fn run_delay(&self) -> Option<u64> {
        // Three numbers of up to 20 digits, two spaces and the end of the line make 63 bytes.
        let mut text = [0; 64];
        // The kernel writes the text anew for each read at offset 0.
        let length = self.scheduler.as_ref()?.read_at(&mut text, 0).ok()?;
        run_delay(std::str::from_utf8(&text[..length]).ok()?)
    }
}

impl CostSnapshot {
    /// The cost since an earlier reading. The total is exact to the nanosecond (`CLOCK_THREAD_CPUTIME_ID`). Its
    /// division into user and system time is the kernel's estimate, by ticks on most kernels and so coarse in a short
    /// trial.
    pub fn since(&self, before: &Self) -> DriverCost {
        let total = self.cpu_ns.saturating_sub(before.cpu_ns);
        let user = self.user_us.saturating_sub(before.user_us);
        let system = self.system_us.saturating_sub(before.system_us);
        // Without a tick the division is unknown.
        let share = if user + system == 0 {
            0.5
        } else {
            user as f64 / (user + system) as f64
        };
        let user_ns = ((total as f64 * share) as u64).min(total);
        DriverCost {
            user_ns,
            system_ns: total - user_ns,
            voluntary_switches: self.voluntary.saturating_sub(before.voluntary),
            involuntary_switches: self.involuntary.saturating_sub(before.involuntary),
            system_calls: self.calls.saturating_sub(before.calls),
            run_delay_ns: self
                .run_delay_ns
                .zip(before.run_delay_ns)
                .map(|(now, then)| now.saturating_sub(then)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        hint::black_box,
        sync::{
            Arc,
            atomic::{AtomicBool, Ordering},
        },
        thread,
    };

    use super::*;

    /// Pins the thread to the first CPU that this process may use.
    fn pin() {
        // SAFETY: all-zero is a valid set, and both calls are told how many bytes it has.
        unsafe {
            let mut allowed: libc::cpu_set_t = std::mem::zeroed();
            assert_eq!(libc::sched_getaffinity(0, size_of_val(&allowed), &raw mut allowed), 0);
            let first = (0..libc::CPU_SETSIZE as usize)
                .find(|cpu| libc::CPU_ISSET(*cpu, &allowed))
                .unwrap();
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(first, &mut set);
            assert_eq!(libc::sched_setaffinity(0, size_of_val(&set), &raw const set), 0);
        }
    }

    /// Two busy threads on one CPU: each runs half of the time and waits in the other half.
    #[test]
    fn a_thread_that_shares_its_cpu_has_a_run_delay() {
        let over = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&over);
        let other = thread::spawn(move || {
            pin();
            while !told.load(Ordering::Relaxed) {
                black_box(clock::now());
            }
        });
        let own = thread::spawn(|| {
            pin();
            let meter = CostMeter::new(Calls::default());
            let before = meter.read();
            let begin = clock::now();
            while meter.read().since(&before).run_delay_ns == Some(0) && clock::now() - begin < 10_000_000_000 {
                black_box(clock::now());
            }
            meter.read().since(&before)
        });
        let cost = own.join().unwrap();
        over.store(true, Ordering::Relaxed);
        other.join().unwrap();
        assert!(cost.run_delay_ns.is_some_and(|delay| delay > 0), "{cost:?}");
        assert!(cost.cpu_ns() > 0, "{cost:?}");
    }
}
