//! Requests and replies as values: the specification of a load, what a correct reply is, endpoints as URLs. Nothing here
//! opens a socket, reads a clock or knows an experiment.
//!
//! # Layout
//! - [`spec`]: the load. Serialisable, validated before anything is opened.
//! - [`url`]: an endpoint and its protocol written as a URL; [`location`]: the parts of such URLs.
//! - [`PROTOCOLS`]: all protocols. Each is a module here: requests and checked replies, without sockets.
//! - [`tls_request`]: plaintext before TLS.
//! - [`steady`]: whether trials were long enough.
//! - [`wire`]: the JSON-lines protocol of `lasthop drive`.

mod check;
mod checked;
pub mod chunked;
pub mod content;
pub mod custom;
pub mod delimiter;
pub mod echo;
pub mod escaped;
pub mod exact;
pub mod exchange;
pub mod grpc;
pub mod hello;
pub mod http;
mod http2;
pub mod kind;
mod line;
pub mod location;
pub mod memcached;
pub mod mysql;
pub mod postgres;
pub mod raw;
pub mod redis;
pub mod several;
pub mod spec;
mod statement;
pub mod statsd;
pub mod steady;
pub mod stream;
pub mod tls_request;
pub mod url;
pub mod websocket;
pub mod wire;

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de::Error};
use serde_json::{Map, Value};

pub use self::{
    check::contrast,
    exchange::{Done, Exchange, Factory, Progress, Run},
    kind::{LoadOptions, Protocol, ProtocolKind, ProtocolSpec, ReadError, Receipt, Repeats, Trait},
    spec::Spec,
};

/// Every protocol.
pub static PROTOCOLS: [&ProtocolKind; 13] = [
    &http::KIND,
    &redis::KIND,
    &memcached::KIND,
    &postgres::KIND,
    &mysql::KIND,
    &grpc::KIND,
    &websocket::KIND,
    &statsd::KIND,
    &raw::KIND,
    &echo::KIND,
    &hello::KIND,
    &stream::KIND,
    &custom::KIND,
];

/// The protocol of this name.
pub fn kind(name: &str) -> Option<&'static ProtocolKind> {
    PROTOCOLS.into_iter().find(|kind| kind.name == name)
}

impl<'de> Deserialize<'de> for Protocol {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let map = Map::<String, Value>::deserialize(deserializer)?;
        let mut entries = map.iter();
        let (Some((name, parameters)), None) = (entries.next(), entries.next()) else {
            return Err(Error::custom("expected the name of one protocol with its parameters"));
        };
        let kind = kind(name).ok_or_else(|| {
            let known = PROTOCOLS.map(|kind| kind.name).join(", ");
            Error::custom(format!("unknown protocol `{name}` (known: {known})"))
        })?;
        (kind.read)(parameters).map_err(|error| Error::custom(format!("{name}: {error}")))
    }
}

impl JsonSchema for Protocol {
    fn schema_name() -> Cow<'static, str> {
        "Protocol".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let properties: Map<String, Value> = PROTOCOLS
            .into_iter()
            .map(|kind| (kind.name.to_owned(), (kind.schema)(generator).to_value()))
            .collect();
        json_schema!({
            "description": "One protocol, with its parameters.",
            "type": "object",
            "properties": properties,
            "additionalProperties": false,
            "minProperties": 1,
            "maxProperties": 1,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::url::{UrlOptions, parse};

    #[test]
    fn every_entry_answers_to_its_name_and_schemes() {
        let mut seen = BTreeSet::new();
        for kind in PROTOCOLS {
            assert!(super::kind(kind.name).is_some() && !kind.title.is_empty());
            assert_eq!(kind.urls.is_empty(), kind.schemes.is_empty());
            for scheme in kind.schemes {
                assert!(seen.insert(scheme), "two protocols have the scheme {scheme}");
                let (_, protocol) = parse(&format!("{scheme}://u@127.0.0.1:9/"), &UrlOptions::default())
                    .or_else(|_| parse(&format!("{scheme}://127.0.0.1:9/"), &UrlOptions::default()))
                    .unwrap();
                assert_eq!(protocol.kind().name, kind.name);
                let written = serde_json::to_string(&protocol).unwrap();
                assert!(written.starts_with(&format!("{{\"{}\":{{", kind.name)), "{written}");
                assert_eq!(serde_json::from_str::<Protocol>(&written).unwrap(), protocol);
            }
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, wanted) in [
            (r#"{"echo": {"size": "x"}}"#, "echo: size: invalid type"),
            (
                r#"{"http": {"path": "/", "host": "h", "expect": {"status": "x"}}}"#,
                "http: expect.status: ",
            ),
            (r#"{"smtp": {}}"#, "unknown protocol `smtp` (known: http, "),
            (
                r#"{"echo": {"size": 8}, "hello": {"expect": "x"}}"#,
                "expected the name of one protocol",
            ),
            ("{}", "expected the name of one protocol"),
        ] {
            let error = serde_json::from_str::<Protocol>(text).unwrap_err().to_string();
            assert!(error.starts_with(wanted), "{error}");
        }
    }
}
