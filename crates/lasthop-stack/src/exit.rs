//! How processes end, and the names of signals in recipes.

use serde::{Deserialize, Serialize};

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
                Some(name) => write!(f, "was ended by signal {signal} (SIG{name})"),
                None => write!(f, "was ended by signal {signal}"),
            },
        }
    }
}

/// Signals that a recipe may name.
const NAMES: [(&str, i32); 9] = [
    ("HUP", libc::SIGHUP),
    ("INT", libc::SIGINT),
    ("QUIT", libc::SIGQUIT),
    ("ABRT", libc::SIGABRT),
    ("KILL", libc::SIGKILL),
    ("USR1", libc::SIGUSR1),
    ("SEGV", libc::SIGSEGV),
    ("USR2", libc::SIGUSR2),
    ("TERM", libc::SIGTERM),
];

/// The number of a signal by its name, with or without `SIG`.
pub fn signal_number(name: &str) -> Option<i32> {
    let name = name.strip_prefix("SIG").unwrap_or(name);
    NAMES
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, number)| *number)
}

/// The name of a signal without `SIG`.
pub fn signal_name(number: i32) -> Option<&'static str> {
    NAMES.iter().find(|(_, known)| *known == number).map(|(name, _)| *name)
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
