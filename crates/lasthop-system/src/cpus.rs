//! The CPUs of this process.

use rustix::thread::{CpuSet, sched_getaffinity};

/// CPUs that this process may run on, in ascending order.
pub fn allowed() -> Vec<u32> {
    let Ok(set) = sched_getaffinity(None) else {
        return vec![0];
    };
    (0..CpuSet::MAX_CPU as u32)
        .filter(|cpu| set.is_set(*cpu as usize))
        .collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn this_process_may_run_somewhere() {
        assert!(!super::allowed().is_empty());
    }
}
