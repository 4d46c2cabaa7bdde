//! The server speaks first and closes: one request is one connection.

use lasthop_trial::{address::Endpoint, options::within};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    delimiter::End,
    escaped::Escaped,
    exchange::Factory,
    kind::{Protocol, ProtocolKind, ProtocolSpec, Usage},
    raw::{Raw, RawExpect},
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

    fn factory(&self, usage: Usage) -> Factory {
        let raw = Raw {
            greeting: Vec::new(),
            send: Escaped::default(),
            end: End::Close,
            expect: RawExpect::Reply(Escaped(self.expect.clone().into_bytes())),
        };
        raw.factory(usage)
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

#[cfg(test)]
mod tests {
    use lasthop_trial::result::ErrorClass;

    use super::{
        super::exchange::testing::{exchange, same_at_every_cut},
        *,
    };

    fn outcome(reply: &str) -> Result<u64, ErrorClass> {
        let hello = Hello {
            expect: "Hello there!".to_owned(),
        };
        let (payload, keep, fault) =
            same_at_every_cut(&mut *exchange(&hello), reply.as_bytes()).map_err(|error| error.class)?;
        assert!(!keep, "a connection for each text");
        fault.map_or(Ok(payload), |fault| Err(fault.class))
    }

    #[test]
    fn only_the_whole_text_is_right() {
        assert_eq!(outcome("Hello there!"), Ok(12));
        assert_eq!(outcome(""), Err(ErrorClass::Reset));
        for wrong in ["Hello", "Hello there!!", "Jello there!"] {
            assert_eq!(outcome(wrong), Err(ErrorClass::WrongContent), "{wrong}");
        }
    }
}
