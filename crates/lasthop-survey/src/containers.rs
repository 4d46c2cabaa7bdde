//! Names of containers. The kernel knows only their ids. podman's monitor of a container (`conmon`) has id and name in
//! its arguments, and Docker's daemon is asked. A name is accepted only from the process that started the container.

use std::{
    collections::{BTreeSet, HashMap},
    io::Write as _,
    path::PathBuf,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use lasthop_system::{connect, facts::Facts, files, listener::command_of, listening_user, process};
use lasthop_trial::address::Address;
use serde::Deserialize;

/// The system daemon's usual socket. Those of users are below `/run/user`.
const DOCKER: &str = "/run/docker.sock";
/// The time for all daemons together, the most daemons asked, and the longest reply in bytes: some kilobytes per
/// container.
const LIMIT: Duration = Duration::from_secs(1);
const DAEMONS: usize = 16;
const LONGEST: u64 = 4 << 20;

/// Names by id of these containers, each given with the parent of a process in it. Unknown names are missing.
#[must_use]
pub fn names(mut unnamed: Vec<(&str, i32)>) -> HashMap<String, String> {
    let monitored = |(id, parent): &(&str, i32)| Some(((*id).to_owned(), monitored(id, *parent)?));
    let mut names: HashMap<String, String> = unnamed.iter().filter_map(monitored).collect();
    unnamed.retain(|(id, _)| !names.contains_key(*id));
    if unnamed.is_empty() {
        return names;
    }
    let user_of = |(_, parent): &(&str, i32)| process::user_of(*parent);
    for (user, reply) in answers(daemons(unnamed.iter().filter_map(user_of).collect()), LIMIT) {
        let mut known = unnamed.clone();
        known.retain(|one| user.is_none() || user_of(one) == user);
        for Container { id, names: called } in parse(&reply).unwrap_or_default() {
            if let Some(name) = called.first()
                && known.iter().any(|(known, _)| *known == id)
            {
                // The system's daemon comes first.
                let name = name.trim_start_matches('/').to_owned();
                names.entry(id).or_insert(name);
            }
        }
    }
    names
}

/// The name from podman's monitor, if that is the parent of a process in the container and not in a container itself:
/// no other user's process can become that parent.
fn monitored(id: &str, parent: i32) -> Option<String> {
    // One pid for each pid namespace around the process.
    let pids = Facts::here().field(&format!("/proc/{parent}/status"), "NSpid")?;
    let is_monitor = command_of(parent) == "conmon" && pids.split_ascii_whitespace().count() == 1;
    let arguments = is_monitor.then(|| process::arguments(parent))?;
    let told = option(&arguments, "-c")?;
    (told == id).then(|| option(&arguments, "-n"))?
}

/// The argument after an option.
fn option(arguments: &[String], option: &str) -> Option<String> {
    let mut words = arguments.iter().skip_while(|word| *word != option);
    words.nth(1).cloned()
}

/// Socket of a Docker daemon, and its user if it is asked only about that user's containers.
type Daemon = (PathBuf, Option<u32>);

/// The sockets of the system's daemon, of `DOCKER_HOST`, and of these users' daemons.
fn daemons(users: BTreeSet<u32>) -> Vec<Daemon> {
    let told = std::env::var("DOCKER_HOST").unwrap_or_default();
    let told = told.strip_prefix("unix://").map(PathBuf::from);
    let own = [DOCKER.into()].into_iter().chain(told).map(|socket| (socket, None));
    let users = users
        .into_iter()
        .map(|user| (format!("/run/user/{user}/docker.sock").into(), Some(user)));
    own.chain(users).take(DAEMONS).collect()
}

/// Asks all daemons at once. Returns replies that come in time, in the order of the daemons. A malicious daemon may
/// reply very slowly.
fn answers(daemons: Vec<Daemon>, limit: Duration) -> Vec<(Option<u32>, Vec<u8>)> {
    let (sender, replies) = mpsc::channel();
    for (number, (socket, user)) in daemons.into_iter().enumerate() {
        let sender = sender.clone();
        let asks = move || sender.send((number, user, ask(socket, user, limit)));
        // A failed start counts as no reply.
        let _ = thread::Builder::new().spawn(asks);
    }
    // The channel closes when all have replied.
    drop(sender);
    let deadline = Instant::now() + limit;
    let left = || deadline.saturating_duration_since(Instant::now());
    let mut all: Vec<_> = std::iter::from_fn(|| replies.recv_timeout(left()).ok()).collect();
    all.sort_by_key(|(number, ..)| *number);
    all.into_iter()
        .filter_map(|(_, user, reply)| Some((user, reply?)))
        .collect()
}

fn ask(socket: PathBuf, user: Option<u32>, limit: Duration) -> Option<Vec<u8>> {
    let mut socket = connect(&Address::Unix(socket), limit).ok()?;
    // The path of a user's socket may be a link to another user's.
    let is_theirs = user.is_none() || listening_user(&socket).ok() == user;
    // With HTTP/1.0, the reply ends with the connection.
    is_theirs
        .then(|| socket.write_all(b"GET /containers/json HTTP/1.0\r\n\r\n"))?
        .ok()?;
    files::whole(socket, LONGEST).ok()
}

/// A container in the daemon's reply.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Container {
    id: String,
    #[serde(default)]
    names: Vec<String>,
}

