//! Values that can be written in several ways, and the schemas of the written forms.

use std::{sync::LazyLock, time::Duration};

use indexmap::IndexMap;
use lasthop_model::quantity;
use lasthop_protocol::PROTOCOLS;
use lasthop_trial::address::Transport;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize,
    de::{DeserializeOwned, Deserializer, Error},
};
use serde_json::{Map, Value as Json};

use super::{
    schema::LOAD_KEYS,
    templated::{TEMPLATE, or_templates},
};

pub(super) fn one() -> String {
    "1".to_owned()
}

pub(super) fn yes() -> String {
    "true".to_owned()
}

pub(super) fn keep_alive() -> String {
    "keep-alive".to_owned()
}

/// The text of a number, of true or false, or of a text.
fn text(value: Json) -> String {
    match value {
        Json::String(text) => text,
        // 1.0 as 1, because engines and reports have always had that form.
        Json::Number(number) if number.is_f64() => number.as_f64().unwrap_or_default().to_string(),
        other => other.to_string(),
    }
}

/// Reads a `T`, or a template for one, as text.
pub(super) fn or_template<'de, T: DeserializeOwned, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let value = Json::deserialize(deserializer)?;
    match T::deserialize(&value) {
        Err(error) if !value.as_str().is_some_and(|text| text.contains("{{")) => Err(D::Error::custom(format!(
            "{error}, or a template such as \"{{{{ NAME }}}}\""
        ))),
        _ => Ok(text(value)),
    }
}

/// Reads a number or a text, as text.
pub(super) fn number_or_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    match Json::deserialize(deserializer)? {
        value @ (Json::Number(_) | Json::String(_)) => Ok(text(value)),
        _ => Err(D::Error::custom(
            "expected a number, or a template such as \"{{ NAME }}\"",
        )),
    }
}

/// Reads a number from `LEAST` to `MOST`, or none.
pub(super) fn limited<'de, T, D, const LEAST: u32, const MOST: u32>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: Deserialize<'de> + Copy + Into<u32>,
    D: Deserializer<'de>,
{
    let number = T::deserialize(deserializer)?;
    if (LEAST..=MOST).contains(&number.into()) {
        Ok(Some(number))
    } else {
        Err(D::Error::custom(format!(
            "expected a whole number from {LEAST} to {MOST}"
        )))
    }
}

static TRANSPORTS: LazyLock<Vec<&str>> = LazyLock::new(|| Transport::ALL.map(Transport::name).to_vec());

fn transport<E: Error>(name: &str) -> Result<Transport, E> {
    name.parse().map_err(|_| E::unknown_variant(name, &TRANSPORTS))
}

/// Reads a transport that can be driven; records have other transports too.
pub(super) fn one_transport<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Transport>, D::Error> {
    transport(&String::deserialize(deserializer)?).map(Some)
}

/// Reads a table with a key for each transport. Keys are read as text, because the path of an error has only text keys.
pub(super) fn by_transport<'de, D, T>(deserializer: D) -> Result<IndexMap<Transport, T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let table = IndexMap::<String, T>::deserialize(deserializer)?;
    table
        .into_iter()
        .map(|(name, value)| Ok((transport(&name)?, value)))
        .collect()
}

/// Reads the tables of protocols as written.
pub(super) fn by_protocol<'de, D: Deserializer<'de>>(deserializer: D) -> Result<IndexMap<String, Json>, D::Error> {
    let tables = IndexMap::<String, Json>::deserialize(deserializer)?;
    match tables.keys().find(|name| lasthop_protocol::kind(name).is_none()) {
        Some(name) => Err(D::Error::unknown_field(name, &LOAD_KEYS)),
        None => Ok(tables),
    }
}

/// The schema of the protocols' tables as written, because a template renders to a value of another type.
pub(super) fn parameter_tables(generator: &mut SchemaGenerator) -> Schema {
    let mut properties = Map::new();
    for kind in PROTOCOLS {
        let mut schema = (kind.schema)(generator);
        or_templates(&mut schema);
        properties.insert(kind.name.to_owned(), schema.to_value());
    }
    json_schema!({ "type": "object", "properties": properties, "additionalProperties": false })
}

/// The schema of a whole number, or of a template for one.
pub(super) fn whole_number(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": ["integer", "string"], "pattern": TEMPLATE })
}

/// The schema of a number of CPUs, or of a template for one.
pub(super) fn cpu_share(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": ["number", "string"] })
}

/// The schema of requests per second, or of a template for them.
pub(super) fn request_rate(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": ["number", "string"], "pattern": r"^$|\{\{.*\}\}" })
}

/// The schema of true or false, or of a template for either.
pub(super) fn yes_or_no(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": ["boolean", "string"], "pattern": TEMPLATE })
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(try_from = "Json")]
#[schemars(with = "String")]
pub struct Time(pub Duration);

impl TryFrom<Json> for Time {
    type Error = String;

    fn try_from(written: Json) -> Result<Self, String> {
        quantity::duration(&text(written)).map(Self)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(try_from = "Json")]
#[schemars(with = "String")]
pub struct Share(pub f64);

impl TryFrom<Json> for Share {
    type Error = String;

    fn try_from(written: Json) -> Result<Self, String> {
        quantity::share(&text(written)).map(Self)
    }
}
