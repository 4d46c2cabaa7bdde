//! Asks the application which connections its requests came over.

use std::collections::BTreeSet;

use lasthop_load::sample;
use lasthop_model::record::LinkObserved;
use lasthop_plan::render::RenderedProof;
use lasthop_protocol::{
    http::{Http, HttpVersion},
    spec::Spec,
};
use lasthop_trial::options::Reuse;

/// Requests per probe: enough to tell a kept connection from new ones.
const REQUESTS: u32 = 8;

/// Sends requests one after the other through the endpoint of `spec`, and counts the connections over which they
/// reached the application. If `go_on` returns false, this ends with an error that has no meaning.
pub fn link(spec: &Spec, wanted: &RenderedProof, mut go_on: impl FnMut() -> bool) -> Result<LinkObserved, String> {
    let http = spec.protocol.get::<Http>().filter(|http| !http.is_second());
    let http = http.ok_or("a link can only be asked over HTTP/1")?;
    // With HTTP/1.0 the server sends no chunks and closes the connection after the body.
    let page = Http {
        version: HttpVersion::V10,
        ..Http::asking_for(wanted.path.clone(), http.host.clone())
    };
    let page = Spec {
        socket: spec.socket.clone(),
        timeouts: spec.timeouts,
        reuse: Reuse::PerRequest,
        ..Spec::new(spec.endpoint.clone(), page.into())
    };
    let mut families = BTreeSet::new();
    let mut connections = BTreeSet::new();
    for _ in 0..REQUESTS {
        let sample = sample::take(&page, &mut go_on).map_err(|failure| format!("{}: {failure}", wanted.path))?;
        let reply = String::from_utf8_lossy(&sample.reply);
        let answer = reply.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        let (family, identity) = answer.trim().split_once(' ').ok_or_else(|| {
            let shown: String = answer.chars().take(80).collect();
            format!("{} answered `{shown}`, expected `FAMILY IDENTITY`", wanted.path)
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
                    peer.write_all(b"HTTP/1.0 200 OK\r\n\r\n").unwrap();
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
        let overdue = format!("/who: {}: timed out", sample::ENDLESS);
        assert_eq!(link(&within(1), &wanted, || true).unwrap_err(), overdue);
        // It may have been stopped before a byte came.
        let stopped = link(&within(3600), &wanted, || false).unwrap_err();
        assert!(stopped.ends_with(": timed out"), "{stopped}");
    }
}
