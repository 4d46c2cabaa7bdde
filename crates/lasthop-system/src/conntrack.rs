//! TCP connections with a destination translated by the packet filter (DNAT), as tracked by the kernel. The ends of
//! such a connection do not have each other's address.

use std::{
    io,
    net::{IpAddr, SocketAddr},
};

use rustix::net::netlink;

use crate::netlink::{Attributes, Dumps};

// include/uapi/linux/netfilter/nfnetlink.h and nfnetlink_conntrack.h
const GET: u16 = 0x101;
/// Size of family, version and resource id, before the attributes of a message.
const GENERAL: usize = 4;
const ORIGINAL: u16 = 1;
const REPLY: u16 = 2;
const STATUS: u16 = 3;
const STATUS_MASK: u16 = 26;
const TUPLE_IP: u16 = 1;
const TUPLE_PROTOCOL: u16 = 2;
const SOURCE_V4: u16 = 1;
const DESTINATION_V4: u16 = 2;
const SOURCE_V6: u16 = 3;
const DESTINATION_V6: u16 = 4;
const PROTOCOL: u16 = 1;
const SOURCE_PORT: u16 = 2;
const DESTINATION_PORT: u16 = 3;
const TCP: u8 = 6;
// include/uapi/linux/netfilter/nf_conntrack_common.h
const DNAT: u32 = 1 << 5;

/// Lists the translated connections of one network namespace.
#[derive(Debug)]
pub struct Conntrack(Dumps);

/// A connection whose destination was translated, and possibly its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Translated {
    /// The client's view: its own address, and the address that it connected to.
    pub client: (SocketAddr, SocketAddr),
    /// The server's view: its own address, and the client's address that it sees.
    pub server: (SocketAddr, SocketAddr),
}

impl Conntrack {
    /// Opens a socket to the network namespace of the calling thread, which the socket keeps.
    pub fn open() -> io::Result<Self> {
        Dumps::open(netlink::NETFILTER).map(Self)
    }

    /// Connections that are open, or were closed recently: the kernel keeps them for two minutes.
    ///
    /// # Errors
    ///
    /// The kernel refuses without `CAP_NET_ADMIN`.
    pub fn translated(&mut self, mut each: impl FnMut(Translated)) -> io::Result<()> {
        let mut request = vec![0; GENERAL];
        // Kernels before 5.14 ignore the second attribute, and list all connections.
        for kind in [STATUS, STATUS_MASK] {
            request.extend([8u16, kind].map(u16::to_ne_bytes).concat());
            request.extend(DNAT.to_be_bytes());
        }
        self.0.ask(GET, &request, |message| {
            if let Some(found) = Translated::parse(message) {
                each(found);
            }
        })
    }
}

impl Translated {
    fn parse(message: &[u8]) -> Option<Self> {
        let all = Attributes(message.get(GENERAL..)?);
        let status = u32::from_be_bytes(all.value(STATUS)?.try_into().ok()?);
        let made = Self {
            client: ends(all.value(ORIGINAL)?)?,
            server: ends(all.value(REPLY)?)?,
        };
        (status & DNAT > 0).then_some(made)
    }
}

/// Source and destination of one direction of a TCP connection.
fn ends(tuple: &[u8]) -> Option<(SocketAddr, SocketAddr)> {
    let ips = Attributes(Attributes(tuple).value(TUPLE_IP)?);
    let ports = Attributes(Attributes(tuple).value(TUPLE_PROTOCOL)?);
    let end = |v4, v6, port| {
        let ip = match (ips.value(v4), ips.value(v6)) {
            (Some(bytes), _) => IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?),
            (None, bytes) => IpAddr::from(<[u8; 16]>::try_from(bytes?).ok()?),
        };
        let port = u16::from_be_bytes(ports.value(port)?.try_into().ok()?);
        Some(SocketAddr::new(ip, port))
    };
    (ports.value(PROTOCOL)? == [TCP]).then_some(())?;
    Some((
        end(SOURCE_V4, SOURCE_V6, SOURCE_PORT)?,
        end(DESTINATION_V4, DESTINATION_V6, DESTINATION_PORT)?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let length = 4 + value.len() as u16;
        let mut all = [length, kind].map(u16::to_ne_bytes).concat();
        all.extend(value);
        all.resize(all.len().next_multiple_of(4), 0);
        all
    }

    fn direction(kind: u16, ips: [u8; 2], ports: [u16; 2], protocol: u8) -> Vec<u8> {
        let ip = |kind, last| attribute(kind, &[10, 0, 0, last]);
        let port = |kind, port: u16| attribute(kind, &port.to_be_bytes());
        let ips = [ip(SOURCE_V4, ips[0]), ip(DESTINATION_V4, ips[1])].concat();
        let what = attribute(PROTOCOL, &[protocol]);
        let ports = [what, port(SOURCE_PORT, ports[0]), port(DESTINATION_PORT, ports[1])].concat();
        attribute(
            kind | 0x8000,
            &[attribute(TUPLE_IP, &ips), attribute(TUPLE_PROTOCOL, &ports)].concat(),
        )
    }

    fn message(status: u32, protocol: u8) -> Vec<u8> {
        [
            vec![2, 0, 0, 0],
            direction(ORIGINAL, [1, 9], [40_000, 8_080], protocol),
            direction(REPLY, [2, 3], [80, 40_001], protocol),
            attribute(STATUS, &status.to_be_bytes()),
        ]
        .concat()
    }

    #[test]
    fn both_ends_of_a_translated_connection_are_read() {
        let at = |text: &str| text.parse().unwrap();
        let wanted = Translated {
            client: (at("10.0.0.1:40000"), at("10.0.0.9:8080")),
            server: (at("10.0.0.2:80"), at("10.0.0.3:40001")),
        };
        assert_eq!(Translated::parse(&message(DNAT | 0b1110, TCP)), Some(wanted));
        assert_eq!(
            Translated::parse(&message(0b1110, TCP)),
            None,
            "its destination is its own"
        );
        assert_eq!(Translated::parse(&message(DNAT, 17)), None);
    }

    #[test]
    fn what_is_cut_off_is_no_connection() {
        let whole = message(DNAT, TCP);
        for length in 0..whole.len() {
            assert_eq!(Translated::parse(&whole[..length]), None);
        }
    }

    /// The kernel answers root, and refuses others.
    #[test]
    fn the_kernel_answers_root() {
        let Ok(mut conntrack) = Conntrack::open() else { return };
        let answered = conntrack.translated(|_| {}).is_ok();
        assert!(answered || !rustix::process::geteuid().is_root());
    }
}
