//! Where the kernel sends a connection from this machine: the `nat` table's way out, walked rule by rule.

use std::{
    net::{Ipv4Addr, SocketAddrV4},
    process::Command,
    time::Duration,
};

use crate::service::brief;

const TIMEOUT: Duration = Duration::from_secs(5);
/// Deeper than any engine nests its chains.
const DEPTH: usize = 16;

/// A rule that gives connections another destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dnat {
    pub to: SocketAddrV4,
    /// The chain that holds it: tells who wrote it.
    pub chain: String,
}

/// The rule that a connection from this machine to the address meets, if there is one. Only root may read the rules.
///
/// # Errors
/// The rules cannot be read: why.
pub fn dnat(address: SocketAddrV4) -> Result<Option<Dnat>, String> {
    let rules = match listed("iptables", &["-t", "nat", "-S"]) {
        Ok(rules) => rules,
        Err(error) => return in_nft(address).map_err(|other| format!("{error}; {other}")),
    };
    match walk(&rules, "OUTPUT", address, DEPTH) {
        Some(found) => Ok(Some(found)),
        // What another program has written with nft itself, iptables does not show.
        None => Ok(in_nft(address).unwrap_or(None)),
    }
}

fn listed(program: &str, arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new(program);
    command.args(arguments);
    let ended = brief::run_apart(command, TIMEOUT).map_err(|error| format!("{program}: {error}"))?;
    match ended.status.success() {
        true => Ok(ended.output),
        false => Err(format!("{program}: {}", ended.errors.lines().next().unwrap_or("no reason was given"))),
    }
}

/// Walks a chain of `iptables -S` as a connection that begins here would.
fn walk(rules: &str, chain: &str, address: SocketAddrV4, depth: usize) -> Option<Dnat> {
    let begin = format!("-A {chain} ");
    for rule in rules.lines().filter_map(|line| line.strip_prefix(&begin)) {
        let words: Vec<&str> = rule.split_ascii_whitespace().collect();
        if depth == 0 || !matches(&words, address) {
            continue;
        }
        match after(&words, "-j") {
            Some("DNAT") => {
                let to = after(&words, "--to-destination")?.parse().ok()?;
                return Some(Dnat { to, chain: chain.to_owned() });
            }
            Some("RETURN" | "ACCEPT") => return None,
            Some(next) => match walk(rules, next, address, depth - 1) {
                None => {}
                found => return found,
            },
            None => {}
        }
    }
    None
}

fn after<'a>(words: &[&'a str], option: &str) -> Option<&'a str> {
    words.iter().position(|word| *word == option).and_then(|at| words.get(at + 1).copied())
}

/// Whether every condition of a rule holds that is known here; a local connection has no input interface, and comes
/// from the address that it goes to.
fn matches(words: &[&str], address: SocketAddrV4) -> bool {
    let ip = *address.ip();
    (0..words.len()).all(|at| {
        let holds = match (words[at], words.get(at + 1)) {
            ("-d" | "-s", Some(net)) => within(ip, net),
            ("-i", Some(_)) => false,
            ("--dport", Some(ports)) => ports_hold(ports, address.port()),
            ("-p", Some(protocol)) => *protocol == "tcp",
            _ => return true,
        };
        holds != (at > 0 && words[at - 1] == "!")
    })
}

fn ports_hold(ports: &str, port: u16) -> bool {
    let (low, high) = ports.split_once(':').unwrap_or((ports, ports));
    matches!((low.parse::<u16>(), high.parse::<u16>()), (Ok(low), Ok(high)) if (low..=high).contains(&port))
}

fn within(ip: Ipv4Addr, net: &str) -> bool {
    let (base, prefix) = net.split_once('/').unwrap_or((net, "32"));
    let (Ok(base), Ok(prefix)) = (base.parse::<Ipv4Addr>(), prefix.parse::<u32>()) else { return false };
    let mask = u32::MAX.checked_shl(32 - prefix.min(32)).unwrap_or(0);
    u32::from(ip) & mask == u32::from(base) & mask
}

/// netavark and others that write nftables themselves: the rule that names the port and a new destination.
fn in_nft(address: SocketAddrV4) -> Result<Option<Dnat>, String> {
    Ok(nft_rule(&listed("nft", &["list", "ruleset"])?, address))
}

fn nft_rule(rules: &str, address: SocketAddrV4) -> Option<Dnat> {
    let (mut table, mut chain) = ("", "");
    for line in rules.lines().map(str::trim) {
        table = line.strip_prefix("table ").unwrap_or(table);
        if table.starts_with("ip nat") {
            // Those of iptables, which have been walked in their order.
            continue;
        }
        if let Some(name) = line.strip_prefix("chain ") {
            chain = name.trim_end_matches(" {");
        }
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let port = after(&words, "dport").and_then(|port| port.parse().ok()) == Some(address.port());
        let elsewhere = after(&words, "daddr").is_some_and(|net| !within(*address.ip(), net));
        let to =
            words.windows(3).find(|three| three[0] == "dnat").and_then(|_| words.iter().find_map(|w| w.parse().ok()));
        if let (true, false, Some(to)) = (port, elsewhere, to) {
            return Some(Dnat { to, chain: chain.to_owned() });
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
-A DOCKER -i docker0 -j RETURN
-A DOCKER -d 127.0.0.1/32 ! -i docker0 -p tcp -m tcp --dport 8001 -j DNAT --to-destination 172.17.0.2:80
-A DOCKER -d 172.17.0.1/32 ! -i docker0 -p tcp -m tcp --dport 8003 -j DNAT --to-destination 172.17.0.2:80
-A NETAVARK-HOSTPORT-DNAT -p tcp -m tcp --dport 8002 -j NETAVARK-DN-1
-A NETAVARK-DN-1 -d 127.0.0.1/32 -p tcp -m tcp --dport 8002 -j DNAT --to-destination 10.88.0.2:80
";

    fn to(address: &str) -> Option<String> {
        walk(RULES, "OUTPUT", address.parse().unwrap(), DEPTH).map(|found| format!("{} {}", found.chain, found.to))
    }

    #[test]
    fn docker_leaves_loopback_to_its_proxy_and_podman_does_not() {
        assert_eq!(to("127.0.0.1:8001"), None);
        assert_eq!(to("172.17.0.1:8003").as_deref(), Some("DOCKER 172.17.0.2:80"));
        assert_eq!(to("127.0.0.1:8002").as_deref(), Some("NETAVARK-DN-1 10.88.0.2:80"));
        assert_eq!(to("127.0.0.1:8004"), None);
    }

    #[test]
    fn rules_of_nft_are_read() {
        let rules = "table inet netavark {\n\tchain nv_1_dnat {\n\t\tip daddr 127.0.0.1 tcp dport 8002 dnat ip to 10.88.0.2:80\n";
        let found = nft_rule(rules, "127.0.0.1:8002".parse().unwrap()).unwrap();
        assert_eq!((found.chain.as_str(), found.to.to_string().as_str()), ("nv_1_dnat", "10.88.0.2:80"));
        assert_eq!(nft_rule(rules, "192.0.2.1:8002".parse().unwrap()), None);
        let walked = rules.replace("inet netavark", "ip nat");
        assert_eq!(nft_rule(&walked, "127.0.0.1:8002".parse().unwrap()), None);
    }
}
