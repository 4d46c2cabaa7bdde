//! Finds the process that listens at an address, in the kernel's socket tables.

use std::{
    collections::HashSet,
    fmt::Display,
    fs, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::Path,
    time::Duration,
};

use lasthop_trial::address::{Address, Transport};

use crate::{
    connect::connect,
    files::{self, lines},
    namespace,
    process::{self, Stat},
    sock_diag::{ESTABLISHED, LISTEN, SockDiag, TIME_WAIT},
    udp,
};

/// A process that holds a listening socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    pub pid: i32,
    /// The command, at most 15 bytes.
    pub command: String,
}

impl Display for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "process {} (`{}`)", self.pid, self.command)
    }
}

/// All processes that hold the listening socket of an address. Only root sees other users' processes.
pub fn owners(address: &Address) -> Vec<Owner> {
    let inodes = inodes(address);
    let all = if inodes.is_empty() { Vec::new() } else { process::all() };
    all.into_iter()
        .filter(|pid| holds_any(*pid, &inodes))
        .map(owner)
        .collect()
}

/// The server at an address: the process that holds the socket (or listens on the Unix socket), or that process's
/// oldest ancestor that runs the same program. `None` if no process is found: only root sees the descriptors of other
/// users.
#[must_use]
pub fn server(address: &Address) -> Option<Owner> {
    // Pid 1 holds sockets that systemd activates; the server is the other holder.
    let holding = owners(address).into_iter().find(|owner| owner.pid > 1);
    let found = holding.or_else(|| who_listens(address).filter(|pid| *pid > 1).map(owner))?;
    // Workers inherit the socket: nginx's are children of its master, which is the server.
    let mut eldest = found;
    while let Some(parent) = Stat::of(eldest.pid)
        .map(|stat| owner(stat.parent))
        .filter(|parent| parent.pid > 1)
    {
        if parent.command != eldest.command {
            break;
        }
        eldest = parent;
    }
    Some(eldest)
}

/// The process that called `listen` on a Unix socket, as the kernel reports to a client; `None` for datagrams, and if
/// nobody answers.
pub fn who_listens(address: &Address) -> Option<i32> {
    address.unix_name()?;
    let socket = connect(address, Duration::from_secs(1)).ok()?;
    let peer = rustix::net::sockopt::socket_peercred(&socket).ok()?;
    Some(peer.pid.as_raw_pid())
}

/// Whether these processes hold every socket at an address: two programs of one account may share a port. Faster than
/// [`owners`], which looks at every descriptor of the machine.
pub fn is_held_by(address: &Address, pids: impl IntoIterator<Item = i32>) -> bool {
    let inodes = inodes(address);
    let held: HashSet<String> = pids.into_iter().flat_map(sockets).collect();
    !inodes.is_empty() && inodes.iter().all(|inode| held.contains(inode))
}

/// The sockets at an address, in this network namespace.
pub fn inodes(address: &Address) -> Vec<String> {
    if let Some(path) = address.path()
        && let Ok(found) = bound_to(path)
        && !found.is_empty()
    {
        return found;
    }
    match address {
        Address::Tcp(address) => tcp_inodes(*address),
        Address::Udp(address) => udp::bound(*address).map(|socket| socket.inode.to_string()).collect(),
        // A datagram socket (type 0002 in the fifth column) never listens. Only the bound socket has the path.
        Address::Packets(Transport::Unixgram, path) => unix_inodes(&path.display().to_string(), (4, "0002")),
        other => other
            .unix_name()
            .map_or_else(Vec::new, |name| unix_inodes(&name, (3, "00010000"))),
    }
}

/// The socket that a file leads to, by any of its names. A path in the kernel's table only says where a socket was
/// bound; another socket may be there by now.
fn bound_to(path: &Path) -> io::Result<Vec<String>> {
    let found = rustix::fs::stat(path)?;
    let inodes = SockDiag::open()?.unix_at(found.st_ino, found.st_dev)?;
    Ok(inodes.into_iter().map(|inode| inode.to_string()).collect())
}

/// A process by its pid.
pub fn owner(pid: i32) -> Owner {
    Owner {
        pid,
        command: command_of(pid),
    }
}

/// A process's command, at most 15 bytes.
pub fn command_of(pid: i32) -> String {
    let command = files::text(format!("/proc/{pid}/comm")).unwrap_or_default();
    command.trim_end().to_owned()
}

