//! Packet size and packet filter for TCP on loopback, in the network namespace of the calling thread.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    net::{Ipv4Addr, TcpListener},
    time::Duration,
};

use lasthop_trial::address::Address;
use rustix::net::netlink;

use crate::{
    connect,
    facts::Facts,
    netlink::{Attributes, Dumps, u32_at},
};

// include/uapi/linux/rtnetlink.h and if_link.h
const GET_LINKS: u16 = 18;
/// Size of struct ifinfomsg, before the attributes of a message.
const LINK: usize = 16;
const LINK_NAME: u16 = 3;
const LINK_MTU: u16 = 4;

// include/uapi/linux/netfilter/nfnetlink.h and nf_tables.h
const GET_CHAINS: u16 = 0xa04;
const GET_RULES: u16 = 0xa07;
/// Size of family, version and resource id, before the attributes of a message.
const GENERAL: usize = 4;
const TABLE: u16 = 1;
/// Attribute of a rule: the name of its chain.
const CHAIN: u16 = 2;
const NAME: u16 = 3;
const HOOK: u16 = 4;
const HOOK_NUMBER: u16 = 1;
// include/uapi/linux/netfilter.h. A packet on loopback is never forwarded.
const INET: u8 = 1;
const IPV4: u8 = 2;
const HOOKS: [&str; 5] = ["prerouting", "input", "forward", "output", "postrouting"];
const FORWARD: u32 = 2;

/// The MTU of loopback, in bytes. (`/sys` shows the namespace in which it was mounted.)
///
/// # Errors
///
/// The kernel refuses.
pub fn mtu() -> io::Result<Option<u32>> {
    let mut found = None;
    Dumps::open(None)?.ask(GET_LINKS, &[0; LINK], |message| {
        let link = Attributes(message.get(LINK..).unwrap_or_default());
        if link.value(LINK_NAME) == Some(b"lo\0") {
            found = link.value(LINK_MTU).and_then(|mtu| u32_at(mtu, 0));
        }
    })?;
    Ok(found)
}

/// Chains and rules of nf_tables that an IPv4 packet on loopback may pass: chains called by hooks on its path, and all
/// chains of the same tables, to which they may jump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passed {
    pub chains: u32,
    pub rules: u32,
    /// Rules by hook, in the chains that it calls, without chains that these jump to.
    pub hooks: BTreeMap<&'static str, u32>,
}

/// The timeout of a connection on loopback.
const TIMEOUT: Duration = Duration::from_secs(1);

/// A table by its family and name.
type Table = (u8, Vec<u8>);

struct Chain {
    table: Table,
    name: Vec<u8>,
    /// The hook that calls the chain.
    hook: Option<u32>,
}

impl Chain {
    fn parse(message: &[u8]) -> Option<Self> {
        let attributes = Attributes(message.get(GENERAL..)?);
        let number = |hook| Attributes(hook).value(HOOK_NUMBER)?.try_into().ok();
        Some(Self {
            table: table(message)?,
            name: attributes.value(NAME)?.to_vec(),
            hook: attributes.value(HOOK).and_then(number).map(u32::from_be_bytes),
        })
    }

    fn is_called(&self) -> bool {
        self.hook().is_some()
    }

    /// The name of the hook that calls the chain, if packets on loopback pass the hook.
    fn hook(&self) -> Option<&'static str> {
        let hook = self.hook.filter(|hook| *hook != FORWARD)?;
        HOOKS.get(hook as usize).copied()
    }
}

fn table(message: &[u8]) -> Option<Table> {
    let family = *message.first()?;
    let name = Attributes(message.get(GENERAL..)?).value(TABLE)?;
    [INET, IPV4].contains(&family).then(|| (family, name.to_vec()))
}

/// The chains and rules that an IPv4 packet on loopback may pass, in the network namespace of the calling thread.
///
/// # Errors
///
/// The kernel refuses without `CAP_NET_ADMIN`.
pub fn passed() -> io::Result<Passed> {
    let mut dumps = Dumps::open(netlink::NETFILTER)?;
    let mut chains = Vec::new();
    let mut rules = Vec::new();
    ask(&mut dumps, GET_CHAINS, |message| chains.extend(Chain::parse(message)))?;
    ask(&mut dumps, GET_RULES, |message| {
        let chain = || Attributes(message.get(GENERAL..)?).value(CHAIN);
        rules.extend(table(message).zip(chain().map(<[u8]>::to_vec)));
    })?;
    Ok(on_the_way(&chains, &rules))
}

fn ask(dumps: &mut Dumps, kind: u16, each: impl FnMut(&[u8])) -> io::Result<()> {
    match dumps.ask(kind, &[0; GENERAL], each) {
        // A kernel without nf_tables has no rules.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
        asked => asked,
    }
}

