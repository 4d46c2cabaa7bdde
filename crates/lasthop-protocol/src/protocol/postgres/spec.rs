//! The load on a PostgreSQL server.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::result::PostgresExpect;

/// PostgreSQL: one query over and over. With `reuse = "per-request"` each query has a connection of its own, and a request
/// is all of it: connect, TLS, authentication, query.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Postgres {
    /// Role to log in as.
    pub user: String,
    /// Database to connect to.
    pub database: String,
    /// Used if the server asks for one. Trust, cleartext, MD5, SCRAM-SHA-256 and SCRAM-SHA-256-PLUS are understood, as the server asks for them.
    #[serde(default)]
    pub password: Option<String>,
    /// One statement.
    pub query: String,
    /// How it is sent; `simple` where it is missing.
    #[serde(default)]
    pub mode: QueryMode,
    /// Values of `$1`, `$2`, … as text; not with simple queries.
    #[serde(default)]
    pub parameters: Vec<String>,
    /// What a right result is.
    #[serde(default)]
    pub expect: PostgresExpect,
    /// Whether SCRAM binds itself to the TLS connection (SCRAM-SHA-256-PLUS).
    #[serde(default, skip_serializing_if = "ChannelBinding::is_default")]
    pub channel_binding: ChannelBinding,
    /// What else is said at login, such as `application_name` and `options`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
}

/// Whether the authentication is bound to the TLS connection by the server's certificate; the words are libpq's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ChannelBinding {
    Disable,
    /// Where there is TLS and the server offers it.
    #[default]
    Prefer,
    /// A server that lets us in without it is refused.
    Require,
}

impl ChannelBinding {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// How a query is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum QueryMode {
    /// The simple form.
    #[default]
    Simple,
    /// Parse, bind, execute and sync with every request.
    Extended,
    /// Parsed once with every connection; bind, execute and sync with every request.
    Prepared,
}
