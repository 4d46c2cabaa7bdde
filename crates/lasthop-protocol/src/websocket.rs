//! WebSocket (RFC 6455): a connection begins as HTTP/1.1 and is upgraded; then each request is a message, and so is its
//! reply. There are no extensions.

mod frame;
mod handshake;

use std::{cell::RefCell, mem, rc::Rc};

use ring::rand::{SecureRandom as _, SystemRandom};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::{
    frame::{Head, Heading, wrong},
    handshake::Handshake,
};
use lasthop_trial::{
    address::Endpoint,
    failure::Failure,
    options::{Reuse, within},
};

use super::{
    check::{BodyCheck, Expected},
    escaped::Escaped,
    exact::Exact,
    exchange::{Done, Exchange, Factory, Progress, Run, excerpt},
    http::{self, Http, HttpExpect, HttpVersion},
    kind::{LoadOptions, Protocol, ProtocolKind, ProtocolSpec, Trait, Usage},
    raw::{OF_GREETING, STEPS_MAX},
};
use crate::location::{Location, host_header};

/// Maximum bytes of a message, and of the messages of a pipeline.
const SIZE_MAX: u64 = 16 << 20;
const PIPELINE_MAX: u64 = 64 << 20;
/// Maximum pings answered while one reply is awaited.
const ANSWERS_MAX: u32 = 10_000;

pub static KIND: ProtocolKind = ProtocolKind {
    schemes: &["ws", "wss"],
    urls: &[
        (
            "ws://127.0.0.1:8000/uri",
            "WebSocket: a message and its echo, or what --send asks for;\nwss:// with TLS",
        ),
        ("ws+unix:/run/app.sock:/uri", "the same over a Unix socket"),
    ],
    ..ProtocolKind::of::<Websocket>("websocket", "WebSocket", from_url)
};

fn from_url(location: &Location<'_>) -> Result<(Endpoint, Protocol), String> {
    let (endpoint, host, path) = http::place(location, "wss")?;
    let websocket = Websocket {
        path,
        host: host_header(host),
        headers: Vec::new(),
        hidden: Vec::new(),
        key: None,
        greeting: Vec::new(),
        send: None,
        size: Some(location.options.size),
        binary: false,
        expect: WebsocketExpect::Echo,
    };
    Ok((endpoint, websocket.into()))
}

/// A message over a WebSocket, and its echo or another reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Websocket {
    /// Request target of the upgrade, begins with `/`.
    pub path: String,
    /// Value of the `Host` header; `localhost` if missing, whatever the transport.
    #[serde(default = "http::localhost")]
    pub host: String,
    /// Further headers of the upgrade, in order. `Sec-WebSocket-Protocol` offers subprotocols.
    #[serde(default, deserialize_with = "http::headers")]
    #[schemars(with = "std::collections::BTreeMap<String, String>")]
    pub headers: Vec<(String, String)>,
    /// Names of headers that no record keeps, besides those that look secret.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hidden: Vec<String>,
    /// `Sec-WebSocket-Key`, 16 bytes in base64. If missing, a random one for each connection, as the standard requires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Messages to send once on each connection, before its first request; the server answers each with one message. An
    /// empty message is not sent: the server speaks first. The escapes of C can be used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub greeting: Vec<Escaped>,
    /// The message. The escapes of C can be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send: Option<Escaped>,
    /// Instead of `send`: the bytes of a message of letters, 0 to 16 MiB; 64 if both are missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 16_777_216))]
    pub size: Option<u32>,
    /// Whether the message is binary. A message that is not UTF-8 always is.
    #[serde(default)]
    pub binary: bool,
    /// The correct reply: `"echo"` (the same message), `{ text = "…" }`, `{ binary = … }`, `{ length = 7 }` or `"any"`.
    #[serde(default)]
    pub expect: WebsocketExpect,
}

/// The correct reply.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WebsocketExpect {
    /// The message that was sent.
    #[default]
    Echo,
    /// Any message.
    Any,
    /// A message of this many bytes.
    Length(u64),
    /// This text message.
    Text(Exact),
    /// This binary message.
    Binary(Exact),
}

const DEFAULT_SIZE: u32 = 64;

/// Headers of the handshake itself.
const OF_HANDSHAKE: [&str; 6] = [
    "connection",
    "upgrade",
    "sec-websocket-key",
    "sec-websocket-version",
    "sec-websocket-accept",
    "sec-websocket-extensions",
];

impl Websocket {
    /// The message.
    fn message(&self) -> Vec<u8> {
        let size = self.size.unwrap_or(DEFAULT_SIZE) as usize;
        let letters = || (b'a'..=b'z').cycle().take(size).collect();
        self.send.as_ref().map_or_else(letters, |send| send.0.clone())
    }

    /// The kind of the message's frame.
    fn kind_of(&self, message: &[u8]) -> u8 {
        if self.binary || std::str::from_utf8(message).is_err() {
            frame::BINARY
        } else {
            frame::TEXT
        }
    }

    /// Kind and content of the correct reply, if known.
    fn reply(&self) -> Option<(u8, Exact)> {
        match &self.expect {
            WebsocketExpect::Echo => {
                let message = self.message();
                Some((self.kind_of(&message), Exact::Bytes(message)))
            }
            WebsocketExpect::Text(content) => Some((frame::TEXT, content.clone())),
            WebsocketExpect::Binary(content) => Some((frame::BINARY, content.clone())),
            WebsocketExpect::Any | WebsocketExpect::Length(_) => None,
        }
    }