fn on_the_way(chains: &[Chain], rules: &[(Table, Vec<u8>)]) -> Passed {
    let called: BTreeSet<&Table> = chains
        .iter()
        .filter(|chain| chain.is_called())
        .map(|chain| &chain.table)
        .collect();
    let passed: BTreeSet<(&Table, &[u8])> = chains
        .iter()
        .filter(|chain| chain.is_called() || chain.hook.is_none() && called.contains(&chain.table))
        .map(|chain| (&chain.table, &*chain.name))
        .collect();
    let in_chain = |chain: &Chain| {
        let of = rules
            .iter()
            .filter(|(table, name)| *table == chain.table && *name == chain.name);
        of.count() as u32
    };
    let mut hooks = BTreeMap::new();
    for chain in chains {
        if let Some(hook) = chain.hook() {
            *hooks.entry(hook).or_default() += in_chain(chain);
        }
    }
    let rules = rules.iter().filter(|(table, chain)| passed.contains(&(table, chain)));
    Passed {
        chains: passed.len() as u32,
        rules: rules.count() as u32,
        hooks,
    }
}

/// Whether the kernel tracks connections on loopback: opens some and compares the counts of tracked connections, which
/// everybody may read. `None` if no connection can be opened.
#[must_use]
pub fn is_tracked(facts: &Facts) -> Option<bool> {
    let count = || facts.number("/proc/sys/net/netfilter/nf_conntrack_count");
    let Some(before) = count() else { return Some(false) };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).ok()?;
    let address = Address::Tcp(listener.local_addr().ok()?);
    // Several connections, because the kernel may forget others meanwhile.
    let held: io::Result<Vec<_>> = (0..8).map(|_| connect(&address, TIMEOUT)).collect();
    held.ok().map(|_held| count().is_some_and(|after| after > before))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(family: u8, table: &str, name: &str, hook: Option<u32>) -> Chain {
        Chain {
            table: (family, table.into()),
            name: name.into(),
            hook,
        }
    }

    /// The chains that podman leaves after its last container with a published port.
    #[test]
    fn chains_on_the_way_count_with_what_they_may_jump_to() {
        let chains = [
            chain(IPV4, "nat", "PREROUTING", Some(0)),
            chain(IPV4, "nat", "OUTPUT", Some(3)),
            chain(IPV4, "nat", "POSTROUTING", Some(4)),
            chain(IPV4, "nat", "DNAT", None),
            chain(IPV4, "filter", "FORWARD", Some(FORWARD)),
            chain(IPV4, "filter", "ENGINE", None),
            chain(INET, "ingress", "early", Some(5)),
        ];
        let rule = |table: &str, chain: &str| ((IPV4, table.into()), chain.into());
        let rules = [
            rule("nat", "OUTPUT"),
            rule("nat", "OUTPUT"),
            rule("nat", "DNAT"),
            rule("filter", "FORWARD"),
            rule("filter", "ENGINE"),
        ];
        let passed = |chains, rules, hooks: &[(&'static str, u32)]| Passed {
            chains,
            rules,
            hooks: hooks.iter().copied().collect(),
        };
        let hooks = [("output", 2), ("postrouting", 0), ("prerouting", 0)];
        assert_eq!(on_the_way(&chains, &rules), passed(4, 3, &hooks));
        assert_eq!(on_the_way(&[], &[]), passed(0, 0, &[]));
    }

    #[test]
    fn a_chain_is_read_with_its_hook() {
        // Lengths and types as the kernel writes them, the hook's number in network order.
        let attribute = |kind: u16, value: &[u8]| {
            let mut all = [4 + value.len() as u16, kind].map(u16::to_ne_bytes).concat();
            all.extend(value);
            all.resize(all.len().next_multiple_of(4), 0);
            all
        };
        let message = |family| {
            let hook = attribute(HOOK_NUMBER, &3_u32.to_be_bytes());
            let parts = [
                vec![family, 0, 0, 0],
                attribute(TABLE, b"nat\0"),
                attribute(NAME, b"OUTPUT\0"),
                attribute(HOOK | 0x8000, &hook),
            ];
            parts.concat()
        };
        let found = Chain::parse(&message(IPV4)).unwrap();
        assert_eq!((found.hook, found.is_called()), (Some(3), true));
        // Packets on IPv4 loopback do not pass bridges, ARP and IPv6.
        assert!(Chain::parse(&message(7)).is_none());
        for length in 0..message(IPV4).len() - 16 {
            assert!(Chain::parse(&message(IPV4)[..length]).is_none());
        }
    }

    /// Only root may read rules.
    #[test]
    fn the_kernel_answers() {
        assert!(passed().is_ok() || !rustix::process::geteuid().is_root());
        assert!(mtu().unwrap().unwrap() >= 1_500);
        assert!(is_tracked(&Facts::here()).is_some());
        assert_eq!(is_tracked(&Facts::below("/nowhere")), Some(false));
    }
}
