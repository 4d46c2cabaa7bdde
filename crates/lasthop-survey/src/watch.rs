//! Watches the sockets of this machine: pairs the ends of each connection, and counts its traffic.
//!
//! Open connections are read repeatedly, and counted from their state at the start of the watch. For each destroyed
//! connection, the kernel reports the final counters. A connection counts only if both ends are here.
//!
//! Closing a socket with a reset (`SO_LINGER` of 0) makes it forget its peer and its counters: the other end then
//! counts.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    io,
    net::SocketAddr,
    os::unix::fs::MetadataExt as _,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use lasthop_profile::connects::{Connect, Connects};
use lasthop_system::{
    clock,
    conntrack::Translated,
    files, interrupt,
    sock_diag::{Counters, Inet, LISTEN, SockDiag, Unix},
};

use super::{
    is_out_of_time,
    processes::{GroupId, Processes},
    spaces::Spaces,
};

/// The interval of reading destroyed sockets.
const DRAIN: Duration = Duration::from_millis(100);
/// A read of all sockets takes at most one part in this many of a CPU's time.
const SHARE: u32 = 50;
/// How long the second end of a closed connection is awaited.
const PENDING: Duration = Duration::from_secs(5);
/// How long after its last sighting an ended process still owns a connection of its pid, in nanoseconds.
const RECENT: u64 = 2_000_000_000;
/// Words in names of sockets that take commands, show figures, or speak another protocol than the port.
const CONTROL: [&str; 12] = [
    "ctl", "control", "admin", "stat", "monitor", "manage", "mgmt", "master", "agent", "debug", "notify", "mysqlx",
];
/// Reads for which the opener of a connection is remembered: by then a read has found the connection, or not.
const REMEMBERED: u32 = 2;

/// The namespace within which equal loopback addresses mean the same socket. `None` for other addresses: they mean the
/// same socket in all namespaces.
type Scope = Option<usize>;
/// An end of a connection: scope, own address, and remote address, as the other end sees them.
type Tuple = (Scope, SocketAddr, SocketAddr);
/// Client and server, if known.
type Ends = (Option<GroupId>, Option<GroupId>);
/// A socket: number of its namespace, and its cookie.
type Id = (usize, u64);

/// A listening address, in the namespace where it listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Server {
    pub space: usize,
    pub address: SocketAddr,
}

/// Traffic of the connections of one client to one server during the watch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Connections that are open at the end.
    pub open: u64,
    pub opened: u64,
    pub closed: u64,
    /// The counters of the clients' ends.
    pub counted: Counters,
    /// The sum over connections of the lower of both directions' segments with data: the most turns of request and
    /// reply.
    pub turns: u64,
    /// Turns of connections that were opened and closed during the watch, and their number.
    pub short_turns: u64,
    pub short: u64,
    /// Whether the ends are in different namespaces.
    pub crosses: bool,
    /// The address that clients connect to, if the packet filter translates it.
    pub published: Option<SocketAddr>,
}

/// The result of a watch.
#[derive(Debug, Default)]
pub struct Seen {
    pub seconds: f64,
    /// Traffic by server and client; `None` if the client was not found.
    pub tcp: BTreeMap<(Server, Option<GroupId>), Traffic>,
    /// The group of each server.
    pub servers: HashMap<Server, GroupId>,
    /// The Unix socket at which each group offers the same service as at its port.
    pub sockets: BTreeMap<GroupId, String>,
    /// Connections over Unix sockets: open at the end, and opened during the watch.
    pub unix: BTreeMap<(String, Ends), (u64, u64)>,
    pub udp: BTreeMap<(SocketAddr, Ends), u64>,
    /// Whether short connections were counted in every namespace, and whether some were missed.
    pub hears: bool,
    pub missed: bool,
    /// Whether the kernel reported the openers of connections.
    pub tells_who: bool,
    /// Pairs of connected Unix sockets without a name.
    pub unnamed: u64,
    /// Whether an interrupt cut a read short.
    pub cut_short: bool,
    /// For each process tree, the tree that it is counted with as a client.
    pub clients: Vec<GroupId>,
}

