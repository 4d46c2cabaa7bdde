//! The opening handshake of WebSocket (RFC 6455, section 4): a request of HTTP/1.1 that the server answers with 101.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use lasthop_trial::failure::Failure;
use memchr::memmem;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

use super::{frame::wrong, random};
use crate::{
    exchange::excerpt,
    http::{self, HEAD_MAX, HEADERS_MAX},
};

pub const KEY: &str = "Sec-WebSocket-Key";
/// Bytes of a decoded key.
const KEY_BYTES: usize = 16;
/// Text appended to the key before hashing (RFC 6455, section 1.3).
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// One connection's handshake.
#[derive(Default)]
pub struct Handshake {
    /// The server's proof that it understood, which depends on the key.
    accept: String,
    /// The server's answer, as far as received.
    head: Vec<u8>,
    /// Whether the server has opened the WebSocket.
    pub is_over: bool,
}

impl Handshake {
    /// Appends the request; `request` is all but the key and the empty line.
    pub fn begin(request: &[u8], key: Option<&str>, output: &mut Vec<u8>) -> Result<Self, Failure> {
        let key = match key {
            Some(key) => key.to_owned(),
            None => STANDARD.encode(random::<KEY_BYTES>()?),
        };
        output.extend_from_slice(request);
        output.extend_from_slice(format!("{KEY}: {key}\r\n\r\n").as_bytes());
        Ok(Self {
            accept: accept(&key),
            ..Self::default()
        })
    }

    /// Takes bytes of the server's answer. Returns how many. `offered` are the subprotocols that the server may choose
    /// from.
    pub fn feed(&mut self, bytes: &[u8], offered: &[String]) -> Result<usize, Failure> {
        let kept = self.head.len();
        // The empty line may cross the border to the kept bytes.
        let from = kept.saturating_sub(3);
        self.head.extend_from_slice(bytes);
        let found = memmem::find(&self.head[from..], b"\r\n\r\n");
        let Some(end) = found.map(|found| from + found + 4).filter(|end| *end <= HEAD_MAX) else {
            http::refuse_early(&self.head)?;
            if self.head.len() >= HEAD_MAX {
                return Err(wrong(format!(
                    "the head of the server's answer does not end within {} KiB",
                    HEAD_MAX / 1024
                )));
            }
            return Ok(bytes.len());
        };
        self.head.truncate(end);
        self.is_over = self.judge(offered)?;
        self.head.clear();
        Ok(end - kept)
    }

    /// Whether the answer is final, not an interim one (1xx).
    fn judge(&self, offered: &[String]) -> Result<bool, Failure> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let (response, _) = http::parse(&self.head, &mut headers)?;
        let value = |name| http::value_of(response.headers, name);
        let status = response.code.unwrap_or(0);
        if status != 101 {
            let location = Some(value("location")).filter(|location| !location.is_empty());
            return if (100..200).contains(&status) {
                Ok(false)
            } else {
                Err(http::wrong_status(status, 101, location.as_deref()))
            };
        }
        let has = |name, word: &str| value(name).split(',').any(|own| own.trim().eq_ignore_ascii_case(word));
        if !has("upgrade", "websocket") || !has("connection", "upgrade") {
            return Err(wrong("the answer has status 101, but opens no WebSocket"));
        }
        let got = value("sec-websocket-accept");
        if got != self.accept {
            return Err(wrong(format!(
                "Sec-WebSocket-Accept is {}, but {} belongs to the key that was sent",
                excerpt(got.as_bytes()),
                excerpt(self.accept.as_bytes())
            )));
        }
        let extensions = value("sec-websocket-extensions");
        if !extensions.is_empty() {
            let shown = excerpt(extensions.as_bytes());
            return Err(wrong(format!(
                "the server uses the extension {shown}, but none was asked for"
            )));
        }
        let protocol = value("sec-websocket-protocol");
        if !protocol.is_empty() && !offered.contains(&protocol) {
            let shown = excerpt(protocol.as_bytes());
            return Err(wrong(format!(
                "the server speaks the subprotocol {shown}, which was not offered"
            )));
        }
        Ok(true)
    }
}

/// The proof for a key.
fn accept(key: &str) -> String {
    let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, format!("{key}{GUID}").as_bytes());
    STANDARD.encode(hash)
}

/// Whether the text is a key.
pub fn is_key(text: &str) -> bool {
    STANDARD.decode(text).is_ok_and(|bytes| bytes.len() == KEY_BYTES)
}

