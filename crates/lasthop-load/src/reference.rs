//! Where nobody says what a right reply is, the first one is: two samples are taken, and what they have in common is
//! expected of every reply.

use crate::{
    failure::Failure,
    protocol::chunked::Chunked,
    sample::{self, Sample},
    spec::{HttpExpect, PostgresExpect, Protocol, RedisExpect, Spec},
};

/// Longest body that is compared byte for byte; of a longer one the length is.
const BODY_MAX: usize = 1 << 20;

/// The protocol of `spec` with what its endpoint answers as the expectation, as far as two replies agree.
/// An expectation that `spec` has already must hold for both. Hello, echo and stream know their answers anyway.
///
/// # Errors
/// As of a load: no connection, or a wrong answer.
pub fn learn(spec: &Spec) -> Result<Protocol, Failure> {
    let mut protocol = spec.protocol.clone();
    match &mut protocol {
        Protocol::Http(http) => {
            let (first, second) = two(spec, |sample| body(&sample.reply))?;
            http.expect = HttpExpect { ..common_body(&http.expect, &first, &second) };
        }
        Protocol::Redis(redis) => {
            let (first, second) = two(spec, |sample| Ok(redis_value(&sample.reply)))?;
            redis.expect = match (first, second) {
                (first, second) if first == second => first,
                (RedisExpect::Bulk(first), RedisExpect::Bulk(second)) if first.len() == second.len() => {
                    RedisExpect::Length(first.len() as u64)
                }
                _ => RedisExpect::Success,
            };
        }
        Protocol::Postgres(postgres) => {
            let (first, second) = two(spec, |sample| Ok(postgres_result(&sample.reply)))?;
            postgres.expect = PostgresExpect {
                rows: first.rows.filter(|_| first.rows == second.rows),
                tag: first.tag.clone().filter(|_| first.tag == second.tag),
                first: first.first.clone().filter(|_| first.first == second.first),
            };
        }
        Protocol::Hello(_) | Protocol::Echo(_) | Protocol::Stream(_) => {}
    }
    Ok(protocol)
}

fn two<T>(spec: &Spec, read: impl Fn(&Sample) -> Result<T, Failure>) -> Result<(T, T), Failure> {
    Ok((read(&sample::take(spec)?)?, read(&sample::take(spec)?)?))
}

fn common_body(given: &HttpExpect, first: &[u8], second: &[u8]) -> HttpExpect {
    let mut expect = given.clone();
    let text = std::str::from_utf8(first).ok().filter(|_| first.len() <= BODY_MAX && first == second);
    expect.body = expect.body.or_else(|| text.map(str::to_owned));
    expect.length = expect.length.or_else(|| (first.len() == second.len()).then_some(first.len() as u64));
    expect
}

/// The body of a whole HTTP reply; heads of interim replies (1xx) are passed over.
fn body(reply: &[u8]) -> Result<Vec<u8>, Failure> {
    let mut headers = [httparse::EMPTY_HEADER; 256];
    let mut head = httparse::Response::new(&mut headers);
    let length = match head.parse(reply) {
        Ok(httparse::Status::Complete(length)) => length,
        _ => return Err(Failure::protocol("HTTP: the reply has no whole head")),
    };
    let rest = &reply[length..];
    if head.code.is_some_and(|code| code < 200) {
        return body(rest);
    }
    let chunked = head.headers.iter().any(|header| {
        header.name.eq_ignore_ascii_case("transfer-encoding") && header.value.to_ascii_lowercase().ends_with(b"chunked")
    });
    if !chunked {
        return Ok(rest.to_vec());
    }
    let mut content = Vec::new();
    let mut coding = Chunked::default();
    coding.reset();
    coding.feed(rest, |piece| content.extend_from_slice(piece))?;
    Ok(content)
}

