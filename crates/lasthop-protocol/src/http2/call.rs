//! One request: its stream, and its reply, judged as it arrives.

use std::{cell::RefCell, rc::Rc};

use lasthop_trial::failure::Failure;

use super::{
    OF_CONNECTION, Requests, frame,
    hpack::{self, Decoder},
};
use crate::{check::BodyCheck, line::digits};

const OK: u16 = 200;
const SWITCHING_PROTOCOLS: u16 = 101;
/// Maximum bytes of the fields of a block, each field counted with 32 bytes more: `SETTINGS_MAX_HEADER_LIST_SIZE` (RFC
/// 9113, section 6.5.2). A block may be far shorter than the fields that it repeats.
pub const FIELDS_MAX: usize = 64 * 1024;

/// The fields of a block.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// `:status`; trailers have none.
    pub status: Option<u16>,
    /// `content-length`.
    length: Option<u64>,
    fields: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Fields {
    pub fn read(block: &[u8], decoder: &mut Decoder) -> Result<Self, Failure> {
        let mut read = Self::default();
        let mut room = FIELDS_MAX;
        let mut wrong = "a header block is malformed";
        let whole = decoder.decode(block, |name, value| {
            let left = room.checked_sub(hpack::cost(name, value));
            let taken = left.ok_or("a header block says more than 64 KiB of fields");
            let taken = taken.and_then(|left| {
                room = left;
                read.add(name, value)
            });
            taken.map_err(|what| wrong = what).ok()
        });
        whole.ok_or_else(|| Failure::protocol(format!("HTTP/2: {wrong}")))?;
        Ok(read)
    }

    /// Adds the next field. An error says in words what is malformed (RFC 9113, sections 8.2 and 8.3).
    fn add(&mut self, name: &[u8], value: &[u8]) -> Result<(), &'static str> {
        if !is_value(value) {
            return Err("the value of a header has a line end, a NUL, or a space around it");
        }
        if name.starts_with(b":") {
            return self.add_pseudo(name, value);
        }
        if !is_name(name) {
            return Err("the name of a header is not in lower case, or is none");
        }
        if OF_CONNECTION.iter().any(|own| own.as_bytes() == name) {
            return Err("a header of a connection, which HTTP/2 does not have");
        }
        if name == b"content-length" {
            let length = digits(value).ok_or("a content-length that is no number")?;
            if self.length.is_some_and(|other| other != length) {
                return Err("two different values of content-length");
            }
            self.length = Some(length);
        }
        self.fields.push((name.to_vec(), value.to_vec()));
        Ok(())
    }

    fn add_pseudo(&mut self, name: &[u8], value: &[u8]) -> Result<(), &'static str> {
        if name != b":status" {
            return Err("a pseudo-header that no reply has");
        }
        if self.status.is_some() {
            return Err("a reply with two statuses");
        }
        if !self.fields.is_empty() {
            return Err("the status is behind other headers");
        }
        let status = digits(value).filter(|status| value.len() == 3 && *status >= 100);
        // HTTP/2 has no status 101 (RFC 9113, section 8.6).
        let status = status.filter(|status| *status != SWITCHING_PROTOCOLS);
        self.status = Some(status.ok_or("a status that HTTP/2 does not have")?);
        Ok(())
    }

    /// The values of a field; `name` must be in lower case.
    pub fn values(&self, name: &str) -> impl Iterator<Item = &[u8]> + Clone {
        let named = self.fields.iter().filter(move |(own, _)| own == name.as_bytes());
        named.map(|(_, value)| value.as_slice())
    }
}

fn is_name(name: &[u8]) -> bool {
    !name.is_empty()
        && name
            .iter()
            .all(|byte| byte.is_ascii_graphic() && !byte.is_ascii_uppercase() && *byte != b':')
}

fn is_value(value: &[u8]) -> bool {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t');
    !value.first().is_some_and(is_space)
        && !value.last().is_some_and(is_space)
        && !value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0))
}

/// Recently read blocks, shared by all connections of a thread: those before a message and those after it. While no
/// table is in use, equal bytes have equal meanings.
#[derive(Default)]
pub struct RecentBlocks(RefCell<[Option<Block>; 2]>);

/// A block's bytes and fields, and the capacity of the empty table before and after it.
struct Block {
    capacity: usize,
    bytes: Vec<u8>,
    fields: Rc<Fields>,
}

impl RecentBlocks {
    pub fn read(&self, block: &[u8], decoder: &mut Decoder) -> Result<Rc<Fields>, Failure> {
        let idle = decoder.idle();
        let known = &mut *self.0.borrow_mut();
        let same = known
            .iter()
            .flatten()
            .find(|known| idle == Some(known.capacity) && known.bytes == block);
        if let Some(known) = same {
            return Ok(Rc::clone(&known.fields));
        }
        let fields = Rc::new(Fields::read(block, decoder)?);
        let place = &mut known[usize::from(fields.status.is_none())];
        *place = idle.filter(|_| decoder.idle() == idle).map(|capacity| Block {
            capacity,
            bytes: block.to_vec(),
            fields: Rc::clone(&fields),
        });
        Ok(fields)
    }
}

