//! Finds the connections over which a server is reached, in the kernel's socket tables, without help from the
//! application.
//!
//! An accepted Unix socket has the listener's path, an accepted TCP socket the listener's port; both tables show that.
//! A connection of one request lives for some microseconds, so the tables are read repeatedly while the driver sends.
//! Closed TCP connections stay in `TIME_WAIT` at the end that closed first, which is visible in the server's network
//! namespace.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, RecvTimeoutError, Sender},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use lasthop_model::record::{Elsewhere, LinkObserved};
use lasthop_trial::address::Address;

use lasthop_system::listener;

/// The interval between reads. The tables are read only in a warm-up, so that no measurement pays for them.
const INTERVAL: Duration = Duration::from_millis(1);

/// Watches a server's connections until [`Self::saw`], or until it is dropped because the case failed.
pub struct LinkWatch {
    /// Dropping this ends the watch.
    looks_on: Sender<()>,
    looking: JoinHandle<Seen>,
    has_seen: Arc<AtomicBool>,
    family: &'static str,
}

/// A listener, and a process in its network namespace.
pub type Listening = (i32, Address);

/// Connections by a unique name.
type Connections = BTreeSet<String>;

#[derive(Default)]
struct Seen {
    link: Connections,
    /// Connections to other listeners, by address.
    elsewhere: BTreeMap<String, Connections>,
}

impl LinkWatch {
    /// `others` are further listeners of the server, besides the link's.
    pub fn start(listening: Vec<Listening>, others: Vec<Listening>) -> Self {
        let (looks_on, until) = mpsc::channel::<()>();
        let family = listening.first().map_or("", |(_, address)| address.family());
        let has_seen = Arc::new(AtomicBool::new(false));
        let tells = Arc::clone(&has_seen);
        let looking = thread::spawn(move || {
            // Earlier connections do not count.
            let before: Connections = listening.iter().chain(&others).flat_map(closed).collect();
            let new = |listener: &Listening| -> Vec<String> {
                connections(listener)
                    .into_iter()
                    .filter(|connection| !before.contains(connection))
                    .collect()
            };
            let mut seen = Seen::default();
            loop {
                // One more read follows the end, because requests may have arrived since the previous one.
                let last = until.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Disconnected);
                seen.link.extend(listening.iter().flat_map(new));
                for other in &others {
                    seen.elsewhere
                        .entry(other.1.to_string())
                        .or_default()
                        .extend(new(other));
                }
                let any = !seen.link.is_empty() || seen.elsewhere.values().any(|seen| !seen.is_empty());
                tells.store(any, Ordering::Relaxed);
                if last {
                    return seen;
                }
            }
        });
        Self {
            looks_on,
            looking,
            has_seen,
            family,
        }
    }

    /// Whether the watch has seen a connection. On a busy machine, every read may miss short connections.
    pub fn has_seen(&self) -> bool {
        self.has_seen.load(Ordering::Relaxed)
    }

    /// Connections over the link while `requests` were answered, if any, and the other address that saw most
    /// connections.
    pub fn saw(self, requests: u64) -> (Option<LinkObserved>, Option<Elsewhere>) {
        drop(self.looks_on);
        let Seen { link, elsewhere } = self.looking.join().unwrap_or_default();
        let over_link = link.len() as u32;
        let observed = (over_link > 0).then(|| LinkObserved {
            family: self.family.to_owned(),
            requests: u32::try_from(requests).unwrap_or(u32::MAX),
            connections: over_link,
            wanted: None,
        });
        let most = elsewhere
            .into_iter()
            .max_by_key(|(_, seen)| seen.len())
            .filter(|(_, seen)| !seen.is_empty());
        let elsewhere = most.map(|(address, seen)| Elsewhere {
            address,
            connections: seen.len() as u32,
            over_link,
        });
        (observed, elsewhere)
    }
}

/// Unique names of a listener's connections that are open or in `TIME_WAIT`.
fn connections((server, listen): &Listening) -> Vec<String> {
    match (listen, listen.unix_name()) {
        (Address::Tcp(address), _) => listener::peers(*server, *address)
            .into_iter()
            .map(|(peer, _)| peer)
            .collect(),
        (_, Some(name)) => listener::accepted_unix(*server, name).collect(),
        _ => Vec::new(),
    }
}

fn closed((server, listen): &Listening) -> Vec<String> {
    let Address::Tcp(address) = listen else {
        return Vec::new();
    };
    listener::peers(*server, *address)
        .into_iter()
        .filter(|(_, open)| !open)
        .map(|(peer, _)| peer)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::{
        net::{TcpListener, TcpStream},
        os::unix::net::{UnixListener, UnixStream},
        time::Instant,
    };

    use super::*;

    #[test]
    fn connections_are_counted_once_and_closed_ones_do_not_count() {
        let own = std::process::id() as i32;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connect = || (TcpStream::connect(address).unwrap(), listener.accept().unwrap());
        let (client, (server, _)) = connect();
        // The server closes first, so its end is in `TIME_WAIT`.
        drop(server);
        drop(client);
        let watch = LinkWatch::start(vec![(own, Address::Tcp(address))], vec![]);
        let kept = [connect(), connect()];
        // From now on, the watch knows earlier connections.
        let begun = Instant::now();
        while !watch.has_seen() && begun.elapsed() < Duration::from_secs(30) {
            thread::sleep(Duration::from_millis(1));
        }
        // The client closes first, so its end is in `TIME_WAIT`, however short the connection was.
        let (client, (server, _)) = connect();
        drop(client);
        drop(server);
        let (seen, elsewhere) = watch.saw(9);
        let seen = seen.unwrap();
        assert_eq!(elsewhere, None);
        assert_eq!((seen.family.as_str(), seen.connections, seen.requests), ("inet", 3, 9));
        drop(kept);

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let watch = LinkWatch::start(vec![(own, Address::Unix(path.clone()))], vec![]);
        let kept = [0; 3].map(|_| (UnixStream::connect(&path).unwrap(), listener.accept().unwrap()));
        let seen = watch.saw(9).0.unwrap();
        assert_eq!((seen.family.as_str(), seen.connections), ("unix", 3));
        drop(kept);
        assert_eq!(
            LinkWatch::start(vec![(own, Address::Unix(path.clone()))], vec![]).saw(1),
            (None, None)
        );

        // The server at another of its addresses.
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::Tcp(tcp.local_addr().unwrap());
        let watch = LinkWatch::start(vec![(own, Address::Unix(path.clone()))], vec![(own, address.clone())]);
        let kept = (UnixStream::connect(&path).unwrap(), listener.accept().unwrap());
        let stray = (
            TcpStream::connect(tcp.local_addr().unwrap()).unwrap(),
            tcp.accept().unwrap(),
        );
        let elsewhere = Elsewhere {
            address: address.to_string(),
            connections: 1,
            over_link: 1,
        };
        assert_eq!(watch.saw(1).1, Some(elsewhere));
        drop((kept, stray));
    }
}
