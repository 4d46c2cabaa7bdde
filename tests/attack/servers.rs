//! Misbehaving servers of every protocol, and `lasthop load` against each.

use std::{
    fs,
    io::{Read, Write},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use lasthop_stats::random::Draws;
use lasthop_trial::address::Address;
use serde_json::Value;
use socket2::Socket;

use crate::{
    accepting::Accepting,
    arena::Arena,
    common::Lasthop,
    draw::{between, pick},
    ended::{Ended, finish},
    tried::Tried,
};

/// Enough for two samples, a verification and a trial, each with its timeouts, on a busy machine.
const BOUND: Duration = Duration::from_secs(60);
/// Bytes. A first reply is kept up to 64 MiB.
const MEMORY: u64 = 150_000_000;
/// Servers at once: most of them wait.
const AT_ONCE: usize = 4;

/// An honest server of a protocol.
struct Speech {
    name: &'static str,
    /// The URL before and after the path of the socket.
    url: (&'static str, &'static str),
    options: &'static [&'static str],
    /// A greeting: the reply to the first message of a connection, if that is no request.
    greeting: Option<Vec<u8>>,
    right: Right,
    /// Wrong replies that only this protocol has.
    lies: fn() -> Vec<(&'static str, Act)>,
}

#[derive(Clone)]
enum Right {
    Bytes(Vec<u8>),
    /// The request itself.
    Echo,
    /// Bytes before any request, then the end.
    First(Vec<u8>),
}

/// A server's misbehaviour instead of a correct reply.
#[derive(Clone)]
enum Act {
    Say(Vec<u8>),
    SayAndClose(Vec<u8>),
    /// One byte at a time.
    Drip(Vec<u8>),
    /// The first bytes, then the second repeatedly, with pauses.
    Endless(Vec<u8>, Vec<u8>, Duration),
    Silent,
    Reset,
}

/// When the misbehaviour begins.
#[derive(Clone, Copy, Debug)]
enum When {
    /// Instead of the greeting.
    Greeting,
    /// After so many correct replies, over all connections.
    After(u64),
}

const ESCAPES: &str = "\x1b]0;PWNED\x07\x1b[2J\u{9b}31m\u{202e}txt\rerror: forged";
const NO: Duration = Duration::ZERO;
const SLOWLY: Duration = Duration::from_millis(100);

fn speeches() -> Vec<Speech> {
    let bytes = |text: &str| Right::Bytes(text.into());
    let http = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHello";
    let speech = |name, url, right, lies| Speech {
        name,
        url,
        options: &[],
        greeting: None,
        right,
        lies,
    };
    let ready = [&b"R\0\0\0\x08\0\0\0\0"[..], READY].concat();
    vec![
        speech("http", ("http+unix:", ":/"), bytes(http), http_lies),
        speech("https", ("https+unix:", ":/"), bytes(http), tls_lies),
        speech("redis", ("redis+unix:", ""), bytes("+PONG\r\n"), redis_lies),
        Speech {
            greeting: Some(ready),
            ..speech(
                "postgres",
                ("postgres:///d?user=u&host=", ""),
                Right::Bytes(row("SELECT 1")),
                postgres_lies,
            )
        },
        speech("echo", ("echo+unix:", ""), Right::Echo, Vec::new),
        speech(
            "hello",
            ("hello+unix:", ""),
            Right::First(b"Hello there!".to_vec()),
            Vec::new,
        ),
        Speech {
            options: &["--size", "1000"],
            ..speech(
                "stream",
                ("stream+unix:", ""),
                Right::Bytes((0..1000).map(|at| at as u8).collect()),
                Vec::new,
            )
        },
    ]
}

fn say(bytes: impl Into<Vec<u8>>) -> Act {
    Act::Say(bytes.into())
}

/// A beginning, and then the same again without a pause.
fn for_ever(begin: impl AsRef<[u8]>, again: impl AsRef<[u8]>) -> Act {
    Act::Endless(begin.as_ref().to_vec(), again.as_ref().repeat(1000), NO)
}

fn now_and_then(begin: impl AsRef<[u8]>, again: impl AsRef<[u8]>) -> Act {
    Act::Endless(begin.as_ref().to_vec(), again.as_ref().to_vec(), SLOWLY)
}

/// Misbehaviours for every protocol, made from its correct reply.
fn lies_about(right: &[u8]) -> Vec<(&'static str, Act)> {
    let half = right[..right.len() / 2].to_vec();
    let mut flipped = right.to_vec();
    let last = flipped.len() - 1 - right.len() / 4;
    flipped[last] ^= 0x15;
    vec![
        ("silent", Act::Silent),
        ("a reset", Act::Reset),
        ("an end", Act::SayAndClose(vec![])),
        ("half a reply", say(half.clone())),
        ("half a reply, then an end", Act::SayAndClose(half)),
        ("a byte flipped", say(flipped)),
        ("dripping", Act::Drip(right.to_vec())),
        (
            "noise",
            Act::Say(
                (0..4096_u32)
                    .map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8)
                    .collect(),
            ),
        ),
        ("escapes", Act::SayAndClose(ESCAPES.into())),
        ("zeros for ever", Act::Endless(vec![], vec![0; 65536], NO)),
        ("letters for ever", Act::Endless(vec![], vec![b'x'; 65536], NO)),
        ("a letter now and then, for ever", now_and_then("", b"x")),
        ("correct replies for ever", Act::Endless(vec![], right.repeat(100), NO)),
    ]
}