    /// The upgrade request, without its key.
    fn upgrade(&self) -> Http {
        let own = [
            ("Connection", "Upgrade"),
            ("Upgrade", "websocket"),
            ("Sec-WebSocket-Version", "13"),
        ];
        let own = own.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Http {
            method: http::get(),
            path: self.path.clone(),
            host: self.host.clone(),
            headers: own.into_iter().chain(self.headers.clone()).collect(),
            hidden: Vec::new(),
            body: Default::default(),
            version: HttpVersion::V11,
            expect: HttpExpect {
                status: 200,
                ..HttpExpect::default()
            },
        }
    }

    /// The subprotocols that the server may choose from.
    fn offered(&self) -> Vec<String> {
        let offers = self
            .headers
            .iter()
            .filter(|(name, _)| name.eq_ignore_ascii_case("sec-websocket-protocol"));
        offers
            .flat_map(|(_, value)| value.split(','))
            .map(|name| name.trim().to_owned())
            .collect()
    }
}

impl ProtocolSpec for Websocket {
    fn kind(&self) -> &'static ProtocolKind {
        &KIND
    }

    fn validate(&self, usage: Usage) -> Result<(), String> {
        let names = self.headers.iter().map(|(name, _)| name);
        if let Some(name) = names
            .into_iter()
            .find(|name| OF_HANDSHAKE.iter().any(|own| own.eq_ignore_ascii_case(name)))
        {
            return Err(format!("the header `{name}` belongs to the handshake: leave it out"));
        }
        if self.key.as_ref().is_some_and(|key| !handshake::is_key(key)) {
            return Err("`key` must be 16 bytes in base64".to_owned());
        }
        if self.send.is_some() && self.size.is_some() {
            return Err("`size` is that of a message of letters: leave it out, or `send`".to_owned());
        }
        let length = match &self.send {
            Some(send) => send.0.len() as u64,
            None => self.size.unwrap_or(DEFAULT_SIZE).into(),
        };
        within("size of a message", length, 0, SIZE_MAX)?;
        within("steps of the greeting", self.greeting.len() as u64, 0, STEPS_MAX)?;
        for message in &self.greeting {
            within("size of a message", message.0.len() as u64, 0, SIZE_MAX)?;
        }
        within(
            "bytes of a pipeline",
            length * u64::from(usage.pipeline),
            0,
            PIPELINE_MAX,
        )?;
        self.upgrade().validate(usage)
    }

    fn factory(&self, usage: Usage) -> Factory {
        let shared = Rc::new(Shared::new(self, usage.pipeline));
        Factory::new(move || Conversation::new(Rc::clone(&shared), shared.frames.clone()))
    }

    fn checked(&self, size: &dyn Fn(u64) -> String) -> String {
        let reply = match (&self.expect, self.reply()) {
            (WebsocketExpect::Echo, Some((kind, echo))) => {
                let length = size(*echo.lengths().start());
                format!("{} of {length} and its echo, byte for byte", named(kind))
            }
            (_, Some((kind, reply @ Exact::Alike(_)))) => {
                format!("{}, {}", named(kind), reply.checked("message", size))
            }
            (_, Some((kind, reply))) => {
                format!("{} of {}, byte for byte", named(kind), size(*reply.lengths().start()))
            }
            (WebsocketExpect::Length(length), _) => format!("a message of {}", size(*length)),
            _ => "any message".to_owned(),
        };
        if self.greeting.is_empty() {
            reply
        } else {
            reply + OF_GREETING
        }
    }

    fn payload(&self) -> Option<u64> {
        match self.expect {
            WebsocketExpect::Length(length) => Some(length),
            _ => self.reply()?.1.length(),
        }
    }

    fn learn(&mut self, replies: &[&[u8]]) -> Result<Option<String>, Failure> {
        if self.reply().is_some() {
            return Ok(None);
        }
        let messages: Result<Vec<(u8, Vec<u8>)>, Failure> = replies.iter().map(|reply| whole(reply)).collect();
        let messages = messages?;
        let count = |kind: u8| messages.iter().filter(|(other, _)| *other == kind).count();
        let kind = if count(frame::BINARY) > count(frame::TEXT) {
            frame::BINARY
        } else {
            frame::TEXT
        };
        let of_kind = messages.iter().filter(|(other, _)| *other == kind);
        let contents: Vec<&[u8]> = of_kind.map(|(_, content)| &content[..]).collect();
        let (content, unchecked) = Exact::learn("message", &contents);
        let sent = self.message();
        self.expect = match kind {
            _ if kind == self.kind_of(&sent) && content == Exact::Bytes(sent) => WebsocketExpect::Echo,
            frame::BINARY => WebsocketExpect::Binary(content),
            _ => WebsocketExpect::Text(content),
        };
        Ok(unchecked)
    }

    fn apply(&mut self, options: &mut LoadOptions) -> Result<(), String> {
        if let Some(target) = options.target.take() {
            self.path = target;
        }
        self.hidden = mem::take(&mut options.hidden);
        let host;
        (host, self.headers) = http::split_host(mem::take(&mut options.headers));
        self.host = host.unwrap_or_else(|| mem::take(&mut self.host));
        self.greeting = mem::take(&mut options.greet);
        self.binary = mem::take(&mut options.binary);
        self.send = options.send.take();
        if let Some(send) = &self.send {
            // The reply to a meaningful message need not be an echo.
            self.expect = WebsocketExpect::Any;
            self.size = options.size.take();
            self.binary |= std::str::from_utf8(&send.0).is_err();
        } else {
            self.size = options.size.take().or(self.size);
        }
        if let Some(text) = options.expect.take() {
            self.expect = if self.binary {
                WebsocketExpect::Binary(text.into())
            } else {
                WebsocketExpect::Text(text.into())
            };
        }
        Ok(())
    }

    fn hide_secrets(&mut self) -> bool {
        http::hide_secrets(&mut self.path, &mut self.headers, &self.hidden)
    }

    fn traits(&self, reply: &[u8]) -> Result<Vec<Trait>, Failure> {
        let (kind, content) = whole(reply)?;
        let length = format!("{} bytes", content.len());
        Ok(vec![
            ("kind of message", named(kind).into()),
            ("length of the message", length.into_bytes()),
            ("message", content),
        ])
    }

    fn greets(&self) -> bool {
        true
    }

    fn greeting_name(&self) -> &'static str {
        "greeting"
    }

    /// Fixes the key, because a null server gives every client the same answer.
    fn let_anybody_in(&mut self) {
        self.key = Some("bGFzdGhvcCBzYXlzIGhpIQ==".to_owned());
    }

    fn welcome(&self, step: usize, _encrypted: bool) -> Vec<u8> {
        match &self.key {
            Some(key) if step == 0 => handshake::answer(key),
            _ if step <= self.greeting.len() => {
                let mut empty = Vec::new();
                frame::write(frame::TEXT, &[], &mut empty);
                empty
            }
            _ => Vec::new(),
        }
    }

    fn repeatable(&self, reply: Vec<u8>) -> (Vec<u8>, Vec<usize>) {
        // Without pings, which were for the sample only.
        let mut again = Vec::new();
        if let Ok((kind, content)) = whole(&reply) {
            frame::write(kind, &content, &mut again);
        }
        (again, Vec::new())
    }
}

