//! The local ports that a connection per request over TCP uses up. Each connection leaves a port in `TIME_WAIT` for a
//! minute, on the side that closed first. A trial that begins without enough ports would count errors, not speed.
//!
//! All files are read for the calling thread's network namespace.

use std::{net::SocketAddr, time::Duration};

use lasthop_system::{
    clock, files,
    listener::{self, TcpRow},
    local_ports::{PortSettings, tcp_sockets},
    sock_diag::TIME_WAIT,
};
use lasthop_trial::result::PortUse;

/// `TIME_WAIT` lasts 60 s on Linux; after this time every such port is free.
const WAIT_MAX_NS: u64 = 65_000_000_000;
const POLL: Duration = Duration::from_millis(100);
/// Connections that a first trial is expected to open, as a share of all ports.
const FIRST_SHARE: u64 = 4;
/// Ports for connections that a trial opens beyond those of the last trial.
const RESERVE: f64 = 1.25;
/// Age in seconds from which `tcp_tw_reuse` lets a port be reused.
const REUSE_AFTER: u64 = 1;
/// `REUSE_AFTER` with a margin, because the kernel counts it coarsely.
const REUSE_AFTER_NS: u64 = 1_100_000_000;
const TIME_WAIT_SECONDS: u64 = 60;

/// Watches the ports towards one server over the trials of a case.
#[derive(Debug)]
pub struct Ports {
    server: SocketAddr,
    /// Connections per second of the last trial.
    pace: Option<f64>,
    /// Recent trials: when each ended, and the connections it opened.
    recent: Vec<(u64, u64)>,
}

/// A reading of the kernel's socket counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct SocketCounts {
    /// Ports that connections may use.
    range: u64,
    /// TCP sockets of the namespace in `TIME_WAIT`.
    time_wait: u64,
    /// TCP sockets in use.
    in_use: u64,
}

impl Ports {
    pub fn new(server: SocketAddr) -> Self {
        Self {
            server,
            pace: None,
            recent: Vec::new(),
        }
    }

    /// Waits until there are enough ports for a trial of `seconds`, at most as long as `TIME_WAIT` lasts.
    pub fn before(&self, seconds: f64) -> PortUse {
        let begin = clock::now();
        let reading = read();
        let wanted = self.wanted(reading.range, seconds);
        let mut ports = PortUse {
            range: reading.range,
            time_wait_before: reading.time_wait,
            time_wait_peak: reading.time_wait,
            left_before: self.left(reading, wanted),
            waited_ns: 0,
        };
        while ports.left_before < wanted && clock::now() - begin < WAIT_MAX_NS {
            std::thread::sleep(POLL);
            ports.left_before = self.left(read(), wanted);
            ports.waited_ns = clock::now() - begin;
        }
        ports
    }

    /// Takes a reading during or after a trial; cheap enough to take while it runs.
    pub fn during(ports: &mut PortUse) {
        ports.time_wait_peak = ports.time_wait_peak.max(tcp_sockets(&sockstat(), "tw"));
    }

    /// Notes the connections that a trial of `seconds` opened.
    pub fn after(&mut self, opened: u64, seconds: f64) {
        let now = clock::now();
        self.recent.retain(|(at, _)| now - at < REUSE_AFTER_NS);
        self.recent.push((now, opened));
        self.pace = Some(opened as f64 / seconds.max(1e-9));
    }

    /// Ports that a trial will want, at most the part of the range that waiting can yield.
    fn wanted(&self, range: u64, seconds: f64) -> u64 {
        // Other programs hold ports too, so waiting for the whole range could be in vain.
        let most = range - range / 8;
        let expected = self.pace.map(|pace| (pace * seconds * RESERVE) as u64);
        expected.unwrap_or(range / FIRST_SHARE).min(most)
    }

