//! Finds out where the kernel sends a connection, by walking the rules of the `nat` table: on the way out of this
//! machine, or on the way in from a bridge.

use std::{
    net::{IpAddr, SocketAddr},
    ops::ControlFlow,
    process::Command,
    time::Duration,
};

use lasthop_system::command;

const TIMEOUT: Duration = Duration::from_secs(5);
/// Depth limit, more than any engine nests its chains.
const DEPTH: usize = 16;

/// A rule that gives connections another destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dnat {
    pub to: SocketAddr,
    /// The chain that contains it, which tells who wrote it.
    pub chain: String,
}

/// A connection as the rules see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    pub source: IpAddr,
    /// The interface through which it comes in; `None` if it starts on this machine.
    pub interface: Option<String>,
    pub to: SocketAddr,
}

impl Connection {
    /// A connection from this machine to one of its own addresses, which is also the source address.
    pub fn local(to: SocketAddr) -> Self {
        Self {
            source: to.ip(),
            interface: None,
            to,
        }
    }

    fn chain(&self) -> &'static str {
        if self.interface.is_some() {
            "PREROUTING"
        } else {
            "OUTPUT"
        }
    }
}

/// The rule that a connection meets, if there is one. Only root may read the rules.
///
/// # Errors
///
/// The rules cannot be read: why.
pub fn dnat(connection: &Connection) -> Result<Option<Dnat>, String> {
    let address = connection.to;
    let program = if address.is_ipv4() { "iptables" } else { "ip6tables" };
    let rules = match listed(program, &["-t", "nat", "-S"]) {
        Ok(rules) => rules,
        Err(error) => return in_nft(address).map_err(|other| format!("{error}; {other}")),
    };
    match met(&rules, connection.chain(), connection) {
        Some(found) => Ok(Some(found)),
        // iptables does not show what other programs wrote with nft.
        None => Ok(in_nft(address).unwrap_or(None)),
    }
}

fn listed(program: &str, arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new(program);
    command.args(arguments);
    let ended = command::run(command, TIMEOUT, command::Life::Bound).map_err(|error| format!("{program}: {error}"))?;
    if ended.status.success() {
        return Ok(ended.output);
    }
    let reason = ended.errors.lines().next().unwrap_or("no reason was given");
    Err(format!("{program}: {reason}"))
}

/// The rule of `iptables -S` that the connection meets on its way through a chain of the kernel's.
fn met(rules: &str, chain: &str, connection: &Connection) -> Option<Dnat> {
    walk(rules, chain, connection, DEPTH).break_value().flatten()
}

/// Walks a chain as the connection would.
///
/// # Breaks
///
/// The table's verdict is known: where the connection goes, or nowhere else.
fn walk(rules: &str, chain: &str, connection: &Connection, depth: usize) -> ControlFlow<Option<Dnat>> {
    let begin = format!("-A {chain} ");
    for rule in rules.lines().filter_map(|line| line.strip_prefix(&begin)) {
        let words: Vec<&str> = rule.split_ascii_whitespace().collect();
        if depth == 0 || !matches(&words, connection) {
            continue;
        }
        match after(&words, "-j") {
            Some("DNAT") => {
                let to = after(&words, "--to-destination").and_then(|to| to.parse().ok());
                let chain = chain.to_owned();
                return ControlFlow::Break(to.map(|to| Dnat { to, chain }));
            }
            Some("ACCEPT") => return ControlFlow::Break(None),
            Some("RETURN") => break,
            Some(next) => walk(rules, next, connection, depth - 1)?,
            None => {}
        }
    }
    ControlFlow::Continue(())
}

fn after<'a>(words: &[&'a str], option: &str) -> Option<&'a str> {
    words
        .iter()
        .position(|word| *word == option)
        .and_then(|at| words.get(at + 1).copied())
}

