//! One connection and its protocol state: the steps that both engines share.

use std::io;

use lasthop_protocol::{Done, Exchange, Progress, exchange::excerpt, spec::Spec};
use lasthop_system::clock;
use lasthop_trial::{failure::Failure, result::ErrorClass};

use super::resend::{End, Resend};
use crate::{
    recorder::Recorder,
    transport::{Handshake, Stream},
};

pub struct Connection {
    pub stream: Option<Stream>,
    /// Name of the greeting in error messages.
    greeting_name: &'static str,
    is_greeted: bool,
    /// Bytes of the greeting that the stream has not taken.
    unsent: Vec<u8>,
    exchange: Box<dyn Exchange>,
    /// Bytes of the request that the stream has taken.
    sent: usize,
    /// Whether the stream has passed all bytes taken to the socket.
    flushed: bool,
    /// When the request began, in monotonic nanoseconds.
    started: u64,
    /// When the request was due, in an open loop; 0 in a closed one.
    due: u64,
    /// When the first byte of the reply arrived; 0 before.
    first: u64,
    /// Requests of a batch, and how many of their replies are outstanding.
    depth: u32,
    awaited: u32,
    /// Requests of the batch sent on this connection: fewer than `depth` if they are sent again.
    asked: u32,
    /// Requests sent on this connection.
    carried: u64,
    /// Whether nothing of the awaited reply has arrived yet.
    between: bool,
    /// The requests of a connection that carries several before it is closed.
    unit: Option<Unit>,
    resend: Resend,
}

/// Requests that follow each other on one connection and are timed together.
#[derive(Clone, Copy, Debug)]
struct Unit {
    requests: u32,
    /// Requests without a correct reply yet.
    left: u32,
    /// When its first request began, including the connect.
    started: u64,
    /// When the first byte of its first reply came.
    first: u64,
    payload: u64,
}

impl Unit {
    fn new(requests: u32) -> Self {
        Self {
            requests,
            left: requests,
            started: 0,
            first: 0,
            payload: 0,
        }
    }

    fn record(&mut self, payload: u64, first: u64, now: u64, recorder: &mut Recorder) {
        recorder.answered();
        self.first = if self.left == self.requests { first } else { self.first };
        self.payload += payload;
        self.left -= 1;
        if self.left == 0 {
            recorder.complete_unit(self.started, self.first, now, self.payload, self.requests);
        }
    }
}

/// The result of a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// There was nothing to receive.
    Blocked,
    /// Bytes arrived at `at`, but the reply is incomplete. `filled`: whether they filled the buffer.
    More { filled: bool, at: u64 },
    /// The reply is complete.
    Finished(Reply),
}

/// A complete reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// When its last byte was received.
    pub at: u64,
    /// Whether the connection can carry another request.
    pub keep: bool,
    /// Whether the reply was correct.
    pub right: bool,
}

impl Connection {
    pub fn new(exchange: Box<dyn Exchange>, spec: &Spec) -> Self {
        let requests = spec.requests_per_connection;
        Self {
            stream: None,
            greeting_name: spec.protocol.greeting_name(),
            is_greeted: false,
            unsent: Vec::new(),
            exchange,
            sent: 0,
            flushed: true,
            started: 0,
            due: 0,
            first: 0,
            depth: spec.pipeline,
            awaited: 0,
            asked: 0,
            carried: 0,
            between: true,
            unit: (requests > 1).then(|| Unit::new(requests)),
            resend: Resend::new(spec),
        }
    }

    /// Gives the exchange a new stream.
    pub fn attach(&mut self, stream: Stream) {
        self.exchange.reset();
        self.stream = Some(stream);
        self.carried = 0;
        self.resend.ending = None;
        self.resend.is_unheard = false;
        self.unit = self.unit.map(|unit| Unit::new(unit.requests));
    }

    /// Whether a connection that will be closed must carry more requests after `reply`.
    pub fn goes_on(&self, reply: Reply) -> Result<bool, Failure> {
        let Some(Unit {
            left: left @ 1..,
            requests,
            ..
        }) = self.unit.filter(|_| reply.right)
        else {
            return Ok(false);
        };
        if reply.keep {
            return Ok(true);
        }
        let text = format!("the peer ended the connection {left} requests before the last of {requests}");
        Err(Failure::reset(text))
    }

    /// Whether the server asked for a password; `None` if the protocol has none.
    pub fn password_asked(&self) -> Option<bool> {
        self.exchange.password_asked()
    }

    pub fn is_open(&self) -> bool {
        self.stream.is_some()
    }

    pub fn close(&mut self) {
        self.stream = None;
    }

    /// Whether all output so far has been passed to the socket.
    pub fn is_flushed(&self) -> bool {
        self.flushed
    }