/// Kind and content of a complete, correct reply.
fn whole(mut reply: &[u8]) -> Result<(u8, Vec<u8>), Failure> {
    let mut kind = frame::CONTINUATION;
    let mut content = Vec::new();
    while !reply.is_empty() {
        let (used, head) = Heading::default().feed(reply)?;
        // Bytes after the message may be cut off.
        let Some(head) = head else { break };
        reply = &reply[used..];
        let (own, rest) = reply.split_at(reply.len().min(usize::try_from(head.length).unwrap_or(usize::MAX)));
        reply = rest;
        if !frame::is_control(head.kind) {
            kind = kind.max(head.kind);
            content.extend_from_slice(own);
        }
    }
    Ok((kind, content))
}

fn random<const N: usize>() -> Result<[u8; N], Failure> {
    let mut bytes = [0; N];
    let drawn = SystemRandom::new().fill(&mut bytes);
    drawn.map_err(|_| wrong("the system has no random numbers"))?;
    Ok(bytes)
}

/// Masks for the frames of a thread. They must be unpredictable (RFC 6455, section 5.3), but the system is not asked
/// for each.
#[derive(Default)]
struct Masks(Vec<[u8; 4]>);

impl Masks {
    fn next(&mut self) -> [u8; 4] {
        if self.0.is_empty() {
            // Without randomness a mask still serves, except to keep a proxy from taking content for HTTP.
            let drawn = random::<1024>().unwrap_or([0; 1024]);
            self.0.extend_from_slice(drawn.as_chunks().0);
        }
        self.0.pop().unwrap_or_default()
    }
}

/// State shared by all connections of a thread.
struct Shared {
    /// The upgrade request without its key.
    upgrade: Vec<u8>,
    key: Option<String>,
    offered: Vec<String>,
    /// Kinds and contents of the messages of the greeting.
    greeting: Vec<(u8, Vec<u8>)>,
    /// The frames of a batch, with masks of zeros.
    frames: Vec<u8>,
    /// Bytes of one frame, and of its head with the mask.
    frame: usize,
    head: usize,
    /// Kind of the correct reply, and its content.
    kind: Option<u8>,
    expected: Expected,
    /// The correct replies of a batch as servers usually send them, and the length of one; empty if not known.
    replies: Vec<u8>,
    reply: usize,
    masks: RefCell<Masks>,
}

