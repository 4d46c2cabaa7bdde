//! gRPC: one unary call, repeated, on HTTP/2.

use std::mem;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use lasthop_trial::{address::Endpoint, failure::Failure, options::within};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    check::Expected,
    content::Content,
    escaped::Escaped,
    exact::Exact,
    exchange::{Factory, excerpt},
    http,
    http2::{
        self, Meaning, Requests,
        call::{Fields, RecentBlocks, Reply},
        frame,
    },
    kind::{LoadOptions, Protocol, ProtocolKind, ProtocolSpec, Trait, Usage},
    line::digits,
};
use crate::location::{Location, decode, host_header};

/// Maximum bytes of field 1, and of a batch.
const BYTES_MAX: u64 = 64 << 20;
/// The health check, which every server can offer: its empty message asks whether the server serves.
const HEALTH: &str = "grpc.health.v1.Health/Check";

pub static KIND: ProtocolKind = ProtocolKind {
    schemes: &["grpc", "grpcs"],
    urls: &[
        (
            "grpc://127.0.0.1:50051/package.Service/Method",
            "a unary call of gRPC over HTTP/2; grpcs:// with TLS;\n-H adds metadata, --send @FILE sends a message",
        ),
        (
            "grpc+unix:/run/app.sock:/package.Service/Method",
            "the same over a Unix socket",
        ),
    ],
    ..ProtocolKind::of::<Grpc>("grpc", "gRPC", from_url)
};

fn from_url(location: &Location<'_>) -> Result<(Endpoint, Protocol), String> {
    let location = location.secured_by("grpcs");
    let (endpoint, host, path) = if location.is_socket {
        let (socket, path) = location.socket_and_target()?;
        (location.socket(&socket)?, "localhost", path)
    } else {
        let (host, path) = location.authority();
        (location.tcp(host, None)?, host, path)
    };
    let method = path.trim_start_matches('/');
    let method = if method.is_empty() { HEALTH } else { method };
    let grpc = Grpc {
        method: method.to_owned(),
        host: host_header(host),
        ..Grpc::default()
    };
    Ok((endpoint, grpc.into()))
}

/// gRPC: one unary call, repeated. The request is a message with a single field 1, bytes or a string, unless `message`
/// sets another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Grpc {
    /// Method to call: `package.Service/Method`.
    pub method: String,
    /// `:authority` of the request; `localhost` if missing, whatever the transport.
    #[serde(default = "localhost")]
    pub host: String,
    /// Bytes of field 1, up to 64 MiB, all printable; 0 makes the message empty.
    #[serde(default)]
    pub size: u32,
    /// Content of field 1, instead of a `size`.
    #[serde(default)]
    pub text: Option<Content>,
    /// The whole message, encoded, instead of one with field 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Escaped>,
    /// Metadata of the call, in order; values of names ending in `-bin` are base64.
    #[serde(default, deserialize_with = "http::headers", skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "std::collections::BTreeMap<String, String>")]
    pub metadata: Vec<(String, String)>,
    /// Names of metadata that no record keeps, besides those that look secret.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hidden: Vec<String>,
    /// The expected message of the reply.
    #[serde(default)]
    pub expect: GrpcExpect,
}

fn localhost() -> String {
    "localhost".to_owned()
}

/// The correct reply: status 0, and `"any"` message, an `"echo"` of the request's message, a message of a length
/// (`{ length = 100 }`), or exact bytes (`{ message = "CgVIZWxsbw==" }`, base64, and `{ exact = … }`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GrpcExpect {
    /// Any message.
    #[default]
    Any,
    /// The message of the request.
    Echo,
    /// A message of this many bytes.
    Length(u64),
    /// This message, in base64.
    Message(String),
    /// This message, or the digest of a long one.
    Exact(Exact),
}

impl Grpc {
    /// The request's message with gRPC's prefix.
    pub fn data(&self) -> Vec<u8> {
        prefixed(&self.message())
    }

    /// The request's message.
    fn message(&self) -> Vec<u8> {
        if let Some(Escaped(message)) = &self.message {
            return message.clone();
        }
        field_1(&self.text.as_ref().map_or_else(
            || (0..self.size).map(|index| b'a' + (index % 26) as u8).collect(),
            |text| text.to_vec(),
        ))
    }

    fn expected(&self) -> Expected {
        let (body, length) = match &self.expect {
            GrpcExpect::Any => (None, None),
            GrpcExpect::Echo => (Some(Exact::Bytes(self.message())), None),
            GrpcExpect::Length(length) => (None, Some(*length)),
            GrpcExpect::Message(text) => (STANDARD.decode(text).ok().map(Exact::Bytes), None),
            GrpcExpect::Exact(message) => (Some(message.clone()), None),
        };
        Expected {
            length,
            ..Expected::of("message", body)
        }
    }

    /// The header fields of the request.
    fn fields(&self, usage: Usage) -> Vec<u8> {
        let path = format!("/{}", self.method);
        let own = [
            (":method", "POST"),
            (":scheme", if usage.encrypted { "https" } else { "http" }),
            (":path", &path),
            (":authority", &self.host),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
        ];
        let metadata = self.metadata.iter().map(|(name, value)| (&**name, &**value));
        http2::block(own.into_iter().chain(metadata))
    }

    fn requests(&self, usage: Usage) -> Requests {
        Requests {
            fields: self.fields(usage),
            body: self.data(),
            expected: self.expected(),
            depth: usage.pipeline,
            head_only: false,
            meaning: Box::new(Unary),
            known: RecentBlocks::default(),
        }
    }
}