    /// Ports left towards the server. Ports that no socket at all uses are a lower bound; only if that is less than
    /// `wanted` are they counted one by one. The table of a busy machine takes tens of milliseconds to read.
    fn left(&self, reading: SocketCounts, wanted: u64) -> u64 {
        let surely = reading.range.saturating_sub(reading.time_wait + reading.in_use);
        if surely >= wanted {
            return surely;
        }
        let reuse = PortSettings::here().reuses(self.server);
        if let Some(left) = self
            .left_by_account(reading, clock::now())
            .filter(|left| reuse && *left >= wanted)
        {
            return left;
        }
        let sockets = listener::tcp_tables("thread-self");
        reading.range.saturating_sub(taken(sockets, self.server, reuse))
    }

    /// Ports left if ports in `TIME_WAIT` can be reused after a second: those that neither sockets in use nor
    /// connections of trials since then occupy. Half of the range is left to other clients of this server. `None`
    /// before the first trial.
    fn left_by_account(&self, reading: SocketCounts, now: u64) -> Option<u64> {
        self.pace?;
        let young = self
            .recent
            .iter()
            .filter(|(at, _)| now - at < REUSE_AFTER_NS)
            .map(|(_, opened)| opened);
        Some((reading.range / 2).saturating_sub(young.sum::<u64>() + reading.in_use))
    }
}

fn read() -> SocketCounts {
    let sockstat = sockstat();
    SocketCounts {
        range: PortSettings::here().range,
        time_wait: tcp_sockets(&sockstat, "tw"),
        in_use: tcp_sockets(&sockstat, "inuse"),
    }
}

fn sockstat() -> String {
    // `/proc/net` would show the namespace of the process's first thread; this one may have entered another.
    files::text("/proc/thread-self/net/sockstat").unwrap_or_default()
}

/// Counts sockets in the kernel's table that occupy a local port for connections to `server`.
fn taken(table: impl Iterator<Item = TcpRow>, server: SocketAddr, reuse: bool) -> u64 {
    let peer = SocketAddr::new(server.ip().to_canonical(), server.port());
    let keeps = |socket: &TcpRow| {
        // The timer shows how much of `TIME_WAIT` is left.
        let age = (TIME_WAIT_SECONDS * 100).saturating_sub(socket.timer);
        socket.remote == peer && !(reuse && socket.state == TIME_WAIT && age > REUSE_AFTER * 100)
    };
    table.filter(keeps).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn sockets_towards_the_server_are_counted() {
        let server: SocketAddr = "127.0.0.1:8080".parse().unwrap();
        let line = |peer: &str, state: &str, timer: &str| {
            format!("   1: 0100007F:9C40 {peer} {state} 00000000:00000000 {timer} 00000000     0        0 0 3 0\n")
        };
        let table = line("0100007F:1F90", "01", "00:00000000")
            + &line("0100007F:1F90", "06", "03:0000176B")
            + &line("0100007F:1F90", "06", "03:00001000")
            + &line("0100007F:1F91", "06", "03:00001000");
        let taken = |reuse| taken(table.lines().filter_map(TcpRow::parse), server, reuse);
        assert_eq!(taken(false), 3);
        assert_eq!(taken(true), 2, "0x176B is an age of 0.05 s, 0x1000 one of 19 s");
    }

    #[test]
    fn a_trial_wants_what_the_last_one_took() {
        let mut ports = Ports::new("127.0.0.1:1".parse().unwrap());
        assert_eq!(ports.wanted(28_000, 1.0), 7000);
        ports.after(2000, 0.5);
        assert_eq!(ports.wanted(28_000, 1.0), 5000);
        let reading = SocketCounts {
            range: 28_000,
            time_wait: 27_000,
            in_use: 10,
        };
        let end = ports.recent[0].0;
        assert_eq!(ports.left_by_account(reading, end + 1), Some(11_990));
        assert_eq!(
            ports.left_by_account(reading, end + REUSE_AFTER_NS),
            Some(13_990),
            "they serve again"
        );
        assert_eq!(
            Ports::new("127.0.0.1:1".parse().unwrap()).left_by_account(reading, end),
            None
        );
        assert_eq!(ports.wanted(800, 1.0), 700);
    }
}
