//! Servers that lasthop did not start: who they are, and how they are started afresh.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use lasthop_load::sample;
use lasthop_model::{
    observation::{InContainer, Role},
    record::Given,
};
use lasthop_system::{command, interrupt, listener};

/// The longest that the command may take, and the longest until every endpoint answers again.
const RESTART: Duration = Duration::from_secs(60);
const ANSWER: Duration = Duration::from_secs(60);

/// The processes of the servers as they are now. One server has one role, however many endpoints it has.
pub fn roles(given: &Given) -> Vec<Role> {
    let role = |name: &str, pid| Role { stack: 0, name: name.to_owned(), pid, container: InContainer::No };
    let mut roles: Vec<Role> = given.pids.iter().map(|(name, pid)| role(name, *pid)).collect();
    for endpoint in given.endpoints.values() {
        let name = endpoint.server.as_deref();
        let found = name.and_then(|name| Some((name, listener::server(&endpoint.spec.endpoint.address)?)));
        if let Some((name, server)) = found.filter(|(_, server)| roles.iter().all(|role| role.pid != server.pid)) {
            roles.push(role(name, server.pid));
        }
    }
    roles
}

/// Restarts the servers, if a command for that is given, and waits until every endpoint answers or `go_on` says no.
///
/// # Errors
/// In words: the command fails, or an endpoint does not answer in time.
pub fn restart(given: &Given, go_on: impl Fn() -> bool) -> Result<(), String> {
    let Some(restart) = &given.restart else { return Ok(()) };
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", restart]);
    let ended = command::run(shell, RESTART).map_err(|error| format!("`{restart}`: {error}"))?;
    if !ended.status.success() {
        return Err(format!("`{restart}` ended with {}: {}", ended.status, ended.text.trim()));
    }
    let begun = Instant::now();
    for endpoint in given.endpoints.values() {
        while let Err(failure) = sample::take(&endpoint.spec, &go_on) {
            if begun.elapsed() > ANSWER || !interrupt::pause(Duration::from_millis(50)) {
                return Err(format!("after `{restart}`, {} does not answer: {}", endpoint.url, failure.message));
            }
        }
    }
    Ok(())
}