/// Checks a name and a value of metadata to send beside gRPC's own headers.
fn valid_metadata(name: &str, value: &str) -> Result<(), String> {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_plain) {
        let text = format!(
            "`{}` is no name of metadata: use a-z, 0-9, `-`, `_` and `.`",
            name.escape_debug()
        );
        return Err(text);
    }
    if name == "content-type" || http2::OF_CONNECTION.contains(&name) {
        return Err(format!("gRPC sets `{name}` itself: leave it out"));
    }
    // The value may be a secret.
    if !value.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        let text =
            format!("the value of `{name}` is not printable ASCII: name it `{name}-bin`, and encode it in base64");
        return Err(text);
    }
    Ok(())
}

/// A protobuf message with `content` as its only field; empty without content.
fn field_1(content: &[u8]) -> Vec<u8> {
    if content.is_empty() {
        return Vec::new();
    }
    // Field number 1; a length follows.
    let mut message = vec![0x0a];
    let mut left = content.len();
    while left > 0x7f {
        message.push(left as u8 | 0x80);
        left >>= 7;
    }
    message.push(left as u8);
    message.extend_from_slice(content);
    message
}

/// A message with gRPC's prefix.
fn prefixed(message: &[u8]) -> Vec<u8> {
    [&[0], &(message.len() as u32).to_be_bytes()[..], message].concat()
}

impl ProtocolSpec for Grpc {
    fn kind(&self) -> &'static ProtocolKind {
        &KIND
    }

    fn validate(&self, usage: Usage) -> Result<(), String> {
        let plain = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        let names = self
            .method
            .split_once('/')
            .filter(|(service, method)| plain(service) && plain(method));
        if names.is_none_or(|(_, method)| method.contains('/')) {
            let text = format!(
                "`{}` is no method of gRPC: write `package.Service/Method`",
                self.method.escape_debug()
            );
            return Err(text);
        }
        if !plain(&self.host) {
            return Err(format!("`{}` is no host", self.host.escape_debug()));
        }
        within("length of the method", self.method.len() as u64, 3, 4_096)?;
        within("length of the host", self.host.len() as u64, 1, 4_096)?;
        let given = [self.text.is_some(), self.size > 0, self.message.is_some()];
        if given.iter().filter(|is_given| **is_given).count() > 1 {
            return Err("`text` and `size` say what field 1 is, and `message` all of it: give one".to_owned());
        }
        self.metadata
            .iter()
            .try_for_each(|(name, value)| valid_metadata(name, value))?;
        if let GrpcExpect::Message(text) = &self.expect
            && STANDARD.decode(text).is_err()
        {
            return Err(format!("the message to be expected, `{text}`, is not base64"));
        }
        let size = match (&self.message, &self.text) {
            (Some(Escaped(message)), _) => message.len() as u64,
            (None, Some(text)) => text.len() as u64,
            (None, None) => u64::from(self.size),
        };
        within(
            "bytes of the messages in all calls at once",
            size * u64::from(usage.pipeline),
            0,
            BYTES_MAX,
        )?;
        let head = self.fields(usage).len() as u64;
        within("bytes of the metadata", head, 0, frame::CONTENT_MAX as u64)
    }

    fn factory(&self, usage: Usage) -> Factory {
        http2::factory(self.requests(usage))
    }

    fn checked(&self, size: &dyn Fn(u64) -> String) -> String {
        let expected = self.expected();
        match (expected.body, expected.length) {
            (Some(message), _) => format!("status 0 and {}", message.checked("message", size)),
            (None, Some(length)) => format!("status 0 and {}", size(length)),
            (None, None) => "status 0 alone".to_owned(),
        }
    }

    fn payload(&self) -> Option<u64> {
        self.expected().length()
    }

    fn learn(&mut self, replies: &[&[u8]]) -> Result<Option<String>, Failure> {
        if self.expect != GrpcExpect::Any {
            return Ok(None);
        }
        let messages: Result<Vec<Vec<u8>>, Failure> = replies.iter().map(|reply| message(reply)).collect();
        let messages = messages?;
        let messages: Vec<&[u8]> = messages.iter().map(Vec::as_slice).collect();
        let (learnt, unchecked) = Exact::learn("message", &messages);
        self.expect = match learnt {
            Exact::Bytes(bytes) if bytes == self.message() => GrpcExpect::Echo,
            Exact::Bytes(bytes) => GrpcExpect::Message(STANDARD.encode(bytes)),
            learnt => GrpcExpect::Exact(learnt),
        };
        Ok(unchecked)
    }

    fn apply(&mut self, options: &mut LoadOptions) -> Result<(), String> {
        self.size = options.size.take().unwrap_or(self.size);
        self.text = options.body.take();
        self.message = options.send.take();
        self.hidden = options.hidden.drain(..).map(|name| name.to_ascii_lowercase()).collect();
        let (host, metadata) = http::split_host(mem::take(&mut options.headers));
        self.host = host.unwrap_or_else(|| mem::take(&mut self.host));
        // HTTP/2 has only lower-case names.
        let lower = metadata
            .into_iter()
            .map(|(name, value)| (name.to_ascii_lowercase(), value));
        self.metadata = lower.collect();
        if let Some(text) = options.expect.take() {
            self.expect = GrpcExpect::Message(STANDARD.encode(field_1(text.as_bytes())));
        }
        Ok(())
    }

    fn hide_secrets(&mut self) -> bool {
        http::hide_secrets(&mut String::new(), &mut self.metadata, &self.hidden)
    }

    fn traits(&self, reply: &[u8]) -> Result<Vec<Trait>, Failure> {
        let message = message(reply)?;
        let length = format!("{} bytes", message.len());
        Ok(vec![
            ("length of the message", length.into_bytes()),
            ("message", message),
        ])
    }

    fn greets(&self) -> bool {
        true
    }

    fn application(&self) -> Option<&'static [u8]> {
        Some(b"h2")
    }

    fn welcome(&self, step: usize, _encrypted: bool) -> Vec<u8> {
        if step == 0 {
            http2::session::generous_settings()
        } else {
            Vec::new()
        }
    }

    fn repeatable(&self, reply: Vec<u8>) -> (Vec<u8>, Vec<usize>) {
        http2::repeatable(self.data().len(), &reply)
    }
}

