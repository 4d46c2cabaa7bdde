//! Network namespaces: held, entered, and set up with `ip`.

use std::{
    fmt::Display,
    fs::{self, File},
    io,
    os::{
        fd::{AsFd, AsRawFd, FromRawFd, OwnedFd},
        unix::{fs::MetadataExt as _, process::CommandExt},
    },
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

use super::{command, files};

/// The holding process's message when the namespace exists.
pub const READY: &str = "ready";
/// The longest time for one `ip` command.
const TIMEOUT: Duration = Duration::from_secs(10);

// include/uapi/linux/nsfs.h: a namespace's user namespace, the parent of that, and its owner.
const NS_GET_USERNS: u32 = 0xb701;
const NS_GET_PARENT: u32 = 0xb702;
const NS_GET_OWNER_UID: u32 = 0xb704;

/// Holds a new network namespace until standard input ends: the work of `lasthop hold`.
pub fn hold() -> io::Result<()> {
    // SAFETY: unshare has no memory effects; this process has one thread.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?;
    io::Write::write_all(&mut io::stdout(), format!("{READY}\n").as_bytes())?;
    // The namespace lasts as long as this process. Standard input also ends if lasthop is killed.
    io::copy(&mut io::stdin(), &mut io::sink()).map(drop)
}

/// Moves the calling thread, and no other, into a network namespace.
pub fn go_into(namespace: &File) -> io::Result<()> {
    Ok(move_into_link_name_space(
        namespace.as_fd(),
        Some(LinkNameSpaceType::Network),
    )?)
}

/// Moves the calling thread, and processes that it starts from now on, into a new network namespace whose loopback is
/// up. Returns the previous namespace.
///
/// # Errors
///
/// The process lacks `CAP_SYS_ADMIN` or `CAP_NET_ADMIN`.
pub fn leave() -> Result<File, String> {
    let before = files::open_linked(Path::new("/proc/thread-self/ns/net")).map_err(|error| error.to_string())?;
    // SAFETY: unshare has no memory effects, and this moves the calling thread only.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.map_err(|error| error.to_string())?;
    match ip(None, &["link", "set", "lo", "up"]) {
        Ok(_) => Ok(before),
        Err(cause) => {
            let _ = go_into(&before);
            Err(cause)
        }
    }
}

/// The network namespace of a process.
pub fn of_process(pid: i32) -> io::Result<File> {
    files::open_linked(Path::new(&format!("/proc/{pid}/ns/net")))
}

/// A name of a process's network namespace that no other has; `None` if it cannot be read.
pub fn id(pid: impl Display) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/ns/net")).ok()
}

/// The user who made a network namespace without administrator rights, inside a user namespace or several nested ones.
/// `None` for a namespace that took an administrator's rights.
pub fn made_by_user(namespace: &File) -> io::Result<Option<u32>> {
    let own = files::facts_linked("/proc/self/ns/user")?.ino();
    let mut around = ask(namespace, NS_GET_USERNS)?;
    let mut within = None;
    while files::facts_of(&around)?.ino() != own {
        let next = ask(&around, NS_GET_PARENT)?;
        within = Some(std::mem::replace(&mut around, next));
    }
    within.map(|namespace| owner(&namespace)).transpose()
}

fn ask(namespace: &File, what: u32) -> io::Result<File> {
    // SAFETY: these requests take no argument, and return a new descriptor or an error.
    let found = unsafe { libc::ioctl(namespace.as_raw_fd(), what as _) };
    if found < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: as above.
    Ok(unsafe { OwnedFd::from_raw_fd(found) }.into())
}

fn owner(namespace: &File) -> io::Result<u32> {
    let mut user: libc::uid_t = 0;
    // SAFETY: the request writes one uid_t.
    let done = unsafe { libc::ioctl(namespace.as_raw_fd(), NS_GET_OWNER_UID as _, &raw mut user) };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(user)
}

/// Runs `ip`, inside a namespace if one is given, and returns its output.
pub fn ip(namespace: Option<&Path>, words: &[&str]) -> Result<String, String> {
    let failed = |cause: String| format!("`ip {}` failed: {cause}", words.join(" "));
    let mut command = Command::new("ip");
    command.args(words);
    if let Some(path) = namespace {
        // Opened before the fork: between fork and exec nothing may allocate.
        let file = files::open_linked(path).map_err(|error| failed(error.to_string()))?;
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

/// Addresses of this machine other than loopback, in the order of `ip`.
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
    use std::process::Stdio;

    use super::*;
    use crate::process;

    /// The test enters the namespace in a thread of its own, which ends there.
    #[test]
    fn a_new_namespace_has_loopback_and_nothing_else() {
        let inside = std::thread::spawn(|| {
            let Ok(before) = leave() else {
                assert!(!rustix::process::geteuid().is_root());
                return;
            };
            assert_eq!(own_addresses().unwrap(), [] as [std::net::IpAddr; 0]);
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let id = || std::fs::read_link("/proc/thread-self/ns/net").unwrap();
            let there = id();
            go_into(&before).unwrap();
            assert_ne!(id(), there);
            assert_eq!(id(), std::fs::read_link("/proc/self/ns/net").unwrap());
        });
        inside.join().unwrap();
    }

    #[test]
    fn a_namespace_is_told_from_one_that_a_user_made() {
        let own = std::process::id() as i32;
        assert_eq!(made_by_user(&of_process(own).unwrap()).unwrap(), None);
        assert!(of_process(i32::MAX).is_err());
        // A user namespace within another; some machines allow nobody to make one.
        let nested = "unshare --user --map-root-user --net sh -c 'echo; read -r _'";
        let mut child = Command::new("unshare")
            .args(["--user", "--map-root-user", "sh", "-c", nested])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let made = io::Read::read(child.stdout.as_mut().unwrap(), &mut [0]).unwrap() > 0;
        let inside = process::descendants(child.id() as i32)
            .pop()
            .unwrap_or(child.id() as i32);
        if made {
            let user = made_by_user(&of_process(inside).unwrap()).unwrap();
            assert_eq!(user, Some(rustix::process::geteuid().as_raw()));
        }
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    #[test]
    fn this_machines_addresses_are_read() {
        assert!(own_addresses().unwrap().iter().all(|address| !address.is_loopback()));
    }
}
