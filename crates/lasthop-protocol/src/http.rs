//! HTTP/1.0, 1.1 and 2 (RFC 9110, RFC 9112, RFC 9113): one request, encoded once; replies parsed in place.

use std::{collections::BTreeMap, fmt, fmt::Write as _, iter, mem, rc::Rc};

use lasthop_trial::{
    address::Endpoint,
    failure::Failure,
    options::{Reuse, within},
};
use memchr::memmem;
use schemars::JsonSchema;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error as _, MapAccess, SeqAccess, Visitor},
};

use super::{
    check::{BodyCheck, Expected, FAULTY_BODY_MAX, is_redirect},
    checked::Replies,
    chunked::Chunked,
    content::Content,
    exact::Exact,
    exchange::{Factory, excerpt, fill},
    http2::{
        self, Meaning,
        call::{Fields, RecentBlocks},
        frame,
    },
    kind::{LoadOptions, Protocol, ProtocolKind, ProtocolSpec, Repeats, Trait, Usage},
    line::digits,
};
use crate::location::{HIDDEN, Location, host_header, is_secret, is_socket, split_port, without_secrets};

pub static KIND: ProtocolKind = ProtocolKind {
    schemes: &["http", "https"],
    urls: &[
        (
            "http://127.0.0.1:8000/uri",
            "HTTP over TCP; https:// with TLS; --http2 speaks HTTP/2",
        ),
        (
            "http+unix:/run/app.sock:/uri",
            "HTTP over a Unix socket; also ./app.sock, ~/app.sock;\n@name is an abstract one, abns@name as in HAProxy",
        ),
        (
            "http+unix://%2Frun%2Fapp.sock/uri",
            "the same, encoded: for a path with `:/` or `?`",
        ),
        (
            "unix:/run/app.sock:/uri",
            "the same; also http://unix:/run/app.sock:/uri",
        ),
    ],
    ..ProtocolKind::of::<Http>("http", "HTTP", from_url)
};

fn from_url(location: &Location<'_>) -> Result<(Endpoint, Protocol), String> {
    let (endpoint, host, target) = place(location, "https")?;
    Ok((endpoint, Http::asking_for(target, host_header(host)).into()))
}

/// Endpoint, host and target of a URL of HTTP, or of a protocol that begins as HTTP. The scheme `secure` stands for
/// TLS.
pub(crate) fn place<'a>(location: &Location<'a>, secure: &str) -> Result<(Endpoint, &'a str, String), String> {
    let mut location = location.secured_by(secure);
    // The form of an nginx upstream: `http://unix:/path:/uri`.
    if let Some(socket) = location.rest.strip_prefix("//unix:").filter(|rest| is_socket(rest)) {
        location.is_socket = true;
        location.rest = socket;
    }
    let (endpoint, host, target) = if location.is_socket {
        let (path, target) = location.socket_and_target()?;
        (location.socket(&path)?, "localhost", target)
    } else {
        let (host, target) = location.authority();
        let port = if location.is_secure { 443 } else { 80 };
        (location.tcp(host, Some(port))?, host, target)
    };
    let target = target.split('#').next().unwrap_or_default();
    let slash = if target.starts_with('/') { "" } else { "/" };
    Ok((endpoint, host, format!("{slash}{target}")))
}

/// HTTP/1.0, 1.1 or 2.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Http {
    /// `GET` if missing.
    #[serde(default = "get")]
    pub method: String,
    /// Request target, begins with `/`.
    pub path: String,
    /// Value of the `Host` header; `localhost` if missing, whatever the transport.
    #[serde(default = "localhost")]
    pub host: String,
    /// Further headers, in order.
    #[serde(default, deserialize_with = "headers")]
    #[schemars(with = "std::collections::BTreeMap<String, String>")]
    pub headers: Vec<(String, String)>,
    /// Names of headers that no record keeps, besides those that look secret.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hidden: Vec<String>,
    /// Body of the request.
    #[serde(default)]
    pub body: Content,
    /// `1.1` if missing.
    #[serde(default)]
    pub version: HttpVersion,
    /// The correct reply.
    pub expect: HttpExpect,
}

impl Http {
    /// `GET` over HTTP/1.1, whose correct reply has status 200.
    pub fn asking_for(path: String, host: String) -> Self {
        Self {
            method: get(),
            path,
            host,
            headers: Vec::new(),
            hidden: Vec::new(),
            body: Content::default(),
            version: HttpVersion::V11,
            expect: HttpExpect {
                status: 200,
                ..HttpExpect::default()
            },
        }
    }
}

pub(crate) fn get() -> String {
    "GET".to_owned()
}

pub(crate) fn localhost() -> String {
    "localhost".to_owned()
}

/// A table, or pairs, which can repeat a name.
pub(crate) fn headers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(String, String)>, D::Error> {
    struct Headers;
    impl<'de> Visitor<'de> for Headers {
        type Value = Vec<(String, String)>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a table of headers, or a list of names with their values")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            iter::from_fn(|| map.next_entry().transpose()).collect()
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            iter::from_fn(|| list.next_element().transpose()).collect()
        }
    }
    deserializer.deserialize_any(Headers)
}

/// HTTP version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum HttpVersion {
    #[serde(rename = "1.0")]
    V10,
    #[default]
    #[serde(rename = "1.1")]
    V11,
    /// In plaintext with prior knowledge (h2c), or within TLS.
    #[serde(rename = "2")]
    V2,
}

/// The correct reply. Every given field must hold for every reply.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HttpExpect {
    /// Status code of a final reply, 200 to 599.
    #[serde(deserialize_with = "final_status")]
    #[schemars(range(min = 200, max = 599))]
    pub status: u16,
    /// The whole body, byte for byte.
    #[serde(default)]
    pub body: Option<Exact>,
    /// Texts that the body must contain.
    #[serde(default)]
    pub contains: Vec<String>,
    /// Length of the body in bytes.
    #[serde(default)]
    pub length: Option<u64>,
    /// Headers by name, in lower case, each with its whole value; an empty value means that the header must be missing.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
}

fn final_status<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u16, D::Error> {
    let status = u16::deserialize(deserializer)?;
    must_be_final(status).map_err(D::Error::custom)?;
    Ok(status)
}

fn must_be_final(status: u16) -> Result<(), String> {
    if (200..600).contains(&status) {
        return Ok(());
    }
    Err(format!(
        "the status {status} to be expected is not one of a final reply (200 to 599)"
    ))
}

