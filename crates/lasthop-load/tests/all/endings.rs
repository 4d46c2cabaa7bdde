//! Servers that end a connection in order, after a number of requests, while other requests are under way. Requests not
//! taken are sent again and are no errors; requests that may have been taken are errors.

use crate::common;

use std::{
    io::{Read, Write},
    net::Shutdown,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
};

use common::{Accepting, With, counted, lengths_of, of_json, of_url, open, some_lost, spec};
use lasthop_load::{engine::Case, sample};
use lasthop_protocol::{Protocol, spec::Spec};
use lasthop_trial::{
    options::{Arrivals, Engine, Reuse},
    result::{ErrorClass, TrialResult},
};
use serde_json::json;
use socket2::Socket;

/// Replies on a connection, requests in a batch, and requests in a load. On every other connection the fourth batch
/// breaks in half.
const EACH: u64 = 6;
const DEPTH: u32 = 4;
const ASKED: u64 = 24;
const HALVES: u64 = 4;

#[derive(Clone, Copy, Debug, PartialEq)]
enum By {
    /// Closes with received bytes unread.
    Closing,
    /// Closes after reading all received bytes.
    ReadingAndClosing,
    /// Sends no more, but reads on and drops the bytes until the client closes.
    Lingering,
}

#[derive(Clone)]
struct Script {
    protocol: Protocol,
    /// Reply to a client's greeting.
    greeting: &'static [u8],
    reply: &'static [u8],
    /// The last reply on a connection.
    last: &'static [u8],
    by: By,
    /// Replies on a connection.
    each: u64,
}

struct Ending {
    server: Accepting,
    answered: Arc<AtomicU64>,
    protocol: Protocol,
}

impl Ending {
    fn start(script: &Script, over_tcp: bool) -> Self {
        let answered = Arc::new(AtomicU64::new(0));
        let count = answered.clone();
        let own = script.clone();
        let lengths = lengths_of(&script.protocol, &[]);
        let serve = move |peer| converse(peer, &own, lengths, &count).unwrap_or_default();
        let server = if over_tcp {
            Accepting::tcp(serve)
        } else {
            Accepting::unix(serve)
        };
        let protocol = script.protocol.clone();
        Self {
            server,
            answered,
            protocol,
        }
    }

    fn spec(&self, pipeline: u32, engine: Engine) -> Spec {
        spec(&self.server.endpoint, self.protocol.clone())
            .pipeline(pipeline)
            .engine(engine)
    }
}

fn converse(
    mut peer: Socket,
    script: &Script,
    [greeting, length]: [usize; 2],
    answered: &AtomicU64,
) -> std::io::Result<()> {
    // Closing a TCP socket with bytes unread drops bytes that Nagle's algorithm holds back.
    let _ = peer.set_tcp_nodelay(true);
    peer.read_exact(&mut vec![0; greeting])?;
    peer.write_all(script.greeting)?;
    for number in 1..=script.each {
        peer.read_exact(&mut vec![0; length])?;
        answered.fetch_add(1, SeqCst);
        if number < script.each {
            peer.write_all(script.reply)?;
        }
    }
    if script.by == By::ReadingAndClosing {
        // Bytes sent together with the last request have arrived.
        peer.set_nonblocking(true)?;
        while peer.read(&mut [0; 4096]).is_ok_and(|count| count > 0) {}
    }
    peer.write_all(script.last)?;
    if script.by == By::Lingering {
        peer.shutdown(Shutdown::Write)?;
        while peer.read(&mut [0; 4096])? > 0 {}
    }
    Ok(())
}

const HELLO: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHello";
const LAST_HELLO: &[u8] = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nHello";

/// Equal replies without a greeting.
fn script(protocol: Protocol, reply: &'static [u8], by: By) -> Script {
    Script {
        protocol,
        greeting: b"",
        reply,
        last: reply,
        by,
        each: EACH,
    }
}

fn http(method: &str, last: &'static [u8], by: By) -> Script {
    let expect = json!({ "status": 200, "body": "Hello" });
    let protocol = of_json(json!({ "http": { "method": method, "path": "/", "expect": expect } }));
    Script {
        last,
        ..script(protocol, HELLO, by)
    }
}

fn redis(by: By) -> Script {
    let protocol = of_json(json!({ "redis": { "command": ["GET", "x"], "expect": { "bulk": "Hello" } } }));
    script(protocol, b"$5\r\nHello\r\n", by)
}

fn raw(by: By) -> Script {
    let protocol = of_json(json!({ "raw": { "send": "ping", "end": { "bytes": 4 } } }));
    script(protocol, b"pong", by)
}

fn postgres(by: By) -> Script {
    const ROW: &[u8] = b"T\0\0\0\x06\0\x01D\0\0\0\x0b\0\x01\0\0\0\x011C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I";
    Script {
        greeting: b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I",
        ..script(of_url("postgres://u@127.0.0.1/d"), ROW, by)
    }
}

