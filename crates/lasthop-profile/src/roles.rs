//! Which process belongs to which role.

use std::collections::HashMap;

use lasthop_model::profile::KERNEL;
use lasthop_system::{
    listener,
    process::{self, Stat},
};

/// The ancestor of kernel threads.
const KTHREADD: i32 = 2;
/// Kernel threads that work for others: deferred softirqs, packets, and queued work.
const WORKERS: [&str; 3] = ["ksoftirqd/", "napi/", "kworker/"];

/// Processes by role, and the parent of each.
#[derive(Debug)]
pub(crate) struct Family {
    /// Names of roles, each once. The last is [`KERNEL`].
    pub names: Vec<String>,
    role: HashMap<i32, usize>,
    parent: HashMap<i32, i32>,
}

/// A process started during observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fork {
    /// The kernel's time, used only to sort.
    pub time: u64,
    pub parent: i32,
    pub child: i32,
}

impl Family {
    /// All descendants of each role's first processes. If a role lies within another, its processes belong to the inner
    /// one.
    pub(crate) fn of(first: &[(String, Vec<i32>)]) -> Self {
        let mut family = Self {
            names: Vec::new(),
            role: HashMap::new(),
            parent: process::all()
                .into_iter()
                .filter_map(|pid| Some((pid, Stat::of(pid)?.parent)))
                .collect(),
        };
        for (name, pids) in first {
            let number = family.number(name);
            family.role.extend(pids.iter().map(|pid| (*pid, number)));
        }
        let kernel = family.number(KERNEL);
        family.role.insert(0, kernel);
        let threads = family.parent.iter().filter(|(_, parent)| **parent == KTHREADD);
        let workers: Vec<i32> = threads.map(|(pid, _)| *pid).filter(|pid| is_worker(*pid)).collect();
        family.role.extend(workers.into_iter().map(|pid| (pid, kernel)));
        let pids: Vec<i32> = family.parent.keys().copied().collect();
        for pid in pids {
            let role = family.ancestors(pid).find_map(|pid| family.role_of(pid));
            if let Some(role) = role {
                family.role.insert(pid, role);
            }
        }
        family
    }

    fn number(&mut self, name: &str) -> usize {
        let known = self.names.iter().position(|known| known == name);
        known.unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        })
    }

    /// Adds new processes. A reused process id means the newest process.
    pub(crate) fn grow(&mut self, mut forks: Vec<Fork>) {
        forks.sort_unstable();
        for fork in forks {
            self.parent.insert(fork.child, fork.parent);
            match self.role.get(&fork.parent).copied() {
                Some(role) => self.role.insert(fork.child, role),
                None => self.role.remove(&fork.child),
            };
        }
    }

    pub(crate) fn role_of(&self, pid: i32) -> Option<usize> {
        self.role.get(&pid).copied()
    }

    /// A process and its ancestors, nearest first.
    pub(crate) fn ancestors(&self, pid: i32) -> impl Iterator<Item = i32> {
        // Init has many children but no role.
        let next = |pid: &i32| self.parent.get(pid).copied().filter(|parent| *parent > 1);
        // Reused process ids could form a circle.
        std::iter::successors(Some(pid), next).take(64)
    }
}

fn is_worker(pid: i32) -> bool {
    let name = listener::command_of(pid);
    WORKERS.iter().any(|worker| name.starts_with(worker))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn children_belong_to_their_parents_unless_they_have_a_role() {
        let spawn = || {
            // This process ends when its standard input does.
            let mut command = Command::new("sh");
            command.args(["-c", "cat & read -r _; wait"]);
            command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap()
        };
        let mut inner = spawn();
        let me = std::process::id() as i32;
        let pid = inner.id() as i32;
        let roles = [("outer".to_owned(), vec![me]), ("inner".to_owned(), vec![pid])];
        let mut family = Family::of(&roles);
        let role = |family: &Family, pid| family.role_of(pid).map(|role| family.names[role].clone());
        let is = |family: &Family, pid, name: &str| assert_eq!(role(family, pid).as_deref(), Some(name));
        is(&family, me, "outer");
        is(&family, pid, "inner");
        is(&family, 0, KERNEL);
        assert_eq!(role(&family, 1), None);
        let fork = |time, parent, child| Fork { time, parent, child };
        let [a, b, c] = [900_001, 900_002, 900_003];
        family.grow(vec![fork(3, a, b), fork(2, pid, a), fork(4, 1, c), fork(5, 1, a)]);
        is(&family, b, "inner");
        assert_eq!((role(&family, a), role(&family, c)), (None, None));
        assert_eq!(family.ancestors(b).collect::<Vec<_>>(), [b, a]);
        drop(inner.stdin.take());
        inner.wait().unwrap();
    }
}
