//! The proof of a live connection, read from the kernel and from the TLS session.

use std::io;

use lasthop_trial::{
    address::{self, Transport},
    options::SocketOptions,
    result::Proof,
};
use rustls::ProtocolVersion;
use socket2::{SockAddr, Type};

use crate::transport::{self, Stream};

/// Reads the proof from a connected stream. Buffer sizes are read only if `asked` sets them. `reused` is false, because
/// only two requests can tell; whether the server asked for a password is known to the protocol.
pub fn read(stream: &Stream, asked: &SocketOptions) -> io::Result<Proof> {
    let options = stream.socket().options();
    let peer = options.peer_addr()?;
    let kind = options.r#type()?;
    let (family, peer_name) = match stream {
        Stream::Passed(passed) => passed.proof()?,
        // Neither end of a socketpair has a name; the kernel's name of the descriptor takes its place.
        _ if peer.is_unnamed() => (Transport::Socketpair.name(), transport::name_of(stream.socket())?),
        _ => (address::family(peer.domain(), kind), peer_name(&peer)),
    };
    let (tls_version, tls_cipher) = session(stream);
    let is_tcp = peer.as_socket().is_some() && kind == Type::STREAM;
    let nodelay = is_tcp.then(|| options.tcp_nodelay()).transpose()?;
    Ok(Proof {
        family: family.to_owned(),
        peer: peer_name,
        tls_version,
        tls_cipher,
        reused: false,
        password_asked: None,
        nodelay,
        send_buffer: size(asked.send_buffer, || options.send_buffer_size())?,
        receive_buffer: size(asked.receive_buffer, || options.recv_buffer_size())?,
    })
}

/// The size of a buffer, if one was asked for.
fn size(asked: Option<u32>, read: impl FnOnce() -> io::Result<usize>) -> io::Result<Option<u64>> {
    // Read back, not trusted: the kernel doubles the size and caps it at `net.core.wmem_max` or `rmem_max`.
    asked.map(|_| read().map(|size| size as u64)).transpose()
}

/// An abstract name is written with a leading `@`, as `ss` does.
fn peer_name(peer: &SockAddr) -> String {
    if let Some(tcp) = peer.as_socket() {
        return tcp.to_string();
    }
    if let Some(name) = peer.as_abstract_namespace() {
        return match std::str::from_utf8(name) {
            Ok(name) => address::abstract_name(name),
            Err(_) => format!("@{}", name.escape_ascii()),
        };
    }
    peer.as_pathname()
        .map_or_else(String::new, |path| path.display().to_string())
}

fn session(stream: &Stream) -> (Option<String>, Option<String>) {
    let Stream::Tls(tls) = stream else { return (None, None) };
    let version = tls.session().protocol_version().map(|version| match version {
        ProtocolVersion::TLSv1_3 => "TLSv1.3".to_owned(),
        ProtocolVersion::TLSv1_2 => "TLSv1.2".to_owned(),
        other => format!("{other:?}"),
    });
    let suite = tls.session().negotiated_cipher_suite();
    (
        version,
        suite.and_then(|suite| suite.suite().as_str()).map(str::to_owned),
    )
}
