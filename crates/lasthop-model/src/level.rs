//! Levels of factors.

use std::{borrow::Cow, fmt};

use indexmap::IndexMap;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// One value of a factor.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected text, a whole number, true or false")]
pub enum Level {
    Bool(bool),
    Int(i64),
    Text(String),
}

/// The schema of a level as users write it.
impl JsonSchema for Level {
    fn schema_name() -> Cow<'static, str> {
        "Level".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["boolean", "integer", "string"] })
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Text(value) => f.pad(value),
        }
    }
}

impl Level {
    /// The text of a word; `None` for numbers and switches.
    #[must_use]
    pub fn word(&self) -> Option<&str> {
        match self {
            Self::Text(word) => Some(word),
            Self::Bool(_) | Self::Int(_) => None,
        }
    }
}

impl From<&str> for Level {
    fn from(text: &str) -> Self {
        text.parse()
            .map(Self::Bool)
            .ok()
            .or_else(|| text.parse().map(Self::Int).ok())
            .unwrap_or_else(|| Self::Text(text.to_owned()))
    }
}

/// Levels as users write them.
#[must_use]
pub fn texts(levels: &Levels) -> IndexMap<String, String> {
    levels
        .iter()
        .map(|(factor, level)| (factor.clone(), level.to_string()))
        .collect()
}

/// Serialises levels for the JSON of a result, where all are text.
pub mod as_text {
    use indexmap::IndexMap;
    use serde::{Deserialize, Deserializer, Serializer};

    use super::{Level, Levels, texts};

    pub fn serialize<S: Serializer>(levels: &Levels, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(texts(levels))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Levels, D::Error> {
        let texts = IndexMap::<String, String>::deserialize(deserializer)?;
        Ok(texts
            .into_iter()
            .map(|(factor, text)| (factor, Level::from(text.as_str())))
            .collect())
    }
}

/// The chosen level of each factor that applies, in the order of the experiment's factors.
pub type Levels = IndexMap<String, Level>;