/// Bytes before a message: a compression flag, and the length.
const PREFIX: usize = 5;
const OK: u16 = 200;

/// The message of a complete, correct reply.
fn message(reply: &[u8]) -> Result<Vec<u8>, Failure> {
    let (_, mut data) = http2::parts(reply)?;
    Ok(data.split_off(PREFIX.min(data.len())))
}

/// Checks a reply of one message as grpc-go does, and a little more strictly.
struct Unary;

impl Meaning for Unary {
    fn prefix(&self) -> usize {
        PREFIX
    }

    fn judge_head(&self, head: &Fields) -> Result<(), Failure> {
        status(head)?;
        if let Some(status) = head.status.filter(|status| *status != OK) {
            let text = format!("HTTP status {status}, expected {OK}");
            return Err(Failure {
                status: Some(status),
                ..Failure::refused(text)
            });
        }
        let mut types = head.values("content-type");
        let other = types.clone().find(|value| !is_grpc(value));
        if other.is_some() || types.next().is_none() {
            let got = other.map_or("missing".to_owned(), excerpt);
            let text = format!("gRPC: the content-type is {got}, expected \"application/grpc\"");
            return Err(Failure::content(text));
        }
        Ok(())
    }

    fn judge(&self, reply: &Reply<'_>) -> Result<(), Failure> {
        if reply.trailers.map_or(Ok(None), status)?.is_none() {
            return Err(Failure::protocol("gRPC: a reply without a grpc-status"));
        }
        let Some(&[compressed, ref length @ ..]) = reply.prefix.first_chunk::<PREFIX>() else {
            return Err(Failure::content("gRPC: the reply has no message"));
        };
        if compressed != 0 {
            return Err(Failure::protocol(
                "gRPC: the message is compressed, which was not asked for",
            ));
        }
        if u64::from(frame::number(length)) != reply.received {
            return Err(Failure::content(
                "gRPC: the message is not as long as it says, or there are several",
            ));
        }
        Ok(())
    }
}

/// The HTTP status, if these fields report success.
fn status(fields: &Fields) -> Result<Option<u16>, Failure> {
    let mut status = None;
    for value in fields.values("grpc-status") {
        let code = digits(value);
        if code.is_none() || status.is_some_and(|other| Some(other) != code) {
            return Err(Failure::protocol(
                "gRPC: a grpc-status that is no number, or two that differ",
            ));
        }
        status = code;
    }
    match status {
        Some(code @ 1..) => {
            let message = fields.values("grpc-message").last().unwrap_or_default();
            Err(refusal(code, &String::from_utf8_lossy(message)))
        }
        other => Ok(other),
    }
}

/// Whether the media type is `application/grpc`, alone or with a message format.
fn is_grpc(media: &[u8]) -> bool {
    const GRPC: &[u8] = b"application/grpc";
    let begins = media
        .get(..GRPC.len())
        .is_some_and(|name| name.eq_ignore_ascii_case(GRPC));
    begins && matches!(media.get(GRPC.len()), None | Some(b'+' | b';'))
}

