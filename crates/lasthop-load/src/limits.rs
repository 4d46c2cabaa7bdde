//! Limits of the process.

/// Lifts the soft limit of open descriptors to the hard one, and returns what holds now.
pub fn lift_descriptors() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is valid for the call to fill.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    if limit.rlim_cur < limit.rlim_max {
        let lifted = libc::rlimit { rlim_cur: limit.rlim_max, rlim_max: limit.rlim_max };
        // SAFETY: `lifted` is valid; the hard limit stays as it is.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const lifted) } == 0 {
            return lifted.rlim_cur;
        }
    }
    limit.rlim_cur
}
