//! The last reply found right, as it came, shared by all connections of a thread. The same bytes are right again; a
//! reply that changes (an HTTP Date, once a second) costs one parse.

use std::{cell::RefCell, rc::Rc};

/// Most bytes of a reply that is remembered.
const BYTES_MAX: usize = 64 * 1024;

#[derive(Clone, Default)]
pub struct Verified(Rc<RefCell<Kept>>);

#[derive(Default)]
struct Kept {
    bytes: Vec<u8>,
    payload: u64,
}

impl Verified {
    /// When `bytes` begin with the remembered reply: its length and payload. Only replies that say themselves where they end
    /// may be remembered, so that what begins with one contains just that one.
    #[inline]
    #[must_use]
    pub fn recognise(&self, bytes: &[u8]) -> Option<(usize, u64)> {
        let kept = self.0.borrow();
        let same = !kept.bytes.is_empty() && bytes.starts_with(&kept.bytes);
        same.then(|| (kept.bytes.len(), kept.payload))
    }

    /// Remembers a whole, right reply.
    pub fn remember(&self, reply: &[u8], payload: u64) {
        if reply.len() <= BYTES_MAX {
            let mut kept = self.0.borrow_mut();
            kept.bytes.clear();
            kept.bytes.extend_from_slice(reply);
            kept.payload = payload;
        }
    }
}