/// Whether every condition of a rule holds that is known here.
fn matches(words: &[&str], connection: &Connection) -> bool {
    (0..words.len()).all(|at| {
        let holds = match (words[at], words.get(at + 1)) {
            ("-d", Some(net)) => within(connection.to.ip(), net),
            ("-s", Some(net)) => within(connection.source, net),
            ("-i", Some(name)) => connection.interface.as_deref() == Some(*name),
            ("--dport", Some(ports)) => ports_hold(ports, connection.to.port()),
            ("-p", Some(protocol)) => *protocol == "tcp",
            // Of other conditions, such as states of conntrack, nothing is known here: they are taken to hold.
            _ => return true,
        };
        holds != (at > 0 && words[at - 1] == "!")
    })
}

fn ports_hold(ports: &str, port: u16) -> bool {
    let (low, high) = ports.split_once(':').unwrap_or((ports, ports));
    matches!((low.parse::<u16>(), high.parse::<u16>()), (Ok(low), Ok(high)) if (low..=high).contains(&port))
}

/// Whether an address is in a network: `10.0.0.0/8`, `fd00::/64`, or a single address.
pub(super) fn within(ip: IpAddr, net: &str) -> bool {
    let (base, prefix) = net.split_once('/').unwrap_or((net, "128"));
    let (Ok(base), Ok(prefix)) = (base.parse::<IpAddr>(), prefix.parse::<u32>()) else {
        return false;
    };
    let (one, other, width) = match (ip, base) {
        (IpAddr::V4(one), IpAddr::V4(other)) => (u32::from(one).into(), u32::from(other).into(), 32),
        (IpAddr::V6(one), IpAddr::V6(other)) => (u128::from(one), u128::from(other), 128),
        _ => return false,
    };
    // A prefix of 0 shifts by the whole width, which `>>` on an IPv6 address would refuse.
    let left_out = width - prefix.min(width);
    one.checked_shr(left_out).unwrap_or(0) == other.checked_shr(left_out).unwrap_or(0)
}

/// netavark and others that write nftables themselves: the rule that names the port and a new destination.
fn in_nft(address: SocketAddr) -> Result<Option<Dnat>, String> {
    Ok(nft_rule(&listed("nft", &["list", "ruleset"])?, address))
}