    pub fn started(&self) -> u64 {
        self.started
    }

    /// Continues the greeting on a new stream as far as possible, at most until `until` (monotonic nanoseconds).
    /// `first` is true for the first call only.
    pub fn greet(&mut self, first: bool, buffer: &mut [u8], until: u64) -> Result<Handshake, Failure> {
        let Self {
            stream: Some(stream),
            greeting_name,
            is_greeted,
            unsent,
            exchange,
            ..
        } = self
        else {
            return Ok(Handshake::Done);
        };
        if let Some((certificate, heard)) = stream.secured().filter(|_| first) {
            exchange.secured(certificate, heard);
        }
        let broken = |error| Failure::io(greeting_name, &error);
        if first {
            unsent.clear();
            *is_greeted = exchange.greet(&[], unsent)?;
        }
        loop {
            if !unsent.is_empty() {
                let sent = stream.send(unsent).map_err(broken)?;
                unsent.drain(..sent);
            }
            if !unsent.is_empty() || !stream.flush().map_err(broken)? {
                return Ok(Handshake::WantsWrite);
            }
            if *is_greeted {
                return Ok(Handshake::Done);
            }
            if clock::now() >= until && stream.is_drained() {
                return Ok(Handshake::Progress);
            }
            let count = match stream.receive(buffer) {
                Ok(0) => {
                    return Err(Failure::reset(format!(
                        "{greeting_name}: the peer closed the connection"
                    )));
                }
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Handshake::WantsRead),
                Err(error) => return Err(broken(error)),
            };
            *is_greeted = exchange.greet(&buffer[..count], unsent)?;
        }
    }

    pub fn greeting_name(&self) -> &'static str {
        self.greeting_name
    }

    /// When the timed request, or the unit that it belongs to, began.
    pub fn began(&self) -> u64 {
        self.unit.map_or(self.started, |unit| unit.started)
    }

    /// Takes the number of unanswered requests lost with the connection: one if the connect failed.
    pub fn lost(&mut self) -> u64 {
        let lost = std::mem::take(&mut self.awaited) + std::mem::take(&mut self.resend.owed);
        u64::from(lost.max(1))
    }

    /// Whether requests are to be sent again over the next stream.
    pub fn owes(&self) -> bool {
        self.resend.owed > 0
    }

    /// Handles a failure. Returns the last reply if it had arrived before the failure, `None` if requests are to be
    /// sent again over another connection, or else the failure. If only part of a batch is sent again, the rest count
    /// as errors here.
    #[cold]
    pub fn recover(
        &mut self,
        failure: Failure,
        buffer: &mut [u8],
        recorder: &mut Recorder,
    ) -> Result<Option<Reply>, Failure> {
        let failure = match self.hear_out(failure, buffer, recorder) {
            Ok(reply) => return Ok(Some(reply)),
            Err(failure) => failure,
        };
        if failure.class != ErrorClass::Reset {
            return Err(failure);
        }
        let untaken = self.resend.untaken(&End {
            awaited: self.awaited,
            declined: self.exchange.declined(self.awaited),
            answered: self.asked - self.awaited,
            replies: self.carried.saturating_sub(self.awaited.into()),
            between: self.between,
        });
        if untaken == 0 {
            return Err(failure);
        }
        let lost = std::mem::take(&mut self.awaited) - untaken;
        if lost > 0 {
            let now = clock::now();
            recorder.fail_due(&failure, lost.into(), self.due, now);
            let began = if self.due > 0 { self.due } else { self.started };
            recorder.ended(began, now, lost.into());
        }
        recorder.sent_again(untaken.into());
        self.resend.owed = untaken;
        self.close();
        Ok(None)
    }

    /// Reads what the server sent before a send failed.
    fn hear_out(&mut self, failure: Failure, buffer: &mut [u8], recorder: &mut Recorder) -> Result<Reply, Failure> {
        if !std::mem::take(&mut self.resend.is_unheard) {
            return Err(failure);
        }
        loop {
            match self.receive_now(buffer, recorder)? {
                Step::Finished(reply) => return Ok(Reply { keep: false, ..reply }),
                Step::More { .. } => {}
                Step::Blocked => return Err(failure),
            }
        }
    }

    /// Sets the time from which the next response time counts.
    pub fn set_due(&mut self, due: u64) {
        self.due = due;
    }

    pub fn due(&self) -> u64 {
        self.due
    }

    /// Closes an idle connection that the peer has closed, or on which it has sent something.
    pub fn close_if_stale(&mut self) {
        if self.stream.as_mut().is_some_and(|stream| !stream.is_quiet()) {
            self.stream = None;
        }
    }

    /// Begins a request whose time counts from `start`. True when all of it has been sent.
    #[inline]
    pub fn begin(&mut self, start: u64) -> Result<bool, Failure> {
        self.exchange.begin();
        self.started = start;
        if let Some(unit) = self.unit.as_mut().filter(|unit| unit.left == unit.requests) {
            unit.started = start;
        }
        self.first = 0;
        self.sent = 0;
        self.awaited = self.depth;
        self.asked = self.depth;
        self.carried += u64::from(self.depth);
        self.between = true;
        self.send_more()
    }

    /// As [`Connection::begin`], on a connection that has just been opened.
    pub fn begin_first(&mut self, start: u64) -> Result<bool, Failure> {
        if self.owes() {
            self.begin_again()
        } else {
            self.begin(start)
        }
    }

    /// Sends the requests that another connection left untaken. Their time keeps running.
    #[cold]
    fn begin_again(&mut self) -> Result<bool, Failure> {
        let left = std::mem::take(&mut self.resend.owed);
        self.sent = self.exchange.begin_again(left, self.depth);
        self.first = 0;
        self.awaited = left;
        self.asked = left;
        self.carried += u64::from(left);
        self.between = true;
        self.send_more()
    }

    /// Sends the rest of the request without waiting. True when all of it has been sent.
    #[inline]
    pub fn send_more(&mut self) -> Result<bool, Failure> {
        let Self {
            stream: Some(stream),
            exchange,
            sent,
            flushed,
            resend,
            ..
        } = self
        else {
            return Ok(true);
        };
        let request = exchange.request();
        let passed = if *sent < request.len() {
            stream.send(&request[*sent..])
        } else {
            Ok(0)
        };
        let passed = passed.and_then(|count| {
            *sent += count;
            Ok(*sent == request.len() && stream.flush()?)
        });
        passed.inspect(|all| *flushed = *all).map_err(|error| {
            *flushed = false;
            resend.is_unheard = true;
            resend.ending = stream.socket().ending_by(&error, *sent);
            Failure::io("send", &error)
        })
    }

    /// Completes a request without a reply: it is over when it has been sent.
    pub fn sent(&mut self, recorder: &mut Recorder) -> Reply {
        let now = clock::now();
        self.first = now;
        self.awaited = 0;
        self.record(1, 0, now, recorder);
        Reply {
            at: now,
            keep: true,
            right: true,
        }
    }

    /// Receives once and judges the result. Records a correct reply.
    ///
    /// # Errors
    ///
    /// The connection broke or can no longer be trusted; it must be closed.
    #[inline]
    pub fn receive(&mut self, buffer: &mut [u8], recorder: &mut Recorder) -> Result<Step, Failure> {
        let Some(stream) = &mut self.stream else {
            return Ok(Step::Blocked);
        };
        let received = stream.receive(buffer);
        self.judge(received, buffer, recorder)
    }

    /// Like [`Connection::receive`], but never waits, not even on a blocking socket.
    pub fn receive_now(&mut self, buffer: &mut [u8], recorder: &mut Recorder) -> Result<Step, Failure> {
        let Some(stream) = &mut self.stream else {
            return Ok(Step::Blocked);
        };
        let received = stream.receive_now(buffer);
        self.judge(received, buffer, recorder)
    }

    /// Receives once in the common case: all awaited replies arrive together and are recognised as correct. Returns the
    /// time. Any other result is an error, for [`Connection::judge`].
    #[inline]
    pub fn receive_whole(&mut self, buffer: &mut [u8], recorder: &mut Recorder) -> Result<u64, io::Result<usize>> {
        let Some(stream) = &mut self.stream else {
            return Err(Err(io::ErrorKind::WouldBlock.into()));
        };
        let count = match stream.receive(buffer) {
            // Later pieces of a reply, and replies to half a request, take the slow path.
            Ok(count) if self.first == 0 && self.flushed => count,
            other => return Err(other),
        };
        let now = clock::now();
        match self.exchange.recognise(&buffer[..count], self.awaited) {
            Some(run) if run.replies == self.awaited && run.used == count => {
                self.first = now;
                self.awaited = 0;
                self.record(run.replies, run.payload, now, recorder);
                Ok(now)
            }
            _ => Err(Ok(count)),
        }
    }

    /// Judges what was received. Records a correct reply.
    pub fn judge(
        &mut self,
        received: io::Result<usize>,
        buffer: &[u8],
        recorder: &mut Recorder,
    ) -> Result<Step, Failure> {
        match received {
            Ok(count) if count > 0 => {
                let now = clock::now();
                self.first = if self.first == 0 { now } else { self.first };
                let step = self.judge_pieces(&buffer[..count], now, recorder)?;
                self.say_more()?;
                Ok(match step {
                    Step::Finished(reply) => Step::Finished(Reply {
                        // A server that replied to half a request would take its other half for the next request.
                        keep: reply.keep && self.flushed,
                        ..reply
                    }),
                    _ => Step::More {
                        filled: count == buffer.len(),
                        at: now,
                    },
                })
            }
            Ok(_) => {
                let done = self.exchange.end().inspect_err(|_| self.note_end())?;
                self.settle_last(&done, recorder)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Step::Blocked),
            Err(error) => {
                let stream = self.stream.as_ref();
                if !self.between
                    && stream.is_some_and(|stream| stream.has_said_all(&error))
                    && let Ok(done) = self.exchange.end()
                {
                    return self.settle_last(&done, recorder);
                }
                let ending = stream.and_then(|stream| stream.socket().ending_by(&error, self.sent));
                self.resend.ending = self.resend.ending.or(ending);
                Err(Failure::io("receive", &error))
            }
        }
    }

    /// Notes that the stream ended before a reply. An ending noted by a failed send stays, because it says more.
    #[cold]
    fn note_end(&mut self) {
        let ending = self.stream.as_ref().map(|stream| stream.socket().ending());
        self.resend.ending = self.resend.ending.or(ending);
    }

    /// Sends output that became ready only now: an answer to received bytes, or a delayed part of the request.
    fn say_more(&mut self) -> Result<(), Failure> {
        let has_more = self.flushed && self.exchange.request().len() > self.sent;
        if has_more { self.send_more().map(drop) } else { Ok(()) }
    }

    /// Handles the received replies one by one; the last may be incomplete.
    fn judge_pieces(&mut self, mut bytes: &[u8], now: u64, recorder: &mut Recorder) -> Result<Step, Failure> {
        loop {
            if self.between
                && let Some(run) = self.exchange.recognise(bytes, self.awaited)
            {
                bytes = &bytes[run.used..];
                self.nothing_follows(run.replies, bytes)?;
                self.awaited -= run.replies;
                self.record(run.replies, run.payload, now, recorder);
                if self.awaited == 0 {
                    return Ok(Step::Finished(Reply {
                        at: now,
                        keep: self.flushed,
                        right: true,
                    }));
                }
                (0..run.replies).for_each(|_| self.exchange.next_reply());
            } else {
                let Progress::Done(done) = self.exchange.receive(bytes)? else {
                    self.between = false;
                    return Ok(Step::More { filled: false, at: now });
                };
                bytes = &bytes[done.used..];
                self.nothing_follows(1, bytes)?;
                self.settle_one(&done, now, recorder);
                let step = self.after_one(&done, now, false)?;
                if let Step::Finished(_) = step {
                    return Ok(step);
                }
                self.exchange.next_reply();
            }
            self.between = true;
            if bytes.is_empty() {
                return Ok(Step::More { filled: false, at: now });
            }
        }
    }

    /// Fails if bytes follow the last awaited reply.
    fn nothing_follows(&self, replies: u32, rest: &[u8]) -> Result<(), Failure> {
        if replies < self.awaited || rest.is_empty() {
            return Ok(());
        }
        Err(Failure::protocol(format!(
            "{} bytes follow the reply: {}",
            rest.len(),
            excerpt(rest)
        )))
    }

    fn settle_one(&mut self, done: &Done, now: u64, recorder: &mut Recorder) {
        self.awaited -= 1;
        match &done.fault {
            Some(fault) => recorder.fail_due(fault, 1, self.due, now),
            None => self.record(1, done.payload, now, recorder),
        }
    }

    /// Handles the reply that ended with the stream.
    fn settle_last(&mut self, done: &Done, recorder: &mut Recorder) -> Result<Step, Failure> {
        let now = clock::now();
        self.first = if self.first == 0 { now } else { self.first };
        self.settle_one(done, now, recorder);
        self.after_one(done, now, true)
    }

    /// Decides what follows a reply; `ended` if the peer has closed.
    fn after_one(&self, done: &Done, now: u64, ended: bool) -> Result<Step, Failure> {
        if self.awaited == 0 {
            let keep = done.keep && self.flushed;
            return Ok(Step::Finished(Reply {
                at: now,
                keep,
                right: done.fault.is_none(),
            }));
        }
        if ended || !done.keep {
            return Err(Failure::reset("the peer ended the connection before its last reply"));
        }
        Ok(Step::More { filled: false, at: now })
    }

    #[inline]
    fn record(&mut self, replies: u32, payload: u64, now: u64, recorder: &mut Recorder) {
        if let Some(unit) = &mut self.unit {
            unit.record(payload, self.first, now, recorder);
        } else if self.due == 0 {
            recorder.complete(self.started, self.first, now, payload, replies);
        } else {
            recorder.complete_due(self.due, self.started, self.first, now, payload);
        }
    }
}
