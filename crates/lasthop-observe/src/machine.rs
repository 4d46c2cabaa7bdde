//! Activity of all CPUs, from `/proc/stat`.

use std::time::Instant;

use lasthop_model::observation::MachineUsage;
use lasthop_system::{clock, files};

/// A reading of `/proc/stat`.
#[derive(Clone, Copy, Debug)]
pub struct MachineReading {
    at: Instant,
    cpus: u64,
    times: CpuTimes,
}

/// The line `cpu` of `/proc/stat`, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct CpuTimes {
    /// User, nice and system time, sampled at each tick.
    processes: u64,
    idle: u64,
    irq: u64,
    softirq: u64,
    steal: u64,
}

impl MachineReading {
    pub fn now() -> Self {
        let text = files::text("/proc/stat").unwrap_or_default();
        let at = Instant::now();
        let (cpus, times) = parse(&text, clock::tick()).unwrap_or_default();
        Self { at, cpus, times }
    }

    /// The activity until a later reading. `ours_ns` is the CPU time of lasthop and its processes meanwhile.
    ///
    /// Busy time was neither idle nor stolen: the kernel measures idle time, but only samples the rest, at each tick.
    /// If two processes wake each other, much of it is entering and leaving idle, which belongs to no process. Foreign
    /// time is therefore what the samples give to processes and interrupts, less ours.
    ///
    /// A process is charged for the interrupts that hit it, unless the kernel accounts for these separately
    /// (`irq_apart`). Both sides of the difference include them, or neither: TCP has more of them than a Unix socket.
    pub fn until(&self, after: &Self, ours_ns: u64, irq_apart: bool) -> MachineUsage {
        let wall_ns = u64::try_from(after.at.duration_since(self.at).as_nanos()).unwrap_or(u64::MAX);
        let steal_ns = after.times.steal.saturating_sub(self.times.steal);
        let idle_ns = after.times.idle.saturating_sub(self.times.idle);
        let busy_ns = (wall_ns * after.cpus).saturating_sub(idle_ns).saturating_sub(steal_ns);
        let charged_ns = after
            .times
            .charged(irq_apart)
            .saturating_sub(self.times.charged(irq_apart));
        MachineUsage {
            wall_ns,
            busy_ns,
            softirq_ns: after.times.softirq.saturating_sub(self.times.softirq),
            steal_ns,
            foreign_ns: charged_ns.cast_signed() - ours_ns.cast_signed(),
            others_ns: 0,
        }
    }
}

impl CpuTimes {
    /// The sum that the kernel charges to processes.
    fn charged(&self, irq_apart: bool) -> u64 {
        self.processes + if irq_apart { 0 } else { self.irq + self.softirq }
    }
}

/// Whether the kernel accounts for interrupts separately (`CONFIG_IRQ_TIME_ACCOUNTING`): since Linux 6.1, it then
/// reports their pressure. An older kernel that does so is not recognised: foreign load is then too high by our own
/// interrupts.
pub fn accounts_for_irq() -> bool {
    files::text("/proc/pressure/irq").is_ok()
}

/// `cpu user nice system idle iowait irq softirq steal …`, then a line for each CPU.
fn parse(text: &str, tick_ns: u64) -> Option<(u64, CpuTimes)> {
    let mut lines = text.lines();
    let numbers: Vec<u64> = lines
        .next()?
        .split_ascii_whitespace()
        .skip(1)
        .map_while(|word| word.parse().ok())
        .collect();
    let at = |index: usize| numbers.get(index).copied().map(|ticks| ticks * tick_ns);
    let times = CpuTimes {
        processes: at(0)? + at(1)? + at(2)?,
        // Includes iowait: a CPU that waits for a disk is idle.
        idle: at(3)? + at(4)?,
        irq: at(5)?,
        softirq: at(6)?,
        steal: at(7)?,
    };
    Some((lines.take_while(|line| line.starts_with("cpu")).count() as u64, times))
}

/// Share of the CPU time since boot that the hypervisor gave to others, 0 to 1, from the text of `/proc/stat`.
pub fn steal_share(stat: &str) -> Option<f64> {
    let words = stat.lines().next()?.split_ascii_whitespace().skip(1);
    let numbers: Vec<f64> = words.map_while(|word| word.parse().ok()).collect();
    // Guest time (the ninth and tenth number) is within user and nice time.
    let total: f64 = numbers.iter().take(8).sum();
    if total > 0.0 {
        numbers.get(7).map(|steal| steal / total)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const TEXT: &str = "cpu  10 1 20 300 40 5 6 7 0 0\ncpu0 1\ncpu1 1\nintr 5 cpu\n";

    #[test]
    fn the_columns_are_where_the_manual_says() {
        let (cpus, times) = parse(TEXT, 10).unwrap();
        assert_eq!(
            (cpus, times),
            (
                2,
                CpuTimes {
                    processes: 310,
                    idle: 3400,
                    irq: 50,
                    softirq: 60,
                    steal: 70
                }
            )
        );
        assert_eq!(parse("", 10), None);
    }

    fn readings(times: CpuTimes) -> [MachineReading; 2] {
        let at = Instant::now();
        let reading = |at, times| MachineReading { at, cpus: 2, times };
        [
            reading(at, CpuTimes::default()),
            reading(at + Duration::from_millis(100), times),
        ]
    }

    #[test]
    fn busy_is_what_is_neither_idle_nor_stolen() {
        let [before, after] = readings(CpuTimes {
            processes: 40_000_000,
            idle: 120_000_000,
            irq: 0,
            softirq: 10_000_000,
            steal: 20_000_000,
        });
        let usage = before.until(&after, 50_000_000, false);
        assert_eq!(
            (usage.wall_ns, usage.busy_ns, usage.softirq_ns, usage.steal_ns),
            (100_000_000, 60_000_000, 10_000_000, 20_000_000)
        );
    }

    /// The same work with and without interrupts: the CPU time of others must not depend on our share of interrupts.
    #[test]
    fn foreign_has_interrupts_on_both_sides_or_on_neither() {
        for softirq in [0, 10_000_000, 30_000_000] {
            let [before, after] = readings(CpuTimes {
                processes: 70_000_000 - softirq,
                softirq,
                ..CpuTimes::default()
            });
            assert_eq!(before.until(&after, 60_000_000, false).foreign_ns, 10_000_000);
            assert_eq!(before.until(&after, 60_000_000 - softirq, true).foreign_ns, 10_000_000);
        }
    }

    /// Ticks are samples: without foreign load, half of the readings are below 0, and their sum is 0.
    #[test]
    fn foreign_is_not_cut_off_at_zero() {
        let [before, after] = readings(CpuTimes {
            processes: 50_000_000,
            ..CpuTimes::default()
        });
        assert_eq!(before.until(&after, 60_000_000, false).foreign_ns, -10_000_000);
    }

    #[test]
    fn this_machine_has_cpus() {
        let reading = MachineReading::now();
        assert!(reading.cpus >= 1 && reading.times.idle > 0);
        assert_eq!(steal_share("cpu 10 0 10 70 0 0 0 10 5 5"), Some(0.1));
    }
}
