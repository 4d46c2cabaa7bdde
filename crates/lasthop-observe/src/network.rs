//! TCP counters of the kernel in one network namespace.

use lasthop_model::observation::NetworkCounters;
use lasthop_system::{files, local_ports::tcp_sockets};

/// The counters since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetworkReading(NetworkCounters);

impl NetworkReading {
    pub fn now() -> Self {
        Self::below("/proc/net")
    }

    /// The counters in the network namespace of a process.
    pub fn of(pid: i32) -> Self {
        Self::below(&format!("/proc/{pid}/net"))
    }

    fn below(folder: &str) -> Self {
        let read = |name: &str| files::text(format!("{folder}/{name}")).unwrap_or_default();
        Self::parse(&read("snmp"), &read("netstat"), &read("sockstat"))
    }

    /// Sockets in `TIME_WAIT`.
    pub fn time_wait(&self) -> u64 {
        self.0.time_wait
    }

    fn parse(snmp: &str, netstat: &str, sockstat: &str) -> Self {
        Self(NetworkCounters {
            tcp_opened: counter(snmp, "Tcp:", "ActiveOpens"),
            tcp_accepted: counter(snmp, "Tcp:", "PassiveOpens"),
            tcp_segments_sent: counter(snmp, "Tcp:", "OutSegs"),
            tcp_retransmitted: counter(snmp, "Tcp:", "RetransSegs"),
            listen_overflows: counter(netstat, "TcpExt:", "ListenOverflows"),
            listen_drops: counter(netstat, "TcpExt:", "ListenDrops"),
            syns_retransmitted: counter(netstat, "TcpExt:", "TCPSynRetrans"),
            time_wait: tcp_sockets(sockstat, "tw"),
            // Despite its name, this counts the ports in `TIME_WAIT` that `tcp_tw_reuse` gave to new connections.
            ports_reused: counter(netstat, "TcpExt:", "TWRecycled"),
        })
    }

    /// The change until a later reading; `TIME_WAIT` as of the end.
    pub fn until(&self, after: &Self) -> NetworkCounters {
        let before = self.0;
        let after = after.0;
        let counted = |counter: fn(&NetworkCounters) -> u64| counter(&after).saturating_sub(counter(&before));
        NetworkCounters {
            tcp_opened: counted(|all| all.tcp_opened),
            tcp_accepted: counted(|all| all.tcp_accepted),
            tcp_segments_sent: counted(|all| all.tcp_segments_sent),
            tcp_retransmitted: counted(|all| all.tcp_retransmitted),
            listen_overflows: counted(|all| all.listen_overflows),
            listen_drops: counted(|all| all.listen_drops),
            syns_retransmitted: counted(|all| all.syns_retransmitted),
            time_wait: after.time_wait,
            ports_reused: counted(|all| all.ports_reused),
        }
    }
}

/// Reads a counter. The files have a line of names, then a line of values, both with the group in front.
fn counter(text: &str, group: &str, name: &str) -> u64 {
    let mut lines = text.lines().filter(|line| line.starts_with(group));
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else {
        return 0;
    };
    let mut pairs = names.split_ascii_whitespace().zip(values.split_ascii_whitespace());
    pairs
        .find(|(known, _)| *known == name)
        .and_then(|(_, value)| value.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn counters_are_found_by_name() {
        let snmp = "Udp: A\nUdp: 1\nTcp: ActiveOpens PassiveOpens OutSegs RetransSegs\nTcp: 1 2 3 4\n";
        let netstat = "TcpExt: X ListenOverflows TWRecycled\nTcpExt: 9 5 7\n";
        let reading = NetworkReading::parse(snmp, netstat, "TCP: inuse 1 orphan 0 tw 6 alloc 1 mem 0\n").0;
        let all = [
            reading.tcp_opened,
            reading.tcp_accepted,
            reading.tcp_segments_sent,
            reading.tcp_retransmitted,
        ];
        assert_eq!(all, [1, 2, 3, 4]);
        assert_eq!(
            [reading.listen_overflows, reading.time_wait, reading.ports_reused],
            [5, 6, 7]
        );
        assert_eq!(NetworkReading::parse("", "", ""), NetworkReading::default());
    }

    #[test]
    fn a_connection_is_counted_at_both_ends() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let before = NetworkReading::now();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let counted = before.until(&NetworkReading::now());
        assert!(
            counted.tcp_opened >= 1 && counted.tcp_accepted >= 1 && counted.tcp_segments_sent >= 3,
            "{counted:?}"
        );
    }
}