impl ProtocolSpec for Http {
    fn kind(&self) -> &'static ProtocolKind {
        &KIND
    }

    fn validate(&self, usage: Usage) -> Result<(), String> {
        if self.version == HttpVersion::V10 {
            usage.without_pipeline("HTTP/1.0 knows no pipelining")?;
        }
        let plain = |text: &str| text.bytes().all(|byte| byte > b' ' && byte != 127);
        let bad = |what, text: &str| {
            Err(format!(
                "{what} `{}` contains a line break or another character that HTTP does not allow there",
                text.escape_debug()
            ))
        };
        if !self.path.starts_with('/') {
            return Err(format!("the request target `{}` does not begin with `/`", self.path));
        }
        if !plain(&self.path) {
            return bad("the request target", &self.path);
        }
        if !plain(&self.method) || self.method.is_empty() {
            return bad("the method", &self.method);
        }
        let host = ("Host", self.host.as_str());
        for (name, value) in self
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .chain([host])
        {
            if !plain(name) || name.is_empty() || name.contains(':') {
                return bad("the header name", name);
            }
            if value.bytes().any(|byte| matches!(byte, b'\r' | b'\n' | 0)) {
                return bad("the header value", value);
            }
        }
        within(
            "bytes of the body in all requests at once",
            self.body.len() as u64 * u64::from(usage.pipeline),
            0,
            BODY_MAX,
        )?;
        if self.is_second() {
            self.fits_http2(usage)?;
        }
        must_be_final(self.expect.status)
    }

    fn factory(&self, usage: Usage) -> Factory {
        if self.is_second() {
            return http2::factory(self.streams(usage));
        }
        let requests = Rc::new(Requests::new(self, usage));
        Factory::checked(usage.pipeline, move || HttpReplies::new(Rc::clone(&requests)))
    }

    fn checked(&self, size: &dyn Fn(u64) -> String) -> String {
        let body = match (&self.expect.body, self.expect.length) {
            (Some(body), _) => format!(" and {}", body.checked("body", size)),
            (None, Some(length)) => format!(" and a body of {}", size(length)),
            (None, None) => " alone".to_owned(),
        };
        let status = self.expect.status;
        let redirect = if is_redirect(status) {
            " (a redirect, not followed)"
        } else {
            ""
        };
        format!("status {status}{redirect}{body}")
    }

    fn payload(&self) -> Option<u64> {
        self.expect
            .length
            .or_else(|| self.expect.body.as_ref().and_then(Exact::length))
    }

    fn learn(&mut self, replies: &[&[u8]]) -> Result<Option<String>, Failure> {
        let wholes: Result<Vec<Whole>, Failure> = replies.iter().map(|reply| self.parts(reply)).collect();
        let wholes = of_one_kind(wholes?);
        let unchecked = [self.expect.learn_headers(&wholes), self.expect.learn_body(&wholes)];
        let unchecked: Vec<String> = unchecked.into_iter().flatten().collect();
        Ok(Some(unchecked.join("; ")).filter(|text| !text.is_empty()))
    }

    fn apply(&mut self, options: &mut LoadOptions) -> Result<(), String> {
        self.method = options.method.take().unwrap_or_else(get);
        if let Some(target) = options.target.take() {
            self.path = target;
        }
        self.hidden = mem::take(&mut options.hidden);
        let host;
        (host, self.headers) = split_host(mem::take(&mut options.headers));
        self.host = host.unwrap_or_else(|| mem::take(&mut self.host));
        self.body = options.body.take().unwrap_or_default();
        self.version = options.http_version.take().unwrap_or_default();
        self.expect.status = options.expect_status.take().unwrap_or(self.expect.status);
        self.expect.body = options.expect.take().map(Exact::from);
        Ok(())
    }

    fn hide_secrets(&mut self) -> bool {
        hide_secrets(&mut self.path, &mut self.headers, &self.hidden)
    }

    fn traits(&self, reply: &[u8]) -> Result<Vec<Trait>, Failure> {
        let Whole { status, headers, body } = self.parts(reply)?;
        let length = format!("{} bytes", body.len());
        let mut traits = vec![("status", status.to_string().into_bytes())];
        traits.extend(
            headers
                .into_iter()
                .map(|(name, value)| (name, or_none(self.without_origin(value)))),
        );
        traits.extend([("length of the body", length.into_bytes()), ("body", body)]);
        Ok(traits)
    }

    fn can_tell_to_close(&self) -> bool {
        !self.is_second()
    }

    fn greets(&self) -> bool {
        self.is_second()
    }

    fn repeats(&self) -> Repeats {
        // Idempotent methods (RFC 9110, section 9.2.2).
        match self.method.as_str() {
            "GET" | "HEAD" | "OPTIONS" | "TRACE" | "PUT" | "DELETE" if !self.is_second() => Repeats::Harmless,
            _ => Repeats::Harmful,
        }
    }

    fn application(&self) -> Option<&'static [u8]> {
        self.is_second().then_some(b"h2")
    }

    fn welcome(&self, step: usize, _encrypted: bool) -> Vec<u8> {
        if self.is_second() && step == 0 {
            http2::session::generous_settings()
        } else {
            Vec::new()
        }
    }

    fn repeatable(&self, reply: Vec<u8>) -> (Vec<u8>, Vec<usize>) {
        if self.is_second() {
            http2::repeatable(self.body.len(), &reply)
        } else {
            (reply, Vec::new())
        }
    }
}

/// The value of the header `Host`, and the other headers.
pub(crate) fn split_host(mut headers: Vec<(String, String)>) -> (Option<String>, Vec<(String, String)>) {
    let at = headers.iter().position(|(name, _)| name.eq_ignore_ascii_case("host"));
    (at.map(|at| headers.remove(at).1), headers)
}

/// Hides secrets: in the target, and in headers that look secret or have one of the names `hidden`. Returns whether
/// there were any.
pub(crate) fn hide_secrets(path: &mut String, headers: &mut [(String, String)], hidden: &[String]) -> bool {
    let mut found = false;
    for (_, value) in headers
        .iter_mut()
        .filter(|(name, _)| is_secret(name) || hidden.contains(name))
    {
        found = true;
        HIDDEN.clone_into(value);
    }
    let shown = without_secrets(path);
    found |= shown != *path;
    *path = shown;
    found
}

impl Http {
    /// Whether the version is HTTP/2.
    pub fn is_second(&self) -> bool {
        self.version == HttpVersion::V2
    }

    /// Parses a complete reply.
    fn parts(&self, reply: &[u8]) -> Result<Whole, Failure> {
        if !self.is_second() {
            return parts(reply);
        }
        let (head, body) = http2::parts(reply)?;
        Ok(Whole {
            status: head.status.unwrap_or(0),
            headers: TELLING.map(|name| (name, joined(head.values(name)))),
            body,
        })
    }

    fn fits_http2(&self, usage: Usage) -> Result<(), String> {
        let names = self.headers.iter().map(|(name, _)| name);
        if let Some(name) = names
            .into_iter()
            .find(|name| http2::OF_CONNECTION.iter().any(|own| own.eq_ignore_ascii_case(name)))
        {
            return Err(format!("HTTP/2 does not have the header `{name}`: leave it out"));
        }
        let head = self.streams(usage).fields.len();
        within(
            "bytes of the request's headers over HTTP/2",
            head as u64,
            0,
            frame::CONTENT_MAX as u64,
        )
    }

    /// The request for HTTP/2, which each stream repeats.
    fn streams(&self, usage: Usage) -> http2::Requests {
        let length = self.body.len().to_string();
        let lower: Vec<(String, &str)> = self
            .headers
            .iter()
            .map(|(name, value)| (name.to_ascii_lowercase(), value.as_str()))
            .collect();
        let own = [
            (":method", self.method.as_str()),
            (":scheme", if usage.encrypted { "https" } else { "http" }),
            (":path", &self.path),
            (":authority", &self.host),
        ];
        let further = lower.iter().map(|(name, value)| (name.as_str(), *value));
        let sized = wants_length(self).then_some(("content-length", length.as_str()));
        http2::Requests {
            fields: http2::block(own.into_iter().chain(further).chain(sized)),
            body: self.body.to_vec(),
            expected: self.expected(),
            depth: usage.pipeline,
            head_only: self.method == "HEAD",
            meaning: Box::new(Streamed {
                status: self.expect.status,
                headers: self.expect.headers.clone(),
            }),
            known: RecentBlocks::default(),
        }
    }