/// Length of the watch, and interval of reads.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    pub watch: Duration,
    pub interval: Duration,
}

struct End {
    space: usize,
    socket: Inet,
    /// Counters at the start of the watch.
    before: Counters,
    /// Whether the socket existed at the start of the watch.
    old: bool,
    /// The server, if this is the client's end of a local connection.
    server: Option<Server>,
    /// The other end, if found, and whether it is in another namespace.
    twin: Option<Id>,
    crosses: bool,
    /// Final counters of the other end, from this end's view.
    far: Option<Counters>,
    /// Whether the packet filter was asked for the other end.
    sought: bool,
    /// The last read that found the socket.
    look: u32,
}

struct Watch<'a> {
    spaces: &'a mut Spaces,
    processes: &'a mut Processes,
    /// The kernel's reports of opened connections; `None` without the rights.
    connects: Option<Connects>,
    /// Processes that have opened connections, by pid: a process that ends between two connections remains known.
    callers: HashMap<i32, Caller>,
    /// Openers of connections, and the read before the opening. The end is as its process sees it.
    openers: HashMap<Tuple, (GroupId, u32)>,
    /// Clients' ends from the servers' view, by the clients' view, where the packet filter makes them differ.
    translated: HashMap<Tuple, Tuple>,
    ends: HashMap<Id, End>,
    /// Clients' ends that have lost their counters, by their other ends.
    reset: HashMap<Id, End>,
    /// Closed ends whose other end was not seen yet.
    pending: HashMap<Tuple, Pending>,
    /// Inodes of present and past listeners.
    listening: HashMap<(usize, SocketAddr), u64>,
    /// Connections over Unix sockets, by the inodes of both ends.
    unix: HashMap<(u64, u64), UnixEnd>,
    /// Listening Unix sockets by name: inode, and whether they are in lasthop's own network namespace.
    unix_listening: HashMap<String, (u64, bool)>,
    look: u32,
    /// The number of namespaces that the last read reached.
    reached: usize,
    seen: Seen,
}

/// The last sighting of a process, in monotonic nanoseconds.
#[derive(Clone, Copy)]
struct Caller {
    space: usize,
    group: GroupId,
    seen: u64,
}

/// A closed end, with the time and the read from which its other end is awaited.
struct Pending {
    since: Instant,
    look: u32,
    id: Id,
    socket: Inet,
}

struct UnixEnd {
    name: String,
    old: bool,
    look: u32,
}

/// Watches until the time is over or there is an interrupt. Calls `begun` at the start.
pub fn watch(spaces: &mut Spaces, processes: &mut Processes, timing: Timing, begun: impl FnOnce()) -> io::Result<Seen> {
    let connects = Connects::open().ok();
    let mut watch = Watch {
        spaces,
        processes,
        callers: HashMap::new(),
        openers: HashMap::new(),
        translated: HashMap::new(),
        ends: HashMap::new(),
        reset: HashMap::new(),
        pending: HashMap::new(),
        listening: HashMap::new(),
        unix: HashMap::new(),
        unix_listening: HashMap::new(),
        look: 0,
        reached: 0,
        seen: Seen {
            hears: true,
            tells_who: connects.is_some(),
            ..Seen::default()
        },
        connects,
    };
    watch.spaces.look_for_more();
    watch.drain();
    // Connections closed before the first read do not count.
    watch.pending.clear();
    watch.seen.tcp.clear();
    watch.processes.begin();
    watch.look_at_all()?;
    begun();
    let begin = Instant::now();
    let end = begin + timing.watch;
    let mut took = Duration::ZERO;
    loop {
        let until = (Instant::now() + timing.interval.max(took * SHARE)).min(end);
        while Instant::now() < until && !interrupt::heard() {
            thread::sleep(DRAIN.min(until.saturating_duration_since(Instant::now())));
            watch.drain();
        }
        let before = clock::thread_cpu();
        watch.spaces.look_for_more();
        watch.look_at_all()?;
        watch.drain();
        took = Duration::from_nanos(clock::thread_cpu() - before);
        if Instant::now() >= end || interrupt::heard() {
            // Finding the owners took time: the counters are read again.
            watch.look_at_tcp()?;
            watch.drain();
            // The kernel reports counters some time after a socket has closed.
            if watch.ends.values().any(|end| end.look < watch.look) || !watch.reset.is_empty() {
                thread::sleep(DRAIN);
                watch.drain();
            }
            watch.look_at_translations();
            watch.seen.seconds = begin.elapsed().as_secs_f64();
            return Ok(watch.finish());
        }
    }
}

