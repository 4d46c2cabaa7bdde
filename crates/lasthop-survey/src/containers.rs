//! What containers are called. The kernel only knows their identity: podman's monitor of each (`conmon`) has both in its
//! arguments, and Docker's daemon is asked. A name is heard from who has started the container, and from nobody else.

use std::{
    collections::{BTreeSet, HashMap},
    io::Write as _,
    path::PathBuf,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use lasthop_protocol::spec::Address;
use lasthop_system::{connect, facts::Facts, files, listener::command_of, listening_user, process};
use serde::Deserialize;

/// The daemon's usual socket. Those of users are below `/run/user`.
const DOCKER: &str = "/run/docker.sock";
/// How long all daemons together are waited for, how many are asked, and how much one may say in bytes: some kilobytes
/// a container.
const LIMIT: Duration = Duration::from_secs(1);
const DAEMONS: usize = 16;
const LONGEST: u64 = 4 << 20;

/// Names by identity, of these containers, each with the parent of a process in it. Whom nobody answers for has none.
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

/// The name that podman's monitor has for a container, if it is the parent of a process in it and not within a container
/// itself: nobody else's process comes to be that.
fn monitored(id: &str, parent: i32) -> Option<String> {
    // As many as there are pid namespaces around it.
    let pids = Facts::here().field(&format!("/proc/{parent}/status"), "NSpid")?;
    let is_monitor = command_of(parent) == "conmon" && pids.split_ascii_whitespace().count() == 1;
    let arguments = is_monitor.then(|| process::arguments(parent))?;
    let told = option(&arguments, "-c")?;
    (told == id).then(|| option(&arguments, "-n"))?
}

/// What follows an option in the arguments of a process.
fn option(arguments: &[String], option: &str) -> Option<String> {
    let mut words = arguments.iter().skip_while(|word| *word != option);
    words.nth(1).cloned()
}

/// A socket where a Docker daemon listens, and whose the daemon is, if it is only heard about containers of that user.
type Daemon = (PathBuf, Option<u32>);

/// The system's, the one of `DOCKER_HOST`, and those of these users.
fn daemons(users: BTreeSet<u32>) -> Vec<Daemon> {
    let told = std::env::var("DOCKER_HOST").unwrap_or_default();
    let told = told.strip_prefix("unix://").map(PathBuf::from);
    let own = [DOCKER.into()].into_iter().chain(told).map(|socket| (socket, None));
    let users = users
        .into_iter()
        .map(|user| (format!("/run/user/{user}/docker.sock").into(), Some(user)));
    own.chain(users).take(DAEMONS).collect()
}

/// Asks all of them at once, and returns whose replies have come in time, in the order of the daemons. Somebody's daemon
/// may say a word a second.
fn answers(daemons: Vec<Daemon>, limit: Duration) -> Vec<(Option<u32>, Vec<u8>)> {
    let (sender, replies) = mpsc::channel();
    for (number, (socket, user)) in daemons.into_iter().enumerate() {
        let sender = sender.clone();
        let asks = move || sender.send((number, user, ask(socket, user, limit)));
        // One that cannot be asked is one that does not answer.
        let _ = thread::Builder::new().spawn(asks);
    }
    // It ends when all have answered.
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
    // The name of a user's socket may be a link to somebody else's.
    let is_theirs = user.is_none() || listening_user(&socket).ok() == user;
    // Of this version, the reply ends with the connection.
    is_theirs
        .then(|| socket.write_all(b"GET /containers/json HTTP/1.0\r\n\r\n"))?
        .ok()?;
    files::whole(socket, LONGEST).ok()
}

/// A container, as the daemon tells of it.
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

    /// Its parent is a process that anybody may have started.
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

    /// Each answers once all have been asked.
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
                // The one that is not asked hears nothing.
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
