//! Values in files that may be written in more than one way, and the schemas of what is written.

use std::borrow::Cow;

use lasthop_protocol::PROTOCOLS;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, de::Deserializer};
use serde_json::{Map, Value as Json};

use super::templated::{TEMPLATE, or_templates};

pub(super) fn one() -> String {
    "1".to_owned()
}

pub(super) fn yes() -> String {
    "true".to_owned()
}

pub(super) fn keep_alive() -> String {
    "keep-alive".to_owned()
}

/// Takes a number, or true or false, as the text that it is written as.
pub(super) fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(match Json::deserialize(deserializer)? {
        Json::String(text) => text,
        // 1.0 as 1, which engines and reports have always been told.
        Json::Number(number) if number.is_f64() => number.as_f64().unwrap_or_default().to_string(),
        other => other.to_string(),
    })
}

/// Parameters of protocols, by protocol, as they are written: what a template renders to has a type of its own.
pub(super) struct ParameterTables;

impl JsonSchema for ParameterTables {
    fn schema_name() -> Cow<'static, str> {
        "ParameterTables".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut properties = Map::new();
        for kind in PROTOCOLS {
            let mut schema = (kind.schema)(generator);
            or_templates(&mut schema);
            properties.insert(kind.name.to_owned(), schema.to_value());
        }
        json_schema!({ "type": "object", "properties": properties, "additionalProperties": false })
    }
}

/// Defines a type that is text once read, written as text or as a bare value of the named JSON types.
macro_rules! written_value {
    ($(#[$doc:meta])* $name:ident, $types:expr, $pattern:expr, $expected:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub(super) struct $name(pub String);

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                text(deserializer).map(Self)
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                let pattern: &str = $pattern;
                if pattern.is_empty() {
                    json_schema!({ "type": $types, "x-expected": $expected })
                } else {
                    json_schema!({ "type": $types, "pattern": pattern, "x-expected": $expected })
                }
            }
        }
    };
}

written_value!(
    /// A whole number, or a template that renders to one.
    WholeNumber, ["integer", "string"], TEMPLATE,
    "a whole number, or a template such as \"{{ connections }}\""
);
written_value!(
    /// A number of CPUs, or a template that renders to one.
    CpuShare, ["number", "string"], "",
    "a number of CPUs such as 0.25, or a template such as \"{{ cpus }}\""
);
written_value!(
    /// Requests per second, or a template that renders to them.
    RequestRate, ["number", "string"], r"^$|\{\{.*\}\}",
    "requests per second such as 2000, 0 or \"\" for a closed loop, or a template such as \"{{ rate }}\""
);
written_value!(
    /// true or false, or a template that renders to one of them.
    YesNo, ["boolean", "string"], TEMPLATE,
    "true or false, or a template such as \"{{ nodelay }}\""
);
written_value!(
    /// A duration with its unit.
    DurationText, ["string"], "",
    "a duration such as \"100ms\", \"30s\" or \"5m\""
);
written_value!(
    /// A share in per cent.
    PercentText, ["string"], "",
    "a share such as \"2%\""
);
