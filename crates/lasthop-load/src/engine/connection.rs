//! One connection with its side of the protocol: the steps that both engines are made of.

use std::io;

use crate::{
    clock,
    failure::Failure,
    protocol::{Exchange, Progress},
    recorder::Recorder,
    transport::Stream,
};

pub struct Connection {
    pub stream: Option<Stream>,
    exchange: Box<dyn Exchange>,
    /// Bytes of the request that the stream has taken.
    sent: usize,
    /// Whether everything taken has left for the socket.
    flushed: bool,
    /// When the request began, in monotonic nanoseconds.
    started: u64,
    /// When the first byte of the reply came; 0 before.
    first: u64,
}

/// What a receive led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing is there.
    Blocked,
    /// Some bytes came, the reply is not whole; whether the buffer was filled.
    More { filled: bool },
    /// The reply is whole.
    Finished(Reply),
}

/// A whole reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// When its last byte was received.
    pub at: u64,
    /// Whether the connection can carry another request.
    pub keep: bool,
    /// Whether it was the right answer.
    pub right: bool,
}

impl Connection {
    #[must_use]
    pub fn new(exchange: Box<dyn Exchange>) -> Self {
        Self { stream: None, exchange, sent: 0, flushed: true, started: 0, first: 0 }
    }

    /// Puts a fresh stream under the exchange.
    pub fn attach(&mut self, stream: Stream) {
        self.exchange.reset();
        self.stream = Some(stream);
    }

    #[must_use]
    pub fn is_open(&self) -> bool {
        self.stream.is_some()
    }

    pub fn close(&mut self) {
        self.stream = None;
    }

    #[must_use]
    pub fn started(&self) -> u64 {
        self.started
    }

    /// Closes an idle connection that the peer has closed or spoken on meanwhile.
    pub fn close_if_stale(&mut self) {
        if self.stream.as_mut().is_some_and(|stream| !stream.is_quiet()) {
            self.stream = None;
        }
    }

    /// Begins a request whose time counts from `start`. True when all of it has been sent.
    ///
    /// # Errors
    /// The connection broke.
    #[inline]
    pub fn begin(&mut self, start: u64) -> Result<bool, Failure> {
        self.exchange.begin();
        self.started = start;
        self.first = 0;
        self.sent = 0;
        self.send_more()
    }

    /// Sends what is left of the request, without waiting. True when all of it has been sent.
    ///
    /// # Errors
    /// The connection broke.
    #[inline]
    pub fn send_more(&mut self) -> Result<bool, Failure> {
        let Self { stream: Some(stream), exchange, sent, flushed, .. } = self else { return Ok(true) };
        let request = exchange.request();
        if *sent < request.len() {
            *sent += stream.send(&request[*sent..]).map_err(|error| Failure::io("send", &error))?;
        }
        *flushed = *sent == request.len() && stream.flush().map_err(|error| Failure::io("send", &error))?;
        Ok(*flushed)
    }

    /// One receive, and the judgement of what it brought. A right reply is recorded.
    ///
    /// # Errors
    /// The connection broke or its conversation is not to be trusted any more; it must be closed.
    #[inline]
    pub fn receive(&mut self, buffer: &mut [u8], recorder: &mut Recorder) -> Result<Step, Failure> {
        let Some(stream) = &mut self.stream else { return Ok(Step::Blocked) };
        let received = stream.receive(buffer);
        self.judge(received, buffer, recorder)
    }

    /// As [`Connection::receive`], but never waits, on a blocking socket either.
    ///
    /// # Errors
    /// The same.
    pub fn receive_now(&mut self, buffer: &mut [u8], recorder: &mut Recorder) -> Result<Step, Failure> {
        let Some(stream) = &mut self.stream else { return Ok(Step::Blocked) };
        let received = stream.receive_now(buffer);
        self.judge(received, buffer, recorder)
    }

    #[inline]
    fn judge(&mut self, received: io::Result<usize>, buffer: &[u8], recorder: &mut Recorder) -> Result<Step, Failure> {
        let exchange = &mut self.exchange;
        let count = match received {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Step::Blocked),
            Err(error) => return Err(Failure::io("receive", &error)),
        };
        let progress = if count == 0 { Progress::Done(exchange.end()?) } else { exchange.receive(&buffer[..count])? };
        let now = clock::now();
        if self.first == 0 {
            self.first = now;
        }
        match progress {
            Progress::More => Ok(Step::More { filled: count == buffer.len() }),
            Progress::Done(done) if done.used < count => {
                Err(Failure::protocol(format!("{} bytes follow the reply", count - done.used)))
            }
            Progress::Done(done) => {
                match &done.fault {
                    None => recorder.complete(self.started, self.first, now, done.payload),
                    Some(fault) => recorder.fail(fault),
                }
                Ok(Step::Finished(Reply { at: now, keep: done.keep && self.flushed, right: done.fault.is_none() }))
            }
        }
    }
}
