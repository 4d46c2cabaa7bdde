//! Properties of protocols. The rest of the program asks here and names no protocol.

use std::{
    any::Any,
    fmt,
    ops::{Deref, DerefMut},
};

use lasthop_trial::{
    address::Endpoint,
    failure::Failure,
    options::{Reuse, pipelined},
};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer, de::DeserializeOwned, ser::SerializeMap as _};
use serde_json::Value;

use super::{content::Content, delimiter::End, escaped::Escaped, exchange::Factory, http::HttpVersion};
use crate::{
    location::{HIDDEN, Location},
    tls_request::TlsRequest,
};

/// Reads a URL with one of a protocol's schemes.
type FromUrl = fn(&Location<'_>) -> Result<(Endpoint, Protocol), String>;

/// A protocol without parameters: an entry of [`PROTOCOLS`](super::PROTOCOLS).
pub struct ProtocolKind {
    /// The protocol's name in specifications and experiment files.
    pub name: &'static str,
    /// The protocol's name in sentences.
    pub title: &'static str,
    /// Whether lasthop's own server speaks the protocol: replies are known without a sample, and a null server would do
    /// the same work.
    pub own: bool,
    /// First words of the protocol's URLs; `+unix` and `+tls` may follow.
    pub schemes: &'static [&'static str],
    pub from_url: FromUrl,
    /// The protocol's URLs for the help of `lasthop load`: a form and its meaning.
    pub urls: &'static [(&'static str, &'static str)],
    /// Environment variable from which the protocol's usual client takes a password.
    pub password_variable: Option<&'static str>,
    /// Reads the parameters.
    pub read: fn(&Value) -> Result<Protocol, ReadError>,
    /// The schema of the parameters.
    pub schema: fn(&mut SchemaGenerator) -> Schema,
}

impl ProtocolKind {
    /// A protocol with parameters of this type, of which nothing else is known.
    pub const fn of<T>(name: &'static str, title: &'static str, from_url: FromUrl) -> Self
    where
        T: ProtocolSpec + DeserializeOwned + JsonSchema,
    {
        Self {
            name,
            title,
            own: false,
            schemes: &[],
            from_url,
            urls: &[],
            password_variable: None,
            read: |value| serde_path_to_error::deserialize::<_, T>(value).map(Protocol::from),
            schema: |generator| generator.subschema_for::<T>(),
        }
    }
}

/// Where a server tells how much it has received: a counter on a page for Prometheus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// URL of the page.
    pub url: String,
    /// Name of the counter.
    pub counter: String,
    /// By how much a request raises the counter.
    pub each: u32,
}

/// Whether a request may be sent again if the server has closed the connection without a notice, so that it may have
/// taken the request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Repeats {
    /// A repetition may do harm; or replies come in any order, so that the last one tells nothing about the others.
    #[default]
    Harmful,
    Harmless,
    /// Harmless, and the protocol has no message for the end of a connection: servers end it by closing.
    Wordless,
}

/// A part of a reply: its name and its value.
pub type Trait = (&'static str, Vec<u8>);

/// Parameters that a protocol does not accept: the path of the wrong one, and why.
pub type ReadError = serde_path_to_error::Error<serde_json::Error>;

/// How a load uses its connections, as far as protocols need to know.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// What the request tells the server to do with a connection after a reply.
    pub reuse: Reuse,
    /// Requests sent together.
    pub pipeline: u32,
    /// Whether the connection uses TLS.
    pub encrypted: bool,
    /// Whether the socket is a Unix socket.
    pub is_local: bool,
    /// Whether the transport preserves message boundaries.
    pub keeps_boundaries: bool,
}

impl Usage {
    pub fn without_pipeline(self, why: &'static str) -> Result<(), String> {
        if self.pipeline > 1 {
            Err(pipelined(self.pipeline, why))
        } else {
            Ok(())
        }
    }
}

