//! The scheduler's count of a thread's run delay.

/// Run delay of a thread in nanoseconds since its start: the second of the three numbers of its `schedstat` (Linux,
/// `Documentation/scheduler/sched-stats.rst`: time on a CPU, time waiting for a CPU, number of time slices). `None` if
/// the kernel does not count: some kernels then write three zeros, as they do for a thread that never ran.
pub fn run_delay(schedstat: &str) -> Option<u64> {
    let numbers: Vec<u64> = schedstat
        .split_ascii_whitespace()
        .map_while(|word| word.parse().ok())
        .collect();
    let [_, waited, _, ..] = numbers[..] else { return None };
    numbers.iter().any(|number| *number > 0).then_some(waited)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_counted_is_not_zero() {
        assert_eq!(run_delay("635554 64156 1\n"), Some(64_156));
        assert_eq!(run_delay("635554 0 1\n"), Some(0));
        for nothing in ["0 0 0\n", "", "635554\n", "1 x 1\n"] {
            assert_eq!(run_delay(nothing), None, "{nothing:?}");
        }
    }
}