/// What a reply is, where it is a single value; anything nested is `Success`.
fn redis_value(reply: &[u8]) -> RedisExpect {
    let Ok(text) = std::str::from_utf8(reply) else { return binary_value(reply) };
    let Some((line, rest)) = text.split_once("\r\n") else { return RedisExpect::Success };
    match line.split_at_checked(1) {
        Some(("+", word)) => RedisExpect::Simple(word.to_owned()),
        Some((":", number)) => number.parse().map_or(RedisExpect::Success, RedisExpect::Integer),
        Some(("$", "-1")) => RedisExpect::Nil,
        Some(("$", _)) => RedisExpect::Bulk(rest.strip_suffix("\r\n").unwrap_or(rest).to_owned()),
        _ => RedisExpect::Success,
    }
}

/// A bulk text that is not UTF-8 is known by its length.
fn binary_value(reply: &[u8]) -> RedisExpect {
    let line = reply.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let length = line.strip_prefix(b"$").and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
    length.map_or(RedisExpect::Success, RedisExpect::Length)
}

/// Rows, first column of the first row and command tag of a whole reply.
fn postgres_result(reply: &[u8]) -> PostgresExpect {
    let mut found = PostgresExpect { rows: Some(0), ..PostgresExpect::default() };
    let mut rest = reply;
    while let Some((kind, content, after)) = message(rest) {
        match kind {
            b'D' => {
                if found.rows == Some(0) {
                    found.first = first_column(content);
                }
                found.rows = found.rows.map(|rows| rows + 1);
            }
            b'C' => {
                let tag = content.strip_suffix(&[0]).unwrap_or(content);
                found.tag = std::str::from_utf8(tag).ok().map(str::to_owned);
            }
            _ => {}
        }
        rest = after;
    }
    found
}

/// Type and content of the message that `bytes` begin with, and what follows it.
fn message(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (kind, rest) = bytes.split_first()?;
    let length = u32::from_be_bytes(*rest.first_chunk()?) as usize;
    let (content, after) = (rest.get(4..length)?, rest.get(length..)?);
    Some((*kind, content, after))
}

/// Number of columns in two bytes, the first one's length in four (−1 is NULL), then its text.
fn first_column(row: &[u8]) -> Option<String> {
    let length = i32::from_be_bytes(*row.get(2..)?.first_chunk()?);
    let text = row.get(6..6 + usize::try_from(length).ok()?)?;
    std::str::from_utf8(text).ok().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_found_behind_interim_heads_and_chunks() {
        let plain = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n";
        assert_eq!(body(plain).unwrap(), b"ok\n");
        let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
        assert_eq!(body(chunked).unwrap(), b"abcde");
        assert!(body(b"HTTP/1.1 200 OK\r\n").is_err());
    }

    #[test]
    fn a_body_that_changes_is_known_by_what_stays() {
        let given = HttpExpect { status: 200, body: None, contains: Vec::new(), length: None };
        let same = common_body(&given, b"abc", b"abc");
        assert_eq!((same.body.as_deref(), same.length), (Some("abc"), Some(3)));
        let time = common_body(&given, b"12:01", b"12:02");
        assert_eq!((time.body, time.length), (None, Some(5)));
        let other = common_body(&given, b"1", b"10");
        assert_eq!((other.body, other.length), (None, None));
    }

    #[test]
    fn redis_values_are_recognised() {
        for (reply, expect) in [
            (&b"+PONG\r\n"[..], RedisExpect::Simple("PONG".into())),
            (b":7\r\n", RedisExpect::Integer(7)),
            (b"$-1\r\n", RedisExpect::Nil),
            (b"$5\r\na\r\nbc\r\n", RedisExpect::Bulk("a\r\nbc".into())),
            (b"$2\r\n\xff\xfe\r\n", RedisExpect::Length(2)),
            (b"*1\r\n:1\r\n", RedisExpect::Success),
        ] {
            assert_eq!(redis_value(reply), expect);
        }
    }

    #[test]
    fn a_result_of_postgresql_is_read() {
        let reply = b"T\0\0\0\x06\0\x01D\0\0\0\x0b\0\x01\0\0\0\x01\x37D\0\0\0\x0b\0\x01\0\0\0\x01\x38C\0\0\0\x0dSELECT 2\0Z\0\0\0\x05I";
        let expect = PostgresExpect { rows: Some(2), first: Some("7".into()), tag: Some("SELECT 2".into()) };
        assert_eq!(postgres_result(reply), expect);
    }
}
