//! Many connections on one thread: one send and one receive per request, and one wait for all replies that have
//! arrived.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
    io, mem,
    sync::Arc,
};

use lasthop_protocol::{spec::Spec, wire::TrialPhases};
use lasthop_system::clock;
use lasthop_trial::{
    failure::Failure,
    options::{LoadStage, Model, SPIN_BEFORE_DUE_NS, Timeouts},
    result::{ErrorClass, TrialResult},
};

use super::{
    backoff::Backoff,
    blocking::BUFFER,
    connection::{Connection, Reply, Step},
    poller::{Event, Poller, TICK},
};
use crate::{
    pacer::Pacer,
    recorder::Recorder,
    transport::{Calls, Connector, Handshake, Socket, Stream, Watch},
};

/// Interval between checks of deadlines; a tenth of the shortest timeout if that is less.
const TICK_NS: u64 = 20_000_000;

/// How long the loop may go without checking deadlines: a peer that never stops sending would hold the loop up.
const HELD_UP_NS: u64 = 2 * TICK_NS;

/// Connections opened at a time before a load. Well below any listener's backlog: a connect that overflows the backlog
/// waits for a retransmission, which takes 1 s, then 2 s, then 4 s.
const OPENING_AT_ONCE: usize = 64;

/// The bits of a slot's token that hold its index.
const PLACE: u64 = u32::MAX as u64;

/// The state of a connection.
#[derive(Clone, Copy)]
enum Phase {
    Closed,
    /// Closed; it is reopened after a pause.
    Pausing,
    Connecting,
    /// Waiting for the server's plaintext before TLS.
    Asking,
    Handshaking,
    /// Authentication is under way.
    Greeting,
    Idle,
    /// A request is on its way or its reply is awaited.
    Busy {
        sent: bool,
    },
}

/// How far opening a connection has come.
#[derive(Default)]
struct Opening {
    /// The socket, until a stream takes it over.
    socket: Option<Socket>,
    /// Plaintext that the server sent before TLS.
    heard: Vec<u8>,
    /// When the connect began. With a connection per request, service time counts from here.
    since: u64,
    connect_ns: u64,
    tls_ns: Option<u64>,
    /// When authentication began.
    greeted: u64,
}

struct Slot {
    /// Identifies the events of this slot: its index, and in the upper bits the number of its sockets so far. So a late
    /// event of a closed socket is not attributed to the next socket.
    token: u64,
    connection: Connection,
    phase: Phase,
    opening: Opening,
    backoff: Backoff,
    /// Whether the socket's registration asks for writability.
    writable_asked: bool,
}

pub struct Epoll {
    slots: Vec<Slot>,
    pacer: Option<Pacer>,
    /// Tells whether the trial must end early.
    watch: Arc<Watch>,
    /// How long to busy-poll for a reply, and how long before a request is due.
    spin_ns: u64,
    spin_before_due_ns: u64,
    thread: ThreadState,
}

/// State shared by all connections of the thread.
struct ThreadState {
    connector: Connector,
    /// Open loop only: free connections, longest free first.
    free: Option<VecDeque<usize>>,
    poller: Poller,
    buffer: Vec<u8>,
    calls: Calls,
    recorder: Recorder,
    per_request: bool,
    /// Closed loop with keep-alive: the next request follows the reply at once.
    follows_up: bool,
    tls: bool,
    /// Whether a receive takes only one message, however large the buffer is.
    keeps_boundaries: bool,
    greets: bool,
    timeouts: Timeouts,
    /// When the deadlines were checked last.
    looked: u64,
    /// Connections with unfinished work. The loop ends when there are none.
    active: usize,
    /// Connections that pause after an error, by when their pause ends. A heap: the cost per turn of the loop depends
    /// on how many pauses end, not on how many connections pause.
    pauses: BinaryHeap<Reverse<(u64, usize)>>,
    /// Whether connections are only opened and left idle, outside a trial.
    only_open: bool,
}

