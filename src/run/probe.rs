//! Asks the application which connection its requests came over.

use std::collections::BTreeSet;

use lasthop_load::{
    spec::{Protocol, Reuse, Spec},
    transport::{Calls, Connector},
};

use crate::{experiment::render::RenderedProof, record::schema::LinkObserved};

/// Requests of one probe: enough to tell a kept connection from fresh ones.
const REQUESTS: u32 = 8;
/// More than any answer of a proof needs.
const LONGEST_ANSWER: usize = 64 << 10;

/// Sends requests one after the other through the endpoint of `spec` and counts the connections that they reached the
/// application over.
///
/// # Errors
/// What came instead of an answer of the form `FAMILY IDENTITY`.
pub fn link(spec: &Spec, wanted: &RenderedProof) -> Result<LinkObserved, String> {
    let mut families = BTreeSet::new();
    let mut connections = BTreeSet::new();
    for _ in 0..REQUESTS {
        let answer = get(spec, &wanted.path)?;
        let (family, identity) = answer
            .trim()
            .split_once(' ')
            .ok_or_else(|| format!("{} answered `{}`, expected `FAMILY IDENTITY`", wanted.path, shortened(&answer)))?;
        families.insert(family.to_owned());
        connections.insert(identity.to_owned());
    }
    Ok(LinkObserved {
        family: families.into_iter().collect::<Vec<_>>().join("+"),
        requests: REQUESTS,
        connections: connections.len() as u32,
        wanted: match wanted.reuse {
            Reuse::PerRequest => "per-request".to_owned(),
            Reuse::KeepAlive => "keep-alive".to_owned(),
        },
    })
}

/// Body of the answer to one HTTP/1.0 request on a connection of its own.
fn get(spec: &Spec, path: &str) -> Result<String, String> {
    let Protocol::Http(http) = &spec.protocol else {
        return Err("a link can only be asked over HTTP".to_owned());
    };
    let connector = Connector::new(&spec.endpoint, &spec.socket, spec.timeouts).map_err(|error| error.to_string())?;
    let mut stream = connector.open_unwatched(&Calls::default()).map_err(|failure| failure.to_string())?.stream;
    let request = format!("GET {path} HTTP/1.0\r\nHost: {}\r\n\r\n", http.host);
    stream.send_all(request.as_bytes()).map_err(|failure| failure.to_string())?;
    let mut reply = Vec::new();
    let mut buffer = [0; 4096];
    while reply.len() < LONGEST_ANSWER {
        match stream.receive(&mut buffer).map_err(|error| error.to_string())? {
            0 => break,
            read => reply.extend_from_slice(&buffer[..read]),
        }
    }
    let text = String::from_utf8_lossy(&reply);
    match text.split_once("\r\n\r\n") {
        Some((head, body)) if head.split(' ').nth(1) == Some("200") => Ok(body.to_owned()),
        _ => Err(format!("{path} answered `{}`", shortened(&text))),
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(80).collect()
}
