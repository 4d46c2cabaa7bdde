//! Many connections on one thread: one send and one receive per request, and one wait for all replies that are there.

use std::{collections::VecDeque, io, sync::Arc};

use lasthop_protocol::{
    failure::Failure,
    result::ErrorClass,
    spec::{LoadStage, Model, SPIN_BEFORE_DUE_NS, Spec},
    wire::TrialPhases,
};
use lasthop_system::clock;

use super::{
    backoff::Backoff,
    blocking::BUFFER,
    connection::{Connection, Reply, Step},
    pauses::Pauses,
    poller::{Event, Interest, Poller, TICK},
};
use crate::{
    pacer::Pacer,
    recorder::{Recorder, WorkerRecord},
    transport::{Calls, Connector, Handshake, Socket, Stream, Watch},
};

/// Interval between checks of deadlines; a tenth of the shortest timeout if that is less.
const TICK_NS: u64 = 20_000_000;

/// How many connections are opened at a time before a load, well below any listener's backlog: what overflows it has to
/// wait for a retransmission, which takes 1 s, then 2 s, then 4 s.
const OPENING_AT_ONCE: usize = 64;

/// The part of a slot's token that is its index.
const PLACE: u64 = u32::MAX as u64;

/// The state of a connection.
enum Phase {
    Closed,
    /// Closed; it is reopened after a pause.
    Pausing,
    /// The connect is under way since the first time; the service time of the request to follow counts from the second.
    Connecting {
        socket: Socket,
        since: u64,
    },
    /// The server's words in plain before TLS are awaited.
    Asking {
        socket: Socket,
        heard: Vec<u8>,
        since: u64,
        connect_ns: u64,
    },
    Handshaking {
        since: u64,
        connect_ns: u64,
    },
    /// Authentication is under way since the second time.
    Greeting {
        since: u64,
        began: u64,
        connect_ns: u64,
        tls_ns: Option<u64>,
    },
    Idle,
    /// A request is on its way or its reply is awaited.
    Busy {
        sent: bool,
    },
}

struct Slot {
    /// Identifies its events: its index, and in the upper bits how many sockets it has had, so that a late event of a
    /// closed socket is not taken for one of the next socket.
    token: u64,
    connection: Connection,
    phase: Phase,
    backoff: Backoff,
    /// Whether the socket's registration asks for writability.
    writable_asked: bool,
}

pub struct Epoll {
    connector: Connector,
    slots: Vec<Slot>,
    pacer: Option<Pacer>,
    /// Tells whether the trial must end early.
    watch: Arc<Watch>,
    /// How long to busy-poll for a reply, and how long before a request is due.
    spin_ns: u64,
    spin_before_due_ns: u64,
    shared: Common,
}

/// Shared by all connections of the thread.
struct Common {
    /// Open loop only: free connections, the one that has been free for longest first.
    free: Option<VecDeque<usize>>,
    poller: Poller,
    buffer: Vec<u8>,
    calls: Calls,
    recorder: Recorder,
    per_request: bool,
    /// Closed loop with keep-alive: the next request follows the reply at once.
    follows_up: bool,
    tls: bool,
    /// A receive takes one message, however large the buffer is.
    keeps_boundaries: bool,
    greets: bool,
    connect_ns: u64,
    request_ns: u64,
    /// Connections with unfinished work. The loop ends when there are none.
    active: usize,
    pauses: Pauses,
    /// Outside a trial: connections are opened and left idle.
    only_open: bool,
}

impl Common {
    /// The queue of free connections while a schedule runs.
    #[inline]
    fn free_for_schedule(&mut self) -> Option<&mut VecDeque<usize>> {
        self.free.as_mut().filter(|_| !self.only_open)
    }
}

/// How much of a wait is busy-polling and how much is sleep; `None` means without end.
fn split(nanoseconds: Option<u64>, spin_ns: u64) -> (u64, Option<u64>) {
    let awake = nanoseconds.map_or(spin_ns, |all| all.min(spin_ns));
    (awake, nanoseconds.map(|all| all - awake))
}

impl Epoll {
    /// Errors: no epoll instance could be made.
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
            backoff: Backoff::default(),
            writable_asked: false,
        };
        Ok(Self {
            connector,
            slots: (0..connections).map(slot).collect(),
            pacer,
            watch,
            spin_ns: spec.spin_ns.unwrap_or(0),
            spin_before_due_ns: spec.spin_ns.unwrap_or(SPIN_BEFORE_DUE_NS),
            shared: Common {
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
                connect_ns: spec.timeouts.connect_ns,
                request_ns: spec.timeouts.request_ns,
                active: 0,
                pauses: Pauses::of(connections as usize),
                only_open: false,
            },
        })
    }
}

