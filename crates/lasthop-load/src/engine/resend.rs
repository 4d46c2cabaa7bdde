//! Which requests are sent again. A server may end a connection at any time; requests that it has not taken by then are
//! no errors.

use lasthop_protocol::{Repeats, spec::Spec};
use lasthop_trial::address::Address;

use crate::transport::Ending;

/// Consecutive connections that a server may end without a reply before that counts as an error.
const MOST_BARREN: u32 = 3;

pub struct Resend {
    repeats: Repeats,
    over_tcp: bool,
    /// Whether nothing is sent again: requests timed together must share a connection, a request without a reply is
    /// over when it is sent, and channels do not tell how they end.
    never: bool,
    /// How the stream ended, once it has.
    pub ending: Option<Ending>,
    /// Whether a send failed and the server's last bytes are still unread.
    pub is_unheard: bool,
    /// Requests to send again as soon as another connection is open.
    pub owed: u32,
    /// Connections in a row that ended without a reply.
    barren: u32,
}

/// The state of a connection at its end.
pub struct End {
    /// Requests without a reply.
    pub awaited: u32,
    /// Awaited requests that the server declined.
    pub declined: u32,
    /// Requests of the batch that have a reply.
    pub answered: u32,
    /// Replies on the connection, in this batch and before.
    pub replies: u64,
    /// Whether nothing of the next reply has come.
    pub between: bool,
}

impl Resend {
    pub fn new(spec: &Spec) -> Self {
        let address = &spec.endpoint.address;
        let is_stream = matches!(address, Address::Tcp(_) | Address::Unix(_) | Address::Abstract(_));
        Self {
            repeats: spec.protocol.repeats(),
            over_tcp: matches!(address, Address::Tcp(_)),
            never: spec.requests_per_connection > 1 || spec.protocol.receipt().is_some() || !is_stream,
            ending: None,
            is_unheard: false,
            owed: 0,
            barren: 0,
        }
    }

    /// The number of requests to send again.
    pub fn untaken(&mut self, end: &End) -> u32 {
        let ending = self.ending.take();
        self.barren = if end.replies > 0 { 0 } else { self.barren + 1 };
        if self.never || self.barren > MOST_BARREN {
            return 0;
        }
        if end.declined > 0 {
            return end.declined.min(end.awaited);
        }
        match ending {
            // A server that closes after each reply keeps no connection.
            Some(ending) if end.replies > 1 && end.between && self.is_untaken(ending, end) => end.awaited,
            _ => 0,
        }
    }

    fn is_untaken(&self, ending: Ending, end: &End) -> bool {
        let is_harmless = self.repeats >= Repeats::Harmless;
        let is_wordless = self.repeats == Repeats::Wordless;
        match ending {
            // The server may have taken the first of several requests.
            Ending::Unread => is_harmless || (end.awaited == 1 && end.answered == 0),
            Ending::HalfClosed => is_harmless,
            // Between two replies, or over TCP, which does not tell whether the request had been read.
            Ending::Closed => is_harmless && (end.answered > 0 || (is_wordless && self.over_tcp)),
            Ending::Reset => is_wordless && self.over_tcp,
        }
    }
}
