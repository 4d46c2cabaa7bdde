//! Network namespaces: held, entered, and told by `ip` what to have.

use std::{
    fs::File,
    io,
    os::{fd::AsFd, unix::process::CommandExt},
    path::Path,
    process::Command,
    time::Duration,
};

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

use super::command;

/// What the holding process says when the namespace is there.
pub const READY: &str = "ready";
/// The longest that one command of `ip` may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Holds a new network namespace until its input ends. What `lasthop hold` does.
///
/// # Errors
///
/// The kernel refuses.
pub fn hold() -> io::Result<()> {
    // SAFETY: unshare has no memory effects; this process has one thread.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?;
    io::Write::write_all(&mut io::stdout(), format!("{READY}\n").as_bytes())?;
    // The namespace lasts as long as this process. Its input also ends if lasthop is killed.
    io::copy(&mut io::stdin(), &mut io::sink()).map(drop)
}

/// Moves the calling thread, and no other, into a network namespace.
///
/// # Errors
///
/// It is no network namespace, or the kernel refuses.
pub fn go_into(namespace: &File) -> io::Result<()> {
    Ok(move_into_link_name_space(
        namespace.as_fd(),
        Some(LinkNameSpaceType::Network),
    )?)
}

/// Runs `ip`, inside a namespace if one is given, and returns what it prints.
///
/// # Errors
///
/// It is missing or fails, or there is no such namespace.
pub fn ip(namespace: Option<&Path>, words: &[&str]) -> Result<String, String> {
    let failed = |cause: String| format!("`ip {}` failed: {cause}", words.join(" "));
    let mut command = Command::new("ip");
    command.args(words);
    if let Some(path) = namespace {
        // Opened before the fork: between fork and exec nothing may allocate.
        let file = File::open(path).map_err(|error| failed(error.to_string()))?;
        // SAFETY: the closure makes one system call; it takes no lock and allocates nothing.
        unsafe { command.pre_exec(move || go_into(&file)) };
    }
    match command::run(command, TIMEOUT, command::Life::Bound) {
        Ok(ended) if ended.status.success() => Ok(ended.text()),
        Ok(ended) => Err(failed(ended.text().trim().to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err("`ip`, which links the namespace to this one, is missing; install iproute2".to_owned())
        }
        Err(error) => Err(failed(error.to_string())),
    }
}

/// Addresses of this machine that are not loopback, in the order in which `ip` lists them.
///
/// # Errors
///
/// `ip` is missing or fails.
pub fn own_addresses() -> Result<Vec<std::net::IpAddr>, String> {
    let text = ip(None, &["-o", "address", "show", "scope", "global"])?;
    Ok(text
        .lines()
        .filter_map(|line| {
            let mut words = line
                .split_ascii_whitespace()
                .skip_while(|word| !matches!(*word, "inet" | "inet6"));
            words.nth(1)?.split('/').next()?.parse().ok()
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machines_addresses_are_read() {
        assert!(own_addresses().unwrap().iter().all(|address| !address.is_loopback()));
    }
}
