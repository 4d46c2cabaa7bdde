//! The load on a PostgreSQL server.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::result::PostgresExpect;

/// PostgreSQL: one query, repeated. With `reuse = "per-request"` each query has its own connection, and a request
/// includes all of it: connect, TLS, authentication, query.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Postgres {
    /// Role to log in as.
    pub user: String,
    /// Database to connect to.
    pub database: String,
    /// Password, if the server asks for one. The server chooses the method: trust, cleartext, MD5, SCRAM-SHA-256 and
    /// SCRAM-SHA-256-PLUS are supported.
    #[serde(default)]
    pub password: Option<String>,
    /// One statement.
    pub query: String,
    /// How the query is sent; `simple` if missing.
    #[serde(default)]
    pub mode: QueryMode,
    /// Values of `$1`, `$2`, … as text; not with simple queries.
    #[serde(default)]
    pub parameters: Vec<String>,
    /// The expected result.
    #[serde(default)]
    pub expect: PostgresExpect,
    /// Whether SCRAM binds itself to the TLS connection (SCRAM-SHA-256-PLUS).
    #[serde(default, skip_serializing_if = "lasthop_trial::options::is_default")]
    pub channel_binding: ChannelBinding,
    /// Further settings sent at login, such as `application_name` and `options`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
}

/// Whether the authentication is bound to the TLS connection by the server's certificate; the words are libpq's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ChannelBinding {
    Disable,
    /// Bound if TLS is used and the server offers channel binding.
    #[default]
    Prefer,
    /// A server that accepts the client without channel binding is refused.
    Require,
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
