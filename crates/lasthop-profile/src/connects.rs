//! Processes that open TCP connections, however short. The kernel reports each change of a socket's state (the
//! tracepoint `sock:inet_sock_set_state`), and the first change happens in the process that connects. Nothing attaches
//! to it.

use std::{
    collections::HashMap,
    ffi::CStr,
    io,
    net::{IpAddr, SocketAddr},
};

use perf_event_open_sys::bindings::{PERF_TYPE_TRACEPOINT, perf_event_attr};

use crate::{
    missing::Missing,
    profiler::online,
    record::{Record, WITH_TIME_AND_FIELDS, records},
    ring::{Event, Ring},
    tracepoints::{Field, tracefs, tracepoint},
};

const TRACEPOINT: &str = "sock/inet_sock_set_state";
/// Selects the start and the end of a connect. The states are those of include/net/tcp_states.h.
const ONLY: &CStr = c"newstate == 2 || oldstate == 2";
const SYN_SENT: u32 = 2;
const ESTABLISHED: u32 = 1;
/// Bytes of a CPU's ring: a tenth of a second of 20,000 connections, with two records of some 110 bytes each.
const RING: usize = 1 << 19;

/// A connection opened by a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connect {
    pub pid: i32,
    /// Start of the connect, in monotonic nanoseconds.
    pub at_ns: u64,
    pub local: SocketAddr,
    pub remote: SocketAddr,
}

/// Reports connects in all network namespaces.
#[derive(Debug)]
pub struct Connects {
    fields: Fields,
    rings: Vec<Ring>,
    /// Active as long as they are open.
    events: Vec<Event>,
    /// Pending connects: process and start, by the socket's address in kernel memory.
    begun: HashMap<u64, (i32, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct Fields {
    socket: Field,
    new: Field,
    ports: [Field; 2],
    /// IPv4 addresses are mapped to IPv6.
    ips: [Field; 2],
}

impl Connects {
    pub fn open() -> Result<Self, Missing> {
        let folder = tracefs().map_err(unreadable)?;
        let found = tracepoint(&folder, TRACEPOINT).map_err(unreadable)?;
        let (config, fields) = found
            .and_then(|(number, format)| Some((number, Fields::parse(&format)?)))
            .ok_or_else(|| unreadable(io::ErrorKind::NotFound.into()))?;
        let mut attr = perf_event_attr {
            type_: PERF_TYPE_TRACEPOINT,
            config,
            ..perf_event_attr::default()
        };
        attr.sample_type = WITH_TIME_AND_FIELDS.into();
        attr.sample_period = 1;
        attr.set_use_clockid(1);
        attr.clockid = libc::CLOCK_MONOTONIC;
        let mut made = Self {
            fields,
            rings: Vec::new(),
            events: Vec::new(),
            begun: HashMap::new(),
        };
        let refused = |error: io::Error| Missing::of_event("connects", &error);
        for cpu in online().map_err(refused)? {
            made.open_cpu(attr, cpu).map_err(refused)?;
        }
        Ok(made)
    }

    fn open_cpu(&mut self, attr: perf_event_attr, cpu: u32) -> io::Result<()> {
        let event = Event::open(attr, cpu)?;
        event.only(ONLY)?;
        self.rings.push(Ring::of(&event, RING)?);
        event.enable()?;
        self.events.push(event);
        Ok(())
    }

    /// Connections opened since the last call. If there were too many, some are missing.
    pub fn drain(&mut self, mut each: impl FnMut(Connect)) {
        let mut bytes = Vec::new();
        self.rings.iter_mut().for_each(|ring| ring.drain(&mut bytes));
        let mut changes: Vec<_> = records(&bytes)
            .filter_map(|record| match record {
                Record::Sample(sample) => sample.timed(),
                _ => None,
            })
            .collect();
        // Changes of one socket may be in the rings of two CPUs.
        changes.sort_by_key(|(time, _)| *time);
        for (time, sample) in changes {
            let found = self
                .fields
                .change(sample.raw())
                .and_then(|change| self.follow((sample.pid, time), change));
            found.into_iter().for_each(&mut each);
        }
    }

    /// Remembers the first change, which alone happens in the process itself but before the socket has a port. The next
    /// change completes the connect.
    fn follow(&mut self, now: (i32, u64), change: Change) -> Option<Connect> {
        if change.new == SYN_SENT {
            self.begun.insert(change.socket, now);
            return None;
        }
        let (pid, at_ns) = self.begun.remove(&change.socket)?;
        let [local, remote] = change.ends;
        (change.new == ESTABLISHED).then_some(Connect {
            pid,
            at_ns,
            local,
            remote,
        })
    }
}

fn unreadable(error: io::Error) -> Missing {
    Missing::Tracepoints {
        cause: error.to_string(),
    }
}

/// A change of a socket's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Change {
    socket: u64,
    new: u32,
    ends: [SocketAddr; 2],
}

impl Fields {
    fn parse(format: &str) -> Option<Self> {
        let field = |name| Field::parse(format, name);
        Some(Self {
            socket: field("skaddr")?,
            new: field("newstate")?,
            ports: [field("sport")?, field("dport")?],
            ips: [field("saddr_v6[16]")?, field("daddr_v6[16]")?],
        })
    }

