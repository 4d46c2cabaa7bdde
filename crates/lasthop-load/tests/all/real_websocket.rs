//! A real server of WebSocket (Python's websockets), in a private directory, over a Unix socket, TCP and TLS, and nginx
//! in front of it: counts agree on both sides. Without either the tests are skipped.

use crate::{common, real_servers};

use std::{
    io::{Read, Write},
    net::TcpStream,
    os::unix::{fs::PermissionsExt, net::UnixStream},
};

use common::{Certificates, SHORT, With, certificates, for_ms, parameters, run, spec};
use lasthop_load::reference;
use lasthop_protocol::{
    escaped::Escaped,
    websocket::{Websocket, WebsocketExpect},
};
use lasthop_trial::{
    address::{Address, Endpoint},
    options::Reuse,
    result::ErrorClass,
};
use real_servers::{Server, check, command, everything, free_port, probes, program, tcp, wait_until};

/// Echoes each message, in other ways on other paths, and counts the messages. Offers compression to clients that ask
/// for it.
const SERVER: &str = r#"
import asyncio, http, signal, ssl, sys
import websockets

signal.signal(signal.SIGINT, signal.SIG_DFL)
folder, port, tls_port = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
count = 0

async def serve(socket, path):
    global count
    async for message in socket:
        count += 1
        if path == "/pieces":
            await socket.send([message[at:at + 7] for at in range(0, len(message), 7)])
        elif path == "/other":
            await socket.send(b"other")
        elif path == "/leave" and count % 3 == 0:
            await socket.close(4001, "enough")
        else:
            await socket.send(message)

async def plain(path, headers):
    if path == "/count":
        return http.HTTPStatus.OK, [], str(count).encode()
    if path == "/missing":
        return http.HTTPStatus.NOT_FOUND, [], b""

async def main():
    secure = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    secure.load_cert_chain(folder + "/cert.pem", folder + "/key.pem")
    # Many pings, so that they come before, within and behind replies.
    options = dict(process_request=plain, ping_interval=0.002, ping_timeout=60, max_size=None, subprotocols=["chat"])
    await websockets.serve(serve, "127.0.0.1", port, **options)
    await websockets.serve(serve, "127.0.0.1", tls_port, ssl=secure, **options)
    await websockets.unix_serve(serve, folder + "/s", **options)
    await asyncio.Future()

asyncio.run(main())
"#;

struct Websockets {
    server: Server,
    files: Certificates,
    tls_port: u16,
    /// In front of the server: its ports lead to the server's port and socket.
    nginx: Server,
    behind: u16,
}

fn websockets() -> Option<Websockets> {
    let python = program(&["/usr/bin/python3"])?;
    let nginx = program(&["/usr/sbin/nginx", "/usr/local/sbin/nginx", "/usr/bin/nginx"])?;
    let folder = tempfile::tempdir().unwrap();
    // nginx may run as another user, who needs access to the socket.
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let files = certificates(folder.path());
    let [port, tls_port, front, behind] = [(); 4].map(|()| free_port());
    std::fs::write(folder.path().join("server.py"), SERVER).unwrap();
    let at = folder.path().display();
    let line = format!("{} {at}/server.py {at} {port} {tls_port}", python.display());
    let mut child = command(&line).spawn().unwrap();
    let socket = folder.path().join("s");
    wait_until(&mut child, "websockets (Debian: python3-websockets)", || {
        TcpStream::connect(("127.0.0.1", tls_port)).is_ok() && UnixStream::connect(&socket).is_ok()
    });
    let server = Server { child, folder, port };
    // The folder gives any user access to the socket.
    std::fs::set_permissions(&socket, PermissionsExt::from_mode(0o777)).unwrap();
    let nginx_folder = tempfile::tempdir().unwrap();
    let at = nginx_folder.path().display();
    let to = |port: u16, upstream: &str| {
        format!(
            "server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://{upstream}; proxy_http_version 1.1;
               proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; }} }}"
        )
    };
    let text = format!(
        "daemon off; worker_processes 1; pid {at}/pid; error_log {at}/error.log; events {{ worker_connections 256; }}
         http {{ access_log off; client_body_temp_path {at}/b; proxy_temp_path {at}/p; fastcgi_temp_path {at}/f;
           uwsgi_temp_path {at}/u; scgi_temp_path {at}/c; {} {} }}",
        to(front, &format!("127.0.0.1:{port}")),
        to(behind, &format!("unix:{}", socket.display())),
    );
    std::fs::write(nginx_folder.path().join("conf"), text).unwrap();
    let line = format!("{} -c {at}/conf -p {at} -e /dev/null", nginx.display());
    let mut child = command(&line).spawn().unwrap();
    wait_until(&mut child, "nginx", || {
        TcpStream::connect(("127.0.0.1", behind)).is_ok()
    });
    let nginx = Server {
        child,
        folder: nginx_folder,
        port: front,
    };
    Some(Websockets {
        server,
        files,
        tls_port,
        nginx,
        behind,
    })
}

