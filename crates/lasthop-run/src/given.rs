//! Servers that lasthop did not start: their processes, and how to restart them.

use std::{
    io,
    process::Command,
    time::{Duration, Instant},
};

use lasthop_load::sample;
use lasthop_model::{
    observation::{InContainer, Role},
    record::ComparedEndpoints,
};
use lasthop_system::{command, interrupt, listener, process::Stat};

/// The most time for the restart command, and again for every endpoint to answer, if the budget has that much left.
const LONGEST: Duration = Duration::from_secs(60);
/// The least time for each part of a restart, even if the budget is nearly spent: no server is left half restarted.
const LEAST: Duration = Duration::from_secs(5);

/// The time for each part of a restart, given the rest of the budget.
pub fn patience(left: Duration) -> Duration {
    left.clamp(LEAST, LONGEST)
}

/// The servers' processes now. A server has one role, however many endpoints it has. A process that the user named has
/// no role if a restart ended it.
pub fn roles(given: &ComparedEndpoints) -> Vec<Role> {
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

/// The process that listens at each endpoint: its pid and start time.
fn serving(given: &ComparedEndpoints) -> Vec<Option<(i32, u64)>> {
    given
        .endpoints
        .values()
        .map(|endpoint| {
            let pid = listener::server(&endpoint.spec.endpoint.address)?.pid;
            Some((pid, Stat::of(pid)?.start_ticks))
        })
        .collect()
}

/// Runs the restart command, and waits until every endpoint answers or `go_on` returns false. Each may take as long as
/// `patience`. Returns the cases that are still served by the same process.
pub fn restart(
    given: &ComparedEndpoints,
    restart: &str,
    patience: Duration,
    go_on: impl Fn() -> bool,
) -> Result<Vec<String>, String> {
    let before = serving(given);
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", restart]);
    // The restarted servers are children of the command, and outlive it.
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
