//! Servers that lasthop did not start: who they are, and how they are started afresh.

use std::{
    io,
    process::Command,
    time::{Duration, Instant},
};

use lasthop_load::sample;
use lasthop_model::{
    observation::{InContainer, Role},
    record::Given,
};
use lasthop_system::{command, interrupt, listener, process::Stat};

/// The longest that the command may take, and the longest until every endpoint answers again, where the budget has so
/// much left.
const LONGEST: Duration = Duration::from_secs(60);
/// What both get in any case: servers are not left half restarted for a budget that is nearly spent.
const LEAST: Duration = Duration::from_secs(5);

/// How long each part of a restart may take, with so much of the budget left.
pub fn patience(left: Duration) -> Duration {
    left.clamp(LEAST, LONGEST)
}

/// The processes of the servers as they are now. One server has one role, however many endpoints it has. A process that
/// the user named may have ended with a restart; then it has none.
pub fn roles(given: &Given) -> Vec<Role> {
    let role = |name: &str, pid| Role {
        stack: 0,
        name: name.to_owned(),
        pid,
        container: InContainer::No,
    };
    let named = given.pids.iter().filter(|(_, pid)| is_alive(**pid));
    let mut roles: Vec<Role> = named.map(|(name, pid)| role(name, *pid)).collect();
    for endpoint in given.endpoints.values() {
        let name = endpoint.server.as_deref();
        let found = name.and_then(|name| Some((name, listener::server(&endpoint.spec.endpoint.address)?)));
        if let Some((name, server)) = found.filter(|(_, server)| roles.iter().all(|role| role.pid != server.pid)) {
            roles.push(role(name, server.pid));
        }
    }
    roles
}

fn is_alive(pid: i32) -> bool {
    Stat::of(pid).is_some_and(|stat| stat.state != b'Z')
}

/// Which process listens at each endpoint, by its number and its start.
fn serving(given: &Given) -> Vec<Option<(i32, u64)>> {
    given
        .endpoints
        .values()
        .map(|endpoint| {
            let pid = listener::server(&endpoint.spec.endpoint.address)?.pid;
            Some((pid, Stat::of(pid)?.start_ticks))
        })
        .collect()
}

/// Restarts the servers by this command, and waits until every endpoint answers or `go_on` says no. Each may take as
/// long as `patience`. Returns the cases that the same process serves as before.
pub fn restart(
    given: &Given,
    restart: &str,
    patience: Duration,
    go_on: impl Fn() -> bool,
) -> Result<Vec<String>, String> {
    let before = serving(given);
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", restart]);
    // The servers that the command starts are its children, and outlive it.
    let ended = command::run(shell, patience, command::Life::LeavesChildren).map_err(|error| match error.kind() {
        io::ErrorKind::TimedOut => format!(
            "the restart command did not end within {:.0} s and was killed; the servers may be down. It must end, and start \
             servers in the background; --budget must have room for it",
            patience.as_secs_f64()
        ),
        _ => format!("the restart command: {error}"),
    })?;
    if !ended.status.success() {
        return Err(format!(
            "the restart command ended with {}: {}",
            ended.status,
            ended.output.trim()
        ));
    }
    let begun = Instant::now();
    for endpoint in given.endpoints.values() {
        while let Err(failure) = sample::take(&endpoint.spec, &go_on) {
            if begun.elapsed() > patience || !interrupt::pause(Duration::from_millis(50)) {
                let address = &endpoint.spec.endpoint.address;
                return Err(format!(
                    "after the restart, {address} does not answer: {}",
                    failure.message
                ));
            }
        }
    }
    let cases = given.endpoints.keys().zip(before.into_iter().zip(serving(given)));
    let same = cases.filter(|(_, (before, now))| before.is_some() && before == now);
    Ok(same.map(|(case, _)| case.clone()).collect())
}
