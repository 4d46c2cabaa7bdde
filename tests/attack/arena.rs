//! The place of attacks: namespaces of their own, so that everything new afterwards comes from the attack.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use crate::{
    common::{
        default_signals,
        engines::{World, take_environment},
        output,
    },
    processes::{all, command_line, lives},
};

/// How long something may remain before it counts as left: the guard needs a moment, an engine longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A private `/tmp`, and private names of network namespaces. The arena's folders and lasthop stay in place, because
/// they may be below `/tmp`.
const PRIVATE: &str = r#"set -e
mount -t tmpfs tmpfs /mnt
mkdir -m 1777 /mnt/tmp
for folder in "$@"; do
  mkdir -p "/mnt$folder"
  mount --rbind "$folder" "/mnt$folder"
done
mount --rbind /mnt/tmp /tmp
umount --lazy /mnt
mkdir -p /run/netns
mount -t tmpfs tmpfs /run/netns
"#;

/// Existing things by kind.
type Things = BTreeMap<&'static str, BTreeSet<String>>;

pub struct Arena {
    pub world: World,
    patience: Duration,
    /// Things that existed before the attack.
    before: Things,
}

impl Arena {
    pub fn new(engine: &'static str) -> Self {
        default_signals();
        let world = World::with_base(engine);
        let program = Path::new(env!("CARGO_BIN_EXE_lasthop")).parent().unwrap();
        let folders = [program, world.root(), world.lasthop.home(), world.lasthop.sandboxes()];
        output(world.inside("sh").args(["-c", PRIVATE, "private"]).args(folders));
        fs::create_dir(world.lasthop.home().join("runs")).unwrap();
        fs::write(world.lasthop.home().join("ports"), "").unwrap();
        // The first call of an engine creates files, even if lasthop only looks at the engine.
        world.inventory();
        for client in ["podman", "docker"] {
            let _ = world.inside(client).arg("info").output();
        }
        let mut arena = Self {
            world,
            patience: PATIENCE,
            before: Things::new(),
        };
        arena.accept(true);
        arena
    }

    /// A shell script in the arena, with lasthop as `$1` and its home and sandboxes in the environment.
    pub fn script(&self, text: &str) -> Command {
        let lasthop = self.world.lasthop(&[]);
        let mut command = self.world.inside("sh");
        command.args(["-c", text, "attack"]).arg(env!("CARGO_BIN_EXE_lasthop"));
        take_environment(&mut command, &lasthop);
        command.stdin(std::process::Stdio::null());
        command
    }

    /// A file or folder of the arena, as a path from outside.
    pub fn at(&self, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{path}", self.world.holder()))
    }

    /// Accepts the present state as that before the next attack. `engine`: including the engine's own objects.
    pub fn accept(&mut self, engine: bool) {
        self.before.extend(self.things(engine));
    }

