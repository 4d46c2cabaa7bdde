//! The last reply found right, as it came, shared by all connections of a thread. The same bytes are right again; a
//! reply that changes (an HTTP Date, once a second) costs one parse.

use std::{cell::RefCell, rc::Rc};

use super::exchange::Run;

/// Most bytes that are remembered.
const BYTES_MAX: usize = 64 * 1024;

#[derive(Clone)]
pub struct Verified(Rc<RefCell<Kept>>);

struct Kept {
    /// The reply, as often as a pipeline may bring it at once.
    bytes: Vec<u8>,
    /// Bytes of the reply itself; 0 when nothing is remembered.
    length: usize,
    payload: u64,
    depth: u32,
}

impl Verified {
    /// `depth` replies may come at once.
    pub fn new(depth: u32) -> Self {
        Self(Rc::new(RefCell::new(Kept { bytes: Vec::new(), length: 0, payload: 0, depth })))
    }

    /// The replies that `bytes` begin with, if they are the remembered one. Only replies that say themselves where they
    /// end may be remembered, so that what begins with one contains just that one.
    #[inline]
    pub fn recognise(&self, bytes: &[u8], most: u32) -> Option<Run> {
        let kept = &*self.0.borrow();
        let length = kept.length;
        if length == 0 || bytes.len() < length {
            return None;
        }
        let replies =
            if most == 1 { 1 } else { (bytes.len() / length).min(most as usize).min(kept.bytes.len() / length) };
        let used = replies * length;
        if bytes[..used] == kept.bytes[..used] {
            return Some(Run { replies: replies as u32, used, payload: kept.payload });
        }
        let same = replies > 1 && bytes[..length] == kept.bytes[..length];
        same.then_some(Run { replies: 1, used: length, payload: kept.payload })
    }

    /// Remembers a whole, right reply.
    pub fn remember(&self, reply: &[u8], payload: u64) {
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
        let run = |bytes: &[u8], most| verified.recognise(bytes, most).map(|run| (run.replies, run.used, run.payload));
        assert_eq!(run(b"a", 1), None);
        assert_eq!(run(b"ababab", 1), Some((1, 2, 7)));
        assert_eq!(run(b"ababa", 4), Some((2, 4, 7)));
        assert_eq!(run(b"abababababab", 9), Some((4, 8, 7)));
        assert_eq!(run(b"abax", 4), Some((1, 2, 7)));
        assert_eq!(run(b"axab", 4), None);
    }
}
