//! What holds for any bytes that the load generator is sent. A server's replies have one outcome, however they are cut
//! into pieces, and whether or not an earlier reply is remembered. Used by the fuzz targets, and by `tests/corpus.rs`,
//! which replays their corpus.
#![allow(dead_code, reason = "each fuzz target uses its own part")]

use lasthop_load::receipt::total;
use lasthop_protocol::{
    Exchange, Factory, Progress, Protocol,
    delimiter::End,
    echo::Echo,
    escaped::Escaped,
    grpc::{Grpc, GrpcExpect},
    hello::Hello,
    http::{Http, HttpExpect, HttpVersion},
    memcached::{Command, Memcached, MemcachedExpect},
    mysql::{Mysql, MysqlExpect, MysqlMode},
    postgres::{ChannelBinding, Postgres, PostgresExpect, QueryMode},
    raw::{Raw, RawExpect, Step},
    redis::{Redis, RedisExpect},
    spec::Spec,
    stream::{Stream, pattern},
    url::{UrlOptions, parse},
    websocket::{Websocket, WebsocketExpect},
    wire,
};
use lasthop_trial::{
    Histogram,
    address::{Address, Endpoint, Tls},
    result::ErrorClass,
};

/// Name of a target, and what judges its input.
pub type Target = (&'static str, fn(&[u8]));

pub const TARGETS: [Target; 15] = [
    ("http", http),
    ("redis", redis),
    ("memcached", memcached),
    ("postgres", postgres),
    ("mysql", mysql),
    ("grpc", grpc),
    ("websocket", websocket),
    ("raw", raw),
    ("echo", echo),
    ("stream", stream),
    ("hello", hello),
    ("counter", counter),
    ("url", url),
    ("histogram", histogram),
    ("lines", lines),
];

/// Payload, whether the connection is kept, and the class of a fault; or the class of the failure.
type Outcome = Result<(u64, bool, Option<ErrorClass>), ErrorClass>;

fn factory(protocol: Protocol) -> Factory {
    // Encrypted, which some options need; no socket is opened.
    let tls = Some(Tls {
        authority: None,
        server_name: "localhost".into(),
        resumption: false,
        insecure: false,
    });
    let spec = Spec::new(
        Endpoint {
            address: Address::Unix("/s".into()),
            tls,
        },
        protocol,
    );
    spec.validate().expect("the specifications of the targets are right");
    spec.factory()
}

/// One reply in pieces of at most `size` bytes, then the end of the stream.
fn outcome(exchange: &mut dyn Exchange, reply: &[u8], size: usize) -> Outcome {
    exchange.reset();
    exchange.begin();
    for (index, piece) in reply.chunks(size.max(1)).enumerate() {
        if index == 0
            && let Some(run) = exchange.recognise(piece, 1)
        {
            assert_eq!(run.replies, 1);
            assert!(run.used <= piece.len());
            return Ok((run.payload, true, None));
        }
        if let Progress::Done(done) = exchange.receive(piece).map_err(|failure| failure.class)? {
            assert!(done.used <= piece.len(), "more bytes used than there were");
            return Ok((done.payload, done.keep, done.fault.map(|fault| fault.class)));
        }
    }
    let done = exchange.end().map_err(|failure| failure.class)?;
    Ok((done.payload, done.keep, done.fault.map(|fault| fault.class)))
}

/// Two replies, one after the other; `(size of pieces, length of the first, both)`.
fn split(data: &[u8]) -> Option<(usize, &[u8], &[u8])> {
    let (&[size, low, high], rest) = data.split_first_chunk::<3>()?;
    let length = usize::from(u16::from_le_bytes([low, high])) % (rest.len() + 1);
    let (first, second) = rest.split_at(length);
    Some((usize::from(size) + 1, first, second))
}

/// The outcome of the second reply is the same in one piece and in several, after the first one and alone.
fn one_outcome(protocol: &Protocol, data: &[u8]) {
    let Some((size, first, second)) = split(data) else {
        return;
    };
    let fresh = |size| outcome(&mut *factory(protocol.clone()).exchange(), second, size);
    let whole = fresh(usize::MAX);
    assert_eq!(fresh(size), whole, "in pieces of {size}");
    let warm = factory(protocol.clone());
    let _ = outcome(&mut *warm.exchange(), first, usize::MAX);
    let mut exchange = warm.exchange();
    assert_eq!(
        outcome(&mut *exchange, second, usize::MAX),
        whole,
        "after another reply"
    );
    assert_eq!(
        outcome(&mut *exchange, second, size),
        whole,
        "again, in pieces of {size}"
    );
    learnt(protocol, first, second);
}

/// A reply that was learnt is right again, and one that differs in what endpoints are compared by is not.
fn learnt(protocol: &Protocol, first: &[u8], second: &[u8]) {
    let Some(first) = right(protocol, first) else { return };
    let mut protocol = protocol.clone();
    let unchecked = protocol.learn(&[first, first]).expect("a correct reply is one");
    assert_eq!(unchecked, None, "a reply does not differ from itself");
    assert!(right(&protocol, first).is_some(), "what was learnt is right");
    if let Some(second) = right(&protocol, second) {
        assert_eq!(
            protocol.traits(second),
            protocol.traits(first),
            "another reply is right"
        );
    }
}

/// The correct reply that these bytes begin with.
fn right<'a>(protocol: &Protocol, bytes: &'a [u8]) -> Option<&'a [u8]> {
    let mut exchange = factory(protocol.clone()).exchange();
    exchange.reset();
    exchange.begin();
    if bytes.is_empty() {
        return None;
    }
    let (done, reply) = match exchange.receive(bytes).ok()? {
        Progress::Done(done) => (done.clone(), &bytes[..done.used]),
        Progress::More => (exchange.end().ok()?, bytes),
    };
    done.fault.is_none().then_some(reply)
}

