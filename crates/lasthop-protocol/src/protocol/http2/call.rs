//! One request: its stream, and its reply, which is judged as it comes.

use std::{cell::RefCell, rc::Rc};

use super::{Requests, frame, hpack::Decoder};
use crate::{
    failure::Failure,
    protocol::{check::BodyCheck, line::digits},
};

const OK: u16 = 200;

/// The fields of a block.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// `:status`; trailers have none.
    pub status: Option<u16>,
    fields: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Fields {
    /// # Errors
    ///
    /// The block is not HPACK.
    pub fn read(block: &[u8], decoder: &mut Decoder) -> Result<Self, Failure> {
        let mut read = Self::default();
        let whole = decoder.decode(block, |name, value| {
            if name == b":status" {
                read.status = digits(value);
            } else {
                read.fields.push((name.to_vec(), value.to_vec()));
            }
        });
        whole.ok_or_else(|| Failure::protocol("HTTP/2: a header block is malformed"))?;
        Ok(read)
    }

    /// The values of a field, whose name is in lower case.
    pub fn values(&self, name: &str) -> impl Iterator<Item = &[u8]> + Clone {
        let named = self.fields.iter().filter(move |(own, _)| own == name.as_bytes());
        named.map(|(_, value)| value.as_slice())
    }
}

/// Blocks that were read lately, shared by all connections of a thread: those before a message and those after it. The
/// same bytes mean the same again as long as no table is in use.
#[derive(Default)]
pub struct RecentBlocks(RefCell<[Option<Block>; 2]>);

/// A block as it came, what it says, and the capacity of the empty table that it found and left.
struct Block {
    capacity: usize,
    bytes: Vec<u8>,
    fields: Rc<Fields>,
}

impl RecentBlocks {
    /// # Errors
    ///
    /// The block is not HPACK.
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

/// A whole reply but for the content of its body.
pub struct Reply<'a> {
    /// What came before the body, and behind it.
    pub head: &'a Fields,
    pub trailers: &'a Fields,
    /// The bytes before the content, so many as [`Meaning::prefix`](super::Meaning::prefix) says, or fewer.
    pub prefix: &'a [u8],
    /// Bytes of content.
    pub received: u64,
}

/// One request of a batch.
#[derive(Default)]
pub struct Call {
    /// Bytes of the body that are still to be sent, and how many the stream's window allows.
    pub unsent: usize,
    pub window: i64,
    pub is_over: bool,
    /// The fields before the body, once they have come.
    head: Option<Rc<Fields>>,
    trailers: Rc<Fields>,
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

    /// Bytes of content that have come.
    pub fn received(&self) -> u64 {
        self.body.received()
    }

    pub fn fail(&mut self, failure: Failure) {
        self.is_over = true;
        self.fault = Some(failure);
    }

    /// Takes the fields before the body, or those after it.
    ///
    /// # Errors
    ///
    /// They are out of place.
    pub fn take_fields(&mut self, fields: Rc<Fields>, ends: bool) -> Result<(), Failure> {
        let is_interim = fields.status.is_some_and(|status| status < OK);
        match self.head {
            None if is_interim && !ends => return Ok(()),
            None if fields.status.is_none() => return Err(Failure::protocol("HTTP/2: a reply without a status")),
            None => self.head = Some(Rc::clone(&fields)),
            Some(_) if fields.status.is_some() => return Err(Failure::protocol("HTTP/2: trailers with a status")),
            Some(_) if !ends => return Err(Failure::protocol("HTTP/2: trailers do not end their stream")),
            Some(_) => {}
        }
        if ends {
            self.is_over = true;
            // A head that ends the stream is the trailers as well (gRPC calls it Trailers-Only).
            self.trailers = fields;
        }
        Ok(())
    }

    /// Takes a piece of the body.
    ///
    /// # Errors
    ///
    /// There was no head.
    pub fn take_data(&mut self, requests: &Requests, data: &[u8], ends: bool) -> Result<(), Failure> {
        if self.head.is_none() {
            return Err(Failure::protocol("HTTP/2: data come before the status"));
        }
        let (prefix, body) = data.split_at(data.len().min(requests.meaning.prefix() - self.prefix.len()));
        self.prefix.extend_from_slice(prefix);
        self.body.feed(&requests.expected, body);
        if ends {
            self.is_over = true;
            self.trailers = Rc::default();
        }
        Ok(())
    }

    /// # Errors
    ///
    /// The reply is not the right one.
    pub fn judge(&mut self, requests: &Requests) -> Result<(), Failure> {
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        let Some(head) = &self.head else {
            return Err(Failure::protocol("HTTP/2: a reply without a status"));
        };
        requests.meaning.judge(&Reply {
            head,
            trailers: &self.trailers,
            prefix: &self.prefix,
            received: self.body.received(),
        })?;
        self.body.finish(&requests.expected)
    }
}
