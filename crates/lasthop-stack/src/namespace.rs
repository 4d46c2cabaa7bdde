//! A network namespace of a run, with a veth pair to lasthop's own.
//!
//! The namespace has no name that could outlive the run: a child of the guard holds it, and the kernel removes it with
//! that process, including both ends of the pair. The outer end is named after the sandbox (`lh-abcdef` for
//! `lasthop-abcdef`). The guard, a sweep and `lasthop clean` remove the end by this name, so that it is gone at once.

use std::{
    hash::{BuildHasher as _, Hasher as _, RandomState},
    net::{Ipv4Addr, Ipv6Addr},
    path::{Path, PathBuf},
    time::Duration,
};

use lasthop_system::{
    files, interrupt,
    lines::Lines,
    namespace::{READY, ip},
};

use super::{
    guard::{Guard, GuardedChild, SpawnRequest},
    veth::{RECORD, link_name},
};

/// Name of the inner end of the pair.
const INSIDE: &str = "lasthop0";
/// The longest answer of the holding process, in bytes: that the namespace exists, or why not.
const WORD: usize = 4096;
/// The longest time for the answer of the holding process.
const TIMEOUT: Duration = Duration::from_secs(10);
/// 198.18.0.0/15 is reserved for network benchmarks (RFC 2544), so no real network uses it.
const RANGE: u32 = u32::from_be_bytes([198, 18, 0, 0]);
/// Subnets of four addresses in [`RANGE`].
const SUBNETS: u32 = 1 << 15;
/// Unique local addresses (RFC 4193), with `lasthop` in place of the random part.
const RANGE6: [u16; 4] = [0xfd6c, 0x6173, 0x7468, 0x6f70];

/// A namespace that lasthop created. Dropping it removes it.
#[derive(Debug)]
pub struct Namespace {
    /// Name of the outer end of the pair.
    link: String,
    /// This machine's address on the pair, where services listen for clients inside the namespace.
    pub outside: Ipv4Addr,
    pub inside: Ipv4Addr,
    /// Like `outside`; `None` if the kernel has no IPv6.
    pub outside6: Option<Ipv6Addr>,
    holder: GuardedChild,
    /// The holder ends with its input.
    _lines: Lines,
}

impl Namespace {
    /// Creates a namespace for the run with this sandbox.
    pub fn make(guard: &Guard, lasthop: &str, sandbox: &Path) -> Result<Self, String> {
        let refused = |cause: &str| {
            format!("cannot create a network namespace: {cause}; you need root, or CAP_SYS_ADMIN and CAP_NET_ADMIN")
        };
        // Random, so that runs that start at the same time choose different subnets.
        let first = RandomState::new().build_hasher().finish() as u32 % SUBNETS;
        let subnet = free_subnet(&used()?, first).ok_or("no subnet of 198.18.0.0/15 is free on this machine")?;
        let (holder, mut lines) = guard.spawn_with_lines(SpawnRequest::of([lasthop, "hold"]), None, WORD)?;
        let word = lines.hear(TIMEOUT).map_err(|error| refused(&error.to_string()))?;
        let word = String::from_utf8_lossy(&word);
        if word != READY {
            return Err(refused(word.trim_start_matches("error: ")));
        }
        let address = |number: u32| Ipv4Addr::from(subnet + number);
        let link = link_name(sandbox);
        // Before the pair exists: the cleanup of a run that was killed here looks for this file.
        files::write_private(&sandbox.join(RECORD), link.as_bytes())
            .map_err(|error| format!("cannot write to the sandbox: {error}"))?;
        // From here on, an early return drops this and removes whatever exists of the pair.
        let mut made = Self {
            link,
            outside: address(1),
            inside: address(2),
            outside6: None,
            holder,
            _lines: lines,
        };
        made.add_pair()?;
        made.outside6 = made.add_addresses6(subnet);
        Ok(made)
    }

    /// The file that opens the namespace, valid as long as the namespace.
    pub fn file(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/ns/net", self.holder.pid))
    }

