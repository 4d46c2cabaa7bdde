//! Limits of the process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Lifts the soft limit of open descriptors to the hard one, and returns what holds now.
pub fn lift_descriptors() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    // No privilege is needed up to the hard limit.
    let lifted = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        },
    );
    let now = if lifted.is_ok() { limit.maximum } else { limit.current };
    now.unwrap_or(u64::MAX)
}
