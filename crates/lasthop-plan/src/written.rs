//! Values in files that may be written in more than one way, and the schemas of what is written.

use std::time::Duration;

use lasthop_model::quantity;
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
pub(super) fn parameter_tables(generator: &mut SchemaGenerator) -> Schema {
    let mut properties = Map::new();
    for kind in PROTOCOLS {
        let mut schema = (kind.schema)(generator);
        or_templates(&mut schema);
        properties.insert(kind.name.to_owned(), schema.to_value());
    }
    json_schema!({ "type": "object", "properties": properties, "additionalProperties": false })
}

/// A whole number, or a template that renders to one.
pub(super) fn whole_number(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": ["integer", "string"],
        "pattern": TEMPLATE,
        "x-expected": "a whole number, or a template such as \"{{ connections }}\"",
    })
}

/// A number of CPUs, or a template that renders to one.
pub(super) fn cpu_share(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": ["number", "string"],
        "x-expected": "a number of CPUs such as 0.25, or a template such as \"{{ cpus }}\"",
    })
}

/// Requests per second, or a template that renders to them.
pub(super) fn request_rate(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": ["number", "string"],
        "pattern": r"^$|\{\{.*\}\}",
        "x-expected":
            "requests per second such as 2000, 0 or \"\" for a closed loop, or a template such as \"{{ rate }}\"",
    })
}

/// true or false, or a template that renders to one of them.
pub(super) fn yes_or_no(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": ["boolean", "string"],
        "pattern": TEMPLATE,
        "x-expected": "true or false, or a template such as \"{{ nodelay }}\"",
    })
}

// `x-quantity` tells who judges the shape of a file how to read it, so that what cannot be read has its place.

#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(extend("x-expected" = "a duration such as \"100ms\", \"30s\" or \"5m\"", "x-quantity" = "duration"))]
pub struct Time(pub Duration);

impl TryFrom<String> for Time {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        quantity::duration(&text).map(Self)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(extend("x-expected" = "a share such as \"2%\"", "x-quantity" = "share"))]
pub struct Share(pub f64);

impl TryFrom<String> for Share {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        quantity::share(&text).map(Self)
    }
}
