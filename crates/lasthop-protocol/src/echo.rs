//! A message goes out and must come back byte for byte.
//!
//! A message of `size` bytes: 4 bytes `size` and 4 bytes sequence number, both little endian, then a fixed pattern. The
//! length lets a server read a whole message; the number tells replies apart. A server that merely sends back all bytes
//! works as well.

use std::cell::Cell;

use lasthop_trial::{address::Endpoint, failure::Failure, options::within};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    exchange::{Done, Exchange, Factory, Progress, Run},
    kind::{LoadOptions, Protocol, ProtocolKind, ProtocolSpec, Usage},
};
use crate::location::Location;

pub static KIND: ProtocolKind = ProtocolKind {
    own: true,
    schemes: &["echo"],
    urls: &[
        (
            "echo://127.0.0.1:9000",
            "lasthop's own server (`lasthop serve`): a message and back",
        ),
        ("echo+unix:/run/echo.sock", "the same over a Unix socket; +tls for TLS"),
        (
            "echo+pipe:/run/echo.sock",
            "the same over a channel; also +socketpair, +shm, +shm-spin",
        ),
        (
            "echo+seqpacket:/run/echo.sock",
            "the same in whole messages; also +unixgram, and echo+udp://127.0.0.1:9000",
        ),
    ],
    ..ProtocolKind::of::<Echo>("echo", "echo", from_url)
};

fn from_url(location: &Location<'_>) -> Result<(Endpoint, Protocol), String> {
    Ok((
        location.endpoint(None)?,
        Echo {
            size: location.options.size,
        }
        .into(),
    ))
}

/// The same bytes must come back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Echo {
    /// Bytes of one message, 8 to 16 MiB.
    pub size: u32,
}

impl ProtocolSpec for Echo {
    fn kind(&self) -> &'static ProtocolKind {
        &KIND
    }

    fn validate(&self, usage: Usage) -> Result<(), String> {
        within("size of a message", self.size.into(), HEADER as u64, SIZE_MAX.into())?;
        within(
            "bytes of a pipeline",
            u64::from(self.size) * u64::from(usage.pipeline),
            1,
            64 << 20,
        )
    }

    fn factory(&self, usage: Usage) -> Factory {
        let echo = self.clone();
        let made = Cell::new(0);
        let keeps_boundaries = usage.keeps_boundaries;
        Factory::new(move || {
            let connection = made.replace(made.get() + 1);
            EchoExchange {
                keeps_boundaries,
                ..EchoExchange::new(&echo, usage.pipeline, connection)
            }
        })
    }

    fn checked(&self, size: &dyn Fn(u64) -> String) -> String {
        format!("all {} of each message", size(self.size.into()))
    }

    fn payload(&self) -> Option<u64> {
        Some(self.size.into())
    }

    fn apply(&mut self, options: &mut LoadOptions) -> Result<(), String> {
        self.size = options.size.take().unwrap_or(self.size);
        Ok(())
    }

    fn echoes(&self) -> bool {
        true
    }

    fn fits_packets(&self) -> bool {
        true
    }
}

/// Bytes of the length and the sequence number.
pub const HEADER: usize = 8;
/// Maximum bytes of a message.
pub const SIZE_MAX: u32 = 16 * 1024 * 1024;

/// Distance between the first sequence numbers of successive connections: 2³² divided by the golden ratio, so that
/// multiples are far apart.
const SPREAD: u32 = 0x9e37_79b1;

pub struct EchoExchange {
    /// The messages of one batch, one after the other.
    messages: Vec<u8>,
    size: usize,
    /// Where the awaited message begins, and how much of it has arrived.
    at: usize,
    received: usize,
    sequence: u32,
    /// Whether no message comes back in pieces.
    keeps_boundaries: bool,
}

impl EchoExchange {
    /// `echo.size` must be at least [`HEADER`]; `depth` messages make a batch. Numbers begin at the connection's own
    /// place, so that another connection's messages are not accepted.
    pub fn new(echo: &Echo, depth: u32, connection: u32) -> Self {
        let mut message: Vec<u8> = (0..echo.size)
            .map(|index| (index.wrapping_mul(31) >> 3) as u8)
            .collect();
        message[..4].copy_from_slice(&echo.size.to_le_bytes());
        Self {
            messages: message.repeat(depth as usize),
            size: echo.size as usize,
            at: 0,
            received: 0,
            sequence: connection.wrapping_mul(SPREAD),
            keeps_boundaries: false,
        }
    }
}

impl Exchange for EchoExchange {
    fn reset(&mut self) {
        self.received = 0;
    }

    fn begin(&mut self) {
        self.at = 0;
        self.received = 0;
        // Not in chunks of `size`: that would cost a division for every request.
        let mut at = 0;
        while at < self.messages.len() {
            self.sequence = self.sequence.wrapping_add(1);
            self.messages[at + 4..at + HEADER].copy_from_slice(&self.sequence.to_le_bytes());
            at += self.size;
        }
    }