impl ThreadState {
    /// The queue of free connections while a schedule runs.
    #[inline]
    fn free_for_schedule(&mut self) -> Option<&mut VecDeque<usize>> {
        self.free.as_mut().filter(|_| !self.only_open)
    }
}

/// Divides a wait into busy-polling and sleep; `None` means without limit.
fn split(nanoseconds: Option<u64>, spin_ns: u64) -> (u64, Option<u64>) {
    let awake = nanoseconds.map_or(spin_ns, |all| all.min(spin_ns));
    (awake, nanoseconds.map(|all| all - awake))
}

impl Epoll {
    pub fn new(
        spec: &Spec,
        connector: Connector,
        connections: u32,
        pacer: Option<Pacer>,
        watch: Arc<Watch>,
    ) -> io::Result<Self> {
        let free = pacer.as_ref().map(|_| VecDeque::with_capacity(connections as usize));
        let calls = Calls::default();
        let factory = spec.factory();
        let slot = |index: u32| Slot {
            token: index.into(),
            connection: Connection::new(factory.exchange(), spec),
            phase: Phase::Closed,
            opening: Opening::default(),
            backoff: Backoff::default(),
            writable_asked: false,
        };
        Ok(Self {
            slots: (0..connections).map(slot).collect(),
            pacer,
            watch,
            spin_ns: spec.spin_ns.unwrap_or(0),
            spin_before_due_ns: spec.spin_ns.unwrap_or(SPIN_BEFORE_DUE_NS),
            thread: ThreadState {
                connector,
                free,
                poller: Poller::new(calls.clone())?,
                buffer: vec![0; BUFFER],
                recorder: Recorder::new(calls.clone()).lingering(connections.into()),
                calls,
                per_request: spec.closes_each_time(),
                follows_up: !spec.closes_each_time() && spec.model == Model::Closed,
                tls: spec.endpoint.tls.is_some(),
                keeps_boundaries: spec.endpoint.address.keeps_boundaries(),
                greets: spec.protocol.greets(),
                timeouts: spec.timeouts,
                looked: 0,
                active: 0,
                // With room for all connections, so that no error allocates.
                pauses: BinaryHeap::with_capacity(connections as usize),
                only_open: false,
            },
        })
    }

    /// Opens all connections, unless every request has its own. Retries while a backlog is full.
    pub fn open(&mut self) -> Result<(), Failure> {
        if self.thread.per_request {
            return Ok(());
        }
        self.thread.only_open = true;
        let record = self.run(
            TrialPhases::without_warm_up(self.thread.timeouts.connect_ns),
            OPENING_AT_ONCE,
            None,
        );
        self.thread.only_open = false;
        if self.slots.iter().all(|slot| slot.connection.is_open()) {
            return Ok(());
        }
        let first = record.errors.into_iter().next();
        Err(first.map_or_else(
            || Failure::timeout("connect"),
            |(class, error)| Failure::new(class, error.first),
        ))
    }

    /// Runs a trial of at most `batches` batches of requests.
    pub fn trial(&mut self, phases: TrialPhases, stages: &[LoadStage], batches: Option<u64>) -> TrialResult {
        for slot in &mut self.slots {
            slot.connection.close_if_stale();
        }
        match self.pacer.take() {
            Some(mut pacer) => {
                pacer.in_stages(stages);
                let record = self.run_scheduled(&mut pacer, phases, stages, batches);
                self.pacer = Some(pacer);
                record
            }
            None => self.run(phases, usize::MAX, batches),
        }
    }