fn nft_rule(rules: &str, address: SocketAddr) -> Option<Dnat> {
    let mut table = "";
    let mut chain = "";
    for line in rules.lines().map(str::trim) {
        table = line.strip_prefix("table ").unwrap_or(table);
        if table.starts_with("ip nat") || table.starts_with("ip6 nat") {
            // Those of iptables, which have been walked in their order.
            continue;
        }
        if let Some(name) = line.strip_prefix("chain ") {
            chain = name.trim_end_matches(" {");
        }
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let port = after(&words, "dport").and_then(|port| port.parse().ok()) == Some(address.port());
        let elsewhere = after(&words, "daddr").is_some_and(|net| !within(address.ip(), net));
        let to = words
            .windows(3)
            .find(|three| three[0] == "dnat")
            .and_then(|_| words.iter().find_map(|w| w.parse().ok()));
        if let (true, false, Some(to)) = (port, elsewhere, to) {
            return Some(Dnat {
                to,
                chain: chain.to_owned(),
            });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &str = "\
-P OUTPUT ACCEPT
-A OUTPUT ! -d 127.0.0.0/8 -m addrtype --dst-type LOCAL -j DOCKER
-A OUTPUT -m addrtype --dst-type LOCAL -j NETAVARK-HOSTPORT-DNAT
-A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER
-A PREROUTING -s 172.17.0.3/32 -i br-1 -j FROM-3
-A FROM-3 -p tcp -m tcp --dport 8005 -j DNAT --to-destination 172.17.0.2:80
-A DOCKER -i docker0 -j RETURN
-A DOCKER -d 127.0.0.1/32 ! -i docker0 -p tcp -m tcp --dport 8001 -j DNAT --to-destination 172.17.0.2:80
-A DOCKER -d 172.17.0.1/32 ! -i docker0 -p tcp -m tcp --dport 8003 -j DNAT --to-destination 172.17.0.2:80
-A NETAVARK-HOSTPORT-DNAT -p tcp -m tcp --dport 8002 -j NETAVARK-DN-1
-A NETAVARK-DN-1 -d 127.0.0.1/32 -p tcp -m tcp --dport 8002 -j DNAT --to-destination 10.88.0.2:80
";

    fn to(address: &str) -> Option<String> {
        place(&Connection::local(address.parse().unwrap()))
    }

    fn place(connection: &Connection) -> Option<String> {
        met(RULES, connection.chain(), connection).map(|found| format!("{} {}", found.chain, found.to))
    }

    #[test]
    fn what_comes_from_a_container_meets_the_way_in() {
        let from = |interface: &str, to: &str| {
            let interface = Some(interface.to_owned());
            place(&Connection {
                source: [172, 17, 0, 3].into(),
                interface,
                to: to.parse().unwrap(),
            })
        };
        // Docker's own bridge goes to the proxy, every other bridge by translation.
        assert_eq!(from("docker0", "172.17.0.1:8003"), None);
        assert_eq!(from("br-1", "172.17.0.1:8003").as_deref(), Some("DOCKER 172.17.0.2:80"));
        assert_eq!(from("br-1", "172.17.0.1:8002"), None, "podman's rule names loopback");
        assert_eq!(from("br-1", "172.17.0.1:8005").as_deref(), Some("FROM-3 172.17.0.2:80"));
    }

    #[test]
    fn docker_leaves_loopback_to_its_proxy_and_podman_does_not() {
        assert_eq!(to("127.0.0.1:8001"), None);
        assert_eq!(to("172.17.0.1:8003").as_deref(), Some("DOCKER 172.17.0.2:80"));
        assert_eq!(to("127.0.0.1:8002").as_deref(), Some("NETAVARK-DN-1 10.88.0.2:80"));
        assert_eq!(to("127.0.0.1:8004"), None);
    }

    #[test]
    fn rules_of_the_other_family_are_walked_alike() {
        let rules = "-A OUTPUT ! -d ::1/128 -m addrtype --dst-type LOCAL -j DOCKER\n\
                     -A DOCKER -d fd00:1::/64 -p tcp -m tcp --dport 8001 -j DNAT --to-destination [fd00:2::2]:80\n";
        let to = |to: &str| met(rules, "OUTPUT", &Connection::local(to.parse().unwrap())).map(|found| found.to);
        assert_eq!(to("[fd00:1::1]:8001"), Some("[fd00:2::2]:80".parse().unwrap()));
        assert_eq!(to("[::1]:8001"), None);
        assert_eq!(to("10.0.0.1:8001"), None);
        assert!(within("fd00::5".parse().unwrap(), "::/0") && !within("10.0.0.1".parse().unwrap(), "::/0"));
        assert!(within("10.0.0.1".parse().unwrap(), "10.0.0.1") && !within("10.0.0.2".parse().unwrap(), "10.0.0.1"));
    }

    #[test]
    fn what_a_chain_accepts_meets_no_later_rule_and_what_it_returns_does() {
        let dnat = "-A OUTPUT -d 127.0.0.1/32 -p tcp -j DNAT --to-destination 10.0.0.2:80\n";
        for (verdict, is_met) in [("ACCEPT", false), ("RETURN", true)] {
            let rules = format!("-A OUTPUT -j OWN\n-A OWN -j {verdict}\n{dnat}");
            let found = met(&rules, "OUTPUT", &Connection::local("127.0.0.1:80".parse().unwrap()));
            assert_eq!(found.is_some(), is_met, "{verdict}");
        }
    }

    #[test]
    fn rules_of_nft_are_read() {
        let rules = "table inet netavark {\n\tchain nv_1_dnat {\n\t\tip daddr 127.0.0.1 tcp dport 8002 dnat ip to 10.88.0.2:80\n";
        let found = nft_rule(rules, "127.0.0.1:8002".parse().unwrap()).unwrap();
        assert_eq!(
            (found.chain.as_str(), found.to.to_string().as_str()),
            ("nv_1_dnat", "10.88.0.2:80")
        );
        assert_eq!(nft_rule(rules, "192.0.2.1:8002".parse().unwrap()), None);
        let walked = rules.replace("inet netavark", "ip nat");
        assert_eq!(nft_rule(&walked, "127.0.0.1:8002".parse().unwrap()), None);
    }
}
