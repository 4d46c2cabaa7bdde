//! A transfer of a number of bytes, all of which must arrive.
//!
//! Request: 8 bytes `size` and 4 bytes `chunk`, both little endian. The server sends `size` bytes of a fixed pattern in
//! sends of `chunk` bytes.

use lasthop_trial::{address::Endpoint, failure::Failure, options::within};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    exchange::{Done, Exchange, Factory, Progress},
    kind::{LoadOptions, Protocol, ProtocolKind, ProtocolSpec, Usage},
};
use crate::location::Location;

pub static KIND: ProtocolKind = ProtocolKind {
    own: true,
    schemes: &["stream"],
    urls: &[("stream://127.0.0.1:9000", "lasthop's own server: many bytes, one way")],
    ..ProtocolKind::of::<Stream>("stream", "stream", from_url)
};

fn from_url(location: &Location<'_>) -> Result<(Endpoint, Protocol), String> {
    let size = location.options.size.into();
    let chunk = location.options.chunk;
    Ok((location.endpoint(None)?, Stream { size, chunk }.into()))
}

/// A transfer from the server to the client. Its time ends with the last byte received.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stream {
    /// Bytes of one transfer, 1 to 1 GiB. Must be many times the socket buffers, or these are what is measured.
    pub size: u64,
    /// Bytes that the server passes to each `send`, 1 to 16 MiB.
    pub chunk: u32,
}

impl ProtocolSpec for Stream {
    fn kind(&self) -> &'static ProtocolKind {
        &KIND
    }

    fn validate(&self, usage: Usage) -> Result<(), String> {
        usage.without_pipeline("transfers follow each other")?;
        within("size of a transfer", self.size, 1, SIZE_MAX)?;
        within("chunk of a transfer", self.chunk.into(), 1, CHUNK_MAX.into())
    }

    fn factory(&self, _: Usage) -> Factory {
        let stream = self.clone();
        Factory::new(move || StreamExchange::new(&stream))
    }

    fn checked(&self, size: &dyn Fn(u64) -> String) -> String {
        format!("all {} of each transfer", size(self.size))
    }

    fn payload(&self) -> Option<u64> {
        Some(self.size)
    }

    fn apply(&mut self, options: &mut LoadOptions) -> Result<(), String> {
        self.size = options.size.take().map_or(self.size, u64::from);
        Ok(())
    }
}

/// Bytes of a request.
pub const REQUEST: usize = 12;
/// Maximum bytes of one transfer.
pub const SIZE_MAX: u64 = 1 << 30;
/// Maximum bytes of one send.
pub const CHUNK_MAX: u32 = 16 * 1024 * 1024;

/// The byte of the pattern at `position` of a transfer. The pattern repeats every 256 bytes, so that a server can send
/// the same buffer repeatedly.
#[inline]
pub const fn pattern(position: u64) -> u8 {
    position as u8
}

/// Period of the pattern in bytes.
const PERIOD: usize = 256;

/// The pattern from any phase on for 4 KiB, which stay in the first-level cache.
static PATTERN: [u8; 4096 + PERIOD] = {
    let mut bytes = [0; 4096 + PERIOD];
    let mut at = 0;
    while at < bytes.len() {
        bytes[at] = pattern(at as u64);
        at += 1;
    }
    bytes
};

pub struct StreamExchange {
    request: [u8; REQUEST],
    size: u64,
    received: u64,
}

impl StreamExchange {
    pub fn new(stream: &Stream) -> Self {
        let mut request = [0; REQUEST];
        request[..8].copy_from_slice(&stream.size.to_le_bytes());
        request[8..].copy_from_slice(&stream.chunk.to_le_bytes());
        Self {
            request,
            size: stream.size,
            received: 0,
        }
    }

    /// Compares every byte with the pattern. The comparison reads what the receive has just put into the cache, which
    /// costs a small part of the copy itself.
    #[inline]
    fn check(&self, bytes: &[u8]) -> Result<(), Failure> {
        let mut at = 0;
        while at < bytes.len() {
            let phase = usize::from(pattern(self.received + at as u64));
            let want = &PATTERN[phase..][..(bytes.len() - at).min(PATTERN.len() - PERIOD)];
            if bytes[at..at + want.len()] != *want {
                return Err(self.differs(at, &bytes[at..at + want.len()], want));
            }
            at += want.len();
        }
        Ok(())
    }

    #[cold]
    fn differs(&self, at: usize, got: &[u8], want: &[u8]) -> Failure {
        let same = got.iter().zip(want).take_while(|(left, right)| left == right).count();
        let position = self.received + (at + same) as u64;
        Failure::content(format!(
            "byte {position} of the transfer is {}, expected {}",
            got[same], want[same]
        ))
    }
}

impl Exchange for StreamExchange {
    fn begin(&mut self) {
        self.received = 0;
    }

    fn request(&self) -> &[u8] {
        &self.request
    }

    fn receive(&mut self, bytes: &[u8]) -> Result<Progress, Failure> {
        let used = (bytes.len() as u64).min(self.size - self.received) as usize;
        self.check(&bytes[..used])?;
        self.received += used as u64;
        if self.received < self.size {
            return Ok(Progress::More);
        }
        Ok(Progress::Done(Done {
            used,
            keep: true,
            payload: self.size,
            fault: None,
        }))
    }

    fn end(&mut self) -> Result<Done, Failure> {
        let text = format!("the peer closed after {} of {} bytes", self.received, self.size);
        Err(Failure::reset(text))
    }
}

#[cfg(test)]
mod tests {
    use lasthop_trial::result::ErrorClass;

    use super::{super::exchange::testing::same_at_every_cut, *};

    fn exchange(size: u64) -> StreamExchange {
        StreamExchange::new(&Stream { size, chunk: 4096 })
    }

    #[test]
    fn all_bytes_must_arrive() {
        let bytes: Vec<u8> = (0..600).map(pattern).collect();
        assert_eq!(same_at_every_cut(&mut exchange(600), &bytes), Ok((600, true, None)));
        let short = same_at_every_cut(&mut exchange(601), &bytes).unwrap_err();
        assert_eq!(
            (short.class, short.message.as_str()),
            (ErrorClass::Reset, "the peer closed after 600 of 601 bytes")
        );
    }

    #[test]
    fn a_lost_byte_is_found() {
        let bytes: Vec<u8> = (0..601).filter(|at| *at != 300).map(pattern).collect();
        let mut exchange = exchange(600);
        exchange.begin();
        assert_eq!(exchange.receive(&bytes).unwrap_err().class, ErrorClass::WrongContent);
    }

    #[test]
    fn a_wrong_byte_is_found_wherever_it_is() {
        let right: Vec<u8> = (0..20_000).map(pattern).collect();
        for at in [0, 1, 300, 4095, 4096, 12_345, 19_999] {
            let mut bytes = right.clone();
            bytes[at] ^= 1;
            let mut exchange = exchange(20_000);
            exchange.begin();
            exchange.receive(&bytes[..at.min(300)]).unwrap();
            let failure = exchange.receive(&bytes[at.min(300)..]).unwrap_err();
            assert!(
                failure.message.starts_with(&format!("byte {at} of the transfer")),
                "{failure}"
            );
        }
    }
}
