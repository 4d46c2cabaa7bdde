//! The path from a client on this machine to a server, hop by hop, from the kernel's tables and the list of processes.
//! It shows what "published port" or "bridge" really means on this machine.

use std::{
    collections::BTreeSet,
    fs,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::{Path, PathBuf},
};

use lasthop_model::quantity::thousands;
use lasthop_protocol::spec::Address;
use lasthop_system::{files, listener, own_address_towards, process};

use super::nat::{self, Connection};

/// Hops of a path that name each other in a circle end here.
const LONGEST: usize = 8;
/// The most descriptors of a container's monitor, and the most interfaces of a container, that are looked at. What calls
/// itself one may be a stranger's.
const MOST: usize = 1_000;
/// The longest number of an interface, in bytes.
const NUMBER: u64 = 16;

/// The hops after a client on this machine, in words.
pub fn decode(address: &Address) -> Vec<String> {
    match address {
        Address::Tcp(address) => tcp(Connection::local(canonical(*address))),
        Address::Unix(path) => {
            let volume = volume_of(path).map_or_else(String::new, |name| format!(" on the volume {name}"));
            vec![
                format!("Unix socket{volume} {}", path.display()),
                socket_server(address, path),
            ]
        }
        other => vec![format!("socket {other}"), server_of(address)],
    }
}

/// The engine's volume that a path leads into: podman and Docker both keep them in `volumes/NAME/_data`.
fn volume_of(path: &Path) -> Option<&str> {
    let names: Vec<&str> = path.iter().filter_map(|name| name.to_str()).collect();
    names
        .windows(3)
        .find(|three| three[0] == "volumes" && three[2] == "_data")
        .map(|three| three[1])
}

/// The hops after a client that may be in a network namespace of its own, as in a container.
pub fn decode_from(client: i32, address: &Address) -> Vec<String> {
    match address {
        Address::Tcp(address) if network_of(client) != network_of("self") => from_within(client, canonical(*address)),
        _ => decode(address),
    }
}

/// `::ffff:127.0.0.1` is 127.0.0.1.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// From another network namespace an address is its own, or beyond the bridge that it hangs on.
fn from_within(client: i32, address: SocketAddr) -> Vec<String> {
    let own = own_addresses(client);
    if address.ip().is_loopback() || own.contains(&address.ip()) {
        return vec![format!(
            "loopback of the shared network namespace → {}",
            listener_in(client, address)
        )];
    }
    let Some((bridge, veth)) = bridge_of_namespace(client) else {
        return vec![format!(
            "{address} (the route out of the client's network namespace is unknown)"
        )];
    };
    let mut hops = vec![veth];
    let within = bridge_of(address.ip()).filter(|(name, gateway)| *name == bridge && *gateway != address.ip());
    let source = own.iter().find(|own| own.is_ipv4() == address.is_ipv4());
    match (within, source) {
        (Some((_, gateway)), _) => hops.extend(in_bridge(&bridge, gateway, address)),
        (None, Some(source)) => {
            hops.push(format!("bridge {bridge}"));
            hops.extend(tcp(Connection {
                source: *source,
                interface: Some(bridge),
                to: address,
            }));
        }
        (None, None) => hops.push(format!("{address} (the client has no address of its family)")),
    }
    hops
}

/// Addresses of a network namespace, except those of its loopback.
fn own_addresses(pid: i32) -> Vec<IpAddr> {
    let mut last = None;
    // What a line says is of the address before.
    let address = |line: String| {
        let is_own = line.contains("/32 host LOCAL");
        let named = line
            .trim()
            .strip_prefix("|-- ")
            .and_then(|ip| ip.parse::<Ipv4Addr>().ok());
        std::mem::replace(&mut last, named).filter(|_| is_own)
    };
    let four = files::lines(format!("/proc/{pid}/net/fib_trie")).filter_map(address);
    let mut found: Vec<IpAddr> = four.map(IpAddr::from).collect();
    let six = files::lines(format!("/proc/{pid}/net/if_inet6"));
    found.extend(six.filter_map(|line| from_hexadecimal(line.split_ascii_whitespace().next()?)));
    found.retain(|address| !address.is_loopback());
    found.dedup();
    found
}

/// 32 digits, as `if_inet6` and `ipv6_route` have them.
fn from_hexadecimal(digits: &str) -> Option<IpAddr> {
    u128::from_str_radix(digits, 16)
        .ok()
        .map(|bits| Ipv6Addr::from_bits(bits).into())
}