    /// Runs an open loop: when a request is due, the connection that has been free for longest sends it. If none is
    /// free, the request waits and its lag grows; in stages it is not sent.
    fn run_scheduled(
        &mut self,
        pacer: &mut Pacer,
        phases: TrialPhases,
        stages: &[LoadStage],
        batches: Option<u64>,
    ) -> TrialResult {
        let begin = clock::now();
        let mut ends = self.thread.recorder.start_scheduled(begin, phases, stages);
        self.thread.recorder.limit(begin, batches);
        self.start_ticking();
        self.thread.pauses.clear();
        self.thread.active = 0;
        if let Some(free) = &mut self.thread.free {
            free.clear();
            free.extend(0..self.slots.len());
        }
        pacer.restart();
        let mut now = begin;
        let mut warm = false;
        while now < ends {
            if !warm && now >= begin + phases.warm_up_ns {
                warm = true;
                // Drop requests that the warm-up did not send, so that the measurement starts without a backlog.
                pacer.release_before(phases.warm_up_ns);
            }
            self.release_due(pacer, begin, now, ends);
            if self.thread.recorder.is_spent() {
                self.thread.recorder.cut_short(clock::now().max(begin + pacer.taken()));
                break;
            }
            let next = if self.is_anyone_free() || pacer.waits_for_nobody() {
                ends.min(begin + pacer.due())
            } else {
                ends
            };
            // Busy-poll during the last part of the wait, because waking up would delay the request.
            let left = next
                .saturating_sub(clock::now())
                .saturating_sub(self.spin_before_due_ns);
            // Hundreds of replies may arrive at once. A request that becomes due meanwhile does not wait for the last
            // of them.
            let turned = self.turn(Some(left), |own| own.release_due(pacer, begin, clock::now(), ends));
            if let Err(error) = turned {
                self.thread.recorder.fail(&Failure::io("wait", &error), 1);
                break;
            }
            now = clock::now();
            // An early end moves the deadline.
            ends = self.thread.recorder.expires_at();
        }
        // In a trial of a number of requests, those due after the last one are not missed.
        let due = if self.thread.recorder.is_spent() {
            0
        } else {
            ends - begin
        };
        self.thread.recorder.missed(pacer.release_before(due));
        self.drain();
        self.thread.recorder.finish(clock::now())
    }

    fn is_anyone_free(&self) -> bool {
        self.thread.free.as_ref().is_some_and(|free| !free.is_empty())
    }

    fn release_due(&mut self, pacer: &mut Pacer, begin: u64, mut now: u64, ends: u64) {
        loop {
            let due = begin + pacer.due();
            if due > now || due >= ends || self.thread.recorder.is_spent() {
                return;
            }
            let Some(index) = self.thread.free.as_mut().and_then(VecDeque::pop_front) else {
                if !pacer.waits_for_nobody() {
                    return;
                }
                pacer.release();
                self.thread.recorder.turned_away(due);
                continue;
            };
            pacer.release();
            self.thread.recorder.sent(due, now);
            self.slots[index].connection.set_due(due);
            self.thread.active += 1;
            self.launch(index, now);
            now = clock::now();
        }
    }

    fn start_ticking(&mut self) {
        self.thread.looked = clock::now();
        let Timeouts { connect_ns, request_ns } = self.thread.timeouts;
        let tick = TICK_NS.min(connect_ns / 10).min(request_ns / 10).max(1_000_000);
        if let Err(error) = self.thread.poller.tick_every(tick) {
            self.thread.recorder.fail(&Failure::io("set a timer", &error), 1);
        }
    }

    /// Continues until no connection has unfinished work.
    fn drain(&mut self) {
        self.turn_until_active(0);
        // Between trials nobody waits for ticks, and a timer would go on interrupting a CPU that others measure on.
        let _ = self.thread.poller.tick_every(0);
    }

    /// Continues until at most `few` connections have unfinished work.
    fn turn_until_active(&mut self, few: usize) {
        while self.thread.active > few {
            let first = self.thread.pauses.peek();
            let left = first.map(|Reverse((until, _))| until.saturating_sub(clock::now()));
            if let Err(error) = self.turn(left, |_| ()) {
                self.thread.recorder.fail(&Failure::io("wait", &error), 1);
                break;
            }
            if self.thread.recorder.lingers() && !self.slots.iter().any(|slot| slot.is_awaited(&self.thread.recorder)) {
                self.thread.recorder.leave();
            }
        }
    }

