//! The processes of a run, found by their parents.

use std::{collections::BTreeMap, fs};

/// The role of a process in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    Lasthop,
    Guard,
    Driver,
    /// A process that keeps a network namespace.
    Holder,
    /// A server, a preparation, or the client of a container engine.
    Server,
}

/// lasthop itself, and all processes that lasthop and its guard started, directly or indirectly.
pub fn of_run(lasthop: i32) -> Vec<(Role, i32)> {
    let mut children = BTreeMap::<i32, Vec<i32>>::new();
    for pid in all() {
        if let Some(parent) = parent(pid) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = vec![(Role::Lasthop, lasthop)];
    let mut next = 0;
    while let Some((_, pid)) = found.get(next).copied() {
        found.extend(
            children
                .get(&pid)
                .into_iter()
                .flatten()
                .map(|child| (role(*child), *child)),
        );
        next += 1;
    }
    found
}

fn role(pid: i32) -> Role {
    let words = command_line(pid);
    let mut words = words.split(' ');
    let is_lasthop = words
        .next()
        .is_some_and(|program| program.ends_with("lasthop") || program == "/proc/self/exe");
    match words.next().filter(|_| is_lasthop) {
        Some("guard") => Role::Guard,
        Some("drive") => Role::Driver,
        Some("hold") => Role::Holder,
        _ => Role::Server,
    }
}

/// Pids of all processes.
pub fn all() -> Vec<i32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// The words of a command, separated by blanks.
pub fn command_line(pid: i32) -> String {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&words).replace('\0', " ").trim_end().to_owned()
}

/// State and parent, parsed after the name, which may contain any character.
fn stat(pid: i32) -> Option<(char, i32)> {
    let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let text = String::from_utf8_lossy(&text).into_owned();
    let mut words = text[text.rfind(')')? + 1..].split_ascii_whitespace();
    Some((words.next()?.chars().next()?, words.next()?.parse().ok()?))
}

fn parent(pid: i32) -> Option<i32> {
    stat(pid).map(|(_, parent)| parent)
}

/// Whether a process has not ended. A zombie has ended.
pub fn lives(pid: i32) -> bool {
    stat(pid).is_some_and(|(state, _)| !matches!(state, 'Z' | 'X'))
}
