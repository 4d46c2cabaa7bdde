//! One call: its stream, and its reply, which is judged as it comes.

use std::cell::RefCell;

use super::{Requests, frame, hpack::Decoder};
use crate::{
    failure::Failure,
    location::decode,
    protocol::{check::BodyCheck, exchange::excerpt, line::digits},
};

/// Bytes before a message: whether it is compressed, and its length.
pub const PREFIX: usize = 5;
const OK: u16 = 200;

/// What the fields of a reply say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// `:status`
    http: Option<u16>,
    /// `grpc-status`
    grpc: Option<u16>,
    /// There is one that is no number, or another one after it.
    is_malformed: bool,
    /// Whether a `content-type` says that it is gRPC, and one that says something else.
    is_grpc: bool,
    other_type: Option<String>,
    /// `grpc-message`, as it came.
    message: String,
}

impl Fields {
    fn take(&mut self, name: &[u8], value: &[u8]) {
        match name {
            b":status" => self.http = digits(value),
            b"grpc-status" => {
                let code = digits(value);
                self.is_malformed |= code.is_none() || self.grpc.is_some_and(|other| Some(other) != code);
                self.grpc = code;
            }
            b"grpc-message" => self.message = String::from_utf8_lossy(value).into_owned(),
            b"content-type" if is_grpc(value) => self.is_grpc = true,
            b"content-type" => self.other_type = Some(excerpt(value)),
            _ => {}
        }
    }
}

/// `application/grpc`, alone or with what its messages are.
fn is_grpc(media: &[u8]) -> bool {
    const GRPC: &[u8] = b"application/grpc";
    let begins = media
        .get(..GRPC.len())
        .is_some_and(|name| name.eq_ignore_ascii_case(GRPC));
    begins && matches!(media.get(GRPC.len()), None | Some(b'+' | b';'))
}

/// Blocks that were read lately, shared by all connections of a thread: those before a message and those after it. The
/// same bytes mean the same again as long as no table is in use.
#[derive(Default)]
pub struct RecentBlocks(RefCell<[Option<Block>; 2]>);

/// A block as it came, what it says, and the capacity of the empty table that it found and left.
struct Block {
    capacity: usize,
    bytes: Vec<u8>,
    fields: Fields,
}

impl RecentBlocks {
    /// # Errors
    ///
    /// The block is not HPACK.
    pub fn read(&self, block: &[u8], decoder: &mut Decoder) -> Result<Fields, Failure> {
        let idle = decoder.idle();
        let known = &mut *self.0.borrow_mut();
        let same = known
            .iter()
            .flatten()
            .find(|known| idle == Some(known.capacity) && known.bytes == block);
        if let Some(known) = same {
            return Ok(known.fields.clone());
        }
        let mut fields = Fields::default();
        let read = decoder.decode(block, |name, value| fields.take(name, value));
        read.ok_or_else(|| Failure::protocol("HTTP/2: a header block is malformed"))?;
        // A head has `:status`, trailers have none.
        let place = &mut known[usize::from(fields.http.is_none())];
        *place = idle.filter(|_| decoder.idle() == idle).map(|capacity| Block {
            capacity,
            bytes: block.to_vec(),
            fields: fields.clone(),
        });
        Ok(fields)
    }
}

/// One call of a batch.
#[derive(Default)]
pub struct Call {
    /// Bytes of the message that are still to be sent, and how many the stream's window allows.
    pub unsent: usize,
    pub window: i64,
    pub is_over: bool,
    /// The fields before the message, once they have come.
    head: Option<Fields>,
    trailers: Fields,
    prefix: Vec<u8>,
    body: BodyCheck,
    fault: Option<Failure>,
}

impl Call {
    pub fn begin(&mut self, length: usize, window: i64) {
        self.unsent = length;
        self.window = window;
        self.is_over = false;
        self.head = None;
        self.prefix.clear();
        self.body.reset();
        self.fault = None;
    }

    /// Bytes that may be sent at once, where the connection's window allows so many.
    pub fn may_send(&self, connection: i64) -> Option<usize> {
        // A window may be negative after the server has made it smaller than what is under way (RFC 9113, section
        // 6.9.2).
        let room = self.window.min(connection).clamp(0, frame::CONTENT_MAX as i64) as usize;
        Some(self.unsent.min(room)).filter(|count| *count > 0)
    }

    pub fn sent(&mut self, count: usize) {
        self.unsent -= count;
        self.window -= count as i64;
    }

    /// Bytes of the message that have come.
    pub fn received(&self) -> u64 {
        self.body.received()
    }

    pub fn fail(&mut self, failure: Failure) {
        self.is_over = true;
        self.fault = Some(failure);
    }

