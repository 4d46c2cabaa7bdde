//! One connection's side of a protocol, without a socket: an [`Exchange`] provides the bytes of a request and judges
//! the bytes of its reply, in whatever pieces they arrive.

use lasthop_trial::failure::Failure;

/// A complete reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// Bytes of the last piece that belong to the reply.
    pub used: usize,
    /// Whether the connection can carry another request.
    pub keep: bool,
    /// Bytes of content in the reply.
    pub payload: u64,
    /// A wrong reply within an intact conversation: the connection stays open, the request is an error.
    pub fault: Option<Box<Failure>>,
}

/// Progress of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// All bytes are taken; more must come.
    More,
    Done(Done),
}

/// Complete, correct replies, one directly after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// At least one.
    pub replies: u32,
    pub used: usize,
    /// Bytes of content in each reply.
    pub payload: u64,
}

/// One connection's side of a protocol. Every failure has a class to count by, and the bytes kept are bounded.
pub trait Exchange {
    /// Forgets everything about an earlier connection.
    fn reset(&mut self) {
        self.begin();
    }

    /// Called after [`Exchange::reset`] and before the greeting on an encrypted stream, with the server's certificate
    /// (DER) and its plaintext before TLS.
    fn secured(&mut self, _certificate: &[u8], _heard: &[u8]) {}

    /// Conducts the greeting before the first request: authentication, settings. Takes received bytes, none the first
    /// time, and appends bytes to send; true when the greeting is over.
    fn greet(&mut self, _input: &[u8], _output: &mut Vec<u8>) -> Result<bool, Failure> {
        Ok(true)
    }

    /// After the greeting: whether the server asked for a password; `None` if the protocol has none.
    fn password_asked(&self) -> Option<bool> {
        None
    }

    /// Prepares the next request, or the next batch of a pipeline.
    fn begin(&mut self);

    /// The bytes of the current request or batch. They may grow with each [`Exchange::receive`]: by an answer to
    /// received bytes, or by bytes that were not allowed before.
    fn request(&self) -> &[u8];

    /// Prepares the last `left` requests of a batch of `depth` again, on a new connection. Returns how many bytes of
    /// [`Exchange::request`] belong to the other requests.
    fn begin_again(&mut self, left: u32, depth: u32) -> usize {
        self.begin();
        (left..depth).for_each(|_| self.next_reply());
        self.request().len() / depth as usize * (depth - left) as usize
    }

    /// How many of the outstanding requests the server has declined.
    fn declined(&self, _outstanding: u32) -> u32 {
        0
    }

    /// Starts the next reply of the batch: from the beginning, unless the replies of a batch differ.
    fn next_reply(&mut self) {
        self.begin();
    }

    /// The run of at most `most` replies that `bytes` begin with, found by comparison with known correct replies.
    /// `None` tells nothing: [`Exchange::receive`] judges the bytes. Called only before the first byte of a reply.
    /// [`Exchange::next_reply`] follows for each reply of the run except the last of its batch.
    fn recognise(&mut self, _bytes: &[u8], _most: u32) -> Option<Run> {
        None
    }

    /// Judges the next bytes of the reply.
    ///
    /// # Errors
    ///
    /// The reply is wrong and the connection no longer usable.
    fn receive(&mut self, bytes: &[u8]) -> Result<Progress, Failure>;

    /// Whether the current reply does not define its end, so that it ends with the connection.
    fn is_endless(&self) -> bool {
        false
    }

    /// Handles the peer's close: the end of a reply in some protocols, an error in others.
    fn end(&mut self) -> Result<Done, Failure>;
}

/// Makes the exchanges of one thread, which share their common data.
pub struct Factory(Box<dyn Fn() -> Box<dyn Exchange>>);

impl Factory {
    /// Makes an exchange with `make` for each connection.
    pub fn new<E: Exchange + 'static>(make: impl Fn() -> E + 'static) -> Self {
        Self(Box::new(move || Box::new(make())))
    }

    pub fn exchange(&self) -> Box<dyn Exchange> {
        (self.0)()
    }
}

/// Passes pieces of a greeting to `take` until the greeting is over; true when it is. `take` returns how many bytes it
/// used, and whether the greeting is over.
pub fn hear(input: &[u8], mut take: impl FnMut(&[u8]) -> Result<(usize, bool), Failure>) -> Result<bool, Failure> {
    let mut at = 0;
    while at < input.len() {
        let (used, is_over) = take(&input[at..])?;
        at += used;
        if is_over {
            return match input.len() - at {
                0 => Ok(true),
                surplus => Err(Failure::protocol(format!(
                    "{surplus} bytes follow the server's readiness"
                ))),
            };
        }
    }
    Ok(false)
}

/// Keeps bytes up to a total of `length`. Returns how many it took.
pub fn fill(kept: &mut Vec<u8>, bytes: &[u8], length: usize) -> usize {
    let count = bytes.len().min(length.saturating_sub(kept.len()));
    kept.extend_from_slice(&bytes[..count]);
    count
}

/// Maximum bytes of an excerpt.
pub const EXCERPT: usize = 60;

/// `bytes` for messages: printable, cut after 60 bytes.
pub fn excerpt(bytes: &[u8]) -> String {
    let cut = &bytes[..bytes.len().min(EXCERPT)];
    let dots = if cut.len() < bytes.len() { "…" } else { "" };
    format!("\"{}{dots}\"", cut.escape_ascii())
}

#[cfg(test)]
pub(crate) mod testing {
    use lasthop_trial::options::Reuse;

    use super::{
        super::kind::{ProtocolSpec, Usage},
        *,
    };

    pub fn usage(pipeline: u32) -> Usage {
        Usage {
            reuse: Reuse::KeepAlive,
            pipeline,
            encrypted: false,
            is_local: false,
            keeps_boundaries: false,
        }
    }

    /// An exchange with one request at a time.
    pub fn exchange(protocol: &dyn ProtocolSpec) -> Box<dyn Exchange> {
        protocol.factory(usage(1)).exchange()
    }

    /// Feeds one reply in the given pieces, then the end of the stream. Returns content and fault, or the failure.
    pub fn feed(exchange: &mut dyn Exchange, pieces: &[&[u8]]) -> Result<(u64, bool, Option<Failure>), Failure> {
        exchange.reset();
        exchange.begin();
        let pieces: Vec<&[u8]> = pieces.iter().copied().filter(|piece| !piece.is_empty()).collect();
        if let Some(run) = pieces.first().and_then(|piece| exchange.recognise(piece, 1)) {
            return Ok((run.payload, true, None));
        }
        for piece in pieces {
            if let Progress::Done(done) = exchange.receive(piece)? {
                return Ok((done.payload, done.keep, done.fault.map(|fault| *fault)));
            }
        }
        let done = exchange.end()?;
        Ok((done.payload, done.keep, done.fault.map(|fault| *fault)))
    }

    /// Feeds `reply` in one piece, byte by byte, and cut at each position: all outcomes must be equal.
    pub fn same_at_every_cut(
        exchange: &mut dyn Exchange,
        reply: &[u8],
    ) -> Result<(u64, bool, Option<Failure>), Failure> {
        let whole = feed(exchange, &[reply]);
        let bytes: Vec<&[u8]> = reply.chunks(1).collect();
        assert_eq!(feed(exchange, &bytes), whole, "byte by byte");
        for cut in 0..=reply.len() {
            let (head, tail) = reply.split_at(cut);
            assert_eq!(feed(exchange, &[head, tail]), whole, "cut at {cut}");
        }
        whole
    }
}