/// A complete reply after its head, without the content of its body.
pub struct Reply<'a> {
    /// The fields after the body; a head that ends its stream counts as trailers too (gRPC calls it Trailers-Only).
    pub trailers: Option<&'a Fields>,
    /// The bytes before the content, as many as [`Meaning::prefix`](super::Meaning::prefix) says, or fewer.
    pub prefix: &'a [u8],
    /// Bytes of content.
    pub received: u64,
}

/// The kept part of the fields before a body, of which a batch may have a thousand.
#[derive(Clone, Copy)]
struct Head {
    status: u16,
    /// The stated length of the body.
    length: Option<u64>,
}

/// One request of a batch.
#[derive(Default)]
pub struct Call {
    /// Bytes of the body still to be sent, and how many the stream's window allows.
    pub unsent: usize,
    pub window: i64,
    pub is_over: bool,
    /// Set once the fields before the body have come.
    head: Option<Head>,
    trailers: Option<Rc<Fields>>,
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
        self.trailers = None;
        self.prefix.clear();
        self.body.reset();
        self.fault = None;
    }

    /// How many bytes may be sent now, if the connection's window allows `connection` bytes.
    pub fn may_send(&self, connection: i64) -> Option<usize> {
        // A window is negative after the server has made it smaller than the bytes under way (RFC 9113, section 6.9.2).
        let room = self.window.min(connection).clamp(0, frame::CONTENT_MAX as i64) as usize;
        Some(self.unsent.min(room)).filter(|count| *count > 0)
    }

    pub fn sent(&mut self, count: usize) {
        self.unsent -= count;
        self.window -= count as i64;
    }

    /// Bytes of content received.
    pub fn received(&self) -> u64 {
        self.body.received()
    }

    pub fn fail(&mut self, failure: Failure) {
        self.is_over = true;
        self.fault = Some(failure);
    }

    /// Takes the fields before the body, or those after it.
    pub fn take_fields(&mut self, requests: &Requests, fields: Rc<Fields>, ends: bool) -> Result<(), Failure> {
        let misplaced = |text: &str| Err(Failure::protocol(format!("HTTP/2: {text}")));
        match (self.head, fields.status) {
            (None, None) => return misplaced("a reply without a status"),
            (None, Some(..OK)) if ends => return misplaced("an interim reply (1xx) ends its stream"),
            (None, Some(..OK)) => return Ok(()),
            (None, Some(status)) => {
                let length = fields.length;
                self.head = Some(Head { status, length });
                self.fault = requests.meaning.judge_head(&fields).err();
            }
            (Some(_), Some(_)) => return misplaced("trailers with a status"),
            (Some(_), None) if !ends => return misplaced("trailers do not end their stream"),
            (Some(_), None) => {}
        }
        if ends {
            self.is_over = true;
            self.trailers = Some(fields);
        }
        Ok(())
    }

    /// Takes a piece of the body.
    pub fn take_data(&mut self, requests: &Requests, data: &[u8], ends: bool) -> Result<(), Failure> {
        if self.head.is_none() {
            return Err(Failure::protocol("HTTP/2: data come before the status"));
        }
        if self.fault.is_some() {
            self.body.glance(data);
        } else {
            let (prefix, body) = data.split_at(data.len().min(requests.meaning.prefix() - self.prefix.len()));
            self.prefix.extend_from_slice(prefix);
            self.body.feed(&requests.expected, body);
        }
        if ends {
            self.is_over = true;
        }
        Ok(())
    }

    pub fn judge(&mut self, requests: &Requests) -> Result<(), Failure> {
        let trailers = self.trailers.take();
        if let Some(fault) = self.fault.take() {
            return Err(self.body.explained(fault));
        }
        let Some(head) = self.head else {
            return Err(Failure::protocol("HTTP/2: a reply without a status"));
        };
        self.has_length_of(head, requests.head_only)?;
        requests.meaning.judge(&Reply {
            trailers: trailers.as_deref(),
            prefix: &self.prefix,
            received: self.body.received(),
        })?;
        self.body.finish(&requests.expected)
    }

    fn has_length_of(&self, head: Head, head_only: bool) -> Result<(), Failure> {
        let got = self.prefix.len() as u64 + self.body.received();
        // Whatever length these replies state (RFC 9110, section 6.4.1).
        let has_none = head_only || matches!(head.status, 204 | 304);
        let said = if has_none { Some(0) } else { head.length };
        match said.filter(|said| *said != got) {
            Some(said) => Err(Failure::protocol(format!(
                "HTTP/2: the body has {got} bytes, and its head says {said}"
            ))),
            None => Ok(()),
        }
    }
}
