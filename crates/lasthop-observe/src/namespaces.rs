//! The network namespaces that a load passes through, lasthop's own and those of containers: their counters, and local
//! ports in `TIME_WAIT`.

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use lasthop_model::observation::{HeldPorts, NetworkCounters, Role};
use lasthop_system::{
    listener::{self, TcpRow},
    local_ports::PortSettings,
    namespace::{self, go_into},
    sock_diag::TIME_WAIT,
};

use super::network::NetworkReading;

/// Held ports are reported once they make up 1/`WORTH_A_WORD` of the range. Only then is the table of sockets read,
/// which is long and takes tens of milliseconds of a CPU beside a trial.
const WORTH_A_WORD: u64 = 2;
/// How long a read of the table counts if the number of sockets has hardly changed: they stay for a minute.
const BELIEVED: Duration = Duration::from_secs(10);

/// The namespaces of a round.
#[derive(Debug)]
pub struct Namespaces(Vec<Space>);

#[derive(Debug)]
struct Space {
    /// A process in the namespace; `None` for lasthop's own.
    process: Option<i32>,
    id: Option<PathBuf>,
    /// Services in the namespace: number of the stack, name. Empty for lasthop's own and a driver's, which all stacks
    /// use.
    roles: Vec<(usize, String)>,
    /// `None` if lasthop may not read them: whether ports are held is then not guessed.
    settings: Option<PortSettings>,
    last: Mutex<Option<Look>>,
}

/// A read of the table of sockets.
#[derive(Clone, Copy, Debug)]
struct Look {
    at: Instant,
    /// Sockets in `TIME_WAIT`, of clients and servers.
    time_wait: u64,
    /// The server towards which most ports are held, and their number.
    server: SocketAddr,
    held: u64,
}

impl Namespaces {
    /// lasthop's own namespace, and those of services.
    pub fn of(roles: &[Role]) -> Self {
        let own = Space {
            process: None,
            id: namespace::id("self"),
            roles: Vec::new(),
            settings: Some(PortSettings::here()),
            last: Mutex::default(),
        };
        let mut all = Self(vec![own]);
        for role in roles {
            let named = (role.stack, role.name.clone());
            match all.at(role.pid) {
                Some(0) => {}
                Some(at) => all.0[at].roles.push(named),
                None => all.add(role.pid, vec![named]),
            }
        }
        all
    }

    /// Adds the namespace of a driver, unless it is among them.
    pub fn also(&mut self, pid: i32) {
        if self.at(pid).is_none() {
            self.add(pid, Vec::new());
        }
    }

    fn at(&self, pid: i32) -> Option<usize> {
        let id = Some(namespace::id(pid)?);
        self.0.iter().position(|space| space.id == id)
    }

    fn add(&mut self, pid: i32, roles: Vec<(usize, String)>) {
        self.0.push(Space {
            process: Some(pid),
            id: namespace::id(pid),
            roles,
            settings: settings_of(pid),
            last: Mutex::default(),
        });
    }

    /// Readings of the namespaces that a stack's load passes through; empty readings for the others.
    pub fn read(&self, stack: usize) -> Vec<NetworkReading> {
        let read = |space: &Space| match space.process {
            _ if !space.is_of(stack) => NetworkReading::default(),
            None => NetworkReading::now(),
            Some(process) => NetworkReading::of(process),
        };
        self.0.iter().map(read).collect()
    }

    /// The change of a stack's counters between two readings.
    pub fn between(&self, before: &[NetworkReading], after: &[NetworkReading], stack: usize) -> NetworkCounters {
        let readings = self.0.iter().zip(before.iter().zip(after));
        let of_stack = readings.filter(|(space, _)| space.is_of(stack));
        of_stack
            .map(|(_, (before, after))| before.until(after))
            .fold(NetworkCounters::default(), NetworkCounters::and)
    }

    /// The namespace of a stack with most ports held towards one server, if worth reporting. Ports that cannot be
    /// reused come first: fewer of them do more harm.
    pub fn held(&self, after: &[NetworkReading], stack: usize) -> Option<HeldPorts> {
        let readings = self.0.iter().zip(after).filter(|(space, _)| space.is_of(stack));
        // If all traffic is on one machine's loopback interface, reusable ports do no harm.
        let readings = readings.filter(|(space, _)| self.0.len() > 1 || space.holds());
        let held = readings.filter_map(|(space, reading)| space.held(reading.time_wait()));
        held.max_by_key(|held| (!held.reused, held.held))
    }
}

impl Space {
    fn is_of(&self, stack: usize) -> bool {
        self.roles.is_empty() || self.roles.iter().any(|(of, _)| *of == stack)
    }

    /// Whether ports towards this machine itself are held for the whole of `TIME_WAIT`.
    fn holds(&self) -> bool {
        self.settings.is_some_and(|settings| settings.reuse == 0)
    }

    /// `time_wait`: sockets in that state, of clients and servers.
    fn held(&self, time_wait: u64) -> Option<HeldPorts> {
        let settings = self.settings.filter(|settings| settings.range > 0)?;
        let least = settings.range.div_ceil(WORTH_A_WORD);
        let Look { server, held, .. } = (time_wait >= least).then(|| self.look(time_wait, least))??;
        (held >= least).then(|| HeldPorts {
            roles: self.roles.iter().map(|(_, name)| name.clone()).collect(),
            server: server.to_string(),
            held,
            range: settings.range,
            reused: settings.reuses(server),
        })
    }

