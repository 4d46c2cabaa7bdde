//! The null server repeats the real server's reply: the load's checks hold against it, over each transport and reuse.

use crate::common;

use std::thread;

use common::{SHORT, With, certificates, run, spec};
use lasthop_load::{
    null::{NullServer, NullSpec, Script},
    reference, sample,
};
use lasthop_protocol::{
    Protocol,
    grpc::Grpc,
    hello::Hello,
    http::{Http, HttpExpect, HttpVersion},
    memcached::{Command, Memcached, MemcachedExpect},
    mysql::{Mysql, MysqlExpect, MysqlMode},
    postgres::{ChannelBinding, Postgres, PostgresExpect, QueryMode},
    redis::{Redis, RedisExpect},
    spec::Spec,
    stream::{self, Stream},
};
use lasthop_trial::{
    address::{Address, Endpoint, Tls},
    options::Reuse,
};

fn http() -> Protocol {
    let expect = HttpExpect {
        status: 200,
        ..HttpExpect::default()
    };
    Protocol::from(Http {
        method: "GET".into(),
        path: "/".into(),
        host: "localhost".into(),
        headers: Vec::new(),
        hidden: vec![],
        body: Default::default(),
        version: HttpVersion::V11,
        expect,
    })
}

fn postgres(mode: QueryMode) -> Protocol {
    Protocol::from(Postgres {
        user: "u".into(),
        database: "d".into(),
        password: Some("secret".into()),
        query: "select 1".into(),
        mode,
        parameters: Vec::new(),
        expect: PostgresExpect::default(),
        channel_binding: ChannelBinding::default(),
        settings: Default::default(),
    })
}

fn redis() -> Protocol {
    Protocol::from(Redis {
        command: vec!["GET".into(), "key".into()],
        expect: RedisExpect::default(),
        username: None,
        password: Some("secret".into()),
        database: 3,
        protocol: Default::default(),
    })
}

const HTTP_REPLY: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n";
const REDIS_REPLY: &[u8] = b"$5\r\nHello\r\n";
const POSTGRES_ROW: &[u8] = b"D\0\0\0\x0b\0\x01\0\0\0\x011C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I";

fn simple_reply() -> Vec<u8> {
    let column = b"T\0\0\0\x21\0\x01?column?\0\0\0\0\0\0\0\0\0\0\x17\0\x04\xff\xff\xff\xff\0\0";
    [column.as_slice(), POSTGRES_ROW].concat()
}

fn prepared_reply() -> Vec<u8> {
    [b"2\0\0\0\x04".as_slice(), POSTGRES_ROW].concat()
}

/// Drives a null server for the load of `spec` that has learnt `reply` as its real server's reply.
fn drive(spec: &Spec, tls: Option<(std::path::PathBuf, std::path::PathBuf)>, reply: &[u8]) {
    let closes = spec.protocol.closes_each_time() || spec.tells_to_close();
    let taken = sample::Sample {
        reply: reply.to_vec(),
        closes,
    };
    let script = Script::learn(spec, &taken).unwrap();
    let address = spec.endpoint.address.clone();
    let server = NullServer::bind(NullSpec {
        address,
        tls,
        nodelay: true,
        script,
        threads: 1,
    })
    .unwrap();
    let endpoint = Endpoint {
        address: server.address().clone(),
        ..spec.endpoint.clone()
    };
    let stopper = server.stopper().unwrap();
    let thread = thread::spawn(move || server.run().unwrap());

    let spec = spec.clone().endpoint(endpoint);
    assert_eq!(sample::take(&spec, || true).unwrap(), taken, "{:?}", spec.protocol);
    // A repeated reply is learnt from two samples as well as from many.
    let mut reference = reference::sampled(&[&spec], false, || true).unwrap().remove(0);
    let unchecked = reference::learn_from(&mut reference.protocol, &reference.samples).unwrap();
    assert_eq!(unchecked, None, "{:?}", spec.protocol);
    let protocol = reference.protocol;
    let result = run(&spec.clone().protocol(protocol), SHORT).unwrap_or_else(|error| panic!("{error}: {spec:?}"));
    assert_eq!(result.error_total(), 0, "{:?}", result.errors);
    assert!(result.requests > 0);
    stopper.stop();
    thread.join().unwrap();
}