    fn add_pair(&self) -> Result<(), String> {
        let link = &self.link;
        let pid = self.holder.pid.to_string();
        ip(
            None,
            &[
                "link", "add", link, "type", "veth", "peer", "name", INSIDE, "netns", &pid,
            ],
        )?;
        ip(None, &["address", "add", &format!("{}/30", self.outside), "dev", link])?;
        ip(None, &["link", "set", link, "up"])?;
        let inside = self.file();
        // The kernel creates network namespaces with loopback down.
        ip(Some(&inside), &["link", "set", "lo", "up"])?;
        ip(
            Some(&inside),
            &["address", "add", &format!("{}/30", self.inside), "dev", INSIDE],
        )?;
        ip(Some(&inside), &["link", "set", INSIDE, "up"]).map(drop)
    }

    /// Adds addresses without duplicate address detection, which would make an address unusable for a second.
    fn add_addresses6(&self, subnet: u32) -> Option<Ipv6Addr> {
        // Each IPv4 subnet has four addresses; the subnet's number fits into one part of an IPv6 address.
        let own = ((subnet - RANGE) / 4) as u16;
        let [a, b, c, d] = RANGE6;
        let address = |number| Ipv6Addr::new(a, b, c, d, 0, 0, own, number);
        for (number, namespace, link) in [(1, None, &*self.link), (2, Some(self.file()), INSIDE)] {
            let own = format!("{}/126", address(number));
            ip(namespace.as_deref(), &["address", "add", &own, "dev", link, "nodad"]).ok()?;
        }
        Some(address(1))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _shield = interrupt::shield();
        let _ = self.holder.stop(libc::SIGKILL, Duration::ZERO);
        // The kernel would remove the pair with the namespace, but some time after the holder's end.
        let _ = ip(None, &["link", "delete", &self.link]);
    }
}

/// All IPv4 ranges in this machine's addresses and routes.
fn used() -> Result<Vec<(u32, u32)>, String> {
    let mut text = ip(None, &["-o", "-4", "address", "show"])?;
    text.push_str(&ip(None, &["-4", "route", "show", "table", "all"])?);
    Ok(ranges(&text))
}

/// First and last address of every address or network in a text, except the default route.
fn ranges(text: &str) -> Vec<(u32, u32)> {
    let range = |word: &str| {
        let (address, prefix) = word.split_once('/').unwrap_or((word, "32"));
        let address = u32::from(address.parse::<Ipv4Addr>().ok()?);
        let prefix: u32 = prefix.parse().ok().filter(|prefix| (1..=32).contains(prefix))?;
        // A shift by all 32 bits overflows, and /32 has no host bits.
        let hosts = u32::MAX.checked_shr(prefix).unwrap_or(0);
        Some((address & !hosts, address | hosts))
    };
    text.split_ascii_whitespace().filter_map(range).collect()
}

fn free_subnet(used: &[(u32, u32)], first: u32) -> Option<u32> {
    let mut subnets = (0..SUBNETS).map(|step| RANGE + (first + step) % SUBNETS * 4);
    subnets.find(|subnet| used.iter().all(|(low, high)| high < subnet || *low > subnet + 3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subnet_that_anything_names_is_not_taken() {
        let text = "1: lo inet 127.0.0.1/8 scope host lo\ndefault via 10.0.0.1 dev eth0\n198.18.0.0/30 dev x\n0.0.0.0/0 dev y\n";
        let used = ranges(text);
        assert_eq!(used.len(), 3, "{used:?}");
        assert_eq!(free_subnet(&used, 0), Some(RANGE + 4));
        assert_eq!(free_subnet(&used, 5), Some(RANGE + 20));
        assert_eq!(free_subnet(&ranges("198.18.0.0/15"), 7), None);
        assert_eq!(
            free_subnet(&ranges("198.18.0.0/16"), 7),
            Some(u32::from(Ipv4Addr::new(198, 19, 0, 0)))
        );
    }
}
