//! Free ports. Between the check of a port and the start of its server, no other lasthop may hand it out.
//!
//! Ports are handed out by spans. A run holds each span twice: by an abstract name, which other users' runs see, and by
//! a lock on a range of a file in the data folder, which only this user's runs see. Any user can hold all names. So a
//! span whose name is taken is the last choice, and only this user's other runs can hold all spans.

use std::{
    collections::{HashSet, VecDeque},
    fs::File,
    io,
    net::{IpAddr, SocketAddr, TcpListener},
    os::{
        fd::AsRawFd as _,
        linux::net::SocketAddrExt as _,
        unix::{
            fs::{MetadataExt as _, OpenOptionsExt as _},
            net::{SocketAddr as SocketName, UnixDatagram},
        },
    },
    sync::{LazyLock, Mutex, PoisonError},
};

use lasthop_system::{files, listener};
use lasthop_trial::address::Address;

use crate::home::Home;

const SPAN: u16 = 16;
/// Spans held at a time: the servers of earlier spans listen, or have ended.
const HELD: usize = 32;
/// Spans to try before taking a span whose name is taken.
const LOOKS: u32 = 1_000;
/// Name of the lock file in the data folder. It stays empty.
const LOCKS: &str = "ports";

/// Ports that this process has handed out.
#[derive(Default)]
struct PortAllocator {
    ports: HashSet<u16>,
    /// Ports left in the last span.
    left: Vec<u16>,
    held: VecDeque<Span>,
}

static ALLOCATOR: Mutex<Option<PortAllocator>> = Mutex::new(None);

/// The lock file, open as long as this process lives: closing any descriptor of the file releases all the process's
/// locks on it (fcntl(2)). `None` if there is no data folder.
static FILE: LazyLock<Option<File>> = LazyLock::new(|| {
    let home = Home::find().ok()?.writable("").ok()?;
    let mut options = File::options();
    options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW);
    options.open(home.join(LOCKS)).ok()
});

/// A span that this process holds.
struct Span {
    first: u16,
    /// `None` if another process has the name.
    name: Option<UnixDatagram>,
}

/// Why a span cannot be held.
enum Refused {
    /// Another process of this user holds the span; its pid, if known.
    ByOwn(Option<i32>),
    System(io::Error),
}

impl Span {
    fn hold(first: u16) -> Result<Self, Refused> {
        lock(first, libc::F_WRLCK)?;
        let mut span = Self { first, name: None };
        let name = SocketName::from_abstract_name(format!("lasthop-ports-{first}")).map_err(Refused::System)?;
        match UnixDatagram::bind_addr(&name) {
            Ok(socket) => span.name = Some(socket),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(Refused::System(error)),
        }
        Ok(span)
    }

    fn ports(&self, low: u16, high: u16) -> Vec<u16> {
        (self.first.max(low)..=(self.first + (SPAN - 1)).min(high)).collect()
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        let _ = lock(self.first, libc::F_UNLCK);
    }
}

/// Locks or unlocks the range of a span in this network namespace. Locks end with the process.
fn lock(first: u16, kind: libc::c_int) -> Result<(), Refused> {
    let Some(file) = &*FILE else { return Ok(()) };
    // Every network namespace has its own ports. The kernel numbers namespaces with 32 bits.
    let namespace = files::facts_linked("/proc/self/ns/net").map_or(0, |file| file.ino() as u32);
    // SAFETY: all-zero is a valid flock.
    let mut range: libc::flock = unsafe { std::mem::zeroed() };
    range.l_type = kind as libc::c_short;
    range.l_whence = libc::SEEK_SET as libc::c_short;
    range.l_start = libc::off_t::from(namespace) << 16 | libc::off_t::from(first);
    range.l_len = libc::off_t::from(SPAN);
    // SAFETY: the descriptor is open, and the range is valid for the call.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &range) } == 0 {
        return Ok(());
    }
    match io::Error::last_os_error() {
        error if matches!(error.raw_os_error(), Some(libc::EACCES | libc::EAGAIN)) => {
            // SAFETY: as above; the kernel writes the conflicting lock.
            let asked = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLK, &mut range) };
            Err(Refused::ByOwn(
                (asked == 0 && range.l_type != libc::F_UNLCK as libc::c_short).then_some(range.l_pid),
            ))
        }
        // Some network file systems have no locks.
        _ => Ok(()),
    }
}

impl PortAllocator {
    /// The next port to try.
    fn next(&mut self, low: u16, high: u16) -> io::Result<u16> {
        let mut last_choice = None;
        let mut holder = None;
        for _ in 0..LOOKS {
            if let Some(port) = self.left.pop() {
                return Ok(port);
            }
            // Aligned, so that all runs use the same spans.
            let first = random_port(low, high)? / SPAN * SPAN;
            if self.held.iter().chain(&last_choice).any(|span| span.first == first) {
                continue;
            }
            match Span::hold(first) {
                Ok(span) if span.name.is_some() => self.add_span(span, low, high),
                Ok(span) => last_choice = last_choice.or(Some(span)),
                Err(Refused::ByOwn(pid)) => holder = pid.or(holder),
                Err(Refused::System(error)) => return Err(error),
            }
        }
        self.add_span(last_choice.ok_or_else(|| held_by(holder))?, low, high);
        self.left.pop().ok_or_else(|| held_by(holder))
    }

