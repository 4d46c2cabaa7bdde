//! Bytes to send: mostly a text.

use std::ops::Deref;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::exact::Exact;

/// Bytes to send: a text, or `{ base64 = "…" }` for other bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content(pub Vec<u8>);

impl Deref for Content {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl Serialize for Content {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Exact::Bytes(self.0.clone()).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Exact::deserialize(deserializer)? {
            Exact::Bytes(bytes) => Ok(Self(bytes)),
            Exact::Digest(_) | Exact::Alike(_) => Err(de::Error::custom(
                "bytes of which only a part or the digest is known cannot be sent",
            )),
        }
    }
}

impl JsonSchema for Content {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Content".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let binary = generator.subschema_for::<Binary>();
        json_schema!({
            "description": "A text, or a table for bytes that are none.",
            "anyOf": [{ "type": "string" }, binary],
        })
    }
}

/// The written form of bytes other than a text, for the schema.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[expect(dead_code, reason = "`Exact` reads it")]
struct Binary {
    /// Bytes that are no text.
    base64: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_text_are_written_and_read() {
        for (bytes, written) in [
            (&b"a\\n"[..], r#""a\\n""#),
            (b"\x89PNG\xff", r#"{"base64":"iVBOR/8="}"#),
        ] {
            let content = Content(bytes.to_vec());
            assert_eq!(serde_json::to_string(&content).unwrap(), written);
            assert_eq!(serde_json::from_str::<Content>(written).unwrap(), content);
        }
        let digest = r#"{"length":2000000,"seed":"1","digest":"2"}"#;
        assert!(serde_json::from_str::<Content>(digest).is_err());
    }
}