    /// The expected body.
    fn expected(&self) -> Expected {
        // A reply to this method has no body, whatever its headers say.
        if self.method == "HEAD" {
            return Expected::of("body", None);
        }
        let expect = &self.expect;
        Expected {
            contains: expect.contains.iter().map(|text| text.clone().into_bytes()).collect(),
            length: expect.length,
            ..Expected::of("body", expect.body.clone())
        }
    }

    /// A redirect target without its origin if that is the server itself, because endpoints differ in their host
    /// anyway.
    fn without_origin(&self, target: String) -> String {
        let own = |scheme: &str| {
            let rest = target
                .strip_prefix(scheme)?
                .strip_prefix(split_port(&self.host).ok()?.0)?;
            let path = rest.find('/').unwrap_or(rest.len());
            let is_port = |text: &str| {
                text.strip_prefix(':')
                    .is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
            };
            Some(rest[path..].to_owned()).filter(|_| path == 0 || is_port(&rest[..path]))
        };
        own("http://").or_else(|| own("https://")).unwrap_or(target)
    }
}

/// Error text for a connection that ends without a reply.
pub const NO_REPLY: &str = "the peer closed without a reply";

/// Maximum bytes of a body, and of the bodies of a batch.
pub const BODY_MAX: u64 = 64 << 20;

/// Headers that describe the body, or where to find it.
const TELLING: [&str; 3] = ["content-type", "content-encoding", LOCATION];
const LOCATION: &str = "location";

impl HttpExpect {
    /// Expects the telling headers that all replies have or lack. Returns those that are not checked.
    fn learn_headers(&mut self, replies: &[Whole]) -> Option<String> {
        let mut varying = Vec::new();
        for (place, (name, value)) in replies[0].headers.iter().enumerate() {
            if replies.iter().all(|reply| reply.headers[place].1 == *value) {
                self.headers.entry((*name).to_owned()).or_insert_with(|| value.clone());
            } else {
                varying.push(format!("`{name}`"));
            }
        }
        let names = varying.join(", ");
        (!names.is_empty()).then(|| {
            format!(
                "not checked: {names}, which differs in the first {} replies",
                replies.len()
            )
        })
    }

    /// Expects the body, or its fixed parts. Returns the parts that are not checked.
    fn learn_body(&mut self, replies: &[Whole]) -> Option<String> {
        if self.body.is_some() {
            return None;
        }
        let bodies: Vec<&[u8]> = replies.iter().map(|reply| &reply.body[..]).collect();
        let (body, unchecked) = Exact::learn("body", &bodies);
        self.body = Some(body);
        unchecked
    }
}

/// The replies of the most common kind of content, without those that redirect elsewhere than nearly all others.
fn of_one_kind(mut replies: Vec<Whole>) -> Vec<Whole> {
    let kind = |whole: &Whole, with_place: bool| {
        let headers = whole.headers.clone();
        headers.map(|(name, value)| {
            if with_place || name != LOCATION {
                value
            } else {
                String::new()
            }
        })
    };
    for with_place in [false, true] {
        let kinds: Vec<_> = replies.iter().map(|one| kind(one, with_place)).collect();
        let count = |kind: &[String; TELLING.len()]| kinds.iter().filter(|other| *other == kind).count();
        // The first of equally common kinds.
        let usual = kinds.iter().rev().max_by_key(|kind| count(kind)).cloned();
        let is_rule = usual.as_ref().is_some_and(|kind| 4 * count(kind) >= 3 * kinds.len());
        if !with_place || is_rule {
            replies.retain(|one| Some(kind(one, with_place)) == usual);
        }
    }
    replies
}