/// A row of the kernel's table of TCP sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpRow {
    pub local: SocketAddr,
    pub remote: SocketAddr,
    /// A state of [`sock_diag`](crate::sock_diag).
    pub state: u8,
    /// The time until the socket's timer expires, in hundredths of a second.
    pub timer: u64,
    /// 0 if no process has the socket, yet or any more.
    pub inode: u64,
}

impl TcpRow {
    /// Parses a row; `None` for the heading. The columns: number, local and remote address, state, queues, timer,
    /// retransmits, user, probes, inode.
    pub fn parse(line: &str) -> Option<Self> {
        let columns: Vec<&str> = line.split_ascii_whitespace().collect();
        Some(Self {
            local: from_table(columns.get(1)?)?,
            remote: from_table(columns.get(2)?)?,
            state: u8::from_str_radix(columns.get(3)?, 16).ok()?,
            timer: u64::from_str_radix(columns.get(5)?.split_once(':')?.1, 16).ok()?,
            inode: columns.get(9)?.parse().ok()?,
        })
    }
}

/// The TCP sockets in the network namespace of a process: its pid, or a name in `/proc`.
pub fn tcp_tables(inside: impl Display) -> impl Iterator<Item = TcpRow> {
    ["tcp", "tcp6"]
        .into_iter()
        .flat_map(move |name| lines(format!("/proc/{inside}/net/{name}")))
        .filter_map(|line| TcpRow::parse(&line))
}

/// The inodes of rows in `/proc/net/unix` with this path, and with this word in the column of this index (from 0). The
/// flags are in the fourth column (`00010000` listens), the inode in the seventh, then the path.
fn unix_inodes(path: &str, (at, word): (usize, &str)) -> Vec<String> {
    lines("/proc/self/net/unix")
        .filter_map(|line| {
            let (columns, name) = unix_row(&line)?;
            (columns[at] == word && name == path).then(|| columns[6].to_owned())
        })
        .collect()
}

/// The seven columns of a row of `/proc/net/unix`, and the name after them, which may contain blanks.
fn unix_row(line: &str) -> Option<([&str; 7], &str)> {
    let mut rest = line;
    let mut columns = [""; 7];
    for column in &mut columns {
        (*column, rest) = rest.trim_start().split_once(' ')?;
    }
    Some((columns, rest))
}

/// Addresses at which a server and its children listen, in the server's network namespace. Empty if lasthop may not
/// read the server's descriptors.
pub fn listening(server: i32) -> Vec<Address> {
    let family = std::iter::once(server).chain(process::descendants(server));
    let held: HashSet<String> = family.flat_map(sockets).collect();
    let tcp = tcp_tables(server)
        .filter(|socket| socket.state == LISTEN && held.contains(&socket.inode.to_string()))
        .map(|socket| Address::Tcp(socket.local));
    let unix = lines(format!("/proc/{server}/net/unix")).filter_map(|line| {
        let (columns, name) = unix_row(&line)?;
        let listens = columns[3] == "00010000" && held.contains(columns[6]);
        listens.then(|| match name.strip_prefix('@') {
            Some(name) => Address::Abstract(name.to_owned()),
            None => Address::Unix(name.into()),
        })
    });
    tcp.chain(unix).collect()
}