fn loads(protocol: Protocol, reply: &[u8]) {
    let folder = tempfile::tempdir().unwrap();
    let files = certificates(folder.path());
    let tcp = Address::Tcp("127.0.0.1:0".parse().unwrap());
    let unix = Address::Unix(folder.path().join("s"));
    let tls = Tls {
        authority: Some(files.authority.clone()),
        server_name: "lasthop.test".to_owned(),
        resumption: false,
        insecure: false,
    };
    for (address, tls) in [(tcp.clone(), None), (unix, None), (tcp, Some(tls))] {
        let pem = tls.is_some().then(|| (files.certificate.clone(), files.key.clone()));
        let base = spec(&Endpoint { address, tls }, protocol.clone());
        for (reuse, connections, pipeline) in [
            (Reuse::KeepAlive, 1, 1),
            (Reuse::KeepAlive, 5, 1),
            (Reuse::KeepAlive, 2, 8),
            (Reuse::PerRequest, 2, 1),
        ] {
            let spec = base.clone().reuse(reuse).connections(connections).pipeline(pipeline);
            // Lasthop's own protocols do not support every combination.
            if spec.validate().is_ok() {
                drive(&spec, pem.clone(), reply);
            }
        }
    }
}

#[test]
fn http_is_replayed() {
    loads(http(), HTTP_REPLY);
}

/// Each reply carries the stream of its request.
#[test]
fn streams_of_http_2_are_numbered() {
    let head = b"\0\0\x01\x01\x04\0\0\0\x01\x88";
    let data = b"\0\0\x05\0\x01\0\0\0\x01Hello";
    let http = http();
    let protocol = Protocol::from(Http {
        version: HttpVersion::V2,
        ..http.get::<Http>().unwrap().clone()
    });
    let (reply, _) = protocol.repeatable([&head[..], data].concat());
    loads(protocol, &reply);
}

#[test]
fn redis_is_replayed() {
    loads(redis(), REDIS_REPLY);
}

#[test]
fn memcached_is_replayed() {
    let memcached = |command, value: Option<&str>| {
        let value = value.map(str::to_owned);
        Protocol::from(Memcached {
            command,
            key: "key".into(),
            value,
            expect: MemcachedExpect::Any,
        })
    };
    let hello = b"VALUE key 0 5\r\nHello\r\nEND\r\n";
    loads(memcached(Command::Get, None), hello);
    loads(memcached(Command::Get, Some("Hello")), hello);
    loads(memcached(Command::Set, Some("Hello")), b"STORED\r\n");
}

#[test]
fn raw_bytes_are_replayed() {
    let mut raws = Vec::new();
    for (end, reply) in [
        (serde_json::json!({ "until": r"\r\n" }), &b"250 OK\r\n"[..]),
        (
            serde_json::json!({ "until-then": { "text": r"\n", "then": 2 } }),
            b"OK\n\n\0",
        ),
        (serde_json::json!({ "bytes": 2 }), b"\xd0\0"),
        (serde_json::json!({ "length-prefix": "2@1le+3" }), b"\0\x01\0!"),
    ] {
        // The server sends twice unasked; a step without a reply goes out with the next step.
        let silent = serde_json::json!({ "send": "quiet", "end": { "bytes": 0 } });
        let greeting =
            serde_json::json!([{}, {}, { "send": "HELO" }, silent, { "send": "GO", "end": { "until": "!!" } }, silent]);
        for greeting in [serde_json::json!([]), greeting] {
            let raw = serde_json::json!({ "raw": { "send": "ping", "end": end, "greeting": greeting } });
            raws.push((raw, reply));
        }
    }
    raws.push((
        serde_json::json!({ "raw": { "send": "ping", "end": "close" } }),
        b"pong",
    ));
    raws.push((
        serde_json::json!({ "raw": { "send": "", "end": { "bytes": 5 } } }),
        b"hello",
    ));
    for (raw, reply) in raws {
        loads(serde_json::from_value(raw).unwrap(), reply);
    }
}

