//! A network namespace of a run, with a veth pair between it and lasthop's own.
//!
//! The namespace has no name that could outlive the run: a process of the guard holds it, and the kernel takes it away with
//! that process, and with it both ends of the pair. This end of the pair is named by the sandbox (`lasthop-abcdef` has
//! `lh-abcdef`); the guard, a sweep and `lasthop clean` remove it by that name, so that it is gone at once.

use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader},
    net::{Ipv4Addr, Ipv6Addr},
    os::{fd::AsRawFd, unix::process::CommandExt},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use super::{
    brief,
    guard::{Guard, GuardError, GuardedChild, Input, Output, Spawn},
};

/// Name of the file in a sandbox that says that the run has a pair.
const RECORD: &str = "veth";
/// Name of the pair's end inside.
const INSIDE: &str = "lasthop0";
/// What the holding process says when the namespace is there.
const READY: &str = "ready";
/// The longest that one command of `ip` may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// 198.18.0.0/15 is reserved for measuring networks (RFC 2544): no network that is reached is there.
const RANGE: u32 = u32::from_be_bytes([198, 18, 0, 0]);
/// Subnets of four addresses in it.
const SUBNETS: u32 = 1 << 15;
/// Unique local addresses (RFC 4193), with `lasthop` in the place of the random part.
const RANGE6: [u16; 4] = [0xfd6c, 0x6173, 0x7468, 0x6f70];

/// Why there is no namespace.
#[derive(Debug, thiserror::Error)]
pub enum NamespaceError {
    #[error("`ip` is missing, which makes the pair of links to the namespace; install iproute2")]
    NoIp,
    #[error("a network namespace cannot be made: {0}; it takes root, or CAP_SYS_ADMIN and CAP_NET_ADMIN")]
    Refused(String),
    #[error("no subnet of 198.18.0.0/15 is free on this machine")]
    NoSubnet,
    #[error("`ip {command}` failed: {cause}")]
    Ip { command: String, cause: String },
    #[error("cannot write into the sandbox: {0}")]
    Sandbox(io::Error),
    #[error(transparent)]
    Guard(#[from] GuardError),
}

/// A namespace that lasthop made. Dropping it ends it.
#[derive(Debug)]
pub struct Namespace {
    /// Name of this end of the pair.
    pub link: String,
    /// This machine's address on the pair: where services listen for who is inside.
    pub outside: Ipv4Addr,
    pub inside: Ipv4Addr,
    /// As `outside`; `None` where the kernel has no IPv6.
    pub outside6: Option<Ipv6Addr>,
    holder: GuardedChild,
}

impl Namespace {
    /// Makes a namespace for the run with this sandbox.
    ///
    /// # Errors
    /// [`NamespaceError`]: no rights, no `ip`, no free subnet.
    pub fn make(guard: &Guard, lasthop: &str, sandbox: &Path) -> Result<Self, NamespaceError> {
        let subnet = free_subnet(&used()?, first_choice()).ok_or(NamespaceError::NoSubnet)?;
        let mut holder =
            guard.spawn(Spawn::new([lasthop, "hold"]).stdin(Input::Pipe).stdout(Output::Pipe).stderr(Output::Same))?;
        let mut word = String::new();
        let output = holder.stdout.take().expect("asked for");
        BufReader::new(output).read_line(&mut word).map_err(NamespaceError::Sandbox)?;
        if word.trim() != READY {
            return Err(NamespaceError::Refused(word.trim().trim_start_matches("error: ").to_owned()));
        }
        let address = |number: u32| Ipv4Addr::from(subnet + number);
        let link = link_name(sandbox);
        fs::write(sandbox.join(RECORD), &link).map_err(NamespaceError::Sandbox)?;
        let mut made = Self { link, outside: address(1), inside: address(2), outside6: None, holder };
        made.connect()?;
        made.outside6 = made.connect6(subnet);
        Ok(made)
    }

    /// The file by which the namespace is entered, for as long as it lives.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/ns/net", self.holder.pid))
    }

    fn connect(&self) -> Result<(), NamespaceError> {
        let (link, pid) = (&self.link, self.holder.pid.to_string());
        ip(None, &["link", "add", link, "type", "veth", "peer", "name", INSIDE, "netns", &pid])?;
        ip(None, &["address", "add", &format!("{}/30", self.outside), "dev", link])?;
        ip(None, &["link", "set", link, "up"])?;
        let inside = self.file();
        ip(Some(&inside), &["link", "set", "lo", "up"])?;
        ip(Some(&inside), &["address", "add", &format!("{}/30", self.inside), "dev", INSIDE])?;
        ip(Some(&inside), &["link", "set", INSIDE, "up"])
    }

    /// Without duplicate address detection, which would take a second in which an address cannot be used.
    fn connect6(&self, subnet: u32) -> Option<Ipv6Addr> {
        let own = (subnet - RANGE) as u16;
        let [a, b, c, d] = RANGE6;
        let address = |number| Ipv6Addr::new(a, b, c, d, 0, 0, own, number);
        ip(None, &["address", "add", &format!("{}/126", address(1)), "dev", &self.link, "nodad"]).ok()?;
        ip(Some(&self.file()), &["address", "add", &format!("{}/126", address(2)), "dev", INSIDE, "nodad"]).ok()?;
        Some(address(1))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.holder.stop(libc::SIGKILL, Duration::ZERO);
        let _ = ip(None, &["link", "delete", &self.link]);
    }
}

/// Removes the pair of the run with this sandbox, where it had one; true when it was still there.
pub fn remove(sandbox: &Path) -> bool {
    sandbox.join(RECORD).exists() && ip(None, &["link", "delete", &link_name(sandbox)]).is_ok()
}

