//! What containers are called. The kernel only knows their identity: podman's monitor of each (`conmon`) has both in its
//! arguments, whoever's container it is, and Docker's daemon is asked.

use std::{
    collections::HashMap,
    fs,
    io::{Read as _, Write as _},
    path::{Path, PathBuf},
    sync::mpsc,
    thread,
    time::Duration,
};

use lasthop_protocol::spec::Address;
use lasthop_system::{connect, listener::command_of, process};
use serde::Deserialize;

/// The daemon's usual socket. Those of users are below `/run/user`.
const DOCKER: &str = "/run/docker.sock";
/// How long a daemon is waited for, and how much it may say in bytes: some kilobytes a container.
const LIMIT: Duration = Duration::from_secs(1);
const LONGEST: u64 = 16 << 20;

/// Names by identity, of those that run. Whom nobody answers for has none.
#[must_use]
pub fn names() -> HashMap<String, String> {
    let mut names: HashMap<String, String> = process::all().into_iter().filter_map(monitored).collect();
    for socket in daemons() {
        // The system's daemon comes first: what a user's own says of others is not heard.
        for Container { id, names: called } in within_the_limit(socket).unwrap_or_default() {
            if let Some(name) = called.first() {
                names
                    .entry(id)
                    .or_insert_with(|| name.trim_start_matches('/').to_owned());
            }
        }
    }
    names
}

/// Identity and name of the container that a process is podman's monitor of.
fn monitored(pid: i32) -> Option<(String, String)> {
    (command_of(pid) == "conmon").then_some(())?;
    let arguments = fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
    Some((option(&arguments, "-c")?, option(&arguments, "-n")?))
}

/// What follows an option in the arguments of a process.
fn option(arguments: &str, option: &str) -> Option<String> {
    let mut words = arguments.split('\0').skip_while(|word| *word != option);
    words.nth(1).map(str::to_owned)
}

/// Where Docker's daemons listen: the system's, the one of `DOCKER_HOST`, and those of users.
fn daemons() -> Vec<PathBuf> {
    let told = std::env::var("DOCKER_HOST").unwrap_or_default();
    let told = told.strip_prefix("unix://").map(PathBuf::from);
    let users = fs::read_dir("/run/user").into_iter().flatten().flatten();
    let users = users.map(|user| user.path().join("docker.sock"));
    let mut all: Vec<PathBuf> = [DOCKER.into()].into_iter().chain(told).chain(users).collect();
    all.retain(|socket| fs::exists(socket).unwrap_or(false));
    all
}

/// A container, as the daemon tells of it.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Container {
    id: String,
    #[serde(default)]
    names: Vec<String>,
}

/// Somebody's daemon may say a word a second.
fn within_the_limit(socket: PathBuf) -> Option<Vec<Container>> {
    let (sender, answer) = mpsc::channel();
    thread::spawn(move || sender.send(ask(&socket)));
    answer.recv_timeout(LIMIT).ok()?
}

fn ask(socket: &Path) -> Option<Vec<Container>> {
    let mut socket = connect(&Address::Unix(socket.to_owned()), LIMIT).ok()?;
    // Of this version, the reply ends with the connection.
    socket.write_all(b"GET /containers/json HTTP/1.0\r\n\r\n").ok()?;
    let mut reply = Vec::new();
    socket.take(LONGEST).read_to_end(&mut reply).ok()?;
    parse(&reply)
}

fn parse(reply: &[u8]) -> Option<Vec<Container>> {
    let head = reply.windows(4).position(|bytes| bytes == b"\r\n\r\n")?;
    serde_json::from_slice(&reply[head + 4..]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_monitor_has_both_in_its_arguments() {
        let arguments = "/usr/bin/conmon\0--api-version\x001\0-c\0abc\0-u\0abc\0-r\0/usr/bin/runc\0-n\0web\0";
        assert_eq!(option(arguments, "-c").as_deref(), Some("abc"));
        assert_eq!(option(arguments, "-n").as_deref(), Some("web"));
        assert_eq!(option(arguments, "-x"), None);
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