    #[inline]
    fn request(&self) -> &[u8] {
        &self.messages
    }

    #[inline]
    fn next_reply(&mut self) {
        self.at += self.size;
        self.received = 0;
    }

    #[inline]
    fn recognise(&mut self, bytes: &[u8], most: u32) -> Option<Run> {
        // Without a pipeline no division is needed.
        let replies = if most == 1 {
            1
        } else {
            (bytes.len() / self.size).min(most as usize)
        };
        let used = replies * self.size;
        let same = replies > 0 && bytes.len() >= used && bytes[..used] == self.messages[self.at..self.at + used];
        same.then_some(Run {
            replies: replies as u32,
            used,
            payload: self.size as u64,
        })
    }

    #[inline]
    fn receive(&mut self, bytes: &[u8]) -> Result<Progress, Failure> {
        if self.keeps_boundaries && !bytes.len().is_multiple_of(self.size) {
            let text = format!("a message of {} bytes came back, expected {}", bytes.len(), self.size);
            return Err(Failure::content(text));
        }
        let want = self.awaited();
        let used = bytes.len().min(want.len());
        if bytes[..used] != want[..used] {
            return Err(self.differs(bytes));
        }
        self.received += used;
        if self.received < self.size {
            return Ok(Progress::More);
        }
        Ok(Progress::Done(Done {
            used,
            keep: true,
            payload: self.size as u64,
            fault: None,
        }))
    }

    fn end(&mut self) -> Result<Done, Failure> {
        let text = format!("the peer closed after {} of {} bytes", self.received, self.size);
        Err(Failure::reset(text))
    }
}

impl EchoExchange {
    #[inline]
    fn awaited(&self) -> &[u8] {
        &self.messages[self.at + self.received..self.at + self.size]
    }

    #[cold]
    fn differs(&self, bytes: &[u8]) -> Failure {
        let same = self
            .awaited()
            .iter()
            .zip(bytes)
            .take_while(|(left, right)| left == right)
            .count();
        Failure::content(format!(
            "the echo differs at byte {} of {}",
            self.received + same,
            self.size
        ))
    }
}

#[cfg(test)]
mod tests {
    use lasthop_trial::result::ErrorClass;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn only_the_message_itself_is_right(size in 8u32..200, wrong in proptest::option::of(0usize..200), cut in 0usize..200) {
            let mut exchange = EchoExchange::new(&Echo { size }, 1, 0);
            exchange.begin();
            let mut reply = exchange.request().to_vec();
            let wrong = wrong.filter(|at| *at < reply.len());
            if let Some(at) = wrong { reply[at] ^= 1; }
            let (head, tail) = reply.split_at(cut.min(reply.len()));
            let mut outcome = exchange.receive(head);
            if outcome == Ok(Progress::More) { outcome = exchange.receive(tail); }
            match wrong {
                None => {
                    let Ok(Progress::Done(done)) = outcome else { panic!("{outcome:?}") };
                    prop_assert_eq!(done.payload, u64::from(size));
                }
                Some(at) => {
                    let failure = outcome.unwrap_err();
                    prop_assert_eq!(failure.class, ErrorClass::WrongContent);
                    prop_assert!(failure.message.contains(&format!("at byte {at} of")), "{}", failure.message);
                }
            }
        }
    }

    #[test]
    fn a_message_that_is_sent_whole_comes_back_whole() {
        let mut exchange = EchoExchange {
            keeps_boundaries: true,
            ..EchoExchange::new(&Echo { size: 64 }, 2, 0)
        };
        exchange.begin();
        let batch = exchange.request().to_vec();
        for wrong in [&batch[..63], &batch[..127], &[&batch[..], b"x"].concat()] {
            assert_eq!(exchange.receive(wrong).unwrap_err().class, ErrorClass::WrongContent);
        }
        for right in [&batch[..64], &batch] {
            assert!(matches!(
                exchange.receive(right),
                Ok(Progress::Done(Done { used: 64, .. }))
            ));
            exchange.received = 0;
        }
    }

    #[test]
    fn a_message_of_another_connection_is_not_an_answer() {
        let [mut own, mut other] = [0, 1].map(|connection| EchoExchange::new(&Echo { size: 64 }, 1, connection));
        own.begin();
        other.begin();
        assert_eq!(
            own.receive(other.request()).unwrap_err().class,
            ErrorClass::WrongContent
        );
    }

    #[test]
    fn an_earlier_message_is_not_an_answer_to_a_later_one() {
        let mut exchange = EchoExchange::new(&Echo { size: 64 }, 1, 0);
        exchange.begin();
        let first = exchange.request().to_vec();
        exchange.begin();
        assert_eq!(exchange.receive(&first).unwrap_err().class, ErrorClass::WrongContent);
    }
}
