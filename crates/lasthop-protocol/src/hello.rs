//! The server speaks first and closes: one request is one connection.

use lasthop_trial::{address::Endpoint, failure::Failure, options::within};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    exchange::{Done, Exchange, Factory, Progress, excerpt},
    kind::{Protocol, ProtocolKind, ProtocolSpec, Usage},
};
use crate::location::Location;

/// Message of lasthop's own server: the text of the study of 2017.
pub const TEXT: &str = "Hello there!";

pub static KIND: ProtocolKind = ProtocolKind {
    own: true,
    schemes: &["hello"],
    urls: &[(
        "hello://127.0.0.1:9000",
        "lasthop's own server: a connection for each text",
    )],
    ..ProtocolKind::of::<Hello>("hello", "hello", from_url)
};

fn from_url(location: &Location<'_>) -> Result<(Endpoint, Protocol), String> {
    Ok((
        location.endpoint(None)?,
        Hello {
            expect: TEXT.to_owned(),
        }
        .into(),
    ))
}

/// The server speaks first; then the connection is closed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hello {
    /// The bytes that must arrive.
    pub expect: String,
}

impl ProtocolSpec for Hello {
    fn kind(&self) -> &'static ProtocolKind {
        &KIND
    }

    fn validate(&self, usage: Usage) -> Result<(), String> {
        usage.without_pipeline("the server closes after its first word")?;
        within("length of the expected text", self.expect.len() as u64, 1, 1 << 20)
    }

    fn factory(&self, _: Usage) -> Factory {
        let hello = self.clone();
        Factory::new(move || HelloExchange::new(&hello))
    }

    fn checked(&self, _: &dyn Fn(u64) -> String) -> String {
        format!("the text `{}`", self.expect)
    }

    fn payload(&self) -> Option<u64> {
        Some(self.expect.len() as u64)
    }

    fn closes_each_time(&self) -> bool {
        true
    }
}

pub struct HelloExchange {
    expect: Vec<u8>,
    received: usize,
}

impl HelloExchange {
    pub fn new(hello: &Hello) -> Self {
        Self {
            expect: hello.expect.clone().into_bytes(),
            received: 0,
        }
    }
}

impl Exchange for HelloExchange {
    fn begin(&mut self) {
        self.received = 0;
    }

    fn request(&self) -> &[u8] {
        &[]
    }

    fn receive(&mut self, bytes: &[u8]) -> Result<Progress, Failure> {
        if !self.expect[self.received..].starts_with(bytes) {
            return Err(Failure::content(format!(
                "got {} after {} right bytes of the {} expected",
                excerpt(bytes),
                self.received,
                self.expect.len()
            )));
        }
        self.received += bytes.len();
        Ok(Progress::More)
    }

    fn end(&mut self) -> Result<Done, Failure> {
        if self.received < self.expect.len() {
            let text = format!("the peer closed after {} of {} bytes", self.received, self.expect.len());
            return Err(Failure::reset(text));
        }
        Ok(Done {
            used: 0,
            keep: false,
            payload: self.received as u64,
            fault: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use lasthop_trial::result::ErrorClass;

    use super::{super::exchange::testing::same_at_every_cut, *};

    fn outcome(reply: &str) -> Result<u64, ErrorClass> {
        let mut exchange = HelloExchange::new(&Hello {
            expect: "Hello there!".to_owned(),
        });
        // The message of a failure counts the right bytes before the wrong piece, and so depends on the pieces: compare
        // exactly only if the reply is right.
        if "Hello there!".starts_with(reply) {
            return same_at_every_cut(&mut exchange, reply.as_bytes())
                .map(|done| done.0)
                .map_err(|error| error.class);
        }
        super::super::exchange::testing::feed(&mut exchange, &[reply.as_bytes()])
            .map(|done| done.0)
            .map_err(|error| error.class)
    }

    #[test]
    fn only_the_whole_text_is_right() {
        assert_eq!(outcome("Hello there!"), Ok(12));
        assert_eq!(outcome("Hello"), Err(ErrorClass::Reset));
        assert_eq!(outcome(""), Err(ErrorClass::Reset));
        assert_eq!(outcome("Hello there!!"), Err(ErrorClass::WrongContent));
        assert_eq!(outcome("Jello there!"), Err(ErrorClass::WrongContent));
    }
}