/// A final reply of HTTP, with its telling headers, empty if missing.
struct Whole {
    status: u16,
    headers: [(&'static str, String); TELLING.len()],
    body: Vec<u8>,
}

/// Parses a complete HTTP reply; heads of interim replies (1xx) are skipped.
fn parts(mut reply: &[u8]) -> Result<Whole, Failure> {
    loop {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let (response, length) = parse(reply, &mut headers)?;
        let head = Head::of(&response)?;
        reply = &reply[length..];
        if head.status < 200 {
            continue;
        }
        let mut body = Vec::new();
        if head.chunked {
            Chunked::default().feed(reply, |piece| body.extend_from_slice(piece))?;
        } else {
            body.extend_from_slice(reply);
        }
        return Ok(Whole {
            status: head.status,
            headers: TELLING.map(|name| (name, value_of(response.headers, name))),
            body,
        });
    }
}

/// The value of a header, or all its values joined; empty if missing.
pub(crate) fn value_of(headers: &[httparse::Header<'_>], name: &str) -> String {
    let named = headers.iter().filter(|header| header.name.eq_ignore_ascii_case(name));
    joined(named.map(|header| header.value))
}

fn joined<'a>(values: impl Iterator<Item = &'a [u8]>) -> String {
    let values: Vec<String> = values
        .map(|value| value.trim_ascii().escape_ascii().to_string())
        .collect();
    values.join(", ")
}

fn or_none(value: String) -> Vec<u8> {
    if value.is_empty() {
        b"none".to_vec()
    } else {
        value.into_bytes()
    }
}

/// Maximum bytes of a reply's status line and headers, including interim replies (1xx) before it.
pub(crate) const HEAD_MAX: usize = 64 * 1024;
pub(crate) const HEADERS_MAX: usize = 128;

/// Request and expectations, shared by all connections of a thread.
struct Requests {
    request: Vec<u8>,
    status: u16,
    headers: BTreeMap<String, String>,
    expected: Expected,
    /// Whether the method is HEAD: the reply has no body, whatever its headers say.
    head_only: bool,
}

impl Requests {
    fn new(http: &Http, usage: Usage) -> Self {
        Self {
            request: encode(http, usage.reuse).repeat(usage.pipeline as usize),
            status: http.expect.status,
            headers: http.expect.headers.clone(),
            expected: http.expected(),
            head_only: http.method == "HEAD",
        }
    }
}

/// Encodes the request. Adds `Host`, `Connection` and `Content-Length` if the specification's headers lack them.
pub(crate) fn encode(http: &Http, reuse: Reuse) -> Vec<u8> {
    let version = if http.version == HttpVersion::V10 { "1.0" } else { "1.1" };
    // Only if it differs from the version's default: 1.0 closes, 1.1 keeps.
    let connection = match (http.version, reuse) {
        (HttpVersion::V10, Reuse::KeepAlive) => Some("keep-alive"),
        (HttpVersion::V11, Reuse::PerRequest) => Some("close"),
        _ => None,
    };
    let given = |name: &str| is_given(http, name);
    let mut text = format!("{} {} HTTP/{version}\r\n", http.method, http.path);
    let mut add = |name: &str, value: &str| write!(text, "{name}: {value}\r\n").expect("writing to a String");
    // First, as RFC 9110, section 7.2, recommends.
    if !given("Host") {
        add("Host", &http.host);
    }
    if let Some(connection) = connection.filter(|_| !given("Connection")) {
        add("Connection", connection);
    }
    for (name, value) in &http.headers {
        add(name, value);
    }
    if wants_length(http) && !given("Transfer-Encoding") {
        add("Content-Length", &http.body.len().to_string());
    }
    text.push_str("\r\n");
    [text.as_bytes(), &http.body].concat()
}

fn is_given(http: &Http, name: &str) -> bool {
    http.headers.iter().any(|(own, _)| own.eq_ignore_ascii_case(name))
}

/// Whether to add `Content-Length`. POST, PUT and PATCH have a length even without a body (RFC 9110, section 8.6).
fn wants_length(http: &Http) -> bool {
    let has_length = !http.body.is_empty() || matches!(http.method.as_str(), "POST" | "PUT" | "PATCH");
    has_length && !is_given(http, "Content-Length")
}

/// A reply on a stream of HTTP/2.
struct Streamed {
    status: u16,
    headers: BTreeMap<String, String>,
}

impl Meaning for Streamed {
    fn judge_head(&self, head: &Fields) -> Result<(), Failure> {
        let status = head.status.unwrap_or(0);
        if status != self.status {
            let place = head.values("location").next().map(String::from_utf8_lossy);
            return Err(wrong_status(status, self.status, place.as_deref()));
        }
        let other = self
            .headers
            .iter()
            .find_map(|(name, want)| unlike(joined(head.values(name)), name, want));
        other.map_or(Ok(()), |text| Err(Failure::content(text)))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReplyState {
    /// No byte of the reply has come.
    Start,
    Head,
    Length {
        left: u64,
    },
    Chunked,
    UntilClose,
    /// The reply is complete; no more bytes may come before the next request.
    Over,
}

/// What a reply's head tells about the rest.
struct Head {
    status: u16,
    keep: bool,
    chunked: bool,
    length: Option<u64>,
    /// Target of a redirect.
    location: Option<String>,
    /// In words: an expected header that the reply lacks or that differs.
    unlike: Option<String>,
}

struct HttpReplies {
    requests: Rc<Requests>,
    state: ReplyState,
    head: Vec<u8>,
    /// Bytes of earlier interim replies.
    interim: usize,
    chunked: Chunked,
    body: BodyCheck,
    keep: bool,
    fault: Option<Failure>,
}

impl HttpReplies {
    fn new(requests: Rc<Requests>) -> Self {
        Self {
            requests,
            state: ReplyState::Start,
            head: Vec::new(),
            interim: 0,
            chunked: Chunked::default(),
            body: BodyCheck::default(),
            keep: true,
            fault: None,
        }
    }

    /// Takes bytes of the head. When the head ends, sets the body's state. Returns the bytes used.
    fn take_head(&mut self, bytes: &[u8]) -> Result<usize, Failure> {
        let kept = self.head.len();
        let most = HEAD_MAX - self.interim;
        // The empty line may cross the border to the kept bytes.
        let from = kept.saturating_sub(3);
        if kept > 0 {
            // Only as much as shows that the head is too long.
            fill(&mut self.head, bytes, most + 4);
        }
        let text = if kept > 0 { &self.head[..] } else { bytes };
        // RFC 9112, section 2.2: a line may also end with LF alone.
        let end = |mark: &[u8]| Some(from + memmem::find(&text[from..], mark)? + mark.len());
        match end(b"\n\r\n").or_else(|| end(b"\n\n")) {
            Some(end) if end <= most => {
                let (head, end) = parse_head(&text[..end], &self.requests.headers)?;
                self.head.clear();
                self.enter(&head, end)?;
                Ok(end - kept)
            }
            None if text.len() < most => {
                // Bytes that are not HTTP may never bring the awaited empty line.
                let refused = refuse_early(text);
                if kept == 0 {
                    self.head.extend_from_slice(bytes);
                }
                self.state = ReplyState::Head;
                refused.map(|()| bytes.len())
            }
            _ => {
                let interim = if self.interim > 0 {
                    ", interim replies (1xx) included"
                } else {
                    ""
                };
                let text = format!("the reply's head does not end within {} KiB{interim}", HEAD_MAX / 1024);
                Err(Failure::protocol(text))
            }
        }
    }

    /// Continues after a head of `bytes` bytes.
    fn enter(&mut self, head: &Head, bytes: usize) -> Result<(), Failure> {
        let requests = &self.requests;
        if (100..200).contains(&head.status) {
            // An interim reply. A 101, which no request asked for, would end HTTP on this connection.
            self.state = ReplyState::Start;
            self.interim += bytes;
            return if head.status == 101 {
                Err(wrong_status(101, requests.status, None))
            } else {
                Ok(())
            };
        }
        self.keep = head.keep;
        if head.status != requests.status {
            self.fault = Some(wrong_status(head.status, requests.status, head.location.as_deref()));
        } else if let Some(text) = &head.unlike {
            self.fault = Some(Failure::content(text.clone()));
        }
        // In the order of RFC 9112, section 6.3: replies without a body whatever their headers say, then chunks, which
        // override a length, then the length, then the end of the connection.
        self.state = if requests.head_only || matches!(head.status, 204 | 304) {
            ReplyState::Over
        } else if head.chunked {
            self.chunked.reset();
            ReplyState::Chunked
        } else if let Some(left) = head.length {
            self.bound(left)?;
            if left == 0 {
                ReplyState::Over
            } else {
                ReplyState::Length { left }
            }
        } else {
            self.keep = false;
            ReplyState::UntilClose
        };
        Ok(())
    }

    fn take_body(&mut self, bytes: &[u8]) -> Result<usize, Failure> {
        let Self {
            chunked,
            body,
            requests,
            fault,
            ..
        } = self;
        let mut feed = |piece: &[u8]| match fault {
            None => body.feed(&requests.expected, piece),
            Some(_) => body.glance(piece),
        };
        let used = match &mut self.state {
            ReplyState::Length { left } => {
                let take = (bytes.len() as u64).min(*left) as usize;
                feed(&bytes[..take]);
                *left -= take as u64;
                if *left == 0 {
                    self.state = ReplyState::Over;
                }
                take
            }
            ReplyState::Chunked => match chunked.feed(bytes, &mut feed)? {
                Some(used) => {
                    self.state = ReplyState::Over;
                    used
                }
                None => bytes.len(),
            },
            _ => {
                feed(bytes);
                bytes.len()
            }
        };
        self.bound(self.body.received())?;
        Ok(used)
    }

    /// Limits the body, whose length the head states or of which so much has come.
    fn bound(&self, length: u64) -> Result<(), Failure> {
        match &self.fault {
            Some(fault) if length > FAULTY_BODY_MAX => Err(self.body.explained(fault.clone())),
            Some(_) => Ok(()),
            None => self.requests.expected.bound(length),
        }
    }
}

impl Replies for HttpReplies {
    fn request(&self) -> &[u8] {
        &self.requests.request
    }

    fn begin(&mut self) {
        self.state = ReplyState::Start;
        self.interim = 0;
        self.head.clear();
        self.body.reset();
        self.fault = None;
        self.keep = true;
    }

    fn feed(&mut self, bytes: &[u8]) -> Result<(usize, bool), Failure> {
        let used = match self.state {
            ReplyState::Start | ReplyState::Head => self.take_head(bytes)?,
            _ => self.take_body(bytes)?,
        };
        Ok((used, self.state == ReplyState::Over))
    }

    fn judge(&mut self) -> Result<(), Failure> {
        match self.fault.take() {
            Some(fault) => Err(self.body.explained(fault)),
            None if self.requests.head_only => Ok(()),
            None => self.body.finish(&self.requests.expected),
        }
    }

    fn payload(&self, _: u64) -> u64 {
        self.body.received()
    }

    fn keeps(&self) -> bool {
        self.keep
    }

    fn is_endless(&self) -> bool {
        matches!(self.state, ReplyState::UntilClose)
    }

    /// A reply that ends its connection is the last one (RFC 9112, section 9.6).
    fn declined(&self, outstanding: u32) -> u32 {
        match (self.keep, self.state) {
            (true, _) => 0,
            (false, ReplyState::Over) => outstanding,
            // The first outstanding request is the one whose reply is under way.
            (false, _) => outstanding.saturating_sub(1),
        }
    }

    fn end(&mut self, _: u64) -> Result<(), Failure> {
        match self.state {
            ReplyState::UntilClose => {
                self.state = ReplyState::Over;
                Ok(())
            }
            ReplyState::Start => Err(Failure::reset(NO_REPLY)),
            ReplyState::Head => Err(Failure::reset("the peer closed within the reply's head")),
            _ => {
                let received = self.body.received();
                Err(Failure::reset(format!(
                    "the peer closed within the body, after {received} bytes"
                )))
            }
        }
    }
}

pub(crate) fn wrong_status(got: u16, expected: u16, location: Option<&str>) -> Failure {
    let leads = location.map_or_else(String::new, |place| {
        format!(", a redirect to {}", excerpt(place.as_bytes()))
    });
    Failure {
        status: Some(got),
        ..Failure::refused(format!("status {got}{leads}, expected {expected}"))
    }
}

/// Refuses bytes that cannot become a reply before the head is complete.
pub(crate) fn refuse_early(text: &[u8]) -> Result<(), Failure> {
    let known = text.len().min(7);
    if text[..known] == b"HTTP/1."[..known] {
        Ok(())
    } else {
        Err(not_http(text))
    }
}

fn not_http(text: &[u8]) -> Failure {
    // Only bytes that every cut of the stream shows.
    Failure::protocol(format!(
        "the reply begins with {}, not with `HTTP/1.`",
        excerpt(&text[..text.len().min(1)])
    ))
}

/// Parses the head that `text` begins with. Returns it with its length.
pub(crate) fn parse<'h, 'a>(
    text: &'a [u8],
    headers: &'h mut [httparse::Header<'a>],
) -> Result<(httparse::Response<'h, 'a>, usize), Failure> {
    refuse_early(text)?;
    let mut response = httparse::Response::new(headers);
    match response.parse(text) {
        Ok(httparse::Status::Complete(length)) => Ok((response, length)),
        Ok(httparse::Status::Partial) => Err(Failure::protocol("the reply's head is cut off")),
        Err(error) => Err(Failure::protocol(format!("the reply's head cannot be parsed: {error}"))),
    }
}

/// The head that `text` begins with, and its length.
fn parse_head(text: &[u8], expected: &BTreeMap<String, String>) -> Result<(Head, usize), Failure> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let (response, length) = parse(text, &mut headers)?;
    let unlike = expected
        .iter()
        .find_map(|(name, want)| unlike(value_of(response.headers, name), name, want));
    let head = Head::of(&response)?;
    Ok((Head { unlike, ..head }, length))
}

/// In words: how a header differs from the expected one.
fn unlike(got: String, name: &str, want: &str) -> Option<String> {
    let shown = |value: &str| {
        if value.is_empty() {
            "missing".to_owned()
        } else {
            excerpt(value.as_bytes())
        }
    };
    (got != want).then(|| format!("the header `{name}` is {}, expected {}", shown(&got), shown(want)))
}

impl Head {
    fn of(response: &httparse::Response<'_, '_>) -> Result<Self, Failure> {
        let mut head = Self {
            status: response.code.unwrap_or(0),
            // 1.1 keeps a connection and 1.0 closes it, unless a header says otherwise.
            keep: response.version == Some(1),
            chunked: false,
            length: None,
            location: None,
            unlike: None,
        };
        for header in response.headers.iter() {
            head.read(header)?;
        }
        if is_redirect(head.status) {
            head.location = Some(value_of(response.headers, "location"));
        }
        Ok(head)
    }

    fn read(&mut self, header: &httparse::Header<'_>) -> Result<(), Failure> {
        if header.name.eq_ignore_ascii_case("content-length") {
            let length = content_length(header.value)?;
            if self.length.is_some_and(|other| other != length) {
                return Err(Failure::protocol("two different values of Content-Length"));
            }
            self.length = Some(length);
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            if !header.value.eq_ignore_ascii_case(b"chunked") {
                let text = format!("Transfer-Encoding {} is not supported", excerpt(header.value));
                return Err(Failure::protocol(text));
            }
            self.chunked = true;
        } else if header.name.eq_ignore_ascii_case("connection") {
            for word in header.value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
                if word.eq_ignore_ascii_case(b"close") {
                    self.keep = false;
                } else if word.eq_ignore_ascii_case(b"keep-alive") {
                    self.keep = true;
                }
            }
        }
        Ok(())
    }
}

fn content_length(value: &[u8]) -> Result<u64, Failure> {
    digits(value.trim_ascii())
        .ok_or_else(|| Failure::protocol(format!("Content-Length {} is not a length", excerpt(value))))
}

#[cfg(test)]
mod tests {
    use lasthop_trial::result::ErrorClass;
    use proptest::prelude::*;

