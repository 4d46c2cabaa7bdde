//! The CPUs of this process.

/// CPUs that this process may run on, in ascending order.
#[must_use]
pub fn allowed() -> Vec<u32> {
    // SAFETY: an all-zero cpu_set_t is valid, and the kernel writes no more than its size.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) != 0 {
            return vec![0];
        }
        set
    };
    // SAFETY: the index stays below CPU_SETSIZE.
    (0..libc::CPU_SETSIZE as u32).filter(|cpu| unsafe { libc::CPU_ISSET(*cpu as usize, &set) }).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn this_process_may_run_somewhere() {
        assert!(!super::allowed().is_empty());
    }
}