impl Shared {
    fn new(websocket: &Websocket, depth: u32) -> Self {
        let message = websocket.message();
        let mut frame = Vec::new();
        frame::write_masked(websocket.kind_of(&message), [0; 4], &message, &mut frame);
        let mut upgrade = http::encode(&websocket.upgrade(), Reuse::KeepAlive);
        // The key follows later.
        upgrade.truncate(upgrade.len() - 2);
        let (kind, body) = websocket.reply().unzip();
        let mut reply = Vec::new();
        if let (Some(kind), Some(Exact::Bytes(content))) = (kind, &body) {
            frame::write(kind, content, &mut reply);
        }
        let length = match websocket.expect {
            WebsocketExpect::Length(length) => Some(length),
            _ => None,
        };
        Self {
            upgrade,
            key: websocket.key.clone(),
            offered: websocket.offered(),
            greeting: websocket
                .greeting
                .iter()
                .map(|message| (websocket.kind_of(&message.0), message.0.clone()))
                .collect(),
            frames: frame.repeat(depth as usize),
            frame: frame.len(),
            head: frame.len() - message.len(),
            kind,
            expected: Expected {
                length,
                ..Expected::of("reply", body)
            },
            replies: reply.repeat(depth as usize),
            reply: reply.len(),
            masks: RefCell::default(),
        }
    }

    fn other_kind(&self, kind: u8) -> Option<Failure> {
        let wanted = self.kind.filter(|wanted| *wanted != kind)?;
        let text = format!("the reply is {}, expected {}", named(kind), named(wanted));
        Some(Failure::content(text))
    }
}

/// In words: a message whose first frame is of this kind.
fn named(kind: u8) -> &'static str {
    if kind == frame::BINARY {
        "a binary message"
    } else {
        "a text"
    }
}

/// One connection.
struct Conversation {
    shared: Rc<Shared>,
    handshake: Option<Handshake>,
    /// The current step of the greeting, and whether its message has been sent.
    step: usize,
    has_spoken: bool,
    /// Bytes to send: the frames of the batch, then answers.
    out: Vec<u8>,
    heading: Heading,
    /// The current frame, and bytes of its content still to come.
    frame: Option<(Head, u64)>,
    /// Content of a control frame.
    control: Vec<u8>,
    /// Whether a message has begun but not ended.
    is_within: bool,
    body: BodyCheck,
    fault: Option<Failure>,
    answers: u32,
    /// An error after a reply, kept for the next reply.
    broken: Option<Failure>,
}

impl Conversation {
    /// `out` must begin with the frames of a batch, with any masks.
    fn new(shared: Rc<Shared>, out: Vec<u8>) -> Self {
        Self {
            shared,
            handshake: None,
            step: 0,
            has_spoken: false,
            out,
            heading: Heading::default(),
            frame: None,
            control: Vec::new(),
            is_within: false,
            body: BodyCheck::default(),
            fault: None,
            answers: 0,
            broken: None,
        }
    }

    /// Whether the last byte received ended a frame.
    fn is_between(&self) -> bool {
        self.heading.is_between() && self.frame.is_none()
    }

    /// Takes bytes of one frame. Returns how many, and whether a message ends with them.
    fn feed(&mut self, bytes: &[u8]) -> Result<(usize, bool), Failure> {
        let (begin, head, left) = match self.frame.take() {
            Some((head, left)) => (0, head, left),
            None => match self.heading.feed(bytes)? {
                (used, Some(head)) => {
                    self.enter(head)?;
                    (used, head, head.length)
                }
                (used, None) => return Ok((used, false)),
            },
        };
        let is_control = frame::is_control(head.kind);
        let count = (left.min((bytes.len() - begin) as u64)) as usize;
        let content = &bytes[begin..begin + count];
        if is_control {
            self.control.extend_from_slice(content);
        } else {
            self.body.feed(&self.shared.expected, content);
        }
        let left = left - count as u64;
        if left > 0 {
            self.frame = Some((head, left));
        } else if is_control {
            self.act(head.kind)?;
        } else {
            self.is_within = !head.is_last;
        }
        Ok((begin + count, left == 0 && !is_control && head.is_last))
    }

    /// Checks a frame before its content.
    fn enter(&mut self, head: Head) -> Result<(), Failure> {
        if frame::is_control(head.kind) {
            self.control.clear();
            return Ok(());
        }
        match (self.is_within, head.kind == frame::CONTINUATION) {
            (false, true) => return Err(wrong("a message goes on that has not begun")),
            (true, false) => return Err(wrong("a message begins within another")),
            (true, true) => {}
            (false, false) => self.fault = self.shared.other_kind(head.kind),
        }
        if self.step < self.shared.greeting.len() {
            return Ok(());
        }
        let length = self.body.received().saturating_add(head.length);
        self.shared.expected.bound(length)
    }

    /// Acts on a complete control frame.
    fn act(&mut self, kind: u8) -> Result<(), Failure> {
        match kind {
            frame::CLOSE => return Err(closed(&self.control)),
            frame::PING => {
                // `out` keeps every answer until the batch is over, so a flood of pings must have a limit.
                self.answers += 1;
                if self.answers > ANSWERS_MAX {
                    return Err(wrong("the server sends pings without end"));
                }
                let mask = self.shared.masks.borrow_mut().next();
                frame::write_masked(frame::PONG, mask, &self.control, &mut self.out);
            }
            _ => {}
        }
        Ok(())
    }

    /// The outcome of a reply that ends before `rest`.
    fn finish(&mut self, used: usize, rest: &[u8]) -> Done {
        let payload = self.body.received();
        let judged = self.body.finish(&self.shared.expected);
        let fault = self.fault.take().or(judged.err()).map(Box::new);
        Done {
            used: used + rest.len() - self.overhear(rest).len(),
            keep: true,
            payload,
            fault,
        }
    }