pub fn http(data: &[u8]) {
    let Some((&choice, data)) = data.split_first() else {
        return;
    };
    let expect = HttpExpect {
        status: 200,
        body: (choice & 1 > 0).then(|| "Hello".into()),
        contains: if choice & 2 > 0 {
            vec!["ell".to_owned(), "o".to_owned()]
        } else {
            vec![]
        },
        length: (choice & 4 > 0).then_some(5),
        ..HttpExpect::default()
    };
    let method = if choice & 8 > 0 { "HEAD" } else { "GET" };
    let version = if choice & 16 > 0 {
        HttpVersion::V10
    } else {
        HttpVersion::V11
    };
    one_outcome(&Protocol::from(asking(method, version, expect)), data);
}

fn asking(method: &str, version: HttpVersion, expect: HttpExpect) -> Http {
    Http {
        method: method.to_owned(),
        path: "/".to_owned(),
        host: "localhost".to_owned(),
        headers: vec![],
        hidden: vec![],
        body: Default::default(),
        version,
        expect,
    }
}

pub fn redis(data: &[u8]) {
    let Some((&choice, data)) = data.split_first() else {
        return;
    };
    let expect = match choice % 6 {
        0 => RedisExpect::Success,
        1 => RedisExpect::Simple("PONG".to_owned()),
        2 => RedisExpect::Bulk("Hello".to_owned()),
        3 => RedisExpect::Integer(3),
        4 => RedisExpect::Nil,
        _ => RedisExpect::Length(5),
    };
    let command = vec!["GET".to_owned(), "k".to_owned()];
    let password = (choice & 64 > 0).then(|| "secret".to_owned());
    let redis = Redis {
        command,
        expect,
        username: None,
        password,
        database: 0,
        protocol: Default::default(),
    };
    let protocol = Protocol::from(redis);
    greet(&protocol, data);
    one_outcome(&protocol, data);
}

