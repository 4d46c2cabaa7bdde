//! What is said over a connection, without any socket: an [`Exchange`] yields the bytes of a request and judges the
//! bytes of its reply, in whatever pieces they arrive.
//!
//! A protocol is one file here and one arm in [`Factory::new`].

mod channel;
mod check;
pub mod chunked;
pub mod echo;
pub mod hello;
pub mod http;
pub mod postgres;
pub mod redis;
pub mod stream;
mod verified;

use std::cell::Cell;

use crate::{
    failure::Failure,
    spec::{Protocol, Reuse, Spec},
};

/// A whole reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// Bytes of the last piece that belong to the reply.
    pub used: usize,
    /// Whether the connection can carry another request.
    pub keep: bool,
    /// Bytes of content in the reply.
    pub payload: u64,
    /// A wrong answer within an intact conversation: the connection lives on, the request is an error.
    pub fault: Option<Box<Failure>>,
}

/// How far a reply has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// All bytes are taken, and more must come.
    More,
    Done(Done),
}

/// Whole, right replies, one directly after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// At least one.
    pub replies: u32,
    pub used: usize,
    /// Bytes of content in each reply.
    pub payload: u64,
}

/// How far a greeting has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Greeting {
    /// All bytes are taken, and more must come.
    More,
    Done,
}

/// One connection's side of a protocol. No call fails without a class to count it by, and none keeps more than a
/// bounded number of bytes.
pub trait Exchange {
    /// Forgets everything about an earlier connection.
    fn reset(&mut self);

    /// After [`Exchange::reset`], before the greeting: the stream is encrypted, and this is the server's certificate (DER).
    fn secured(&mut self, _certificate: &[u8]) {}

    /// Speaks before the first request: authentication, settings. Takes what was received, nothing the first time, and
    /// appends what is to be sent.
    ///
    /// # Errors
    /// The server does not let us in.
    fn greet(&mut self, _input: &[u8], _output: &mut Vec<u8>) -> Result<Greeting, Failure> {
        Ok(Greeting::Done)
    }

    /// Prepares the next request, or the next batch of a pipeline.
    fn begin(&mut self);

    /// The bytes of the request or batch that was begun.
    fn request(&self) -> &[u8];

    /// Turns to the next reply of the batch.
    fn next_reply(&mut self) {}

    /// The run of at most `most` replies that `bytes` begin with, found by comparing with what is known to be right.
    /// `None` says nothing about the bytes: [`Exchange::receive`] judges them. Asked only before the first byte of a
    /// reply; [`Exchange::next_reply`] is called for each of the run that is not the last of its batch.
    fn recognise(&mut self, _bytes: &[u8], _most: u32) -> Option<Run> {
        None
    }

    /// Judges the next bytes of the reply.
    ///
    /// # Errors
    /// The reply is wrong in a way after which the connection is of no use.
    fn receive(&mut self, bytes: &[u8]) -> Result<Progress, Failure>;

    /// The peer closed the connection: the end of a reply in some protocols, an error in others.
    ///
    /// # Errors
    /// The reply was not whole.
    fn end(&mut self) -> Result<Done, Failure>;
}

/// Makes the exchanges of one thread; they share what is equal among them.
pub struct Factory {
    make: Box<dyn Fn() -> Box<dyn Exchange>>,
}

