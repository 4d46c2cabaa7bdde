//! Which address of a host accepts connections.

use std::{
    io,
    net::{SocketAddr, TcpStream},
    time::Duration,
};

/// How long an address has to accept a connection.
const LONGEST: Duration = Duration::from_secs(2);

/// The first of these addresses that accepts a connection over TCP, and why those before it do not. Each is asked once.
pub fn first(addresses: &[SocketAddr]) -> (Option<SocketAddr>, Vec<(SocketAddr, io::Error)>) {
    let mut failed = Vec::new();
    for address in addresses {
        match TcpStream::connect_timeout(address, LONGEST) {
            Ok(_) => return (Some(*address), failed),
            Err(error) => failed.push((*address, error)),
        }
    }
    (None, failed)
}

/// The same, or the first of all: for [`UrlOptions::choose`](lasthop_protocol::url::UrlOptions).
pub fn choose(_host: &str, addresses: &[SocketAddr]) -> SocketAddr {
    first(addresses).0.unwrap_or(addresses[0])
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn the_first_address_that_accepts_is_taken() {
        let [closed, open] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let [closed_at, open_at] = [&closed, &open].map(|listener| listener.local_addr().unwrap());
        drop(closed);
        let (found, failed) = first(&[closed_at, open_at]);
        assert_eq!((found, failed.len(), failed[0].0), (Some(open_at), 1, closed_at));
        assert_eq!(failed[0].1.kind(), io::ErrorKind::ConnectionRefused);
        drop(open);
        let (found, failed) = first(&[closed_at, open_at]);
        assert_eq!((found, failed.len()), (None, 2));
        assert_eq!(choose("localhost", &[closed_at, open_at]), closed_at);
    }
}