fn http_lies() -> Vec<(&'static str, Act)> {
    let ok = "HTTP/1.1 200 OK\r\n";
    let right = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHello";
    let head = |fields: &str| say(format!("{ok}{fields}\r\n\r\nHello"));
    let interim = "HTTP/1.1 100 Continue\r\n\r\n";
    let chunked = format!("{ok}Transfer-Encoding: chunked\r\n\r\n");
    vec![
        ("5,000 interim replies", say(interim.repeat(5_000) + right)),
        ("100,000 interim replies", say(interim.repeat(100_000) + right)),
        ("interim replies for ever", for_ever("", interim)),
        ("interim replies now and then", now_and_then("", interim)),
        ("header lines for ever", for_ever(ok, "More: of it\r\n")),
        ("one header line for ever", for_ever(format!("{ok}More: "), "and more ")),
        ("a body for ever", for_ever(format!("{ok}\r\n"), "and more ")),
        ("a body now and then", now_and_then(format!("{ok}\r\n"), "more")),
        ("chunks for ever", for_ever(&chunked, "5\r\nHello\r\n")),
        ("chunks of one byte for ever", for_ever(&chunked, "1\r\nH\r\n")),
        ("a chunk's extension for ever", for_ever(format!("{chunked}5;"), "a=b;")),
        (
            "trailers for ever",
            for_ever(format!("{chunked}5\r\nHello\r\n0\r\n"), "More: of it\r\n"),
        ),
        ("a length of 2^63", head("Content-Length: 9223372036854775808")),
        ("a length of 2^64", head("Content-Length: 18446744073709551616")),
        ("a negative length", head("Content-Length: -5")),
        ("two lengths", head("Content-Length: 5\r\nContent-Length: 6")),
        ("a list of lengths", head("Content-Length: 5, 5")),
        (
            "chunks and a length",
            head("Transfer-Encoding: chunked\r\nContent-Length: 5"),
        ),
        ("a coding that nobody knows", head("Transfer-Encoding: gzip")),
        ("a negative chunk", say(format!("{chunked}-5\r\nHello\r\n0\r\n\r\n"))),
        (
            "a chunk of 16^17 bytes",
            say(format!("{chunked}100000000000000000\r\nHello\r\n0\r\n\r\n")),
        ),
        (
            "another protocol from now on",
            say("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"),
        ),
        ("no content", say("HTTP/1.1 204 No Content\r\n\r\n")),
        ("another status", say(right.replace("200", "503"))),
        ("escapes in the status", say(right.replace("OK", ESCAPES))),
        (
            "escapes in a header",
            say(right.replace("Content", &format!("X{ESCAPES}: {ESCAPES}\r\nContent"))),
        ),
        ("a zero in a header", say(right.replace("Content", "X: \0\r\nContent"))),
        ("HTTP/2", say("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")),
        ("HTTP/0.9", Act::SayAndClose(b"<html>Hello</html>".into())),
        (
            "another length",
            say("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nHell"),
        ),
    ]
}

