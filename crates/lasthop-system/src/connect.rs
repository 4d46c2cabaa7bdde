//! Blocking connections, for questions outside a load.

use std::{io, time::Duration};

use lasthop_protocol::address::Address;
use socket2::Socket;

use crate::udp;

/// A blocking connection whose every call, connecting included, may take this long.
///
/// # Errors
///
/// There is no such address, or nobody answers there in time.
pub fn connect(address: &Address, timeout: Duration) -> io::Result<Socket> {
    let name = address.socket_name().map_err(io::Error::other)?;
    // UDP has nothing to refuse a connect with.
    if let Address::Udp(at) = address
        && udp::bound(*at).next().is_none()
    {
        return Err(io::Error::from_raw_os_error(libc::ECONNREFUSED));
    }
    let socket = Socket::new(address.domain(), address.kind(), None)?;
    socket.set_read_timeout(Some(timeout))?;
    // Linux holds `connect` to the timeout of sending, for every kind of socket.
    socket.set_write_timeout(Some(timeout))?;
    socket.connect(&name)?;
    Ok(socket)
}
