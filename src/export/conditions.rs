//! What must be true on a machine for an exported configuration to work, and to be worth what was measured.

use lasthop_load::spec::{Address, Transport};

use super::Served;
use crate::{
    analyse::summary::Summary,
    record::schema::{CasePlan, CaseProof},
    report::units::rate_text,
};

/// Each condition in a sentence.
pub fn all(summary: &Summary, plan: &CasePlan, proof: &CaseProof, served: &[Served]) -> Vec<String> {
    let link = served.iter().find(|one| one.name == summary.link.to || one.name.starts_with(&summary.link.to));
    let from = if summary.link.from == "driver" { "clients" } else { summary.link.from.as_str() };
    let mut found = Vec::new();
    if let Some(link) = link {
        found.extend(address(plan, link, from));
        found.extend(backlog(summary, link));
    }
    if plan.transport.is_tls() {
        found.push("certificate and key are your own: those of the run were made for it and are gone".to_owned());
    }
    if let Some(link) = &proof.link {
        let text = match link.wanted.as_str() {
            "keep-alive" => {
                "it was measured with connections kept between requests; keep them, or it is another comparison"
            }
            _ => "it was measured with a connection for each request; with kept connections the difference is smaller",
        };
        found.push(text.to_owned());
    }
    if let Some(rate) = plan.load.rate {
        found.push(format!(
            "it was measured at {} requests/s; at another rate requests wait for each other less or more, and the difference \
             is another",
            rate_text(rate)
        ));
    }
    if served.iter().any(|one| one.recipe == "postgres") {
        let text = "only where PostgreSQL listens is for copying: the run's cluster was made for it, without fsync, with roles and a \
                    pg_hba.conf of its own. Yours decides who may connect: a line `local` for the socket, `hostssl` for TLS";
        found.push(text.to_owned());
        found.push(
            "a change of listen_addresses, port or unix_socket_directories needs a restart of PostgreSQL".to_owned(),
        );
    }
    if served.iter().any(|one| one.recipe == "nginx") {
        found.push("nginx takes it over without a lost request: `nginx -t && nginx -s reload`".to_owned());
    }
    found.push(format!(
        "folders and ports stand for yours: the run had private ones ({})",
        served.iter().map(|one| format!("/srv/{0}, /run/{0}", one.name)).collect::<Vec<_>>().join("; ")
    ));
    found
}

fn address(plan: &CasePlan, link: &Served, from: &str) -> Vec<String> {
    let to = &link.name;
    match (&link.place.endpoint.address, plan.transport) {
        (Address::Unix(path), _) => {
            let folder = path.parent().map(|folder| folder.display().to_string()).unwrap_or_default();
            vec![
                format!(
                    "{from} and {to} run on the same host; in containers, with the folder {folder} as a shared volume"
                ),
                format!(
                    "the account of {from} may enter {folder} and write to the socket: a common group and mode 0660, or the \
                     umask of {to}; systemd makes the folder at boot with RuntimeDirectory={to}"
                ),
                "the path of the socket has at most 107 bytes".to_owned(),
                format!(
                    "a socket file that a crash of {to} leaves is removed at its next start, by {to} itself or before it"
                ),
            ]
        }
        (Address::Abstract(_), _) => vec![
            format!("{from} and {to} share a network namespace: abstract names are not seen from another container"),
            "every local user may connect: there are no permissions on an abstract name".to_owned(),
        ],
        (Address::Tcp(_), Transport::Tcp6) => vec![format!("{from} and {to} share IPv6 loopback")],
        (Address::Tcp(_), _) => vec![
            format!("{from} and {to} share the loopback interface; every local user may connect"),
            "with a connection for each request, local ports and TIME_WAIT bound the rate".to_owned(),
        ],
    }
}

/// The accept queue: what the server asks for, and what the kernel allows.
fn backlog(summary: &Summary, link: &Served) -> Option<String> {
    let files = link.place.files.iter().filter_map(|path| std::fs::read_to_string(link.folder.join(path)).ok());
    let everything = files.chain([link.place.command.join(" ")]).collect::<Vec<_>>().join("\n");
    let pattern = regex::Regex::new(r"backlog[ =]+(\d+)").expect("a constant");
    let asked = pattern.captures(&everything)?.get(1)?.as_str().to_owned();
    let limit = summary.environment.as_ref()?.sysctl.get("net.core.somaxconn")?;
    Some(format!(
        "{} asks for an accept queue of {asked}, and net.core.somaxconn must allow it (it was {limit} here): a full queue is an \
         error at once on a Unix socket, and a second's delay on TCP",
        link.name
    ))
}