/// The bridge that a network namespace hangs on, and the pair of interfaces by which it does.
fn bridge_of_namespace(pid: i32) -> Option<(String, String)> {
    let bridges = fs::read_dir("/sys/class/net").ok()?.flatten();
    let mut bridges = bridges.filter(|entry| entry.path().join("bridge").exists());
    bridges.find_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let veth = veth_of(&name, pid)?;
        Some((name, veth))
    })
}

fn tcp(mut connection: Connection) -> Vec<String> {
    let mut hops = Vec::new();
    let mut at = connection.to;
    for _ in 0..LONGEST {
        match nat::dnat(&connection) {
            Ok(Some(rule)) => {
                hops.push(format!("DNAT to {} (chain {})", rule.to, rule.chain));
                if let Some(tracked) = conntrack() {
                    hops.push(tracked);
                }
                at = rule.to;
                connection.to = at;
                continue;
            }
            Err(reason) if hops.is_empty() => hops.push(format!("[packet filter not readable: {reason}]")),
            _ => {}
        }
        // This machine's own address on a bridge is routed to the bridge too, but no container has it.
        if let Some((bridge, gateway)) = bridge_of(at.ip()).filter(|(_, gateway)| *gateway != at.ip()) {
            hops.extend(in_bridge(&bridge, gateway, at));
            return hops;
        }
        let Some((hop, next)) = userland(at) else {
            let loopback = if at.ip().is_loopback() { "loopback → " } else { "" };
            hops.push(format!("{loopback}{}", server_of(&Address::Tcp(at))));
            return hops;
        };
        hops.push(hop);
        // The proxy is a client of its own, on this machine.
        let Some(next) = next else { return hops };
        at = next;
        connection = Connection::local(at);
    }
    hops
}

/// Kernels track connections wherever a rule asks for it, which costs time and a place in a table of limited size.
fn conntrack() -> Option<String> {
    let number = |name: &str| -> Option<String> {
        let text = files::text(format!("/proc/sys/net/netfilter/nf_conntrack_{name}")).ok()?;
        Some(thousands(text.trim()))
    };
    Some(format!(
        "conntrack ({} of {} entries)",
        number("count")?,
        number("max")?
    ))
}

/// A proxy process that copies bytes for a published port, and where it goes on to if its command line says so.
fn userland(at: SocketAddr) -> Option<(String, Option<SocketAddr>)> {
    const PROXIES: [&str; 6] = [
        "docker-proxy",
        "rootlessport",
        "exe",
        "slirp4netns",
        "pasta",
        "rootlesskit",
    ];
    let owners = listener::owners(&Address::Tcp(at));
    let owner = owners
        .into_iter()
        .find(|owner| PROXIES.iter().any(|name| owner.command.starts_with(name)))?;
    let words = process::arguments(owner.pid);
    let after = |option: &str| words.iter().skip_while(|word| *word != option).nth(1);
    let ip: Option<IpAddr> = after("-container-ip").and_then(|ip| ip.parse().ok());
    let port = after("-container-port").and_then(|port| port.parse().ok());
    let next = ip.zip(port).map(SocketAddr::from);
    let name = match owner.command.as_str() {
        // rootlessport runs from /proc/self/exe.
        "exe" if words.iter().any(|word| word.contains("rootlessport")) => "rootlessport",
        name => name,
    };
    let mut hop = format!("{name} (userland proxy, pid {})", owner.pid);
    if name == "rootlessport"
        && let Some(server) = behind_rootlessport(owner.pid, at.port())
    {
        hop.push_str(&format!(" → {server}"));
    }
    Some((hop, next))
}

/// The server that rootlessport passes bytes to, where its port has the same number. Its command line says nothing. But
/// it ends with its container, which it learns from a pipe that only the monitor of that container holds. A pipe that
/// several monitors have inherited proves nothing.
fn behind_rootlessport(proxy: i32, port: u16) -> Option<String> {
    let mut monitors = process::all();
    monitors.retain(|pid| listener::command_of(*pid) == "conmon");
    let monitors: Vec<_> = monitors.into_iter().map(|pid| (pid, pipes_of(pid))).collect();
    let mut only_holders = BTreeSet::new();
    for pipe in pipes_of(proxy) {
        let mut holders = monitors.iter().filter(|(_, pipes)| pipes.contains(&pipe));
        only_holders.extend(holders.next().filter(|_| holders.next().is_none()).map(|(pid, _)| *pid));
    }
    let monitor = only_holders.first().filter(|_| only_holders.len() == 1)?;
    // The first child of conmon is the first process of the container.
    let inside = *process::descendants(*monitor).first()?;
    let (pid, command) = listening_in(inside, port)?;
    Some(format!(
        "{command} (pid {pid}, network namespace of pid {inside}) on port {port}"
    ))
}