/// `lh-abcdef` for `lasthop-abcdef`: names of links have at most 15 bytes.
fn link_name(sandbox: &Path) -> String {
    let name = sandbox.file_name().unwrap_or_default().to_string_lossy();
    format!("lh-{}", name.rsplit('-').next().unwrap_or_default().chars().take(12).collect::<String>())
}

/// Holds a new network namespace until its input ends. What `lasthop hold` does.
///
/// # Errors
/// The kernel refuses.
pub fn hold() -> io::Result<()> {
    // SAFETY: unshare has no memory effects; this process has one thread.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        return Err(io::Error::last_os_error());
    }
    io::Write::write_all(&mut io::stdout(), format!("{READY}\n").as_bytes())?;
    io::copy(&mut io::stdin(), &mut io::sink()).map(drop)
}

/// Becomes a command in the network namespace of this file. What `lasthop enter` does; returns only on an error.
pub fn enter(namespace: &Path, command: &[std::ffi::OsString]) -> io::Error {
    let Some((program, arguments)) = command.split_first() else {
        return io::Error::new(io::ErrorKind::InvalidInput, "the command is empty");
    };
    match File::open(namespace).and_then(|file| go_into(&file)) {
        Ok(()) => Command::new(program).args(arguments).exec(),
        Err(error) => {
            io::Error::new(error.kind(), format!("cannot enter the namespace {}: {error}", namespace.display()))
        }
    }
}

/// Puts the calling thread, and none other, into a network namespace.
///
/// # Errors
/// It is no network namespace, or the kernel refuses.
pub fn go_into(namespace: &File) -> io::Result<()> {
    // SAFETY: setns has no memory effects; the descriptor is open.
    match unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Runs `ip`, inside a namespace if one is given.
fn ip(namespace: Option<&Path>, words: &[&str]) -> Result<(), NamespaceError> {
    asked(namespace, words).map(drop)
}

fn asked(namespace: Option<&Path>, words: &[&str]) -> Result<String, NamespaceError> {
    let failed = |cause: String| NamespaceError::Ip { command: words.join(" "), cause };
    let mut command = Command::new("ip");
    command.args(words);
    if let Some(path) = namespace {
        let file = File::open(path).map_err(|error| failed(error.to_string()))?;
        // SAFETY: the closure makes one system call; it takes no lock and allocates nothing.
        unsafe { command.pre_exec(move || go_into(&file)) };
    }
    match brief::run(command, TIMEOUT) {
        Ok(ended) if ended.status.success() => Ok(ended.text),
        Ok(ended) => Err(failed(ended.text.trim().to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(NamespaceError::NoIp),
        Err(error) => Err(failed(error.to_string())),
    }
}

/// Every IPv4 range that an address or a route of this machine names.
fn used() -> Result<Vec<(u32, u32)>, NamespaceError> {
    let mut text = asked(None, &["-o", "-4", "address", "show"])?;
    text.push_str(&asked(None, &["-4", "route", "show", "table", "all"])?);
    Ok(ranges(&text))
}

/// First and last address of everything in a text that is an address or a network, but for the whole of IPv4.
fn ranges(text: &str) -> Vec<(u32, u32)> {
    let range = |word: &str| {
        let (address, prefix) = word.split_once('/').unwrap_or((word, "32"));
        let address = u32::from(address.parse::<Ipv4Addr>().ok()?);
        let prefix: u32 = prefix.parse().ok().filter(|prefix| (1..=32).contains(prefix))?;
        let hosts = u32::MAX.checked_shr(prefix).unwrap_or(0);
        Some((address & !hosts, address | hosts))
    };
    text.split_ascii_whitespace().filter_map(range).collect()
}

/// Where the search begins: runs that start at the same time shall not choose the same.
fn first_choice() -> u32 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish() as u32 % SUBNETS
}

fn free_subnet(used: &[(u32, u32)], first: u32) -> Option<u32> {
    let subnets = (0..SUBNETS).map(|step| RANGE + (first + step) % SUBNETS * 4);
    let is_free = |subnet: &u32| used.iter().all(|(low, high)| *high < *subnet || *low > *subnet + 3);
    subnets.into_iter().find(is_free)
}

/// Addresses of this machine that are not loopback, in the order in which `ip` lists them.
///
/// # Errors
/// `ip` is missing or fails.
pub fn own_addresses() -> Result<Vec<std::net::IpAddr>, NamespaceError> {
    let text = asked(None, &["-o", "address", "show", "scope", "global"])?;
    let address = |line: &str| {
        let mut words = line.split_ascii_whitespace().skip_while(|word| !matches!(*word, "inet" | "inet6"));
        words.nth(1)?.split('/').next()?.parse().ok()
    };
    Ok(text.lines().filter_map(address).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subnet_that_anything_names_is_not_taken() {
        let text = "1: lo inet 127.0.0.1/8 scope host lo\ndefault via 10.0.0.1 dev eth0\n198.18.0.0/30 dev x\n0.0.0.0/0 dev y\n";
        let used = ranges(text);
        assert_eq!(used.len(), 3, "{used:?}");
        assert_eq!(free_subnet(&used, 0), Some(RANGE + 4));
        assert_eq!(free_subnet(&used, 5), Some(RANGE + 20));
        assert_eq!(free_subnet(&ranges("198.18.0.0/15"), 7), None);
        assert_eq!(free_subnet(&ranges("198.18.0.0/16"), 7), Some(u32::from(Ipv4Addr::new(198, 19, 0, 0))));
    }

    #[test]
    fn the_link_is_named_by_the_sandbox() {
        assert_eq!(link_name(Path::new("/tmp/lasthop-abcdef")), "lh-abcdef");
    }

    #[test]
    fn this_machines_addresses_are_read() {
        assert!(own_addresses().unwrap().iter().all(|address| !address.is_loopback()));
    }
}
