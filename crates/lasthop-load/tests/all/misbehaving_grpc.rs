//! Servers of gRPC that lie, break off, fall silent or leave. Each wrong reply is an error of its class and none a fast
//! call; every trial ends. Other servers ask in between: the client answers a ping, and waits for a window.

use crate::common;

use std::{
    io::{Read, Write},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
};

use common::{Accepting, SHORT, With, counted, for_ms, of_json, run, some_lost, spec};
use lasthop_protocol::Protocol;
use lasthop_trial::{
    address::{Address, Endpoint},
    options::Engine,
    result::{ErrorClass, TrialResult},
};
use serde_json::json;
use socket2::Socket;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const END_HEADERS: u8 = 4;
const ENDS: u8 = 5;

fn echo(size: u32) -> Protocol {
    of_json(json!({ "grpc": { "method": "lasthop.Echo/Call", "size": size, "expect": "echo" } }))
}

fn frame(kind: u8, flags: u8, stream: u32, content: &[u8]) -> Vec<u8> {
    let length = (content.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), content].concat()
}

fn message(stream: u32, text: &[u8]) -> Vec<u8> {
    let message = [&[0, 0, 0, 0, text.len() as u8 + 2, 0x0a, text.len() as u8], text].concat();
    frame(DATA, 0, stream, &message)
}

/// `:status: 200` is entry 8 of the static table, the name `content-type` is entry 31.
fn head(stream: u32) -> Vec<u8> {
    head_of(stream, 0x88, b"application/grpc")
}

fn head_of(stream: u32, status: u8, content_type: &[u8]) -> Vec<u8> {
    let block = [&[status, 0x0f, 0x10, content_type.len() as u8], content_type].concat();
    frame(HEADERS, END_HEADERS, stream, &block)
}

fn status(stream: u32, code: u8) -> Vec<u8> {
    frame(
        HEADERS,
        ENDS,
        stream,
        &[b"\x00\x0bgrpc-status\x01".as_slice(), &[b'0' + code]].concat(),
    )
}

fn with_head(head: Vec<u8>, stream: u32) -> Vec<u8> {
    [head, message(stream, b"abcd"), status(stream, 0)].concat()
}

/// A correct reply except for the trailer after the name of its status.
fn ended(stream: u32, status: &[u8]) -> Vec<u8> {
    let trailers = frame(HEADERS, ENDS, stream, &[b"\x00\x0bgrpc-status", status].concat());
    [head(stream), message(stream, b"abcd"), trailers].concat()
}

fn right(stream: u32) -> Vec<u8> {
    [head(stream), message(stream, b"abcd"), status(stream, 0)].concat()
}

/// A server that answers the n-th call, counted over all connections, with `answer(n, stream)`; it hangs up if that is
/// empty.
fn server(answer: impl Fn(u64, u32) -> Vec<u8> + Send + Sync + 'static) -> (Accepting, Arc<AtomicU64>) {
    let calls = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&calls);
    let server = Accepting::unix(move |peer| converse(peer, &count, &answer).unwrap_or_default());
    (server, calls)
}

/// Answers each stream that ends, until the client closes.
fn converse(mut peer: Socket, calls: &AtomicU64, answer: &impl Fn(u64, u32) -> Vec<u8>) -> Option<()> {
    peer.read_exact(&mut [0; 24]).ok()?;
    peer.write_all(&frame(SETTINGS, 0, 0, &[])).ok()?;
    loop {
        let mut head = [0; 9];
        peer.read_exact(&mut head).ok()?;
        let [_, high, low, kind, flags, stream @ ..] = head;
        let length = u32::from(high) << 8 | u32::from(low);
        peer.read_exact(&mut vec![0; length as usize]).ok()?;
        if kind == DATA && flags & 1 > 0 {
            let said = answer(calls.fetch_add(1, SeqCst), u32::from_be_bytes(stream));
            if said.is_empty() {
                return None;
            }
            // A fast machine fills the connection's window of 64 KiB.
            let opened = frame(WINDOW_UPDATE, 0, 0, &length.to_be_bytes());
            peer.write_all(&[opened, said].concat()).ok()?;
        }
    }
}