fn load(spec: &Spec) -> TrialResult {
    counted(spec, ASKED)
}

/// Checks a load with `pipeline` requests at once: no errors, each request counted once, and `sent_again` requests sent
/// again.
fn all_answered(script: &Script, over_tcp: bool, pipeline: u32, sent_again: Option<u64>) {
    for engine in [Engine::Blocking, Engine::Epoll] {
        let server = Ending::start(script, over_tcp);
        let result = load(&server.spec(pipeline, engine));
        let case = format!(
            "{}, {:?}, TCP {over_tcp}, {pipeline} at once, {engine:?}",
            script.protocol.kind().name,
            script.by
        );
        assert_eq!(result.error_total(), 0, "{case}: {:?}", result.errors);
        assert_eq!((result.requests, result.requests_total), (ASKED, ASKED), "{case}");
        assert_eq!(result.service_time.unwrap().count(), ASKED, "{case}");
        let probed = 2 * u64::from(pipeline);
        assert_eq!(server.answered.load(SeqCst), probed + ASKED, "{case}");
        if let Some(sent_again) = sent_again {
            assert_eq!(result.sent_again, sent_again, "{case}");
        }
    }
}

/// Checks that each request of a batch left at the end of a connection is an error.
fn all_lost(script: Script, over_tcp: bool) {
    // The probe's connection ends before.
    let script = Script { each: 10, ..script };
    for engine in [Engine::Blocking, Engine::Epoll] {
        let server = Ending::start(&script, over_tcp);
        let result = load(&server.spec(DEPTH, engine));
        assert_eq!(some_lost(&result), (20, 4, 0), "{engine:?}");
    }
}

#[test]
fn what_follows_the_last_reply_of_http_is_sent_again() {
    for over_tcp in [false, true] {
        for by in [By::Closing, By::ReadingAndClosing, By::Lingering] {
            // Also requests that must not be repeated: the server says that it has not taken them.
            for method in ["GET", "POST"] {
                let script = http(method, LAST_HELLO, by);
                all_answered(&script, over_tcp, DEPTH, Some(HALVES));
                all_answered(&script, over_tcp, 1, Some(0));
            }
        }
        // Without a notice, but between two replies: seven replies never end with a batch.
        for by in [By::ReadingAndClosing, By::Lingering] {
            let script = Script {
                each: 7,
                ..http("GET", HELLO, by)
            };
            all_answered(&script, over_tcp, DEPTH, None);
            all_lost(http("POST", HELLO, by), over_tcp);
        }
    }
    // A Unix socket reports that sent bytes were not read.
    all_answered(&http("GET", HELLO, By::Closing), false, DEPTH, None);
    all_answered(&http("POST", HELLO, By::Closing), false, 1, None);
}

#[test]
fn what_a_closed_connection_of_a_wordless_protocol_left_is_sent_again() {
    for over_tcp in [false, true] {
        for make in [redis, raw] {
            for pipeline in [1, DEPTH] {
                all_answered(&make(By::Closing), over_tcp, pipeline, None);
            }
            for by in [By::ReadingAndClosing, By::Lingering] {
                all_answered(&make(by), over_tcp, DEPTH, None);
            }
        }
    }
}

#[test]
fn a_child_that_drops_what_it_reads_at_its_end_costs_no_request() {
    for over_tcp in [false, true] {
        all_answered(&raw(By::Lingering), over_tcp, 1, None);
    }
}

#[test]
fn a_statement_is_sent_again_only_if_it_certainly_was_not_read() {
    all_answered(&postgres(By::Closing), false, 1, None);
    all_lost(postgres(By::ReadingAndClosing), false);
    all_lost(postgres(By::Lingering), true);
}

/// In a batch, a truncated reply is an error; the requests after it are sent again if the server said that it was the
/// last.
#[test]
fn a_last_reply_that_is_cut_off_is_an_error_alone() {
    for over_tcp in [false, true] {
        // The probe's connection ends before.
        let script = Script {
            each: 10,
            ..http("GET", &LAST_HELLO[..LAST_HELLO.len() - 2], By::ReadingAndClosing)
        };
        for engine in [Engine::Blocking, Engine::Epoll] {
            let server = Ending::start(&script, over_tcp);
            let result = counted(&server.spec(DEPTH, engine), 12);
            assert_eq!(some_lost(&result), (11, 1, 2), "{engine:?}");
        }
    }
}

