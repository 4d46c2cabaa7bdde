//! The process that owns a socket, and the processes of one server: those of one program and name that descend from
//! each other. A common parent does not relate two servers, because a service manager starts all of them.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fs, io,
    path::{Path, PathBuf},
};

use lasthop_observe::procfs::cpu_clock;
use lasthop_system::{
    files,
    listener::{command_of, sockets},
    process::{self, Stat},
};

use super::is_out_of_time;

/// Number of a process tree in [`Processes`].
pub type GroupId = usize;

/// A pid and the start of its process, in ticks since boot: pids are reused.
type ProcessId = (i32, u64);

/// Extensions of files that interpreters run.
const SCRIPTS: [&str; 10] = ["py", "js", "mjs", "cjs", "ts", "rb", "pl", "lua", "jar", "sh"];
/// Bytes of a command in `/proc/PID/comm`.
const COMMAND: usize = 15;
/// The longest name of a program, in characters, as for files. A process may call itself anything.
const NAME: usize = 255;
/// Digits of a container's id.
const ID: usize = 64;

/// The place of a process, by the name of its cgroup.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ProcessCgroup {
    /// A container, by its id.
    Container(String),
    /// A service of systemd.
    Unit(String),
}

/// The common properties of process trees that may be one client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Group {
    pub name: String,
    /// Names of the program: as called, its file, its command.
    pub programs: Vec<String>,
    executable: Option<PathBuf>,
    pub place: Option<ProcessCgroup>,
    /// The parent of the tree's eldest process.
    parent: i32,
}

/// The known processes of the machine.
#[derive(Debug, Default)]
pub struct Processes {
    groups: Vec<Group>,
    numbers: HashMap<Group, usize>,
    /// Index in `groups` for each tree.
    trees: Vec<usize>,
    /// Trees by their eldest process.
    eldest: HashMap<ProcessId, GroupId>,
    of: HashMap<i32, (u64, GroupId)>,
    /// Owners of sockets, by inode.
    owners: HashMap<u64, GroupId>,
    /// Processes that own sockets in `owners`.
    holders: HashSet<i32>,
    /// Sockets whose owner was not found.
    nobodys: HashSet<u64>,
    /// Processes whose descriptors lasthop may not read.
    pub hidden: HashSet<i32>,
    /// Whether `/proc` hides other users' processes altogether.
    pub hides: bool,
    /// CPU time of each process when the watch began, in nanoseconds.
    began: HashMap<ProcessId, u64>,
}

impl Processes {
    /// Reads the clocks of all processes.
    pub fn begin(&mut self) {
        // Process 1 always exists, and belongs to another user.
        self.hides = !Path::new("/proc/1").exists();
        self.began = process::all()
            .into_iter()
            .filter_map(|pid| Some(((pid, Stat::of(pid)?.start_ticks), cpu_clock(pid)?)))
            .collect();
    }

    /// The owner of a socket, as far as [`find`](Self::find) has found it.
    #[must_use]
    pub fn owner(&self, inode: u64) -> Option<GroupId> {
        self.owners.get(&inode).copied()
    }

    /// Searches all processes for the owners of these sockets.
    pub fn find(&mut self, wanted: &HashSet<u64>) {
        let is_new = |inode: &u64| !self.owners.contains_key(inode) && !self.nobodys.contains(inode);
        let mut missing: HashSet<u64> = wanted.iter().copied().filter(is_new).collect();
        if missing.is_empty() {
            return;
        }
        let mut all = process::all();
        // Pid 1 holds sockets that systemd activates; the server is the other holder. A process with some of these
        // sockets probably has the new ones too.
        all.sort_by_key(|pid| (*pid == 1, !self.holders.contains(pid), *pid));
        for pid in all {
            self.find_in(pid, &mut missing);
            if missing.is_empty() || is_out_of_time() {
                return;
            }
        }
        self.nobodys.extend(missing);
    }

    /// Searches one process for sockets, and removes those found from the set.
    fn find_in(&mut self, pid: i32, missing: &mut HashSet<u64>) {
        if let Err(error) = fs::read_dir(format!("/proc/{pid}/fd"))
            && error.kind() == io::ErrorKind::PermissionDenied
        {
            self.hidden.insert(pid);
            return;
        }
        let sockets = sockets(pid).take_while(|_| !is_out_of_time());
        for inode in sockets.filter_map(|inode| inode.parse().ok()) {
            if missing.remove(&inode)
                && let Some(group) = self.group_of(pid)
            {
                self.owners.insert(inode, group);
                self.holders.insert(pid);
            }
        }
    }