/// A server's answer to the request with this key.
pub fn answer(key: &str) -> Vec<u8> {
    let accept = accept(key);
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n\r\n"
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key of RFC 6455, section 1.3.
    const SAMPLE: &str = "dGhlIHNhbXBsZSBub25jZQ==";

    /// The outcome of an answer, the same at every cut: bytes used, or the error.
    fn outcome(answer: &str) -> Result<(usize, bool), String> {
        let bytes = answer.as_bytes();
        let in_two = |cut: usize| {
            let mut handshake = Handshake::begin(b"", Some(SAMPLE), &mut Vec::new()).unwrap();
            let mut used = handshake.feed(&bytes[..cut], &["chat".to_owned()])?;
            if !handshake.is_over {
                used += handshake.feed(&bytes[cut..], &["chat".to_owned()])?;
            }
            Ok((used, handshake.is_over))
        };
        let whole = in_two(bytes.len()).map_err(|failure: Failure| failure.message);
        for cut in 1..bytes.len() {
            let outcome = in_two(cut).map_err(|failure| failure.message);
            assert_eq!(outcome, whole, "cut at {cut}");
        }
        whole
    }

    fn with(more: &str) -> String {
        let right = String::from_utf8(answer(SAMPLE)).unwrap();
        right.replacen("\r\n\r\n", &format!("\r\n{more}\r\n"), 1)
    }

    #[test]
    fn the_key_of_the_standard_is_answered_as_there() {
        assert_eq!(accept(SAMPLE), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert!(is_key(SAMPLE) && !is_key("dGhl") && !is_key("?"));
        let mut output = Vec::new();
        Handshake::begin(b"GET / HTTP/1.1\r\n", None, &mut output).unwrap();
        let text = String::from_utf8(output).unwrap();
        let key = text.strip_prefix("GET / HTTP/1.1\r\nSec-WebSocket-Key: ").unwrap();
        assert!(is_key(key.trim_end()) && key.ends_with("\r\n\r\n"), "{text}");
    }

    #[test]
    fn only_the_right_answer_opens() {
        let right = with("");
        assert_eq!(outcome(&right), Ok((right.len(), true)));
        let chosen = with("sec-websocket-protocol: chat\r\n");
        assert_eq!(outcome(&(chosen.clone() + "\u{1}")), Ok((chosen.len(), true)));
        let interim = "HTTP/1.1 103 Early Hints\r\n\r\n";
        assert_eq!(outcome(interim), Ok((interim.len(), false)));
        for (answer, wanted) in [
            (
                with("Sec-WebSocket-Extensions: permessage-deflate\r\n"),
                "the extension \"permessage-deflate\", but none",
            ),
            (
                with("Sec-WebSocket-Protocol: mqtt\r\n"),
                "the subprotocol \"mqtt\", which was not offered",
            ),
            (
                right.replace("s3pP", "S3pP"),
                "Sec-WebSocket-Accept is \"S3pPLMBiTxaQ9kYGzzhZRbK+xOo=\", but \"s3pP",
            ),
            (
                right.replace("Sec-WebSocket-Accept", "X"),
                "Sec-WebSocket-Accept is \"\", but",
            ),
            (
                right.replace("Upgrade: websocket", "Upgrade: h2c"),
                "opens no WebSocket",
            ),
            (
                right.replace("Connection: Upgrade", "Connection: close"),
                "opens no WebSocket",
            ),
            ("HTTP/1.1 404 Not Found\r\n\r\n".to_owned(), "status 404, expected 101"),
            (
                "HTTP/1.1 301 Moved\r\nLocation: /a\r\n\r\n".to_owned(),
                "a redirect to \"/a\", expected 101",
            ),
            ("+PONG\r\n".to_owned(), "begins with \"+\", not with `HTTP/1.`"),
            ("HTTP/1.1 abc\r\n\r\n".to_owned(), "cannot be parsed"),
        ] {
            let error = outcome(&answer).unwrap_err();
            assert!(error.contains(wanted), "{answer}: {error}");
        }
    }

    #[test]
    fn a_head_without_end_is_refused() {
        let mut handshake = Handshake::begin(b"", None, &mut Vec::new()).unwrap();
        handshake.feed(b"HTTP/1.1 101 Go\r\n", &[]).unwrap();
        let endless = (0..HEAD_MAX).find_map(|_| handshake.feed(b"A: b\r\n", &[]).err());
        assert!(endless.unwrap().message.contains("does not end within 64 KiB"));
        assert!(handshake.head.len() <= HEAD_MAX + 6);
    }
}