impl Epoll {
    /// Opens all connections, unless every request has its own. Waits for a full backlog.
    /// Errors: the first failure, if not all connections are open within the connect timeout.
    pub fn open(&mut self) -> Result<(), Failure> {
        if self.shared.per_request {
            return Ok(());
        }
        self.shared.only_open = true;
        let record = self.run(
            TrialPhases {
                warm_up_ns: 0,
                measure_ns: self.shared.connect_ns,
            },
            OPENING_AT_ONCE,
        );
        self.shared.only_open = false;
        if self.slots.iter().all(|slot| slot.connection.is_open()) {
            return Ok(());
        }
        let first = record.counts.errors.into_iter().next();
        Err(first.map_or_else(
            || Failure::timeout("connect"),
            |(class, error)| Failure::new(class, error.first),
        ))
    }

    pub fn trial(&mut self, phases: TrialPhases, stages: &[LoadStage]) -> WorkerRecord {
        for slot in &mut self.slots {
            slot.connection.close_if_stale();
        }
        match self.pacer.take() {
            Some(mut pacer) => {
                pacer.in_stages(stages);
                let record = self.run_scheduled(&mut pacer, phases, stages);
                self.pacer = Some(pacer);
                record
            }
            None => self.run(phases, usize::MAX),
        }
    }