    /// Runs a closed loop. A connection starts when fewer than `at_once` connections are active.
    fn run(&mut self, phases: TrialPhases, at_once: usize, batches: Option<u64>) -> TrialResult {
        let begin = clock::now();
        self.thread.recorder.start(begin, phases);
        self.thread.recorder.limit(begin, batches);
        self.start_ticking();
        self.thread.pauses.clear();
        self.thread.active = 0;
        for index in 0..self.slots.len() {
            self.turn_until_active(at_once - 1);
            let now = clock::now();
            if self.thread.recorder.is_expired(now) {
                break;
            }
            self.thread.active += 1;
            self.launch(index, now);
        }
        self.drain();
        self.thread.recorder.finish(clock::now())
    }

    /// Waits for events, busy-polling first if asked to.
    #[inline]
    fn wait(&mut self, nanoseconds: Option<u64>) -> io::Result<usize> {
        let (awake, asleep) = split(nanoseconds, self.spin_ns);
        if awake > 0 {
            let until = clock::now() + awake;
            loop {
                let count = self.thread.poller.wait(Some(0))?;
                if count > 0 {
                    return Ok(count);
                }
                if clock::now() >= until {
                    break;
                }
            }
            if asleep == Some(0) {
                return Ok(0);
            }
        }
        self.thread.poller.wait(asleep)
    }

    /// Waits once, for at most `nanoseconds`, and handles the events. `between` is called after each event.
    #[inline]
    fn turn(&mut self, nanoseconds: Option<u64>, mut between: impl FnMut(&mut Self)) -> io::Result<()> {
        let count = self.wait(nanoseconds)?;
        for index in 0..count {
            let event = self.thread.poller.event(index);
            if event.token == TICK {
                self.thread.poller.tick_seen();
                self.tick();
            } else {
                let index = (event.token & PLACE) as usize;
                let slot = &mut self.slots[index];
                if slot.token != event.token {
                    continue;
                }
                match slot.advance(event, &mut self.thread) {
                    Ok(None) => {}
                    step => self.settle(index, step),
                }
            }
            between(self);
        }
        if !self.thread.pauses.is_empty() {
            self.end_pauses();
        }
        Ok(())
    }

    /// Starts a connection's request, or its connect.
    fn launch(&mut self, index: usize, now: u64) {
        self.thread.recorder.begins();
        let step = self.slots[index].launch(now, &mut self.thread);
        self.settle(index, step);
    }

    /// Continues after a step until the connection waits for something.
    fn settle(&mut self, index: usize, mut step: Result<Option<Reply>, Failure>) {
        let Self { slots, thread, .. } = self;
        let slot = &mut slots[index];
        loop {
            let reply = match step {
                Ok(None) => return,
                Ok(Some(reply)) => reply,
                Err(failure) => {
                    let ended = slot
                        .connection
                        .recover(failure, &mut thread.buffer, &mut thread.recorder);
                    match ended {
                        Ok(Some(reply)) => reply,
                        Ok(None) => {
                            slot.close();
                            step = slot.launch(clock::now(), thread);
                            continue;
                        }
                        Err(failure) => return slot.fail(index, &failure, thread),
                    }
                }
            };
            slot.backoff.reset();
            let goes_on = match slot.connection.goes_on(reply) {
                Ok(goes_on) => goes_on,
                Err(failure) => return slot.fail(index, &failure, thread),
            };
            let usable = reply.keep && (!thread.per_request || goes_on);
            if !usable {
                slot.connection.close();
            }
            if let Some(free) = thread.free_for_schedule() {
                free.push_back(index);
                return slot.retire(thread);
            }
            let is_last = thread.recorder.is_over() || thread.recorder.is_spent();
            // A unit is completed even now, because the server counts the requests of a connection. Wrong replies never
            // shut the window; only the clock ends a trial that has no others.
            if (is_last && !goes_on) || (!reply.right && thread.recorder.is_expired(reply.at)) {
                return slot.retire(thread);
            }
            if !goes_on {
                thread.recorder.begins();
            }
            // The time of the next request excludes closing the connection.
            let now = if usable { reply.at } else { clock::now() };
            step = slot.launch(now, thread);
        }
    }

