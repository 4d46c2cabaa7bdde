//! The time for which other work held the CPUs of server and generator, a possible cause of a run's tail.

use std::fs;

/// Watches the server's process, and steal by the hypervisor. The generator reports its own run delay.
pub struct Watch {
    server: u32,
}

/// The scheduler's two clocks of each CPU: one continues while the CPU is stolen, the other does not (Linux,
/// `kernel/sched/debug.c`). `script/bench` mounts the file.
const CLOCKS: &str = "/sys/kernel/debug/sched/debug";

/// The source of the virtual machine's steal.
pub fn source() -> &'static str {
    if stolen_by_clocks().is_some() {
        "to the nanosecond, by the scheduler's clocks"
    } else {
        "in ticks of 10 ms"
    }
}

impl Watch {
    pub fn over(server: u32) -> Self {
        Self { server }
    }

    /// Microseconds since an arbitrary point: run delay of the server's thread, and steal of all CPUs.
    pub fn read(&self) -> f64 {
        self.run_delay().unwrap_or(f64::INFINITY) + stolen_by_clocks().or_else(stolen_by_ticks).unwrap_or(0.0)
    }

    fn run_delay(&self) -> Option<f64> {
        let text = fs::read_to_string(format!("/proc/{}/schedstat", self.server)).ok()?;
        Some(text.split_whitespace().nth(1)?.parse::<f64>().ok()? / 1e3)
    }
}

fn stolen_by_clocks() -> Option<f64> {
    let text = fs::read_to_string(CLOCKS).ok()?;
    // Milliseconds: `  .clock   : 36440027.463124`.
    let sum = |name: &str| -> f64 {
        let values = text
            .lines()
            .filter_map(|line| line.trim().split_once(':').filter(|(key, _)| key.trim() == name));
        values.filter_map(|(_, value)| value.trim().parse::<f64>().ok()).sum()
    };
    Some((sum(".clock") - sum(".clock_task")) * 1e3)
}

fn stolen_by_ticks() -> Option<f64> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    let ticks: f64 = text.lines().next()?.split_whitespace().nth(8)?.parse().ok()?;
    Some(ticks * 1e4)
}