    /// Runs an open loop: when a request is due, the connection that has been free for longest sends it. If none is
    /// free, the request waits and its lag grows; in stages it is not sent.
    fn run_scheduled(&mut self, pacer: &mut Pacer, phases: TrialPhases, stages: &[LoadStage]) -> WorkerRecord {
        let begin = clock::now();
        let mut ends = self.shared.recorder.start_scheduled(begin, phases, stages);
        self.start_ticking();
        self.shared.pauses.clear();
        self.shared.active = 0;
        if let Some(free) = &mut self.shared.free {
            free.clear();
            free.extend(0..self.slots.len());
        }
        pacer.restart();
        let mut now = begin;
        let mut warm = false;
        while now < ends {
            if !warm && now >= begin + phases.warm_up_ns {
                warm = true;
                // Drop what the warm-up did not send, so that an overload starts afresh with the measurement.
                pacer.release_before(phases.warm_up_ns);
            }
            self.release_due(pacer, begin, now, ends);
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
                self.shared.recorder.fail(&Failure::io("wait", &error), 1);
                break;
            }
            now = clock::now();
            ends = self.shared.recorder.expires_at();
        }
        self.shared.recorder.missed(pacer.release_before(ends - begin));
        self.drain();
        self.shared.recorder.finish(clock::now())
    }

    fn is_anyone_free(&self) -> bool {
        self.shared.free.as_ref().is_some_and(|free| !free.is_empty())
    }

    fn release_due(&mut self, pacer: &mut Pacer, begin: u64, mut now: u64, ends: u64) {
        loop {
            let due = begin + pacer.due();
            if due > now || due >= ends {
                return;
            }
            let Some(index) = self.shared.free.as_mut().and_then(VecDeque::pop_front) else {
                if !pacer.waits_for_nobody() {
                    return;
                }
                pacer.release();
                self.shared.recorder.turned_away(due);
                continue;
            };
            pacer.release();
            self.shared.recorder.sent(due, now);
            self.slots[index].connection.set_due(due);
            self.shared.active += 1;
            self.launch(index, now);
            now = clock::now();
        }
    }

    fn start_ticking(&mut self) {
        let common = &mut self.shared;
        let tick = TICK_NS
            .min(common.connect_ns / 10)
            .min(common.request_ns / 10)
            .max(1_000_000);
        if let Err(error) = common.poller.tick_every(tick) {
            common.recorder.fail(&Failure::io("set a timer", &error), 1);
        }
    }

    /// Continues until no connection has unfinished work.
    fn drain(&mut self) {
        self.turn_until_active(0);
        let _ = self.shared.poller.tick_every(0);
    }

    /// Continues until at most `few` connections have unfinished work.
    fn turn_until_active(&mut self, few: usize) {
        while self.shared.active > few {
            let pauses = &self.shared.pauses;
            let left = if pauses.is_empty() {
                None
            } else {
                pauses.left(clock::now())
            };
            if let Err(error) = self.turn(left, |_| ()) {
                self.shared.recorder.fail(&Failure::io("wait", &error), 1);
                break;
            }
            if self.shared.recorder.lingers() && !self.slots.iter().any(|slot| slot.is_awaited(&self.shared.recorder)) {
                self.shared.recorder.leave();
            }
        }
    }

    /// Runs a closed loop. At most `at_once` connections are at work when another one starts.
    fn run(&mut self, phases: TrialPhases, at_once: usize) -> WorkerRecord {
        self.shared.recorder.start(clock::now(), phases);
        self.start_ticking();
        self.shared.pauses.clear();
        self.shared.active = 0;
        for index in 0..self.slots.len() {
            self.turn_until_active(at_once - 1);
            let now = clock::now();
            if self.shared.recorder.is_expired(now) {
                break;
            }
            self.shared.active += 1;
            self.launch(index, now);
        }
        self.drain();
        self.shared.recorder.finish(clock::now())
    }

    /// Waits for events, busy-polling first if asked to.
    #[inline]
    fn wait(&mut self, nanoseconds: Option<u64>) -> io::Result<usize> {
        let (awake, asleep) = split(nanoseconds, self.spin_ns);
        if awake > 0 {
            let until = clock::now() + awake;
            loop {
                let count = self.shared.poller.wait(Some(0))?;
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
        self.shared.poller.wait(asleep)
    }

    /// Waits once, for at most `nanoseconds`, and handles the events. `between` is called after each event.
    #[inline]
    fn turn(&mut self, nanoseconds: Option<u64>, mut between: impl FnMut(&mut Self)) -> io::Result<()> {
        let count = self.wait(nanoseconds)?;
        for index in 0..count {
            let event = self.shared.poller.event(index);
            if event.token == TICK {
                self.shared.poller.tick_seen();
                self.tick();
            } else {
                let index = (event.token & PLACE) as usize;
                let Self {
                    slots,
                    shared,
                    connector,
                    ..
                } = self;
                let slot = &mut slots[index];
                if slot.token != event.token {
                    continue;
                }
                match slot.advance(event, shared, connector) {
                    Ok(None) => {}
                    step => self.settle(index, step),
                }
            }
            between(self);
        }
        if !self.shared.pauses.is_empty() {
            self.end_pauses();
        }
        Ok(())
    }

    /// Starts a connection's request, or its connect.
    fn launch(&mut self, index: usize, now: u64) {
        let Self {
            slots,
            shared,
            connector,
            ..
        } = self;
        let step = slots[index].launch(now, shared, connector);
        self.settle(index, step);
    }

    /// Continues after a step until the connection waits for something.
    fn settle(&mut self, index: usize, mut step: Result<Option<Reply>, Failure>) {
        let Self {
            slots,
            shared,
            connector,
            ..
        } = self;
        let slot = &mut slots[index];
        loop {
            step = match step {
                Ok(None) => return,
                Ok(Some(reply)) => {
                    slot.backoff.reset();
                    let goes_on = match slot.connection.goes_on(reply) {
                        Ok(goes_on) => goes_on,
                        Err(failure) => return slot.fail(index, &failure, shared),
                    };
                    let usable = reply.keep && (!shared.per_request || goes_on);
                    if !usable {
                        slot.connection.close();
                    }
                    if let Some(free) = shared.free_for_schedule() {
                        free.push_back(index);
                        return slot.retire(shared);
                    }
                    // A unit is completed, because the server counts its requests.
                    if (shared.recorder.is_over() && !goes_on) || (!reply.right && shared.recorder.is_expired(reply.at))
                    {
                        return slot.retire(shared);
                    }
                    let now = if usable { reply.at } else { clock::now() };
                    slot.launch(now, shared, connector)
                }
                Err(failure) => return slot.fail(index, &failure, shared),
            }
        }
    }

    /// Fails what takes too long.
    fn tick(&mut self) {
        let now = clock::now();
        if self.watch.is_cut_short() {
            self.shared.recorder.cut_short(now);
            if self.watch.is_given_up() {
                return self.give_up();
            }
        }
        for (index, slot) in self.slots.iter_mut().enumerate() {
            if let Some(failure) = slot.overdue(now, &self.shared) {
                slot.fail(index, &failure, &mut self.shared);
            }
        }
    }

    /// A reply that did not come before an early end counts neither as an error nor as an answer.
    #[cold]
    fn give_up(&mut self) {
        let Self { slots, shared, .. } = self;
        for (index, slot) in slots.iter_mut().enumerate() {
            if !matches!(slot.phase, Phase::Closed | Phase::Idle | Phase::Pausing) {
                shared.recorder.give_up(slot.connection.lost());
                slot.connection.close();
                shared
                    .free_for_schedule()
                    .into_iter()
                    .for_each(|free| free.push_back(index));
                slot.retire(shared);
            }
        }
    }

    /// Restarts connections whose pause is over. When the time is over, all give up.
    #[cold]
    fn end_pauses(&mut self) {
        let now = clock::now();
        if self.shared.recorder.is_expired(now) {
            while let Some(index) = self.shared.pauses.end_any() {
                self.slots[index].retire(&mut self.shared);
            }
        }
        while let Some(index) = self.shared.pauses.end_due(now) {
            self.launch(index, now);
        }
    }
}

impl Slot {
    /// Begins a request at `now`, or connects first.
    #[inline]
    fn launch(&mut self, now: u64, common: &mut Common, connector: &Connector) -> Result<Option<Reply>, Failure> {
        if self.connection.is_open() {
            return self.begin(now, common);
        }
        let (socket, connected) = connector.start(&common.calls)?;
        self.writable_asked = !connected || !connector.is_unix();
        let interest = if self.writable_asked {
            Interest::ReadWrite
        } else {
            Interest::Read
        };
        let fd = std::os::fd::AsRawFd::as_raw_fd(&socket);
        self.token += PLACE + 1;
        common
            .poller
            .add(fd, self.token, interest)
            .map_err(|error| Failure::connect(&error))?;
        if connected {
            return self.connected(socket, now, common, connector);
        }
        self.phase = Phase::Connecting { socket, since: now };
        Ok(None)
    }

    fn connected(
        &mut self,
        socket: Socket,
        since: u64,
        common: &mut Common,
        connector: &Connector,
    ) -> Result<Option<Reply>, Failure> {
        let connect_ns = clock::now() - since;
        if connector.asks_for_tls() {
            connector.ask_for_tls(&socket)?;
            self.phase = Phase::Asking {
                socket,
                heard: Vec::new(),
                since,
                connect_ns,
            };
            // What came together with the end of the connect is not reported again.
            return if connector.listens_first() {
                self.hear(common, connector)
            } else {
                Ok(None)
            };
        }
        self.established(connector.wrap(socket, Vec::new())?, since, connect_ns, common)
    }

    /// What the server says in plain before TLS.
    fn hear(&mut self, common: &mut Common, connector: &Connector) -> Result<Option<Reply>, Failure> {
        let Phase::Asking {
            socket,
            heard,
            since,
            connect_ns,
        } = &mut self.phase
        else {
            return Ok(None);
        };
        let since = *since;
        let connect_ns = *connect_ns;
        if !connector.hear(socket, heard)? {
            return Ok(None);
        }
        let Phase::Asking { socket, heard, .. } = std::mem::replace(&mut self.phase, Phase::Closed) else {
            unreachable!("matched just above")
        };
        self.established(connector.wrap(socket, heard)?, since, connect_ns, common)
    }

    /// The socket is connected, and the server has agreed to TLS if it had to be asked.
    fn established(
        &mut self,
        stream: Stream,
        since: u64,
        connect_ns: u64,
        common: &mut Common,
    ) -> Result<Option<Reply>, Failure> {
        self.connection.attach(stream);
        if common.tls {
            self.phase = Phase::Handshaking { since, connect_ns };
            return self.handshake(since, connect_ns, common);
        }
        self.greet(since, connect_ns, None, common)
    }

    fn handshake(&mut self, since: u64, connect_ns: u64, common: &mut Common) -> Result<Option<Reply>, Failure> {
        let Some(Stream::Tls(tls)) = &mut self.connection.stream else {
            return Ok(None);
        };
        loop {
            match tls.handshake()? {
                Handshake::Progress => {}
                Handshake::WantsRead => return Ok(None),
                Handshake::WantsWrite => {
                    self.ask_writable(common)?;
                    return Ok(None);
                }
                Handshake::Done => break,
            }
        }
        let tls_ns = Some(clock::now() - since - connect_ns);
        common.recorder.shook_hands(tls.is_resumed());
        self.greet(since, connect_ns, tls_ns, common)
    }

    fn greet(
        &mut self,
        since: u64,
        connect_ns: u64,
        tls_ns: Option<u64>,
        common: &mut Common,
    ) -> Result<Option<Reply>, Failure> {
        if !common.greets {
            common.recorder.opened(connect_ns, tls_ns, None);
            return self.ready(since, common);
        }
        let began = clock::now();
        self.phase = Phase::Greeting {
            since,
            began,
            connect_ns,
            tls_ns,
        };
        self.go_on_greeting(true, common)
    }

    fn go_on_greeting(&mut self, first: bool, common: &mut Common) -> Result<Option<Reply>, Failure> {
        let Phase::Greeting {
            since,
            began,
            connect_ns,
            tls_ns,
        } = self.phase
        else {
            return Ok(None);
        };
        if !self.connection.greet(first, &mut common.buffer)? {
            return Ok(None);
        }
        common.recorder.opened(connect_ns, tls_ns, Some(clock::now() - began));
        self.ready(since, common)
    }

    /// The connection is established.
    fn ready(&mut self, since: u64, common: &mut Common) -> Result<Option<Reply>, Failure> {
        // Its request is sent even if the trial ends meanwhile, because the server may already have counted the
        // connection.
        if common.only_open || (!common.per_request && common.recorder.is_over()) {
            self.retire(common);
            return Ok(None);
        }
        let start = if common.per_request { since } else { clock::now() };
        self.begin(start, common)
    }

    #[inline]
    fn begin(&mut self, start: u64, common: &mut Common) -> Result<Option<Reply>, Failure> {
        let sent = self.connection.begin(start)?;
        self.phase = Phase::Busy { sent };
        if !sent {
            self.ask_writable(common)?;
        }
        Ok(None)
    }

    /// Always asks a TCP socket for writability, because it reports that only after having been full. A Unix socket
    /// would report every byte that its peer reads, so it is asked only when needed.
    fn ask_writable(&mut self, common: &Common) -> Result<(), Failure> {
        let Some(stream) = self.connection.stream.as_ref().filter(|_| !self.writable_asked) else {
            return Ok(());
        };
        self.writable_asked = true;
        common
            .poller
            .modify(stream.fd(), self.token, Interest::ReadWrite)
            .map_err(|error| Failure::io("wait", &error))
    }

    #[inline]
    fn advance(&mut self, event: Event, common: &mut Common, connector: &Connector) -> Result<Option<Reply>, Failure> {
        let step = match self.phase {
            Phase::Busy { sent } => return self.exchange(sent, event, common, connector),
            Phase::Connecting { .. } if event.writable || event.closed => {
                let Phase::Connecting { socket, since } = std::mem::replace(&mut self.phase, Phase::Closed) else {
                    unreachable!("matched just above")
                };
                socket.take_error().map_err(|error| Failure::connect(&error))?;
                self.connected(socket, since, common, connector)?
            }
            Phase::Asking { .. } if event.readable => self.hear(common, connector)?,
            Phase::Greeting { .. } if event.readable => self.go_on_greeting(false, common)?,
            // Servers may close a connection between two requests. The next request opens a new one.
            Phase::Idle if event.closed && !common.only_open => {
                self.connection.close();
                self.phase = Phase::Closed;
                return Ok(None);
            }
            Phase::Handshaking { since, connect_ns } => self.handshake(since, connect_ns, common)?,
            _ => return Ok(None),
        };
        match self.phase {
            // A reply may have arrived together with the end of the connect or handshake, which is not reported again.
            Phase::Busy { sent } if event.readable || common.tls => self.exchange(
                sent,
                Event {
                    readable: true,
                    ..event
                },
                common,
                connector,
            ),
            _ => Ok(step),
        }
    }

    #[inline]
    fn exchange(
        &mut self,
        mut sent: bool,
        event: Event,
        common: &mut Common,
        connector: &Connector,
    ) -> Result<Option<Reply>, Failure> {
        if !sent && event.writable {
            sent = self.connection.send_more()?;
            self.phase = Phase::Busy { sent };
            if sent && connector.is_unix() {
                self.forget_writable(common)?;
            }
        }
        if !event.readable {
            return Ok(None);
        }
        let mut received = match self.connection.receive_whole(&mut common.buffer, &mut common.recorder) {
            Ok(at) => {
                return self.follow_up(
                    Reply {
                        at,
                        keep: !event.closed,
                        right: true,
                    },
                    common,
                );
            }
            Err(received) => Some(received),
        };
        let short_means_empty = self.connection.stream.as_ref().is_some_and(Stream::short_means_empty);
        let all_seen = !event.closed && !common.keeps_boundaries && short_means_empty;
        loop {
            let step = match received.take() {
                Some(received) => self.connection.judge(received, &common.buffer, &mut common.recorder)?,
                None => self.connection.receive(&mut common.buffer, &mut common.recorder)?,
            };
            match step {
                Step::Finished(reply) if event.closed => return Ok(Some(Reply { keep: false, ..reply })),
                Step::Finished(reply) => return self.follow_up(reply, common),
                Step::Blocked => return Ok(None),
                // The reply asked for words that the socket does not take at once.
                Step::More { .. } if sent && !self.connection.is_flushed() => {
                    sent = false;
                    self.phase = Phase::Busy { sent };
                    self.ask_writable(common)?;
                }
                Step::More { filled } if all_seen && !filled => return Ok(None),
                Step::More { .. } => {}
            }
        }
    }

    /// The common case, kept short: the next request leaves at once.
    #[inline]
    fn follow_up(&mut self, reply: Reply, common: &mut Common) -> Result<Option<Reply>, Failure> {
        if !(common.follows_up && reply.keep && reply.right) || common.recorder.is_over() {
            return Ok(Some(reply));
        }
        self.backoff.reset();
        if !self.connection.begin(reply.at)? {
            self.phase = Phase::Busy { sent: false };
            self.ask_writable(common)?;
        }
        Ok(None)
    }

    fn forget_writable(&mut self, common: &Common) -> Result<(), Failure> {
        let Some(stream) = self.connection.stream.as_ref().filter(|_| self.writable_asked) else {
            return Ok(());
        };
        self.writable_asked = false;
        common
            .poller
            .modify(stream.fd(), self.token, Interest::Read)
            .map_err(|error| Failure::io("wait", &error))
    }

    /// Whether a request is under way that counts for the latencies.
    fn is_awaited(&self, recorder: &Recorder) -> bool {
        match self.phase {
            Phase::Closed | Phase::Pausing | Phase::Idle => false,
            Phase::Busy { .. } => recorder.is_timed(self.connection.began()),
            Phase::Connecting { since, .. }
            | Phase::Asking { since, .. }
            | Phase::Handshaking { since, .. }
            | Phase::Greeting { since, .. } => recorder.is_timed(since),
        }
    }

    /// The failure if the connection has taken too long at `now`.
    fn overdue(&self, now: u64, common: &Common) -> Option<Failure> {
        let late = |since: u64, limit: u64| now.saturating_sub(since) > limit;
        match self.phase {
            Phase::Connecting { since, .. } if late(since, common.connect_ns) => Some(Failure::timeout("connect")),
            Phase::Handshaking { since, connect_ns } if late(since + connect_ns, common.connect_ns) => {
                Some(Failure::timeout("TLS handshake"))
            }
            Phase::Asking { since, connect_ns, .. } if late(since + connect_ns, common.connect_ns) => {
                Some(Failure::timeout("request for TLS"))
            }
            Phase::Greeting { began, .. } if late(began, common.request_ns) => Some(Failure::timeout("authentication")),
            Phase::Busy { .. } if late(self.connection.started(), common.request_ns) => Some(Failure::timeout("reply")),
            _ => None,
        }
    }

    /// Counts a failure, and reopens the connection after a pause unless the time is over.
    #[cold]
    fn fail(&mut self, index: usize, failure: &Failure, common: &mut Common) {
        let lost = self.connection.lost();
        let due = self.connection.due();
        common.recorder.fail_due(failure, lost, due, clock::now());
        self.connection.close();
        self.phase = Phase::Closed;
        if let Some(free) = common.free_for_schedule() {
            // The schedule paces the next request.
            free.push_back(index);
            return self.retire(common);
        }
        let now = clock::now();
        let hopeless = common.only_open && failure.class != ErrorClass::BacklogFull;
        if hopeless || common.recorder.is_expired(now) {
            return self.retire(common);
        }
        self.phase = Phase::Pausing;
        common.pauses.begin(index, now + self.backoff.next());
    }

    /// The connection has nothing more to do in this trial.
    fn retire(&mut self, common: &mut Common) {
        self.phase = if self.connection.is_open() {
            Phase::Idle
        } else {
            Phase::Closed
        };
        common.active -= 1;
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
