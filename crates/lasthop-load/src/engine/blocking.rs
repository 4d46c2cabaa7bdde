//! One connection with blocking calls, as in a plain program: one send and one receive per request. The thread that
//! waits for this thread enforces its deadline.

use std::sync::Arc;

use lasthop_protocol::{
    spec::Spec,
    wire::{Stage, TrialPhases},
};
use lasthop_system::clock;
use lasthop_trial::{
    failure::Failure,
    result::{ErrorClass, Proof, TrialResult},
};

use super::{
    CaseError,
    backoff::Backoff,
    connection::{Connection, Reply, Step},
};
use crate::{
    proof,
    recorder::Recorder,
    transport::{Calls, Connector, Handshake, Stream, Wait, Watch},
};

/// Size of the receive buffer in bytes.
pub(super) const BUFFER: usize = 256 * 1024;

pub struct Blocking {
    connector: Connector,
    connection: Connection,
    buffer: Vec<u8>,
    calls: Calls,
    recorder: Recorder,
    per_request: bool,
    request_ns: u64,
    pipeline: u32,
    greets: bool,
    /// Whether the protocol has no replies: a request is over when it is sent.
    one_way: bool,
    /// The deadline of each request, which the thread that started this one checks.
    watch: Arc<Watch>,
}

impl Blocking {
    /// Another thread must check `watch`. Otherwise this one waits for ever for replies that never come.
    pub fn new(spec: &Spec, connector: Connector, watch: Arc<Watch>) -> Self {
        let calls = Calls::default();
        Self {
            connector,
            connection: Connection::new(spec.factory().exchange(), spec),
            buffer: vec![0; BUFFER],
            recorder: Recorder::new(calls.clone()),
            calls,
            per_request: spec.closes_each_time(),
            request_ns: spec.timeouts.request_ns,
            pipeline: spec.pipeline,
            greets: spec.protocol.greets(),
            one_way: spec.protocol.receipt().is_some(),
            watch,
        }
    }

    /// Opens the connection, unless every request has its own.
    ///
    /// # Errors
    ///
    /// The connect, the TLS handshake or the authentication failed.
    pub fn open(&mut self) -> Result<(), Failure> {
        if !self.per_request {
            self.connect_patiently()?;
            self.watch.rest();
        }
        Ok(())
    }

    /// Connects outside a trial. Retries while the server's backlog is full, at most until the connect timeout.
    fn connect_patiently(&mut self) -> Result<(), Failure> {
        let deadline = clock::now() + self.connector.timeouts().connect_ns;
        let mut backoff = Backoff::default();
        while !self.connection.is_open() {
            match self.connect() {
                Err(failure) if failure.class == ErrorClass::BacklogFull && self.has_time(deadline) => {
                    clock::sleep(backoff.next());
                }
                other => other?,
            }
        }
        Ok(())
    }

    fn has_time(&self, deadline: u64) -> bool {
        clock::now() < deadline && !self.watch.is_cut_short()
    }

    /// Sends one request, or one unit of requests, outside a trial. Returns the proof of its connection.
    ///
    /// # Errors
    ///
    /// Stage connect: the connection failed. Stage verify: the reply is not correct.
    pub fn probe(&mut self) -> Result<Proof, CaseError> {
        let reused = self.connection.is_open();
        let now = clock::now();
        self.recorder.start(now, TrialPhases::without_warm_up(u64::MAX / 4));
        let proof = self
            .reopen_for_proof()
            .map_err(|failure| CaseError::failed(Stage::Connect, &failure))?;
        let wrong = |failure: Failure| CaseError::failed(Stage::Verify, &failure);
        let mut at = now;
        loop {
            let reply = self.request(at).map_err(wrong)?;
            let goes_on = self.connection.goes_on(reply).map_err(wrong)?;
            at = self.after(reply, goes_on);
            if !goes_on {
                break;
            }
        }
        self.watch.rest();
        let mut record = self.recorder.finish(clock::now());
        if let Some((class, error)) = record.errors.pop_first() {
            return Err(wrong(Failure::new(class, error.first)));
        }
        if self.pipeline > 1 && record.connections_opened >= self.pipeline.into() {
            let text = format!(
                "the server ends the connection after each reply, so {} requests at once are not possible",
                self.pipeline
            );
            return Err(wrong(Failure::reset(text)));
        }
        Ok(Proof { reused, ..proof })
    }