/// The null server must know the key.
#[test]
fn messages_of_websocket_are_replayed() {
    let long = [&b"\x82\x7e\x03\xe8"[..], &[7; 1000]].concat();
    let other = serde_json::json!({ "path": "/", "send": "Hello" });
    let any = serde_json::json!({ "path": "/", "send": "Hello", "expect": "any" });
    let greeted = serde_json::json!({ "path": "/", "send": "Hello", "greeting": ["", "init", ""] });
    for (parameters, reply) in [
        (other, &b"\x81\x05Hello"[..]),
        (any, &long),
        (greeted, b"\x81\x05Hello"),
    ] {
        let mut protocol: Protocol = serde_json::from_value(serde_json::json!({ "websocket": parameters })).unwrap();
        protocol.let_anybody_in();
        loads(protocol, reply);
    }
}

#[test]
fn postgresql_is_replayed() {
    loads(postgres(QueryMode::Simple), &simple_reply());
    loads(postgres(QueryMode::Prepared), &prepared_reply());
}

#[test]
fn mysql_is_replayed() {
    let mysql = |mode, parameters| {
        Protocol::from(Mysql {
            user: "u".into(),
            database: "d".into(),
            password: Some("secret".into()),
            cleartext: false,
            query: "select 1".into(),
            mode,
            parameters,
            expect: MysqlExpect::default(),
        })
    };
    let column = b"\x01\0\0\x01\x01\x17\0\0\x02\x03def\0\0\0\x011\0\x0c\x3f\0\x01\0\0\0\x03\x81\0\0\0\0";
    let end = b"\x07\0\0\x04\xfe\0\0\x02\0\0\0";
    loads(
        mysql(MysqlMode::Simple, vec![]),
        &[&column[..], b"\x02\0\0\x03\x011", end].concat(),
    );
    let binary = [&column[..], b"\x06\0\0\x03\0\0\x01\0\0\0", end].concat();
    loads(mysql(MysqlMode::Prepared, vec![]), &binary);
    loads(mysql(MysqlMode::Prepared, vec!["7".into(), "8".into()]), &binary);
}

/// Each reply carries the stream of its request.
#[test]
fn calls_of_grpc_are_numbered() {
    let (method, host) = ("a.B/C".to_owned(), "h".to_owned());
    let grpc = Grpc {
        method,
        host,
        size: 70_000,
        ..Grpc::default()
    };
    let head = b"\0\0\x14\x01\x04\0\0\0\x01\x88\x0f\x10\x10application/grpc";
    let data = b"\0\0\x08\0\0\0\0\0\x01\0\0\0\0\x03\x0a\x01a";
    let trailers = b"\0\0\x0f\x01\x05\0\0\0\x01\x00\x0bgrpc-status\x010";
    let protocol = Protocol::from(grpc);
    let (reply, _) = protocol.repeatable([&head[..], data, trailers].concat());
    loads(protocol, &reply);
}

/// The replies of lasthop's own server.
#[test]
fn own_protocols_are_replayed() {
    let bytes: Vec<u8> = (0..100_000).map(stream::pattern).collect();
    loads(
        Protocol::from(Stream {
            size: 100_000,
            chunk: 4096,
        }),
        &bytes,
    );
    loads(
        Protocol::from(Hello {
            expect: "Hello there!".into(),
        }),
        b"Hello there!",
    );
    // The first message has the number 1, because each connection numbers its own.
    let first = {
        let spec = spec(&Endpoint::plain(Address::Abstract("x".into())), common::echo(64));
        let mut one = spec.factory().exchange();
        one.reset();
        one.begin();
        one.request().to_vec()
    };
    loads(common::echo(64), &first);
}

/// Thousands of connections on the server's one thread, over each kind of socket.
#[test]
fn many_connections_are_served_by_one_thread() {
    let folder = tempfile::tempdir().unwrap();
    let tcp = |ip: &str| Address::Tcp(format!("{ip}:0").parse().unwrap());
    let unique = format!("lasthop-null-{}", std::process::id());
    for address in [
        Address::Unix(folder.path().join("s")),
        Address::Abstract(unique),
        tcp("127.0.0.1"),
        tcp("[::1]"),
    ] {
        for (protocol, reply) in [
            (http(), HTTP_REPLY.to_vec()),
            (redis(), REDIS_REPLY.to_vec()),
            (postgres(QueryMode::Simple), simple_reply()),
        ] {
            let base = spec(&Endpoint::plain(address.clone()), protocol);
            drive(&base.connections(2000), None, &reply);
        }
    }
}