    /// Fails the connections that exceed their timeout.
    fn tick(&mut self) {
        let now = clock::now();
        self.thread.looked = now;
        if self.watch.is_asked() {
            self.watch.tell(self.thread.recorder.live(now));
        }
        if self.watch.is_cut_short() {
            self.thread.recorder.cut_short(now);
            if self.watch.is_given_up() {
                return self.give_up();
            }
        }
        for (index, slot) in self.slots.iter_mut().enumerate() {
            if let Some(failure) = slot.overdue(now, self.thread.timeouts) {
                slot.fail(index, &failure, &mut self.thread);
            }
        }
    }

    /// A reply still outstanding at an early end counts neither as an error nor as a reply.
    #[cold]
    fn give_up(&mut self) {
        let now = clock::now();
        let Self { slots, thread, .. } = self;
        for (index, slot) in slots.iter_mut().enumerate() {
            // Pausing connections are in the heap, from which `end_pauses` retires them.
            if !matches!(slot.phase, Phase::Closed | Phase::Idle | Phase::Pausing) {
                let lost = slot.connection.lost();
                thread.recorder.give_up(lost, slot.began(), now);
                slot.close();
                thread
                    .free_for_schedule()
                    .into_iter()
                    .for_each(|free| free.push_back(index));
                slot.retire(thread);
            }
        }
    }

    /// Restarts connections whose pause is over. After the end of the trial, retires all that pause.
    #[cold]
    fn end_pauses(&mut self) {
        let now = clock::now();
        let is_expired = self.thread.recorder.is_expired(now);
        while let Some(&Reverse((until, index))) = self.thread.pauses.peek()
            && (is_expired || until <= now)
        {
            self.thread.pauses.pop();
            if is_expired {
                self.slots[index].retire(&mut self.thread);
            } else {
                self.launch(index, now);
            }
        }
    }
}

impl Slot {
    /// Begins a request at `now`, or connects first.
    #[inline]
    fn launch(&mut self, now: u64, thread: &mut ThreadState) -> Result<Option<Reply>, Failure> {
        if self.connection.is_open() {
            return self.begin(now, thread);
        }
        let connector = &thread.connector;
        let (socket, connected) = connector.start(&thread.calls)?;
        // A pending connect reports its end as writability; for other cases see `ask_writable`.
        self.writable_asked = !connected || !connector.is_unix();
        // Count one more socket, in the upper half of the token.
        self.token += PLACE + 1;
        // Only after `connect`, because an unconnected TCP socket reports a hang-up. Nothing is missed: adding a
        // descriptor reports its current state.
        let added = thread.poller.add(&socket, self.token, self.writable_asked);
        added.map_err(|error| Failure::connect(&error))?;
        self.opening = Opening {
            socket: Some(socket),
            since: now,
            ..Opening::default()
        };
        self.phase = Phase::Connecting;
        if connected { self.connected(thread) } else { Ok(None) }
    }

    fn connected(&mut self, thread: &mut ThreadState) -> Result<Option<Reply>, Failure> {
        let Opening {
            socket: Some(socket),
            since,
            connect_ns,
            ..
        } = &mut self.opening
        else {
            return Ok(None);
        };
        *connect_ns = clock::now() - *since;
        if !thread.connector.asks_for_tls() {
            return self.established(thread);
        }
        thread.connector.ask_for_tls(socket)?;
        self.phase = Phase::Asking;
        // Bytes that arrived with the end of the connect are not reported again.
        if thread.connector.listens_first() {
            self.hear(thread)
        } else {
            Ok(None)
        }
    }

