//! The kernel's data about sockets, by netlink (`sock_diag(7)`): open sockets with their counters, and destroyed
//! sockets. Their traffic is not read.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStringExt as _,
    },
    path::PathBuf,
};

use lasthop_trial::address::Address;
use rustix::{
    io::Errno,
    net::{AddressFamily, RecvFlags, SocketFlags, bind, netlink, recv, sockopt},
};

use crate::netlink::{Attributes, BUFFER, Dumps, Messages, socket, u32_at, u64_at};

/// Buffer for notices of destroyed sockets, in bytes: one second of 10,000 connections.
const BACKLOG: usize = 32 << 20;

// include/uapi/linux/sock_diag.h
const BY_FAMILY: u16 = 20;
/// A bit for each group of notices about destroyed sockets: TCP and TCP over IPv6 (groups 1 and 3).
const TCP_DESTROYED: u32 = 0b101;
// include/uapi/linux/inet_diag.h
const INFO: u16 = 2;
const INET_MESSAGE: usize = 72;
// include/uapi/linux/unix_diag.h
const UNIX_NAME: u16 = 0;
const UNIX_FILE: u16 = 1;
const UNIX_PEER: u16 = 2;
const UNIX_MESSAGE: usize = 16;
const SHOW_NAME_AND_PEER: u32 = 0b101;
const SHOW_FILE: u32 = 0b10;
/// The type of a datagram socket.
const DATAGRAMS: u8 = 2;

/// The state of a connected socket (include/net/tcp_states.h). Unix sockets use this state and [`LISTEN`].
pub const ESTABLISHED: u8 = 1;
pub const TIME_WAIT: u8 = 6;
pub const LISTEN: u8 = 10;
/// Neither connected nor listening.
const CLOSE: u8 = 7;
/// Connections until they are finally closed (4, 5, 8, 9 and 11 lead there), and listening sockets.
const OPEN: u32 = 1 << ESTABLISHED | 1 << 4 | 1 << 5 | 1 << 8 | 1 << 9 | 1 << LISTEN | 1 << 11;
/// UDP sockets that are connected or bound.
const BOUND: u32 = 1 << ESTABLISHED | 1 << CLOSE;

/// A TCP or UDP socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inet {
    pub state: u8,
    pub local: SocketAddr,
    /// Port 0 if the socket is not connected.
    pub remote: SocketAddr,
    /// Unique among all sockets of this namespace, at any time.
    pub cookie: u64,
    /// 0 if no process has the socket, yet or any more.
    pub inode: u64,
    /// `None` for UDP.
    pub counters: Option<Counters>,
}

/// Counters of one end of a TCP connection since its start (`tcp_info`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub bytes_sent: u64,
    pub bytes_received: u64,
    /// Segments with data; a segment of the loopback interface has up to 64 KiB.
    pub segments_sent: u64,
    pub segments_received: u64,
}

/// A Unix socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unix {
    pub state: u8,
    pub inode: u64,
    /// Inode of the other end, which may be in another namespace.
    pub peer: Option<u64>,
    /// The address to which the socket is bound; accepted sockets have the listener's.
    pub name: Option<Address>,
}

/// Lists the open sockets of one network namespace.
#[derive(Debug)]
pub struct SockDiag(Dumps);

/// Reports destroyed TCP sockets of one network namespace.
#[derive(Debug)]
pub struct Destroyed {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

impl SockDiag {
    /// Opens a socket to the network namespace of the calling thread, which the socket keeps.
    pub fn open() -> io::Result<Self> {
        Dumps::open(netlink::SOCK_DIAG).map(Self)
    }

    /// Passes TCP sockets that are connected or listen to `each`.
    pub fn tcp(&mut self, mut each: impl FnMut(Inet)) -> io::Result<()> {
        self.inet(6, OPEN, [0, 0], &mut each)
    }

    /// TCP connections with this port at either end, including those in `TIME_WAIT`. The kernel searches all
    /// connections, but returns only these.
    pub fn tcp_at(&mut self, port: u16, mut each: impl FnMut(Inet)) -> io::Result<()> {
        for ports in [[port, 0], [0, port]] {
            self.inet(6, 1 << ESTABLISHED | 1 << TIME_WAIT, ports, &mut each)?;
        }
        Ok(())
    }

