//! Addresses that servers listen on. Everything that depends on the kind of address is here, so that a new transport
//! needs few other files.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::{Path, PathBuf},
    str::FromStr,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use socket2::{Domain, SockAddr, Type};

/// Maximum length in bytes of a Unix socket's path or abstract name: `sun_path` has 108, one of them for the NUL.
pub const UNIX_NAME_MAX: usize = 107;

/// HAProxy's prefix of an abstract name.
const PADDED: &str = "abns@";

/// An abstract name as [`Address::named`] reads it.
pub fn abstract_name(name: &str) -> String {
    match name.trim_end_matches('\0') {
        short if name.len() == UNIX_NAME_MAX && short.len() < name.len() => format!("{PADDED}{short}"),
        _ => format!("@{name}"),
    }
}

/// Transport: how two processes reach each other. Its name is the level of the factor `transport`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// Unix stream socket with a path in the file system.
    Unix,
    /// Unix stream socket in the abstract namespace (Linux).
    Abstract,
    /// TCP over IPv4 loopback.
    Tcp,
    /// TCP over IPv6 loopback.
    Tcp6,
    /// TLS over TCP (IPv4).
    Tls,
    /// TLS over a Unix stream socket with a path.
    TlsUnix,
    /// Two pipes.
    Pipe,
    /// A pair of connected Unix stream sockets without a name.
    Socketpair,
    /// Two POSIX message queues; only records of earlier versions have them, and no driver supports them.
    #[schemars(skip)]
    Mqueue,
    /// Shared memory; the waiting side sleeps.
    Shm,
    /// Shared memory; the waiting side spins before it sleeps.
    ShmSpin,
    /// Unix datagram socket with a path: whole messages, no connection.
    Unixgram,
    /// Unix socket with a path that keeps the boundaries of messages (`SOCK_SEQPACKET`).
    Seqpacket,
    /// UDP over IPv4 loopback.
    Udp,
    /// UDP over IPv6 loopback.
    Udp6,
}

/// Name of each transport, and its name in a sentence, in the order of [`Transport`].
const NAMES: [(&str, &str); 15] = [
    ("unix", "Unix socket"),
    ("abstract", "abstract Unix socket"),
    ("tcp", "TCP"),
    ("tcp6", "TCP over IPv6"),
    ("tls", "TLS over TCP"),
    ("tls-unix", "TLS over Unix socket"),
    ("pipe", "pair of pipes"),
    ("socketpair", "socketpair"),
    ("mqueue", "message queue"),
    ("shm", "shared memory"),
    ("shm-spin", "spinning shared memory"),
    ("unixgram", "Unix datagram socket"),
    ("seqpacket", "Unix seqpacket socket"),
    ("udp", "UDP"),
    ("udp6", "UDP over IPv6"),
];

impl Transport {
    /// Transports that lasthop drives.
    pub const ALL: [Self; 14] = [
        Self::Unix,
        Self::Abstract,
        Self::Tcp,
        Self::Tcp6,
        Self::Tls,
        Self::TlsUnix,
        Self::Pipe,
        Self::Socketpair,
        Self::Shm,
        Self::ShmSpin,
        Self::Unixgram,
        Self::Seqpacket,
        Self::Udp,
        Self::Udp6,
    ];

    /// Channels: a server hands one to each client that connects to its Unix socket.
    pub const CHANNELS: [Self; 4] = [Self::Pipe, Self::Socketpair, Self::Shm, Self::ShmSpin];

