//! Expected bytes of a reply: the bytes themselves, the digest of many, or those that do not change.

pub mod alike;

use std::{fmt, ops::RangeInclusive};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ring::rand::{SecureRandom as _, SystemRandom};
use schemars::JsonSchema;
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, MapAccess, Visitor, value::MapAccessDeserializer},
};
use xxhash_rust::xxh3::Xxh3;

use alike::Alike;

/// Maximum bytes kept as they are; of more, only the digest is kept.
pub const KEPT_MAX: usize = 1 << 20;

/// Expected bytes: a text, `{ base64 = "…" }` for other bytes, or the digest of more than 1 MiB. Or the fixed texts,
/// byte for byte, and the kinds of the parts between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exact {
    Bytes(Vec<u8>),
    Digest(Digest),
    Alike(Alike),
}

/// Length and digest (XXH3, 128 bits) of bytes. Without the seed nobody can find other bytes with the same digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest {
    pub length: u64,
    pub seed: u64,
    pub digest: u128,
}

impl Digest {
    fn of(bytes: &[u8]) -> Self {
        let mut seed = [0; 8];
        // Without randomness the digest still protects against everything but malice.
        let _ = SystemRandom::new().fill(&mut seed);
        let seed = u64::from_le_bytes(seed);
        Self::seeded(bytes, seed)
    }

    fn seeded(bytes: &[u8], seed: u64) -> Self {
        let mut hasher = Xxh3::with_seed(seed);
        hasher.update(bytes);
        Self {
            length: bytes.len() as u64,
            seed,
            digest: hasher.digest128(),
        }
    }

    /// Whether the digest is that of `bytes`.
    pub fn is_of(&self, bytes: &[u8]) -> bool {
        self.length == bytes.len() as u64 && *self == Self::seeded(bytes, self.seed)
    }
}

impl Exact {
    pub fn of(bytes: &[u8]) -> Self {
        if bytes.len() > KEPT_MAX {
            Self::Digest(Digest::of(bytes))
        } else {
            Self::Bytes(bytes.to_vec())
        }
    }

    /// Number of bytes, if it is fixed.
    pub fn length(&self) -> Option<u64> {
        let lengths = self.lengths();
        (lengths.start() == lengths.end()).then_some(*lengths.start())
    }

    /// Minimum and maximum bytes.
    pub fn lengths(&self) -> RangeInclusive<u64> {
        let length = match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Digest(digest) => digest.length,
            Self::Alike(alike) => return alike.lengths(),
        };
        length..=length
    }

    /// In words: how `what` is checked; `size` writes a number of bytes.
    pub fn checked(&self, what: &str, size: &dyn Fn(u64) -> String) -> String {
        match self {
            Self::Alike(alike) if alike.checked() == 0 => format!("what kind of {what} it is"),
            Self::Alike(alike) => format!("what stays of the {what}, {}, byte for byte", size(alike.checked())),
            _ => format!("a {what} of {}, byte for byte", size(*self.lengths().start())),
        }
    }
}

impl From<&str> for Exact {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl From<String> for Exact {
    fn from(text: String) -> Self {
        Self::Bytes(text.into_bytes())
    }
}

/// The written form of anything but a text. Numbers are hexadecimal, because not every JSON reader has 64 bits.
#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Written {
    /// Bytes that are no text.
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
    /// Number of bytes, if only the digest is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    length: Option<u64>,
    /// Seed of the digest, hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<String>,
    /// XXH3 with 128 bits, hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    /// Fixed texts, and the changing parts between them.
    #[serde(skip_serializing_if = "Option::is_none")]
    alike: Option<Alike>,
}

impl Written {
    fn read(self) -> Result<Exact, String> {
        match self {
            Self {
                base64: Some(text),
                length: None,
                seed: None,
                digest: None,
                alike: None,
            } => STANDARD
                .decode(&text)
                .map(Exact::Bytes)
                .map_err(|_| format!("`{text}` is not base64")),
            Self {
                base64: None,
                length: Some(length),
                seed: Some(seed),
                digest: Some(digest),
                alike: None,
            } => {
                let seed = u64::from_str_radix(&seed, 16).ok();
                let numbers = seed.zip(u128::from_str_radix(&digest, 16).ok());
                let (seed, digest) = numbers.ok_or("`seed` and `digest` must be hexadecimal")?;
                Ok(Exact::Digest(Digest { length, seed, digest }))
            }
            Self {
                base64: None,
                length: None,
                seed: None,
                digest: None,
                alike: Some(alike),
            } => Ok(Exact::Alike(alike)),
            _ => Err("expected `base64`, `alike`, or `length`, `seed` and `digest`".to_owned()),
        }
    }
}

impl Serialize for Exact {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let written = match self {
            Self::Bytes(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => return serializer.serialize_str(text),
                Err(_) => Written {
                    base64: Some(STANDARD.encode(bytes)),
                    ..Written::default()
                },
            },
            Self::Digest(Digest { length, seed, digest }) => Written {
                length: Some(*length),
                seed: Some(format!("{seed:x}")),
                digest: Some(format!("{digest:x}")),
                ..Written::default()
            },
            Self::Alike(alike) => Written {
                alike: Some(alike.clone()),
                ..Written::default()
            },
        };
        written.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Exact {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Exact;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, or a table with `base64`")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Exact, E> {
                Ok(text.into())
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Exact, A::Error> {
                Written::deserialize(MapAccessDeserializer::new(map))?
                    .read()
                    .map_err(de::Error::custom)
            }
        }
        deserializer.deserialize_any(Either)
    }
}

impl JsonSchema for Exact {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Exact".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let written = generator.subschema_for::<Written>();
        schemars::json_schema!({
            "description": "A text, or a table for bytes that are none.",
            "anyOf": [{ "type": "string" }, written],
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn texts_bytes_and_digests_are_written_and_read() {
        let long = Exact::of(&vec![b'a'; KEPT_MAX + 1]);
        assert!(matches!(long, Exact::Digest(Digest { length: 1_048_577, .. })));
        for (exact, written) in [
            (Exact::from("é"), "\"é\""),
            (Exact::of(b"\xff\0"), r#"{"base64":"/wA="}"#),
        ] {
            assert_eq!(serde_json::to_string(&exact).unwrap(), written);
        }
        for exact in [Exact::from(""), Exact::of(b"\xff"), long] {
            let written = serde_json::to_string(&exact).unwrap();
            assert_eq!(serde_json::from_str::<Exact>(&written).unwrap(), exact);
        }
        for (wrong, text) in [
            ("5", "expected a text, or a table with `base64`"),
            (r#"{"base64": "?"}"#, "`?` is not base64"),
            (
                r#"{"length": 5}"#,
                "expected `base64`, `alike`, or `length`, `seed` and `digest`",
            ),
            (r#"{"length": 5, "seed": "g", "digest": "0"}"#, "must be hexadecimal"),
            (r#"{"base46": ""}"#, "unknown field `base46`"),
        ] {
            let error = serde_json::from_str::<Exact>(wrong).unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_as_they_were_written(bytes in proptest::collection::vec(any::<u8>(), 0..20)) {
            let written = serde_json::to_value(Exact::of(&bytes)).unwrap();
            prop_assert_eq!(serde_json::from_value::<Exact>(written).unwrap(), Exact::Bytes(bytes));
        }
    }
}
