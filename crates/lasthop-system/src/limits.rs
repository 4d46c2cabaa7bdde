//! Limits of the process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Lifts the soft limit of open descriptors to the hard limit. Returns the new limit.
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

/// The lifted limit of open descriptors. Dropping it restores the user's limit for programs started later.
#[derive(Debug)]
pub struct Lifted {
    before: Rlimit,
    /// The limit of open descriptors.
    pub descriptors: u64,
}

impl Lifted {
    pub fn begin() -> Self {
        Self {
            before: getrlimit(Resource::Nofile),
            descriptors: lift_descriptors(),
        }
    }
}

impl Drop for Lifted {
    fn drop(&mut self) {
        let _ = setrlimit(Resource::Nofile, self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_lifted_is_lowered_again() {
        let hard = getrlimit(Resource::Nofile).maximum;
        let low = Rlimit {
            current: Some(500),
            maximum: hard,
        };
        setrlimit(Resource::Nofile, low).unwrap();
        let lifted = Lifted::begin();
        assert_eq!(Some(lifted.descriptors), hard.or(Some(u64::MAX)));
        drop(lifted);
        assert_eq!(getrlimit(Resource::Nofile).current, Some(500));
    }
}
