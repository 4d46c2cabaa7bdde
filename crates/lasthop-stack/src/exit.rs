//! How processes end, and the names of signals in recipes.

use serde::{Deserialize, Serialize};
use signal_hook::low_level::signal_name;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Exit {
    Code(i32),
    Signal(i32),
}

impl Exit {
    pub fn success(self) -> bool {
        self == Self::Code(0)
    }

    /// Advice for a server that ended like this without being asked to.
    pub fn advice(self) -> &'static str {
        if self.success() {
            "; a server must stay in the foreground: turn its daemon mode off"
        } else {
            ""
        }
    }
}

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Code(code) => write!(f, "ended with status {code}"),
            Self::Signal(signal) => match signal_name(*signal) {
                Some(name) => write!(f, "was ended by signal {signal} ({name})"),
                None => write!(f, "was ended by signal {signal}"),
            },
        }
    }
}

/// The number of a signal by its name, with or without `SIG`.
pub fn signal_number(name: &str) -> Option<i32> {
    let name = format!("SIG{}", name.strip_prefix("SIG").unwrap_or(name));
    (1..32).find(|number| signal_name(*number) == Some(&name))
}

/// Sends a signal to a process that has not been waited for.
pub(crate) fn send_signal(pid: i32, signal: i32) {
    // SAFETY: kill has no memory effects; pid is that of one process, never 0 or negative.
    unsafe {
        if pid > 1 {
            libc::kill(pid, signal);
        }
    }
}