    use super::{
        super::{
            exchange::testing::{exchange, same_at_every_cut, usage},
            exchange::{Progress, Run},
        },
        *,
    };

    #[test]
    fn bodies_are_found_behind_interim_heads_and_chunks() {
        let plain = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n";
        assert_eq!(parts(plain).unwrap().body, b"ok\n");
        let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
        assert_eq!(parts(chunked).unwrap().body, b"abcde");
        assert!(parts(b"HTTP/1.1 200 OK\r\n").is_err());
    }

    #[test]
    fn a_body_that_changes_is_known_by_what_stays() {
        let reply = |kind: &str, body: &str| {
            let length = body.len();
            format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{body}").into_bytes()
        };
        let mut http = get(HttpExpect {
            status: 200,
            ..HttpExpect::default()
        });
        let mut replies: Vec<Vec<u8>> = (1..32)
            .map(|second| reply("a/b", &format!("It is 12:00:{second:02}.")))
            .collect();
        // A page of another kind teaches nothing.
        replies.insert(20, reply("text/html", "<h1>Sorry</h1>"));
        let replies: Vec<&[u8]> = replies.iter().map(Vec::as_slice).collect();
        assert_eq!(
            http.learn(&replies).unwrap().unwrap(),
            "not checked of the body: bytes 6 to 14 (\"12:00:01.\"), which changed within the first 31 replies"
        );
        assert_eq!(http.payload(), None);
        assert_eq!(
            http.checked(&|bytes| format!("{bytes} B")),
            "status 200 and what stays of the body, 6 B, byte for byte"
        );
        let said = |kind: &str, body: &str| {
            let done = same_at_every_cut(&mut *exchange(&http), &reply(kind, body)).unwrap();
            done.2.map(|fault| fault.message).unwrap_or_default()
        };
        assert_eq!(said("a/b", "It is 9:59:59."), "");
        assert_eq!(
            said("a/b", "It is late."),
            "the body differs from earlier ones at byte 6: expected \"a number\", received \"It is late.\""
        );
        assert_eq!(
            said("a/b", "It was 12:00:01."),
            "the body differs from earlier ones at byte 3: expected \"is \", received \"It was 12:00:01.\""
        );
        assert_eq!(said("a/b", ""), "the body has 0 bytes, expected 7 to 106");
        assert_eq!(
            said("text/html", "It is 12:00:01."),
            "the header `content-type` is \"text/html\", expected \"a/b\""
        );
    }

