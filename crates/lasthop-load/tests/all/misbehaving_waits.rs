//! Servers that fall silent, flood or drip wherever a client waits: every wait has a deadline, and ends soon when told
//! to.

use crate::common;

use std::{
    io::{Read, Write},
    net::Shutdown,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

use common::{Accepting, With, counted, echo, of_json, of_url, open, spec};
use lasthop_load::{
    at_once,
    engine::{Case, CaseError},
    reference, sample,
};
use lasthop_protocol::{
    Protocol,
    http::{Http, HttpExpect},
    several::{Order, REQUESTS_MAX, Several, Weighted},
    spec::Spec,
    wire::TrialPhases,
};
use lasthop_trial::{
    address::{Endpoint, Tls},
    failure::Failure,
    options::{Arrivals, Engine, Model, Reuse},
    result::ErrorClass,
};
use serde_json::json;
use socket2::Socket;

fn http(body: &str) -> Protocol {
    of_json(json!({ "http": { "method": "POST", "path": "/", "body": body, "expect": { "status": 200 } } }))
}

fn postgres() -> Protocol {
    of_url("postgres://u@127.0.0.1/d")
}

const NOTICE: &[u8] = b"N\0\0\0\x0cMhallo\0\0";
const GOOD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHello";

/// Sends `bytes` again and again, with pauses, until the client closes.
fn repeating(bytes: &'static [u8], pause: Duration) -> impl Fn(Socket) {
    move |mut peer| {
        while peer.write_all(bytes).is_ok() {
            thread::sleep(pause);
        }
    }
}

fn impatient(endpoint: &Endpoint, protocol: Protocol) -> Spec {
    spec(endpoint, protocol).timeouts_ms(300, 300)
}

#[test]
fn a_greeting_that_never_ends_is_a_timeout() {
    for pause in [Duration::ZERO, Duration::from_millis(20)] {
        for server in [
            Accepting::unix(repeating(NOTICE, pause)),
            Accepting::tcp(repeating(NOTICE, pause)),
        ] {
            let spec = impatient(&server.endpoint, postgres());
            let sampled = sample::take(&spec, || true).unwrap_err();
            assert_eq!(sampled.message, "authentication: timed out");
            let prepared = Case::prepare(&spec).map(drop).unwrap_err();
            assert_eq!(prepared.cause, "authentication: timed out");
        }
    }
}

#[test]
fn a_first_reply_that_drips_is_a_timeout() {
    let server = Accepting::unix(repeating(b"HTTP/1.1 100 Continue\r\n\r\n", Duration::from_millis(20)));
    let sampled = sample::take(&impatient(&server.endpoint, http("")), || true).unwrap_err();
    let said = sampled.message;
    assert!(
        said.starts_with("the end of the reply, of which ") && said.ends_with(" bytes came: timed out"),
        "{said}"
    );
}

#[test]
fn a_request_that_nobody_reads_is_a_timeout() {
    let server = Accepting::unix(|mut peer| {
        while peer.write_all(b"").is_ok() {
            thread::sleep(Duration::from_secs(5));
        }
    });
    let sampled = sample::take(&impatient(&server.endpoint, http(&"x".repeat(8 << 20))), || true).unwrap_err();
    assert_eq!(sampled.message, "send: timed out");
}

/// Answers at most `most` requests without a body, over all connections, each after `interim`.
fn answering(interim: &'static [u8], most: u64) -> (impl Fn(Socket), Arc<AtomicU64>) {
    let asked = Arc::new(AtomicU64::new(0));
    let count = asked.clone();
    let serve = move |mut peer: Socket| {
        let (mut text, mut buffer) = (Vec::new(), [0; 4096]);
        while let Ok(read @ 1..) = peer.read(&mut buffer) {
            text.extend_from_slice(&buffer[..read]);
            while let Some(end) = text.windows(4).position(|four| four == b"\r\n\r\n") {
                text.drain(..end + 4);
                if count.fetch_add(1, SeqCst) < most {
                    let _ = peer.write_all(interim).and_then(|()| peer.write_all(GOOD));
                }
            }
        }
    };
    (serve, asked)
}

#[test]
fn interim_replies_are_passed_over_up_to_a_limit() {
    let interim = |times| b"HTTP/1.1 100 Continue\r\n\r\n".repeat(times).leak();
    let server = Accepting::unix(answering(interim(500), u64::MAX).0);
    let learnt = reference::learn(&spec(&server.endpoint, http("")), || true)
        .unwrap()
        .protocol;
    let HttpExpect { body, .. } = learnt.get::<Http>().unwrap().expect.clone();
    assert_eq!(body, Some("Hello".into()));

    let server = Accepting::unix(answering(interim(5_000), u64::MAX).0);
    let Failure { class, message, .. } = reference::learn(&spec(&server.endpoint, http("")), || true).unwrap_err();
    let text = "the reply's head does not end within 64 KiB, interim replies (1xx) included";
    assert_eq!((class, message.as_str()), (ErrorClass::Protocol, text));
}

/// A timeout of a minute: a wait that does not end when told to fails the time check.
fn patient(endpoint: &Endpoint, protocol: Protocol) -> Spec {
    spec(endpoint, protocol).timeouts_ms(60_000, 60_000)
}

/// Checks that `wait`, told to end once `silent` returns true, ends long before its deadline.
fn ends_soon<T>(silent: impl Fn() -> bool, wait: impl FnOnce(&mut dyn FnMut() -> bool) -> T) -> T {
    let said = Instant::now();
    let ended = wait(&mut || !silent());
    assert!(said.elapsed() < Duration::from_secs(30), "it took {:?}", said.elapsed());
    ended
}

#[test]
fn every_wait_before_a_load_ends_when_it_is_told_to() {
    let tls = Some(Tls {
        authority: None,
        server_name: "localhost".into(),
        resumption: false,
        insecure: false,
    });
    let folder = tempfile::tempdir().unwrap();
    let authority = Some(common::certificates(folder.path()).authority);
    for encrypted in [false, true] {
        for protocol in [http(""), http(&"x".repeat(8 << 20)), postgres(), echo(64)] {
            let accepted = Arc::new(AtomicBool::new(false));
            let tell = accepted.clone();
            let server = Accepting::tcp(move |peer| {
                tell.store(true, SeqCst);
                thread::sleep(Duration::from_secs(120));
                drop(peer);
            });
            let tls = tls.clone().filter(|_| encrypted).map(|tls| Tls {
                authority: authority.clone(),
                ..tls
            });
            let endpoint = Endpoint {
                tls,
                ..server.endpoint.clone()
            };
            let spec = patient(&endpoint, protocol);
            let silent = || accepted.load(SeqCst);
            assert!(ends_soon(silent, |go_on| sample::take(&spec, go_on)).is_err());
            assert!(ends_soon(silent, |go_on| Case::watched_prepare(&spec, go_on).map(drop)).is_err());
        }
    }
}

#[test]
fn a_load_of_many_requests_is_told_to_end_before_it_begins() {
    let server = Accepting::unix(answering(b"", u64::MAX).0);
    let request = |number| Weighted {
        name: format!("request {number}"),
        protocol: http(""),
        weight: 1,
    };
    let several = |count| Several {
        requests: (0..count).map(request).collect(),
        order: Order::Given,
    };
    let spec = spec(&server.endpoint, http(""));
    let (learnt, unchecked, closes) = reference::learn_each(&spec, &several(2), || true).unwrap();
    let bodies = learnt.requests.iter().map(|one| one.protocol.payload());
    assert_eq!(
        (bodies.collect::<Vec<_>>(), unchecked, closes),
        (vec![Some(5); 2], vec![], false)
    );
    let all = several(REQUESTS_MAX);
    assert!(ends_soon(|| true, |go_on| reference::learn_each(&spec, &all, go_on)).is_err());
}

#[test]
fn a_connect_that_nobody_accepts_ends_when_it_is_told_to() {
    let server = Accepting::tcp(|_| {});
    let silent = Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    silent
        .bind(&"127.0.0.1:0".parse::<std::net::SocketAddr>().unwrap().into())
        .unwrap();
    silent.listen(0).unwrap();
    let address = silent.local_addr().unwrap();
    let fillers: Vec<Socket> = (0..4)
        .map(|_| {
            let socket = Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
            socket.set_nonblocking(true).unwrap();
            let _ = socket.connect(&address);
            socket
        })
        .collect();
    let full = lasthop_trial::address::Address::Tcp(address.as_socket().unwrap());
    let spec = patient(
        &Endpoint {
            address: full,
            ..server.endpoint.clone()
        },
        echo(64),
    );
    let begin = Instant::now();
    let after_a_while = || begin.elapsed() > Duration::from_millis(200);
    assert!(ends_soon(after_a_while, |go_on| sample::take(&spec, go_on)).is_err());
    drop((fillers, silent));
}

#[test]
fn a_load_that_is_told_to_end_does_not_wait_for_a_silent_server() {
    for (engine, connections, model) in [
        (Engine::Blocking, 1, Model::Closed),
        (Engine::Epoll, 3, Model::Closed),
        (Engine::Epoll, 2, open(1000.0, Arrivals::Constant)),
    ] {
        for reuse in [Reuse::KeepAlive, Reuse::PerRequest] {
            let (serve, asked) = answering(b"", 10);
            let server = Accepting::unix(serve);
            let spec = patient(&server.endpoint, http(""))
                .engine(engine)
                .connections(connections)
                .model(model)
                .reuse(reuse);
            let mut case = Case::prepare(&spec).unwrap();
            let all = 10 + u64::from(connections);
            let phases = TrialPhases::without_warm_up(3_600_000_000_000);
            let silent = || asked.load(SeqCst) >= all;
            let result = ends_soon(silent, |go_on| case.watched_trial(phases, go_on)).unwrap();
            assert_eq!(
                (result.requests_total, result.error_total()),
                (8, 0),
                "{engine:?}: {:?}",
                result.errors
            );
            // Threads and sockets end with the case.
            ends_soon(|| true, |_| drop(case));
        }
    }
}

const READY: &[u8] = b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I";
const ROW: &[u8] = b"T\0\0\0\x06\0\x01D\0\0\0\x0b\0\x01\0\0\0\x011C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I";

/// A PostgreSQL server that greets, answers `right` queries over all connections, and then repeats a message without
/// end.
fn overflowing(message: &'static [u8], right: u64) -> (impl Fn(Socket), Arc<AtomicBool>) {
    let overflows = Arc::new(AtomicBool::new(false));
    let (tell, asked) = (overflows.clone(), AtomicU64::new(0));
    let serve = move |mut peer: Socket| {
        let _ = peer.read(&mut [0; 1024]);
        let _ = peer.write_all(READY);
        while peer.read(&mut [0; 1024]).is_ok_and(|read| read > 0) {
            if asked.fetch_add(1, SeqCst) < right {
                let _ = peer.write_all(ROW);
                continue;
            }
            tell.store(true, SeqCst);
            let many = message.repeat(10_000);
            while peer.write_all(&many).is_ok() {}
        }
    };
    (serve, overflows)
}

#[test]
fn a_reply_without_end_ends_when_it_is_told_to_and_when_its_time_is_over() {
    let hour = TrialPhases::without_warm_up(3_600_000_000_000);
    for (engine, connections) in [(Engine::Blocking, 1), (Engine::Epoll, 2)] {
        for message in [b"D\0\0\0\x0b\0\x01\0\0\0\x011", NOTICE] {
            let (serve, overflows) = overflowing(message, 10);
            let server = Accepting::tcp(serve);
            let spec = |timed: fn(&Endpoint, Protocol) -> Spec| {
                timed(&server.endpoint, postgres())
                    .engine(engine)
                    .connections(connections)
            };
            let mut case = Case::prepare(&spec(patient)).unwrap();
            let flows = || overflows.load(SeqCst);
            let result = ends_soon(flows, |go_on| case.watched_trial(hour, go_on)).unwrap();
            assert_eq!((result.requests_total, result.error_total()), (8, 0), "{engine:?}");
            ends_soon(|| true, |_| drop(case));
            // By now every reply is endless, also before a load.
            let probed = ends_soon(flows, |go_on| Case::watched_prepare(&spec(patient), go_on).map(drop));
            assert!(probed.is_err(), "{engine:?}");
            let late = Case::prepare(&spec(impatient)).map(drop).unwrap_err();
            assert_eq!(late.cause, "reply: timed out", "{engine:?}");
            let (serve, _) = overflowing(message, 10);
            let server = Accepting::tcp(serve);
            let spec = impatient(&server.endpoint, postgres())
                .engine(engine)
                .connections(connections);
            let result = counted(&spec, 10);
            let errors: Vec<_> = result
                .errors
                .into_iter()
                .map(|(class, error)| (class, error.count))
                .collect();
            assert_eq!(
                (result.requests_total, errors),
                (8, vec![(ErrorClass::Timeout, 2)]),
                "{engine:?}"
            );
        }
    }
}

#[test]
fn a_connection_that_fails_leaves_no_other_waiting_for_ever() {
    let greeted = Arc::new(AtomicU64::new(0));
    let count = greeted.clone();
    // One connection is verified, then one refused and two never greeted.
    let server = Accepting::unix(move |mut peer| {
        let number = count.fetch_add(1, SeqCst);
        let _ = peer.read(&mut [0; 1024]);
        match number {
            0 => {
                let _ = peer.write_all(READY);
                while peer.read(&mut [0; 1024]).is_ok_and(|read| read > 0) && peer.write_all(ROW).is_ok() {}
            }
            1 => drop(peer.shutdown(Shutdown::Both)),
            _ => thread::sleep(Duration::from_secs(120)),
        }
    });
    let spec = impatient(&server.endpoint, postgres())
        .engine(Engine::Blocking)
        .connections(3)
        .threads(3);
    let prepared = ends_soon(|| false, |go_on| Case::watched_prepare(&spec, go_on).map(drop));
    let CaseError { cause, .. } = prepared.unwrap_err();
    assert!(cause.starts_with("authentication: "), "{cause}");
}

#[test]
fn a_server_that_serves_few_connections_at_a_time_is_found_out() {
    let asking = |endpoint: &Endpoint| spec(endpoint, http("")).connections(4);
    let (serve, _) = answering(b"", u64::MAX);
    let worker = Mutex::new(());
    let few = Accepting::unix(move |peer| {
        let _busy = worker.lock().unwrap();
        serve(peer);
    });
    let found = at_once::look(&asking(&few.endpoint), || true).unwrap();
    assert_eq!((found.served, found.tried), (1, 4));
    assert!(
        found
            .in_words()
            .starts_with("the server serves 1 of 4 connections at a time; the others waited")
    );
    // With a connection per request, or if all connections are served, none waits.
    let one_each = asking(&few.endpoint).reuse(Reuse::PerRequest);
    assert_eq!(at_once::look(&one_each, || true), None);
    let all = Accepting::unix(answering(b"", u64::MAX).0);
    assert_eq!(at_once::look(&asking(&all.endpoint), || true), None);
    // A server that never answers some requests must not be taken for one that serves them later.
    let deaf = Accepting::unix(answering(b"", 3).0);
    assert_eq!(at_once::look(&asking(&deaf.endpoint), || true), None);
}

#[test]
fn a_trial_in_which_few_connections_are_served_fails() {
    let (serve, _) = answering(b"", u64::MAX);
    let worker = Mutex::new(());
    let few = Accepting::unix(move |peer| {
        let _busy = worker.lock().unwrap();
        serve(peer);
    });
    let mut impatient = impatient(&few.endpoint, http(""));
    impatient.connections = 4;
    let phases = TrialPhases {
        warm_up_ns: 10_000_000,
        measure_ns: 300_000_000,
    };
    let error = Case::prepare(&impatient).unwrap().trial(phases).unwrap_err();
    let said = "the server serves 1 of 4 connections at a time; the others waited up to";
    assert!(error.cause.starts_with(said), "{error}");
}

/// The server turns to another connection after it has closed an idle one.
#[test]
fn a_server_with_one_worker_that_ends_idle_connections_serves_one_at_a_time() {
    let (serve, _) = answering(b"", u64::MAX);
    let worker = Mutex::new(());
    let few = Accepting::unix(move |peer| {
        let _busy = worker.lock().unwrap();
        let _ = peer.set_read_timeout(Some(Duration::from_millis(2_050)));
        serve(peer);
    });
    let spec = spec(&few.endpoint, http("")).connections(3);
    let phases = TrialPhases {
        warm_up_ns: 10_000_000,
        measure_ns: 100_000_000,
    };
    let mut case = Case::prepare(&spec).unwrap();
    let result = case.watched_trial(phases, || true).unwrap();
    let found = case.few_at_once(phases, &result).unwrap();
    assert_eq!((found.served, found.tried), (1, 3), "{:?}", result.errors);
}

#[test]
fn a_server_that_closes_after_each_reply_is_found_out() {
    let closing = |head: &'static [u8]| {
        Accepting::unix(move |mut peer| {
            let _ = peer.read(&mut [0; 4096]);
            let _ = peer.write_all(&[head, b"Content-Length: 5\r\n\r\nHello"].concat());
        })
    };
    let closes = |server: &Accepting| {
        reference::learn(&spec(&server.endpoint, http("")), || true)
            .unwrap()
            .closes
    };
    assert!(closes(&closing(b"HTTP/1.1 200 OK\r\nConnection: close\r\n")));
    // This server closes without a notice.
    assert!(closes(&closing(b"HTTP/1.1 200 OK\r\n")));
    assert!(!closes(&Accepting::unix(answering(b"", u64::MAX).0)));
}

#[test]
fn what_changes_in_a_second_is_learnt() {
    let begin = Instant::now();
    let clock = Accepting::unix(move |mut peer| {
        while let Ok(1..) = peer.read(&mut [0; 4096]) {
            let body = format!("it is {:03} s", begin.elapsed().as_secs());
            let reply = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            let _ = peer.write_all(reply.as_bytes());
        }
    });
    let learnt = reference::learn(&spec(&clock.endpoint, http("")), || true).unwrap();
    let said = learnt.unchecked.unwrap();
    assert!(
        said.starts_with("not checked of the body: bytes 6 to 8 (\"00"),
        "{said}"
    );
    let body = learnt.protocol.get::<Http>().unwrap().expect.body.clone().unwrap();
    assert!(body.fits(b"it is 999 s") && !body.fits(b"it is late s") && !body.fits(b"it is 999"));
}
