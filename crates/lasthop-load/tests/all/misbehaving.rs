//! A scripted server with right and wrong HTTP replies, over TCP and Unix sockets. No error counts as a fast request,
//! and every trial ends.

use crate::common;

use std::{
    io::{Read, Write},
    net::TcpListener,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

use common::{Accepting, SHORT, With, for_ms, of_json, open, run, spec};
use lasthop_load::{
    drive,
    engine::{Case, CaseError},
    reference,
};
use lasthop_protocol::{
    Protocol,
    spec::Spec,
    wire::{self, Reply, Request, Stage, TrialPhases},
};
use lasthop_trial::{
    address::{Address, Endpoint},
    options::{Arrivals, Engine, Reuse},
    result::{ErrorClass, TrialResult},
};
use serde_json::json;
use socket2::Socket;

const GOOD: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHello";

/// How the server answers a request.
#[derive(Clone, Debug)]
enum Act {
    Say(String),
    SayAndClose(String),
    /// One byte at a time.
    Drip(String),
    /// One byte at a time, with pauses: no receive waits for long, but the reply never ends.
    Trickle(String),
    Hang,
    /// An RST instead of a reply (TCP), an end of the stream (Unix).
    Reset,
    EndlessHead,
}

/// A server that answers its n-th request, counted over all connections, with `script(n)`.
struct Scripted {
    server: Accepting,
    requests: Arc<AtomicU64>,
}

impl Scripted {
    fn start(unix: bool, script: impl Fn(u64) -> Act + Send + Sync + 'static) -> Self {
        let requests = Arc::new(AtomicU64::new(0));
        let counter = requests.clone();
        let serve = move |peer| conversation(peer, &counter, &script);
        let server = if unix {
            Accepting::unix(serve)
        } else {
            Accepting::tcp(serve)
        };
        Self { server, requests }
    }

    fn endpoint(&self) -> &Endpoint {
        &self.server.endpoint
    }
}

fn conversation(mut peer: Socket, requests: &AtomicU64, script: &impl Fn(u64) -> Act) {
    let mut text = Vec::new();
    let mut byte = [0; 1024];
    loop {
        while !text.ends_with(b"\r\n\r\n") {
            match peer.read(&mut byte) {
                Ok(0) | Err(_) => return,
                Ok(count) => text.extend_from_slice(&byte[..count]),
            }
        }
        text.clear();
        let act = script(requests.fetch_add(1, SeqCst));
        let result = match &act {
            Act::Say(reply) | Act::SayAndClose(reply) => peer.write_all(reply.as_bytes()),
            Act::Drip(reply) => reply.as_bytes().iter().try_for_each(|byte| peer.write_all(&[*byte])),
            Act::Trickle(reply) => reply.as_bytes().iter().try_for_each(|byte| {
                thread::sleep(Duration::from_millis(15));
                peer.write_all(&[*byte])
            }),
            Act::Hang => {
                while peer.read(&mut byte).is_ok_and(|count| count > 0) {}
                return;
            }
            Act::Reset => {
                // Without effect on a Unix socket, which has no RST.
                peer.set_linger(Some(Duration::ZERO)).unwrap();
                return;
            }
            Act::EndlessHead => {
                let begun = peer.write_all(b"HTTP/1.1 200 OK\r\n");
                begun.and_then(|()| {
                    loop {
                        peer.write_all(b"More: and more of it, without an end\r\n")?
                    }
                })
            }
        };
        if result.is_err() || matches!(act, Act::SayAndClose(_)) {
            return;
        }
    }
}

fn http() -> Protocol {
    of_json(json!({ "http": { "path": "/", "expect": { "status": 200, "body": "Hello" } } }))
}

fn engines(endpoint: &Endpoint) -> Vec<Spec> {
    let base = spec(endpoint, http());
    let with = |engine, connections| base.clone().engine(engine).connections(connections);
    vec![with(Engine::Blocking, 1), with(Engine::Epoll, 1), with(Engine::Auto, 5)]
}

/// Runs a script on both families with all engines and both kinds of reuse.
fn everywhere(script: impl Fn(u64) -> Act + Send + Sync + Clone + 'static, check: impl Fn(&Scripted, &Spec)) {
    for unix in [false, true] {
        for reuse in [Reuse::KeepAlive, Reuse::PerRequest] {
            for index in 0..3 {
                let server = Scripted::start(unix, script.clone());
                let spec = engines(server.endpoint()).swap_remove(index).reuse(reuse);
                check(&server, &spec);
            }
        }
    }
}

/// Requests that may be under way when a window opens or shuts: those begun before count for the throughput only, and
/// those ending after it for the latencies only.
pub const AT_AN_EDGE: u64 = 8;

/// Prepare makes two requests; every other request is either right or an error.
fn all_accounted(server: &Scripted, result: &TrialResult) {
    accounted(&server.requests, 2, result);
}

/// Checks that each request counted by the server, except `probes`, was answered rightly or is an error. The server may
/// not yet have read a request that was given up.
pub fn accounted(requests: &AtomicU64, probes: u64, result: &TrialResult) {
    let sent = probes + result.requests_total + result.error_total();
    let patience = Instant::now() + Duration::from_secs(60);
    while requests.load(SeqCst) < sent && Instant::now() < patience {
        thread::yield_now();
    }
    assert_eq!(requests.load(SeqCst), sent, "{:?}", result.errors);
    assert!(result.service_time.as_ref().unwrap().count().abs_diff(result.requests) <= AT_AN_EDGE);
}

#[test]
fn right_answers_in_any_form_are_all_counted() {
    let forms = [
        Act::Say(GOOD.into()),
        Act::Drip(GOOD.into()),
        Act::Say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nHel\r\n2\r\nlo\r\n0\r\n\r\n".into()),
        Act::SayAndClose("HTTP/1.1 200 OK\r\n\r\nHello".into()),
        Act::SayAndClose("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nHello".into()),
    ];
    everywhere(
        move |request| forms[request as usize % forms.len()].clone(),
        |server, spec| {
            let result = run(spec, SHORT).unwrap();
            assert_eq!(result.error_total(), 0, "{:?}", result.errors);
            assert_eq!(result.bytes_received, 5 * result.requests);
            all_accounted(server, &result);
        },
    );
}

fn every_fifth(act: Act) -> impl Fn(u64) -> Act + Clone {
    move |request| {
        if request % 5 == 4 {
            act.clone()
        } else {
            Act::Say(GOOD.into())
        }
    }
}

/// Checks that all errors have this class, with exact counts.
fn errors_of(act: Act, class: ErrorClass) {
    everywhere(every_fifth(act.clone()), |server, spec| {
        let mut spec = spec.clone();
        // Long enough for correct replies between the wrong ones on a busy machine.
        let mut phases = for_ms(100);
        if class == ErrorClass::Timeout {
            spec.timeouts.request_ns = 300_000_000;
            phases.measure_ns = 750_000_000;
        }
        let result = run(&spec, phases).unwrap_or_else(|error| panic!("{act:?}: {error}"));
        let classes: Vec<_> = result.errors.keys().copied().collect();
        assert_eq!(classes, [class], "{act:?}: {:?} with {spec:?}", result.errors);
        all_accounted(server, &result);
    });
}

#[test]
fn each_wrong_reply_is_an_error_of_its_class() {
    // At once, because a timeout takes long.
    thread::scope(|scope| {
        for (act, class) in [
            (Act::Say(GOOD.replace("200 OK", "502 Bad")), ErrorClass::WrongStatus),
            (Act::Say(GOOD.replace("Hello", "Jello")), ErrorClass::WrongContent),
            (
                Act::Say("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nHell".into()),
                ErrorClass::WrongContent,
            ),
            // One reply too much.
            (Act::Say(GOOD.repeat(2)), ErrorClass::Protocol),
            (Act::Say("\0\u{1}SSH-2.0".into()), ErrorClass::Protocol),
            (Act::EndlessHead, ErrorClass::Protocol),
            (Act::SayAndClose(GOOD.replace("Hello", "Hel")), ErrorClass::Reset),
            (Act::Reset, ErrorClass::Reset),
            (Act::Hang, ErrorClass::Timeout),
            (Act::Trickle(GOOD.into()), ErrorClass::Timeout),
            // A body that is too short.
            (Act::Say(GOOD.replace("Hello", "Hell")), ErrorClass::Timeout),
        ] {
            scope.spawn(move || errors_of(act, class));
        }
    });
}

#[test]
fn a_server_that_falls_silent_fails_the_trial() {
    everywhere(
        |request| if request < 2 { Act::Say(GOOD.into()) } else { Act::Hang },
        |_, spec| {
            let mut spec = spec.clone();
            spec.timeouts.request_ns = 300_000_000;
            let error = run(&spec, SHORT).map(drop).unwrap_err();
            assert_eq!(error.stage, Stage::Trial);
            assert!(
                error.cause.contains("no correct reply") && error.cause.contains("timed out"),
                "{error}"
            );
        },
    );
}

#[test]
fn a_server_that_only_errs_fails_the_trial() {
    everywhere(
        |request| {
            Act::Say(if request < 2 {
                GOOD.into()
            } else {
                GOOD.replace("200", "500")
            })
        },
        |_, spec| {
            let error = run(spec, SHORT).map(drop).unwrap_err();
            assert!(error.cause.contains("status 500, expected 200"), "{error}");
        },
    );
}

#[test]
fn a_wrong_first_answer_fails_the_preparation() {
    for unix in [false, true] {
        let server = Scripted::start(unix, |_| Act::Say(GOOD.replace("200", "404")));
        let CaseError { stage, cause, .. } = Case::prepare(&spec(server.endpoint(), http())).map(drop).unwrap_err();
        assert_eq!(
            (stage, cause.as_str()),
            (Stage::Verify, r#"status 404, expected 200: "Hello""#)
        );
    }
}

#[test]
fn a_few_wrong_replies_among_the_first_are_left_to_the_load() {
    let answers = |is_wrong: fn(u64) -> bool| {
        Scripted::start(true, move |number| {
            Act::Say(if is_wrong(number) {
                GOOD.replace("200", "503")
            } else {
                GOOD.to_owned()
            })
        })
    };
    let learnt = |server: &Scripted| {
        let spec = spec(server.endpoint(), http());
        let learnt = reference::learn(&spec, || true);
        learnt.map(|learnt| learnt.closes).map_err(|failure| failure.message)
    };
    for few in [
        |number| number % 10 == 0,
        |number| number % 10 == 1,
        |number| number % 10 < 3,
    ] {
        assert_eq!(learnt(&answers(few)), Ok(false));
        let server = answers(few);
        let spec = spec(server.endpoint(), http());
        assert!(reference::sampled(&[&spec], false, || true).is_ok());
        assert!(Case::patient_prepare(&spec, 4, || true).is_ok());
    }
    for many in [|number| number % 4 > 0, |number| number > 4] {
        assert_eq!(
            learnt(&answers(many)),
            Err("status 503, expected 200: \"Hello\"".to_owned())
        );
    }
    // Learning soon gives up on a server that is always wrong.
    let server = answers(|_| true);
    assert!(learnt(&server).is_err());
    assert_eq!(server.requests.load(SeqCst), 4);
}

#[test]
fn nobody_listening_fails_the_preparation() {
    let folder = tempfile::tempdir().unwrap();
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for address in [Address::Unix(folder.path().join("none")), Address::Tcp(gone)] {
        let error = Case::prepare(&spec(&Endpoint::plain(address), http()))
            .map(drop)
            .unwrap_err();
        assert_eq!(error.stage, Stage::Connect);
        assert!(error.cause.starts_with("connect: "), "{error}");
    }
}

#[test]
fn a_unit_that_the_server_breaks_off_is_an_error_and_no_fast_unit() {
    for unix in [false, true] {
        for connections in [1, 3] {
            let close = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nHello";
            // The two units of the probe are complete; then every tenth reply ends its connection.
            let server = Scripted::start(unix, move |request| {
                if request > 8 && request % 10 == 0 {
                    Act::SayAndClose(close.into())
                } else {
                    Act::Say(GOOD.into())
                }
            });
            let spec = spec(server.endpoint(), http())
                .reuse(Reuse::PerRequest)
                .requests_per_connection(4)
                .connections(connections);
            let result = run(&spec, SHORT).unwrap();
            // Every reply is counted, even in units that broke off; only the times of those units are not.
            assert_eq!(8 + result.requests_total, server.requests.load(SeqCst));
            let times = result.service_time.as_ref().unwrap();
            // Units at the edges of the window are either counted or timed.
            let edges = 4 * u64::from(connections);
            assert!(
                (4 * times.count()).abs_diff(result.requests) <= edges,
                "{} {}",
                times.count(),
                result.requests
            );
            if let Some(error) = result.errors.get(&ErrorClass::Reset) {
                assert!(error.first.contains("requests before the last of 4"), "{error:?}");
            }
            assert_eq!(
                result
                    .errors
                    .keys()
                    .filter(|class| **class != ErrorClass::Reset)
                    .count(),
                0
            );
            assert!(result.error_total() > 0);
        }
    }
}

#[test]
fn a_server_that_is_gone_is_counted_as_refusing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let server = Scripted::start(true, |request| {
        if request < 200 {
            Act::Say(GOOD.into())
        } else {
            Act::Reset
        }
    });
    let Address::Unix(own) = &server.endpoint().address else {
        unreachable!("a Unix server")
    };
    // The path is removed once the connections are open, so that no further connect succeeds.
    std::fs::rename(own, &path).unwrap();
    let endpoint = Endpoint::plain(Address::Unix(path.clone()));
    let mut case = Case::prepare(&spec(&endpoint, http()).connections(3)).unwrap();
    std::fs::rename(&path, own).unwrap();
    let result = case.trial(TrialPhases::without_warm_up(1_000_000_000)).unwrap();
    assert_eq!(result.requests_total, 198);
    assert_eq!(result.errors[&ErrorClass::Reset].count, 3);
    assert!(result.errors[&ErrorClass::Refused].first.contains("connect"));
    assert!(result.errors[&ErrorClass::Refused].count < 100, "the pauses grow");
    assert!(result.elapsed_ns >= 1_000_000_000, "the time without answers counts");
}

#[test]
fn a_connection_closed_while_idle_is_opened_again_without_an_error() {
    let accepted = Arc::new(Mutex::new(Vec::new()));
    let kept = accepted.clone();
    let server = Accepting::unix(move |peer| {
        kept.lock().unwrap().push(peer.try_clone().unwrap());
        conversation(peer, &AtomicU64::new(0), &|_| Act::Say(GOOD.into()));
    });
    for connections in [1, 3] {
        let mut case = Case::prepare(&spec(&server.endpoint, http()).connections(connections)).unwrap();
        assert_eq!(case.trial(SHORT).unwrap().connections_opened, 0);
        for peer in accepted.lock().unwrap().drain(..) {
            let _ = peer.shutdown(std::net::Shutdown::Both);
        }
        let result = case.trial(SHORT).unwrap();
        assert_eq!(
            (result.connections_opened, result.error_total()),
            (u64::from(connections), 0)
        );
    }
}

/// Servers short of connections do this without a notice. Each of three connections gets a request every 300 ms, which
/// leaves time to notice the close.
#[test]
fn a_connection_closed_between_two_requests_of_an_open_loop_is_opened_again() {
    let closing = Arc::new(AtomicBool::new(false));
    let asked = closing.clone();
    let server = Scripted::start(true, move |_| match asked.load(SeqCst) {
        false => Act::Say(GOOD.into()),
        true => Act::SayAndClose(GOOD.into()),
    });
    let model = open(10.0, Arrivals::Constant);
    let mut case = Case::prepare(&spec(server.endpoint(), http()).connections(3).model(model)).unwrap();
    closing.store(true, SeqCst);
    let result = case.trial(TrialPhases::without_warm_up(900_000_000)).unwrap();
    assert_eq!((result.requests, result.error_total()), (9, 0), "{:?}", result.errors);
    assert!(result.connections_opened >= 6, "{}", result.connections_opened);
}

#[test]
fn a_drive_session_speaks_lines() {
    let server = Scripted::start(true, |_| Act::Say(GOOD.into()));
    let request = |request: &Request| serde_json::to_string(request).unwrap();
    let case = || "a".to_owned();
    let input = [
        request(&Request::Trial {
            case: case(),
            phases: SHORT,
            stages: Vec::new(),
        }),
        request(&Request::Prepare {
            case: case(),
            spec: Box::new(spec(server.endpoint(), http())),
        }),
        request(&Request::Trial {
            case: case(),
            phases: SHORT,
            stages: Vec::new(),
        }),
        request(&Request::Close { case: case() }),
    ];
    let mut output = Vec::new();
    drive::serve(input.join("\n").as_bytes(), &mut output).unwrap();
    let mut lines = output.as_slice();
    let mut next = || wire::read_line::<Reply>(&mut lines).unwrap().unwrap();
    assert!(matches!(
        next(),
        Reply::Hello {
            protocol: wire::VERSION,
            ..
        }
    ));
    assert!(matches!(
        next(),
        Reply::Failed {
            stage: Stage::Trial,
            ..
        }
    ));
    let Reply::Prepared { proof, .. } = next() else {
        panic!("not prepared")
    };
    assert!(proof.reused && proof.family == "unix");
    let Reply::Trial { result, .. } = next() else {
        panic!("no result")
    };
    assert_eq!(result.service_time.unwrap().count(), result.requests);
    assert!(matches!(next(), Reply::Closed { .. }));
}
