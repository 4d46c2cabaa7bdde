//! Blocking connections, for single requests outside a load.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket},
    time::Duration,
};

use lasthop_trial::address::Address;
use socket2::Socket;

use crate::udp;

/// A blocking connection. `timeout` limits each call, including the connect.
pub fn connect(address: &Address, timeout: Duration) -> io::Result<Socket> {
    let name = address.socket_name().map_err(io::Error::other)?;
    // A UDP connect is never refused.
    if let Address::Udp(at) = address
        && udp::bound(*at).next().is_none()
    {
        return Err(io::Error::from_raw_os_error(libc::ECONNREFUSED));
    }
    let socket = Socket::new(address.domain(), address.kind(), None)?;
    socket.set_read_timeout(Some(timeout))?;
    // Linux applies the send timeout to `connect`, for every kind of socket.
    socket.set_write_timeout(Some(timeout))?;
    socket.connect(&name)?;
    Ok(socket)
}

/// The user id of the listener at the other end of a Unix socket connection.
pub fn listening_user(socket: &Socket) -> io::Result<u32> {
    Ok(rustix::net::sockopt::socket_peercred(socket)?.uid.as_raw())
}

/// This machine's own address for packets to another address. Nothing is sent.
pub fn own_address_towards(ip: IpAddr) -> io::Result<IpAddr> {
    let any: IpAddr = match ip {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    // Connecting a datagram socket looks up the route; the port does not matter.
    socket.connect((ip, 9))?;
    Ok(socket.local_addr()?.ip())
}