    fn reopen_for_proof(&mut self) -> Result<Proof, Failure> {
        self.connect_patiently()?;
        let stream = self.connection.stream.as_ref().expect("opened just above");
        let proof = proof::read(stream, self.connector.options());
        let proof = proof.map_err(|error| Failure::io("read the proof", &error))?;
        Ok(Proof {
            password_asked: self.connection.password_asked(),
            ..proof
        })
    }

    /// Runs a trial of at most `batches` batches of requests.
    pub fn trial(&mut self, phases: TrialPhases, batches: Option<u64>) -> TrialResult {
        self.connection.close_if_stale();
        let mut backoff = Backoff::default();
        let mut now = clock::now();
        self.recorder.start(now, phases);
        self.recorder.limit(now, batches);
        let mut continues = false;
        while !self.recorder.is_over() && (continues || self.recorder.begins()) {
            if self.watch.is_called() {
                self.heed(now);
            }
            let request = self.request(now);
            let right = match request.and_then(|reply| Ok((reply, self.connection.goes_on(reply)?))) {
                Ok((reply, goes_on)) => {
                    now = self.after(reply, goes_on);
                    backoff.reset();
                    continues = goes_on;
                    reply.right
                }
                // A reply still outstanding at an early end counts neither as an error nor as a reply.
                Err(_) if self.watch.is_given_up() => {
                    let now = clock::now();
                    let lost = self.connection.lost();
                    self.recorder.give_up(lost, self.connection.began(), now);
                    self.connection.close();
                    self.recorder.cut_short(now);
                    break;
                }
                Err(failure) => {
                    self.connection.close();
                    let lost = self.connection.lost();
                    self.recorder.fail(&failure, lost);
                    self.recorder.ended(now, clock::now(), lost);
                    now = self.pause(backoff.next());
                    continues = false;
                    false
                }
            };
            // Without a correct reply only the clock can end the trial.
            if !right && self.recorder.is_expired(now) {
                break;
            }
        }
        if self.per_request {
            // A unit cut short does not continue in the next trial.
            self.connection.close();
        }
        self.watch.rest();
        self.recorder.finish(clock::now())
    }

    /// Reports the progress of the trial if asked, or ends the trial early.
    #[cold]
    fn heed(&mut self, now: u64) {
        if self.watch.is_asked() {
            self.watch.tell(self.recorder.live(now));
        } else if self.watch.is_cut_short() {
            self.recorder.cut_short(now);
        }
    }

    /// Sleeps, at most until the trial ends. Returns the time.
    fn pause(&mut self, nanoseconds: u64) -> u64 {
        // The longest pause, 0.1 s, is twice as long as a trial is by default.
        let left = self.recorder.expires_at().saturating_sub(clock::now());
        clock::sleep(nanoseconds.min(left));
        clock::now()
    }

    /// When the next request may begin. Its time excludes closing the connection.
    #[inline]
    fn after(&mut self, reply: Reply, goes_on: bool) -> u64 {
        if reply.keep && (!self.per_request || goes_on) {
            return reply.at;
        }
        self.connection.close();
        clock::now()
    }

    /// One request from `start` to its reply.
    #[inline]
    fn request(&mut self, start: u64) -> Result<Reply, Failure> {
        match self.attempt(start) {
            Err(failure) => self.recover(failure),
            reply => reply,
        }
    }

    /// Sends again the requests that the server did not take, until they are answered or fail.
    #[cold]
    fn recover(&mut self, mut failure: Failure) -> Result<Reply, Failure> {
        loop {
            let ended = self.connection.recover(failure, &mut self.buffer, &mut self.recorder)?;
            if let Some(reply) = ended {
                return Ok(reply);
            }
            match self.attempt(self.connection.started()) {
                Err(next) => failure = next,
                reply => return reply,
            }
        }
    }

