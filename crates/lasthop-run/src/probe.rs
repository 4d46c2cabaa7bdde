//! Asks the application which connections its requests came over.

use std::{collections::BTreeSet, sync::Arc};

use lasthop_load::{
    engine::supervised,
    transport::{Calls, Connector, Watch},
};
use lasthop_model::record::LinkObserved;
use lasthop_protocol::{http::Http, spec::Spec};
use lasthop_trial::{failure::Failure, options::Reuse};

use lasthop_plan::render::RenderedProof;

/// Requests per probe: enough to tell a kept connection from new ones.
const REQUESTS: u32 = 8;
/// Longest reply in bytes, more than any proof needs.
const LONGEST_ANSWER: usize = 64 << 10;

/// Sends requests one after the other through the endpoint of `spec`, and counts the connections over which they
/// reached the application. If `go_on` returns false, this ends with an error that has no meaning.
pub fn link(spec: &Spec, wanted: &RenderedProof, go_on: impl FnMut() -> bool) -> Result<LinkObserved, String> {
    let asked = supervised(spec.timeouts, go_on, |watch| ask(spec, wanted, &watch));
    asked.map_err(|failure| failure.to_string())?
}

fn ask(spec: &Spec, wanted: &RenderedProof, watch: &Arc<Watch>) -> Result<LinkObserved, String> {
    let mut families = BTreeSet::new();
    let mut connections = BTreeSet::new();
    for _ in 0..REQUESTS {
        let answer = get(spec, &wanted.path, watch)?;
        let (family, identity) = answer.trim().split_once(' ').ok_or_else(|| {
            format!(
                "{} answered `{}`, expected `FAMILY IDENTITY`",
                wanted.path,
                shortened(&answer)
            )
        })?;
        families.insert(family.to_owned());
        connections.insert(identity.to_owned());
    }
    Ok(LinkObserved {
        family: families.into_iter().collect::<Vec<_>>().join("+"),
        requests: REQUESTS,
        connections: connections.len() as u32,
        wanted: Some(match wanted.reuse {
            Reuse::PerRequest => "per-request".to_owned(),
            Reuse::KeepAlive => "keep-alive".to_owned(),
        }),
    })
}

/// Body of the reply to one HTTP/1.0 request on a new connection.
fn get(spec: &Spec, path: &str, watch: &Arc<Watch>) -> Result<String, String> {
    let Some(http) = spec.protocol.get::<Http>() else {
        return Err("a link can only be asked over HTTP".to_owned());
    };
    if http.is_second() {
        return Err("a link can only be asked over HTTP/1".to_owned());
    }
    let connector = Connector::new(spec)?;
    let mut stream = connector
        .open(&Calls::default(), watch)
        .map_err(|failure| failure.to_string())?
        .stream;
    // With HTTP/1.0 the server sends no chunks and closes the connection after the body.
    let request = format!("GET {path} HTTP/1.0\r\nHost: {}\r\n\r\n", http.host);
    stream
        .send_all(request.as_bytes())
        .map_err(|failure| failure.to_string())?;
    let mut reply = Vec::new();
    let mut buffer = [0; 4096];
    while reply.len() < LONGEST_ANSWER {
        match stream
            .receive(&mut buffer)
            .map_err(|error| Failure::io("reply", &error).to_string())?
        {
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

#[cfg(test)]
mod tests {
    use std::{io::Write as _, os::unix::net::UnixListener, thread, time::Duration};

    use lasthop_protocol::url::{UrlOptions, parse};
    use lasthop_trial::options::Timeouts;

    use super::*;

    #[test]
    fn an_answer_without_end_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        thread::spawn(move || {
            for peer in listener.incoming() {
                let mut peer = peer.unwrap();
                thread::spawn(move || {
                    while peer.write_all(b"H").is_ok() {
                        thread::sleep(Duration::from_millis(5));
                    }
                });
            }
        });
        let url = format!("http+unix:{}:/", path.display());
        let (endpoint, protocol) = parse(&url, &UrlOptions::default()).unwrap();
        let spec = Spec::new(endpoint, protocol);
        let within = |seconds: u64| {
            let nanoseconds = seconds * 1_000_000_000;
            Spec {
                timeouts: Timeouts {
                    connect_ns: nanoseconds,
                    request_ns: nanoseconds,
                },
                ..spec.clone()
            }
        };
        let wanted = RenderedProof {
            path: "/who".into(),
            reuse: Reuse::KeepAlive,
        };
        assert_eq!(link(&within(1), &wanted, || true).unwrap_err(), "reply: timed out");
        assert_eq!(link(&within(3600), &wanted, || false).unwrap_err(), "reply: timed out");
    }
}