    /// The level's name in experiment files and reports.
    pub fn name(self) -> &'static str {
        NAMES[self as usize].0
    }

    /// The transport's name in a sentence.
    pub fn title(self) -> &'static str {
        NAMES[self as usize].1
    }

    pub fn is_tls(self) -> bool {
        matches!(self, Self::Tls | Self::TlsUnix)
    }

    /// Whether the transport is TCP, with TLS or without.
    pub fn is_tcp(self) -> bool {
        matches!(self, Self::Tcp | Self::Tcp6 | Self::Tls)
    }

    /// Whether a client connects to a Unix socket, if only to receive a channel there.
    pub fn is_unix(self) -> bool {
        self.address().domain() == Domain::UNIX
    }

    /// The transport that a URL or an address names by this word: any but those of a stream socket. `udp` stands for
    /// both families, because the host that follows tells which.
    pub fn of_address(word: &str) -> Option<Self> {
        let named = Self::ALL.into_iter().find(|transport| transport.name() == word)?;
        match named.address() {
            Address::Channel(..) | Address::Packets(..) => Some(named),
            Address::Udp(at) if at.is_ipv4() => Some(named),
            _ => None,
        }
    }

    /// An address of this transport's kind with no path, no name and port 0.
    pub fn address(self) -> Address {
        match self {
            Self::Unix | Self::TlsUnix => Address::Unix(PathBuf::new()),
            Self::Abstract => Address::Abstract(String::new()),
            Self::Tcp | Self::Tls => Address::Tcp((Ipv4Addr::LOCALHOST, 0).into()),
            Self::Tcp6 => Address::Tcp((Ipv6Addr::LOCALHOST, 0).into()),
            Self::Unixgram | Self::Seqpacket => Address::Packets(self, PathBuf::new()),
            Self::Udp => Address::Udp((Ipv4Addr::LOCALHOST, 0).into()),
            Self::Udp6 => Address::Udp((Ipv6Addr::LOCALHOST, 0).into()),
            _ => Address::Channel(self, PathBuf::new()),
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Transport {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|t| t.name() == word).ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            format!("unknown transport `{word}` (known: {known})")
        })
    }
}

/// A socket address that a client connects to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Address {
    /// Path of a Unix socket, at most 107 bytes.
    Unix(PathBuf),
    /// Name in the abstract namespace, without the leading NUL, at most 107 bytes.
    Abstract(String),
    Tcp(SocketAddr),
    /// Path of the Unix socket where the server hands over a channel, at most 107 bytes.
    Channel(Transport, PathBuf),
    /// Path of a Unix socket that carries whole messages, at most 107 bytes.
    Packets(Transport, PathBuf),
    Udp(SocketAddr),
}

impl Address {
    /// An address of the same kind with this path, name or port, whichever applies.
    pub fn at(&self, path: impl Into<PathBuf>, name: impl Into<String>, port: u16) -> Self {
        match self {
            Self::Unix(_) => Self::Unix(path.into()),
            Self::Abstract(_) => Self::Abstract(name.into()),
            Self::Tcp(address) => Self::Tcp((address.ip(), port).into()),
            Self::Channel(channel, _) => Self::Channel(*channel, path.into()),
            Self::Packets(packets, _) => Self::Packets(*packets, path.into()),
            Self::Udp(address) => Self::Udp((address.ip(), port).into()),
        }
    }

    /// The abstract socket written as `@NAME`, or as `abns@NAME` by HAProxy, which pads the name with NUL to the full
    /// length of an address.
    pub fn named(text: &str) -> Option<Self> {
        let name = text.strip_prefix('@').filter(|name| !name.is_empty());
        let padded = text.strip_prefix(PADDED).filter(|name| !name.is_empty());
        name.map(str::to_owned)
            .or_else(|| padded.map(|name| format!("{name:\0<UNIX_NAME_MAX$}")))
            .map(Self::Abstract)
    }

    /// Whether both addresses are of the same kind and on the same host, whatever their path, name or port.
    pub fn is_like(&self, other: &Self) -> bool {
        self.at("", "", 0) == other.at("", "", 0)
    }

    /// The path, the name or the port alone, as configurations write it.
    pub fn bare(&self) -> String {
        match self {
            Self::Unix(path) | Self::Channel(_, path) | Self::Packets(_, path) => path.display().to_string(),
            Self::Abstract(name) => name.clone(),
            Self::Tcp(address) | Self::Udp(address) => address.port().to_string(),
        }
    }

    /// The host of a network address.
    pub fn ip(&self) -> Option<IpAddr> {
        if let Self::Tcp(address) | Self::Udp(address) = self {
            Some(address.ip())
        } else {
            None
        }
    }

    /// Replaces the host of a network address; the port stays.
    pub fn set_ip(&mut self, ip: IpAddr) {
        if let Self::Tcp(address) | Self::Udp(address) = self {
            address.set_ip(ip);
        }
    }

