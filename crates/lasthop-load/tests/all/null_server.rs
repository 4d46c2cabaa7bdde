//! The null server repeats the real server's reply: the load's checks hold against it, over each transport and reuse.

use crate::common;

use std::thread;

use common::{SHORT, With, certificates, echo, hello, of_json, of_url, run, spec, stream};
use lasthop_load::{
    null::{NullServer, NullSpec, Script},
    reference, sample,
};
use lasthop_protocol::{Protocol, spec::Spec, stream};
use lasthop_trial::{
    address::{Address, Endpoint},
    options::Reuse,
};
use serde_json::json;

fn http() -> Protocol {
    of_url("http+unix:/s:/")
}

fn postgres(mode: &str) -> Protocol {
    let postgres = json!({ "user": "u", "database": "d", "password": "secret", "query": "select 1", "mode": mode });
    of_json(json!({ "postgres": postgres }))
}

fn redis() -> Protocol {
    of_json(json!({ "redis": { "command": ["GET", "key"], "password": "secret", "database": 3 } }))
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
    for (address, tls) in [(tcp.clone(), None), (unix, None), (tcp, Some(files.tls()))] {
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
    let protocol = of_json(json!({ "http": { "path": "/", "version": "2", "expect": { "status": 200 } } }));
    let (reply, _) = protocol.repeatable([&head[..], data].concat());
    loads(protocol, &reply);
}

#[test]
fn redis_is_replayed() {
    loads(redis(), REDIS_REPLY);
}

#[test]
fn memcached_is_replayed() {
    let memcached = |command: &str, value: Option<&str>| {
        of_json(json!({ "memcached": { "command": command, "key": "key", "value": value } }))
    };
    let hello = b"VALUE key 0 5\r\nHello\r\nEND\r\n";
    loads(memcached("get", None), hello);
    loads(memcached("get", Some("Hello")), hello);
    loads(memcached("set", Some("Hello")), b"STORED\r\n");
}

#[test]
fn raw_bytes_are_replayed() {
    let mut raws = Vec::new();
    for (end, reply) in [
        (json!({ "until": r"\r\n" }), &b"250 OK\r\n"[..]),
        (json!({ "until-then": { "text": r"\n", "then": 2 } }), b"OK\n\n\0"),
        (json!({ "bytes": 2 }), b"\xd0\0"),
        (json!({ "length-prefix": "2@1le+3" }), b"\0\x01\0!"),
    ] {
        // The server sends twice unasked; a step without a reply goes out with the next step.
        let silent = json!({ "send": "quiet", "end": { "bytes": 0 } });
        let greeting = json!([{}, {}, { "send": "HELO" }, silent, { "send": "GO", "end": { "until": "!!" } }, silent]);
        for greeting in [json!([]), greeting] {
            let raw = json!({ "raw": { "send": "ping", "end": end, "greeting": greeting } });
            raws.push((raw, reply));
        }
    }
    raws.push((json!({ "raw": { "send": "ping", "end": "close" } }), b"pong"));
    raws.push((json!({ "raw": { "send": "", "end": { "bytes": 5 } } }), b"hello"));
    for (raw, reply) in raws {
        loads(of_json(raw), reply);
    }
}

/// The null server must know the key.
#[test]
fn messages_of_websocket_are_replayed() {
    let long = [&b"\x82\x7e\x03\xe8"[..], &[7; 1000]].concat();
    let other = json!({ "path": "/", "send": "Hello" });
    let any = json!({ "path": "/", "send": "Hello", "expect": "any" });
    let greeted = json!({ "path": "/", "send": "Hello", "greeting": ["", "init", ""] });
    for (parameters, reply) in [
        (other, &b"\x81\x05Hello"[..]),
        (any, &long),
        (greeted, b"\x81\x05Hello"),
    ] {
        let mut protocol = of_json(json!({ "websocket": parameters }));
        protocol.let_anybody_in();
        loads(protocol, reply);
    }
}

#[test]
fn postgresql_is_replayed() {
    loads(postgres("simple"), &simple_reply());
    loads(postgres("prepared"), &prepared_reply());
}

#[test]
fn mysql_is_replayed() {
    let mysql = |mode: &str, parameters: &[&str]| {
        of_json(json!({ "mysql": {
            "user": "u", "database": "d", "password": "secret", "query": "select 1", "mode": mode, "parameters": parameters
        } }))
    };
    let column = b"\x01\0\0\x01\x01\x17\0\0\x02\x03def\0\0\0\x011\0\x0c\x3f\0\x01\0\0\0\x03\x81\0\0\0\0";
    let end = b"\x07\0\0\x04\xfe\0\0\x02\0\0\0";
    loads(mysql("simple", &[]), &[&column[..], b"\x02\0\0\x03\x011", end].concat());
    let binary = [&column[..], b"\x06\0\0\x03\0\0\x01\0\0\0", end].concat();
    loads(mysql("prepared", &[]), &binary);
    loads(mysql("prepared", &["7", "8"]), &binary);
}

/// Each reply carries the stream of its request.
#[test]
fn calls_of_grpc_are_numbered() {
    let head = b"\0\0\x14\x01\x04\0\0\0\x01\x88\x0f\x10\x10application/grpc";
    let data = b"\0\0\x08\0\0\0\0\0\x01\0\0\0\0\x03\x0a\x01a";
    let trailers = b"\0\0\x0f\x01\x05\0\0\0\x01\x00\x0bgrpc-status\x010";
    let protocol = of_json(json!({ "grpc": { "method": "a.B/C", "host": "h", "size": 70_000 } }));
    let (reply, _) = protocol.repeatable([&head[..], data, trailers].concat());
    loads(protocol, &reply);
}

/// The replies of lasthop's own server.
#[test]
fn own_protocols_are_replayed() {
    let bytes: Vec<u8> = (0..100_000).map(stream::pattern).collect();
    loads(stream(100_000, 4096), &bytes);
    loads(hello(), b"Hello there!");
    // The first message has the number 1, because each connection numbers its own.
    let first = {
        let spec = spec(&Endpoint::plain(Address::Abstract("x".into())), echo(64));
        let mut one = spec.factory().exchange();
        one.reset();
        one.begin();
        one.request().to_vec()
    };
    loads(echo(64), &first);
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
            (postgres("simple"), simple_reply()),
        ] {
            let base = spec(&Endpoint::plain(address.clone()), protocol);
            drive(&base.connections(2000), None, &reply);
        }
    }
}