    fn add_span(&mut self, span: Span, low: u16, high: u16) {
        self.left = span.ports(low, high);
        self.held.push_back(span);
        self.held.drain(..self.held.len().saturating_sub(HELD));
    }
}

fn held_by(holder: Option<i32>) -> io::Error {
    let who = holder.map_or_else(String::new, |pid| {
        let name = files::text(format!("/proc/{pid}/comm")).unwrap_or_default();
        format!(", such as process {pid} ({})", name.trim())
    });
    io::Error::other(format!(
        "your other runs of lasthop hold them all{who}; wait until one has ended"
    ))
}

/// A port without a listener, outside the kernel's range for outgoing connections, whose clients might hold it when the
/// server starts. No port is handed out twice.
pub fn free_port(address: IpAddr) -> Result<u16, String> {
    let (low, high) = listening_ports(outgoing_ports());
    let mut allocator = ALLOCATOR.lock().unwrap_or_else(PoisonError::into_inner);
    let allocator = allocator.get_or_insert_default();
    let none = |cause| format!("found no free port on {address} between {low} and {high}: {cause}");
    let mut last = None;
    for _ in 0..10_000 {
        let port = allocator.next(low, high).map_err(none)?;
        if allocator.ports.contains(&port) {
            continue;
        }
        match TcpListener::bind((address, port)) {
            Ok(_) => {
                allocator.ports.insert(port);
                return Ok(port);
            }
            Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable && address.is_ipv6() => {
                return Err(format!("this machine has no IPv6 loopback address ::1: {error}"));
            }
            Err(error) => last = Some((SocketAddr::new(address, port), error)),
        }
    }
    Err(none(last.map_or_else(
        || io::Error::other("all are given out"),
        |(address, error)| taken(address, error),
    )))
}

/// Names the listener, if it is visible.
fn taken(address: SocketAddr, error: io::Error) -> io::Error {
    match listener::owners(&Address::Tcp(address)).pop() {
        Some(owner) => io::Error::other(format!("they are taken, such as {address} by {owner}")),
        None => error,
    }
}

fn random_port(low: u16, high: u16) -> io::Result<u16> {
    let mut bytes = [0_u8; 4];
    rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())?;
    let span = u32::from(high - low) + 1;
    Ok(low + (u32::from_le_bytes(bytes) % span) as u16)
}

/// First and last port for outgoing connections.
fn outgoing_ports() -> (u16, u16) {
    let text = files::text("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut words = text.split_ascii_whitespace().filter_map(|word| word.parse().ok());
    // The kernel's defaults.
    (words.next().unwrap_or(32768), words.next().unwrap_or(60999))
}

/// The larger range of ports above 10,000 that outgoing connections do not use, or all of them if there is none.
fn listening_ports((first, last): (u16, u16)) -> (u16, u16) {
    const LOWEST: u16 = 10_000;
    let below = first.saturating_sub(LOWEST);
    let above = u16::MAX - last.max(LOWEST);
    match below.max(above) {
        0..500 => (LOWEST, u16::MAX),
        _ if below >= above => (LOWEST, first - 1),
        _ => (last.max(LOWEST) + 1, u16::MAX),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        net::Ipv4Addr,
        thread,
        time::{Duration, Instant},
    };

    use super::*;

    /// The other run must be another process: see `tests/all/other_users.rs`.
    #[test]
    fn a_span_whose_name_somebody_holds_is_the_last_choice() {
        let name = SocketName::from_abstract_name("lasthop-ports-9968").unwrap();
        let _somebody = UnixDatagram::bind_addr(&name).unwrap();
        let mut allocator = PortAllocator::default();
        let first = allocator.next(9_968, 9_999).unwrap();
        assert!((9_984..=9_999).contains(&first), "{first}");
        allocator.left.clear();
        let second = allocator.next(9_968, 9_999).unwrap();
        assert!((9_968..=9_983).contains(&second), "{second}");
    }

    #[test]
    fn ports_are_free_different_and_never_those_of_outgoing_connections() {
        let (first, last) = outgoing_ports();
        let mut seen = HashSet::new();
        for _ in 0..200 {
            let port = free_port(Ipv4Addr::LOCALHOST.into()).unwrap();
            assert!(!(first..=last).contains(&port), "{port}");
            assert!(seen.insert(port));
            // A child of another test keeps this process's descriptors until it executes its program.
            let begun = Instant::now();
            while TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_err() {
                assert!(begun.elapsed() < Duration::from_secs(10), "{port}");
                thread::sleep(Duration::from_millis(1));
            }
        }
    }

    #[test]
    fn the_larger_free_part_of_the_ports_is_taken() {
        assert_eq!(listening_ports((32768, 60999)), (10_000, 32767));
        assert_eq!(listening_ports((10_240, 40_000)), (40_001, 65535));
        assert_eq!(listening_ports((1024, 65535)), (10_000, 65535));
        assert_eq!(listening_ports((1024, 5000)), (10_001, 65535));
    }
}