fn parse(reply: &[u8]) -> Option<Vec<Container>> {
    let head = reply.windows(4).position(|bytes| bytes == b"\r\n\r\n")?;
    serde_json::from_slice(&reply[head + 4..]).ok()
}

#[cfg(test)]
mod tests {
    use std::{
        io::Read as _,
        os::unix::{fs::MetadataExt as _, net::UnixListener},
        path::Path,
        process::{Command, Stdio},
        sync::{Arc, Barrier},
    };

    use super::*;

    #[test]
    fn a_monitor_has_both_in_its_arguments() {
        let line = "/usr/bin/conmon --api-version 1 -c abc -u abc -r /usr/bin/runc -n web";
        let arguments: Vec<String> = line.split(' ').map(str::to_owned).collect();
        assert_eq!(option(&arguments, "-c").as_deref(), Some("abc"));
        assert_eq!(option(&arguments, "-n").as_deref(), Some("web"));
        assert_eq!(option(&arguments, "-x"), None);
    }

    /// The parent is a process that any user may have started.
    #[test]
    fn only_who_has_started_a_container_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let [conmon, script] = ["conmon", "script"].map(|name| folder.path().join(name));
        std::os::unix::fs::symlink("/bin/sh", &conmon).unwrap();
        std::fs::write(&script, "echo\nread -r _").unwrap();
        let mut monitor = Command::new(&conmon)
            .arg(&script)
            .args(["-c", "abc", "-n", "web"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        monitor.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let [pid, other] = [monitor.id(), std::process::id()].map(|pid| pid as i32);
        let named = HashMap::from([("abc".to_owned(), "web".to_owned())]);
        assert_eq!(names(vec![("abc", other), ("abc", pid)]), named);
        for not in [("abc", other), ("def", pid), ("abc", i32::MAX)] {
            assert!(names(vec![not]).is_empty(), "{not:?}");
        }
        drop(monitor.stdin.take());
        monitor.wait().unwrap();
    }

    #[test]
    fn only_daemons_of_users_who_have_containers_are_asked() {
        let sockets = |users: BTreeSet<u32>| {
            let all = daemons(users).into_iter().filter(|(_, user)| user.is_some());
            all.map(|(socket, _)| socket).collect::<Vec<_>>()
        };
        assert_eq!(sockets(BTreeSet::new()), Vec::<PathBuf>::new());
        assert_eq!(sockets([7].into()), [Path::new("/run/user/7/docker.sock")]);
        assert!(sockets((0..1000).collect()).len() < DAEMONS);
    }

    /// Each daemon replies only after all have been asked.
    #[test]
    fn daemons_are_asked_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let asked = Arc::new(Barrier::new(3));
        let own = folder.path().metadata().unwrap().uid();
        let listening = [("a", None), ("b", Some(own)), ("c", Some(own + 1))].map(|(name, user)| {
            let path = folder.path().join(name);
            let listener = UnixListener::bind(&path).unwrap();
            let asked = Arc::clone(&asked);
            thread::spawn(move || {
                let (mut client, _) = listener.accept().unwrap();
                asked.wait();
                // The daemon that is not asked receives nothing.
                let _ = client.read(&mut [0; 99]);
                client.write_all(name.as_bytes())
            });
            (path, user)
        });
        let replies = answers(listening.into(), Duration::from_secs(60));
        assert_eq!(
            replies,
            [(None, b"a".to_vec()), (Some(own), b"b".to_vec())],
            "c is another user's"
        );
    }

    #[test]
    fn a_daemon_says_what_runs() {
        let reply = b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n\
                      [{\"Id\":\"abc\",\"Names\":[\"/web\"],\"Image\":\"nginx\"},{\"Id\":\"def\"}]\n";
        let container = |id: &str, names: &[&str]| Container {
            id: id.to_owned(),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
        };
        assert_eq!(
            parse(reply),
            Some(vec![container("abc", &["/web"]), container("def", &[])])
        );
        assert_eq!(parse(b"HTTP/1.0 400 Bad Request\r\n\r\nno JSON"), None);
    }
}
