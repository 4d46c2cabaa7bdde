//! Servers of Redis, PostgreSQL and echoes that lie about lengths, break off, fall silent, dawdle or mix up replies.
//! Each wrong reply is an error of its class and none a fast request; every trial ends; no memory is reserved for a
//! length that a server claims.

use crate::{
    common,
    misbehaving::{AT_AN_EDGE, accounted},
};

use std::{
    io::{Read, Write},
    os::unix::net::{UnixListener, UnixStream},
    sync::{
        Arc, Barrier, Mutex,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use common::{Accepting, Running, SHORT, With, echo, for_ms, hello, lengths_of, of_json, of_url, run, spec};
use lasthop_load::{engine::Case, reference, serve::Pattern};
use lasthop_protocol::{LoadOptions, Protocol, spec::Spec, wire::TrialPhases};
use lasthop_trial::{
    address::{Address, Endpoint, Transport},
    options::{Engine, Reuse},
    result::ErrorClass,
};
use serde_json::json;
use socket2::Socket;

/// What follows a wrong reply.
#[derive(Clone, Copy, Debug)]
enum Then {
    GoOn,
    Close,
    /// Silence, with the connection open.
    Hang,
}

/// A server on a Unix socket. It greets, then answers its n-th request, counted over all connections, with `script(n)`.
struct Liar {
    server: Accepting,
    requests: Arc<AtomicU64>,
}

#[derive(Clone)]
struct Lines {
    /// Bytes that the server sends on connect.
    said_first: Vec<u8>,
    /// Bytes of the client's greeting, and the reply to it.
    greeting: Option<(usize, Vec<u8>)>,
    /// Bytes of one request.
    request: usize,
    right: Vec<u8>,
    wrong: Vec<u8>,
    then: Then,
    /// Pause between two bytes of the wrong reply.
    pause: Duration,
}

impl Lines {
    /// Right lines of a server that lets anybody in and always answers `right`.
    fn of(protocol: &Protocol, said_first: Vec<u8>, right: &[u8]) -> Self {
        let [greeting, request] = lengths_of(protocol, &said_first);
        let step = usize::from(!said_first.is_empty());
        Self {
            greeting: (greeting > 0).then(|| (greeting, protocol.welcome(step, false))),
            request,
            right: right.to_vec(),
            wrong: vec![],
            then: Then::GoOn,
            pause: Duration::ZERO,
            said_first,
        }
    }

    fn wrong(&self, bytes: &[u8], then: Then) -> Self {
        Self {
            wrong: bytes.to_vec(),
            then,
            ..self.clone()
        }
    }
}

impl Liar {
    /// Every fifth reply is the wrong one; the first four are right.
    fn start(lines: &Lines) -> Self {
        let requests = Arc::new(AtomicU64::new(0));
        let (count, lines) = (requests.clone(), lines.clone());
        let server = Accepting::unix(move |peer| converse(peer, &count, &lines).unwrap_or_default());
        Self { server, requests }
    }
}

/// Serves a client until it closes.
fn converse(mut peer: Socket, requests: &AtomicU64, lines: &Lines) -> Option<()> {
    peer.write_all(&lines.said_first).ok()?;
    if let Some((bytes, answer)) = &lines.greeting {
        peer.read_exact(&mut vec![0; *bytes]).ok()?;
        peer.write_all(answer).ok()?;
    }
    loop {
        peer.read_exact(&mut vec![0; lines.request]).ok()?;
        if requests.fetch_add(1, SeqCst) % 5 < 4 {
            peer.write_all(&lines.right).ok()?;
            continue;
        }
        for piece in lines.wrong.chunks(if lines.pause.is_zero() { usize::MAX } else { 1 }) {
            thread::sleep(lines.pause);
            peer.write_all(piece).ok()?;
        }
        match lines.then {
            Then::GoOn => {}
            Then::Close => return None,
            Then::Hang => {
                let _ = peer.read(&mut [0; 64]);
            }
        }
    }
}

/// Checks, with each engine, that the wrong replies are errors of this class and the only ones, with exact counts.
fn errors_of(protocol: &Protocol, lines: &Lines, class: ErrorClass) {
    for (engine, connections) in [(Engine::Blocking, 1), (Engine::Epoll, 1), (Engine::Auto, 3)] {
        let server = Liar::start(lines);
        let mut spec = spec(&server.server.endpoint, protocol.clone())
            .engine(engine)
            .connections(connections);
        let mut phases = for_ms(60);
        if class == ErrorClass::Timeout {
            spec.timeouts.request_ns = 200_000_000;
            phases.measure_ns = 600_000_000;
        }
        let result = run(&spec, phases).unwrap_or_else(|error| panic!("{class:?}, {engine:?}: {error}"));
        let classes: Vec<_> = result.errors.keys().copied().collect();
        let said = String::from_utf8_lossy(&lines.wrong[..lines.wrong.len().min(40)]).into_owned();
        assert_eq!(classes, [class], "{said:?}, {engine:?}: {:?}", result.errors);
        accounted(&server.requests, 2, &result);
    }
}

/// Checks that `wrong`, every fifth reply, is wrong content for a client that has learnt from the first replies.
fn is_found_out(protocol: &Protocol, lines: &Lines, wrong: &[u8]) {
    let server = Liar::start(&lines.wrong(wrong, Then::GoOn));
    let spec = spec(&server.server.endpoint, protocol.clone());
    let learnt = reference::learn(&spec, || true).unwrap();
    assert_eq!((learnt.unchecked, learnt.closes), (None, false));
    let spec = spec.protocol(learnt.protocol);
    let result = run(&spec, for_ms(30)).unwrap();
    let classes: Vec<_> = result.errors.keys().copied().collect();
    assert_eq!(
        classes,
        [ErrorClass::WrongContent],
        "{}: {:?}",
        wrong.escape_ascii(),
        result.errors
    );
    // Samples and probes.
    accounted(&server.requests, 34, &result);
}

fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// A protocol, and right lines of a server that says nothing first.
fn plain(protocol: Protocol, right: &[u8]) -> (Protocol, Lines) {
    let lines = Lines::of(&protocol, vec![], right);
    (protocol, lines)
}

fn redis() -> (Protocol, Lines) {
    let redis = json!({ "command": ["GET", "greeting"], "expect": { "bulk": "Hello" }, "password": "secret" });
    plain(of_json(json!({ "redis": redis })), b"$5\r\nHello\r\n")
}

#[test]
fn redis_that_lies_is_counted_by_class() {
    let (protocol, lines) = redis();
    let endless = b"+".iter().chain([b'x'; 100_000].iter()).copied().collect::<Vec<u8>>();
    for (wrong, then, class) in [
        (&b"-ERR out of order\r\n"[..], Then::GoOn, ErrorClass::WrongStatus),
        (b"$5\r\nJello\r\n", Then::GoOn, ErrorClass::WrongContent),
        (b"$4\r\nHell\r\n", Then::GoOn, ErrorClass::WrongContent),
        (b"$-1\r\n", Then::GoOn, ErrorClass::WrongContent),
        (b"$99999999999999\r\n", Then::Hang, ErrorClass::Protocol),
        (b"$five\r\nHello\r\n", Then::Hang, ErrorClass::Protocol),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", Then::Hang, ErrorClass::Protocol),
        (b"$5\r\nHello\r\n$5\r\nHello\r\n", Then::Hang, ErrorClass::Protocol),
        (&endless, Then::Hang, ErrorClass::Protocol),
        (b"$5\r\nHel", Then::Close, ErrorClass::Reset),
        (b"", Then::Close, ErrorClass::Reset),
        (b"", Then::Hang, ErrorClass::Timeout),
        (b"$5\r\nHell", Then::Hang, ErrorClass::Timeout),
    ] {
        errors_of(&protocol, &lines.wrong(wrong, then), class);
    }
}

#[test]
fn lengths_that_are_claimed_are_not_reserved() {
    let before = resident();
    let (protocol, lines) = redis();
    // Lengths that Redis and PostgreSQL allow; bytes of that number never arrive.
    errors_of(
        &protocol,
        &lines.wrong(b"$536870912\r\nHello", Then::Hang),
        ErrorClass::Timeout,
    );
    errors_of(
        &protocol,
        &lines.wrong(b"*1000000000\r\n$5\r\nHello\r\n", Then::Hang),
        ErrorClass::Timeout,
    );
    let (protocol, lines) = postgres();
    errors_of(
        &protocol,
        &lines.wrong(b"D\x3f\xff\xff\xff\0\x01\0\0\0\x01", Then::Hang),
        ErrorClass::Timeout,
    );
    // Other tests of this process may have freed more.
    let grown = resident().saturating_sub(before);
    assert!(grown < 64 * 1024, "{grown} KiB more at the peak");
}

#[test]
fn a_dawdling_server_is_a_timeout() {
    for (protocol, lines) in [redis(), postgres()] {
        let slowly = Lines {
            wrong: lines.right.clone(),
            pause: Duration::from_millis(40),
            ..lines
        };
        errors_of(&protocol, &slowly, ErrorClass::Timeout);
    }
}

fn mysql() -> (Protocol, Lines) {
    let protocol = of_url("mysql://u@127.0.0.1");
    let lines = Lines::of(&protocol, protocol.welcome(0, false), &row("1"));
    (protocol, lines)
}

/// A result of MySQL: one column, one row.
fn row(value: &str) -> Vec<u8> {
    let column = b"\x01\0\0\x01\x01\x17\0\0\x02\x03def\0\0\0\x011\0\x0c\x3f\0\x01\0\0\0\x03\x81\0\0\0\0";
    let row = [&[value.len() as u8 + 1, 0, 0, 3, value.len() as u8], value.as_bytes()].concat();
    [&column[..], &row, b"\x07\0\0\x04\xfe\0\0\x02\0\0\0"].concat()
}

#[test]
fn mysql_that_lies_is_counted_by_class() {
    let (protocol, lines) = mysql();
    let right = lines.right.clone();
    let error = b"\x0d\0\0\x01\xff\x10\x04#HY000busy";
    let two = right.repeat(2);
    for (wrong, then, class) in [
        (&error[..], Then::GoOn, ErrorClass::WrongStatus),
        (&row("2"), Then::GoOn, ErrorClass::WrongContent),
        // OK, where a row was expected.
        (b"\x07\0\0\x01\0\0\0\x02\0\0\0", Then::GoOn, ErrorClass::WrongContent),
        (b"\x07\0\0\x05\0\0\0\x02\0\0\0", Then::Hang, ErrorClass::Protocol),
        (b"\x01\0\0\x01\xfb", Then::Hang, ErrorClass::Protocol),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", Then::Hang, ErrorClass::Protocol),
        (&two, Then::Hang, ErrorClass::Protocol),
        (&right[..20], Then::Close, ErrorClass::Reset),
        (b"", Then::Close, ErrorClass::Reset),
        (b"", Then::Hang, ErrorClass::Timeout),
        (&right[..right.len() - 1], Then::Hang, ErrorClass::Timeout),
    ] {
        errors_of(&protocol, &lines.wrong(wrong, then), class);
    }
}

fn postgres() -> (Protocol, Lines) {
    let expect = json!({ "rows": 1, "first": "1", "tag": "SELECT 1" });
    let postgres = json!({ "user": "u", "database": "d", "query": "select 1", "expect": expect });
    plain(of_json(json!({ "postgres": postgres })), &answer("1"))
}

/// A result of one row and one column, with a short description.
fn answer(value: &str) -> Vec<u8> {
    let row = [
        b"D\0\0\0".as_slice(),
        &[10 + value.len() as u8],
        b"\0\x01\0\0\0",
        &[value.len() as u8],
    ]
    .concat();
    [
        b"T\0\0\0\x06\0\x01".as_slice(),
        &row,
        value.as_bytes(),
        b"C\0\0\0\x0dSELECT 1\0",
        READY,
    ]
    .concat()
}

const READY: &[u8] = b"Z\0\0\0\x05I";

#[test]
fn postgresql_that_lies_is_counted_by_class() {
    let (protocol, lines) = postgres();
    let right = lines.right.clone();
    let error = [b"E\0\0\0\x15C53200\0Mno room\0\0".as_slice(), READY].concat();
    let fatal = b"E\0\0\0\x15C57P01\0Mgo away\0\0";
    let empty = [b"I\0\0\0\x04".as_slice(), READY].concat();
    let two = right.repeat(2);
    for (wrong, then, class) in [
        (&error[..], Then::GoOn, ErrorClass::WrongStatus),
        (&answer("2"), Then::GoOn, ErrorClass::WrongContent),
        (&empty, Then::GoOn, ErrorClass::WrongContent),
        (b"D\0\0\0\x03", Then::Hang, ErrorClass::Protocol),
        (b"D\xff\xff\xff\xff", Then::Hang, ErrorClass::Protocol),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", Then::Hang, ErrorClass::Protocol),
        (&two, Then::Hang, ErrorClass::Protocol),
        (&right[..20], Then::Close, ErrorClass::Reset),
        (b"", Then::Close, ErrorClass::Reset),
        (fatal, Then::Close, ErrorClass::WrongStatus),
        (b"", Then::Hang, ErrorClass::Timeout),
        (&right[..right.len() - 1], Then::Hang, ErrorClass::Timeout),
    ] {
        errors_of(&protocol, &lines.wrong(wrong, then), class);
    }
}

/// Any reply of Redis is right.
fn ping() -> Protocol {
    of_json(json!({ "redis": { "command": ["PING"] } }))
}

#[test]
fn bytes_that_are_no_text_are_compared_like_any_others() {
    let http = |body: &[u8]| [b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n", body].concat();
    let bulk = |value: &[u8]| [b"$4\r\n", value, b"\r\n"].concat();
    let value = |value: &[u8]| [b"VALUE lasthop 0 4\r\n", value, b"\r\nEND\r\n"].concat();
    let (one, other) = (b"\x1f\x8b\xff\0", b"\x1f\x8b\xfe\0");
    let (protocol, lines) = plain(of_url("http://127.0.0.1/"), &http(one));
    is_found_out(&protocol, &lines, &http(other));
    let (protocol, lines) = plain(ping(), &bulk(one));
    is_found_out(&protocol, &lines, &bulk(other));
    let (protocol, lines) = plain(of_url("memcached://127.0.0.1"), &value(one));
    is_found_out(&protocol, &lines, &value(other));
}

#[test]
fn elements_of_an_array_are_compared() {
    let (protocol, lines) = plain(ping(), b"*2\r\n$1\r\na\r\n:1\r\n");
    for wrong in [
        &b"*2\r\n$1\r\nb\r\n:1\r\n"[..],
        b"*2\r\n$1\r\na\r\n:2\r\n",
        b"*2\r\n:1\r\n$1\r\na\r\n",
    ] {
        is_found_out(&protocol, &lines, wrong);
    }
}

#[test]
fn headers_that_say_what_a_body_is_are_compared() {
    let reply = |more: &str| format!("HTTP/1.1 302 Found\r\nContent-Length: 2\r\n{more}\r\nok").into_bytes();
    let protocol = of_json(json!({ "http": { "path": "/", "expect": { "status": 302 } } }));
    let (protocol, lines) = plain(protocol, &reply("Location: /a\r\n"));
    for wrong in ["Location: /b\r\n", "", "Location: /a\r\nContent-Encoding: gzip\r\n"] {
        is_found_out(&protocol, &lines, &reply(wrong));
    }
}

/// A protocol unknown to lasthop: the server speaks first, is greeted once, and then gets the same request repeatedly.
fn raw(end: serde_json::Value, right: &[u8]) -> (Protocol, Lines) {
    let line = json!({ "until": r"\n" });
    let greeting = json!([{ "end": line }, { "send": "HELO", "end": line }]);
    let parameters = json!({ "raw": { "greeting": greeting, "send": "PING", "end": end } });
    let lines = Lines {
        said_first: b"220\n".to_vec(),
        greeting: Some((4, b"250\n".to_vec())),
        request: 4,
        right: right.to_vec(),
        wrong: vec![],
        then: Then::GoOn,
        pause: Duration::ZERO,
    };
    (of_json(parameters), lines)
}

#[test]
fn replies_of_unknown_protocols_are_whole_right_and_alone() {
    for (end, right, wrong) in [
        (json!({ "until": r"\n" }), &b"PONG\n"[..], [&b"PANG\n"[..], b"PONG!\n"]),
        (json!({ "bytes": 4 }), b"PONG", [b"PANG", b"\0\0\0\0"]),
        (json!({ "length-prefix": "1@0" }), b"\x04PONG", [b"\x04PANG", b"\x02ON"]),
    ] {
        let (protocol, lines) = raw(end, right);
        wrong.iter().for_each(|wrong| is_found_out(&protocol, &lines, wrong));
        let twice = right.repeat(2);
        errors_of(&protocol, &lines.wrong(&twice, Then::GoOn), ErrorClass::Protocol);
        errors_of(&protocol, &lines.wrong(&right[..3], Then::Close), ErrorClass::Reset);
        errors_of(&protocol, &lines.wrong(&right[..3], Then::Hang), ErrorClass::Timeout);
    }
    let (protocol, lines) = raw(json!({ "length-prefix": "4@0" }), b"\0\0\0\x01!");
    errors_of(&protocol, &lines.wrong(&[0xff; 9], Then::Hang), ErrorClass::Protocol);
}

/// A WebSocket load, and a server that knows the key and so agrees to the upgrade.
fn websocket(expect: &str) -> (Protocol, Lines) {
    let mut protocol = of_json(json!({ "websocket": { "path": "/", "send": "Hello", "expect": expect } }));
    protocol.let_anybody_in();
    plain(protocol, b"\x81\x05Hello")
}

#[test]
fn a_websocket_that_lies_is_counted_by_class() {
    let (protocol, lines) = websocket("echo");
    for (wrong, then, class) in [
        (&b"\x81\x05Jello"[..], Then::GoOn, ErrorClass::WrongContent),
        (b"\x82\x05Hello", Then::GoOn, ErrorClass::WrongContent),
        (b"\x81\x04Hell", Then::GoOn, ErrorClass::WrongContent),
        (b"\x01\x05Hello\x80\x01!", Then::GoOn, ErrorClass::WrongContent),
        (b"\x81\x7f\0\0\0\x7f\0\0\0\0Hello", Then::Hang, ErrorClass::WrongContent),
        (b"\xc1\x05Hello", Then::Hang, ErrorClass::Protocol),
        (b"\x81\x85\0\0\0\0Hello", Then::Hang, ErrorClass::Protocol),
        (b"\x80\x05Hello", Then::Hang, ErrorClass::Protocol),
        (b"\x81\x05Hello\x81\x05Hello", Then::Hang, ErrorClass::Protocol),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", Then::Hang, ErrorClass::Protocol),
        (b"\x88\x02\x03\xe9", Then::Close, ErrorClass::Reset),
        (b"\x81\x05Hel", Then::Close, ErrorClass::Reset),
        (b"\x81\x05Hel", Then::Hang, ErrorClass::Timeout),
    ] {
        errors_of(&protocol, &lines.wrong(wrong, then), class);
    }
    let (protocol, lines) = websocket("any");
    for wrong in [&b"\x81\x05Jello"[..], b"\x82\x05Hello"] {
        is_found_out(&protocol, &lines, wrong);
    }
}

/// Nothing is sent before the server has agreed to exactly the requested upgrade.
#[test]
fn an_upgrade_that_is_not_the_right_one_opens_nothing() {
    let (protocol, lines) = websocket("echo");
    let (upgrade, right) = lines.greeting.clone().unwrap();
    let right = String::from_utf8(right).unwrap();
    for (answer, wanted) in [
        (right.replace("Accept: ", "Accept: x"), "Sec-WebSocket-Accept is \"x"),
        (
            right.replace(
                "Upgrade: w",
                "Sec-WebSocket-Extensions: permessage-deflate\r\nUpgrade: w",
            ),
            "the extension \"permessage-deflate\", but none was asked for",
        ),
        (
            right.replace("Upgrade: w", "Sec-WebSocket-Protocol: mqtt\r\nUpgrade: w"),
            "the subprotocol \"mqtt\", which was not offered",
        ),
        ("HTTP/1.1 400 Bad\r\n\r\n".to_owned(), "status 400, expected 101"),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_owned(),
            "status 200, expected 101",
        ),
    ] {
        let server = Liar::start(&Lines {
            greeting: Some((upgrade, answer.into_bytes())),
            ..lines.clone()
        });
        let error = run(&spec(&server.server.endpoint, protocol.clone()), SHORT).unwrap_err();
        assert!(error.to_string().contains(wanted), "{error}");
        assert_eq!(server.requests.load(SeqCst), 0);
    }
}

/// In words: parts not checked, because the server's replies vary.
fn said(url: &str, replies: [&'static [u8]; 2]) -> String {
    let count = AtomicU64::new(0);
    let (protocol, lines) = plain(of_url(url), &[]);
    let server = Accepting::unix(move |mut peer| {
        while peer.read_exact(&mut vec![0; lines.request]).is_ok() {
            let _ = peer.write_all(replies[count.fetch_add(1, SeqCst) as usize % 2]);
        }
    });
    reference::learn(&spec(&server.endpoint, protocol), || true)
        .unwrap()
        .unchecked
        .unwrap_or_default()
}

#[test]
fn what_weakens_a_check_is_said() {
    let replies: [&[u8]; 2] = [
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\na-1",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\na-2",
    ];
    let word = "not checked of the body: bytes 0 to 2 (\"a-1\"), which changed within the first 32 replies";
    assert_eq!(said("http://127.0.0.1/", replies), word);
    let longer: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab";
    assert_eq!(said("http://127.0.0.1/", [replies[0], longer]), word);
    assert_eq!(said("http://127.0.0.1/", [replies[0], replies[0]]), "");
    let values: [&[u8]; 2] = [b"END\r\n", b"VALUE lasthop 0 1\r\nx\r\nEND\r\n"];
    let any = "not checked of the reply: bytes 0 to 3 (\"END\\r\"), which changed within the first 32 replies";
    assert_eq!(said("memcached://127.0.0.1", values), any);
}

/// Rows of two columns, one of which may be NULL.
type Rows<'a> = &'a [[Option<&'a [u8]>; 2]];

fn of_postgresql(rows: Rows<'_>) -> Vec<u8> {
    let message = |kind: u8, body: &[u8]| [&[kind], &(body.len() as u32 + 4).to_be_bytes()[..], body].concat();
    let value = |value: &Option<&[u8]>| match value {
        Some(text) => [&(text.len() as u32).to_be_bytes()[..], text].concat(),
        None => vec![0xff; 4],
    };
    let row = |row: &[Option<&[u8]>; 2]| message(b'D', &[&[0, 2], &value(&row[0])[..], &value(&row[1])].concat());
    let rows: Vec<u8> = rows.iter().flat_map(row).collect();
    [
        message(b'T', b"\0\x02"),
        rows,
        message(b'C', b"SELECT\0"),
        READY.to_vec(),
    ]
    .concat()
}

fn of_mysql(rows: Rows<'_>) -> Vec<u8> {
    let column = b"\x03def\0\0\0\x01a\0\x0c\x3f\0\x14\0\0\0\xfd\0\0\0\0\0".to_vec();
    let value = |value: &Option<&[u8]>| match value {
        Some(text) => [&[text.len() as u8], *text].concat(),
        None => vec![0xfb],
    };
    let rows = rows.iter().map(|row| [value(&row[0]), value(&row[1])].concat());
    let payloads = [vec![2], column.clone(), column]
        .into_iter()
        .chain(rows)
        .chain([b"\xfe\0\0\x02\0\0\0".to_vec()]);
    let packet = |(number, payload): (u8, Vec<u8>)| [&[payload.len() as u8, 0, 0, number], &payload[..]].concat();
    (1..).zip(payloads).flat_map(packet).collect()
}

#[test]
fn every_value_of_every_row_is_compared() {
    let (text, other, empty, null) = (Some(&b"a"[..]), Some(&b"b"[..]), Some(&b""[..]), None);
    let right: Rows<'_> = &[[null, text], [text, null]];
    let wrong: [Rows<'_>; 7] = [
        &[[Some(b"wrong"), text], [text, null]],
        &[[empty, text], [text, null]],
        &[[null, other], [text, null]],
        &[[null, null], [text, null]],
        &[[null, text], [other, null]],
        &[[null, text], [text, empty]],
        &[[null, text]],
    ];
    for ((protocol, lines), reply) in [
        (postgres(), of_postgresql as fn(Rows<'_>) -> Vec<u8>),
        (mysql(), of_mysql),
    ] {
        let lines = Lines {
            right: reply(right),
            ..lines
        };
        // No expectation is set before learning.
        let mut options = LoadOptions {
            query: Some("select 1".into()),
            ..LoadOptions::default()
        };
        let mut protocol = protocol;
        protocol.apply(&mut options).unwrap();
        wrong
            .iter()
            .for_each(|rows| is_found_out(&protocol, &lines, &reply(rows)));
    }
}

#[test]
fn changed_rows_do_not_wrap() {
    let (_, lines) = mysql();
    let update = of_json(json!({ "mysql": { "user": "u", "query": "select 1", "expect": { "changed": 1 } } }));
    let lines = Lines {
        right: b"\x07\0\0\x01\0\x01\0\x02\0\0\0".to_vec(),
        ..lines
    };
    // Two results: 2^64 - 1 changed rows and 2 more.
    let most = b"\x0f\0\0\x01\0\xfe\xff\xff\xff\xff\xff\xff\xff\xff\0\x0a\0\0\0\x07\0\0\x02\0\x02\0\x02\0\0\0";
    errors_of(&update, &lines.wrong(most, Then::GoOn), ErrorClass::WrongContent);
}

/// Bytes of an echo message.
const SIZE: usize = 64;

#[test]
fn replies_in_another_order_are_wrong_content() {
    for connections in [1, 3] {
        let batches = AtomicU64::new(0);
        let server = Accepting::unix(move |mut peer| {
            let mut pair = [0; 2 * SIZE];
            while peer.read_exact(&mut pair).is_ok() {
                if batches.fetch_add(1, SeqCst) % 5 == 4 {
                    pair.rotate_left(SIZE);
                }
                let _ = peer.write_all(&pair);
            }
        });
        let spec = spec(&server.endpoint, echo(SIZE as u32))
            .pipeline(2)
            .connections(connections);
        let result = run(&spec, for_ms(60)).unwrap();
        assert_eq!(
            result.errors.keys().collect::<Vec<_>>(),
            [&ErrorClass::WrongContent],
            "{:?}",
            result.errors
        );
        assert!(result.service_time.unwrap().count().abs_diff(result.requests) <= AT_AN_EDGE);
    }
}

/// Gives each of two connections the other's message.
fn exchanged(peers: [UnixStream; 2]) {
    let slots = Arc::new([Mutex::new([0; SIZE]), Mutex::new([0; SIZE])]);
    let both = Arc::new(Barrier::new(2));
    for (own, mut peer) in peers.into_iter().enumerate() {
        let (slots, both) = (slots.clone(), both.clone());
        thread::spawn(move || {
            let mut message = [0; SIZE];
            while peer.read_exact(&mut message).is_ok() {
                *slots[own].lock().unwrap() = message;
                both.wait();
                let other = *slots[1 - own].lock().unwrap();
                both.wait();
                let _ = peer.write_all(&other);
            }
        });
    }
}

#[test]
fn replies_of_another_connection_are_wrong_content() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let listener = UnixListener::bind(&path).unwrap();
    thread::spawn(move || {
        // The probe has a connection of its own.
        let mut probe = listener.accept().unwrap().0;
        let mut message = [0; SIZE];
        while probe.read_exact(&mut message).is_ok() {
            probe.write_all(&message).unwrap();
        }
        exchanged([listener.accept().unwrap().0, listener.accept().unwrap().0]);
    });
    let endpoint = Endpoint::plain(Address::Unix(path));
    let error = run(&spec(&endpoint, echo(SIZE as u32)).connections(2), SHORT)
        .map(drop)
        .unwrap_err();
    assert!(error.cause.contains("the echo differs at byte"), "{error}");
}

/// The only error of a trial with a connection per request, whose server changes after `prepare`.
fn timeout_after(spec: &Spec, change: impl FnOnce()) -> String {
    let mut case = Case::prepare(&spec.clone().reuse(Reuse::PerRequest)).unwrap();
    change();
    let result = case
        .watched_trial(TrialPhases::without_warm_up(60_000_000), || true)
        .unwrap();
    assert_eq!(
        (result.requests, result.errors.keys().collect::<Vec<_>>()),
        (0, vec![&ErrorClass::Timeout])
    );
    result.errors[&ErrorClass::Timeout].first.clone()
}

/// A socket at the same path that accepts connections and stays silent.
fn silent(endpoint: &Endpoint) -> UnixListener {
    let Address::Unix(path) = &endpoint.address else {
        unreachable!("a Unix server")
    };
    std::fs::remove_file(path).unwrap();
    UnixListener::bind(path).unwrap()
}

const LONG: u64 = 3_000;
/// Long enough for a correct reply of a server that waits for a CPU.
const BRIEF: u64 = 500;

#[test]
fn each_phase_has_its_own_timeout() {
    for engine in [Engine::Blocking, Engine::Epoll] {
        let server = Running::start(Pattern::Echo, Transport::TlsUnix);
        let shaking = spec(&server.endpoint, echo(64)).engine(engine).timeouts_ms(BRIEF, LONG);
        let mut kept = None;
        let first = timeout_after(&shaking, || kept = Some(silent(&server.endpoint)));
        assert_eq!(first, "TLS handshake: timed out", "{engine:?}");

        for (protocol, lines) in [redis(), postgres()] {
            let liar = Liar::start(&lines);
            let greeted = spec(&liar.server.endpoint, protocol)
                .engine(engine)
                .timeouts_ms(LONG, BRIEF);
            let mut kept = None;
            let first = timeout_after(&greeted, || kept = Some(silent(&liar.server.endpoint)));
            assert_eq!(first, "authentication: timed out", "{engine:?}");
        }

        let (endpoint, fill) = taciturn();
        let connecting = spec(&endpoint, hello()).engine(engine).timeouts_ms(BRIEF, LONG);
        let first = timeout_after(&connecting, fill);
        assert_eq!(first, "connect: timed out", "{engine:?}");
    }
}

/// A server over TCP that answers the two requests of the probe and then accepts no more; and a function that fills its
/// queue, so that the kernel ignores further connections.
fn taciturn() -> (Endpoint, impl FnOnce()) {
    let listener = Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let any: std::net::SocketAddr = "127.0.0.1:0".parse().unwrap();
    listener.bind(&any.into()).unwrap();
    listener.listen(1).unwrap();
    let address = listener.local_addr().unwrap().as_socket().unwrap();
    let served = thread::spawn(move || {
        for _ in 0..2 {
            let mut peer = std::net::TcpStream::from(listener.accept().unwrap().0);
            peer.write_all(b"Hello there!").unwrap();
        }
        listener
    });
    let fill = move || {
        let listener = served.join().unwrap();
        let fillers: Vec<Socket> = (0..8)
            .map(|_| {
                let socket = Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
                socket.set_nonblocking(true).unwrap();
                let _ = socket.connect(&address.into());
                socket
            })
            .collect();
        // Until the test ends: closing the listener would refuse the waiting clients.
        std::mem::forget((listener, fillers));
    };
    (Endpoint::plain(Address::Tcp(address)), fill)
}