/// Pipes of a process other than its standard input, output and error.
fn pipes_of(pid: i32) -> BTreeSet<PathBuf> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    entries
        .take(MOST)
        .filter(|entry| !["0", "1", "2"].iter().any(|given| entry.file_name() == *given))
        .filter_map(|entry| fs::read_link(entry.path()).ok())
        .filter(|link| link.to_string_lossy().starts_with("pipe:"))
        .collect()
}

/// The bridge that an address is routed to, and this machine's own address on it.
fn bridge_of(ip: IpAddr) -> Option<(String, IpAddr)> {
    let table = if ip.is_ipv4() { "route" } else { "ipv6_route" };
    let name = interface_to(ip, files::lines(format!("/proc/net/{table}")))?;
    if !fs::exists(format!("/sys/class/net/{name}/bridge")).ok()? {
        return None;
    }
    Some((name, own_address_towards(ip).ok()?))
}

/// The interface of the narrowest route but the default one, from `/proc/net/route` or `/proc/net/ipv6_route`. Of IPv6,
/// addresses of this machine are routed to loopback.
fn interface_to(ip: IpAddr, table: impl Iterator<Item = String>) -> Option<String> {
    let route = |line: String| {
        let columns: Vec<&str> = line.split_ascii_whitespace().collect();
        let number = |at: usize| u32::from_str_radix(columns.get(at)?, 16).ok();
        let (network, prefix, name) = match ip {
            IpAddr::V4(_) => {
                // The bytes are in the order of the network, but the kernel prints them as one word of the machine's
                // order.
                let network: IpAddr = Ipv4Addr::from(u32::from_be(number(1)?)).into();
                (network, number(7)?.count_ones(), columns.first()?)
            }
            IpAddr::V6(_) => (from_hexadecimal(columns.first()?)?, number(1)?, columns.last()?),
        };
        (prefix > 0 && nat::within(ip, &format!("{network}/{prefix}"))).then(|| (prefix, (*name).to_owned()))
    };
    let narrowest = table.filter_map(route).max_by_key(|(prefix, _)| *prefix);
    narrowest.map(|(_, name)| name)
}

fn in_bridge(bridge: &str, gateway: IpAddr, at: SocketAddr) -> Vec<String> {
    let mtu = files::text(format!("/sys/class/net/{bridge}/mtu")).unwrap_or_default();
    let mut hops = vec![format!("bridge {bridge} ({gateway}, MTU {})", mtu.trim())];
    let Some((inside, veth)) = namespace_with(at.ip(), bridge) else {
        hops.push(format!("{at} (no process on this machine has this address now)"));
        return hops;
    };
    hops.extend(veth);
    hops.push(listener_in(inside, at));
    hops
}

fn listener_in(inside: i32, at: SocketAddr) -> String {
    match listening_in(inside, at.port()) {
        Some((pid, command)) => format!("{command} (pid {pid}, network namespace of pid {inside}) on {at}"),
        None => format!("{at} (no process listens there)"),
    }
}

/// A process whose network namespace has the address, and its pair of interfaces on this bridge. Networks of other
/// namespaces may have given out the same address: one without a pair comes last. Those of other users are seen by root
/// only.
fn namespace_with(ip: IpAddr, bridge: &str) -> Option<(i32, Option<String>)> {
    let having = namespaces().into_iter().filter(|pid| own_addresses(*pid).contains(&ip));
    having
        .map(|pid| (pid, veth_of(bridge, pid)))
        .min_by_key(|(_, veth)| veth.is_none())
}

/// The pair of the namespace's interface on the bridge: its own `/sys` tells the number of the other end.
fn veth_of(bridge: &str, pid: i32) -> Option<String> {
    let inside = fs::read_dir(format!("/proc/{pid}/root/sys/class/net")).ok()?;
    let links: Vec<(String, String)> = inside
        .flatten()
        .take(MOST)
        .filter_map(|entry| {
            Some((
                entry.file_name().into_string().ok()?,
                read(&entry.path().join("iflink"))?,
            ))
        })
        .collect();
    let members = fs::read_dir(format!("/sys/class/net/{bridge}/brif")).ok()?;
    members.flatten().find_map(|member| {
        let name = member.file_name().into_string().ok()?;
        let index = read(&Path::new("/sys/class/net").join(&name).join("ifindex"))?;
        let (own, _) = links.iter().find(|(own, link)| own != "lo" && *link == index)?;
        Some(format!("veth {name}–{own}"))
    })
}

