//! One call: its stream, and its reply, which is judged as it comes.

use std::cell::RefCell;

use super::{Common, frame, hpack::Decoder};
use crate::{failure::Failure, location::decode, protocol::check::BodyCheck, result::ErrorClass};

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
    /// `grpc-message`, as it came.
    message: String,
}

impl Fields {
    fn take(&mut self, name: &[u8], value: &[u8]) {
        let text = || String::from_utf8_lossy(value);
        match name {
            b":status" => self.http = text().parse().ok(),
            b"grpc-status" => self.grpc = text().parse().ok().or(Some(u16::MAX)),
            b"grpc-message" => self.message = text().into_owned(),
            _ => {}
        }
    }
}

/// Blocks that were read lately, shared by all connections of a thread: those before a message and those after it. The
/// same bytes mean the same again as long as no table is in use.
#[derive(Default)]
pub struct Known(RefCell<[Option<Block>; 2]>);

/// A block as it came, what it says, and the capacity of the empty table that it found and left.
struct Block {
    capacity: usize,
    bytes: Vec<u8>,
    fields: Fields,
}

impl Known {
    /// Errors: the block is not HPACK.
    pub fn read(&self, block: &[u8], decoder: &mut Decoder) -> Result<Fields, Failure> {
        let idle = decoder.idle();
        let known = &mut *self.0.borrow_mut();
        let same = known.iter().flatten().find(|known| idle == Some(known.capacity) && known.bytes == block);
        if let Some(known) = same {
            return Ok(known.fields.clone());
        }
        let mut fields = Fields::default();
        let read = decoder.decode(block, |name, value| fields.take(name, value));
        read.map_err(|_| Failure::protocol("HTTP/2: a header block is malformed"))?;
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
    /// `:status`, once it has come.
    status: Option<u16>,
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
        self.status = None;
        self.prefix.clear();
        self.body.reset();
        self.fault = None;
    }

    /// Bytes that may be sent at once, where the connection's window allows so many.
    pub fn may_send(&self, connection: i64) -> Option<usize> {
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
    /// Errors: they are out of place.
    pub fn take_fields(&mut self, fields: &Fields, ends: bool) -> Result<(), Failure> {
        let is_interim = fields.http.is_some_and(|status| status < OK);
        match self.status {
            None if is_interim && !ends => return Ok(()),
            None if fields.http.is_none() => return Err(Failure::protocol("HTTP/2: a reply without a status")),
            None => self.status = fields.http,
            Some(_) if !ends => return Err(Failure::protocol("HTTP/2: trailers do not end their stream")),
            Some(_) => {}
        }
        if ends {
            self.is_over = true;
            self.trailers.clone_from(fields);
        }
        Ok(())
    }

    /// Takes a piece of the message, or of what a proxy says in its place.
    /// Errors: there was no head.
    pub fn take_data(&mut self, common: &Common, data: &[u8], ends: bool) -> Result<(), Failure> {
        if self.status.is_none() {
            return Err(Failure::protocol("HTTP/2: data come before the status"));
        }
        let (prefix, body) = data.split_at(data.len().min(PREFIX - self.prefix.len()));
        self.prefix.extend_from_slice(prefix);
        self.body.feed(&common.expected, body);
        if ends {
            self.is_over = true;
            self.trailers = Fields::default();
        }
        Ok(())
    }

    /// Errors: the reply is not the right one.
    pub fn judge(&mut self, common: &Common) -> Result<(), Failure> {
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        match (self.trailers.grpc, self.status) {
            (Some(0), _) => {}
            (Some(code), _) => return Err(refusal(code, &self.trailers.message)),
            (None, Some(OK)) => return Err(Failure::protocol("gRPC: a reply without a grpc-status")),
            (None, status) => {
                let text = format!("HTTP status {}, expected {OK}", status.unwrap_or_default());
                return Err(Failure { status, ..Failure::new(ErrorClass::WrongStatus, text) });
            }
        }
        let Some(&[compressed, ref length @ ..]) = self.prefix.first_chunk::<PREFIX>() else {
            return Err(Failure::content("gRPC: the reply has no message"));
        };
        if compressed != 0 {
            return Err(Failure::protocol("gRPC: the message is compressed, which was not asked for"));
        }
        if u64::from(frame::number(length)) != self.body.received() {
            return Err(Failure::content("gRPC: the message is not as long as it says, or there are several"));
        }
        self.body.finish(&common.expected)
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
    let name = NAMES.get(usize::from(code)).map(|name| format!(" ({name})")).unwrap_or_default();
    let message = decode(message).unwrap_or_else(|_| message.to_owned());
    let colon = if message.is_empty() { "" } else { ": " };
    let text: String = message.chars().take(500).collect();
    let text = format!("grpc-status {code}{name}{colon}{text}");
    Failure { status: Some(code), ..Failure::new(ErrorClass::WrongStatus, text) }
}