    /// Reads the table, unless the last read is recent and too few sockets came or went since to pass `least`.
    fn look(&self, time_wait: u64, least: u64) -> Option<Look> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let holds = |look: &Look| {
            look.at.elapsed() < BELIEVED && look.time_wait.abs_diff(time_wait) < look.held.abs_diff(least)
        };
        if last.as_ref().is_some_and(holds) {
            return *last;
        }
        let process = self
            .process
            .map_or_else(|| "thread-self".to_owned(), |pid| pid.to_string());
        *last = most_held(listener::tcp_tables(process)).map(|(server, held)| Look {
            at: Instant::now(),
            time_wait,
            server,
            held,
        });
        *last
    }
}

/// The settings of another namespace. They are visible only inside, so a thread goes there. That needs root's rights,
/// which a user with rootless containers does not have.
fn settings_of(pid: i32) -> Option<PortSettings> {
    let thread = thread::Builder::new().spawn(move || {
        // This moves only the calling thread, which ends there.
        go_into(&namespace::of_process(pid).ok()?).ok()?;
        Some(PortSettings::here())
    });
    thread.ok()?.join().ok().flatten()
}

/// The server towards which most ports of one local address are in `TIME_WAIT`, and their number. On the server's own
/// side, each socket has another client's port.
fn most_held(rows: impl Iterator<Item = TcpRow>) -> Option<(SocketAddr, u64)> {
    let mut links: HashMap<(IpAddr, SocketAddr), u64> = HashMap::new();
    for row in rows.filter(|row| row.state == TIME_WAIT) {
        *links.entry((row.local.ip(), row.remote)).or_default() += 1;
    }
    let ((_, server), held) = links.into_iter().max_by_key(|(_, held)| *held)?;
    Some((server, held))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    const TABLE: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
           0: 0200590A:9C40 0300590A:1F90 06 00000000:00000000 03:00001000 00000000     0        0 0 3 0\n\
           1: 0200590A:9C42 0300590A:1F90 06 00000000:00000000 03:00001000 00000000     0        0 0 3 0\n\
           2: 0200590A:9C44 0300590A:1F90 01 00000000:00000000 03:00001000 00000000     0        0 0 3 0\n\
           3: 0300590A:1F90 0200590A:9C46 06 00000000:00000000 03:00001000 00000000     0        0 0 3 0\n";

    #[test]
    #[cfg(target_endian = "little")]
    fn ports_are_held_on_the_side_that_closed_first() {
        let server = "10.89.0.3:8080".parse().unwrap();
        assert_eq!(most_held(TABLE.lines().filter_map(TcpRow::parse)), Some((server, 2)));
        assert_eq!(most_held(["nothing"].into_iter().filter_map(TcpRow::parse)), None);
    }

    /// Each of two local addresses has all ports to itself.
    #[test]
    fn ports_are_counted_by_the_address_that_they_are_of() {
        let other = TABLE.replace("0: 0200590A", "0: 0400590A");
        assert_eq!(most_held(other.lines().filter_map(TcpRow::parse)).unwrap().1, 1);
    }

    /// If the kernel assigns two ports, one is half of them; the listener's side holds none.
    #[test]
    fn only_a_share_of_the_range_is_worth_a_word() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap();
        let client = TcpStream::connect(server).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        // Reading the end of a connection makes the client the first to close.
        drop(client);
        std::io::Read::read_to_end(&mut &accepted, &mut Vec::new()).unwrap();
        drop(accepted);
        let settings = |range| Some(PortSettings { range, reuse: 2 });
        let space = |settings| Space {
            process: None,
            id: None,
            roles: Vec::new(),
            settings,
            last: Mutex::default(),
        };
        let held = |settings, time_wait| space(settings).held(time_wait);
        assert_eq!(
            held(settings(1_000_000), 500_000),
            None,
            "many sockets, few towards one server"
        );
        assert_eq!(held(settings(2), 0), None);
        assert_eq!(held(None, 1_000_000), None, "settings that nobody has read");
        // Other tests of this process leave sockets too.
        let found = held(settings(2), 1).unwrap();
        assert!(found.held >= 1 && found.reused && found.range == 2, "{found:?}");
        // The table is read again only after enough sockets came or went to change the answer.
        let space = space(settings(2));
        let look = |time_wait| space.look(time_wait, 100_000).unwrap().at;
        let first = look(150_000);
        assert_eq!(look(151_000), first);
        assert_ne!(look(1_000_000), first);
    }

    #[test]
    fn the_settings_of_this_process_are_those_of_its_namespace() {
        assert!(settings_of(std::process::id() as i32).is_none_or(|settings| settings == PortSettings::here()));
    }

    /// Two processes that have ended, or that lasthop may not examine, do not count as one namespace.
    #[test]
    fn namespaces_that_cannot_be_told_are_not_one() {
        let role = |pid| Role {
            stack: 0,
            name: "app".to_owned(),
            pid,
            ..Role::default()
        };
        assert_eq!(Namespaces::of(&[role(i32::MAX), role(i32::MAX - 1)]).read(0).len(), 3);
    }

    #[test]
    fn one_namespace_is_read_once_however_many_services_are_in_it() {
        let me = std::process::id() as i32;
        let role = |name: &str| Role {
            stack: 0,
            name: name.to_owned(),
            pid: me,
            ..Role::default()
        };
        let mut namespaces = Namespaces::of(&[role("a"), role("b")]);
        namespaces.also(me);
        let before = namespaces.read(0);
        assert_eq!(before.len(), 1);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let counted = namespaces.between(&before, &namespaces.read(0), 0);
        assert!(counted.tcp_opened >= 1 && counted.tcp_accepted >= 1, "{counted:?}");
    }
}