    #[inline]
    fn attempt(&mut self, start: u64) -> Result<Reply, Failure> {
        let is_open = self.connection.is_open();
        let start = if is_open { start } else { self.reopen(start)? };
        self.watch.expect_by(start.saturating_add(self.request_ns));
        let sent = if is_open {
            self.connection.begin(start)?
        } else {
            self.connection.begin_first(start)?
        };
        if !sent {
            if self.one_way {
                self.recorder.waited();
            }
            if let Some(reply) = self.send_and_receive(start)? {
                return Ok(reply);
            }
        }
        if self.one_way {
            return Ok(self.connection.sent(&mut self.recorder));
        }
        let mut received = match self.connection.receive_whole(&mut self.buffer, &mut self.recorder) {
            Ok(at) => {
                return Ok(Reply {
                    at,
                    keep: true,
                    right: true,
                });
            }
            Err(received) => Some(received),
        };
        loop {
            let step = match received.take() {
                Some(received) => self.connection.judge(received, &self.buffer, &mut self.recorder)?,
                None => self.connection.receive(&mut self.buffer, &mut self.recorder)?,
            };
            match step {
                Step::Finished(reply) => return Ok(reply),
                // The socket blocks: a receive finds nothing only if the watch has shut the socket down.
                Step::Blocked => return Err(Failure::timeout("reply")),
                Step::More { .. } => self.check_time(start)?,
            }
            if !self.connection.is_flushed()
                && let Some(reply) = self.send_and_receive(start)?
            {
                return Ok(reply);
            }
        }
    }

    /// Connects, with the TLS handshake and the authentication if there are any.
    fn connect(&mut self) -> Result<(), Failure> {
        let opened = self.connector.open(&self.calls, &self.watch)?;
        let established = clock::now();
        if let Stream::Tls(tls) = &opened.stream {
            self.recorder.shook_hands(tls.is_resumed());
        }
        self.connection.attach(opened.stream);
        let mut auth_ns = None;
        if self.greets {
            match self.greet() {
                Ok(true) => auth_ns = Some(clock::now() - established),
                refused => {
                    self.connection.close();
                    return refused.and(Err(Failure::timeout(self.connection.greeting_name())));
                }
            }
        }
        self.recorder.opened(opened.connect_ns, opened.tls_ns, auth_ns);
        Ok(())
    }

    /// Conducts the greeting. False if the time for it is over.
    fn greet(&mut self) -> Result<bool, Failure> {
        let mut state = self.connection.greet(true, &mut self.buffer, u64::MAX)?;
        while state == Handshake::WantsWrite {
            let Some(stream) = &self.connection.stream else {
                break;
            };
            let waited = stream.wait(Wait::Write, None);
            waited.map_err(|error| Failure::io(self.connection.greeting_name(), &error))?;
            if self.watch.is_overdue() {
                break;
            }
            state = self.connection.greet(false, &mut self.buffer, u64::MAX)?;
        }
        Ok(state == Handshake::Done)
    }

    fn reopen(&mut self, start: u64) -> Result<u64, Failure> {
        self.connect()?;
        let goes_on = self.per_request || self.connection.owes();
        Ok(if goes_on { start } else { clock::now() })
    }

    /// Sends the rest of a request that the socket did not take at once, and reads the reply meanwhile. Otherwise a
    /// server that answers before it has read everything would deadlock with this client.
    fn send_and_receive(&mut self, start: u64) -> Result<Option<Reply>, Failure> {
        loop {
            self.check_time(start)?;
            let Some(stream) = &self.connection.stream else {
                return Ok(None);
            };
            let waited = stream.wait(Wait::ReadOrWrite, Some(self.request_ns));
            let ready = waited.map_err(|error| Failure::io("send", &error))?;
            if ready.readable {
                let step = self.connection.receive_now(&mut self.buffer, &mut self.recorder)?;
                if let Step::Finished(reply) = step {
                    return Ok(Some(reply));
                }
            }
            if ready.writable && self.connection.send_more()? {
                return Ok(None);
            }
        }
    }

    /// Fails after the request timeout: a peer that sends byte by byte never lets a receive time out, and a socket that
    /// was shut down is always ready.
    fn check_time(&self, start: u64) -> Result<(), Failure> {
        if clock::now().saturating_sub(start) > self.request_ns || self.watch.is_overdue() {
            Err(Failure::timeout("reply"))
        } else {
            Ok(())
        }
    }
}