    /// The properties of a tree.
    #[must_use]
    pub fn group(&self, tree: GroupId) -> &Group {
        &self.groups[self.trees[tree]]
    }

    /// The tree of a process; `None` if the process is gone.
    pub fn group_of(&mut self, pid: i32) -> Option<GroupId> {
        self.tree_of(&Stat::of(pid)?)
    }

    /// The tree of the process that had a pid at a time, in monotonic nanoseconds; `None` if the process is gone.
    pub fn group_at(&mut self, pid: i32, at_ns: u64) -> Option<GroupId> {
        let stat = Stat::of(pid).filter(|stat| stat.began() <= at_ns)?;
        self.tree_of(&stat)
    }

    fn tree_of(&mut self, stat: &Stat) -> Option<GroupId> {
        if let Some((began, known)) = self.of.get(&stat.pid)
            && *began == stat.start_ticks
        {
            return Some(*known);
        }
        let found = self.read_tree(stat.pid)?;
        self.of.insert(stat.pid, (stat.start_ticks, found));
        Some(found)
    }

    fn read_tree(&mut self, pid: i32) -> Option<GroupId> {
        let mut eldest = Process::of(pid)?;
        // Each step leads to an older process.
        while let Some(parent) = Process::of(eldest.parent).filter(|parent| parent.is_one_with(&eldest)) {
            eldest = parent;
        }
        let Process {
            id,
            parent,
            executable,
            name,
            programs,
            place,
        } = eldest;
        let group = Group {
            name,
            programs,
            executable,
            place,
            parent,
        };
        let next = self.groups.len();
        let number = *self.numbers.entry(group).or_insert_with_key(|group| {
            self.groups.push(group.clone());
            next
        });
        let next = self.trees.len();
        Some(*self.eldest.entry(id).or_insert_with(|| {
            self.trees.push(number);
            next
        }))
    }

    /// For each tree, the tree that it is counted with. Trees that are no servers and have the same parent are one
    /// client, such as programs that a script calls in turn.
    #[must_use]
    pub fn clients(&self, servers: &HashSet<GroupId>) -> Vec<GroupId> {
        let mut first: HashMap<usize, GroupId> = HashMap::new();
        let trees = self.trees.iter().enumerate();
        trees
            .map(|(tree, group)| match servers.contains(&tree) {
                true => tree,
                false => *first.entry(*group).or_insert(tree),
            })
            .collect()
    }

    /// Ids of the containers seen, each with the parent of a process in it. One of these parents started the container.
    pub fn containers(&self) -> Vec<(&str, i32)> {
        let groups = self.groups.iter();
        groups
            .filter_map(|group| match &group.place {
                Some(ProcessCgroup::Container(id)) => Some((id.as_str(), group.parent)),
                _ => None,
            })
            .collect()
    }

    /// Present processes of each tree, and their CPU seconds since the watch began. Ended processes are not counted.
    pub fn used(&mut self) -> BTreeMap<GroupId, (u32, f64)> {
        let mut used: BTreeMap<GroupId, (u32, f64)> = BTreeMap::new();
        for stat in process::all().into_iter().filter_map(Stat::of) {
            let Some(now) = cpu_clock(stat.pid) else { continue };
            let Some(tree) = self.tree_of(&stat) else { continue };
            let before = self.began.get(&(stat.pid, stat.start_ticks)).copied().unwrap_or(0);
            let (count, seconds) = used.entry(tree).or_default();
            *count += 1;
            *seconds += now.saturating_sub(before) as f64 / 1e9;
        }
        used
    }
}

/// A process as `ps` shows it, without its environment.
struct Process {
    id: ProcessId,
    parent: i32,
    /// `None` if only the process's owner may read it.
    executable: Option<PathBuf>,
    name: String,
    programs: Vec<String>,
    place: Option<ProcessCgroup>,
}