#[test]
fn requests_of_a_schedule_are_sent_again_and_counted_once() {
    for over_tcp in [false, true] {
        for script in [raw(By::Closing), redis(By::Closing), postgres(By::Closing)] {
            if over_tcp && !script.greeting.is_empty() {
                continue;
            }
            let server = Ending::start(&script, over_tcp);
            // A request is due before the server has closed.
            let model = open(100_000.0, Arrivals::Constant);
            let spec = server.spec(1, Engine::Epoll).model(model).connections(2);
            let result = load(&spec);
            assert_eq!(result.error_total(), 0, "{:?}", result.errors);
            let offered = result.offered.unwrap();
            assert_eq!(
                (result.requests, offered.sent, offered.scheduled),
                (ASKED, ASKED, ASKED)
            );
            assert_eq!(result.response_time.unwrap().count(), ASKED);
            assert_eq!(server.answered.load(SeqCst), 2 + ASKED);
        }
    }
}

#[test]
fn a_server_that_closes_after_each_reply_answers_no_pipeline() {
    let server = Accepting::unix(|mut peer| {
        let _ = peer.read(&mut [0; 4096]);
        let _ = peer.write_all(LAST_HELLO);
    });
    let protocol = http("GET", HELLO, By::Closing).protocol;
    let with = |pipeline| spec(&server.endpoint, protocol.clone()).pipeline(pipeline);
    let said = Case::prepare(&with(4)).map(drop).unwrap_err().cause;
    assert!(said.contains("ends the connection after each reply"), "{said}");
    assert!(Case::prepare(&with(1)).is_ok());
}

#[test]
fn a_server_that_closes_after_each_reply_without_a_word_keeps_no_connection() {
    for over_tcp in [false, true] {
        let script = Script {
            each: 1,
            ..raw(By::Closing)
        };
        let server = Ending::start(&script, over_tcp);
        let error = Case::prepare(&server.spec(1, Engine::Auto)).map(drop).unwrap_err();
        assert_eq!(error.class, Some(ErrorClass::Reset), "{error}");
    }
}

/// A server that answers before it has read the body. Then it closes with the rest unread, or reads on.
fn early(over_tcp: bool, reply: Vec<u8>, reads_on: bool) -> Accepting {
    let serve = move |mut peer: Socket| {
        let mut head = Vec::new();
        let mut byte = [0];
        while peer.read_exact(&mut byte).is_ok() {
            head.push(byte[0]);
            if !head.ends_with(b"\r\n\r\n") {
                continue;
            }
            head.clear();
            let answered = peer.write_all(&reply);
            if answered.is_err() || !reads_on || peer.read_exact(&mut vec![0; BODY]).is_err() {
                return;
            }
        }
    };
    if over_tcp {
        Accepting::tcp(serve)
    } else {
        Accepting::unix(serve)
    }
}

/// More than the buffers of a socket hold.
const BODY: usize = 8 << 20;

fn upload(status: u16) -> Protocol {
    let body = "x".repeat(BODY);
    of_json(json!({ "http": { "method": "POST", "path": "/", "body": body, "expect": { "status": status } } }))
}

/// Checks all ways to ask the server of `early`: each gets the same number of correct replies.
fn all_early_replies_count(over_tcp: bool, reply: &[u8], reads_on: bool) {
    let server = early(over_tcp, reply.to_vec(), reads_on);
    let asked = spec(&server.endpoint, upload(200));
    let sample = sample::take(&asked, || true).unwrap();
    assert!(sample.reply == reply && (sample.closes || reads_on));
    for engine in [Engine::Blocking, Engine::Epoll] {
        for reuse in [Reuse::KeepAlive, Reuse::PerRequest] {
            let asked = asked.clone().engine(engine).reuse(reuse);
            let result = counted(&asked, 5);
            let case = format!("TCP {over_tcp}, {engine:?}, {reuse:?}: {:?}", result.errors);
            assert_eq!((result.requests_total, result.error_total()), (5, 0), "{case}");
        }
    }
}

#[test]
fn a_reply_that_comes_before_the_body_was_read_counts() {
    for over_tcp in [false, true] {
        all_early_replies_count(over_tcp, LAST_HELLO, false);
        let long = [
            b"HTTP/1.1 200 OK\r\nContent-Length: 8388608\r\n\r\n",
            &vec![b'y'; BODY][..],
        ]
        .concat();
        all_early_replies_count(over_tcp, &long, true);
    }
    // Only a Unix socket tells that nothing was lost.
    all_early_replies_count(false, b"HTTP/1.1 200 OK\r\n\r\nHello", false);
}

#[test]
fn a_server_that_refuses_a_body_before_it_has_read_it_is_heard() {
    for over_tcp in [false, true] {
        let server = early(
            over_tcp,
            b"HTTP/1.1 413 Too big\r\nContent-Length: 0\r\n\r\n".to_vec(),
            false,
        );
        let asked = spec(&server.endpoint, upload(200));
        let sampled = sample::take(&asked, || true).unwrap_err();
        let prepared = Case::prepare(&asked).map(drop).unwrap_err();
        for said in [sampled.message, prepared.cause] {
            assert!(said.starts_with("status 413, expected 200"), "{said}");
        }
    }
}
