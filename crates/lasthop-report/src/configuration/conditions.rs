//! The conditions under which a configuration works elsewhere with the measured result.

use lasthop_model::{
    binding::service_of,
    quantity::rate_text,
    record::{CasePlan, CaseProof, ExperimentSummary},
};
use lasthop_trial::address::{Address, UNIX_NAME_MAX};

use super::Served;

/// The conditions, a sentence each.
pub fn all(link: &ExperimentSummary, plan: &CasePlan, proof: &CaseProof, served: &[Served]) -> Vec<String> {
    let from = if link.from == "driver" { "clients" } else { &link.from };
    let mut found = Vec::new();
    if let Some(server) = served.iter().find(|one| service_of(&one.name) == link.to) {
        found.extend(address(&server.started.endpoint.address, from, &server.name));
    }
    if let Some(wanted) = proof.link.as_ref().and_then(|link| link.wanted.as_ref()) {
        found.push(format!("connections are used as in the measurement: {wanted}"));
    }
    if let Some(rate) = plan.load.rate {
        found.push(format!(
            "the rate is that of the measurement: {} requests/s",
            rate_text(rate)
        ));
    }
    for condition in served.iter().flat_map(|one| &one.started.conditions) {
        if !found.contains(condition) {
            found.push(condition.clone());
        }
    }
    found.push("your folders, accounts, certificates, addresses and ports take the places of the run's".to_owned());
    found
}

fn address(address: &Address, from: &str, to: &str) -> Vec<String> {
    match address {
        Address::Unix(path) | Address::Channel(_, path) | Address::Packets(_, path) => {
            let folder = path.parent().unwrap_or(path).display();
            vec![
                format!(
                    "{from} and {to} run on the same host; in containers, with the folder {folder} as a shared volume"
                ),
                format!(
                    "the account of {from} may enter {folder} and write to the socket, by a common group and mode \
                     0660, or by the umask of {to}; with RuntimeDirectory={to}, systemd creates such a folder at boot"
                ),
                format!("the path of the socket has at most {UNIX_NAME_MAX} bytes"),
            ]
        }
        Address::Abstract(_) => vec![
            format!("{from} and {to} share a network namespace"),
            "every local user may connect, because abstract names have no permissions".to_owned(),
        ],
        Address::Udp(_) => vec![
            "every local user may send".to_owned(),
            "net.core.rmem_max allows the buffer of the receiver; datagrams that find it full are dropped".to_owned(),
        ],
        Address::Tcp(address) => {
            let ip = address.ip();
            let reached = if ip.is_loopback() {
                format!(
                    "{from} and {to} share the loopback interface, or the container of {to} publishes its port there"
                )
            } else {
                format!("{from} can reach {to}, as at {ip} in the run")
            };
            vec![
                reached,
                "with a connection per request, local ports and TIME_WAIT limit the rate".to_owned(),
            ]
        }
    }
}