/// The failure of a call that the server reports as failed. The text is percent-encoded.
fn refusal(code: u16, message: &str) -> Failure {
    const NAMES: [&str; 17] = [
        "OK",
        "CANCELLED",
        "UNKNOWN",
        "INVALID_ARGUMENT",
        "DEADLINE_EXCEEDED",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED",
        "FAILED_PRECONDITION",
        "ABORTED",
        "OUT_OF_RANGE",
        "UNIMPLEMENTED",
        "INTERNAL",
        "UNAVAILABLE",
        "DATA_LOSS",
        "UNAUTHENTICATED",
    ];
    let name = NAMES
        .get(usize::from(code))
        .map(|name| format!(" ({name})"))
        .unwrap_or_default();
    let message = decode(message).unwrap_or_else(|_| message.to_owned());
    let colon = if message.is_empty() { "" } else { ": " };
    let text: String = message.chars().take(500).collect();
    let text = format!("grpc-status {code}{name}{colon}{text}");
    Failure {
        status: Some(code),
        ..Failure::refused(text)
    }
}
#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use std::rc::Rc;

    use lasthop_trial::{options::Reuse, result::ErrorClass};

    use super::{
        super::{
            exchange::{
                Done, Exchange, Progress,
                testing::{feed, same_at_every_cut},
            },
            http2::{frames, session::Session},
        },
        frame::{
            CONTENT_MAX, DATA, END_HEADERS, END_STREAM, GOAWAY, HEAD, HEADERS, PING, RST_STREAM, SETTINGS,
            WINDOW_UPDATE,
        },
        *,
    };
    use crate::location::HIDDEN;

    const USAGE: Usage = Usage {
        reuse: Reuse::KeepAlive,
        pipeline: 1,
        encrypted: false,
        is_local: false,
        keeps_boundaries: false,
    };

    fn hello() -> Grpc {
        Grpc {
            method: "a.B/C".into(),
            host: "h".into(),
            text: Some("Hello".into()),
            expect: GrpcExpect::Echo,
            ..Grpc::default()
        }
    }

    fn exchange(grpc: &Grpc, pipeline: u32) -> Session {
        let mut exchange = Session::new(Rc::new(grpc.requests(Usage { pipeline, ..USAGE })));
        exchange.reset();
        exchange
    }

    fn frame(kind: u8, flags: u8, stream: u32, content: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        frame::write(kind, flags, stream, content, &mut bytes);
        bytes
    }

    fn block(fields: &[(&str, &str)]) -> Vec<u8> {
        http2::block(fields.iter().copied())
    }

    const GRPC: (&str, &str) = ("content-type", "application/grpc");

    fn head(stream: u32) -> Vec<u8> {
        frame(HEADERS, END_HEADERS, stream, &block(&[(":status", "200"), GRPC]))
    }

    fn trailers(stream: u32, fields: &[(&str, &str)]) -> Vec<u8> {
        frame(HEADERS, END_HEADERS | END_STREAM, stream, &block(fields))
    }

    fn reply(stream: u32, text: &str) -> Vec<u8> {
        let data = frame(DATA, 0, stream, &prefixed(&field_1(text.as_bytes())));
        [head(stream), data, trailers(stream, &[("grpc-status", "0")])].concat()
    }

    fn outcome(grpc: &Grpc, reply: &[u8]) -> Result<(u64, Option<Failure>), Failure> {
        let (payload, kept, fault) = same_at_every_cut(&mut exchange(grpc, 1), reply)?;
        assert!(kept);
        Ok((payload, fault))
    }

    #[test]
    fn a_request_is_a_head_and_a_message_for_each_stream() {
        let mut exchange = exchange(&hello(), 2);
        let fields = exchange.requests.fields.clone();
        let message = b"\0\0\0\0\x07\x0a\x05Hello";
        let call = |stream| {
            [
                frame(HEADERS, END_HEADERS, stream, &fields),
                frame(DATA, END_STREAM, stream, message),
            ]
        };
        exchange.begin();
        // The heads come first: each window may delay the messages.
        let [[head_1, data_1], [head_3, data_3]] = [call(1), call(3)];
        assert_eq!(exchange.request(), [head_1, head_3, data_1, data_3].concat());
        exchange.begin();
        assert_eq!(exchange.request().len(), call(1).concat().len() * 2);
        assert_eq!(exchange.request()[..HEAD], call(5)[0][..HEAD]);
        let sized = Grpc {
            text: None,
            size: 300,
            ..hello()
        };
        assert_eq!(sized.message()[..4], [0x0a, 0xac, 2, b'a']);
        assert_eq!(Grpc { size: 0, ..sized }.message(), b"");
    }

    fn with_metadata(name: &str, value: &str) -> Grpc {
        Grpc {
            metadata: vec![(name.to_owned(), value.to_owned())],
            ..hello()
        }
    }

    #[test]
    fn metadata_and_any_message_are_sent() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let mut grpc = Grpc { text: None, ..hello() };
        let mut options = LoadOptions {
            headers: vec![
                pair("Authorization", "Bearer x"),
                pair("X-Trace", "7"),
                pair("Host", "other"),
            ],
            hidden: vec!["X-Trace".to_owned()],
            send: Some(Escaped(b"\x10\x05".to_vec())),
            ..LoadOptions::default()
        };
        grpc.apply(&mut options).unwrap();
        assert_eq!((options.left(), grpc.validate(USAGE)), (None, Ok(())));
        assert_eq!(
            (grpc.data(), grpc.host.as_str()),
            (b"\0\0\0\0\x02\x10\x05".to_vec(), "other")
        );
        let [own, more] = [&hello(), &grpc].map(|grpc| {
            Grpc {
                host: "h".into(),
                ..grpc.clone()
            }
            .fields(USAGE)
        });
        let metadata = block(&[("authorization", "Bearer x"), ("x-trace", "7")]);
        assert_eq!(more, [own, metadata].concat());
        let written = serde_json::to_string(&grpc).unwrap();
        assert_eq!(serde_json::from_str::<Grpc>(&written).unwrap(), grpc);
        assert!(grpc.hide_secrets());
        assert_eq!(grpc.metadata, [pair("authorization", HIDDEN), pair("x-trace", HIDDEN)]);
    }

    #[test]
    fn right_replies_are_read_to_their_end() {
        let right = reply(1, "Hello");
        assert_eq!(outcome(&hello(), &right), Ok((7, None)));
        for expect in [
            GrpcExpect::Any,
            GrpcExpect::Length(7),
            GrpcExpect::Message(STANDARD.encode(b"\x0a\x05Hello")),
        ] {
            assert_eq!(outcome(&Grpc { expect, ..hello() }, &right), Ok((7, None)));
        }
        // In pieces, padded, with a priority, among control frames, and after an interim reply.
        let fields = block(&[(":status", "200"), ("content-type", "application/grpc+proto")]);
        let (first, rest) = fields.split_at(9);
        let pieces = [
            frame(WINDOW_UPDATE, 0, 0, &[0, 0, 1, 0]),
            frame(HEADERS, END_HEADERS, 1, &block(&[(":status", "103")])),
            frame(HEADERS, 0x28, 1, &[&[2, 0, 0, 0, 0, 9][..], first, &[0, 0]].concat()),
            frame(frame::CONTINUATION, END_HEADERS, 1, rest),
            frame(DATA, 8, 1, b"\x01\0\0\0\0\x07\x0a\0"),
            frame(99, 7, 1, b"nobody knows this"),
            frame(DATA, 0, 1, b"\x05Hel"),
            frame(PING, 0, 0, b"12345678"),
            frame(DATA, 0, 1, b"lo"),
            trailers(1, &[("grpc-status", "0"), ("grpc-message", "")]),
        ];
        assert_eq!(outcome(&hello(), &pieces.concat()), Ok((7, None)));
    }

    #[test]
    fn a_table_that_the_server_uses_anyway_is_followed() {
        // `grpc-status: 0` enters the table with the first reply; the second reply only refers to the entry.
        let entry = [b"\x40\x0bgrpc-status".as_slice(), b"\x010"].concat();
        let mut exchange = exchange(&hello(), 1);
        for (stream, last) in [(1, entry), (3, vec![0xbe]), (5, vec![0xbe])] {
            let data = frame(DATA, 0, stream, &prefixed(&field_1(b"Hello")));
            let end = frame(HEADERS, END_HEADERS | END_STREAM, stream, &last);
            exchange.begin();
            let Ok(Progress::Done(done)) = exchange.receive(&[head(stream), data, end].concat()) else {
                panic!()
            };
            assert_eq!(done.fault, None);
        }
    }

    #[test]
    fn wrong_replies_have_their_class_and_keep_the_connection() {
        use ErrorClass::{Protocol, Reset, WrongContent, WrongStatus};
        let data = |bytes: &[u8]| frame(DATA, 0, 1, bytes);
        let end = trailers(1, &[("grpc-status", "0")]);
        let refused = [
            (":status", "200"),
            ("grpc-status", "5"),
            ("grpc-message", "no%20such%20%C3%A9"),
        ];
        let message = data(&prefixed(&field_1(b"Hello")));
        let whole = |fields: &[(&str, &str)]| {
            [
                frame(HEADERS, END_HEADERS, 1, &block(fields)),
                message.clone(),
                end.clone(),
            ]
            .concat()
        };
        let ended = |fields: &[(&str, &str)]| [head(1), message.clone(), trailers(1, fields)].concat();
        for (bytes, class, text) in [
            (
                reply(1, "Jello"),
                WrongContent,
                "differs from the expected one at byte 2",
            ),
            (reply(1, "Hell"), WrongContent, "differs"),
            (
                trailers(1, &refused),
                WrongStatus,
                "grpc-status 5 (NOT_FOUND): no such é",
            ),
            (
                trailers(1, &[(":status", "200"), ("grpc-status", "99")]),
                WrongStatus,
                "grpc-status 99",
            ),
            (
                trailers(1, &[(":status", "502")]),
                WrongStatus,
                "HTTP status 502, expected 200",
            ),
            (
                trailers(1, &[(":status", "200"), GRPC]),
                Protocol,
                "without a grpc-status",
            ),
            (
                trailers(1, &[(":status", "200")]),
                WrongContent,
                "content-type is missing",
            ),
            (
                whole(&[(":status", "500"), GRPC]),
                WrongStatus,
                "HTTP status 500, expected 200",
            ),
            (
                whole(&[(":status", "404"), GRPC]),
                WrongStatus,
                "HTTP status 404, expected 200",
            ),
            (
                [
                    frame(HEADERS, END_HEADERS, 1, &block(&[(":status", "503")])),
                    frame(DATA, END_STREAM, 1, b"no upstream"),
                ]
                .concat(),
                WrongStatus,
                "HTTP status 503, expected 200: \"no upstream\"",
            ),
            (
                whole(&[(":status", "200"), ("content-type", "text/html")]),
                WrongContent,
                "content-type is \"text/html\"",
            ),
            (
                whole(&[(":status", "200"), ("content-type", "application/grpcx")]),
                WrongContent,
                "application/grpcx",
            ),
            (
                whole(&[(":status", "200"), GRPC, ("grpc-status", "13")]),
                WrongStatus,
                "grpc-status 13 (INTERNAL)",
            ),
            (
                ended(&[("grpc-status", "+0")]),
                Protocol,
                "a grpc-status that is no number, or two that differ",
            ),
            (
                ended(&[("grpc-status", "13"), ("grpc-status", "0")]),
                Protocol,
                "or two that differ",
            ),
            (ended(&[("grpc-status", "")]), Protocol, "no number"),
            (
                [head(1), frame(DATA, END_STREAM, 1, b"x")].concat(),
                Protocol,
                "without a grpc-status",
            ),
            ([head(1), end.clone()].concat(), WrongContent, "no message"),
            (
                [head(1), data(b"\x01\0\0\0\0"), end.clone()].concat(),
                Protocol,
                "compressed",
            ),
            (
                [head(1), data(b"\0\0\0\0\x09\x0a\x05Hello"), end.clone()].concat(),
                WrongContent,
                "not as long",
            ),
            (
                frame(RST_STREAM, 0, 1, &[0, 0, 0, 7]),
                Reset,
                "reset the stream: REFUSED_STREAM",
            ),
        ] {
            let fault = outcome(&hello(), &bytes).unwrap().1.unwrap();
            assert_eq!(fault.class, class, "{fault}");
            assert!(fault.message.contains(text), "{fault}");
        }
    }

    #[test]
    fn after_what_is_not_http_2_the_connection_is_of_no_use() {
        let update = |stream, by: u32| frame(WINDOW_UPDATE, 0, stream, &by.to_be_bytes());
        let going = |last: u8, code: u8| {
            frame(
                GOAWAY,
                0,
                0,
                &[&[0, 0, 0, last, 0, 0, 0, code][..], b"too_many_pings"].concat(),
            )
        };
        for (bytes, class) in [
            (b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), ErrorClass::Protocol),
            (frame(DATA, 0, 1, b"x"), ErrorClass::Protocol),
            (reply(3, "Hello"), ErrorClass::Protocol),
            (reply(2, "Hello"), ErrorClass::Protocol),
            ([head(1), head(1)].concat(), ErrorClass::Protocol),
            (frame(HEADERS, END_HEADERS, 1, &[0x80]), ErrorClass::Protocol),
            (
                frame(HEADERS, END_HEADERS, 1, &block(&[("x", "y")])),
                ErrorClass::Protocol,
            ),
            (frame(HEADERS, 8, 1, &[9, 1]), ErrorClass::Protocol),
            ([frame(HEADERS, 0, 1, b""), head(1)].concat(), ErrorClass::Protocol),
            (
                [frame(HEADERS, 0, 1, b""), frame(frame::CONTINUATION, 4, 3, b"x")].concat(),
                ErrorClass::Protocol,
            ),
            (frame(frame::CONTINUATION, 4, 1, b"x"), ErrorClass::Protocol),
            (frame(frame::PUSH_PROMISE, 4, 1, b"\0\0\0\x02"), ErrorClass::Protocol),
            (frame(SETTINGS, 0, 0, b"12345"), ErrorClass::Protocol),
            (frame(SETTINGS, 0, 0, b"\0\x04\xff\xff\xff\xff"), ErrorClass::Protocol),
            (frame(SETTINGS, 0, 0, b"\0\x03\0\0\0\0"), ErrorClass::WrongStatus),
            (frame(PING, 0, 0, b"1234"), ErrorClass::Protocol),
            (update(0, 0), ErrorClass::Protocol),
            (update(1, i32::MAX as u32), ErrorClass::Protocol),
            (going(0, 0), ErrorClass::Reset),
            (going(1, 11), ErrorClass::Reset),
            (frame(GOAWAY, 0, 0, b"short"), ErrorClass::Protocol),
            (reply(1, "Hello")[..30].to_vec(), ErrorClass::Reset),
        ] {
            assert_eq!(
                outcome(&hello(), &bytes).unwrap_err().class,
                class,
                "{}",
                excerpt(&bytes)
            );
        }
        let said = outcome(&hello(), &going(1, 11)).unwrap_err().message;
        assert!(
            said.ends_with("(GOAWAY): ENHANCE_YOUR_CALM, \"too_many_pings\""),
            "{said}"
        );
        let pings = frame(PING, 0, 0, b"12345678").repeat(10_001);
        let mut exchange = exchange(&hello(), 1);
        exchange.begin();
        assert_eq!(exchange.receive(&pings).unwrap_err().class, ErrorClass::Protocol);
    }

    #[test]
    fn replies_of_a_batch_come_in_any_order() {
        let mut exchange = exchange(&hello(), 3);
        exchange.begin();
        let mixed = [head(5), head(1), reply(3, "Jello")].concat();
        let Ok(Progress::Done(done)) = exchange.receive(&mixed) else {
            panic!()
        };
        assert_eq!(
            (done.used, done.fault.unwrap().class),
            (mixed.len(), ErrorClass::WrongContent)
        );
        let data = |stream| frame(DATA, 0, stream, &prefixed(&field_1(b"Hello")));
        let end = |stream| trailers(stream, &[("grpc-status", "0")]);
        let first = [data(1), data(5), end(5)].concat();
        // A ping and the beginning of another one follow the last reply.
        let rest = [first.clone(), end(1), frame(PING, 0, 0, b"12345678"), [0; 5].to_vec()].concat();
        assert_eq!(
            exchange.receive(&rest),
            Ok(Progress::Done(Done {
                used: first.len(),
                keep: true,
                payload: 7,
                fault: None
            }))
        );
        let rest = &rest[first.len()..];
        assert_eq!(
            exchange.receive(rest),
            Ok(Progress::Done(Done {
                used: rest.len(),
                keep: true,
                payload: 7,
                fault: None
            }))
        );
        assert!(exchange.request().ends_with(&frame(PING, frame::ACK, 0, b"12345678")));
    }

    #[test]
    fn no_window_is_exceeded() {
        let large = Grpc {
            text: None,
            size: 100_000,
            ..hello()
        };
        let mut exchange = exchange(&large, 1);
        exchange.begin();
        let sent = |exchange: &Session| {
            let mut count = 0;
            frames(exchange.request(), |frame| {
                assert!(frame.content.len() <= CONTENT_MAX);
                count += if frame.kind == DATA { frame.content.len() } else { 0 };
                Ok(())
            })
            .unwrap();
            count
        };
        let whole = prefixed(&large.message()).len();
        assert_eq!(sent(&exchange), 65_535);
        let mut hears = |bytes: &[u8]| {
            assert_eq!(exchange.receive(bytes), Ok(Progress::More));
            sent(&exchange)
        };
        assert_eq!(
            hears(&frame(WINDOW_UPDATE, 0, 0, &[0, 1, 0, 0])),
            65_535,
            "that of the stream is closed"
        );
        assert_eq!(hears(&frame(WINDOW_UPDATE, 0, 1, &[0, 0, 0, 100])), 65_635);
        assert_eq!(
            hears(&frame(SETTINGS, 0, 0, b"\0\x04\0\0\0\0")),
            65_635,
            "a window may become negative"
        );
        assert_eq!(hears(&frame(SETTINGS, 0, 0, b"\0\x04\0\x0f\0\0")), whole);
        // A server that answers before it has received everything gets no more.
        let mut exchange = super::tests::exchange(&large, 1);
        exchange.begin();
        let early = trailers(1, &[(":status", "200"), ("grpc-status", "12")]);
        assert!(matches!(
            exchange.receive(&early),
            Ok(Progress::Done(Done {
                fault: Some(_),
                keep: true,
                ..
            }))
        ));
        assert!(exchange.request().ends_with(&frame(RST_STREAM, 0, 1, &[0, 0, 0, 8])));
    }

    #[test]
    fn the_greeting_ends_with_the_servers_settings() {
        let mut exchange = exchange(&hello(), 2);
        let mut said = Vec::new();
        assert_eq!(exchange.greet(&[], &mut said), Ok(false));
        assert!(said.starts_with(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"));
        said.clear();
        let settings = [frame(SETTINGS, 0, 0, b"\0\x03\0\0\0\x02"), frame(SETTINGS, 1, 0, b"")].concat();
        assert_eq!(exchange.greet(&settings[..20], &mut said), Ok(false));
        assert_eq!(exchange.greet(&settings[20..], &mut said), Ok(true));
        assert_eq!(said, frame(SETTINGS, frame::ACK, 0, b""));
        let refused = |bytes: &[u8]| {
            let mut exchange = super::tests::exchange(&hello(), 2);
            exchange.greet(&[], &mut Vec::new()).unwrap();
            exchange.greet(bytes, &mut Vec::new()).unwrap_err().message
        };
        assert!(refused(b"HTTP/1.1 400 Bad Request\r\n").contains("does not speak HTTP/2: \"HTTP/1.1 400"));
        assert!(refused(&frame(PING, 0, 0, b"12345678")).contains("does not begin with its settings"));
        let few = refused(&frame(SETTINGS, 0, 0, b"\0\x03\0\0\0\x01"));
        assert_eq!(
            few,
            "the server allows 1 streams at once on a connection; 2 are asked for"
        );
    }

    #[test]
    fn a_connection_ends_when_it_is_used_up_or_the_server_leaves() {
        let keep = |exchange: &mut Session, stream| {
            exchange.begin();
            let Ok(Progress::Done(done)) = exchange.receive(&reply(stream, "Hello")) else {
                panic!()
            };
            done.keep
        };
        let mut exchange = exchange(&hello(), 1);
        assert!(keep(&mut exchange, 1));
        exchange.use_up((1 << 31) - 5);
        assert!(keep(&mut exchange, (1 << 31) - 5));
        assert!(keep(&mut exchange, (1 << 31) - 3));
        assert!(!keep(&mut exchange, (1 << 31) - 1), "there is no larger number");
        let mut leaving = super::tests::exchange(&hello(), 1);
        leaving.begin();
        let bytes = [frame(GOAWAY, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 0]), reply(1, "Hello")].concat();
        assert!(matches!(
            leaving.receive(&bytes),
            Ok(Progress::Done(Done {
                keep: false,
                fault: None,
                ..
            }))
        ));
    }

    #[test]
    fn two_replies_tell_what_is_right() {
        let learnt = |first: &str, second: &str| {
            let mut grpc = Grpc {
                expect: GrpcExpect::Any,
                ..hello()
            };
            grpc.learn(&[&reply(1, first), &reply(1, second)]).unwrap();
            grpc.expect
        };
        assert_eq!(learnt("Hello", "Hello"), GrpcExpect::Echo);
        assert_eq!(learnt("a", "a"), GrpcExpect::Message(STANDARD.encode(b"\x0a\x01a")));
        let alike = |first, second, lengths| {
            let GrpcExpect::Exact(common) = learnt(first, second) else {
                panic!("not what stays")
            };
            assert_eq!(common.lengths(), lengths);
        };
        alike("a", "b", 3..=3);
        alike("a", "ab", 1..=80);
    }

    #[test]
    fn a_reply_is_made_repeatable() {
        let ping = frame(PING, 0, 0, b"12345678");
        let (again, numbers) = hello().repeatable([ping, reply(1, "Hello")].concat());
        assert_eq!(
            again,
            [frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 12]), reply(1, "Hello")].concat()
        );
        assert_eq!(numbers.len(), 3);
        assert!(numbers.iter().all(|at| again[*at..at + 4] == [0, 0, 0, 1]));
        assert_eq!(hello().repeatable(again.clone()), (again, numbers));
    }

    #[test]
    fn what_cannot_be_asked_is_refused() {
        assert!(hello().validate(USAGE).is_ok());
        for (wrong, text) in [
            (
                Grpc {
                    method: "Check".into(),
                    ..hello()
                },
                "`Check` is no method of gRPC",
            ),
            (
                Grpc {
                    method: "a/b/c".into(),
                    ..hello()
                },
                "`a/b/c` is no method",
            ),
            (
                Grpc {
                    method: "a/b\r\n".into(),
                    ..hello()
                },
                "`a/b\\r\\n` is no method",
            ),
            (
                Grpc {
                    host: "a b".into(),
                    ..hello()
                },
                "`a b` is no host",
            ),
            (Grpc { size: 1, ..hello() }, "`text` and `size` say"),
            (
                Grpc {
                    message: Some(Escaped(vec![8, 1])),
                    ..hello()
                },
                "`text` and `size` say",
            ),
            (with_metadata("A", "b"), "`A` is no name of metadata"),
            (with_metadata("te", "b"), "gRPC sets `te` itself"),
            (
                with_metadata("a", "é"),
                "the value of `a` is not printable ASCII: name it `a-bin`",
            ),
            (
                with_metadata("a", &"b".repeat(20_000)),
                "bytes of the metadata must be 0 to 16384, not 2",
            ),
            (
                Grpc {
                    expect: GrpcExpect::Message("?".into()),
                    ..hello()
                },
                "the message to be expected, `?`",
            ),
            (
                Grpc {
                    text: None,
                    size: 65 << 20,
                    ..hello()
                },
                "bytes of the messages",
            ),
        ] {
            let error = wrong.validate(USAGE).unwrap_err().to_string();
            assert!(error.starts_with(text), "{error}");
        }
    }

    /// Checks that one piece and single bytes have the same outcome. Only whether the server leaves may depend on the
    /// bytes received so far.
    fn has_one_outcome(bytes: &[u8]) {
        let outcome =
            |pieces: &[&[u8]]| feed(&mut exchange(&hello(), 1), pieces).map(|(payload, _, fault)| (payload, fault));
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(outcome(&[bytes]), outcome(&single));
    }

    #[test]
    fn a_stream_has_one_reply() {
        let right = reply(1, "Hello");
        let data = frame(DATA, END_STREAM, 1, b"");
        for more in [&right, &head(1), &data, &trailers(1, &[("grpc-status", "0")])] {
            let mut exchange = exchange(&hello(), 1);
            exchange.begin();
            // Frames that are allowed to follow come between.
            let update = frame(WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1]);
            let reset = frame(RST_STREAM, 0, 1, &[0; 4]);
            let rightly = [&right[..], &update, &reset].concat();
            let Ok(Progress::Done(done)) = exchange.receive(&[&rightly[..], more].concat()) else {
                panic!()
            };
            assert_eq!((done.used, done.fault), (rightly.len(), None), "the rest is refused");
            // The same frames, later.
            exchange.reset();
            exchange.begin();
            exchange.receive(&rightly).unwrap();
            exchange.begin();
            let failure = exchange.receive(more).unwrap_err();
            assert_eq!(failure.message, "HTTP/2: stream 1 goes on behind its end");
            // Also while another reply of the batch is awaited.
            let mut exchange = super::tests::exchange(&hello(), 2);
            exchange.begin();
            exchange.receive(&rightly).unwrap();
            assert_eq!(exchange.receive(more).unwrap_err().class, ErrorClass::Protocol);
        }
    }

    #[test]
    fn malformed_fields_of_a_call_are_errors() {
        let ok = ("grpc-status", "0");
        let data = |bytes: &[u8]| frame(DATA, 0, 1, bytes);
        let message = prefixed(&field_1(b"Hello"));
        let sized = |length| {
            let head = frame(
                HEADERS,
                END_HEADERS,
                1,
                &block(&[(":status", "200"), GRPC, ("content-length", length)]),
            );
            [head, data(&message), trailers(1, &[ok])].concat()
        };
        assert_eq!(outcome(&hello(), &sized("12")), Ok((7, None)));
        let fault = outcome(&hello(), &sized("7")).unwrap().1.unwrap();
        assert_eq!(fault.class, ErrorClass::Protocol, "{fault}");
        let ended = |fields: &[(&str, &str)]| [head(1), data(&message), trailers(1, fields)].concat();
        let begun = |fields: &[(&str, &str)]| [trailers(1, fields), data(&message)].concat();
        for wrong in [
            ended(&[(":status", "200"), ok]),
            ended(&[ok, (":status", "200")]),
            ended(&[(":path", "/"), ok]),
            ended(&[("Grpc-Status", "0")]),
            ended(&[ok, ("connection", "close")]),
            begun(&[(":status", "404"), (":status", "200"), GRPC, ok]),
            begun(&[GRPC, (":status", "200"), ok]),
            begun(&[(":status", "103")]),
        ] {
            let failure = outcome(&hello(), &wrong).unwrap_err();
            assert_eq!(failure.class, ErrorClass::Protocol, "{failure}");
        }
    }

    #[test]
    fn a_block_says_no_more_than_it_may() {
        let entry = |length: usize| {
            let value = "A".repeat(length);
            let mut block = Vec::new();
            http2::hpack::write("x", &value, &mut block);
            block[0] = 0x40;
            block
        };
        let of = |references: usize| {
            let said = [
                &block(&[(":status", "200"), GRPC])[..],
                &entry(4000),
                &[0xbe].repeat(references),
            ]
            .concat();
            let pieces: Vec<&[u8]> = said.chunks(CONTENT_MAX).collect();
            let mut bytes = frame(HEADERS, 0, 1, pieces[0]);
            for piece in &pieces[1..] {
                bytes.extend(frame(frame::CONTINUATION, 0, 1, piece));
            }
            bytes.extend(frame(frame::CONTINUATION, END_HEADERS, 1, &block(&[("y", "z")])));
            let data = frame(DATA, 0, 1, &prefixed(&field_1(b"Hello")));
            [bytes, data, trailers(1, &[("grpc-status", "0")])].concat()
        };
        assert_eq!(outcome(&hello(), &of(10)), Ok((7, None)));
        for many in [16, 60_000] {
            let mut exchange = exchange(&hello(), 1);
            exchange.begin();
            let failure = exchange.receive(&of(many)).unwrap_err();
            assert_eq!(
                failure.message,
                "HTTP/2: a header block says more than 64 KiB of fields"
            );
        }
        // The server is informed: SETTINGS_MAX_HEADER_LIST_SIZE.
        let mut said = Vec::new();
        exchange(&hello(), 1).greet(&[], &mut said).unwrap();
        assert!(said.windows(6).any(|setting| setting == [0, 6, 0, 1, 0, 0]));
    }

    /// RFC 9113, section 6.10.
    #[test]
    fn pieces_of_a_block_may_be_empty_and_have_an_end() {
        let pieces = |empty: usize| {
            let mut bytes = frame(HEADERS, 0, 1, &block(&[(":status", "200"), GRPC]));
            (0..empty).for_each(|_| bytes.extend(frame(frame::CONTINUATION, 0, 1, b"")));
            bytes.extend(frame(frame::CONTINUATION, END_HEADERS, 1, b""));
            let data = frame(DATA, 0, 1, &prefixed(&field_1(b"Hello")));
            [bytes, data, trailers(1, &[("grpc-status", "0")])].concat()
        };
        for empty in [0, 1, 3] {
            assert_eq!(outcome(&hello(), &pieces(empty)), Ok((7, None)));
        }
        let mut exchange = exchange(&hello(), 1);
        exchange.begin();
        let failure = exchange.receive(&pieces(100_000)).unwrap_err();
        assert_eq!(failure.message, "HTTP/2: a header block is too long");
    }

    proptest! {
        #[test]
        fn near_misses_have_one_outcome(at in 0usize..200, byte in any::<u8>()) {
            let mut bytes = reply(1, "Hello");
            let at = at % bytes.len();
            bytes[at] = byte;
            has_one_outcome(&bytes);
        }

        #[test]
        fn any_frames_have_one_outcome(
            frames in vec((0u8..10, any::<u8>(), 0u32..4, vec(any::<u8>(), 0..12)), 0..6)
        ) {
            let bytes: Vec<u8> =
                frames.iter().flat_map(|(kind, flags, stream, content)| frame(*kind, *flags, *stream, content)).collect();
            has_one_outcome(&bytes);
        }
    }
}