pub fn memcached(data: &[u8]) {
    let Some((&choice, data)) = data.split_first() else {
        return;
    };
    let expect = match choice % 4 {
        0 => MemcachedExpect::Any,
        1 => MemcachedExpect::Miss,
        2 => MemcachedExpect::Value("Hello".to_owned()),
        _ => MemcachedExpect::Length(5),
    };
    let get = Memcached {
        command: Command::Get,
        key: "k".to_owned(),
        value: None,
        expect,
    };
    let value = Some("Hello".to_owned());
    let memcached = match choice >> 4 & 3 {
        0 | 1 => get,
        2 => Memcached {
            value,
            expect: MemcachedExpect::Any,
            ..get
        },
        _ => Memcached {
            command: Command::Set,
            value,
            expect: MemcachedExpect::Any,
            ..get
        },
    };
    let protocol = Protocol::from(memcached);
    if protocol.greets() {
        greet(&protocol, data);
    }
    one_outcome(&protocol, data);
}

pub fn raw(data: &[u8]) {
    let Some((&choice, data)) = data.split_first() else {
        return;
    };
    let end = |choice: u8| match choice & 7 {
        0 => End::Close,
        1 => End::Bytes(5),
        2 => End::Until(Escaped(b"\n".to_vec())),
        3 => End::UntilThen {
            text: Escaped(b"\r\n.\r\n".to_vec()),
            then: 3,
        },
        prefix => End::LengthPrefix(
            ["1@1", "2@0le", "4@1+1", "8@0+0"][usize::from(prefix & 3)]
                .parse()
                .expect("a prefix"),
        ),
    };
    let expect = match choice >> 3 & 3 {
        0 => RawExpect::Any,
        1 => RawExpect::Length(5),
        _ => RawExpect::Reply(Escaped(b"\0\x03ab\n".to_vec())),
    };
    let step = |send: &[u8], end| Step {
        send: Escaped(send.to_vec()),
        end,
    };
    let greeting = match choice >> 5 {
        0 | 1 => Vec::new(),
        steps if choice & 7 > 0 => vec![
            step(b"", None),
            step(b"a", Some(End::Bytes(0))),
            step(b"b", Some(end(steps))),
        ],
        _ => vec![step(b"", Some(End::Bytes(1)))],
    };
    let raw = Raw {
        greeting,
        send: Escaped(b"ping".to_vec()),
        end: end(choice),
        expect,
    };
    let protocol = Protocol::from(raw);
    if protocol.greets() {
        greet(&protocol, data);
    }
    one_outcome(&protocol, data);
}

/// The answer to the handshake, the same behind a right one, and frames.
pub fn websocket(data: &[u8]) {
    let Some((&choice, data)) = data.split_first() else {
        return;
    };
    let expect = match choice % 5 {
        0 => WebsocketExpect::Echo,
        1 => WebsocketExpect::Any,
        2 => WebsocketExpect::Length(5),
        3 => WebsocketExpect::Text("Hi".into()),
        _ => WebsocketExpect::Binary("Hi".into()),
    };
    let websocket = Websocket {
        path: "/".to_owned(),
        host: "localhost".to_owned(),
        headers: vec![],
        hidden: vec![],
        key: Some("dGhlIHNhbXBsZSBub25jZQ==".to_owned()),
        greeting: match choice >> 6 {
            0 => vec![Escaped(Vec::new()), Escaped(b"init".to_vec())],
            _ => Vec::new(),
        },
        send: Some(Escaped(b"Hello".to_vec())),
        size: None,
        binary: choice & 128 > 0,
        expect,
    };
    let protocol = Protocol::from(websocket);
    greet(&protocol, data);
    if let Some((head, rest)) = data.split_at_checked(3) {
        greet(&protocol, &[head, &protocol.welcome(0, false), rest].concat());
    }
    one_outcome(&protocol, data);
    let _ = protocol.repeatable(data.to_vec());
}

/// The page of a server that counts what it receives: one more line raises its counter by what it says.
pub fn counter(data: &[u8]) {
    let more = total(&[data, b"\nlines 7\n"].concat(), "lines");
    match total(data, "lines") {
        Some(sum) => assert_eq!(more, Some(sum.saturating_add(7))),
        None => assert!(matches!(more, None | Some(7)), "{more:?}"),
    }
}

