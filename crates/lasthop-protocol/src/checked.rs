//! Common parts of most protocols' exchanges: a reply is read piece by piece and judged when complete, and a repeated
//! correct reply is recognised. Protocols supply [`Replies`].

use std::{cell::RefCell, mem, rc::Rc};

use lasthop_trial::failure::Failure;

use super::exchange::{Done, Exchange, Factory, Progress, Run};

/// Sends a protocol's requests on one connection and reads the replies.
pub trait Replies {
    /// Forgets everything about an earlier connection, with no reply under way.
    fn reset(&mut self) {}

    /// See [`Exchange::secured`].
    fn secured(&mut self, _certificate: &[u8], _heard: &[u8]) {}

    /// See [`Exchange::greet`].
    fn greet(&mut self, _input: &[u8], _output: &mut Vec<u8>) -> Result<bool, Failure> {
        Ok(true)
    }

    /// See [`Exchange::password_asked`].
    fn password_asked(&self) -> Option<bool> {
        None
    }

    fn request(&self) -> &[u8];

    /// Forgets the reply under way.
    fn begin(&mut self);

    /// Takes the next bytes of the reply, at least one. Returns how many, and whether the reply ends with them.
    ///
    /// # Errors
    ///
    /// The reply is wrong and the connection no longer usable.
    fn feed(&mut self, bytes: &[u8]) -> Result<(usize, bool), Failure>;

    /// Judges the complete reply.
    fn judge(&mut self) -> Result<(), Failure>;

    /// Bytes of content in a complete reply of `received` bytes.
    fn payload(&self, received: u64) -> u64 {
        received
    }

    /// Whether the connection can carry another request.
    fn keeps(&self) -> bool {
        true
    }

    /// See [`Exchange::is_endless`].
    fn is_endless(&self) -> bool {
        false
    }

    /// See [`Exchange::declined`].
    fn declined(&self, _outstanding: u32) -> u32 {
        0
    }

    /// Handles the peer's close after `received` bytes of a reply.
    fn end(&mut self, received: u64) -> Result<(), Failure> {
        Err(Failure::reset(format!(
            "the peer closed after {received} bytes of a reply"
        )))
    }
}

/// An exchange that remembers correct replies.
struct Checked<R> {
    replies: R,
    verified: Verified,
    /// Whether bytes of a reply, or a greeting, have changed the state; recognised replies do not.
    begun: bool,
    received: u64,
}

impl Factory {
    /// Makes exchanges of the values of `make`; up to `depth` replies may come at once.
    pub fn checked<R: Replies + 'static>(depth: u32, make: impl Fn() -> R + 'static) -> Self {
        let verified = Verified::new(depth);
        Self::new(move || Checked {
            replies: make(),
            verified: verified.clone(),
            begun: true,
            received: 0,
        })
    }
}

impl<R: Replies> Checked<R> {
    fn done(&mut self, used: usize) -> Done {
        let fault = self.replies.judge().err().map(Box::new);
        Done {
            used,
            keep: self.replies.keeps(),
            payload: self.replies.payload(self.received),
            fault,
        }
    }
}

impl<R: Replies> Exchange for Checked<R> {
    fn reset(&mut self) {
        self.replies.begin();
        self.replies.reset();
        self.received = 0;
        self.begun = true;
    }

    fn secured(&mut self, certificate: &[u8], heard: &[u8]) {
        self.replies.secured(certificate, heard);
    }

    fn greet(&mut self, input: &[u8], output: &mut Vec<u8>) -> Result<bool, Failure> {
        self.replies.greet(input, output)
    }

    fn password_asked(&self) -> Option<bool> {
        self.replies.password_asked()
    }

    fn begin(&mut self) {
        if mem::take(&mut self.begun) {
            self.received = 0;
            self.replies.begin();
        }
    }

    #[inline]
    fn request(&self) -> &[u8] {
        self.replies.request()
    }

    #[inline]
    fn recognise(&mut self, bytes: &[u8], most: u32) -> Option<Run> {
        self.verified.recognise(bytes, most)
    }

