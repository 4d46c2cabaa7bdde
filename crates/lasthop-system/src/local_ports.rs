//! The local ports that the kernel gives to connections, in the network namespace of the calling thread, and the
//! sockets that hold them.

use std::net::SocketAddr;

use crate::files;

/// The rules by which a namespace assigns local ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortSettings {
    /// Number of ports that the kernel assigns by itself.
    pub range: u64,
    /// `net.ipv4.tcp_tw_reuse`: 1 always, 2 on the loopback interface. Also 0 without `net.ipv4.tcp_timestamps`, by
    /// which the kernel tells an old segment from a new connection's.
    pub reuse: u8,
}

impl PortSettings {
    /// The settings of the calling thread's namespace.
    pub fn here() -> Self {
        let read = |name: &str| files::text(format!("/proc/sys/net/ipv4/{name}")).unwrap_or_default();
        Self::parse(
            &read("ip_local_port_range"),
            &read("tcp_tw_reuse"),
            &read("tcp_timestamps"),
        )
    }

    fn parse(range: &str, reuse: &str, timestamps: &str) -> Self {
        let ends: Vec<u64> = range.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let mut settings = Self::default();
        if let [low, high] = ends[..] {
            settings.range = (high + 1).saturating_sub(low);
        }
        if timestamps.trim() != "0" {
            settings.reuse = reuse.trim().parse().unwrap_or(0);
        }
        settings
    }

    /// Whether a port in `TIME_WAIT` towards a server can be reused after a second.
    pub fn reuses(self, server: SocketAddr) -> bool {
        self.reuse == 1 || (self.reuse == 2 && server.ip().to_canonical().is_loopback())
    }
}

/// The number behind a name in a line `TCP: inuse 1 orphan 0 tw 5 alloc 1 mem 0` of a file `sockstat`: `inuse` for the
/// sockets in use, `tw` for those in `TIME_WAIT`.
pub fn tcp_sockets(sockstat: &str, name: &str) -> u64 {
    let line = sockstat
        .lines()
        .find(|line| line.starts_with("TCP:"))
        .unwrap_or_default();
    let mut words = line.split_ascii_whitespace().skip_while(|word| *word != name);
    words.nth(1).and_then(|word| word.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settings_say_whether_a_port_serves_again() {
        let bridge = "10.89.0.3:80".parse().unwrap();
        let loopback = "127.0.0.1:80".parse().unwrap();
        let settings = |reuse| PortSettings::parse("32768\t60999\n", reuse, "1\n");
        assert_eq!(
            settings("2\n"),
            PortSettings {
                range: 28_232,
                reuse: 2
            }
        );
        let reuses = |reuse| [settings(reuse).reuses(bridge), settings(reuse).reuses(loopback)];
        assert_eq!(
            [reuses("0"), reuses("1"), reuses("2")],
            [[false, false], [true, true], [false, true]]
        );
        assert!(
            !PortSettings::parse("1 2", "1\n", "0\n").reuses(bridge),
            "without timestamps none does"
        );
        assert_eq!(PortSettings::parse("", "", ""), PortSettings::default());
        assert!(PortSettings::here().range > 0, "this machine has ports");
    }

    #[test]
    fn sockets_are_counted_by_what_they_do() {
        let sockstat = "sockets: used 200\nTCP: inuse 12 orphan 0 tw 345 alloc 30 mem 4\nUDP: inuse 1 mem 0\n";
        assert_eq!(
            ["tw", "inuse", "none"].map(|name| tcp_sockets(sockstat, name)),
            [345, 12, 0]
        );
        assert_eq!(tcp_sockets("", "tw"), 0);
    }
}