fn tls_lies() -> Vec<(&'static str, Act)> {
    vec![
        ("an alert", say(b"\x15\x03\x03\0\x02\x02\x28")),
        ("an alert that is none", say(b"\x15\x03\x03\0\x02\x01\x5a")),
        ("warnings for ever", for_ever("", b"\x15\x03\x03\0\x02\x01\x5a")),
        (
            "a record that is too long",
            say([b"\x16\x03\x03\xff\xff".to_vec(), vec![0; 65535]].concat()),
        ),
        ("empty records for ever", for_ever("", b"\x16\x03\x03\0\0")),
        ("empty records now and then", now_and_then("", b"\x16\x03\x03\0\0")),
        (
            "a hello of 16 MB",
            Act::Endless(b"\x16\x03\x03\x40\0\x02\xff\xff\xff".to_vec(), vec![0; 65536], NO),
        ),
    ]
}

fn redis_lies() -> Vec<(&'static str, Act)> {
    vec![
        ("an error", say("-ERR out of order\r\n")),
        (
            "escapes in an error",
            say(format!("-ERR {ESCAPES}\r\n").replace("\rerror", "error")),
        ),
        ("another type", say(":1\r\n")),
        ("a bulk of 2^63", say("$9223372036854775807\r\nHello")),
        ("a bulk of 513 MB", say("$537919488\r\nHello")),
        ("a negative bulk", say("$-5\r\n")),
        ("2^32 elements", say("*4294967296\r\n")),
        ("a million nested arrays", say("*1\r\n".repeat(1_000_000))),
        ("elements for ever", for_ever(b"*1000000000\r\n", b"$5\r\nHello\r\n")),
        ("a line for ever", Act::Endless(b"+".to_vec(), vec![b'x'; 65536], NO)),
        ("RESP3", say("%1\r\n+a\r\n_\r\n")),
    ]
}

const READY: &[u8] = b"Z\0\0\0\x05I";

/// A message of PostgreSQL.
fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind][..], &(body.len() as u32 + 4).to_be_bytes(), body].concat()
}

/// A result of one row and one column, with a short description and this tag.
fn row(tag: &str) -> Vec<u8> {
    let tag = [tag.as_bytes(), b"\0"].concat();
    [
        message(b'T', b"\0\x01"),
        message(b'D', b"\0\x01\0\0\0\x011"),
        message(b'C', &tag),
        READY.to_vec(),
    ]
    .concat()
}

fn postgres_lies() -> Vec<(&'static str, Act)> {
    let error = |text: &str| message(b'E', format!("SERROR\0C{text}\0M{text}\0\0").as_bytes());
    let notice = message(b'N', format!("SNOTICE\0C00000\0M{ESCAPES}\0\0").as_bytes());
    let status = message(b'S', format!("server_version\0{ESCAPES}\0").as_bytes());
    let parameter = [message(b'R', &[0; 4]), status, READY.to_vec()].concat();
    let scram = |text: &str| {
        [
            message(b'R', b"\0\0\0\x0aSCRAM-SHA-256\0\0"),
            message(b'R', text.as_bytes()),
        ]
        .concat()
    };
    vec![
        ("an error", say([error("53200"), READY.to_vec()].concat())),
        ("escapes in an error", say([error(ESCAPES), READY.to_vec()].concat())),
        ("an error and an end", Act::SayAndClose(error("57P01"))),
        ("notices for ever", for_ever("", &notice)),
        ("notices now and then, for ever", now_and_then("", &notice)),
        ("a notice, then the reply", say([notice, row("SELECT 1")].concat())),
        ("escapes in a parameter", say(parameter)),
        ("escapes in the tag", say(row(ESCAPES))),
        ("another tag", say(row("SELECT 2"))),
        ("a negative length", say(b"D\xff\xff\xff\xff")),
        ("a short length", say(b"D\0\0\0\x03")),
        ("a length of 1 GB", say(b"D\x3f\xff\xff\xff\0\x01")),
        (
            "rows for ever",
            for_ever(message(b'T', b"\0\x01"), message(b'D', b"\0\x01\0\0\0\x011")),
        ),
        ("no row", say([message(b'I', b""), READY.to_vec()].concat())),
        ("COPY", say(message(b'G', b"\0\0\0"))),
        ("an authentication that nobody knows", say(message(b'R', b"\0\0\0\x63"))),
        ("SCRAM that is noise", say(scram("\0\0\0\x0b\x1b[2J"))),
        (
            "SCRAM for 4 billion turns",
            say(scram("\0\0\0\x0br=x,s=AAAA,i=4294967295")),
        ),
    ]
}