/// The inodes of a process's sockets.
pub fn sockets(pid: i32) -> impl Iterator<Item = String> {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    descriptors.filter_map(|entry| {
        let target = fs::read_link(entry.path()).ok()?;
        Some(target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
    })
}

/// Whether a process has one of these sockets open.
fn holds_any(pid: i32, inodes: &[String]) -> bool {
    !inodes.is_empty() && sockets(pid).any(|socket| inodes.contains(&socket))
}

/// Client ports of a TCP listener's connections in the network namespace of a process, and whether each connection is
/// open. The others are in `TIME_WAIT`, at the end that closed first.
pub fn peers(inside: i32, listener: SocketAddr) -> Vec<(String, bool)> {
    if is_near(inside)
        && let Ok(peers) = asked_peers(listener)
    {
        return peers;
    }
    let connections = tcp_tables(inside).filter(|socket| [ESTABLISHED, TIME_WAIT].contains(&socket.state));
    connections
        .filter_map(|socket| peer(listener, socket.local, socket.remote, socket.state))
        .collect()
}

/// The client's port, and whether the connection is open, if a socket is an end of a listener's connection.
fn peer(listener: SocketAddr, local: SocketAddr, remote: SocketAddr, state: u8) -> Option<(String, bool)> {
    let client = match state {
        _ if local.port() == listener.port() => remote,
        // The client closed first: `TIME_WAIT` is at its end, whose remote address is the listener.
        TIME_WAIT if remote == listener => local,
        _ => return None,
    };
    Some((client.port().to_string(), state == ESTABLISHED))
}

/// Whether a process is in this process's network namespace.
fn is_near(pid: i32) -> bool {
    let own = namespace::id("self");
    own.is_some() && own == namespace::id(pid)
}

/// Like [`peers`], by netlink, in this network namespace. With one connection per request, the table has tens of
/// thousands of sockets in `TIME_WAIT`, and reading it takes longer than warming a case up.
fn asked_peers(listener: SocketAddr) -> io::Result<Vec<(String, bool)>> {
    let mut peers = Vec::new();
    SockDiag::open()?.tcp_at(listener.port(), |socket| {
        peers.extend(peer(listener, socket.local, socket.remote, socket.state));
    })?;
    Ok(peers)
}

/// The inodes of a Unix listener's accepted sockets, which have its path, in the network namespace of a process.
pub fn accepted_unix(inside: i32, path: String) -> impl Iterator<Item = String> + use<> {
    let lines = lines(format!("/proc/{inside}/net/unix"));
    lines.filter_map(move |line| {
        let (columns, name) = unix_row(&line)?;
        // The state is 02 (`SS_CONNECTING`) until a connection is accepted, then 03 (`SS_CONNECTED`).
        (columns[5] == "03" && name == path).then(|| columns[6].to_owned())
    })
}

/// Sockets that listen at this address, or at its port on every address. An IPv6 socket serves both families by
/// default, so it counts if IPv4 has none.
fn tcp_inodes(address: SocketAddr) -> Vec<String> {
    let mut all = Vec::new();
    // Reading the kernel's tables would take long with many sockets in `TIME_WAIT`.
    let asked = SockDiag::open().and_then(|mut diag| {
        diag.tcp_listening(address.port(), |socket| {
            all.push((socket.local.ip(), socket.inode.to_string()));
        })
    });
    if asked.is_err() {
        all = tcp_tables("self")
            .filter(|socket| socket.state == LISTEN && socket.local.port() == address.port())
            .map(|socket| (socket.local.ip(), socket.inode.to_string()))
            .collect();
    }
    let serving = |ips: &[IpAddr]| -> Vec<String> {
        let serving = all.iter().filter(|(ip, _)| ips.contains(ip));
        serving.map(|(_, inode)| inode.clone()).collect()
    };
    let any = IpAddr::from(Ipv6Addr::UNSPECIFIED);
    match address.ip() {
        IpAddr::V6(_) => serving(&[address.ip(), any]),
        IpAddr::V4(_) => match serving(&[address.ip(), Ipv4Addr::UNSPECIFIED.into()]) {
            none if none.is_empty() => serving(&[any]),
            inodes => inodes,
        },
    }
}

/// An address in the format of the kernel's tables, which print each 32-bit word in the machine's byte order.
fn from_table(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let word = |at: usize| Some(u32::from_str_radix(ip.get(8 * at..8 * at + 8)?, 16).ok()?.to_ne_bytes());
    let ip = match ip.len() {
        8 => IpAddr::from(word(0)?),
        32 => IpAddr::from(<[u8; 16]>::try_from([word(0)?, word(1)?, word(2)?, word(3)?].concat()).ok()?),
        _ => return None,
    };
    Some(SocketAddr::new(ip.to_canonical(), u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use std::{
        net::TcpListener,
        os::{
            linux::net::SocketAddrExt,
            unix::net::{SocketAddr as UnixAddress, UnixDatagram, UnixListener},
        },
        path::PathBuf,
    };

    use socket2::{Domain, Socket, Type};

    use super::*;

    fn found(address: &Address) -> bool {
        owners(address)
            .iter()
            .any(|owner| owner.pid == std::process::id() as i32 && !owner.command.is_empty())
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn addresses_of_the_tables_are_read() {
        for (written, address) in [
            ("0300590A:1F90", "10.89.0.3:8080"),
            ("000000FD000000000000000001000000:0050", "[fd00::1]:80"),
            ("0000000000000000FFFF00000300590A:0050", "10.89.0.3:80"),
        ] {
            assert_eq!(from_table(written), Some(address.parse().unwrap()));
        }
        for wrong in ["", "0100007F", "0100007:1F90", "0100007F:", "local_address"] {
            assert_eq!(from_table(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_process_is_asked_where_it_listens() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let _unix = UnixListener::bind(&path).unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let found = listening(std::process::id() as i32);
        assert!(found.contains(&Address::Unix(path)), "{found:?}");
        assert!(found.contains(&Address::Tcp(tcp.local_addr().unwrap())), "{found:?}");
        let client = std::net::TcpStream::connect(tcp.local_addr().unwrap()).unwrap();
        assert!(!listening(std::process::id() as i32).contains(&Address::Tcp(client.local_addr().unwrap())));
    }

    #[test]
    fn the_eldest_of_the_same_program_is_the_server() {
        let directory = tempfile::tempdir().unwrap();
        let address = Address::Unix(directory.path().join("s"));
        assert_eq!(server(&address), None);
        let _listener = UnixListener::bind(directory.path().join("s")).unwrap();
        let found = server(&address).unwrap();
        let own = std::process::id() as i32;
        assert!(
            found.pid == own || process::descendants(found.pid).contains(&own),
            "{found}"
        );
        assert_eq!(who_listens(&address), Some(own));
    }

    #[test]
    fn who_shares_a_port_does_not_hold_the_address() {
        let bound = |port| {
            let socket = Socket::new(Domain::IPV4, Type::STREAM.cloexec(), None).unwrap();
            socket.set_reuse_port(true).unwrap();
            socket.bind(&SocketAddr::from(([127, 0, 0, 1], port)).into()).unwrap();
            socket.listen(1).unwrap();
            socket
        };
        let own = std::process::id() as i32;
        let first = bound(0);
        let at = first.local_addr().unwrap().as_socket().unwrap();
        let address = Address::Tcp(at);
        assert!(is_held_by(&address, [own]));
        assert!(!is_held_by(&address, []));
        let second = bound(at.port());
        // Only the second goes to the child.
        let mut child = std::process::Command::new("sleep")
            .arg("1000")
            .stdin(std::os::fd::OwnedFd::from(second.try_clone().unwrap()))
            .spawn()
            .unwrap();
        let its = child.id() as i32;
        let seen = (is_held_by(&address, [own]), is_held_by(&address, [its]));
        drop(second);
        let alone = is_held_by(&address, [own]);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!((seen, alone), ((true, false), false));
    }

    #[test]
    fn a_socket_is_found_by_another_name_and_not_by_its_old_one() {
        let directory = tempfile::tempdir().unwrap();
        let [first, second] = ["first", "second"].map(|name| directory.path().join(name));
        let datagrams = |path: PathBuf| Address::Packets(Transport::Unixgram, path);
        for make in [Address::Unix, datagrams] {
            let is_stream = make(first.clone()).kind() == Type::STREAM;
            let bind = || -> std::os::fd::OwnedFd {
                match is_stream {
                    true => UnixListener::bind(&first).unwrap().into(),
                    false => UnixDatagram::bind(&first).unwrap().into(),
                }
            };
            let listener = bind();
            fs::rename(&first, &second).unwrap();
            assert!(found(&make(second.clone())), "{:?}", make(second));
            // A later socket at the path is a different one, although the kernel's table shows `first` for both.
            let other = bind();
            let inode = |address| inodes(&address);
            assert_ne!(inode(make(first.clone())), inode(make(second.clone())));
            drop((listener, other));
            fs::remove_file(&first).unwrap();
            fs::remove_file(&second).unwrap();
        }
    }

    #[test]
    fn this_process_is_found_by_each_kind_of_address() {
        for ip in ["127.0.0.1:0", "[::1]:0", "0.0.0.0:0", "[::]:0"] {
            let listener = TcpListener::bind(ip).unwrap();
            let mut address = listener.local_addr().unwrap();
            if address.ip().is_unspecified() {
                address.set_ip([127, 0, 0, 1].into());
            }
            assert!(found(&Address::Tcp(address)), "{ip}");
            drop(listener);
            assert!(!found(&Address::Tcp(address)), "{ip}");
        }
        let directory = tempfile::tempdir().unwrap();
        // A blank, which also separates the kernel's columns.
        let path = directory.path().join("a s");
        let _listener = UnixListener::bind(&path).unwrap();
        assert!(listening(std::process::id() as i32).contains(&Address::Unix(path.clone())));
        assert!(found(&Address::Unix(path)));
        let name = format!("lasthop-test-{}", std::process::id());
        let address = UnixAddress::from_abstract_name(&name).unwrap();
        let _listener = UnixListener::bind_addr(&address).unwrap();
        assert!(found(&Address::Abstract(name)));
    }
}