    /// TCP sockets that listen at this port.
    pub fn tcp_listening(&mut self, port: u16, mut each: impl FnMut(Inet)) -> io::Result<()> {
        self.inet(6, 1 << LISTEN, [port, 0], &mut each)
    }

    /// UDP sockets that are connected or bound.
    pub fn udp(&mut self, mut each: impl FnMut(Inet)) -> io::Result<()> {
        self.inet(17, BOUND, [0, 0], &mut each)
    }

    /// Sockets with these own and remote ports; 0 is any.
    fn inet(&mut self, protocol: u8, states: u32, ports: [u16; 2], each: &mut impl FnMut(Inet)) -> io::Result<()> {
        for family in [AddressFamily::INET, AddressFamily::INET6] {
            // struct inet_diag_req_v2: the ports are followed by addresses, which are ignored.
            let mut request = vec![family.as_raw() as u8, protocol, 1 << (INFO - 1), 0];
            request.extend(states.to_ne_bytes());
            request.extend(ports.map(u16::to_be_bytes).concat());
            request.resize(56, 0);
            self.0
                .ask(BY_FAMILY, &request, |message| each_some(Inet::parse(message), each))?;
        }
        Ok(())
    }

    /// Unix stream sockets that are connected or listen.
    pub fn unix(&mut self, mut each: impl FnMut(Unix)) -> io::Result<()> {
        self.ask_unix(1 << ESTABLISHED | 1 << LISTEN, SHOW_NAME_AND_PEER, |message| {
            each_some(Unix::parse(message), &mut each)
        })
    }

    /// Inodes of the Unix sockets that listen, or receive datagrams, at a file, given by its inode and its device.
    pub fn unix_at(&mut self, file: u64, device: u64) -> io::Result<Vec<u64>> {
        // The kernel's form of a device (include/linux/kdev_t.h), and the lower half of a long inode.
        let device = rustix::fs::major(device) << 20 | rustix::fs::minor(device);
        let wanted = [(file as u32).to_ne_bytes(), device.to_ne_bytes()].concat();
        let mut found = Vec::new();
        self.ask_unix(1 << CLOSE | 1 << LISTEN, SHOW_FILE, |message| {
            // Accepted sockets have the listener's file, but are connected.
            let takes = message.get(2) == Some(&LISTEN) || message.get(1) == Some(&DATAGRAMS);
            let at = message
                .get(UNIX_MESSAGE..)
                .and_then(|rest| Attributes(rest).value(UNIX_FILE));
            if takes && at == Some(&wanted[..]) {
                found.extend(u32_at(message, 4).map(u64::from));
            }
        })?;
        Ok(found)
    }

    fn ask_unix(&mut self, states: u32, show: u32, each: impl FnMut(&[u8])) -> io::Result<()> {
        // struct unix_diag_req
        let mut request = vec![AddressFamily::UNIX.as_raw() as u8, 0, 0, 0];
        for word in [states, 0, show] {
            request.extend(word.to_ne_bytes());
        }
        request.resize(24, 0);
        self.0.ask(BY_FAMILY, &request, each)
    }
}

impl AsFd for SockDiag {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.descriptor()
    }
}

fn each_some<T>(found: Option<T>, each: &mut impl FnMut(T)) {
    if let Some(found) = found {
        each(found);
    }
}

impl Destroyed {
    /// Opens a socket to the network namespace of the calling thread, which the socket keeps.
    ///
    /// # Errors
    ///
    /// The process lacks `CAP_NET_ADMIN`.
    pub fn open() -> io::Result<Self> {
        let socket = socket(netlink::SOCK_DIAG, SocketFlags::NONBLOCK)?;
        if sockopt::set_socket_recv_buffer_size_force(&socket, BACKLOG).is_err() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        bind(socket.as_fd(), &netlink::SocketAddrNetlink::new(0, TCP_DESTROYED))?;
        Ok(Self {
            socket,
            buffer: vec![0; BUFFER],
        })
    }

    /// Sockets destroyed since the last call. Returns whether some were missed, because there were too many.
    pub fn drain(&mut self, mut each: impl FnMut(Inet)) -> bool {
        let mut missed = false;
        loop {
            match recv(&self.socket, &mut self.buffer[..], RecvFlags::empty()) {
                Ok((length, _)) => {
                    for (_, body) in Messages(&self.buffer[..length]).filter(|(kind, _)| *kind == BY_FAMILY) {
                        each_some(Inet::parse(body), &mut each);
                    }
                }
                Err(Errno::NOBUFS) => missed = true,
                Err(Errno::INTR) => {}
                Err(_) => return missed,
            }
        }
    }
}

