//! HTTP/2 (RFC 9113): one request, repeated, in plaintext with prior knowledge or within TLS. The requests of a batch
//! are concurrent streams of a connection; their replies may come in any order.

pub mod call;
pub mod frame;
pub mod hpack;
mod huffman;
pub mod session;

use std::rc::Rc;

use lasthop_trial::failure::Failure;

use self::{
    call::{Fields, RecentBlocks, Reply},
    frame::{DATA, Framer, HEADERS},
    hpack::Decoder,
    session::Session,
};
use super::{check::Expected, exchange::Factory};

/// Request and expectations, shared by all connections of a thread.
pub struct Requests {
    /// The header block of a request.
    pub fields: Vec<u8>,
    /// The body of a request.
    pub body: Vec<u8>,
    pub expected: Expected,
    /// Concurrent requests.
    pub depth: u32,
    /// Whether the method is HEAD: the reply has no body, whatever its head says.
    pub head_only: bool,
    /// The protocol on top of HTTP/2.
    pub meaning: Box<dyn Meaning>,
    pub known: RecentBlocks,
}

/// Connection-specific fields, which HTTP/2 does not have (RFC 9113, section 8.2.2).
pub const OF_CONNECTION: [&str; 6] = [
    "connection",
    "proxy-connection",
    "keep-alive",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// What a reply means to the protocol on top of HTTP/2.
pub trait Meaning {
    /// Bytes of a body before its content.
    fn prefix(&self) -> usize {
        0
    }

    /// Judges the fields before the body.
    fn judge_head(&self, head: &Fields) -> Result<(), Failure>;

    /// Judges the rest of a complete reply, without the content of its body.
    fn judge(&self, _: &Reply<'_>) -> Result<(), Failure> {
        Ok(())
    }
}

/// Makes the exchanges of the connections.
pub fn factory(requests: Requests) -> Factory {
    let requests = Rc::new(requests);
    Factory::new(move || Session::new(Rc::clone(&requests)))
}

/// Encodes fields as a header block.
pub fn block<'a>(fields: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        hpack::write(name, value, &mut block);
    }
    block
}

/// The fields and the body of a complete, correct reply; interim replies are skipped.
pub fn parts(reply: &[u8]) -> Result<(Fields, Vec<u8>), Failure> {
    let mut head = Fields::default();
    let mut body = Vec::new();
    let mut block = Vec::new();
    let mut decoder = Decoder::new();
    frames(reply, |frame| {
        match frame.kind {
            DATA => body.extend_from_slice(frame.body()?),
            HEADERS | frame::CONTINUATION => {
                block.extend_from_slice(frame.body()?);
                if frame.has(frame::END_HEADERS) {
                    let fields = Fields::read(&std::mem::take(&mut block), &mut decoder)?;
                    // Trailers have no status.
                    if fields.status.is_some() {
                        head = fields;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok((head, body))
}

/// A reply that a null server can repeat, and the offsets of its stream numbers. `body` is the number of bytes that a
/// request's body takes of the connection's window.
pub fn repeatable(body: usize, reply: &[u8]) -> (Vec<u8>, Vec<usize>) {
    let mut again = Vec::new();
    let mut numbers = Vec::new();
    // Each reply gives back what its request took of the connection's window, which would otherwise be used up after 2
    // GiB.
    if body > 0 {
        session::write_update(body as u32, &mut again);
    }
    let _ = frames(reply, |frame| {
        // Header blocks can be repeated, because the client allows no dynamic table. Frames of the connection were for
        // the sample only.
        if frame.stream > 0 {
            numbers.push(again.len() + frame::HEAD - 4);
            frame::write(frame.kind, frame.flags, frame.stream, frame.content, &mut again);
        }
        Ok(())
    });
    (again, numbers)
}

/// Passes each complete frame to `take`.
pub fn frames(mut bytes: &[u8], mut take: impl FnMut(frame::Frame<'_>) -> Result<(), Failure>) -> Result<(), Failure> {
    let mut framer = Framer::default();
    while !bytes.is_empty() {
        let (used, frame) = framer.next(bytes)?;
        bytes = &bytes[used..];
        frame.map_or(Ok(()), &mut take)?;
    }
    Ok(())
}