    /// A reply of HTTP/2 on the first stream.
    fn streamed(fields: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let block = http2::block(fields.iter().copied());
        let ends = if body.is_empty() { frame::END_STREAM } else { 0 };
        frame::write(frame::HEADERS, frame::END_HEADERS | ends, 1, &block, &mut bytes);
        if !body.is_empty() {
            frame::write(frame::DATA, frame::END_STREAM, 1, body, &mut bytes);
        }
        bytes
    }

    fn second_version(expect: HttpExpect) -> Http {
        Http {
            version: HttpVersion::V2,
            ..get(expect)
        }
    }

    #[test]
    fn replies_of_http_2_are_judged_like_those_of_http_1() {
        let expect = HttpExpect {
            status: 200,
            body: Some(Exact::of(b"Hello")),
            headers: BTreeMap::from([("content-type".to_owned(), "a/b".to_owned())]),
            ..HttpExpect::default()
        };
        let http = second_version(expect);
        let said = |fields: &[(&str, &str)], body: &[u8]| {
            let done = same_at_every_cut(&mut *exchange(&http), &streamed(fields, body)).unwrap();
            done.2.map(|fault| fault.message).unwrap_or_default()
        };
        let right = [(":status", "200"), ("content-type", "a/b")];
        assert_eq!(said(&right, b"Hello"), "");
        assert!(said(&right, b"Jello").starts_with("the body differs from the expected one at byte 0"));
        assert!(said(&right, b"").starts_with("the body has 0 bytes, expected 5"));
        assert_eq!(
            said(&[(":status", "200"), ("content-type", "c/d")], b"Hello"),
            "the header `content-type` is \"c/d\", expected \"a/b\""
        );
        assert_eq!(
            said(&[(":status", "500"), ("content-type", "a/b")], b"Hello"),
            "status 500, expected 200: \"Hello\""
        );
        let mut learning = second_version(HttpExpect {
            status: 200,
            ..HttpExpect::default()
        });
        let reply = streamed(&right, b"Hello");
        assert_eq!(learning.learn(&[&reply, &reply]).unwrap(), None);
        assert_eq!(learning.expect.body, http.expect.body);
        assert_eq!(learning.expect.headers["content-type"], "a/b");
        let head = Http {
            method: "HEAD".to_owned(),
            ..http.clone()
        };
        let done = same_at_every_cut(&mut *exchange(&head), &streamed(&right, b"")).unwrap();
        assert_eq!(done.2, None, "it has no body");
    }

    #[test]
    fn a_malformed_reply_of_http_2_is_an_error() {
        let http = second_version(HttpExpect {
            status: 200,
            body: Some(Exact::of(b"Hello")),
            ..HttpExpect::default()
        });
        let said = |http: &Http, fields: &[(&str, &str)], body: &[u8]| match same_at_every_cut(
            &mut *exchange(http),
            &streamed(fields, body),
        ) {
            Ok((.., fault)) => fault.map_or(String::new(), |fault| {
                assert_eq!(fault.class, ErrorClass::Protocol, "{fault}");
                fault.message
            }),
            Err(failure) => {
                assert_eq!(failure.class, ErrorClass::Protocol, "{failure}");
                failure.message
            }
        };
        let ok = (":status", "200");
        for right in [
            &[ok][..],
            &[ok, ("content-length", "5")],
            &[ok, ("content-length", "5"), ("content-length", "5")],
            &[ok, ("x", "a b\tc"), ("!#$%&'*+-.^_`|~09az", "")],
        ] {
            assert_eq!(said(&http, right, b"Hello"), "", "{right:?}");
        }
        for (wrong, text) in [
            (
                &[ok, ("content-length", "6")][..],
                "the body has 5 bytes, and its head says 6",
            ),
            (
                &[ok, ("content-length", "4")],
                "the body has 5 bytes, and its head says 4",
            ),
            (
                &[ok, ("content-length", "0")],
                "the body has 5 bytes, and its head says 0",
            ),
            (
                &[ok, ("content-length", "5"), ("content-length", "6")],
                "two different values",
            ),
            (&[ok, ("content-length", "5, 5")], "no number"),
            (&[ok, ("content-length", "+5")], "no number"),
            (&[ok, ("content-length", "18446744073709551621")], "no number"),
            (&[ok, ok], "two statuses"),
            (&[(":status", "404"), ok], "two statuses"),
            (&[(":status", "0200")], "a status that"),
            (&[(":status", "20")], "a status that"),
            (&[(":status", "+20")], "a status that"),
            (&[(":status", "")], "a status that"),
            (&[(":status", "099")], "a status that"),
            (&[(":status", "101")], "a status that"),
            (&[("x", "y"), ok], "behind other headers"),
            (&[ok, (":path", "/")], "no reply has"),
            (&[(":", "x"), ok], "no reply has"),
            (&[ok, ("x", "y"), (":unknown", "")], "no reply has"),
            (&[ok, ("Content-Type", "a/b")], "lower case"),
            (&[ok, ("", "x")], "lower case, or is none"),
            (&[ok, ("a b", "x")], "or is none"),
            (&[ok, ("a:b", "x")], "or is none"),
            (&[ok, ("a\u{e4}", "x")], "or is none"),
            (&[ok, ("a\u{7f}", "x")], "or is none"),
            (&[ok, ("x", "a\r\nb")], "line end"),
            (&[ok, ("x", "a\0b")], "a NUL"),
            (&[ok, ("x", " a")], "a space around it"),
            (&[ok, ("x", "a\t")], "a space around it"),
            (&[ok, ("connection", "close")], "header of a connection"),
            (&[ok, ("proxy-connection", "close")], "header of a connection"),
            (&[ok, ("keep-alive", "5")], "header of a connection"),
            (&[ok, ("transfer-encoding", "chunked")], "header of a connection"),
            (&[ok, ("upgrade", "h2c")], "header of a connection"),
            (&[ok, ("te", "trailers")], "header of a connection"),
            (&[("x", "y")], "without a status"),
        ] {
            let said = said(&http, wrong, b"Hello");
            assert!(said.contains(text), "{wrong:?}: {said}");
        }
        // These replies have no body, whatever length they state.
        let head = Http {
            method: "HEAD".to_owned(),
            ..http.clone()
        };
        let unchanged = second_version(HttpExpect {
            status: 304,
            ..HttpExpect::default()
        });
        for (http, status) in [(head, "200"), (unchanged, "304")] {
            let fields = [(":status", status), ("content-length", "5")];
            assert_eq!(said(&http, &fields, b""), "");
            assert!(said(&http, &fields, b"Hello").contains("its head says 0"));
        }
        assert!(said(&http, &[(":status", "103")], b"").contains("an interim reply (1xx) ends its stream"));
        assert!(said(&http, &[ok, ("content-length", "5")], b"").contains("the body has 0 bytes"));
    }