    fn change(self, raw: &[u8]) -> Option<Change> {
        let end = |number: usize| {
            let ip = IpAddr::from(self.ips[number].first_bytes::<16>(raw)?).to_canonical();
            let port = u16::from_ne_bytes(self.ports[number].first_bytes(raw)?);
            Some(SocketAddr::new(ip, port))
        };
        Some(Change {
            socket: u64::from_ne_bytes(self.socket.first_bytes(raw)?),
            new: u32::from_ne_bytes(self.new.first_bytes(raw)?),
            ends: [end(0)?, end(1)?],
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use lasthop_system::clock;

    use super::*;

    /// The format of Linux 6.18.
    const FORMAT: &str = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
        \tfield:const void * skaddr;\toffset:8;\tsize:8;\tsigned:0;\n\
        \tfield:int oldstate;\toffset:16;\tsize:4;\tsigned:1;\n\
        \tfield:int newstate;\toffset:20;\tsize:4;\tsigned:1;\n\
        \tfield:__u16 sport;\toffset:24;\tsize:2;\tsigned:0;\n\
        \tfield:__u16 dport;\toffset:26;\tsize:2;\tsigned:0;\n\
        \tfield:__u16 family;\toffset:28;\tsize:2;\tsigned:0;\n\
        \tfield:__u16 protocol;\toffset:30;\tsize:2;\tsigned:0;\n\
        \tfield:__u8 saddr[4];\toffset:32;\tsize:4;\tsigned:0;\n\
        \tfield:__u8 daddr[4];\toffset:36;\tsize:4;\tsigned:0;\n\
        \tfield:__u8 saddr_v6[16];\toffset:40;\tsize:16;\tsigned:0;\n\
        \tfield:__u8 daddr_v6[16];\toffset:56;\tsize:16;\tsigned:0;\n";

    #[test]
    fn a_change_is_read() {
        let fields = Fields::parse(FORMAT).unwrap();
        let mapped = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 127, 0, 0, 1];
        let raw = [
            &[0; 8][..],
            &77u64.to_ne_bytes(),
            &SYN_SENT.to_ne_bytes(),
            &ESTABLISHED.to_ne_bytes(),
            &40_000u16.to_ne_bytes(),
            &80u16.to_ne_bytes(),
            &[0; 12],
            &mapped,
            &mapped,
        ]
        .concat();
        let wanted = Change {
            socket: 77,
            new: ESTABLISHED,
            ends: ["127.0.0.1:40000", "127.0.0.1:80"].map(|end| end.parse().unwrap()),
        };
        assert_eq!(fields.change(&raw), Some(wanted));
        assert_eq!(fields.change(&raw[..raw.len() - 1]), None);
        assert!(Fields::parse(&FORMAT.replace("skaddr", "other")).is_none());
    }

    /// Only root may open the events.
    #[test]
    fn whoever_connects_is_told() {
        let Ok(mut connects) = Connects::open() else {
            assert!(!rustix::process::geteuid().is_root());
            return;
        };
        for ip in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(ip).unwrap();
            let remote = listener.local_addr().unwrap();
            let before = clock::now();
            let mut wanted: Vec<SocketAddr> = (0..20)
                .map(|_| TcpStream::connect(remote).unwrap().local_addr().unwrap())
                .collect();
            let own = std::process::id() as i32;
            connects.drain(|found| {
                let is_then = (before..=clock::now()).contains(&found.at_ns);
                let is_own = found.pid == own && found.remote == remote && is_then;
                wanted.retain(|local| !is_own || *local != found.local);
            });
            assert_eq!(wanted, []);
        }
    }
}