    fn receive(&mut self, bytes: &[u8]) -> Result<Progress, Failure> {
        let is_fresh = !mem::replace(&mut self.begun, true);
        let mut at = 0;
        while at < bytes.len() {
            let (used, is_whole) = self.replies.feed(&bytes[at..])?;
            at += used;
            self.received += used as u64;
            if is_whole {
                let done = self.done(at);
                // The reply came in one piece and defines its own end; otherwise the connection would not be kept.
                if is_fresh && done.keep && done.fault.is_none() {
                    self.verified.remember(&bytes[..at], done.payload);
                }
                return Ok(Progress::Done(done));
            }
        }
        Ok(Progress::More)
    }

    fn is_endless(&self) -> bool {
        self.replies.is_endless()
    }

    fn declined(&self, outstanding: u32) -> u32 {
        self.replies.declined(outstanding)
    }

    fn end(&mut self) -> Result<Done, Failure> {
        self.replies.end(self.received)?;
        Ok(self.done(0))
    }
}

/// Maximum bytes that are remembered.
const BYTES_MAX: usize = 64 * 1024;

/// The last correct reply, byte for byte, shared by all connections of a thread. The same bytes are correct again; a
/// reply that changes (an HTTP Date, once a second) costs one parse.
#[derive(Clone)]
struct Verified(Rc<RefCell<Kept>>);

struct Kept {
    /// The reply, repeated as often as a pipeline may bring it at once.
    bytes: Vec<u8>,
    /// Bytes of a single reply; 0 if none is remembered.
    length: usize,
    payload: u64,
    depth: u32,
}

impl Verified {
    /// Up to `depth` replies may come at once.
    fn new(depth: u32) -> Self {
        Self(Rc::new(RefCell::new(Kept {
            bytes: Vec::new(),
            length: 0,
            payload: 0,
            depth,
        })))
    }

    /// The replies that `bytes` begin with, if they equal the remembered one. Only a reply that defines its own end may
    /// be remembered, so that bytes beginning with it contain exactly that reply.
    #[inline]
    fn recognise(&self, bytes: &[u8], most: u32) -> Option<Run> {
        let kept = &*self.0.borrow();
        let length = kept.length;
        if length == 0 || bytes.len() < length {
            return None;
        }
        let replies = if most == 1 {
            1
        } else {
            (bytes.len() / length).min(most as usize).min(kept.bytes.len() / length)
        };
        let used = replies * length;
        if bytes[..used] == kept.bytes[..used] {
            return Some(Run {
                replies: replies as u32,
                used,
                payload: kept.payload,
            });
        }
        // A batch may change midway; its first reply may still be known.
        let same = replies > 1 && bytes[..length] == kept.bytes[..length];
        same.then_some(Run {
            replies: 1,
            used: length,
            payload: kept.payload,
        })
    }

    /// Remembers a complete, correct reply.
    fn remember(&self, reply: &[u8], payload: u64) {
        if reply.is_empty() || reply.len() > BYTES_MAX {
            return;
        }
        let kept = &mut *self.0.borrow_mut();
        kept.length = reply.len();
        kept.payload = payload;
        kept.bytes.clear();
        for _ in 0..(kept.depth as usize).clamp(1, BYTES_MAX / reply.len()) {
            kept.bytes.extend_from_slice(reply);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_as_long_as_what_is_right_and_asked_for() {
        let verified = Verified::new(4);
        assert_eq!(verified.recognise(b"abab", 4), None);
        verified.remember(b"ab", 7);
        let run = |bytes: &[u8], most| {
            verified
                .recognise(bytes, most)
                .map(|run| (run.replies, run.used, run.payload))
        };
        assert_eq!(run(b"a", 1), None);
        assert_eq!(run(b"ababab", 1), Some((1, 2, 7)));
        assert_eq!(run(b"ababa", 4), Some((2, 4, 7)));
        assert_eq!(run(b"abababababab", 9), Some((4, 8, 7)));
        assert_eq!(run(b"abax", 4), Some((1, 2, 7)));
        assert_eq!(run(b"axab", 4), None);
    }
}