    #[test]
    fn a_request_of_http_2_has_no_fields_of_a_connection() {
        let with = |name: &str| {
            let http = Http {
                headers: vec![(name.to_owned(), "x".to_owned())],
                ..second_version(HttpExpect {
                    status: 200,
                    ..HttpExpect::default()
                })
            };
            http.validate(usage(1))
        };
        assert!(with("X-Own").is_ok());
        assert_eq!(
            with("Connection").unwrap_err(),
            "HTTP/2 does not have the header `Connection`: leave it out"
        );
        let long = Http {
            headers: vec![("x".to_owned(), "y".repeat(20_000))],
            ..second_version(HttpExpect {
                status: 200,
                ..HttpExpect::default()
            })
        };
        assert!(
            long.validate(usage(1))
                .unwrap_err()
                .contains("bytes of the request's headers")
        );
        let post = Http {
            method: "POST".to_owned(),
            body: "abc".into(),
            headers: vec![("X-Own".to_owned(), "1".to_owned())],
            ..second_version(HttpExpect::default())
        };
        let streams = post.streams(usage(1));
        let text = String::from_utf8_lossy(&streams.fields).into_owned();
        assert!(text.contains("x-own") && text.contains("content-length"), "{text}");
        assert_eq!(streams.body, b"abc");
    }

    #[test]
    fn headers_that_stay_are_expected_and_others_are_named() {
        let reply = |more: &str| format!("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n{more}\r\nHello").into_bytes();
        let first = reply("Location: /a\r\nContent-Type: a/b\r\n");
        let second = reply("location: /b\r\ncontent-type: a/b\r\n");
        let mut http = get(HttpExpect {
            status: 200,
            ..HttpExpect::default()
        });
        let unchecked = http.learn(&[&first, &second]).unwrap();
        assert_eq!(
            unchecked.unwrap(),
            "not checked: `location`, which differs in the first 2 replies"
        );
        let wanted = [("content-encoding", ""), ("content-type", "a/b")];
        assert_eq!(
            http.expect.headers,
            BTreeMap::from(wanted.map(|(name, value)| (name.to_owned(), value.to_owned())))
        );
        let said = |more: &str| {
            let done = same_at_every_cut(&mut *exchange(&http), &reply(more)).unwrap();
            done.2.map(|fault| fault.message).unwrap_or_default()
        };
        assert_eq!(said("Content-Type: a/b\r\nLocation: /c\r\n"), "");
        assert_eq!(said(""), "the header `content-type` is missing, expected \"a/b\"");
        let packed = said("Content-Type: a/b\r\nContent-Encoding: gzip\r\n");
        assert_eq!(packed, "the header `content-encoding` is \"gzip\", expected missing");
    }

    #[test]
    fn a_redirect_to_the_server_itself_is_its_path() {
        let http = Http {
            host: "127.0.0.1:80".into(),
            ..get(HttpExpect::default())
        };
        for (target, path) in [
            ("http://127.0.0.1/a", "/a"),
            ("https://127.0.0.1:8443/a", "/a"),
            ("/a", "/a"),
            ("http://127.0.0.1.example/a", "http://127.0.0.1.example/a"),
            ("http://127.0.0.1:x/a", "http://127.0.0.1:x/a"),
            ("http://other/a", "http://other/a"),
        ] {
            assert_eq!(http.without_origin(target.into()), path);
        }
    }