/// A number of an interface, which a container has made if the path leads into one.
fn read(path: &Path) -> Option<String> {
    let bytes = files::first(files::open(path).ok()?, NUMBER).ok()?;
    Some(String::from_utf8(bytes).ok()?.trim().to_owned())
}

/// Who listens at a port in the network namespace of a process.
fn listening_in(inside: i32, port: u16) -> Option<(i32, String)> {
    let inodes = listener::listening_inodes(inside, port);
    let namespace = network_of(inside);
    let mut members = process::all()
        .into_iter()
        .filter(|pid| namespace.is_some() && network_of(pid) == namespace);
    let pid = members.find(|pid| listener::holds_any(*pid, &inodes))?;
    Some((pid, listener::command_of(pid)))
}

fn server_of(address: &Address) -> String {
    match listener::owners(address).into_iter().next() {
        Some(owner) => format!("{} (pid {}{})", owner.command, owner.pid, contained(owner.pid)),
        None => "no process listens there, or only root can see it".to_owned(),
    }
}

/// Whether a process sees other processes than this one, as in a container. Its files say less: a server may get a view
/// of them without a container.
fn contained(pid: i32) -> &'static str {
    let pids = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
    if pids(&pid.to_string()) == pids("self") {
        ""
    } else if network_of(pid) == network_of("self") {
        ", in a container on the host's network"
    } else {
        ", in a container"
    }
}

/// A server in another network namespace holds a socket that only the tables of that namespace show. The path is taken
/// to be the same in its container.
fn socket_server(address: &Address, path: &Path) -> String {
    let shown = path.to_string_lossy();
    let here = !listener::owners(address).is_empty();
    let namespaces = if here { Vec::new() } else { namespaces() };
    let elsewhere = namespaces.into_iter().find_map(|inside| {
        let inodes = listener::unix_listening(inside, &shown);
        let mut all = process::all().into_iter();
        all.find(|pid| listener::holds_any(*pid, &inodes))
    });
    match elsewhere {
        Some(pid) => format!("{} (pid {pid}{})", listener::command_of(pid), contained(pid)),
        None => server_of(address),
    }
}

/// What identifies the network namespace of a process.
fn network_of(pid: impl std::fmt::Display) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/ns/net")).ok()
}

/// A process of each network namespace other than this one.
fn namespaces() -> Vec<i32> {
    let mut seen: BTreeSet<_> = network_of("self").into_iter().collect();
    let all = process::all().into_iter();
    all.filter(|pid| network_of(pid).is_some_and(|namespace| seen.insert(namespace)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_is_known_by_its_folder() {
        let of = |path: &str| volume_of(Path::new(path)).map(str::to_owned);
        assert_eq!(
            of("/var/lib/containers/storage/volumes/lasthop-x-app/_data/0.1.app/socket").as_deref(),
            Some("lasthop-x-app")
        );
        assert_eq!(of("/var/lib/docker/volumes/run/_data/socket").as_deref(), Some("run"));
        assert_eq!(of("/run/volumes/app/socket"), None);
    }

    #[test]
    fn routes_of_both_families_lead_to_an_interface() {
        let four = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n\
                    eth0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\n\
                    br-1\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\n";
        #[cfg(target_endian = "little")]
        assert_eq!(
            interface_to([172, 17, 0, 2].into(), four.lines().map(str::to_owned)).as_deref(),
            Some("br-1")
        );
        assert_eq!(
            interface_to([10, 0, 0, 9].into(), four.lines().map(str::to_owned)),
            None,
            "the default route is no bridge"
        );
        let zero = "00000000000000000000000000000000";
        let line = |network: &str, prefix: &str, name: &str| {
            format!("{network} {prefix} {zero} 00 {zero} 00000100 00000001 00000000 00000001 {name}\n")
        };
        let six = line("fd000001000000000000000000000000", "40", "br-1")
            + &line("fd000001000000000000000000000001", "80", "lo")
            + &line(zero, "00", "eth0");
        let to = |ip: &str| interface_to(ip.parse().unwrap(), six.lines().map(str::to_owned));
        assert_eq!(to("fd00:1::2").as_deref(), Some("br-1"));
        assert_eq!(to("fd00:1::1").as_deref(), Some("lo"));
        assert_eq!(to("fd00:2::1"), None);
    }

    #[test]
    fn an_address_that_maps_the_other_family_is_of_that_family() {
        assert_eq!(
            canonical("[::ffff:127.0.0.1]:80".parse().unwrap()),
            "127.0.0.1:80".parse().unwrap()
        );
    }
}