    /// The file of a Unix socket.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Unix(path) | Self::Channel(_, path) | Self::Packets(_, path) => Some(path),
            _ => None,
        }
    }

    pub fn channel(&self) -> Option<Transport> {
        if let Self::Channel(channel, _) = self {
            Some(*channel)
        } else {
            None
        }
    }

    /// `AF_UNIX`, `AF_INET` or `AF_INET6`.
    pub fn domain(&self) -> Domain {
        match self {
            Self::Tcp(at) | Self::Udp(at) if at.is_ipv6() => Domain::IPV6,
            Self::Tcp(_) | Self::Udp(_) => Domain::IPV4,
            _ => Domain::UNIX,
        }
    }

    /// `SOCK_STREAM`, `SOCK_DGRAM` or `SOCK_SEQPACKET`.
    pub fn kind(&self) -> Type {
        match self {
            Self::Packets(Transport::Seqpacket, _) => Type::SEQPACKET,
            Self::Packets(..) | Self::Udp(_) => Type::DGRAM,
            _ => Type::STREAM,
        }
    }

    /// Whether the socket carries whole messages instead of a stream of bytes.
    pub fn keeps_boundaries(&self) -> bool {
        self.kind() != Type::STREAM
    }

    /// The family as in proofs: domain and type of a socket, or the kind of a channel.
    pub fn family(&self) -> &'static str {
        match self {
            // The kernel does not know whether a process spins.
            Self::Channel(Transport::ShmSpin, _) => Transport::Shm.name(),
            Self::Channel(channel, _) => channel.name(),
            _ => family(self.domain(), self.kind()),
        }
    }

    /// The address's name in `/proc/net/unix`, if it has one: the kernel shows the NULs of an abstract name as `@`.
    pub fn unix_name(&self) -> Option<String> {
        match self {
            Self::Abstract(name) => Some(format!("@{}", name.replace('\0', "@"))),
            _ => self.ip().is_none().then(|| self.bare()),
        }
    }

    /// The address as the kernel takes it.
    ///
    /// # Errors
    ///
    /// The name of a Unix socket is empty or longer than [`UNIX_NAME_MAX`].
    pub fn socket_name(&self) -> Result<SockAddr, String> {
        let (what, bytes, made) = match self {
            Self::Tcp(at) | Self::Udp(at) => return Ok(SockAddr::from(*at)),
            Self::Abstract(name) => ("abstract socket name", name.len(), SockAddr::unix(format!("\0{name}"))),
            Self::Unix(path) | Self::Channel(_, path) | Self::Packets(_, path) => {
                ("socket path", path.as_os_str().len(), SockAddr::unix(path))
            }
        };
        let name = self.bare();
        match bytes {
            0 => Err("the name of the Unix socket is empty".to_owned()),
            1..=UNIX_NAME_MAX => {
                made.map_err(|error| format!("the address `{name}` is refused by the socket library: {error}"))
            }
            _ => Err(format!(
                "the {what} `{name}` has {bytes} bytes, more than the {UNIX_NAME_MAX} that the kernel allows"
            )),
        }
    }
}

/// A socket's domain and type, named as in proofs.
pub fn family(domain: Domain, kind: Type) -> &'static str {
    match (domain, kind) {
        (Domain::UNIX, Type::STREAM) => "unix",
        (Domain::UNIX, Type::DGRAM) => "unixgram",
        (Domain::UNIX, Type::SEQPACKET) => "seqpacket",
        (Domain::IPV4, Type::STREAM) => "inet",
        (Domain::IPV6, Type::STREAM) => "inet6",
        (Domain::IPV4, Type::DGRAM) => "udp",
        (Domain::IPV6, Type::DGRAM) => "udp6",
        _ => "unknown",
    }
}

/// Writes the form of nginx and gunicorn: `127.0.0.1:8000`, `[::1]:8000`, `unix:/path`, `unix:@name`; `pipe:/path` for
/// a channel, `unixgram:/path` and `udp:127.0.0.1:8125` for sockets that carry whole messages.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Abstract(name) => write!(f, "unix:{}", abstract_name(name)),
            Self::Tcp(address) => address.fmt(f),
            Self::Channel(transport, path) | Self::Packets(transport, path) => {
                write!(f, "{transport}:{}", path.display())
            }
            Self::Udp(address) => write!(f, "udp:{address}"),
        }
    }
}