/// Options of `lasthop load` that not every protocol understands. A protocol takes the options that it understands.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    pub method: Option<String>,
    /// Replaces the target in the URL.
    pub target: Option<String>,
    pub headers: Vec<(String, String)>,
    /// Names of headers that are not recorded.
    pub hidden: Vec<String>,
    pub body: Option<Content>,
    pub expect_status: Option<u16>,
    /// Version of HTTP; 1.1 if missing.
    pub http_version: Option<HttpVersion>,
    pub command: Option<Vec<String>>,
    pub query: Option<String>,
    pub parameters: Vec<String>,
    /// How a query is sent: `simple`, `extended` or `prepared`.
    pub mode: Option<&'static str>,
    pub size: Option<u32>,
    pub expect: Option<String>,
    /// The bytes of a request. `greet` has the bytes to send once on each connection before the first request.
    pub send: Option<Escaped>,
    /// Whether messages are binary.
    pub binary: bool,
    pub greet: Vec<Escaped>,
    /// Where a reply ends. `greet_ends` has the ends of the replies to `greet`, in order, if they end elsewhere; the
    /// last end counts for all further replies to `greet`.
    pub end: Option<End>,
    pub greet_ends: Vec<End>,
}

impl LoadOptions {
    /// The first given option that the protocol has not taken.
    pub fn left(&self) -> Option<String> {
        let given = [
            ("requests", self.target.is_some()),
            ("method", self.method.is_some()),
            ("header", !self.headers.is_empty()),
            ("body", self.body.is_some()),
            ("expect-status", self.expect_status.is_some()),
            ("http1.0", self.http_version == Some(HttpVersion::V10)),
            ("http2", self.http_version == Some(HttpVersion::V2)),
            ("command", self.command.is_some()),
            ("query", self.query.is_some()),
            ("parameter", !self.parameters.is_empty()),
            (self.mode.unwrap_or_default(), self.mode.is_some()),
            ("size", self.size.is_some()),
            ("expect", self.expect.is_some()),
            ("send", self.send.is_some()),
            ("binary", self.binary),
            ("greet", !self.greet.is_empty()),
            (
                match self.greet_ends.first() {
                    Some(End::Until(_)) => "greet-until",
                    _ => "greet-bytes",
                },
                !self.greet_ends.is_empty(),
            ),
            (self.end.as_ref().map_or("", End::option), self.end.is_some()),
        ];
        given
            .iter()
            .find(|(_, given)| *given)
            .map(|(name, _)| format!("--{name}"))
    }
}

/// A protocol's parameters, and what follows from them. The defaults are right for most protocols.
pub trait ProtocolSpec: Plain {
    /// The protocol's entry in the table.
    fn kind(&self) -> &'static ProtocolKind;

    fn validate(&self, usage: Usage) -> Result<(), String>;

    /// Encodes the request. The parameters must be valid.
    fn factory(&self, usage: Usage) -> Factory;

    /// In words: how every reply is checked; `size` writes a number of bytes.
    fn checked(&self, size: &dyn Fn(u64) -> String) -> String;

    /// Payload bytes of a reply, if the parameters fix them.
    fn payload(&self) -> Option<u64> {
        None
    }

    /// Sets the common content of the replies as the expectation, byte for byte: at least one reply, in order of
    /// arrival. All must meet an existing expectation. Returns in words the parts that are not checked, or not byte for
    /// byte, because the replies differ; `None` if they are equal.
    fn learn(&mut self, _replies: &[&[u8]]) -> Result<Option<String>, Failure> {
        Ok(None)
    }

    /// Takes the options that the protocol understands.
    fn apply(&mut self, _options: &mut LoadOptions) -> Result<(), String> {
        Ok(())
    }

    /// The place of the password, if the protocol has one.
    fn password(&mut self) -> Option<&mut Option<String>> {
        None
    }

    /// Replaces by [`HIDDEN`] what must not be recorded: passwords, and headers that are secret. Returns whether there
    /// were any.
    fn hide_secrets(&mut self) -> bool {
        let password = self.password().and_then(Option::as_mut);
        password.map(|password| HIDDEN.clone_into(password)).is_some()
    }