    /// Reads the server's plaintext before TLS.
    fn hear(&mut self, thread: &mut ThreadState) -> Result<Option<Reply>, Failure> {
        let Opening {
            socket: Some(socket),
            heard,
            ..
        } = &mut self.opening
        else {
            return Ok(None);
        };
        if thread.connector.hear(socket, heard)? {
            self.established(thread)
        } else {
            Ok(None)
        }
    }

    /// Continues on a connected socket, after the server has agreed to TLS if asked.
    fn established(&mut self, thread: &mut ThreadState) -> Result<Option<Reply>, Failure> {
        let Some(socket) = self.opening.socket.take() else {
            return Ok(None);
        };
        let heard = mem::take(&mut self.opening.heard);
        self.connection.attach(thread.connector.wrap(socket, heard)?);
        if thread.tls {
            self.phase = Phase::Handshaking;
            self.handshake(thread)
        } else {
            self.greet(true, thread)
        }
    }

    fn handshake(&mut self, thread: &mut ThreadState) -> Result<Option<Reply>, Failure> {
        let Some(Stream::Tls(tls)) = &mut self.connection.stream else {
            return Ok(None);
        };
        loop {
            match tls.handshake()? {
                Handshake::Progress => {}
                Handshake::WantsRead => return Ok(None),
                Handshake::WantsWrite => return self.ask_writable(true, thread).map(|()| None),
                Handshake::Done => break,
            }
        }
        thread.recorder.shook_hands(tls.is_resumed());
        self.opening.tls_ns = Some(clock::now() - self.opening.since - self.opening.connect_ns);
        self.greet(true, thread)
    }

    /// Authenticates if the protocol does, then makes the connection ready. `first` is true for the first call only.
    fn greet(&mut self, first: bool, thread: &mut ThreadState) -> Result<Option<Reply>, Failure> {
        let mut auth_ns = None;
        if thread.greets {
            if first {
                self.phase = Phase::Greeting;
                self.opening.greeted = clock::now();
            }
            let until = thread.looked + HELD_UP_NS;
            match self.connection.greet(first, &mut thread.buffer, until)? {
                Handshake::Done => {}
                Handshake::WantsWrite => return self.ask_writable(true, thread).map(|()| None),
                Handshake::WantsRead | Handshake::Progress => {
                    return self.go_on_later(clock::now(), thread).map(|_| None);
                }
            }
            if thread.connector.is_unix() {
                self.ask_writable(false, thread)?;
            }
            auth_ns = Some(clock::now() - self.opening.greeted);
        }
        let Opening {
            since,
            connect_ns,
            tls_ns,
            ..
        } = self.opening;
        thread.recorder.opened(connect_ns, tls_ns, auth_ns);
        // A request on a connection of its own is sent even if the trial has ended, because the server may already have
        // counted the connection.
        let is_needed = thread.per_request || self.connection.owes() || !thread.recorder.is_over();
        if thread.only_open || !is_needed {
            self.retire(thread);
            return Ok(None);
        }
        let start = if thread.per_request { since } else { clock::now() };
        let sent = self.connection.begin_first(start)?;
        self.begun(sent, thread)
    }

    #[inline]
    fn begin(&mut self, start: u64, thread: &mut ThreadState) -> Result<Option<Reply>, Failure> {
        let sent = self.connection.begin(start)?;
        self.begun(sent, thread)
    }

    #[inline]
    fn begun(&mut self, sent: bool, thread: &ThreadState) -> Result<Option<Reply>, Failure> {
        self.phase = Phase::Busy { sent };
        if !sent {
            self.ask_writable(true, thread)?;
        }
        Ok(None)
    }

    /// Watches a TCP socket for writability all the time, because TCP reports it only after the buffer was full. A Unix
    /// socket would report every byte that its peer reads, so it is watched only when needed.
    fn ask_writable(&mut self, wanted: bool, thread: &ThreadState) -> Result<(), Failure> {
        let stream = self.connection.stream.as_ref();
        let Some(stream) = stream.filter(|_| self.writable_asked != wanted) else {
            return Ok(());
        };
        self.writable_asked = wanted;
        let changed = thread.poller.modify(stream.socket(), self.token, wanted);
        changed.map_err(|error| Failure::io("wait", &error))
    }

