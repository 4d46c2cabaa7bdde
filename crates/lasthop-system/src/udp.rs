//! The kernel's data about UDP sockets: those bound to a port, and datagrams dropped because a socket's buffer was
//! full. Senders do not learn of drops.

use std::{collections::BTreeMap, net::SocketAddr};

use crate::files;

/// A socket that is bound to a port and not connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    pub inode: u64,
    /// Datagrams dropped since the socket was opened.
    pub drops: u64,
}

/// Reads of the kernel's tables before a socket counts as absent.
const LOOKS: usize = 3;

/// The sockets bound to this port, at any address, in this process's network namespace.
pub fn bound(at: SocketAddr) -> impl Iterator<Item = Bound> {
    let found = (0..LOOKS).map(|_| look(at.port())).find(|found| !found.is_empty());
    found.unwrap_or_default().into_values()
}

/// Reads the sockets bound to a port, by inode. While other sockets come and go, the kernel lists some sockets twice
/// and leaves some out, because it resumes by position between reads. So each read takes as much as the kernel gives,
/// and each socket counts once.
fn look(port: u16) -> BTreeMap<u64, Bound> {
    let tables = ["/proc/net/udp", "/proc/net/udp6"];
    tables
        .into_iter()
        .flat_map(files::lines)
        .filter_map(|line| read(&line, port))
        .map(|socket| (socket.inode, socket))
        .collect()
}

/// Datagrams that the kernel dropped at this port so far; `None` if no socket of this network namespace is bound to it.
pub fn drops(at: SocketAddr) -> Option<u64> {
    bound(at).map(|socket| socket.drops).reduce(|sum, next| sum + next)
}

/// A line of the kernel's table, if its socket is bound to the port: the local address is in the second column, the
/// state (07: not connected) in the fourth, the inode in the tenth, the drops in the thirteenth.
fn read(line: &str, port: u16) -> Option<Bound> {
    let columns: Vec<&str> = line.split_ascii_whitespace().collect();
    let (_, local) = columns.get(1)?.split_once(':')?;
    let is_one = u16::from_str_radix(local, 16) == Ok(port) && columns.get(3) == Some(&"07");
    is_one.then(|| {
        Some(Bound {
            inode: columns.get(9)?.parse().ok()?,
            drops: columns.get(12)?.parse().ok()?,
        })
    })?
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeSet,
        net::UdpSocket,
        sync::mpsc::{self, TryRecvError},
        thread,
    };

    use super::*;

    #[test]
    fn drops_are_counted_where_nobody_reads() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let at = receiver.local_addr().unwrap();
        assert_eq!(drops(at), Some(0));
        socket2::SockRef::from(&receiver).set_recv_buffer_size(4096).unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sent: u64 = (0..100)
            .map(|_| u64::from(sender.send_to(&[0; 1000], at).is_ok()))
            .sum();
        receiver.set_nonblocking(true).unwrap();
        let received = std::iter::from_fn(|| receiver.recv(&mut [0; 1000]).ok()).count() as u64;
        assert!(received < sent, "{received}");
        // Other sockets come and go meanwhile.
        let (done, over) = mpsc::channel::<()>();
        let others = thread::spawn(move || {
            while over.try_recv() == Err(TryRecvError::Empty) {
                let _some: Vec<UdpSocket> = (0..5).filter_map(|_| UdpSocket::bind("127.0.0.1:0").ok()).collect();
            }
        });
        let seen: BTreeSet<Option<u64>> = (0..2_000).map(|_| drops(at)).collect();
        drop(done);
        others.join().unwrap();
        assert_eq!(seen, BTreeSet::from([Some(sent - received)]));
        drop(receiver);
        assert_eq!(drops(at), None);
    }
}