impl Inet {
    /// Parses a struct inet_diag_msg and its attributes.
    fn parse(message: &[u8]) -> Option<Self> {
        let family = AddressFamily::from_raw((*message.first()?).into());
        let address = |port: usize, at: usize| {
            let port = u16::from_be_bytes([*message.get(port)?, *message.get(port + 1)?]);
            let bytes = message.get(at..at + 16)?;
            let ip = if family == AddressFamily::INET {
                IpAddr::from(<[u8; 4]>::try_from(&bytes[..4]).ok()?)
            } else {
                IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?).to_canonical()
            };
            Some(SocketAddr::new(ip, port))
        };
        Some(Self {
            state: *message.get(1)?,
            local: address(4, 8)?,
            remote: address(6, 24)?,
            cookie: u64_at(message, 44)?,
            inode: u32_at(message, 68)?.into(),
            counters: Attributes(message.get(INET_MESSAGE..)?)
                .value(INFO)
                .and_then(Counters::parse),
        })
    }
}

impl Counters {
    /// Parses a struct tcp_info of Linux 4.19 or newer (`tcpi_bytes_sent` is the last required field).
    fn parse(info: &[u8]) -> Option<Self> {
        Some(Self {
            bytes_sent: u64_at(info, 200)?.saturating_sub(u64_at(info, 208)?),
            bytes_received: u64_at(info, 128)?,
            segments_sent: u32_at(info, 156)?.into(),
            segments_received: u32_at(info, 152)?.into(),
        })
    }
}

impl Unix {
    /// Parses a struct unix_diag_msg and its attributes.
    fn parse(message: &[u8]) -> Option<Self> {
        let mut found = Self {
            state: *message.get(2)?,
            inode: u32_at(message, 4)?.into(),
            peer: None,
            name: None,
        };
        for (kind, value) in Attributes(message.get(UNIX_MESSAGE..)?) {
            match kind {
                UNIX_NAME => found.name = unix_address(value),
                UNIX_PEER => found.peer = u32_at(value, 0).filter(|peer| *peer > 0).map(Into::into),
                _ => {}
            }
        }
        // Datagram sockets have no accepted connections.
        (message.get(1) != Some(&DATAGRAMS)).then_some(found)
    }
}

