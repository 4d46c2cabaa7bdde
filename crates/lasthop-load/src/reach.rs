//! Which address of a host accepts connections.

use std::{io, time::Duration};

use lasthop_system::connect;
use lasthop_trial::address::Address;

/// Timeout of a connect to one address.
const LONGEST: Duration = Duration::from_secs(2);

/// The first address that accepts a connection, and the errors of those before it. Each is tried once.
pub fn first(addresses: &[Address]) -> (Option<&Address>, Vec<(&Address, io::Error)>) {
    let mut failed = Vec::new();
    for address in addresses {
        match connect(address, LONGEST) {
            Ok(_) => return (Some(address), failed),
            Err(error) => failed.push((address, error)),
        }
    }
    (None, failed)
}

/// The first address that accepts a connection, or else the first of all: for
/// [`UrlOptions::choose`](lasthop_protocol::url::UrlOptions).
pub fn choose(_host: &str, addresses: &[Address]) -> Address {
    first(addresses).0.unwrap_or(&addresses[0]).clone()
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};

    use super::*;

    #[test]
    fn the_first_address_that_accepts_is_taken() {
        let [closed, open] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let all = [&closed, &open].map(|listener| Address::Tcp(listener.local_addr().unwrap()));
        drop(closed);
        let (found, failed) = first(&all);
        assert_eq!((found, failed.len(), failed[0].0), (Some(&all[1]), 1, &all[0]));
        assert_eq!(failed[0].1.kind(), io::ErrorKind::ConnectionRefused);
        drop(open);
        let (found, failed) = first(&all);
        assert_eq!((found, failed.len()), (None, 2));
        assert_eq!(choose("localhost", &all), all[0]);
    }

    #[test]
    fn udp_refuses_where_nobody_is_bound() {
        let [closed, open] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        let all = [&closed, &open].map(|socket| Address::Udp(socket.local_addr().unwrap()));
        drop(closed);
        assert_eq!(choose("localhost", &all), all[1]);
    }
}