pub fn postgres(data: &[u8]) {
    let Some((&choice, data)) = data.split_first() else {
        return;
    };
    let expect = PostgresExpect {
        rows: (choice & 1 > 0).then_some(1),
        first: (choice & 2 > 0).then(|| "1".to_owned()),
        tag: (choice & 4 > 0).then(|| "SELECT 1".to_owned()),
        ..PostgresExpect::default()
    };
    let bindings = [ChannelBinding::Prefer, ChannelBinding::Disable, ChannelBinding::Require];
    let modes = [QueryMode::Simple, QueryMode::Extended, QueryMode::Prepared];
    let postgres = Postgres {
        user: "user".to_owned(),
        database: "database".to_owned(),
        password: (choice & 8 > 0).then(|| "secret".to_owned()),
        query: "select 1".to_owned(),
        mode: modes[usize::from(choice >> 4) % 3],
        parameters: vec![],
        expect,
        channel_binding: bindings[usize::from(choice >> 6) % 3],
        settings: Default::default(),
    };
    let protocol = Protocol::from(postgres);
    greet(&protocol, data);
    one_outcome(&protocol, data);
}

/// The greeting begins with the bytes of a handshake, unless the data says otherwise: few bytes are one by chance.
pub fn mysql(data: &[u8]) {
    let Some((&choice, data)) = data.split_first() else {
        return;
    };
    let expect = MysqlExpect {
        columns: (choice & 1 > 0).then_some(1),
        rows: (choice & 1 > 0).then_some(1),
        first: (choice & 2 > 0).then(|| "1".to_owned()),
        changed: (choice & 4 > 0).then_some(0),
        ..MysqlExpect::default()
    };
    let mysql = Mysql {
        user: "user".to_owned(),
        database: String::new(),
        password: (choice & 8 > 0).then(|| "secret".to_owned()),
        cleartext: false,
        query: "select 1".to_owned(),
        mode: if choice & 16 > 0 {
            MysqlMode::Prepared
        } else {
            MysqlMode::Simple
        },
        parameters: vec![],
        expect,
    };
    let protocol = Protocol::from(mysql);
    if choice & 32 > 0 {
        greet(&protocol, data);
    } else if let Some((head, rest)) = data.split_at_checked(3) {
        greet(&protocol, &[head, &protocol.welcome(0, false), rest].concat());
    }
    one_outcome(&protocol, data);
}

/// gRPC, and HTTP/2 by itself. What follows a reply belongs to the connection: whether that is kept depends on what has
/// come already.
/// A stream of HTTP/2 that has had its reply has no second one.
fn has_one_reply(factory: &Factory, reply: &[u8]) {
    let mut exchange = factory.exchange();
    exchange.reset();
    exchange.begin();
    let ends = |byte: &u8| !matches!(exchange.receive(&[*byte]), Ok(Progress::More));
    let end = reply.iter().position(ends).map_or(0, |last| last + 1);
    let twice = reply[..end].repeat(2);
    let mut exchange = factory.exchange();
    exchange.reset();
    exchange.begin();
    if let Ok(Progress::Done(done)) = exchange.receive(&twice) {
        assert!(done.used < twice.len(), "a second reply was passed over");
    }
}