fn load(server: &Accepting, engine: Engine, pipeline: u32, timeout: bool) -> TrialResult {
    let mut spec = spec(&server.endpoint, echo(4)).engine(engine).pipeline(pipeline);
    let mut phases = for_ms(60);
    if timeout {
        spec.timeouts.request_ns = 200_000_000;
        phases.measure_ns = 600_000_000;
    }
    run(&spec, phases).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_server_that_lies_is_counted_by_class() {
    type Lie = fn(u32) -> Vec<u8>;
    let lies: [(Lie, ErrorClass); 15] = [
        // Entries 14 and 13 of the static table: 500 and 404.
        (
            |stream| with_head(head_of(stream, 0x8e, b"application/grpc"), stream),
            ErrorClass::WrongStatus,
        ),
        (
            |stream| with_head(head_of(stream, 0x8d, b"application/grpc"), stream),
            ErrorClass::WrongStatus,
        ),
        (
            |stream| with_head(head_of(stream, 0x88, b"text/html"), stream),
            ErrorClass::WrongContent,
        ),
        (|stream| ended(stream, b"\x02+0"), ErrorClass::Protocol),
        (
            |stream| ended(stream, b"\x0213\x00\x0bgrpc-status\x010"),
            ErrorClass::Protocol,
        ),
        (
            |stream| [head(stream), message(stream, b"abcx"), status(stream, 0)].concat(),
            ErrorClass::WrongContent,
        ),
        (
            |stream| [head(stream), status(stream, 0)].concat(),
            ErrorClass::WrongContent,
        ),
        (
            |stream| [head(stream), status(stream, 8)].concat(),
            ErrorClass::WrongStatus,
        ),
        (|stream| frame(RST_STREAM, 0, stream, &[0, 0, 0, 11]), ErrorClass::Reset),
        (|_| frame(GOAWAY, 0, 0, &[0, 0, 0, 0, 0, 0, 0, 11]), ErrorClass::Reset),
        (|_| b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), ErrorClass::Protocol),
        (|stream| right(stream + 2), ErrorClass::Protocol),
        (|stream| frame(HEADERS, ENDS, stream, &[0xff; 9]), ErrorClass::Protocol),
        (|_| Vec::new(), ErrorClass::Reset),
        (|stream| head(stream), ErrorClass::Timeout),
    ];
    for (lie, class) in lies {
        for engine in [Engine::Blocking, Engine::Epoll] {
            let lying = move |n, stream| if n % 5 < 4 { right(stream) } else { lie(stream) };
            let (server, _) = server(lying);
            let result = load(&server, engine, 1, class == ErrorClass::Timeout);
            let classes: Vec<_> = result.errors.keys().copied().collect();
            assert_eq!(classes, [class], "{engine:?}: {:?}", result.errors);
            assert!(result.requests > 0, "{class:?}, {engine:?}");
        }
    }
}

#[test]
fn pings_are_answered_in_between_and_batches_may_be_mixed() {
    for engine in [Engine::Blocking, Engine::Epoll] {
        // The last of four calls brings the replies to all of them, in another order, with a ping before and after.
        let (server, calls) = server(|n, stream| {
            let ping = frame(PING, 0, 0, &n.to_be_bytes());
            match n % 4 {
                3 => [7, 1, 3, 5]
                    .iter()
                    .flat_map(|back| right(stream + 1 - back))
                    .chain(ping)
                    .collect(),
                _ => ping,
            }
        });
        let result = load(&server, engine, 4, false);
        assert_eq!(result.error_total(), 0, "{engine:?}: {:?}", result.errors);
        assert!(
            result.requests >= 4 && calls.load(SeqCst) >= result.requests,
            "{engine:?}"
        );
    }
}

/// The window of a stream opens only after the client has filled it.
#[test]
fn a_window_is_waited_for() {
    for engine in [Engine::Blocking, Engine::Epoll] {
        let server = Accepting::unix(|peer| with_small_windows(peer).unwrap_or_default());
        let mut spec = spec(&server.endpoint, echo(1_000)).engine(engine);
        spec.timeouts.request_ns = 20_000_000_000;
        let result = run(&spec, SHORT).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(result.error_total(), 0, "{:?}", result.errors);
        assert!(result.requests > 0);
    }
}

/// Gives each stream a window of 100 bytes at a time, and echoes the bytes.
fn with_small_windows(mut peer: Socket) -> Option<()> {
    peer.read_exact(&mut [0; 24]).ok()?;
    peer.write_all(&frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 100])).ok()?;
    let mut message = Vec::new();
    loop {
        let mut head_of = [0; 9];
        peer.read_exact(&mut head_of).ok()?;
        let [_, high, low, kind, flags, stream @ ..] = head_of;
        let mut content = vec![0; usize::from(high) << 8 | usize::from(low)];
        peer.read_exact(&mut content).ok()?;
        if kind != DATA {
            continue;
        }
        assert!(content.len() <= 100, "{}", content.len());
        message.extend_from_slice(&content);
        let stream = u32::from_be_bytes(stream);
        let more = (content.len() as u32).to_be_bytes();
        let said = match flags & 1 {
            0 => [
                frame(WINDOW_UPDATE, 0, stream, &more),
                frame(WINDOW_UPDATE, 0, 0, &more),
            ]
            .concat(),
            _ => {
                let data = frame(DATA, 0, stream, &std::mem::take(&mut message));
                [frame(WINDOW_UPDATE, 0, 0, &more), head(stream), data, status(stream, 0)].concat()
            }
        };
        peer.write_all(&said).ok()?;
    }
}