impl End {
    /// A connection that was opened and closed between two reads.
    fn short(id: Id, client: Inet, server: Server) -> Self {
        Self {
            space: id.0,
            before: Counters::default(),
            old: false,
            server: Some(server),
            twin: None,
            crosses: id.0 != server.space,
            far: None,
            sought: true,
            look: 0,
            socket: client,
        }
    }
}

impl Traffic {
    fn add(&mut self, other: Self) {
        self.open += other.open;
        self.opened += other.opened;
        self.closed += other.closed;
        self.counted = sum(self.counted, other.counted);
        self.turns += other.turns;
        self.short_turns += other.short_turns;
        self.short += other.short;
        self.crosses |= other.crosses;
        self.published = other.published.or(self.published);
    }
}

impl Watch<'_> {
    fn drain(&mut self) {
        let mut gone = Vec::new();
        for (number, space) in self.spaces.all.iter_mut().enumerate() {
            match &mut space.destroyed {
                Some(destroyed) => self.seen.missed |= destroyed.drain(|socket| gone.push((number, socket))),
                None => self.seen.hears = false,
            }
        }
        // After reading destroyed sockets, so that all of them are known to have been opened.
        self.note_openers();
        for (space, socket) in gone {
            self.destroyed((space, socket.cookie), socket);
        }
        let look = self.look;
        self.give_up(|pending| pending.since.elapsed() >= PENDING && pending.look < look);
    }

    /// Gives up waiting for other ends.
    fn give_up(&mut self, is_over: impl Fn(&Pending) -> bool) {
        let over: Vec<_> = self.pending.extract_if(|_, pending| is_over(pending)).collect();
        if over.is_empty() {
            return;
        }
        // An end that stays open for long closes eventually.
        let alone = self.ends.iter().filter(|(_, end)| end.twin.is_none());
        let open: HashSet<Tuple> = alone.map(|(id, end)| self.place(id.0, &end.socket)).collect();
        for (own, pending) in over {
            if open.contains(&(own.0, own.2, own.1)) {
                self.pending.insert(own, pending);
            } else {
                self.settle_alone(pending.id, &pending.socket);
            }
        }
    }

    /// Notes the openers of connections. A process that ended after its first connection has no name.
    fn note_openers(&mut self) {
        let mut opened = Vec::new();
        if let Some(connects) = &mut self.connects {
            connects.drain(|connect| opened.push(connect));
        }
        for Connect {
            pid,
            at_ns,
            local,
            remote,
        } in opened
        {
            let found = self.processes.group_at(pid, at_ns).and_then(|group| {
                Some(Caller {
                    space: self.spaces.number(pid)?,
                    group,
                    seen: clock::now(),
                })
            });
            let was = || self.callers.get(&pid).filter(|caller| caller.seen + RECENT >= at_ns);
            if let Some(caller) = found.or_else(|| was().copied()) {
                self.callers.insert(pid, caller);
                let opener = (caller.group, self.look);
                self.openers.insert(tuple(caller.space, local, remote), opener);
            }
        }
    }

    /// Reads the packet filter's translations, and again looks for other ends of closed connections.
    fn look_at_translations(&mut self) {
        self.translated.clear();
        for (number, space) in self.spaces.all.iter_mut().enumerate() {
            let translated = &mut self.translated;
            let Some(conntrack) = &mut space.conntrack else {
                continue;
            };
            if is_out_of_time() {
                break;
            }
            // Missing rights are reported with closed connections.
            let _ = conntrack.translated(|Translated { client, server }| {
                let seen = tuple(number, server.1, server.0);
                translated.insert(tuple(number, client.0, client.1), seen);
            });
        }
        let translated = &self.translated;
        let late: Vec<_> = self.pending.extract_if(|own, _| translated.contains_key(own)).collect();
        for (_, Pending { id, socket, .. }) in late {
            self.meet(id, socket);
        }
    }

    /// An end of a connection, as the other end sees it.
    fn place(&self, space: usize, socket: &Inet) -> Tuple {
        let own = tuple(space, socket.local, socket.remote);
        self.translated.get(&own).copied().unwrap_or(own)
    }

    /// Handles a destroyed socket with its final counters.
    fn destroyed(&mut self, id: Id, socket: Inet) {
        let is_reset = socket.remote.port() == 0;
        let Some(mut end) = self.ends.remove(&id) else {
            if !is_reset {
                self.meet(id, socket);
            }
            return;
        };
        if !is_reset {
            let inode = end.socket.inode;
            end.socket = Inet { inode, ..socket };
        }
        match end.twin {
            None if is_reset => {}
            None => self.meet(id, end.socket),
            // A server's end passes on counters that its client's end may have lost.
            Some(twin) if end.server.is_none() => {
                let far = end.socket.counters.map(mirrored);
                if let Some(client) = self.ends.get_mut(&twin) {
                    client.far = far;
                } else if let Some(client) = self.reset.remove(&id) {
                    self.settle(&End { far, ..client }, false);
                }
            }
            Some(twin) if is_reset && end.far.is_none() && self.ends.contains_key(&twin) => {
                self.reset.insert(twin, end);
            }
            Some(_) => {
                end.far = end.far.filter(|_| is_reset);
                self.settle(&end, false);
            }
        }
    }

    /// Handles a closed end whose other end no read has found: the other end has closed too, or will close soon.
    fn meet(&mut self, id: Id, socket: Inet) {
        let own = self.place(id.0, &socket);
        if let Some(other) = self.pending.remove(&(own.0, own.2, own.1)) {
            let at = self.client_of([(&socket, id.0), (&other.socket, other.id.0)]);
            let [(client_id, client), (server_id, server)] = if at == 0 {
                [(id, socket), (other.id, other.socket)]
            } else {
                [(other.id, other.socket), (id, socket)]
            };
            let server = Server {
                space: server_id.0,
                address: server.local,
            };
            self.settle(&End::short(client_id, client, server), false);
        } else {
            let (since, look) = (Instant::now(), self.look);
            self.pending.insert(
                own,
                Pending {
                    since,
                    look,
                    id,
                    socket,
                },
            );
        }
    }

    /// Counts a closed connection by one end, if the other was on this machine and has lost its counters.
    fn settle_alone(&mut self, id: Id, socket: &Inet) {
        let (space, Inet { local, remote, .. }) = (id.0, *socket);
        let is_opened = |one, other| self.openers.contains_key(&tuple(space, one, other));
        let is_of_server = is_opened(remote, local);
        let is_here = local.ip() == remote.ip() || local.ip().is_loopback();
        let elsewhere = || self.listening.keys().find(|(_, address)| *address == remote);
        let there = match elsewhere {
            _ if is_of_server || is_here => space,
            // The listener is in a container.
            elsewhere if is_opened(local, remote) => match elsewhere() {
                Some((space, _)) => *space,
                None => return,
            },
            _ => return,
        };
        let twin = Inet {
            local: remote,
            remote: local,
            inode: 0,
            counters: socket.counters.map(mirrored),
            ..*socket
        };
        let is_client = match [is_opened(local, remote), is_of_server] {
            // A refused connection leaves no other trace.
            [false, false] if socket.counters.unwrap_or_default() == Counters::default() => return,
            [false, false] => self.client_of([(socket, space), (&twin, there)]) == 0,
            [is_client, _] => is_client,
        };
        let (client, address) = if is_client { (*socket, remote) } else { (twin, local) };
        let server = Server { space: there, address };
        self.settle(&End::short(id, client, server), false);
    }

    /// Adds the counters of a client's end.
    fn settle(&mut self, end: &End, open: bool) {
        let Some(server) = end.server else { return };
        let Inet {
            local, remote, inode, ..
        } = end.socket;
        let opener = self.openers.remove(&tuple(end.space, local, remote));
        let client = self.processes.owner(inode).or(opener.map(|(group, _)| group));
        let counted = since(end.before, end.far.or(end.socket.counters).unwrap_or_default());
        let turns = counted.segments_sent.min(counted.segments_received);
        let short = !end.old && !open;
        let traffic = Traffic {
            open: u64::from(open),
            closed: u64::from(!open),
            opened: u64::from(!end.old),
            counted,
            turns,
            short_turns: if short { turns } else { 0 },
            short: u64::from(short),
            crosses: end.crosses,
            published: (remote != server.address).then_some(remote),
        };
        self.seen.tcp.entry((server, client)).or_default().add(traffic);
    }

    /// The index of the client's end: the other one has a listener's address. If this is true of neither or both, the
    /// server has the lower port.
    fn client_of(&self, ends: [(&Inet, usize); 2]) -> usize {
        let listens = ends.map(|(end, space)| self.listener(space, end.local).is_some());
        match listens {
            [true, false] => 1,
            [false, true] => 0,
            _ => usize::from(ends[0].0.local.port() < ends[1].0.local.port()),
        }
    }

    /// The inode of the socket that listens at an address.
    fn listener(&self, space: usize, address: SocketAddr) -> Option<u64> {
        let at = |ip: std::net::IpAddr| {
            self.listening
                .get(&(space, SocketAddr::new(ip, address.port())))
                .copied()
        };
        // A server of both families listens at `::`.
        at(address.ip())
            .or_else(|| at([0; 4].into()).filter(|_| address.is_ipv4()))
            .or_else(|| at([0; 16].into()))
    }

    /// Reads the sockets of every namespace once.
    fn look_at_all(&mut self) -> io::Result<()> {
        self.look += 1;
        self.look_at_tcp()?;
        let mut unix = Vec::new();
        let mut udp = Vec::new();
        for (number, space) in self.spaces.all.iter_mut().enumerate().take(self.reached) {
            if is_out_of_time() {
                self.seen.cut_short = true;
                break;
            }
            space.diag.unix(|socket| unix.push((number, socket)))?;
            space.diag.udp(|socket| udp.push((number, socket)))?;
        }
        self.look_at_unix(unix);
        self.find_owners();
        self.look_at_udp(&udp);
        Ok(())
    }

    /// Reads TCP connections and their counters.
    fn look_at_tcp(&mut self) -> io::Result<()> {
        let mut found = Vec::new();
        self.reached = 0;
        for (number, space) in self.spaces.all.iter_mut().enumerate() {
            if is_out_of_time() {
                self.seen.cut_short = true;
                break;
            }
            space.diag.tcp(|socket| found.push((number, socket)))?;
            self.reached = number + 1;
        }
        let (listening, connected): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|(_, socket)| socket.state == LISTEN);
        self.listening.extend(
            listening
                .into_iter()
                .map(|(space, socket)| ((space, socket.local), socket.inode)),
        );
        let new = connected
            .into_iter()
            .filter_map(|(space, socket)| self.see(space, socket))
            .collect::<Vec<_>>();
        self.pair(&new);
        self.look_further(&new);
        self.forget();
        Ok(())
    }

    /// Pairs ends that the packet filter's translation hides. The table of translations may be long, so it is read only
    /// for new or pending ends.
    fn look_further(&mut self, new: &[Id]) {
        let alone: Vec<Id> = new.iter().filter(|id| self.ends[*id].twin.is_none()).copied().collect();
        if self.pending.is_empty() && alone.iter().all(|id| self.ends[id].sought) {
            return;
        }
        self.look_at_translations();
        self.pair(&alone);
        for id in &alone {
            self.ends.get_mut(id).expect("it is in this look").sought = true;
        }
    }

    /// Notes the counters of a connected socket. Returns the socket's id if its other end is still unknown.
    fn see(&mut self, space: usize, socket: Inet) -> Option<Id> {
        let id = (space, socket.cookie);
        let look = self.look;
        if let Some(end) = self.ends.get_mut(&id) {
            end.socket = socket;
            end.look = look;
            return end.twin.is_none().then_some(id);
        }
        let old = look == 1;
        let end = End {
            space,
            before: socket.counters.filter(|_| old).unwrap_or_default(),
            old,
            server: None,
            twin: None,
            crosses: false,
            far: None,
            sought: false,
            look,
            socket,
        };
        self.ends.insert(id, end);
        Some(id)
    }

    /// Finds the other ends of these sockets.
    fn pair(&mut self, alone: &[Id]) {
        let place = |id: &Id| (self.place(id.0, &self.ends[id].socket), *id);
        let by_place: HashMap<Tuple, Id> = alone.iter().map(place).collect();
        for (own, id) in &by_place {
            let Some(other) = by_place.get(&(own.0, own.2, own.1)).filter(|other| *other != id) else {
                continue;
            };
            let at = self.client_of([(&self.ends[id].socket, id.0), (&self.ends[other].socket, other.0)]);
            let (client, server) = if at == 0 { (id, other) } else { (other, id) };
            let address = self.ends[server].socket.local;
            let is = Server {
                space: server.0,
                address,
            };
            self.seen.tcp.entry((is, None)).or_default();
            for (end, twin, leads) in [(client, server, Some(is)), (server, client, None)] {
                let end = self.ends.get_mut(end).expect("it was just found");
                end.server = leads;
                end.twin = Some(*twin);
                end.crosses = client.0 != server.0;
            }
        }
    }

    /// Handles ends that this read did not find: they have closed. Where the kernel reports closed sockets, their
    /// counters will follow.
    fn forget(&mut self) {
        let tells: Vec<bool> = self
            .spaces
            .all
            .iter()
            .map(|space| space.destroyed.is_some() && !self.seen.missed)
            .collect();
        let (look, reached) = (self.look, self.reached);
        // Openers are also kept while the other end of their connection is awaited.
        let waits = self.pending.values().map(|pending| pending.look).min().unwrap_or(look);
        self.openers.retain(|_, (_, since)| *since + REMEMBERED >= waits);
        let gone: Vec<End> = self
            .ends
            .extract_if(|(space, _), end| end.look < look && *space < reached && !tells[*space])
            .map(|(_, end)| end)
            .collect();
        gone.iter().for_each(|end| self.settle(end, false));
    }

    /// Reads connections over Unix sockets: the server's end has a name.
    fn look_at_unix(&mut self, all: Vec<(usize, Unix)>) {
        let (listening, connected): (Vec<_>, Vec<_>) = all.into_iter().partition(|(_, socket)| socket.state == LISTEN);
        let named = listening
            .into_iter()
            .filter_map(|(space, socket)| Some((socket.name?.unix_name()?, (socket.inode, space == 0))));
        self.unix_listening.extend(named);
        let by_inode: HashMap<u64, Unix> = connected.into_iter().map(|(_, one)| (one.inode, one)).collect();
        let look = self.look;
        let mut unnamed = 0;
        for socket in by_inode.values() {
            let Some(peer) = socket.peer.and_then(|peer| by_inode.get(&peer)) else {
                continue;
            };
            match &socket.name {
                Some(name) => {
                    let end = self.unix.entry((peer.inode, socket.inode)).or_insert_with(|| UnixEnd {
                        name: name.unix_name().unwrap_or_default(),
                        old: look == 1,
                        look,
                    });
                    end.look = look;
                }
                None => unnamed += u64::from(peer.name.is_none()),
            }
        }
        self.seen.unnamed = unnamed / 2;
    }

    /// Reads UDP clients connected to a bound socket of this machine.
    fn look_at_udp(&mut self, all: &[(usize, Inet)]) {
        self.seen.udp.clear();
        let bound: HashMap<(usize, SocketAddr), &Inet> = all
            .iter()
            .map(|(space, socket)| ((*space, socket.local), socket))
            .collect();
        let mut links = Vec::new();
        for (space, client) in all.iter().filter(|(_, socket)| socket.remote.port() > 0) {
            let any = SocketAddr::new([0; 4].into(), client.remote.port());
            let wildcard = client.remote.ip().is_loopback().then_some(any);
            let places = [Some(client.remote), wildcard].into_iter().flatten();
            let server = places.into_iter().find_map(|place| bound.get(&(*space, place)));
            // Of two sockets connected to each other, one is the server.
            let is_server = |server: &&&Inet| server.remote.port() == 0 || server.local.port() < client.local.port();
            if let Some(server) = server.filter(is_server) {
                links.push((client.remote, client.inode, server.inode));
            }
        }
        let wanted = links
            .iter()
            .flat_map(|(_, client, server)| [*client, *server])
            .collect();
        self.processes.find(&wanted);
        for (address, client, server) in links {
            let key = (address, (self.processes.owner(client), self.processes.owner(server)));
            *self.seen.udp.entry(key).or_default() += 1;
        }
    }

    /// Finds the owners of relevant sockets: ends of local connections, and their listeners.
    fn find_owners(&mut self) {
        let paired = self.ends.values().filter(|end| end.twin.is_some());
        let mut wanted: HashSet<u64> = paired.map(|end| end.socket.inode).collect();
        wanted.extend(self.unix.keys().flat_map(|(client, server)| [*client, *server]));
        wanted.extend(self.unix_listening.values().map(|(inode, _)| inode));
        wanted.extend(self.listening.values());
        wanted.remove(&0);
        self.processes.find(&wanted);
        self.name_servers();
        for (id, end) in self.ends.iter().filter(|(_, end)| end.twin.is_some()) {
            let Some(group) = self.processes.owner(end.socket.inode) else {
                continue;
            };
            let own = Server {
                space: id.0,
                address: end.socket.local,
            };
            if end.server.is_none() {
                self.seen.servers.entry(own).or_insert(group);
            }
        }
    }

    /// Names each listener as the server, including for connections that no read has found.
    fn name_servers(&mut self) {
        let servers: HashSet<Server> = self.seen.tcp.keys().map(|(server, _)| *server).collect();
        for server in servers {
            let listener = self.listener(server.space, server.address);
            if let Some(group) = listener.and_then(|inode| self.processes.owner(inode)) {
                self.seen.servers.insert(server, group);
            }
        }
    }

    fn finish(mut self) -> Seen {
        self.give_up(|_| true);
        self.name_servers();
        let (look, reached) = (self.look, self.reached);
        let ends = std::mem::take(&mut self.ends);
        for (id, end) in std::mem::take(&mut self.reset) {
            let far = ends.get(&id).and_then(|twin| twin.socket.counters).map(mirrored);
            self.settle(&End { far, ..end }, false);
        }
        for end in ends.into_values() {
            self.settle(&end, end.look == look || end.space >= reached);
        }
        for ((client, server), end) in &self.unix {
            let [client, server] = [client, server].map(|inode| self.processes.owner(*inode));
            // A server that has not accepted the connection, or only briefly had it, still listens.
            let listener = || self.processes.owner(self.unix_listening.get(&end.name)?.0);
            let server = server.or_else(listener);
            let (open, opened) = self.seen.unix.entry((end.name.clone(), (client, server))).or_default();
            *open += u64::from(end.look == self.look);
            *opened += u64::from(!end.old);
        }
        self.seen.sockets = self.sockets();
        self.seen
            .tcp
            .retain(|_, traffic| traffic.open + traffic.opened + traffic.closed > 0);
        self.seen.gather(self.processes);
        self.seen
    }

    /// The Unix sockets of servers with one port and one socket for clients. If a server has more, nothing tells which
    /// port and which socket belong together.
    fn sockets(&mut self) -> BTreeMap<GroupId, String> {
        let mut ports: HashMap<GroupId, BTreeSet<u16>> = HashMap::new();
        for ((_, address), inode) in &self.listening {
            if let Some(group) = self.processes.owner(*inode) {
                ports.entry(group).or_default().insert(address.port());
            }
        }
        let mut sockets: BTreeMap<GroupId, Vec<&String>> = BTreeMap::new();
        for (name, (inode, _)) in self.unix_listening.iter().filter(|(name, _)| !is_for_control(name)) {
            if let Some(group) = self.processes.owner(*inode) {
                sockets.entry(group).or_default().push(name);
            }
        }
        let servers: HashSet<GroupId> = self.seen.servers.values().copied().collect();
        let only = sockets.into_iter().filter_map(|(group, names)| match names.as_slice() {
            [name] if servers.contains(&group) && ports.get(&group)?.len() == 1 => Some((group, (*name).clone())),
            _ => None,
        });
        let diag = &mut self.spaces.all[0].diag;
        only.filter(|(_, name)| {
            let (inode, is_own) = self.unix_listening[name];
            is_own && (name.starts_with('@') || leads_to(name, inode, diag))
        })
        .collect()
    }
}