pub fn grpc(data: &[u8]) {
    let Some((&choice, data)) = data.split_first() else {
        return;
    };
    let expect = match choice % 4 {
        0 => GrpcExpect::Any,
        1 => GrpcExpect::Echo,
        2 => GrpcExpect::Length(7),
        _ => GrpcExpect::Message("CgVIZWxsbw==".to_owned()),
    };
    let (method, host) = ("a.B/C".to_owned(), "localhost".to_owned());
    let grpc = Grpc {
        method,
        host,
        text: Some("Hello".into()),
        expect,
        ..Grpc::default()
    };
    let protocol = if choice < 128 {
        Protocol::from(grpc)
    } else {
        let expect = HttpExpect {
            status: 200,
            length: (choice & 1 > 0).then_some(7),
            ..HttpExpect::default()
        };
        Protocol::from(asking("GET", HttpVersion::V2, expect))
    };
    let Some((size, first, second)) = split(data) else {
        return;
    };
    let factory = factory(protocol.clone());
    let judged = |reply: &[u8], size: usize| {
        outcome(&mut *factory.exchange(), reply, size).map(|(payload, _, class)| (payload, class))
    };
    let whole = judged(second, usize::MAX);
    assert_eq!(judged(second, size), whole, "in pieces of {size}");
    let _ = judged(first, usize::MAX);
    assert_eq!(judged(second, size), whole, "after another reply");
    if let Ok((_, None)) = whole {
        has_one_reply(&factory, second);
    }
    // Several replies of a connection, whose table they share.
    let (mut exchange, mut output) = (factory.exchange(), Vec::new());
    exchange.reset();
    let _ = exchange
        .greet(&[], &mut output)
        .and_then(|_| exchange.greet(first, &mut output));
    for piece in second.chunks(size) {
        exchange.begin();
        if exchange.receive(piece).is_err() {
            break;
        }
        assert!(exchange.request().len() < 1 << 20, "words without bound");
    }
    let _ = protocol.repeatable(second.to_vec());
    let _ = protocol.traits(second);
}

/// A greeting takes any bytes, in any pieces, to one end. (SCRAM draws a nonce: its words differ, its class does not.)
fn greet(protocol: &Protocol, data: &[u8]) {
    let Some((size, _, input)) = split(data) else { return };
    let in_pieces = |size: usize| {
        let mut exchange = factory(protocol.clone()).exchange();
        exchange.reset();
        // Any bytes are a certificate or not, and so are the words in plain before TLS.
        if data.first().is_some_and(|size| size % 2 == 0) {
            exchange.secured(input, input);
        }
        let mut output = Vec::new();
        let mut is_over = exchange.greet(&[], &mut output).map_err(|failure| failure.class)?;
        for piece in input.chunks(size) {
            if is_over {
                break;
            }
            is_over = exchange.greet(piece, &mut output).map_err(|failure| failure.class)?;
            assert!(output.len() < 1 << 20, "a greeting without bound");
        }
        Ok::<_, ErrorClass>(is_over)
    };
    let (whole, pieces) = (in_pieces(usize::MAX), in_pieces(size));
    // Bytes after the end of the greeting are an error, but only when they come with it.
    if whole != Err(ErrorClass::Protocol) {
        assert_eq!(pieces, whole);
    }
}

/// The right bytes with the data laid over them.
fn changed(right: impl Iterator<Item = u8>, data: &[u8]) -> Vec<u8> {
    let changes = data.iter().copied().chain(std::iter::repeat(0));
    right.zip(changes).map(|(byte, change)| byte ^ change).collect()
}

pub fn echo(data: &[u8]) {
    let Some((&[size, piece, cut], changes)) = data.split_first_chunk::<3>() else {
        return;
    };
    let size = u32::from(size).max(8);
    // The first exchanges of factories number their messages alike; `outcome` begins the first of them.
    let first = || factory(Protocol::from(Echo { size })).exchange();
    let wanted = {
        let mut exchange = first();
        exchange.begin();
        let mut reply = changed(exchange.request().iter().copied(), changes);
        reply.truncate(reply.len().saturating_sub(usize::from(cut) % 16));
        reply
    };
    let whole = outcome(&mut *first(), &wanted, usize::MAX);
    assert_eq!(outcome(&mut *first(), &wanted, usize::from(piece) + 1), whole);
    let intact = wanted.len() == size as usize && changes.iter().take(wanted.len()).all(|change| *change == 0);
    assert_eq!(
        whole == Ok((u64::from(size), true, None)),
        intact,
        "only the message itself is right"
    );
}

