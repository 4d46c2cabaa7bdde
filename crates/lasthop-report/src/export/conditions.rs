//! The conditions under which an exported configuration works and gives what was measured.

use lasthop_analyse::summary::Summary;
use lasthop_model::{
    quantity::{joined, rate_text},
    record::{CasePlan, CaseProof},
};
use lasthop_protocol::spec::{Address, Transport};

use super::Served;

/// Each condition in a sentence.
pub fn all(summary: &Summary, plan: &CasePlan, proof: &CaseProof, served: &[Served]) -> Vec<String> {
    // One of several servers of a service has a number behind its name.
    let link = served.iter().find(|one| one.name.starts_with(&summary.link.to));
    let from = if summary.link.from == "driver" {
        "clients"
    } else {
        summary.link.from.as_str()
    };
    let mut found = Vec::new();
    if let Some(link) = link {
        let client = served.iter().find(|one| one.name == summary.link.from);
        found.extend(address(plan, link, from, client));
        found.extend(backlog(summary, link));
    }
    if plan.transport.is_tls() {
        found.push("you use your own certificate and key; those of the run no longer exist".to_owned());
    }
    if let Some(wanted) = proof.link.as_ref().and_then(|link| link.wanted.as_deref()) {
        let text = if wanted == "keep-alive" {
            "connections are kept between requests, as in the measurement; otherwise the result does not apply"
        } else {
            "each request has its own connection, as in the measurement; with keep-alive the difference is smaller"
        };
        found.push(text.to_owned());
    }
    if let Some(rate) = plan.load.rate {
        found.push(format!(
            "the rate is {} requests/s, as in the measurement; at another rate requests wait for each other less or \
             more, and the difference changes",
            rate_text(rate)
        ));
    }
    for condition in served.iter().flat_map(|one| &one.place.export.conditions) {
        if !found.contains(condition) {
            found.push(condition.clone());
        }
    }
    for one in served.iter().filter(|one| one.folder().join("app").is_dir()) {
        found.push(format!(
            "/srv/{}/app is the application, the experiment's folder of that name, with those files of it that are exported",
            one.name
        ));
    }
    let folders = served.iter().map(|one| format!("/srv/{0}, /run/{0}", one.name));
    found.push(format!(
        "folders and ports are placeholders for yours; the run had private ones ({})",
        joined(folders, "; ")
    ));
    found
}

/// Whether a service ran in a container with others.
fn in_shared(one: Option<&Served>) -> bool {
    let container = one.and_then(|one| one.place.container.as_ref());
    container.is_some_and(|container| container.shared)
}

fn address(plan: &CasePlan, link: &Served, from: &str, client: Option<&Served>) -> Vec<String> {
    let to = &link.name;
    let of_their_own = |one: &Served| {
        let container = one.place.container.as_ref();
        container.is_some_and(|container| !container.host_network)
    };
    let ports = "with a connection per request, local ports and TIME_WAIT limit the rate".to_owned();
    match (&link.place.endpoint.address, plan.transport) {
        (Address::Unix(path) | Address::Channel(_, path) | Address::Packets(_, path), _) => {
            let folder = path.parent().unwrap_or(path).display();
            vec![
                format!(
                    "{from} and {to} run on the same host; in containers, with the folder {folder} as a shared volume"
                ),
                format!(
                    "the account of {from} may enter {folder} and write to the socket, by a common group and mode \
                     0660, or by the umask of {to}; with RuntimeDirectory={to}, systemd creates the folder at boot"
                ),
                "the path of the socket has at most 107 bytes".to_owned(),
                format!("if {to} crashes, its socket file is removed before its next start, or by {to} itself"),
            ]
        }
        (Address::Abstract(_), _) => vec![
            format!(
                "{from} and {to} share a network namespace, because abstract names cannot be reached from another container"
            ),
            "every local user may connect, because abstract names have no permissions".to_owned(),
        ],
        (Address::Udp(_), _) => vec![
            format!("{from} and {to} share the loopback interface; every local user may send"),
            "datagrams that find the receiver's buffer full are dropped, and nobody is told; net.core.rmem_max limits \
             the buffer that a server may ask for"
                .to_owned(),
        ],
        (Address::Tcp(address), _)
            if !address.ip().is_loopback() && [Some(link), client].into_iter().all(in_shared) =>
        {
            vec![
                format!("{from} and {to} run in one container, whose own address `{to}` stands for"),
                ports,
            ]
        }
        (Address::Tcp(address), _) if !address.ip().is_loopback() => {
            let reached = if link.place.container.is_some() {
                "its container: the container's own on a network of the engine, or one of the host at which its port is \
                 published"
            } else {
                "its host"
            };
            // Clients reach, nginx reaches.
            let ending = if from == "clients" { "" } else { "es" };
            vec![
                format!("`{to}` stands for the address at which {from} reach{ending} {reached}"),
                ports,
            ]
        }
        (Address::Tcp(_), _) if of_their_own(link) && !client.is_some_and(of_their_own) => {
            vec![
                format!("the container of {to} publishes its port on the host's loopback interface"),
                ports,
            ]
        }
        (Address::Tcp(_), Transport::Tcp6) => vec![format!("{from} and {to} share IPv6 loopback")],
        (Address::Tcp(_), _) => {
            vec![
                format!("{from} and {to} share the loopback interface; every local user may connect"),
                ports,
            ]
        }
    }
}

/// The accept queue: what the server asks for, and what the kernel allows.
fn backlog(summary: &Summary, link: &Served) -> Option<String> {
    let files = link.place.files.iter().filter_map(|path| link.file(path).ok());
    let everything = joined(files.chain([link.place.command.join(" ")]), "\n");
    let pattern = regex::Regex::new(r"backlog[ =]+(\d+)").expect("a constant");
    let asked = pattern.captures(&everything)?.get(1)?.as_str();
    let limit = summary.environment.as_ref()?.sysctl.get("net.core.somaxconn")?;
    Some(format!(
        "net.core.somaxconn allows the accept queue of {asked} that {} asks for (it was {limit} here); a full queue is \
             an immediate error on a Unix socket, and a delay of a second with TCP",
        link.name
    ))
}