    /// Whether the loop is held up at `now`. If so, other connections come first, and epoll reports the rest of this
    /// socket's bytes again.
    fn go_on_later(&self, now: u64, thread: &ThreadState) -> Result<bool, Failure> {
        let is_late = |stream: &&Stream| now >= thread.looked + HELD_UP_NS && stream.is_drained();
        let Some(stream) = self.connection.stream.as_ref().filter(is_late) else {
            return Ok(false);
        };
        let reported = thread.poller.modify(stream.socket(), self.token, self.writable_asked);
        reported.map_err(|error| Failure::io("wait", &error))?;
        Ok(true)
    }

    #[inline]
    fn advance(&mut self, event: Event, thread: &mut ThreadState) -> Result<Option<Reply>, Failure> {
        let step = match self.phase {
            Phase::Busy { sent } => return self.exchange(sent, event, thread),
            Phase::Connecting if event.writable || event.closed => {
                if let Some(socket) = &self.opening.socket {
                    socket.take_error().map_err(|error| Failure::connect(&error))?;
                }
                self.connected(thread)?
            }
            Phase::Asking if event.readable => self.hear(thread)?,
            Phase::Greeting if event.readable || event.writable => self.greet(false, thread)?,
            // Servers may close a connection between two requests. The next request opens a new one.
            Phase::Idle if event.closed && !thread.only_open => {
                self.close();
                return Ok(None);
            }
            Phase::Handshaking => self.handshake(thread)?,
            _ => return Ok(None),
        };
        match self.phase {
            // A reply may have arrived together with the end of the connect or handshake, which is not reported again.
            Phase::Busy { sent } if event.readable || thread.tls => {
                let event = Event {
                    readable: true,
                    ..event
                };
                self.exchange(sent, event, thread)
            }
            _ => Ok(step),
        }
    }

    #[inline]
    fn exchange(&mut self, mut sent: bool, event: Event, thread: &mut ThreadState) -> Result<Option<Reply>, Failure> {
        if !sent && event.writable {
            sent = self.connection.send_more()?;
            self.phase = Phase::Busy { sent };
            if sent && thread.connector.is_unix() {
                self.ask_writable(false, thread)?;
            }
        }
        if !event.readable {
            return Ok(None);
        }
        let mut received = match self.connection.receive_whole(&mut thread.buffer, &mut thread.recorder) {
            Ok(at) => {
                return self.follow_up(
                    Reply {
                        at,
                        keep: !event.closed,
                        right: true,
                    },
                    thread,
                );
            }
            Err(received) => Some(received),
        };
        let short_means_empty = self.connection.stream.as_ref().is_some_and(Stream::short_means_empty);
        // Edge-triggered: unread bytes are never reported again, so receives go on until one finds nothing or a short
        // one proves that nothing is left.
        let all_seen = !event.closed && !thread.keeps_boundaries && short_means_empty;
        loop {
            let step = match received.take() {
                Some(received) => self.connection.judge(received, &thread.buffer, &mut thread.recorder)?,
                None => self.connection.receive(&mut thread.buffer, &mut thread.recorder)?,
            };
            match step {
                Step::Finished(reply) if event.closed => return Ok(Some(Reply { keep: false, ..reply })),
                Step::Finished(reply) => return self.follow_up(reply, thread),
                Step::Blocked => return Ok(None),
                // The reply requires an answer that the socket does not take at once.
                Step::More { .. } if sent && !self.connection.is_flushed() => {
                    sent = false;
                    self.phase = Phase::Busy { sent };
                    self.ask_writable(true, thread)?;
                }
                Step::More { filled, .. } if all_seen && !filled => return Ok(None),
                Step::More { at, .. } if self.go_on_later(at, thread)? => return Ok(None),
                Step::More { .. } => {}
            }
        }
    }

