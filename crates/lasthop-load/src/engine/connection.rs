//! One connection with its side of the protocol: the steps that both engines are made of.

use std::io;

use crate::{
    clock,
    failure::Failure,
    protocol::{Done, Exchange, Greeting, Progress},
    recorder::Recorder,
    result::ErrorClass,
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
    /// When the request was due, in an open loop; 0 in a closed one.
    due: u64,
    /// When the first byte of the reply came; 0 before.
    first: u64,
    /// Requests of a batch, and those of them whose replies have not come.
    depth: u32,
    awaited: u32,
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
    pub fn new(exchange: Box<dyn Exchange>, depth: u32) -> Self {
        Self { stream: None, exchange, sent: 0, flushed: true, started: 0, due: 0, first: 0, depth, awaited: 0 }
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

    /// Takes the greeting on a fresh stream as far as it goes; true when it is over. `first` is true once.
    ///
    /// # Errors
    /// The server does not let us in, or the connection broke.
    pub fn greet(&mut self, first: bool, buffer: &mut [u8]) -> Result<bool, Failure> {
        let Self { stream: Some(stream), exchange, .. } = self else { return Ok(true) };
        let mut output = Vec::new();
        let mut done = first && exchange.greet(&[], &mut output)? == Greeting::Done;
        loop {
            if !output.is_empty() {
                let sent = stream.send(&output).map_err(|error| Failure::io("authentication", &error))?;
                let flushed = stream.flush().map_err(|error| Failure::io("authentication", &error))?;
                if sent < output.len() || !flushed {
                    return Err(Failure::new(
                        ErrorClass::Os,
                        "authentication: a fresh socket does not take the greeting",
                    ));
                }
                output.clear();
            }
            if done {
                return Ok(true);
            }
            let count = match stream.receive(buffer) {
                Ok(0) => return Err(Failure::new(ErrorClass::Reset, "authentication: the peer closed the connection")),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(Failure::io("authentication", &error)),
            };
            done = exchange.greet(&buffer[..count], &mut output)? == Greeting::Done;
        }
    }

    /// Requests without an answer that are lost with the connection; one that failed to open loses one.
    pub fn lost(&mut self) -> u64 {
        u64::from(std::mem::take(&mut self.awaited).max(1))
    }

    /// The next request counts its response time from `due`.
    pub fn set_due(&mut self, due: u64) {
        self.due = due;
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
        self.awaited = self.depth;
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
        let mut progress =
            if count == 0 { Progress::Done(exchange.end()?) } else { exchange.receive(&buffer[..count])? };
        let now = clock::now();
        if self.first == 0 {
            self.first = now;
        }
        let mut used = 0;
        loop {
            let Progress::Done(done) = progress else { return Ok(Step::More { filled: count == buffer.len() }) };
            used += done.used;
            let last = self.awaited == 1;
            if last && used < count {
                return Err(Failure::protocol(format!("{} bytes follow the reply", count - used)));
            }
            self.awaited -= 1;
            self.record(&done, now, recorder);
            if last {
                let keep = done.keep && self.flushed;
                return Ok(Step::Finished(Reply { at: now, keep, right: done.fault.is_none() }));
            }
            if !done.keep {
                return Err(Failure::new(ErrorClass::Reset, "the peer ended the connection before its last reply"));
            }
            self.exchange.next_reply();
            if used == count {
                return Ok(Step::More { filled: count == buffer.len() });
            }
            progress = self.exchange.receive(&buffer[used..count])?;
        }
    }

    #[inline]
    fn record(&self, done: &Done, now: u64, recorder: &mut Recorder) {
        match &done.fault {
            Some(fault) => recorder.fail(fault, 1),
            None if self.due == 0 => recorder.complete(self.started, self.first, now, done.payload),
            None => recorder.complete_due(self.due, self.started, self.first, now, done.payload),
        }
    }
}