impl Factory {
    /// `spec` is valid: what cannot be encoded is refused before.
    ///
    /// # Errors
    /// A text of the request cannot be encoded.
    pub fn new(spec: &Spec) -> std::io::Result<Self> {
        let make: Box<dyn Fn() -> Box<dyn Exchange>> = match spec.protocol.clone() {
            Protocol::Hello(hello) => Box::new(move || Box::new(hello::HelloExchange::new(&hello))),
            Protocol::Echo(echo) => {
                let (depth, made) = (spec.pipeline, Cell::new(0));
                Box::new(move || {
                    let connection = made.replace(made.get() + 1);
                    Box::new(echo::EchoExchange::new(&echo, depth, connection))
                })
            }
            Protocol::Stream(stream) => Box::new(move || Box::new(stream::StreamExchange::new(&stream))),
            Protocol::Http(http) => {
                let shared = http::Shared::new(&http, said_reuse(spec), spec.pipeline);
                Box::new(move || Box::new(http::HttpExchange::new(shared.clone())))
            }
            Protocol::Redis(redis) => {
                let shared = redis::Shared::new(&redis, spec.pipeline);
                Box::new(move || Box::new(redis::RedisExchange::new(shared.clone())))
            }
            Protocol::Postgres(postgres) => {
                let shared = postgres::Shared::new(&postgres, spec.pipeline)?;
                Box::new(move || Box::new(postgres::PostgresExchange::new(shared.clone())))
            }
        };
        Ok(Self { make })
    }

    #[must_use]
    pub fn exchange(&self) -> Box<dyn Exchange> {
        (self.make)()
    }
}

/// What the server is told to do with a connection: one that carries several requests is closed by the client.
#[must_use]
pub fn said_reuse(spec: &Spec) -> Reuse {
    if spec.requests_per_connection > 1 { Reuse::KeepAlive } else { spec.reuse }
}

/// Whether a connection is to be closed after each reply, or after each unit of requests. `Hello` knows no other way.
#[must_use]
pub fn closes_each_time(spec: &Spec) -> bool {
    spec.reuse == Reuse::PerRequest || matches!(spec.protocol, Protocol::Hello(_))
}

/// Whether a fresh connection begins with a greeting.
#[must_use]
pub fn greets(spec: &Spec) -> bool {
    match &spec.protocol {
        Protocol::Postgres(_) => true,
        Protocol::Redis(redis) => redis.password.is_some() || redis.database != 0,
        _ => false,
    }
}

/// What is said in plain before a TLS handshake, and the byte that the server must answer with.
#[must_use]
pub fn tls_request(spec: &Spec) -> Option<(&'static [u8], u8)> {
    match spec.protocol {
        Protocol::Postgres(_) => Some((&postgres::TLS_REQUEST, postgres::TLS_GRANTED)),
        _ => None,
    }
}

/// The reply `bytes` in words, for messages: printable, cut after 60 bytes.
fn excerpt(bytes: &[u8]) -> String {
    let cut = &bytes[..bytes.len().min(60)];
    let dots = if cut.len() < bytes.len() { "…" } else { "" };
    format!("\"{}{dots}\"", cut.escape_ascii())
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// The outcome of one reply fed in the given pieces, then the end of the stream: content and fault, or failure.
    pub fn feed(exchange: &mut dyn Exchange, pieces: &[&[u8]]) -> Result<(u64, bool, Option<Failure>), Failure> {
        exchange.reset();
        exchange.begin();
        let pieces: Vec<&[u8]> = pieces.iter().copied().filter(|piece| !piece.is_empty()).collect();
        if let Some(run) = pieces.first().and_then(|piece| exchange.recognise(piece, 1)) {
            return Ok((run.payload, true, None));
        }
        for piece in pieces {
            if let Progress::Done(done) = exchange.receive(piece)? {
                return Ok((done.payload, done.keep, done.fault.map(|fault| *fault)));
            }
        }
        let done = exchange.end()?;
        Ok((done.payload, done.keep, done.fault.map(|fault| *fault)))
    }

    /// Feeds `reply` in one piece, byte by byte, and cut once at every boundary: all must have the same outcome.
    pub fn same_at_every_cut(
        exchange: &mut dyn Exchange,
        reply: &[u8],
    ) -> Result<(u64, bool, Option<Failure>), Failure> {
        let whole = feed(exchange, &[reply]);
        let bytes: Vec<&[u8]> = reply.chunks(1).collect();
        assert_eq!(feed(exchange, &bytes), whole, "byte by byte");
        for cut in 0..=reply.len() {
            let (head, tail) = reply.split_at(cut);
            assert_eq!(feed(exchange, &[head, tail]), whole, "cut at {cut}");
        }
        whole
    }
}