    /// Continues the greeting after the handshake; true when the greeting is over.
    fn go_on(&mut self, shared: &Shared, mut rest: &[u8]) -> Result<bool, Failure> {
        while let Some((kind, message)) = shared.greeting.get(self.step) {
            if !self.has_spoken && rest.first().is_some_and(|first| frame::begins_control(*first)) {
                rest = &rest[self.feed(rest)?.0..];
                continue;
            }
            if !mem::replace(&mut self.has_spoken, true) && !message.is_empty() {
                if !rest.is_empty() {
                    break;
                }
                let mask = shared.masks.borrow_mut().next();
                frame::write_masked(*kind, mask, message, &mut self.out);
            }
            if rest.is_empty() {
                return Ok(false);
            }
            let (used, is_whole) = self.feed(rest)?;
            rest = &rest[used..];
            if is_whole {
                self.step += 1;
                self.has_spoken = false;
                self.body.reset();
                self.fault = None;
            }
        }
        if !self.overhear(rest).is_empty() {
            let text = "the server sends a message before it has got one; `--greet ''` reads it first";
            self.broken = Some(wrong(text));
        }
        Ok(true)
    }

    /// Takes control frames after a reply or the handshake. An error in them belongs to the next reply. Returns the
    /// bytes that are no control frames.
    fn overhear<'a>(&mut self, mut rest: &'a [u8]) -> &'a [u8] {
        while rest.first().is_some_and(|first| frame::begins_control(*first)) {
            match self.feed(rest) {
                Ok((used, _)) => rest = &rest[used..],
                Err(failure) => {
                    self.broken = Some(failure);
                    return &[];
                }
            }
        }
        rest
    }
}

impl Exchange for Conversation {
    fn reset(&mut self) {
        *self = Self::new(Rc::clone(&self.shared), mem::take(&mut self.out));
    }

    fn greet(&mut self, input: &[u8], output: &mut Vec<u8>) -> Result<bool, Failure> {
        let shared = Rc::clone(&self.shared);
        let Some(handshake) = &mut self.handshake else {
            let key = shared.key.as_deref();
            self.handshake = Some(Handshake::begin(&shared.upgrade, key, output)?);
            return Ok(false);
        };
        let mut rest = input;
        while !handshake.is_over && !rest.is_empty() {
            rest = &rest[handshake.feed(rest, &shared.offered)?..];
        }
        if !handshake.is_over {
            return Ok(false);
        }
        let is_over = self.go_on(&shared, rest)?;
        output.extend(self.out.drain(shared.frames.len()..));
        Ok(is_over)
    }

    fn begin(&mut self) {
        self.answers = 0;
        self.next_reply();
        let shared = &*self.shared;
        self.out.truncate(shared.frames.len());
        let masks = &mut *shared.masks.borrow_mut();
        // Not in chunks of the size: that would cost a division for every request.
        let mut rest = &mut self.out[..];
        while !rest.is_empty() {
            let (one, after) = rest.split_at_mut(shared.frame);
            frame::mask_anew(&mut one[shared.head - 4..], masks.next());
            rest = after;
        }
    }

    #[inline]
    fn request(&self) -> &[u8] {
        &self.out
    }

    #[inline]
    fn next_reply(&mut self) {
        self.body.reset();
    }

    #[inline]
    fn recognise(&mut self, bytes: &[u8], most: u32) -> Option<Run> {
        let shared = &*self.shared;
        let length = shared.reply;
        if length == 0 || bytes.len() < length || !self.is_between() || self.broken.is_some() {
            return None;
        }
        let most = most as usize;
        let replies = if most == 1 { 1 } else { (bytes.len() / length).min(most) };
        let used = replies * length;
        // Bytes after the last reply may concern the connection.
        let is_alone = replies < most || bytes.len() == used;
        let same = is_alone && shared.replies.get(..used) == Some(&bytes[..used]);
        same.then_some(Run {
            replies: replies as u32,
            used,
            payload: shared.expected.length().unwrap_or(0),
        })
    }

    fn receive(&mut self, bytes: &[u8]) -> Result<Progress, Failure> {
        if let Some(failure) = self.broken.take() {
            return Err(failure);
        }
        let mut at = 0;
        while at < bytes.len() {
            let (used, is_whole) = self.feed(&bytes[at..])?;
            at += used;
            if is_whole {
                return Ok(Progress::Done(self.finish(at, &bytes[at..])));
            }
        }
        Ok(Progress::More)
    }

    fn end(&mut self) -> Result<Done, Failure> {
        let received = self.body.received();
        let lost = || format!("the peer closed without a close frame, after {received} bytes of a reply");
        Err(self.broken.take().unwrap_or_else(|| Failure::reset(lost())))
    }
}

