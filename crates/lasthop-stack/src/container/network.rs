//! The bridge network of a run. The engine creates it and chooses a free subnet. lasthop assigns the addresses, so that
//! they are known before a container starts.

use std::net::Ipv4Addr;

use lasthop_system::own_address_towards;

use super::{
    engine::{Engine, EngineError},
    labels,
};

/// First host number that lasthop assigns. The engine uses lower numbers.
const FIRST: u32 = 16;

/// A network of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bridge {
    pub name: String,
    /// The host's address in the network.
    pub gateway: Ipv4Addr,
    subnet: Subnet,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Subnet {
    address: Ipv4Addr,
    prefix: u32,
}

impl Bridge {
    /// Creates the network of a run.
    pub fn create(engine: &Engine, run: &str, sandbox: &str) -> Result<Self, EngineError> {
        let chosen = Self::make(engine, run, sandbox, None)?;
        if !engine.dialect().requests_subnet {
            return Ok(chosen);
        }
        // Create the network again, and request the subnet that the engine chose.
        engine.ask(["network", "rm", run])?;
        Self::make(engine, run, sandbox, Some(chosen.subnet))
    }

    fn make(engine: &Engine, run: &str, sandbox: &str, subnet: Option<Subnet>) -> Result<Self, EngineError> {
        let mut words = vec!["network".to_owned(), "create".to_owned()];
        words.extend(labels(run, sandbox));
        words.extend(engine.dialect().network.iter().map(ToString::to_string));
        if let Some(subnet) = subnet {
            words.push(format!("--subnet={}/{}", subnet.address, subnet.prefix));
            words.push(format!("--gateway={}", subnet.first()));
        }
        words.push(run.to_owned());
        engine.ask(&words)?;
        let answer = engine.ask(["network", "inspect", "--format", engine.dialect().subnets, run])?;
        let found = answer.lines().find_map(|line| parse(line, run));
        found.ok_or_else(|| {
            let said = format!("its answer `{}` contains no IPv4 subnet", answer.trim());
            engine.failed(&format!("network inspect {run}"), &said)
        })
    }

    /// The address with this number, counted from 0; `None` if the subnet is too small.
    pub fn address(&self, number: u32) -> Option<Ipv4Addr> {
        let size = 1_u32.checked_shl(32 - self.subnet.prefix).unwrap_or(0);
        let host = number + FIRST;
        // The last address of a subnet is its broadcast address.
        (host + 1 < size).then(|| Ipv4Addr::from(u32::from(self.subnet.address) + host))
    }
}

/// Whether packets to an address on a bridge stay on this machine: the kernel then sends them from the gateway's
/// address. Without the bridge, another machine might answer at the address.
pub fn is_local(address: Ipv4Addr, gateway: Ipv4Addr) -> bool {
    own_address_towards(address.into()).is_ok_and(|own| own == gateway)
}

impl Subnet {
    /// The first host address, which engines give to the host.
    fn first(self) -> Ipv4Addr {
        Ipv4Addr::from(u32::from(self.address) + 1)
    }
}

/// Reads a subnet and its gateway, such as `10.89.0.0/24 10.89.0.1`. Docker leaves out a gateway that it chose itself.
pub(super) fn parse(line: &str, name: &str) -> Option<Bridge> {
    let (subnet, gateway) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
    let (address, prefix) = subnet.split_once('/')?;
    let subnet = Subnet {
        address: address.parse().ok()?,
        prefix: prefix.parse().ok().filter(|prefix| *prefix <= 32)?,
    };
    let gateway = gateway.trim().parse().unwrap_or_else(|_| subnet.first());
    Some(Bridge {
        name: name.to_owned(),
        gateway,
        subnet,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_stay_in_the_subnet() {
        let bridge = parse("10.89.4.0/24 10.89.4.1", "n").unwrap();
        assert_eq!(bridge.gateway, Ipv4Addr::new(10, 89, 4, 1));
        assert_eq!(bridge.address(0), Some(Ipv4Addr::new(10, 89, 4, 16)));
        assert_eq!(bridge.address(238), Some(Ipv4Addr::new(10, 89, 4, 254)));
        assert_eq!(bridge.address(239), None);
        assert_eq!(parse("fd00::/64 fd00::1", "n"), None);
    }

    #[test]
    fn a_network_that_no_route_leads_to_is_not_local() {
        assert!(!is_local(Ipv4Addr::new(192, 0, 2, 16), Ipv4Addr::new(192, 0, 2, 1)));
        assert!(is_local(Ipv4Addr::new(127, 0, 0, 9), Ipv4Addr::LOCALHOST));
    }
}
