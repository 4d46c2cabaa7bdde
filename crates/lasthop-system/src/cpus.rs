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

/// The CPUs of a list in the kernel's format, `0-3,8`; `None` for other text.
#[must_use]
pub fn listed(text: &str) -> Option<Vec<u32>> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    let ranges: Option<Vec<_>> = text.trim().split(',').map(range).collect();
    Some(ranges?.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    #[test]
    fn lists_of_the_kernel_are_read() {
        assert_eq!(super::listed("0-2,6\n"), Some(vec![0, 1, 2, 6]));
        assert_eq!(super::listed("7"), Some(vec![7]));
        assert_eq!((super::listed(""), super::listed("0-x")), (None, None));
    }

    #[test]
    fn this_process_may_run_somewhere() {
        assert!(!super::allowed().is_empty());
    }
}