    /// The common case, kept short: the next request leaves at once.
    #[inline]
    fn follow_up(&mut self, reply: Reply, thread: &mut ThreadState) -> Result<Option<Reply>, Failure> {
        let follows = thread.follows_up && reply.keep && reply.right && !thread.recorder.is_over();
        if !follows || !thread.recorder.begins() {
            return Ok(Some(reply));
        }
        self.backoff.reset();
        if !self.connection.begin(reply.at)? {
            self.phase = Phase::Busy { sent: false };
            self.ask_writable(true, thread)?;
        }
        Ok(None)
    }

    /// Whether a request is under way that counts for the latencies.
    fn is_awaited(&self, recorder: &Recorder) -> bool {
        !matches!(self.phase, Phase::Closed | Phase::Pausing | Phase::Idle) && recorder.is_timed(self.began())
    }

    /// When the request under way began, or its connect.
    fn began(&self) -> u64 {
        match (self.phase, self.connection.due()) {
            (_, due @ 1..) => due,
            (Phase::Busy { .. }, _) => self.connection.began(),
            _ if self.connection.owes() => self.connection.began(),
            _ => self.opening.since,
        }
    }

    /// The failure if the connection has taken too long at `now`.
    fn overdue(&self, now: u64, timeouts: Timeouts) -> Option<Failure> {
        let Opening {
            since,
            connect_ns,
            greeted,
            ..
        } = self.opening;
        let connected = since + connect_ns;
        let (what, since, limit) = match self.phase {
            Phase::Connecting => ("connect", since, timeouts.connect_ns),
            Phase::Asking => ("request for TLS", connected, timeouts.connect_ns),
            Phase::Handshaking => ("TLS handshake", connected, timeouts.connect_ns),
            Phase::Greeting => (self.connection.greeting_name(), greeted, timeouts.request_ns),
            Phase::Busy { .. } => ("reply", self.connection.started(), timeouts.request_ns),
            Phase::Closed | Phase::Pausing | Phase::Idle => return None,
        };
        (now.saturating_sub(since) > limit).then(|| Failure::timeout(what))
    }

    /// Counts a failure, and reopens the connection after a pause unless the time is over.
    #[cold]
    fn fail(&mut self, index: usize, failure: &Failure, thread: &mut ThreadState) {
        let lost = self.connection.lost();
        let due = self.connection.due();
        let now = clock::now();
        thread.recorder.fail_due(failure, lost, due, now);
        thread.recorder.ended(self.began(), now, lost);
        self.close();
        if let Some(free) = thread.free_for_schedule() {
            // The schedule paces the next request.
            free.push_back(index);
            return self.retire(thread);
        }
        // When connections are only opened, a retry helps only against a full backlog.
        let hopeless = thread.only_open && failure.class != ErrorClass::BacklogFull;
        if hopeless || thread.recorder.is_expired(now) {
            return self.retire(thread);
        }
        self.phase = Phase::Pausing;
        thread.pauses.push(Reverse((now + self.backoff.next(), index)));
    }

    fn close(&mut self) {
        self.connection.close();
        self.opening.socket = None;
        self.phase = Phase::Closed;
    }

    /// Ends the connection's work in this trial.
    fn retire(&mut self, thread: &mut ThreadState) {
        self.phase = if self.connection.is_open() {
            Phase::Idle
        } else {
            Phase::Closed
        };
        thread.active -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn awake_and_asleep_are_no_longer_than_the_wait() {
        assert_eq!(split(Some(100), 0), (0, Some(100)));
        assert_eq!(split(Some(100), 30), (30, Some(70)));
        assert_eq!(split(Some(100), 100), (100, Some(0)));
        assert_eq!(split(Some(100), 500), (100, Some(0)));
        assert_eq!(split(None, 30), (30, None));
    }
}