pub fn stream(data: &[u8]) {
    let Some((&[low, high, piece], changes)) = data.split_first_chunk::<3>() else {
        return;
    };
    let size = u64::from(u16::from_le_bytes([low, high])).max(1);
    let protocol = Protocol::from(Stream { size, chunk: 4096 });
    let reply = changed((0..size).map(pattern), changes);
    let exchange = || factory(protocol.clone()).exchange();
    let whole = outcome(&mut *exchange(), &reply, usize::MAX);
    assert_eq!(outcome(&mut *exchange(), &reply, usize::from(piece) * 16 + 1), whole);
    let intact = changes.iter().take(reply.len()).all(|change| *change == 0);
    assert_eq!(whole == Ok((size, true, None)), intact, "every byte counts");
}

pub fn hello(data: &[u8]) {
    let Some((&piece, reply)) = data.split_first() else {
        return;
    };
    let protocol = Protocol::from(Hello {
        expect: "Hello there!".to_owned(),
    });
    let exchange = || factory(protocol.clone()).exchange();
    let whole = outcome(&mut *exchange(), reply, usize::MAX);
    assert_eq!(outcome(&mut *exchange(), reply, usize::from(piece) + 1), whole);
    assert_eq!(whole == Ok((12, false, None)), reply == b"Hello there!");
}

/// Any text is a URL or an error. Only texts that name no host to look up: addresses and sockets.
pub fn url(data: &[u8]) {
    let Some((&choice, rest)) = data.split_first() else {
        return;
    };
    let Ok(rest) = std::str::from_utf8(rest) else { return };
    if rest
        .match_indices("host=")
        .any(|(at, _)| !rest[at + 5..].starts_with('/'))
    {
        return;
    }
    let schemes = [
        "http",
        "https",
        "redis",
        "rediss",
        "postgres",
        "postgresql",
        "echo",
        "hello",
        "stream",
        "stream+tls",
    ];
    let slash = if rest.starts_with(['/', '?']) { "" } else { "/" };
    let text = match usize::from(choice) {
        at if at < schemes.len() => format!("{}://127.0.0.1{slash}{rest}", schemes[at]),
        at if at < 2 * schemes.len() => format!("{}://u:p@[::1]:9{slash}{rest}", schemes[at - schemes.len()]),
        at if at < 3 * schemes.len() => format!("{}+unix:{rest}", schemes[at - 2 * schemes.len()]),
        _ => rest.replace("//", "/").to_owned(),
    };
    if !text.contains("unix:") && usize::from(choice) >= 3 * schemes.len() && text.contains(':') {
        return;
    }
    if let Ok((endpoint, _)) = parse(&text, &UrlOptions::default()) {
        assert!(matches!(
            endpoint.address,
            Address::Unix(_) | Address::Abstract(_) | Address::Tcp(_)
        ));
    }
}

/// Any text is a histogram whose figures can be had, or an error; one that was read is written as it was read.
pub fn histogram(data: &[u8]) {
    let text = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, data);
    let Ok(read) = serde_json::from_value::<Histogram>(text.into()) else {
        return;
    };
    let again: Histogram =
        serde_json::from_str(&serde_json::to_string(&read).expect("it can be written")).expect("it is one");
    assert!(again.bins().eq(read.bins()));
    let _ = (read.quantile(0.5), read.max(), read.mean(), read.count());
}

/// What `lasthop drive` is told, and what it says.
pub fn lines(data: &[u8]) {
    let mut input = data;
    while let Ok(Some(request)) = wire::read_line::<wire::Request>(&mut input) {
        if let wire::Request::Prepare { spec, .. } = request
            && spec.validate().is_ok()
        {
            let _ = spec.factory();
        }
    }
    let mut input = data;
    while let Ok(Some(reply)) = wire::read_line::<wire::Reply>(&mut input) {
        let mut said = Vec::new();
        wire::write_line(&mut said, &reply).expect("it can be said again");
    }
}
