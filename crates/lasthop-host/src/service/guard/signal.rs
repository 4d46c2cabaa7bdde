//! Names of signals, as recipes write them.

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
pub fn number(name: &str) -> Option<i32> {
    let name = name.strip_prefix("SIG").unwrap_or(name);
    NAMES.iter().find(|(known, _)| *known == name).map(|(_, number)| *number)
}

/// The name of a signal without `SIG`.
pub fn name(number: i32) -> Option<&'static str> {
    NAMES.iter().find(|(_, known)| *known == number).map(|(name, _)| *name)
}