    /// Returns new things, after a wait for those about to disappear. The next attack is not blamed for them.
    pub fn left(&mut self, engine: bool) -> Vec<String> {
        let deadline = Instant::now() + self.patience;
        loop {
            let things = self.things(engine);
            let left: Vec<String> = things.iter().flat_map(|(kind, now)| self.new_of(kind, now)).collect();
            if left.is_empty() || Instant::now() > deadline {
                self.before.extend(things);
                return left;
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    fn new_of(&self, kind: &'static str, now: &BTreeSet<String>) -> Vec<String> {
        let before = self.before.get(kind);
        let new = now
            .iter()
            .filter(|thing| before.is_none_or(|before| !before.contains(*thing)));
        // The machine's other cgroups also appear here. A cgroup with processes is one of those, because processes of
        // the arena are checked separately.
        let left = new.filter(|thing| kind != "cgroups" || is_idle(Path::new(thing)));
        left.map(|thing| format!("{kind}: {thing}")).collect()
    }

    fn things(&self, engine: bool) -> Things {
        let home = self.world.lasthop.home();
        let proc = |file: &str| {
            let path = format!("/proc/{}/{file}", self.world.holder());
            fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
        };
        let mut cat = self.world.inside("cat");
        let ipc = cat.args(["shm", "sem", "msg"].map(|kind| format!("/proc/sysvipc/{kind}")));
        let mut things = Things::from([
            ("processes", self.processes()),
            (
                "listening",
                ["tcp", "tcp6"]
                    .iter()
                    .flat_map(|kind| listening(&proc(&format!("net/{kind}"))))
                    .collect(),
            ),
            ("Unix sockets", unix_listening(&proc("net/unix"))),
            (
                "links",
                proc("net/dev")
                    .lines()
                    .filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned()))
                    .collect(),
            ),
            ("mounts", proc("mounts").lines().map(str::to_owned).collect()),
            ("System V IPC", segments(&text_of(ipc))),
            ("shared memory", names(&self.at("/dev/shm"))),
            ("network namespaces", names(&self.at("/run/netns"))),
            ("temporary files", names(&self.at("/tmp"))),
            ("sandboxes", names(self.world.lasthop.sandboxes())),
            // The key stays in its data folder, and resuming needs it.
            ("home", names(home).into_iter().filter(|name| name != "key").collect()),
        ]);
        if engine {
            let inventory = self.world.inventory();
            // Mounts and links are compared above, links also for containers.
            let more = inventory
                .into_iter()
                .filter(|(kind, _)| !["mounts", "links"].contains(kind));
            things.extend(more.map(|(kind, things)| (kind, things.into_iter().collect())));
        }
        things
    }

    /// Processes in the arena's namespaces. Namespaces also identify servers that overwrite their environment with a
    /// title.
    fn processes(&self) -> BTreeSet<String> {
        let kinds = ["mnt", "net", "ipc"];
        let of = |pid: i32| kinds.map(|kind| fs::read_link(format!("/proc/{pid}/ns/{kind}")).ok());
        let own = of(self.world.holder() as i32);
        let is_ours =
            |pid: &i32| of(*pid).iter().zip(&own).any(|(one, own)| one.is_some() && one == own) && lives(*pid);
        all()
            .into_iter()
            .filter(is_ours)
            .map(|pid| format!("{pid} {}", command_line(pid)))
            .collect()
    }
}

impl Drop for Arena {
    /// Ends all remaining processes of an attack, by pid, and only in the arena's namespaces.
    fn drop(&mut self) {
        let own = self.world.holder().to_string();
        for process in self.processes() {
            let number = process.split(' ').next().unwrap_or_default();
            let is_of_world = number == own || process.contains("dockerd") || process.contains("containerd");
            if let (false, Ok(number)) = (is_of_world, number.parse::<i32>()) {
                // SAFETY: no memory is involved; the process is in namespaces that this program has made.
                unsafe { libc::kill(number, libc::SIGKILL) };
            }
        }
    }
}

fn text_of(command: &mut Command) -> String {
    String::from_utf8(command.output().unwrap().stdout).unwrap()
}

/// Names in a folder; empty if it is missing.
fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

/// Listening addresses of `/proc/net/tcp`.
fn listening(text: &str) -> Vec<String> {
    const LISTEN: &str = "0A";
    let words = text
        .lines()
        .skip(1)
        .map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    words
        .filter(|words| words.get(3) == Some(&LISTEN))
        .map(|words| words[1].to_owned())
        .collect()
}

/// Listening names of `/proc/net/unix`.
fn unix_listening(text: &str) -> BTreeSet<String> {
    const ACCEPTS: &str = "00010000";
    let words = text
        .lines()
        .skip(1)
        .map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    words
        .filter(|words| words.get(3) == Some(&ACCEPTS))
        .filter_map(|words| Some(words.get(7)?.to_string()))
        .collect()
}

/// Kind, key and number of each segment, set and queue. Header lines of the kernel's tables give the kind.
fn segments(text: &str) -> BTreeSet<String> {
    let mut kind = "";
    let mut found = BTreeSet::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        match words[..] {
            ["key", number, ..] => kind = number,
            [key, number, ..] => drop(found.insert(format!("{kind} {number} key {key}"))),
            _ => {}
        }
    }
    found
}

/// Whether neither a cgroup nor its descendants have processes.
fn is_idle(folder: &Path) -> bool {
    let empty = fs::read_to_string(folder.join("cgroup.procs")).is_ok_and(|text| text.trim().is_empty());
    let below = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    empty && below.filter(|path| path.is_dir()).all(|path| is_idle(&path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::{engines::have_engine, needs};

    /// A script that leaves one thing of each kind.
    const PLANT: &str = r#"set -e
sleep 600 &
python3 -c 'import socket, time
tcp = socket.create_server(("127.0.0.1", 4711))
unix = socket.socket(socket.AF_UNIX)
unix.bind("\0planted")
unix.listen()
time.sleep(600)' &
ip link add planted type veth peer name planted2
ip netns add planted
mount -t tmpfs planted /mnt
ipcmk -M 4096
touch /dev/shm/planted /tmp/planted "$LASTHOP_SANDBOX/planted" "$LASTHOP_HOME/planted"
podman volume create planted
podman network create planted
iptables -N planted
until grep -q planted /proc/net/unix; do sleep 0.01; done
"#;

    #[test]
    fn whatever_is_left_is_seen_and_only_once() {
        needs!(have_engine("podman"));
        let mut arena = Arena::new("podman");
        assert_eq!(arena.left(true), Vec::<String>::new());
        arena.patience = Duration::from_secs(1);
        arena.world.lasthop.leaves = true;
        // Output goes to a file, because a remaining process would keep a pipe open.
        let said = fs::File::create(arena.world.root().join("planted")).unwrap();
        let planted = arena
            .script(PLANT)
            .stdout(said.try_clone().unwrap())
            .stderr(said)
            .status()
            .unwrap();
        let said = fs::read_to_string(arena.world.root().join("planted")).unwrap();
        assert!(planted.success(), "{said}");
        let left = arena.left(true);
        for (kind, thing) in [
            ("processes", "sleep 600"),
            ("listening", "0100007F:1267"),
            ("Unix sockets", "@planted"),
            ("links", "planted"),
            ("mounts", "planted /mnt"),
            ("System V IPC", "shmid"),
            ("shared memory", "planted"),
            ("network namespaces", "planted"),
            ("temporary files", "planted"),
            ("sandboxes", "planted"),
            ("home", "planted"),
            ("volumes", "planted"),
            ("networks", "planted"),
            ("rules", "-N planted"),
        ] {
            let is_seen = |line: &String| line.starts_with(kind) && line.contains(thing);
            assert!(left.iter().any(is_seen), "{kind} {thing} is not in {left:#?}");
        }
        assert_eq!(arena.left(true), Vec::<String>::new(), "seen again");
    }
}