impl Process {
    fn of(pid: i32) -> Option<Self> {
        let Stat {
            parent, start_ticks, ..
        } = Stat::of(pid)?;
        let executable = fs::read_link(format!("/proc/{pid}/exe")).ok();
        let mut arguments = process::arguments(pid);
        arguments.retain(|word| !word.is_empty());
        let command = command_of(pid);
        let name = process_name(&command, &arguments);
        let file = executable
            .as_deref()
            .map(|path| file_name(&path.to_string_lossy()).to_owned());
        let called = arguments.first().map(|word| program(word).to_owned());
        let mut programs: Vec<String> = name.split(' ').map(str::to_owned).collect();
        programs.extend(called.into_iter().chain(file).chain([command]));
        programs.dedup();
        let groups = files::text(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        let short = |name: String| name.chars().take(NAME).collect();
        Some(Self {
            id: (pid, start_ticks),
            parent,
            executable,
            name: short(name),
            programs: programs.into_iter().map(short).collect(),
            place: place(&groups),
        })
    }

    fn is_one_with(&self, other: &Self) -> bool {
        self.executable == other.executable && self.name == other.name && self.place == other.place
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path).trim_end_matches(" (deleted)")
}

/// The program in a first argument: the file's name, without a server's title (`nginx: worker process`, `redis-server
/// 127.0.0.1:6379`).
fn program(first: &str) -> &str {
    file_name(first.split([' ', ':']).next().unwrap_or(first))
}

/// The common name of a process: its program, or the script or module that an interpreter runs.
fn process_name(command: &str, arguments: &[String]) -> String {
    let Some((first, others)) = arguments.split_first() else {
        // A kernel thread, or an ended process.
        return command.to_owned();
    };
    let program = Some(program(first))
        .filter(|program| !program.is_empty())
        .unwrap_or(command);
    let module = others
        .windows(2)
        .find(|pair| pair[0] == "-m")
        .map(|pair| pair[1].as_str());
    // An option before a script has no value, or none with such an extension.
    let script = others.iter().map(|word| file_name(word)).take(4).find(|file| {
        let ending = Path::new(file).extension().and_then(|ending| ending.to_str());
        let is_command = file.get(..file.len().min(COMMAND)) == Some(command) && *file != program;
        is_command || ending.is_some_and(|ending| SCRIPTS.contains(&ending))
    });
    match (script, module) {
        (Some(script), _) if Path::new(script).extension().is_none() => script.to_owned(),
        (Some(script), _) => format!("{program} {script}"),
        (None, Some(module)) if program.starts_with("python") => module.to_owned(),
        _ => program.to_owned(),
    }
}

/// The place in a process's cgroups: `docker-4f1e….scope`, `nginx.service`.
fn place(cgroups: &str) -> Option<ProcessCgroup> {
    let paths = cgroups.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    paths.flat_map(|path| path.rsplit('/')).find_map(|part| {
        let container = part
            .split(|letter: char| !letter.is_ascii_hexdigit())
            .find(|word| word.len() == ID)
            .map(|id| ProcessCgroup::Container(id.to_owned()));
        container.or_else(|| part.ends_with(".service").then(|| ProcessCgroup::Unit(part.to_owned())))
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt as _;

    use super::*;

    #[test]
    fn processes_are_called_what_people_call_them() {
        let called = |command: &str, line: &str| {
            let words: Vec<String> = line
                .split('|')
                .filter(|word| !word.is_empty())
                .map(str::to_owned)
                .collect();
            process_name(command, &words)
        };
        for (command, line, wanted) in [
            ("nginx", "nginx: worker process", "nginx"),
            ("redis-server", "redis-server 127.0.0.1:6379", "redis-server"),
            (
                "postgres",
                "/usr/lib/postgresql/15/bin/postgres|-D|/var/lib",
                "postgres",
            ),
            ("postgres", "postgres: main: walwriter ", "postgres"),
            (
                "gunicorn",
                "/venv/bin/python3|/venv/bin/gunicorn|-w|4|app:app",
                "gunicorn",
            ),
            ("gunicorn", "gunicorn: worker [app]", "gunicorn"),
            ("python3", "python3|-m|gunicorn|app:app", "gunicorn"),
            ("python3", "python3|-u|/srv/app.py", "python3 app.py"),
            ("MainThread", "node|--enable-source-maps|server.js", "node server.js"),
            ("java", "/usr/bin/java|-Xmx1g|-jar|app.jar", "java app.jar"),
            (
                "haproxy",
                "/usr/sbin/haproxy|-Ws|-f|/etc/haproxy/haproxy.cfg",
                "haproxy",
            ),
            ("kworker/0:1", "", "kworker/0:1"),
        ] {
            assert_eq!(called(command, line), wanted, "{line}");
        }
    }

    #[test]
    fn containers_and_units_are_known_by_their_cgroup() {
        let id = "0123456789abcdef".repeat(4);
        for path in [
            format!("0::/system.slice/docker-{id}.scope"),
            format!("12:cpu,cpuacct:/docker/{id}\n0::/init.scope"),
            format!("0::/machine.slice/libpod-{id}.scope/container"),
        ] {
            assert_eq!(place(&path), Some(ProcessCgroup::Container(id.clone())), "{path}");
        }
        for path in [
            "0::/system.slice/nginx.service\n",
            "0::/user.slice/user-1000.slice/user@1000.service/app.slice/nginx.service",
        ] {
            assert_eq!(
                place(path),
                Some(ProcessCgroup::Unit("nginx.service".to_owned())),
                "{path}"
            );
        }
        assert_eq!(place("0::/user.slice/user-0.slice/session-1.scope"), None);
        assert_eq!(place(""), None);
    }

    /// The result is the same with any common parent: this test, a service manager or a shell.
    #[test]
    fn twins_are_two_servers_and_one_client() {
        let mut children: Vec<std::process::Child> = (0..2)
            .map(|_| {
                let mut command = std::process::Command::new("sleep");
                // A process chooses this text itself.
                command.arg0("sleep".repeat(1000)).arg("1000").spawn().unwrap()
            })
            .collect();
        // Until `exec`, a child looks like its parent.
        let has_begun = |pid: i32| command_of(pid) == "sleep" && !process::arguments(pid).is_empty();
        while !children.iter().all(|child| has_begun(child.id() as i32)) {
            std::thread::yield_now();
        }
        let mut processes = Processes::default();
        let trees: Vec<_> = children
            .iter()
            .map(|child| processes.group_of(child.id() as i32).unwrap())
            .collect();
        let own = processes.group_of(std::process::id() as i32).unwrap();
        assert_eq!((trees.as_slice(), own), ([0, 1].as_slice(), 2));
        assert_eq!(processes.clients(&HashSet::new()), [0, 0, 2]);
        assert_eq!(processes.clients(&HashSet::from([1])), [0, 1, 2]);
        assert_eq!(processes.group(trees[0]).name, "sleep".repeat(NAME / 5));
        assert_eq!(processes.used()[&trees[0]].0, 1);
        assert!(processes.group(trees[0]).programs.iter().all(|name| name.len() <= NAME));
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert_eq!(processes.group_of(i32::MAX), None);
    }

    #[test]
    fn children_of_a_server_are_in_its_tree() {
        let script = "import os, time\nos.fork()\nprint(flush=True)\ntime.sleep(1000)";
        let mut parent = std::process::Command::new("python3")
            .args(["-c", script])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        std::io::Read::read_exact(parent.stdout.as_mut().unwrap(), &mut [0; 2]).unwrap();
        let mut processes = Processes::default();
        let pid = parent.id() as i32;
        let all: HashSet<_> = process::descendants(pid).into_iter().chain([pid]).collect();
        let trees: HashSet<_> = all.iter().map(|pid| processes.group_of(*pid)).collect();
        assert_eq!((all.len(), trees.len()), (2, 1));
        process::kill_descendants(pid);
        parent.kill().unwrap();
        parent.wait().unwrap();
    }

    /// A reused pid belongs to another process.
    #[test]
    fn a_pid_is_of_the_process_that_had_it_then() {
        let own = std::process::id() as i32;
        let mut processes = Processes::default();
        let began = Stat::of(own).unwrap().began();
        let tree = processes.group_at(own, began).unwrap();
        assert_eq!(processes.group_at(own, began - 1), None);
        processes.of.insert(own, (1, tree + 1));
        assert_eq!(processes.group_of(own), Some(tree));
    }
}