/// The failure of a connection that the server closes, with its reason.
fn closed(content: &[u8]) -> Failure {
    let Some((code, reason)) = content.split_first_chunk::<2>() else {
        return Failure::reset("the server closes the WebSocket and does not say why");
    };
    let code = u16::from_be_bytes(*code);
    let name = match code {
        1000 => " (normal closure)",
        1001 => " (going away)",
        1002 => " (protocol error)",
        1003 => " (unsupported data)",
        1007 => " (invalid data)",
        1008 => " (policy violation)",
        1009 => " (message too big)",
        1010 => " (an extension is missing)",
        1011 => " (internal error)",
        1012 => " (service restart)",
        1013 => " (try again later)",
        _ => "",
    };
    let reason = if reason.is_empty() {
        String::new()
    } else {
        format!(": {}", excerpt(reason))
    };
    Failure {
        status: Some(code),
        ..Failure::reset(format!(
            "the server closes the WebSocket with code {code}{name}{reason}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{
        super::exchange::testing::{exchange, same_at_every_cut, usage},
        *,
    };

    fn websocket(expect: WebsocketExpect) -> Websocket {
        Websocket {
            path: "/".to_owned(),
            host: "localhost".to_owned(),
            headers: Vec::new(),
            hidden: Vec::new(),
            key: Some("dGhlIHNhbXBsZSBub25jZQ==".to_owned()),
            greeting: Vec::new(),
            send: Some(Escaped(b"Hello".to_vec())),
            size: None,
            binary: false,
            expect,
        }
    }

    fn echo() -> Websocket {
        websocket(WebsocketExpect::Echo)
    }

    /// Payload and fault of a reply at every cut, or why there is none.
    fn outcome(websocket: &Websocket, reply: &[u8]) -> Result<(u64, Option<String>), String> {
        let outcome = same_at_every_cut(&mut *exchange(websocket), reply).map_err(|failure| failure.message)?;
        assert!(outcome.1, "the connection is kept");
        Ok((outcome.0, outcome.2.map(|fault| fault.message)))
    }

    /// Frames that a client sent: kinds, contents without masks, and masks.
    fn unmasked(mut sent: &[u8]) -> Vec<(u8, Vec<u8>, [u8; 4])> {
        let mut all = Vec::new();
        while let Some((&[first, second], rest)) = sent.split_first_chunk::<2>() {
            assert_eq!((first & 0x80, second & 0x80), (0x80, 0x80), "a whole, masked frame");
            let (mask, rest) = rest.split_first_chunk::<4>().unwrap();
            let (content, rest) = rest.split_at(usize::from(second & 0x7f));
            let plain = content.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask);
            all.push((first & 0x0f, plain.collect(), *mask));
            sent = rest;
        }
        all
    }

    #[test]
    fn a_reply_is_the_message_in_whatever_frames() {
        let right = Ok((5, None));
        assert_eq!(outcome(&echo(), b"\x81\x05Hello"), right);
        assert_eq!(outcome(&echo(), b"\x01\x03Hel\x80\x02lo"), right);
        let between = b"\x8a\x00\x01\x00\x89\x01!\x00\x03Hel\x8a\x01?\x00\x02lo\x80\x00";
        assert_eq!(outcome(&echo(), between), right, "control frames come between");
        let fault = |reply: &[u8]| outcome(&echo(), reply).unwrap().1.unwrap();
        let differs = "the reply differs from the expected one at byte 0: expected \"Hello\", received \"Jello\"";
        assert_eq!(fault(b"\x81\x05Jello"), differs);
        assert_eq!(
            fault(b"\x82\x05Hello"),
            "the reply is a binary message, expected a text"
        );
        assert!(fault(b"\x81\x04Hell").starts_with("the reply has 4 bytes, expected 5"));
        assert!(fault(b"\x81\x00").starts_with("the reply has 0 bytes, expected 5"));
    }

    #[test]
    fn what_is_no_reply_has_its_words() {
        for (reply, wanted) in [
            (&b"\x80\x05Hello"[..], "a message goes on that has not begun"),
            (b"\x01\x03Hel\x81\x05Hello", "a message begins within another"),
            (b"\xc1\x05Hello", "reserved bits set, as of an extension"),
            (b"\x81\x85\0\0\0\0Hello", "a frame of the server is masked"),
            (b"\x81\x05Hel", "closed without a close frame, after 3 bytes"),
            (b"", "closed without a close frame, after 0 bytes"),
            (b"\x88\x00", "closes the WebSocket and does not say why"),
            (
                b"\x01\x03Hel\x88\x05\x03\xf0off",
                "closes the WebSocket with code 1008 (policy violation): \"off\"",
            ),
            (b"\x88\x02\x0f\xa0", "closes the WebSocket with code 4000"),
            (
                b"\x81\x7f\0\0\0\x01\0\0\0\0",
                "the reply has 4294967296 bytes or more, expected 5",
            ),
        ] {
            let error = outcome(&echo(), reply).unwrap_err();
            assert!(error.contains(wanted), "{}: {error}", reply.escape_ascii());
        }
    }

    #[test]
    fn every_message_has_a_mask_of_its_own() {
        let mut exchange = echo().factory(usage(2)).exchange();
        exchange.reset();
        let mut masks = Vec::new();
        for _ in 0..300 {
            exchange.begin();
            for (kind, content, mask) in unmasked(exchange.request()) {
                assert_eq!((kind, content.as_slice()), (frame::TEXT, &b"Hello"[..]));
                masks.push(mask);
            }
        }
        assert_eq!(masks.len(), 600);
        masks.sort_unstable();
        masks.dedup();
        assert!(masks.len() > 590, "{} masks", masks.len());
    }

    #[test]
    fn pings_are_answered_wherever_they_come() {
        let mut exchange = exchange(&echo());
        exchange.reset();
        exchange.begin();
        let sent = exchange.request().len();
        assert_eq!(exchange.receive(b"\x89\x02hi"), Ok(Progress::More));
        let pongs = unmasked(&exchange.request()[sent..]);
        assert_eq!((pongs[0].0, pongs[0].1.as_slice()), (frame::PONG, &b"hi"[..]));
        // A ping after the reply, cut within.
        let piece = b"\x81\x05Hello\x89\x00\x89\x02y";
        assert_eq!(exchange.recognise(piece, 1), None);
        let Ok(Progress::Done(done)) = exchange.receive(piece) else {
            panic!("not whole")
        };
        assert_eq!((done.used, done.fault), (piece.len(), None));
        assert_eq!(unmasked(&exchange.request()[sent..]).len(), 2);
        exchange.begin();
        assert_eq!(exchange.recognise(b"\x81\x05Hello", 1), None, "a ping is under way");
        let Ok(Progress::Done(done)) = exchange.receive(b"o\x81\x05Hello") else {
            panic!("not whole")
        };
        assert_eq!(done.fault, None);
        assert_eq!(unmasked(&exchange.request()[sent..])[0].1, b"yo");
        let flood = b"\x89\x00".repeat(ANSWERS_MAX as usize);
        let error = exchange.receive(&flood).unwrap_err();
        assert!(error.message.contains("pings without end"), "{error}");
    }

    #[test]
    fn what_follows_a_reply_is_said_of_the_next_one() {
        let mut exchange = exchange(&echo());
        exchange.reset();
        exchange.begin();
        let piece = b"\x81\x05Hello\x88\x02\x03\xe9";
        let Ok(Progress::Done(done)) = exchange.receive(piece) else {
            panic!("not whole")
        };
        assert_eq!((done.used, done.keep, done.fault), (piece.len(), true, None));
        exchange.begin();
        let error = exchange.end().unwrap_err();
        assert!(error.message.contains("code 1001 (going away)"), "{error}");
        assert_eq!(error.status, Some(1001));
        exchange.reset();
        exchange.begin();
        let two = exchange.receive(b"\x81\x05Hello\x81\x05Hello");
        assert!(matches!(two, Ok(Progress::Done(Done { used: 7, .. }))), "{two:?}");
    }

    #[test]
    fn a_connection_begins_with_an_upgrade() {
        let mut socket = echo();
        socket.headers = vec![("Origin".to_owned(), "http://a".to_owned())];
        let welcome = socket.welcome(0, false);
        let greet = |input: &[u8]| {
            let mut exchange = exchange(&socket);
            exchange.reset();
            let mut said = Vec::new();
            assert_eq!(exchange.greet(&[], &mut said), Ok(false));
            assert_eq!(
                String::from_utf8(said).unwrap(),
                "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                 Sec-WebSocket-Version: 13\r\nOrigin: http://a\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
            );
            let mut said = Vec::new();
            let greeting = exchange.greet(input, &mut said).map_err(|failure| failure.message);
            (greeting, unmasked(&said).len())
        };
        assert_eq!(greet(&welcome), (Ok(true), 0));
        assert_eq!(greet(&welcome[..9]), (Ok(false), 0));
        let then = |more: &[u8]| greet(&[&welcome, more].concat());
        assert_eq!(then(b"\x89\x00"), (Ok(true), 1), "a ping at once");
        assert_eq!(then(b"\x89"), (Ok(true), 0), "the rest may come later");
        for (unasked, wanted) in [
            (&b"\x88\x02\x03\xf5"[..], "code 1013 (try again later)"),
            (b"\x81\x02hi", "before it has got one"),
        ] {
            let mut exchange = exchange(&socket);
            exchange.reset();
            exchange.greet(&[], &mut Vec::new()).unwrap();
            let greeting = exchange.greet(&[&welcome, unasked].concat(), &mut Vec::new());
            assert_eq!(greeting, Ok(true));
            exchange.begin();
            let error = exchange.receive(b"\x81\x05Hello").unwrap_err();
            assert!(error.message.contains(wanted), "{error}");
        }
    }

    #[test]
    fn a_greeting_is_a_message_for_each_step() {
        let mut socket = echo();
        socket.greeting = [&b""[..], b"init", b"\xff"]
            .map(|message| Escaped(message.to_vec()))
            .into();
        let answer = socket.welcome(0, false);
        assert_eq!(
            (1..5).map(|step| socket.welcome(step, false).len()).collect::<Vec<_>>(),
            [2, 2, 2, 0]
        );
        assert!(
            socket
                .checked(&|_| String::new())
                .ends_with("; of the greeting where it ends")
        );
        let begun = || {
            let mut exchange = exchange(&socket);
            exchange.reset();
            exchange.greet(&[], &mut Vec::new()).unwrap();
            exchange
        };
        // The bytes sent after each of these pieces, and whether the greeting is over.
        let conversation = |pieces: &[&[u8]]| {
            let mut exchange = begun();
            let mut greet = |piece: &&[u8]| {
                let mut said = Vec::new();
                let is_over = exchange.greet(piece, &mut said).unwrap();
                let said: Vec<_> = unmasked(&said)
                    .into_iter()
                    .map(|(kind, content, _)| (kind, content))
                    .collect();
                (said, is_over)
            };
            let said: Vec<_> = pieces.iter().map(&mut greet).collect();
            exchange.begin();
            (
                said,
                exchange.receive(b"\x81\x05Hello").map_err(|failure| failure.message),
            )
        };
        let init = (frame::TEXT, b"init".to_vec());
        let last = (frame::BINARY, b"\xff".to_vec());
        let pong = (frame::PONG, Vec::new());
        // A message of any kind, in pieces, and longer than a reply may be.
        let long = [b"\x82\x7f\0\0\0\0\0\x20\0\0", &vec![0; 0x20_0000][..]].concat();
        let (said, reply) = conversation(&[
            &[&answer[..], b"\x01\x02hi"].concat(),
            b"\x89\x00\x80\x04 al",
            b"l",
            &long,
            b"\x81\x02ok",
        ]);
        let wanted = [
            (vec![], false),
            (vec![pong], false),
            (vec![init.clone()], false),
            (vec![last], false),
            (vec![], true),
        ];
        assert_eq!(said, wanted);
        assert!(
            matches!(reply, Ok(Progress::Done(Done { fault: None, .. }))),
            "{reply:?}"
        );
        // Two messages where one is expected.
        let (said, reply) = conversation(&[&[&answer[..], b"\x81\x02hi\x81\x02ho"].concat()]);
        assert_eq!(said, [(vec![], true)]);
        assert!(reply.unwrap_err().contains("before it has got one"));
        let closed = begun().greet(&[&answer[..], b"\x88\x02\x0f\xa1"].concat(), &mut Vec::new());
        assert_eq!(closed.unwrap_err().status, Some(4001));
    }

    #[test]
    fn what_the_first_replies_have_in_common_is_learnt() {
        let learnt = |first: &[u8], second: &[u8]| {
            let mut socket = websocket(WebsocketExpect::Any);
            let unchecked = socket.learn(&[first, second]).unwrap();
            (socket.expect, unchecked.is_some())
        };
        let text = |text: &str| WebsocketExpect::Text(text.into());
        let pieces = b"\x01\x03Hel\x89\x00\x80\x02lo\x89\x7d";
        assert_eq!(learnt(b"\x81\x05Hello", pieces), (WebsocketExpect::Echo, false));
        assert_eq!(learnt(b"\x81\x02hi", b"\x81\x02hi"), (text("hi"), false));
        let binary = WebsocketExpect::Binary("Hello".into());
        assert_eq!(learnt(b"\x82\x05Hello", b"\x82\x05Hello"), (binary, false));
        let (word, is_part) = learnt(b"\x81\x01a", b"\x81\x02ab");
        assert!(is_part);
        assert_eq!(outcome(&websocket(word.clone()), b"\x81\x03abc"), Ok((3, None)));
        let said = outcome(&websocket(word), b"\x81\x03a b").unwrap().1.unwrap();
        assert!(
            said.starts_with("the reply differs from earlier ones at byte 1"),
            "{said}"
        );
        assert_eq!(outcome(&websocket(text("hi")), b"\x81\x02hi"), Ok((2, None)));
        let seven = "the reply has 5 bytes, expected 7".to_owned();
        let expect = websocket(WebsocketExpect::Length(7));
        assert_eq!(outcome(&expect, b"\x81\x05Hello"), Ok((5, Some(seven))));
    }

    #[test]
    fn what_cannot_be_sent_is_refused() {
        let wrong = |change: &dyn Fn(&mut Websocket)| {
            let mut socket = echo();
            change(&mut socket);
            socket.validate(usage(1)).unwrap_err()
        };
        let header = |name: &str| vec![(name.to_owned(), "x".to_owned())];
        let extension = wrong(&|socket| socket.headers = header("Sec-WebSocket-Extensions"));
        assert!(extension.contains("belongs to the handshake"), "{extension}");
        assert!(wrong(&|socket| socket.key = Some("short".to_owned())).contains("16 bytes"));
        assert!(wrong(&|socket| socket.size = Some(5)).contains("or `send`"));
        assert!(wrong(&|socket| socket.path = "a".to_owned()).contains("does not begin with `/`"));
        let long = wrong(&|socket| (socket.send, socket.size) = (None, Some(20 << 20)));
        assert!(long.contains("size of a message"), "{long}");
        let letters = Websocket { send: None, ..echo() };
        assert_eq!(letters.validate(usage(1)), Ok(()));
        assert_eq!(letters.message()[..27], *b"abcdefghijklmnopqrstuvwxyza");
        assert_eq!(
            letters.checked(&|size| size.to_string()),
            "a text of 64 and its echo, byte for byte"
        );
    }

    proptest! {
        #[test]
        fn any_bytes_have_one_outcome(reply in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = same_at_every_cut(&mut *exchange(&echo()), &reply);
        }

        #[test]
        fn near_misses_have_one_outcome(at in 0usize..20, byte in any::<u8>()) {
            let mut reply = b"\x89\x01!\x01\x03Hel\x8a\x01?\x80\x02lo\x89\x00".to_vec();
            let at = at % reply.len();
            reply[at] = byte;
            let _ = same_at_every_cut(&mut *exchange(&echo()), &reply);
        }
    }
}