/// Whether the path leads to the socket with this inode. A socket in a container may have the same name, but is not
/// found by the path here.
fn leads_to(path: &str, inode: u64, diag: &mut SockDiag) -> bool {
    let path = Path::new(path);
    let file = path.is_absolute().then(|| files::facts_linked(path).ok()).flatten();
    let at = file.and_then(|file| diag.unix_at(file.ino(), file.dev()).ok());
    at.is_some_and(|at| at.contains(&inode))
}

/// Whether a socket's name suggests that it takes commands for the server itself.
fn is_for_control(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name).to_lowercase();
    CONTROL.iter().any(|word| file.contains(word))
}

impl Seen {
    /// Merges processes that are one client.
    fn gather(&mut self, processes: &Processes) {
        let unix = self.unix.keys().map(|(_, (_, server))| *server);
        let udp = self.udp.keys().map(|(_, (_, server))| *server);
        let mut servers: HashSet<GroupId> = unix.chain(udp).flatten().collect();
        servers.extend(self.servers.values().chain(self.sockets.keys()));
        self.clients = processes.clients(&servers);
        let one = |group: Option<GroupId>| group.map(|group| self.clients[group]);
        for ((server, client), traffic) in std::mem::take(&mut self.tcp) {
            self.tcp.entry((server, one(client))).or_default().add(traffic);
        }
        for ((name, (client, server)), (open, opened)) in std::mem::take(&mut self.unix) {
            let sum = self.unix.entry((name, (one(client), server))).or_default();
            *sum = (sum.0 + open, sum.1 + opened);
        }
        for ((address, (client, server)), open) in std::mem::take(&mut self.udp) {
            *self.udp.entry((address, (one(client), server))).or_default() += open;
        }
    }
}

fn sum(one: Counters, other: Counters) -> Counters {
    Counters {
        bytes_sent: one.bytes_sent + other.bytes_sent,
        bytes_received: one.bytes_received + other.bytes_received,
        segments_sent: one.segments_sent + other.segments_sent,
        segments_received: one.segments_received + other.segments_received,
    }
}

/// The counters of the other end, if no segment was lost.
fn mirrored(counted: Counters) -> Counters {
    Counters {
        bytes_sent: counted.bytes_received,
        bytes_received: counted.bytes_sent,
        segments_sent: counted.segments_received,
        segments_received: counted.segments_sent,
    }
}

fn since(before: Counters, now: Counters) -> Counters {
    Counters {
        bytes_sent: now.bytes_sent.saturating_sub(before.bytes_sent),
        bytes_received: now.bytes_received.saturating_sub(before.bytes_received),
        segments_sent: now.segments_sent.saturating_sub(before.segments_sent),
        segments_received: now.segments_received.saturating_sub(before.segments_received),
    }
}

fn tuple(space: usize, local: SocketAddr, remote: SocketAddr) -> Tuple {
    let here = local.ip().is_loopback() || remote.ip().is_loopback();
    (here.then_some(space), local, remote)
}