    /// Takes the fields before the message, or those after it.
    ///
    /// # Errors
    ///
    /// They are out of place.
    pub fn take_fields(&mut self, fields: &Fields, ends: bool) -> Result<(), Failure> {
        let is_interim = fields.http.is_some_and(|status| status < OK);
        match self.head {
            None if is_interim && !ends => return Ok(()),
            None if fields.http.is_none() => return Err(Failure::protocol("HTTP/2: a reply without a status")),
            None => self.head = Some(fields.clone()),
            Some(_) if fields.http.is_some() => return Err(Failure::protocol("HTTP/2: trailers with a status")),
            Some(_) if !ends => return Err(Failure::protocol("HTTP/2: trailers do not end their stream")),
            Some(_) => {}
        }
        if ends {
            self.is_over = true;
            // A head that ends the stream is the trailers as well (gRPC calls it Trailers-Only).
            self.trailers.clone_from(fields);
        }
        Ok(())
    }

    /// Takes a piece of the message, or of what a proxy says in its place.
    ///
    /// # Errors
    ///
    /// There was no head.
    pub fn take_data(&mut self, requests: &Requests, data: &[u8], ends: bool) -> Result<(), Failure> {
        if self.head.is_none() {
            return Err(Failure::protocol("HTTP/2: data come before the status"));
        }
        let (prefix, body) = data.split_at(data.len().min(PREFIX - self.prefix.len()));
        self.prefix.extend_from_slice(prefix);
        self.body.feed(&requests.expected, body);
        if ends {
            self.is_over = true;
            self.trailers = Fields::default();
        }
        Ok(())
    }

    /// The status of the call, of HTTP, and what the reply says that it is: as grpc-go wants them, and a little
    /// stricter.
    fn judge_fields(&self) -> Result<(), Failure> {
        let Some(head) = &self.head else {
            return Err(Failure::protocol("HTTP/2: a reply without a status"));
        };
        for fields in [head, &self.trailers] {
            if fields.is_malformed {
                return Err(Failure::protocol(
                    "gRPC: a grpc-status that is no number, or two that differ",
                ));
            }
            if let Some(code @ 1..) = fields.grpc {
                return Err(refusal(code, &fields.message));
            }
        }
        if let Some(status) = head.http.filter(|status| *status != OK) {
            let text = format!("HTTP status {status}, expected {OK}");
            return Err(Failure {
                status: Some(status),
                ..Failure::refused(text)
            });
        }
        if !head.is_grpc || head.other_type.is_some() {
            let got = head.other_type.as_deref().unwrap_or("missing");
            let text = format!("gRPC: the content-type is {got}, expected \"application/grpc\"");
            return Err(Failure::content(text));
        }
        match self.trailers.grpc {
            Some(_) => Ok(()),
            None => Err(Failure::protocol("gRPC: a reply without a grpc-status")),
        }
    }

    /// # Errors
    ///
    /// The reply is not the right one.
    pub fn judge(&mut self, requests: &Requests) -> Result<(), Failure> {
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        self.judge_fields()?;
        let Some(&[compressed, ref length @ ..]) = self.prefix.first_chunk::<PREFIX>() else {
            return Err(Failure::content("gRPC: the reply has no message"));
        };
        if compressed != 0 {
            return Err(Failure::protocol(
                "gRPC: the message is compressed, which was not asked for",
            ));
        }
        if u64::from(frame::number(length)) != self.body.received() {
            return Err(Failure::content(
                "gRPC: the message is not as long as it says, or there are several",
            ));
        }
        self.body.finish(&requests.expected)
    }
}

/// The server's answer that the call has failed. The text is percent-encoded.
fn refusal(code: u16, message: &str) -> Failure {
    const NAMES: [&str; 17] = [
        "OK",
        "CANCELLED",
        "UNKNOWN",
        "INVALID_ARGUMENT",
        "DEADLINE_EXCEEDED",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED",
        "FAILED_PRECONDITION",
        "ABORTED",
        "OUT_OF_RANGE",
        "UNIMPLEMENTED",
        "INTERNAL",
        "UNAVAILABLE",
        "DATA_LOSS",
        "UNAUTHENTICATED",
    ];
    let name = NAMES
        .get(usize::from(code))
        .map(|name| format!(" ({name})"))
        .unwrap_or_default();
    let message = decode(message).unwrap_or_else(|_| message.to_owned());
    let colon = if message.is_empty() { "" } else { ": " };
    let text: String = message.chars().take(500).collect();
    let text = format!("grpc-status {code}{name}{colon}{text}");
    Failure {
        status: Some(code),
        ..Failure::refused(text)
    }
}