    /// The parts of this reply, by name, in which endpoints that answer alike agree.
    fn traits(&self, reply: &[u8]) -> Result<Vec<Trait>, Failure> {
        Ok(if self.kind().own {
            Vec::new()
        } else {
            vec![("reply", reply.to_vec())]
        })
    }

    /// Whether a connection carries at most one request.
    fn closes_each_time(&self) -> bool {
        false
    }

    /// Whether a request can tell the server to close the connection after its reply.
    fn can_tell_to_close(&self) -> bool {
        false
    }

    /// Whether a fresh connection begins with a greeting.
    fn greets(&self) -> bool {
        false
    }

    /// Whether a request may be sent again.
    fn repeats(&self) -> Repeats {
        Repeats::Harmful
    }

    /// The plaintext before a TLS handshake.
    fn tls_request(&self) -> Option<TlsRequest> {
        None
    }

    /// The protocol's name in a TLS handshake (ALPN), if servers require one.
    fn application(&self) -> Option<&'static [u8]> {
        None
    }

    /// Whether a request, and a reply, are single messages on a socket that preserves boundaries.
    fn fits_packets(&self) -> bool {
        false
    }

    /// Where the server tells what it received, in a protocol without replies. Only received requests count.
    fn receipt(&self) -> Option<Receipt> {
        None
    }

    /// Whether the reply always repeats the request.
    fn echoes(&self) -> bool {
        false
    }

    /// Name of the greeting in messages.
    fn greeting_name(&self) -> &'static str {
        "authentication"
    }

    /// Adapts the parameters to a null server, which authenticates nobody.
    fn let_anybody_in(&mut self) {}

    /// A null server's reply to a step of the greeting, which may depend on whether TLS came before.
    fn welcome(&self, _step: usize, _encrypted: bool) -> Vec<u8> {
        Vec::new()
    }

    /// This reply in a form that a null server can repeat, and the offsets of the four bytes that number the request on
    /// its connection: 1, 3, 5 and so on.
    fn repeatable(&self, reply: Vec<u8>) -> (Vec<u8>, Vec<usize>) {
        (reply, Vec::new())
    }

    /// The server as a classic tool takes it: an address or a connection string.
    fn data_source(&self, endpoint: &Endpoint) -> String {
        endpoint.address.to_string()
    }
}

/// Methods of every type of parameters that can be cloned, compared and serialised.
pub trait Plain: Any + fmt::Debug + Send + Sync {
    fn boxed(&self) -> Box<dyn ProtocolSpec>;
    fn same(&self, other: &dyn Any) -> bool;
    fn json(&self) -> Value;
}

impl<T: ProtocolSpec + Clone + PartialEq + Serialize> Plain for T {
    fn boxed(&self) -> Box<dyn ProtocolSpec> {
        Box::new(self.clone())
    }

    fn same(&self, other: &dyn Any) -> bool {
        other.downcast_ref() == Some(self)
    }

    fn json(&self) -> Value {
        serde_json::to_value(self).expect("parameters are plain data")
    }
}

/// How requests are made and replies judged: a protocol of the table, with its parameters.
#[derive(Debug)]
pub struct Protocol(Box<dyn ProtocolSpec>);

impl Protocol {
    /// The parameters, if the protocol has this type.
    pub fn get<T: ProtocolSpec>(&self) -> Option<&T> {
        (&*self.0 as &dyn Any).downcast_ref()
    }
}

impl<T: ProtocolSpec> From<T> for Protocol {
    fn from(parameters: T) -> Self {
        Self(Box::new(parameters))
    }
}

impl Deref for Protocol {
    type Target = dyn ProtocolSpec;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl DerefMut for Protocol {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut *self.0
    }
}

impl Clone for Protocol {
    fn clone(&self) -> Self {
        Self(self.0.boxed())
    }
}

impl PartialEq for Protocol {
    fn eq(&self, other: &Self) -> bool {
        self.0.same(&*other.0)
    }
}

/// `{"NAME": PARAMETERS}`
impl Serialize for Protocol {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry(self.kind().name, &self.json())?;
        map.end()
    }
}