impl Websockets {
    fn endpoints(&self) -> Vec<Endpoint> {
        let tcp = |port| Endpoint::plain(tcp(port));
        vec![
            Endpoint::plain(Address::Unix(self.server.folder.path().join("s"))),
            tcp(self.server.port),
            Endpoint {
                tls: Some(self.files.tls()),
                ..tcp(self.tls_port)
            },
            tcp(self.nginx.port),
            tcp(self.behind),
        ]
    }

    /// Messages received by the server.
    fn count(&self) -> u64 {
        let mut stream = TcpStream::connect(("127.0.0.1", self.server.port)).unwrap();
        stream.write_all(b"GET /count HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text.rsplit("\r\n\r\n").next().unwrap().parse().unwrap()
    }
}

fn asking(path: &str, message: &[u8]) -> Websocket {
    Websocket {
        headers: vec![("Sec-WebSocket-Protocol".to_owned(), "none, chat".to_owned())],
        send: Some(Escaped(message.to_vec())),
        size: None,
        ..parameters(&format!("ws+unix:/s:{path}"))
    }
}

#[test]
fn websockets_counts_what_was_checked() {
    let Some(server) = websockets() else { return };
    for endpoint in server.endpoints() {
        let base = spec(&endpoint, asking("/", b"Hello there!"));
        for spec in everything(&base) {
            let before = server.count();
            let result = run(&spec, SHORT).unwrap_or_else(|error| panic!("{error}: {spec:?}"));
            check(&result);
            assert_eq!(result.bytes_received, 12 * result.requests);
            let sent = result.requests_total + probes(&spec);
            assert_eq!(server.count() - before, sent, "{spec:?}");
            // A kept connection is reopened if a ping arrived between two trials.
            let upgraded = result.phases.auth.as_ref().map_or(0, |times| times.count());
            // Connections of the first requests may be older than the measure phase.
            let from_before = u64::from(spec.connections * spec.requests_per_connection);
            assert!(
                upgraded > 0 || spec.reuse == Reuse::KeepAlive || result.requests <= from_before,
                "the upgrade is timed by itself: {spec:?}"
            );
        }
    }
}

/// Long messages, binary ones, and messages returned in pieces, with pings between them.
#[test]
fn messages_are_read_in_every_form() {
    let Some(server) = websockets() else { return };
    let [short, medium, long] = [(1, 0), (300, 1), (200_000, 2)].map(|(size, first): (usize, u8)| {
        let bytes = (0..size).map(|index| first.wrapping_add(index as u8));
        bytes.collect::<Vec<u8>>()
    });
    let text = "é".repeat(40_000).into_bytes();
    for endpoint in server.endpoints() {
        for (path, message) in [
            ("/", &short),
            ("/", &medium),
            ("/", &long),
            ("/pieces", &medium),
            ("/pieces", &long[..20_000].to_vec()),
            ("/", &text),
        ] {
            let result = run(&spec(&endpoint, asking(path, message)), for_ms(60));
            let result = result.unwrap_or_else(|error| panic!("{error}: {path}, {} bytes", message.len()));
            check(&result);
            assert_eq!(result.bytes_received, message.len() as u64 * result.requests);
        }
    }
}

#[test]
fn a_reply_of_another_kind_is_learnt_and_no_echo() {
    let Some(server) = websockets() else { return };
    let endpoint = server.endpoints().remove(0);
    let wrong = run(&spec(&endpoint, asking("/other", b"Hello")), SHORT).unwrap_err();
    let wanted = "the reply is a binary message, expected a text";
    assert!(wrong.to_string().contains(wanted), "{wrong}");
    let any = Websocket {
        expect: WebsocketExpect::Any,
        ..asking("/other", b"Hello")
    };
    let spec = spec(&endpoint, any);
    let protocol = reference::learn(&spec, || true).unwrap().protocol;
    let learnt = &protocol.get::<Websocket>().unwrap().expect;
    assert_eq!(*learnt, WebsocketExpect::Binary("other".into()));
    check(&run(&spec.protocol(protocol), SHORT).unwrap());
}

#[test]
fn what_the_server_refuses_and_closes_is_said() {
    let Some(server) = websockets() else { return };
    for endpoint in server.endpoints() {
        let missing = run(&spec(&endpoint, asking("/missing", b"Hello")), SHORT).unwrap_err();
        assert!(missing.to_string().contains("status 404, expected 101"), "{missing}");
        let leaves = spec(&endpoint, asking("/leave", b"Hello"));
        let result = loop {
            // A probe may be the message without an answer.
            if let Ok(result) = run(&leaves, SHORT) {
                break result;
            }
        };
        let classes: Vec<_> = result.errors.keys().copied().collect();
        assert_eq!(classes, [ErrorClass::Reset], "{:?}", result.errors);
        let said = &result.errors[&ErrorClass::Reset].first;
        assert!(said.contains("code 4001: \"enough\""), "{said}");
    }
}