    #[test]
    fn headers_are_a_table_or_pairs() {
        let read = |headers: &str| {
            let text = format!(r#"{{"path": "/", "expect": {{"status": 200}}, "headers": {headers}}}"#);
            serde_json::from_str::<Http>(&text).map(|http| http.headers)
        };
        let two = vec![("B".to_owned(), "1".to_owned()), ("A".to_owned(), "2".to_owned())];
        assert_eq!(read(r#"{"B": "1", "A": "2"}"#).unwrap(), two);
        assert_eq!(read(r#"[["B", "1"], ["A", "2"]]"#).unwrap(), two);
        assert!(
            read("3")
                .unwrap_err()
                .to_string()
                .contains("expected a table of headers")
        );
    }

    fn get(expect: HttpExpect) -> Http {
        Http {
            method: "GET".into(),
            path: "/".into(),
            host: "localhost".into(),
            headers: vec![],
            hidden: vec![],
            body: Content::default(),
            version: HttpVersion::V11,
            expect,
        }
    }

    fn expect_body(body: &str) -> HttpExpect {
        HttpExpect {
            status: 200,
            body: Some(body.into()),
            ..HttpExpect::default()
        }
    }

    type Outcome = Result<(u64, bool, Option<ErrorClass>), ErrorClass>;

    /// The outcome at every cut, with a cold and a warm fast path.
    fn outcome(http: &Http, reply: &str) -> Outcome {
        same_at_every_cut(&mut *exchange(http), reply.as_bytes())
            .map(|(payload, keep, fault)| (payload, keep, fault.map(|fault| fault.class)))
            .map_err(|error| error.class)
    }

    /// A failure shows the beginning of the body, at every cut and with every kind of end. A redirect needs no body.
    #[test]
    fn a_wrong_status_is_told_with_what_the_server_says() {
        let http = get(expect_body("Hello"));
        let said = |reply: &str| {
            let done = same_at_every_cut(&mut *exchange(&http), reply.as_bytes()).unwrap();
            done.2.unwrap().message
        };
        let error = |head: &str, body: &str| said(&format!("HTTP/1.1 400 B\r\n{head}\r\n\r\n{body}"));
        let length = |body: &str| error(&format!("Content-Length: {}", body.len()), body);
        assert_eq!(
            length("{\"error\":\"no `id`\"}\n"),
            r#"status 400, expected 200: "{\"error\":\"no `id`\"}\n""#
        );
        let cut = format!("status 400, expected 200: \"{}…\"", "x".repeat(60));
        assert_eq!(length(&"x".repeat(61)), cut);
        assert_eq!(length(""), "status 400, expected 200");
        let chunked = error("Transfer-Encoding: chunked", "2\r\nNo\r\n1\r\n!\r\n0\r\n\r\n");
        assert_eq!(chunked, "status 400, expected 200: \"No!\"");
        let moved = said("HTTP/1.1 301 M\r\nLocation: /a\r\nContent-Length: 5\r\n\r\nMoved");
        assert_eq!(moved, "status 301, a redirect to \"/a\", expected 200");
        let right = same_at_every_cut(
            &mut *exchange(&http),
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHello",
        );
        assert_eq!(right.unwrap().2, None, "nothing of an error stays");
    }

    #[test]
    fn headers_that_sound_secret_or_are_named_so_are_hidden() {
        let headers = ["X-Auth", "X-Session", "X-Signature", "X-Credential", "X-Mine", "Accept"];
        let headers = headers.map(|name| (name.to_owned(), "s3cret".to_owned())).to_vec();
        let mut http = Http {
            headers,
            hidden: vec!["X-Mine".into()],
            path: "/?a=b&sig=s3cret".into(),
            ..get(HttpExpect::default())
        };
        assert!(http.hide_secrets());
        let kept: Vec<&str> = http
            .headers
            .iter()
            .filter(|(_, value)| value == "s3cret")
            .map(|(name, _)| name.as_str())
            .collect();
        assert_eq!((kept, http.path.as_str()), (vec!["Accept"], "/?a=b&sig=***"));
    }

    #[test]
    fn requests_are_encoded_with_what_they_need() {
        let mut http = get(expect_body(""));
        assert_eq!(
            encode(&http, Reuse::KeepAlive),
            b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
        );
        assert_eq!(
            encode(&http, Reuse::PerRequest),
            b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        );
        http.version = HttpVersion::V10;
        http.method = "POST".into();
        http.body = "a=b".into();
        http.headers = vec![("host".into(), "other".into())];
        assert_eq!(
            encode(&http, Reuse::KeepAlive),
            b"POST / HTTP/1.0\r\nConnection: keep-alive\r\nhost: other\r\nContent-Length: 3\r\n\r\na=b"
        );
    }

    #[test]
    fn every_framing_is_read_to_its_end() {
        let http = get(expect_body("Hello"));
        let right = Ok((5, true, None));
        assert_eq!(
            outcome(&http, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHello"),
            right
        );
        assert_eq!(
            outcome(
                &http,
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nHe\r\n3;x=y\r\nllo\r\n0\r\nA: b\r\n\r\n"
            ),
            right
        );
        let closed = Ok((5, false, None));
        assert_eq!(outcome(&http, "HTTP/1.1 200 OK\r\n\r\nHello"), closed);
        assert_eq!(
            outcome(&http, "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nHello"),
            closed
        );
        assert_eq!(
            outcome(
                &http,
                "HTTP/1.1 200 OK\r\nconnection: Close\r\nContent-Length: 5\r\n\r\nHello"
            ),
            closed
        );
        let kept = "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nHello";
        assert_eq!(outcome(&http, kept), right);
        let interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHello";
        assert_eq!(outcome(&http, interim), right);
        for lines in [
            "HTTP/1.1 200 OK\nContent-Length: 5\n\nHello",
            "HTTP/1.1 200 OK\nContent-Length: 5\n\r\nHello",
        ] {
            assert_eq!(outcome(&http, lines), right);
        }
        let blank = get(expect_body("\r\n\r\n!"));
        assert_eq!(
            outcome(&blank, "HTTP/1.1 200 OK\nContent-Length: 5\n\n\r\n\r\n!"),
            right
        );
    }

    #[test]
    fn wrong_answers_have_their_class() {
        let http = get(expect_body("Hello"));
        let cases: [(&str, Outcome); 14] = [
            (
                "HTTP/1.1 502 Bad\r\nContent-Length: 5\r\n\r\nHello",
                Ok((5, true, Some(ErrorClass::WrongStatus))),
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nJello",
                Ok((5, true, Some(ErrorClass::WrongContent))),
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nHell",
                Ok((4, true, Some(ErrorClass::WrongContent))),
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nHello!",
                Ok((6, true, Some(ErrorClass::WrongContent))),
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nHello",
                Err(ErrorClass::Reset),
            ),
            ("HTTP/1.1 200 OK\r\nContent-Le", Err(ErrorClass::Reset)),
            ("", Err(ErrorClass::Reset)),
            ("+PONG\r\n", Err(ErrorClass::Protocol)),
            ("HTTP/1.1 abc\r\n\r\n", Err(ErrorClass::Protocol)),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nHello",
                Err(ErrorClass::Protocol),
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nHello",
                Err(ErrorClass::Protocol),
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
                Err(ErrorClass::Protocol),
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 9999999999999999999\r\n\r\n",
                Err(ErrorClass::WrongContent),
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
                Err(ErrorClass::Protocol),
            ),
        ];
        for (reply, expected) in cases {
            assert_eq!(outcome(&http, reply), expected, "{reply:?}");
        }
    }

    #[test]
    fn replies_without_a_body_end_with_their_head() {
        let mut http = get(HttpExpect {
            status: 204,
            ..HttpExpect::default()
        });
        assert_eq!(outcome(&http, "HTTP/1.1 204 No Content\r\n\r\n"), Ok((0, true, None)));
        http.method = "HEAD".into();
        http.expect.status = 200;
        assert_eq!(
            outcome(&http, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"),
            Ok((0, true, None))
        );
    }

    #[test]
    fn a_head_without_end_is_refused() {
        let http = get(expect_body("Hello"));
        let mut replies = HttpReplies::new(Rc::new(Requests::new(&http, usage(1))));
        let mut fed = replies.feed(b"HTTP/1.1 200 OK\r\n").map(|_| 17);
        while let Ok(bytes) = fed {
            assert!(bytes < 2 * HEAD_MAX, "accepted {bytes} bytes of head");
            fed = replies.feed(b"A: b\r\n").map(|_| bytes + 6);
        }
        assert_eq!(fed.unwrap_err().class, ErrorClass::Protocol);
        assert!(replies.head.len() <= HEAD_MAX + 4);
    }

    #[test]
    fn a_reply_that_was_right_once_is_compared_and_another_is_parsed() {
        let http = get(expect_body("Hello"));
        let mut exchange = exchange(&http);
        let reply = |date: u8, body: &str| {
            format!(
                "HTTP/1.1 200 OK\r\nDate: {date}\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            )
            .into_bytes()
        };
        for (date, body, right) in [
            (1, "Hello", true),
            (1, "Hello", true),
            (2, "Hello", true),
            (2, "Jello", false),
        ] {
            exchange.begin();
            let Ok(Progress::Done(done)) = exchange.receive(&reply(date, body)) else {
                panic!("not whole")
            };
            assert_eq!((done.payload, done.fault.is_none()), (5, right));
        }
        let right = reply(2, "Hello");
        assert_eq!(
            exchange.recognise(&right, 1),
            Some(Run {
                replies: 1,
                used: right.len(),
                payload: 5
            })
        );
    }

    proptest! {
        #[test]
        fn any_bytes_have_one_outcome(reply in proptest::collection::vec(any::<u8>(), 0..80)) {
            let http = get(expect_body("Hello"));
            let _ = same_at_every_cut(&mut *exchange(&http), &reply);
        }

        #[test]
        fn near_misses_have_one_outcome(at in 0usize..110, byte in any::<u8>()) {
            let http = get(expect_body("Hello"));
            let mut reply = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n2\r\nHe\r\n3\r\nllo\r\n0\r\n\r\n".to_vec();
            let at = at % reply.len();
            reply[at] = byte;
            let _ = same_at_every_cut(&mut *exchange(&http), &reply);
        }
    }
}