/// A server that leaves after a while, with all calls answered, causes a new connection and no error.
#[test]
fn a_server_that_leaves_in_order_costs_no_call() {
    for engine in [Engine::Blocking, Engine::Epoll] {
        let (server, calls) = server(|n, stream| {
            let leaving = frame(GOAWAY, 0, 0, &[&stream.to_be_bytes()[..], &[0; 4]].concat());
            if n % 10 == 9 {
                [leaving, right(stream)].concat()
            } else {
                right(stream)
            }
        });
        // Until the server has left, however slow the machine is.
        while calls.load(SeqCst) < 20 {
            let result = load(&server, engine, 1, false);
            assert_eq!(result.error_total(), 0, "{:?}", result.errors);
        }
    }
}

/// A server leaves while a batch is under way: calls above its last stream are sent again, on another connection.
#[test]
fn calls_above_the_last_stream_are_sent_again() {
    let leaving = |last: u32| frame(GOAWAY, 0, 0, &[&last.to_be_bytes()[..], &[0; 4]].concat());
    let refused = |stream| frame(RST_STREAM, 0, stream, &[0, 0, 0, 7]);
    type Answer = Box<dyn Fn(u64, u32) -> Vec<u8> + Send + Sync>;
    let ways: [Answer; 3] = [
        // GOAWAY with the last reply; the server hangs up afterwards.
        Box::new(move |_, stream| match stream {
            ..=19 => right(stream),
            21 => [right(stream), leaving(21)].concat(),
            _ => Vec::new(),
        }),
        // GOAWAY before the last reply.
        Box::new(move |_, stream| match stream {
            ..=19 => right(stream),
            21 => [leaving(21), right(stream)].concat(),
            _ => Vec::new(),
        }),
        // A warning first, then each call is refused.
        Box::new(move |_, stream| match stream {
            ..=19 => right(stream),
            21 => [leaving(u32::MAX >> 1), right(stream)].concat(),
            _ => refused(stream),
        }),
    ];
    for (way, answer) in (0..).zip(ways) {
        let answer = Arc::new(answer);
        for engine in [Engine::Blocking, Engine::Epoll] {
            let answer = answer.clone();
            let (server, _) = server(move |n, stream| answer(n, stream));
            // The probe's connection carries eight calls, each later one eleven.
            let spec = spec(&server.endpoint, echo(4)).engine(engine).pipeline(4);
            let result = counted(&spec, 24);
            assert_eq!(result.error_total(), 0, "{way}, {engine:?}: {:?}", result.errors);
            // Batches of 4, 4 and 3 calls, then of 1, 4, 4 and 2.
            assert_eq!((result.requests_total, result.sent_again), (24, 3), "{way}, {engine:?}");
        }
    }
}

#[test]
fn a_server_that_only_leaves_is_an_error() {
    for engine in [Engine::Blocking, Engine::Epoll] {
        let (server, _) = server(|n, stream| match n {
            0..8 => right(stream),
            _ => frame(GOAWAY, 0, 0, &[0; 8]),
        });
        let spec = spec(&server.endpoint, echo(4)).engine(engine).pipeline(4);
        let result = counted(&spec, 8);
        // The first batch is tried on three more connections, the second on none.
        assert_eq!(some_lost(&result), (0, 8, 12), "{engine:?}");
        let text = "the server ends the connection (GOAWAY): NO_ERROR";
        assert_eq!(result.errors[&ErrorClass::Reset].first, text);
    }
}

#[test]
fn what_speaks_no_http_2_is_said_so() {
    let server = Accepting::unix(|mut peer| {
        let _ = peer.read(&mut [0; 24]);
        let _ = peer.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    });
    let endpoint = Endpoint::plain(server.endpoint.address.clone());
    assert!(matches!(endpoint.address, Address::Unix(_)));
    let error = run(&spec(&endpoint, echo(4)), SHORT).unwrap_err().to_string();
    assert!(error.contains("does not speak HTTP/2"), "{error}");
}