/// The address in the bytes of a name: a path ends at a zero byte, and an abstract name begins with one.
fn unix_address(bytes: &[u8]) -> Option<Address> {
    match bytes {
        [] => None,
        [0, name @ ..] => Some(Address::Abstract(String::from_utf8_lossy(name).into_owned())),
        path => {
            let path = path.split(|byte| *byte == 0).next().unwrap_or_default();
            Some(Address::Unix(PathBuf::from(std::ffi::OsString::from_vec(
                path.to_vec(),
            ))))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read as _, Write as _},
        net::{TcpListener, TcpStream, UdpSocket},
        os::{
            fd::AsRawFd as _,
            linux::net::SocketAddrExt as _,
            unix::net::{SocketAddr as UnixAddress, UnixListener, UnixStream},
        },
        time::{Duration, Instant},
    };

    use super::*;

    fn inode(socket: &impl AsFd) -> u64 {
        let link = std::fs::read_link(format!("/proc/self/fd/{}", socket.as_fd().as_raw_fd())).unwrap();
        let text = link.to_str().unwrap();
        text.strip_prefix("socket:[")
            .unwrap()
            .trim_end_matches(']')
            .parse()
            .unwrap()
    }

    fn tcp() -> Vec<Inet> {
        let mut all = Vec::new();
        SockDiag::open().unwrap().tcp(|one| all.push(one)).unwrap();
        all
    }

    /// A request and a reply over a connection.
    fn talk(client: &mut TcpStream, server: &mut TcpStream) {
        client.write_all(b"ping").unwrap();
        server.read_exact(&mut [0; 4]).unwrap();
        server.write_all(b"a longer pong").unwrap();
        client.read_exact(&mut [0; 13]).unwrap();
    }

    #[test]
    fn both_ends_of_a_connection_are_found_and_counted() {
        for ip in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(ip).unwrap();
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (mut server, _) = listener.accept().unwrap();
            for _ in 0..7 {
                talk(&mut client, &mut server);
            }
            let all = tcp();
            let of = |inode| all.iter().find(|one| one.inode == inode).unwrap();
            let near = of(inode(&client));
            let far = of(inode(&server));
            assert_eq!((near.local, near.remote), (far.remote, far.local));
            assert_eq!(near.local, client.local_addr().unwrap());
            assert_eq!((near.state, of(inode(&listener)).state), (ESTABLISHED, LISTEN));
            let counted = Counters {
                bytes_sent: 28,
                bytes_received: 91,
                segments_sent: 7,
                segments_received: 7,
            };
            assert_eq!(near.counters, Some(counted));
            assert_eq!(far.counters.unwrap().bytes_sent, 91);
        }
    }

    /// A server for both families has IPv6 addresses, an IPv4 client does not.
    #[test]
    fn both_ends_are_of_one_family() {
        let listener = TcpListener::bind("[::]:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let (server, _) = listener.accept().unwrap();
        let all = tcp();
        let far = all.iter().find(|one| one.inode == inode(&server)).unwrap();
        assert_eq!(far.remote, client.local_addr().unwrap());
    }

    /// The kernel notifies root, and refuses others.
    #[test]
    fn short_connections_are_told_when_they_are_over() {
        let Ok(mut destroyed) = Destroyed::open() else {
            assert!(!rustix::process::geteuid().is_root());
            return;
        };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        for _ in 0..20 {
            let mut client = TcpStream::connect(address).unwrap();
            let (mut server, _) = listener.accept().unwrap();
            talk(&mut client, &mut server);
        }
        let mut clients = Vec::new();
        let deadline = Instant::now() + Duration::from_secs(10);
        while clients.len() < 20 && Instant::now() < deadline {
            let missed = destroyed.drain(|one| clients.extend((one.remote == address).then_some(one)));
            assert!(!missed);
        }
        assert_eq!(clients.len(), 20);
        assert!(clients.iter().all(|one| one.counters.unwrap().segments_sent == 1));
    }

    #[test]
    fn ends_of_unix_sockets_know_each_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a s");
        let name = format!("lasthop-diag-{}", std::process::id());
        let listeners = [
            (UnixListener::bind(&path).unwrap(), Address::Unix(path.clone())),
            (
                UnixListener::bind_addr(&UnixAddress::from_abstract_name(&name).unwrap()).unwrap(),
                Address::Abstract(name),
            ),
        ];
        for (listener, address) in &listeners {
            let client = UnixStream::connect_addr(&listener.local_addr().unwrap()).unwrap();
            let (server, _) = listener.accept().unwrap();
            let mut all = Vec::new();
            SockDiag::open().unwrap().unix(|one| all.push(one)).unwrap();
            let of = |inode| all.iter().find(|one| one.inode == inode).unwrap();
            let near = of(inode(&client));
            let far = of(inode(&server));
            assert_eq!((near.peer, far.peer), (Some(far.inode), Some(near.inode)));
            assert_eq!((&near.name, far.name.as_ref()), (&None, Some(address)));
            assert_eq!(of(inode(listener)).state, LISTEN);
        }
    }

    #[test]
    fn sockets_of_udp_have_no_counters() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.connect(server.local_addr().unwrap()).unwrap();
        let mut all = Vec::new();
        SockDiag::open().unwrap().udp(|one| all.push(one)).unwrap();
        let near = all.iter().find(|one| one.inode == inode(&client)).unwrap();
        assert_eq!((near.remote, near.counters), (server.local_addr().unwrap(), None));
        let far = all.iter().find(|one| one.inode == inode(&server)).unwrap();
        assert_eq!(far.remote.port(), 0);
    }

    #[test]
    fn what_is_cut_off_is_no_socket() {
        let whole: Vec<u8> = (0..=255).cycle().take(400).collect();
        for length in 0..whole.len() {
            let part = &whole[..length];
            for (_, body) in Messages(part) {
                let _ = (Inet::parse(body), Unix::parse(body));
            }
            assert_eq!(Inet::parse(part).is_some(), length >= INET_MESSAGE);
            assert_eq!(Unix::parse(part).is_some(), length >= UNIX_MESSAGE);
            assert_eq!(Counters::parse(part).is_some(), length >= 216);
        }
    }
}