/// Some misbehaviours, at the same time.
pub fn misbehave(arena: &Arena, draws: &mut Draws) -> Vec<Tried> {
    let speeches = speeches();
    let chosen: Vec<_> = (0..AT_ONCE)
        .map(|number| {
            let speech = pick(draws, &speeches);
            let right = match &speech.right {
                Right::Bytes(right) | Right::First(right) => right.clone(),
                Right::Echo => vec![b'e'; 64],
            };
            let lies = [lies_about(&right), (speech.lies)()].concat();
            let (name, act) = pick(draws, &lies).clone();
            let later = When::After(between(draws, 4, 43).into());
            let mut when = *pick(draws, &[When::After(0), When::After(1), later]);
            if speech.name == "https" {
                // The misbehaviour lies below TLS, and the greeting above.
                when = When::After(0);
            }
            if speech.greeting.is_some() && draws.below(3) == 0 {
                when = When::Greeting;
            }
            let connections = *pick(draws, &["1", "3"]);
            (number, speech, name, act, when, connections)
        })
        .collect();
    thread::scope(|scope| {
        let one = |(number, speech, name, act, when, connections)| {
            scope.spawn(move || against(&arena.world.lasthop, number, speech, (name, act, when), connections))
        };
        let all: Vec<_> = chosen.into_iter().map(one).collect();
        all.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn against(
    lasthop: &Lasthop,
    number: usize,
    speech: &Speech,
    (name, act, when): (&str, Act, When),
    connections: &str,
) -> Tried {
    let mut tried = Tried::new(
        "server",
        speech.name,
        format!("{name}, {when:?}, {connections} connections"),
    );
    let said = Arc::new(AtomicU64::new(0));
    let brings_right = brings_right(name) || is_learnt(name, when);
    let server = {
        let (said, greeting, right) = (said.clone(), speech.greeting.clone(), speech.right.clone());
        Accepting::unix(move |peer| converse(peer, &said, greeting.as_deref(), &right, &act, when).unwrap_or_default())
    };
    let Address::Unix(socket) = &server.endpoint.address else {
        unreachable!("a Unix server")
    };
    let place = if speech.name == "postgres" {
        fs::hard_link(socket, server.folder.path().join(".s.PGSQL.5432")).unwrap();
        server.folder.path()
    } else {
        socket
    };
    let url = format!("{}{}{}", speech.url.0, place.display(), speech.url.1);
    let load = format!("load {url} -d 300ms --warm-up 10ms --timeout 1s --format json -c {connections}");
    let arguments = load.split(' ').chain(speech.options.iter().copied());
    let ended = finish(
        &mut lasthop.command(arguments),
        &lasthop.home().join(format!("load{number}")),
        BOUND,
    );
    tried.ended = ended.shown();
    judge(&mut tried, &ended, said.load(SeqCst), brings_right);
    tried
}

/// Whether a correct reply may be part of the misbehaviour: in a stream of bytes, the end of a wrong reply is unclear.
fn brings_right(name: &str) -> bool {
    name.contains("correct replies")
        || name.contains("dripping")
        || name.contains("then the reply")
        || name.contains("interim")
        || name.contains("escapes in")
}

/// Whether lasthop may learn the misbehaviour as the right reply: it looks like a reply, and is among the two that
/// lasthop learns from.
fn is_learnt(name: &str, when: When) -> bool {
    matches!(when, When::After(0 | 1)) && ["another length", "another tag", "a byte flipped"].contains(&name)
}

fn judge(tried: &mut Tried, ended: &Ended, right: u64, brings_right: bool) {
    ended.judge(tried, MEMORY);
    let figures: Value = serde_json::from_slice(&ended.stdout).unwrap_or_default();
    let counted = figures["requests"].as_u64().unwrap_or_default();
    if counted > right && !brings_right {
        tried.wrong(format!("{counted} replies count as right, of which only {right} were"));
    }
    if ended.code == Some(0) && figures["errors"] != serde_json::json!({}) {
        tried.wrong(format!("exit 0 with errors: {}", figures["errors"]));
    }
}

/// Converses until the client ends.
fn converse(
    mut peer: Socket,
    said: &AtomicU64,
    greeting: Option<&[u8]>,
    right: &Right,
    act: &Act,
    when: When,
) -> Option<()> {
    let mut asked = [0; 4096];
    if let Some(greeting) = greeting {
        read(&mut peer, &mut asked)?;
        match when {
            When::Greeting => return misbehave_once(&mut peer, act),
            When::After(_) => peer.write_all(greeting).ok()?,
        }
    }
    loop {
        let length = if matches!(right, Right::First(_)) {
            0
        } else {
            read(&mut peer, &mut asked)?
        };
        if let When::After(first) = when
            && said.fetch_add(1, SeqCst) >= first
        {
            said.fetch_sub(1, SeqCst);
            misbehave_once(&mut peer, act)?;
            continue;
        }
        match right {
            Right::Bytes(right) => peer.write_all(right).ok()?,
            Right::Echo => peer.write_all(&asked[..length]).ok()?,
            Right::First(right) => return peer.write_all(right).ok(),
        }
    }
}

/// Reads bytes; `None` at the end.
fn read(peer: &mut Socket, into: &mut [u8]) -> Option<usize> {
    peer.read(into).ok().filter(|length| *length > 0)
}

/// Misbehaves once; `None` once the connection is over.
fn misbehave_once(peer: &mut Socket, act: &Act) -> Option<()> {
    match act {
        Act::Say(bytes) => peer.write_all(bytes).ok(),
        Act::SayAndClose(bytes) => {
            let _ = peer.write_all(bytes);
            None
        }
        Act::Drip(bytes) => bytes.chunks(1).try_for_each(|byte| {
            thread::sleep(SLOWLY);
            peer.write_all(byte).ok()
        }),
        Act::Endless(begin, again, pause) => {
            peer.write_all(begin).ok()?;
            loop {
                peer.write_all(again).ok()?;
                thread::sleep(*pause);
            }
        }
        Act::Silent => {
            while read(peer, &mut [0; 4096]).is_some() {}
            None
        }
        Act::Reset => {
            let _ = peer.set_linger(Some(NO));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_does_not_misbehave_is_measured() {
        let lasthop = Lasthop::new();
        for speech in speeches().iter().filter(|speech| speech.name != "https") {
            let never = ("never", Act::Silent, When::After(u64::MAX));
            let tried = against(&lasthop, 0, speech, never, "3");
            assert_eq!(
                (tried.ended.as_str(), tried.wrong.as_str()),
                ("exit 0", ""),
                "{}",
                tried.line()
            );
        }
    }

    #[test]
    fn what_should_not_be_is_found() {
        let ended = |code, stdout: &str, stderr: &str| Ended {
            code,
            signal: None,
            peak: 0,
            stdout: stdout.into(),
            stderr: stderr.into(),
        };
        let wrong = |ended: Ended, right| {
            let mut tried = Tried::default();
            judge(&mut tried, &ended, right, false);
            tried.wrong
        };
        assert_eq!(
            wrong(ended(Some(1), r#"{"requests":3,"errors":{}}"#, "error: \u{fc}\n"), 3),
            ""
        );
        assert!(wrong(ended(Some(1), r#"{"requests":4,"errors":{}}"#, ""), 3).contains("only 3 were"));
        assert!(wrong(ended(Some(0), r#"{"requests":3,"errors":{"reset":1}}"#, ""), 3).contains("exit 0 with errors"));
        assert!(wrong(ended(Some(101), "", ""), 0).contains("exit 101"));
        assert!(wrong(ended(None, "", ""), 0).contains("not end"));
        for raw in ["\x1b[2J", "\u{9b}31m", "\u{202e}", "a\rb", "\x07"] {
            assert!(
                wrong(ended(Some(1), "", raw), 0).contains("control character"),
                "{raw:?}"
            );
        }
    }
}