/// Reads the form that [`Address`] writes.
impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || format!("`{text}` is not an address: write 127.0.0.1:8080, unix:/path or unix:@name");
        let named = text
            .split_once(':')
            .and_then(|(word, rest)| Some((Transport::of_address(word)?, rest)));
        if let Some((transport, rest)) = named {
            return match transport.address() {
                Self::Udp(_) => rest.parse().map(Self::Udp).map_err(|_| wrong()),
                like => Ok(like.at(rest, "", 0)),
            };
        }
        match text.strip_prefix("unix:") {
            Some(name) => Ok(Self::named(name).unwrap_or_else(|| Self::Unix(name.into()))),
            None => text.parse().map(Self::Tcp).map_err(|_| wrong()),
        }
    }
}

/// TLS towards the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// PEM file with the certificate authorities to trust; `None` trusts the system's own.
    pub authority: Option<PathBuf>,
    /// Name that the server's certificate must carry.
    pub server_name: String,
    /// Offer session resumption (tickets) on later connections.
    #[serde(default)]
    pub resumption: bool,
    /// Accept any certificate.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub insecure: bool,
}

/// The address to connect to, and its TLS.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    pub address: Address,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
}

impl Endpoint {
    /// The address, without TLS.
    pub fn plain(address: Address) -> Self {
        Self { address, tls: None }
    }

    /// The transport of this endpoint. TLS over IPv6 has the name of TLS over IPv4, and TLS over an abstract name that
    /// of TLS over a path.
    pub fn transport(&self) -> Transport {
        match (&self.address, self.tls.is_some()) {
            (Address::Tcp(_), true) => Transport::Tls,
            (Address::Unix(_) | Address::Abstract(_), true) => Transport::TlsUnix,
            (Address::Tcp(address), false) if address.is_ipv6() => Transport::Tcp6,
            (Address::Tcp(_), false) => Transport::Tcp,
            (Address::Abstract(_), false) => Transport::Abstract,
            (Address::Unix(_), false) => Transport::Unix,
            (Address::Channel(transport, _) | Address::Packets(transport, _), _) => *transport,
            (Address::Udp(address), _) if address.is_ipv6() => Transport::Udp6,
            (Address::Udp(_), _) => Transport::Udp,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_107_bytes_is_the_longest() {
        assert!(Address::Unix("x".repeat(107).into()).socket_name().is_ok());
        let error = Address::Unix("x".repeat(108).into()).socket_name().unwrap_err();
        assert!(error.to_string().contains("108 bytes"), "{error}");
    }

    #[test]
    fn an_abstract_name_is_not_a_path() {
        let address = Address::Abstract("lasthop-test".into()).socket_name().unwrap();
        assert_eq!(address.as_abstract_namespace(), Some(b"lasthop-test".as_slice()));
    }

    #[test]
    fn a_name_of_haproxy_is_padded_to_the_whole_address() {
        let address = Address::named("abns@app").unwrap();
        let padded = [b"app".as_slice(), &[0; 104]].concat();
        assert_eq!(
            address.socket_name().unwrap().as_abstract_namespace(),
            Some(padded.as_slice())
        );
        assert_eq!(address.unix_name(), Some(format!("@app{}", "@".repeat(104))));
        assert_eq!(Address::named("abns@"), None);
    }

    #[test]
    fn what_is_printed_is_read_again() {
        for text in [
            "unix:/run/app.sock",
            "unix:@app",
            "unix:abns@app",
            "127.0.0.1:8000",
            "[::1]:8000",
            "shm-spin:/run/app.sock",
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        for text in [
            "unixgram:/run/app.sock",
            "seqpacket:/run/app.sock",
            "udp:127.0.0.1:8125",
            "udp:[::1]:8125",
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        assert!("udp:localhost".parse::<Address>().is_err());
        assert!("localhost".parse::<Address>().is_err());
    }

    #[test]
    fn each_transport_has_a_kind_of_address() {
        for transport in Transport::ALL {
            let kind = transport.address();
            let own = kind.at("/run/s", "name", 8000);
            assert!(own.is_like(&kind) && own != kind, "{transport}");
            assert_eq!(own.to_string().parse::<Address>().unwrap(), own);
            assert_eq!(own.path().is_some(), own.bare().starts_with('/'), "{transport}");
            assert_eq!(transport.name().parse(), Ok(transport));
            assert_eq!(serde_json::to_value(transport).unwrap(), transport.name());
        }
        let [tcp, tcp6] = [Transport::Tcp, Transport::Tcp6].map(Transport::address);
        assert!(!tcp.is_like(&tcp6) && tcp.family() == "inet" && tcp6.family() == "inet6");
    }
}
