//! Counts and times of one worker during one trial, and how the workers' records become one result.
//!
//! Replies count for the throughput if they arrive within the window. A request counts for the latencies if it begins
//! within the window, however late its reply is: latencies of replies that arrive within a window are never longer than
//! the window.

use std::collections::{BTreeMap, btree_map::Entry};

use lasthop_protocol::wire::TrialPhases;
use lasthop_trial::{
    failure::Failure,
    histogram::Histogram,
    options::{Engine, LoadStage, Model},
    result::{ErrorClass, ErrorCount, FirstHalf, Longest, Offered, OneWay, Phases, TrialResult},
};

use crate::{
    cost::{CostMeter, CostSnapshot},
    live::Live,
    stage_recorder::{self, StageRecorder},
    tally::Tally,
    transport::Calls,
};

/// State of a trial. The window runs from one completed request to another, so that it holds whole requests only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Window {
    /// The first completion at or after `opens` opens the window.
    WarmUp {
        opens: u64,
    },
    /// The first completion at or after `until` shuts the window, and is the last that counts. `edge` is where the
    /// first half of the window ends, and thereafter `until`.
    Open {
        since: u64,
        edge: u64,
        until: u64,
    },
    Shut {
        since: u64,
        at: u64,
    },
    /// Open loop: a request counts if it is due at or after `opens` and before `ends`, whenever it completes.
    Scheduled {
        opens: u64,
        ends: u64,
    },
}

/// The shortest connect whose SYN was sent again: the kernel repeats a SYN after a second, and its clock may tick up to
/// 10 ms early.
const SLOW_CONNECT_NS: u64 = 990_000_000;

/// A connection is unserved if its request is under way during all of the measure phase, and at least this long: many
/// servers take two seconds or longer to end an idle connection and turn to another.
const UNSERVED_NS: u64 = 2_000_000_000;

/// The least number of replies per connection in a window with which replies after the window weigh little.
const MANY_FOR_EACH: u64 = 10;

/// One worker's record of one trial, made once and reused, so that no trial allocates.
pub struct Recorder {
    window: Window,
    /// When a trial without any completion is over.
    latest: u64,
    measure_ns: u64,
    /// With fewer replies than this, the load goes on until the requests begun in the window have ended.
    few: u64,
    /// Whether the load goes on after the window.
    lingers: bool,
    /// Batches of requests that may still begin.
    left: u64,
    /// Slow connects of all trials, and of opening the connections before the first one.
    slow_connects: Longest,
    /// The worker's result so far, without what has a field of its own here.
    counts: TrialResult,
    /// Open loop only; the rate is not known here.
    offered: Offered,
    /// Requests that had to wait for room in the socket, in the whole trial.
    waited: u64,
    service: Tally,
    /// Replies in several pieces: the time to the first piece, and to the last. For all others the two are equal.
    split_first: Tally,
    split_service: Tally,
    connect: Tally,
    tls: Tally,
    auth: Tally,
    response: Tally,
    lag: Tally,
    /// Only in a load in stages.
    stages: Option<StageRecorder>,
    meter: CostMeter,
    before: CostSnapshot,
}

impl Recorder {
    pub fn new(calls: Calls) -> Self {
        Self {
            window: Window::Shut { since: 0, at: 0 },
            latest: 0,
            measure_ns: 0,
            few: 0,
            lingers: false,
            left: u64::MAX,
            slow_connects: Longest::default(),
            counts: TrialResult::default(),
            offered: Offered::default(),
            waited: 0,
            service: Tally::default(),
            split_first: Tally::default(),
            split_service: Tally::default(),
            connect: Tally::default(),
            tls: Tally::default(),
            auth: Tally::default(),
            response: Tally::default(),
            lag: Tally::default(),
            stages: None,
            meter: CostMeter::new(calls),
            before: CostSnapshot::default(),
        }
    }

    /// Lets the load go on after a window until the last request that began in it has its reply, unless the window has
    /// so many replies that the load afterwards makes no difference.
    pub fn lingering(self, connections: u64) -> Self {
        Self {
            few: connections.saturating_mul(MANY_FOR_EACH),
            ..self
        }
    }

    /// Begins a trial at `now`.
    pub fn start(&mut self, now: u64, phases: TrialPhases) {
        let opens = now.saturating_add(phases.warm_up_ns);
        self.window = Window::WarmUp { opens };
        self.latest = opens.saturating_add(phases.measure_ns);
        self.measure_ns = phases.measure_ns;
        self.lingers = false;
        self.left = u64::MAX;
        self.counts = TrialResult::default();
        self.offered = Offered::default();
        self.waited = 0;
        let Self {
            service,
            split_first,
            split_service,
            connect,
            tls,
            auth,
            response,
            lag,
            ..
        } = self;
        for tally in [service, split_first, split_service, connect, tls, auth, response, lag] {
            tally.clear();
        }
        self.stages = None;
        self.before = CostSnapshot::default();
    }

    /// Limits the trial that began at `now` to a number of batches of requests, and counts all of them.
    pub fn limit(&mut self, now: u64, batches: Option<u64>) {
        let Some(batches) = batches else {
            return;
        };
        self.left = batches;
        if matches!(self.window, Window::WarmUp { .. }) {
            self.open(now);
        }
    }

    /// Begins a batch of requests; false if none is left.
    #[inline]
    pub fn begins(&mut self) -> bool {
        let may = self.left > 0;
        self.left -= u64::from(may);
        may
    }

    /// Whether no further batch may begin.
    #[inline]
    pub fn is_spent(&self) -> bool {
        self.left == 0
    }

    /// Records `count` correct replies, of `payload` bytes each: sent at `start`, first byte at `first`, complete at
    /// `end`.
    #[inline]
    pub fn complete(&mut self, start: u64, first: u64, end: u64, payload: u64, count: u32) {
        match self.window {
            // The common case in one comparison: a reply before the edge neither opens, halves nor shuts the window.
            Window::Open { since, edge, .. } if end < edge => {
                self.counts.requests_total += u64::from(count);
                self.count(payload, count);
                if start >= since {
                    self.time(start, first, end, count);
                } else {
                    self.untimed(start, end, count.into());
                }
            }
            // One at a time, because any of the replies may shut the window.
            _ => (0..count).for_each(|_| self.complete_at_edge(start, first, end, payload)),
        }
    }

    /// Counts a correct reply in a unit of several requests; [`Recorder::complete_unit`] follows the last one.
    #[inline]
    pub fn answered(&mut self) {
        self.counts.requests_total += 1;
    }

    /// Records a unit of `count` correct replies with `payload` bytes in all, on a connection of its own: connect begun
    /// at `start`, first byte at `first`, last byte at `end`. The unit has one service time, and is within the window
    /// or outside as a whole.
    pub fn complete_unit(&mut self, start: u64, first: u64, end: u64, payload: u64, count: u32) {
        self.end_at_edge(start, first, end, payload, count);
    }

    /// Records requests that are answered and timed together, which may open, halve or shut the window, or come after
    /// it.
    fn end_at_edge(&mut self, start: u64, first: u64, end: u64, payload: u64, count: u32) {
        if self.is_timed(start) {
            self.time(start, first, end, 1);
        } else {
            self.untimed(start, end, count.into());
        }
        match self.window {
            Window::Open { .. } => {
                self.counts.requests += u64::from(count);
                self.counts.bytes_received += payload;
                self.pass(end);
            }
            // These requests open the window and are not in it: their time lies before.
            Window::WarmUp { opens } if end >= opens => self.open(end),
            _ => self.ended(start, end, count.into()),
        }
    }

    /// Notes requests that began at `start` and ended at `end`, with any outcome: they may have been under way when the
    /// measure phase ended.
    pub fn ended(&mut self, start: u64, end: u64, count: u64) {
        let (opened, over) = match self.window {
            Window::Shut { since, at } => (since, at),
            Window::Scheduled { opens, ends } => (opens, ends),
            Window::WarmUp { .. } => (self.latest, self.latest),
            Window::Open { .. } => return,
        };
        if start < over && over < end {
            let open = Longest {
                count,
                longest_ns: end - start,
            };
            self.counts.open_at_end += open;
            if start < opened && open.longest_ns >= self.measure_ns.max(UNSERVED_NS) {
                self.counts.unserved += open;
            }
            if self.is_timed(start) {
                self.counts.beyond_ns -= (end - over) as i64 * count as i64;
            }
        }
    }

    /// Notes requests from `start` to `end` that count for no latency.
    #[cold]
    fn untimed(&mut self, start: u64, end: u64, count: u64) {
        let (Window::Open { since: opened, .. }
        | Window::Shut { since: opened, .. }
        | Window::Scheduled { opens: opened, .. }) = self.window
        else {
            return;
        };
        if start < opened && opened < end {
            self.counts.untimed += Longest {
                count,
                longest_ns: end - start,
            };
            let until = match self.window {
                Window::Shut { at, .. } => end.min(at),
                _ => end,
            };
            self.counts.beyond_ns += (until - opened) as i64 * count as i64;
        }
    }

    /// Whether a request that began at `start` counts for the latencies of a closed loop.
    pub fn is_timed(&self, start: u64) -> bool {
        match self.window {
            Window::Open { since, .. } => start >= since,
            Window::Shut { since, at } => (since..at).contains(&start),
            _ => false,
        }
    }

    fn open(&mut self, now: u64) {
        let after = |time| now.saturating_add(time);
        self.window = Window::Open {
            since: now,
            edge: after(self.measure_ns / 2),
            until: after(self.measure_ns),
        };
        self.before = self.meter.read();
    }

    /// Ends the window's first half, or the window, if this reply is the last one.
    fn pass(&mut self, now: u64) {
        match self.window {
            Window::Open { since, until, .. } if now >= until => self.shut(since, now),
            Window::Open { since, edge, until } if now >= edge => {
                self.counts.first_half = Some(FirstHalf {
                    requests: self.counts.requests,
                    elapsed_ns: now.saturating_sub(since),
                });
                self.window = Window::Open {
                    since,
                    edge: until,
                    until,
                };
            }
            _ => {}
        }
    }

    #[inline]
    fn count(&mut self, payload: u64, count: u32) {
        self.counts.requests += u64::from(count);
        self.counts.bytes_received += u64::from(count) * payload;
    }

    #[inline]
    fn time(&mut self, start: u64, first: u64, end: u64, count: u32) {
        let count = u64::from(count);
        self.service.record_n(end.saturating_sub(start), count);
        if first != end {
            self.split_service.record_n(end.saturating_sub(start), count);
            self.split_first.record_n(first.saturating_sub(start), count);
        }
    }

    #[cold]
    fn complete_at_edge(&mut self, start: u64, first: u64, end: u64, payload: u64) {
        self.counts.requests_total += 1;
        self.end_at_edge(start, first, end, payload, 1);
    }

    /// Begins a trial of an open loop, scheduled from `now`. Returns when its measure phase ends.
    pub fn start_scheduled(&mut self, now: u64, phases: TrialPhases, stages: &[LoadStage]) -> u64 {
        self.start(now, phases);
        self.stages = (!stages.is_empty()).then(|| StageRecorder::start(now, stages));
        let opens = now.saturating_add(phases.warm_up_ns);
        let ends = opens.saturating_add(phases.measure_ns);
        self.window = Window::Scheduled { opens, ends };
        ends
    }

    /// Records a correct reply to a request that was due at `due` and sent at `start`.
    pub fn complete_due(&mut self, due: u64, start: u64, first: u64, end: u64, payload: u64) {
        self.counts.requests_total += 1;
        if self.is_counted(due) {
            self.count(payload, 1);
            self.time(start, first, end, 1);
            self.response.record(end.saturating_sub(due));
        } else {
            self.untimed(due, end, 1);
        }
        self.ended(due, end, 1);
        if let Some(stages) = &mut self.stages {
            stages.right(due, end);
        }
    }

    /// Records a request that was due at `due` and is sent at `now`.
    pub fn sent(&mut self, due: u64, now: u64) {
        if self.is_counted(due) {
            if self.offered.scheduled == 0 {
                self.before = self.meter.read();
            }
            self.offered.scheduled += 1;
            self.offered.sent += 1;
            self.lag.record(now.saturating_sub(due));
        }
        if let Some(stages) = &mut self.stages {
            stages.due(due, true);
        }
    }

    /// Counts a request of a stage that is not sent, because every connection was busy when it was due.
    pub fn turned_away(&mut self, due: u64) {
        self.offered.scheduled += u64::from(self.is_counted(due));
        if let Some(stages) = &mut self.stages {
            stages.due(due, false);
        }
    }

    /// Ends the measure phase of an open loop, in which `count` due requests were never sent.
    pub fn missed(&mut self, count: u64) {
        // The cost is read here and not in `finish`, because the drain that follows is no part of the load.
        self.offered.scheduled += count;
        self.counts.cost = self.meter.read().since(&self.before);
    }

    fn is_counted(&self, due: u64) -> bool {
        matches!(self.window, Window::Scheduled { opens, ends } if (opens..ends).contains(&due))
    }

    fn shut(&mut self, since: u64, at: u64) {
        self.window = Window::Shut { since, at };
        self.lingers = self.counts.requests < self.few;
        self.counts.cost = self.meter.read().since(&self.before);
    }

    /// Whether the window is shut and the load goes on until the requests begun in it have ended.
    #[inline]
    pub fn lingers(&self) -> bool {
        self.lingers
    }

    /// Ends the load: no request that began in the window is left.
    pub fn leave(&mut self) {
        self.lingers = false;
    }

    /// Counts requests sent again because the server ended a connection without taking them.
    #[cold]
    pub fn sent_again(&mut self, count: u64) {
        self.counts.sent_again += count;
    }

    /// Counts a request that had to wait for room in the socket.
    pub fn waited(&mut self) {
        self.waited += 1;
    }

    /// Counts a TLS handshake.
    pub fn shook_hands(&mut self, resumed: bool) {
        let handshakes = self.counts.tls_handshakes.get_or_insert_default();
        if resumed {
            handshakes.resumed += 1;
        } else {
            handshakes.full += 1;
        }
    }

    /// Records an opened connection.
    pub fn opened(&mut self, connect_ns: u64, tls_ns: Option<u64>, auth_ns: Option<u64>) {
        self.counts.connections_opened += 1;
        if connect_ns >= SLOW_CONNECT_NS {
            self.slow_connects += Longest {
                count: 1,
                longest_ns: connect_ns,
            };
        }
        if matches!(self.window, Window::Open { .. } | Window::Scheduled { .. }) {
            self.connect.record(connect_ns);
            if let Some(tls_ns) = tls_ns {
                self.tls.record(tls_ns);
            }
            if let Some(auth_ns) = auth_ns {
                self.auth.record(auth_ns);
            }
        }
    }

    /// Counts `count` requests that failed together, or a failed connection.
    pub fn fail(&mut self, failure: &Failure, count: u64) {
        self.counts.errors.entry(failure.class).or_default().add(failure, count);
    }

    /// Like [`Recorder::fail`], for requests that were due at `due`; 0 in a closed loop.
    #[cold]
    pub fn fail_due(&mut self, failure: &Failure, count: u64, due: u64, now: u64) {
        self.fail(failure, count);
        if let Some(stages) = &mut self.stages {
            stages.wrong(due, now, failure, count);
        }
    }

    /// Gives up, at `now`, `count` outstanding replies to requests begun at `start`.
    pub fn give_up(&mut self, count: u64, start: u64, now: u64) {
        self.counts.unanswered += count;
        self.counts.open_at_end += Longest {
            count,
            longest_ns: now.saturating_sub(start),
        };
        if let Window::Open { since, .. } = self.window {
            self.counts.beyond_ns += now.saturating_sub(start.max(since)) as i64 * count as i64;
        }
    }

    /// The counts so far.
    #[cold]
    pub fn live(&self, now: u64) -> Live {
        let times = if self.response.is_empty() {
            &self.service
        } else {
            &self.response
        };
        Live {
            at: now,
            requests: self.counts.requests_total,
            errors: self.counts.errors.values().map(|error| error.count).sum(),
            times: times.to_histogram(),
        }
    }

    /// Ends the trial early, at `now`, with the counts so far and the time they took.
    #[cold]
    pub fn cut_short(&mut self, now: u64) {
        self.lingers = false;
        match self.window {
            // The next completion shuts the window, so that it holds whole requests only.
            Window::Open { since, edge, until } => {
                self.window = Window::Open {
                    since,
                    edge: edge.min(now),
                    until: until.min(now),
                };
            }
            Window::WarmUp { .. } => self.window = Window::Shut { since: now, at: now },
            Window::Scheduled { opens, ends } => {
                self.window = Window::Scheduled {
                    opens,
                    // Not before `opens`, or the length of the window would be negative.
                    ends: ends.min(now).max(opens),
                };
            }
            Window::Shut { .. } => {}
        }
    }

    /// Whether no further request is sent.
    #[inline]
    pub fn is_over(&self) -> bool {
        matches!(self.window, Window::Shut { .. }) && !self.lingers
    }

    /// Whether the trial has run out of time although no completion shut the window; asked after a failure.
    pub fn is_expired(&self, now: u64) -> bool {
        match self.window {
            _ if self.is_spent() => true,
            Window::WarmUp { .. } => now >= self.latest,
            Window::Open { until, .. } | Window::Scheduled { ends: until, .. } => now >= until,
            Window::Shut { .. } => true,
        }
    }

    /// When the trial ends if no further request completes.
    pub fn expires_at(&self) -> u64 {
        match self.window {
            Window::WarmUp { .. } => self.latest,
            Window::Open { until, .. } | Window::Scheduled { ends: until, .. } => until,
            Window::Shut { .. } => 0,
        }
    }

    /// Ends the trial at `now`. A window still open is shut; a window never opened is empty.
    pub fn finish(&mut self, now: u64) -> TrialResult {
        match self.window {
            Window::Open { since, .. } => self.shut(since, now),
            Window::WarmUp { .. } => self.window = Window::Shut { since: now, at: now },
            Window::Scheduled { opens, ends } => {
                self.counts.offered = Some(self.offered);
                self.window = Window::Shut { since: opens, at: ends };
            }
            Window::Shut { .. } => {}
        }
        let Window::Shut { since, at } = self.window else {
            unreachable!("shut just above")
        };
        let sending = OneWay {
            waited: self.waited,
            ..OneWay::default()
        };
        let present = |tally: &Tally| (!tally.is_empty()).then(|| tally.to_histogram());
        let service = self.service.to_histogram();
        TrialResult {
            elapsed_ns: at - since,
            slow_connects: self.slow_connects,
            one_way: (self.waited > 0).then(|| Box::new(sending)),
            response_time: present(&self.response),
            lag: present(&self.lag),
            stages: self.stages.take().map(StageRecorder::finish).unwrap_or_default(),
            phases: Phases {
                connect: present(&self.connect),
                tls: present(&self.tls),
                auth: present(&self.auth),
                first_byte: self.first_byte(&service),
            },
            service_time: Some(service),
            ..std::mem::take(&mut self.counts)
        }
    }

    /// Times to the first byte: service times, with those of replies in several pieces replaced.
    fn first_byte(&self, service: &Histogram) -> Option<Histogram> {
        let first = if self.split_first.is_empty() {
            service.clone()
        } else {
            self.service.exchanged(&self.split_service, &self.split_first)
        };
        (!first.is_empty()).then_some(first)
    }
}

/// Merges the workers' records. Each worker has its own window, which begins and ends with its own completions. Rates
/// add up, so `elapsed_ns` is the number of requests divided by the sum of the rates; with one worker that is its
/// window.
///
/// If no worker completed a request within its window, `requests` is 0 and there is no rate.
pub fn merge(records: Vec<TrialResult>, engine: Engine, model: Model) -> TrialResult {
    let windows = records
        .iter()
        .map(|record| (record.requests, record.elapsed_ns))
        .collect::<Vec<_>>();
    let mut result = TrialResult {
        first_half: first_half(&records),
        ..TrialResult::empty(engine, common_window(&windows))
    };
    for record in records {
        add(&mut result, record);
    }
    if let Model::Open(open) = model {
        result.offered.get_or_insert_default().rate = open.rate;
    }
    result
}

/// The first halves of the workers' windows together; `None` unless every worker has one.
fn first_half(records: &[TrialResult]) -> Option<FirstHalf> {
    let halves = records
        .iter()
        .map(|record| record.first_half.map(|half| (half.requests, half.elapsed_ns)))
        .collect::<Option<Vec<_>>>()
        .filter(|halves| !halves.is_empty())?;
    let requests = halves.iter().map(|(requests, _)| requests).sum();
    Some(FirstHalf {
        requests,
        elapsed_ns: common_window(&halves),
    })
}

/// The time in which all requests have the sum of the workers' rates. `windows`: each worker's requests and time.
fn common_window(windows: &[(u64, u64)]) -> u64 {
    let requests: u64 = windows.iter().map(|(requests, _)| requests).sum();
    if requests == 0 {
        return windows
            .iter()
            .map(|(_, elapsed_ns)| *elapsed_ns)
            .max()
            .unwrap_or(0)
            .max(1);
    }
    // Equal windows need no rates, whose sum would be rounded.
    if let [(_, first), others @ ..] = windows
        && others.iter().all(|(_, other)| other == first)
    {
        return (*first).max(1);
    }
    let counted = windows.iter().filter(|(requests, _)| *requests > 0);
    let rate: f64 = counted
        .map(|(requests, elapsed_ns)| *requests as f64 / (*elapsed_ns).max(1) as f64)
        .sum();
    (requests as f64 / rate).round().max(1.0) as u64
}

/// Adds the counts and times of one worker.
fn add(result: &mut TrialResult, record: TrialResult) {
    result.requests += record.requests;
    result.requests_total += record.requests_total;
    result.unanswered += record.unanswered;
    result.sent_again += record.sent_again;
    result.open_at_end += record.open_at_end;
    result.unserved += record.unserved;
    result.untimed += record.untimed;
    result.beyond_ns += record.beyond_ns;
    result.slow_connects += record.slow_connects;
    result.bytes_received += record.bytes_received;
    result.connections_opened += record.connections_opened;
    if let Some(other) = record.tls_handshakes {
        let sum = result.tls_handshakes.get_or_insert_default();
        sum.full += other.full;
        sum.resumed += other.resumed;
    }
    if let Some(other) = record.offered {
        let sum = result.offered.get_or_insert_default();
        sum.scheduled += other.scheduled;
        sum.sent += other.sent;
    }
    if let Some(other) = record.one_way {
        result.one_way.get_or_insert_default().waited += other.waited;
    }
    join(&mut result.service_time, record.service_time);
    join(&mut result.response_time, record.response_time);
    join(&mut result.lag, record.lag);
    stage_recorder::merge(&mut result.stages, record.stages);
    join(&mut result.phases.connect, record.phases.connect);
    join(&mut result.phases.tls, record.phases.tls);
    join(&mut result.phases.auth, record.phases.auth);
    join(&mut result.phases.first_byte, record.phases.first_byte);
    add_errors(&mut result.errors, record.errors);
    result.cost += record.cost;
}

fn join(into: &mut Option<Histogram>, other: Option<Histogram>) {
    match (into.as_mut(), other) {
        (Some(own), Some(other)) => own.merge(&other),
        (None, other) => *into = other,
        (Some(_), None) => {}
    }
}

/// Adds the counts; the first example of an error stays.
pub fn add_errors(into: &mut BTreeMap<ErrorClass, ErrorCount>, other: BTreeMap<ErrorClass, ErrorCount>) {
    for (class, error) in other {
        match into.entry(class) {
            Entry::Occupied(own) => own.into_mut().merge(error),
            Entry::Vacant(place) => drop(place.insert(error)),
        }
    }
}

#[cfg(test)]
mod simulated;

#[cfg(test)]
mod tests {
    use super::*;

    const PHASES: TrialPhases = TrialPhases {
        warm_up_ns: 100,
        measure_ns: 1000,
    };

    fn recorder(completions: &[u64]) -> Recorder {
        let mut recorder = Recorder::new(Calls::default());
        recorder.start(0, PHASES);
        for end in completions {
            recorder.complete(end - 10, end - 5, *end, 3, 1);
        }
        recorder
    }

    #[test]
    fn the_window_runs_from_completion_to_completion() {
        let mut recorder = recorder(&[50, 120, 600, 1119, 1130]);
        assert!(recorder.is_over());
        recorder.complete(1130, 1135, 1140, 3, 1);
        let record = recorder.finish(5000);
        assert_eq!(
            (record.elapsed_ns, record.requests, record.requests_total),
            (1010, 3, 6)
        );
        assert_eq!((record.service_time.unwrap().count(), record.bytes_received), (3, 9));
    }

    #[test]
    fn what_no_latency_includes_is_counted() {
        let longest = |count, longest_ns| Longest { count, longest_ns };
        // The window is open from 120 to 1,130.
        let mut steady = recorder(&[50, 120]);
        steady.complete(60, 65, 300, 3, 1);
        steady.complete(300, 305, 600, 3, 1);
        steady.complete(600, 605, 1130, 3, 1);
        steady.complete(1000, 1005, 1500, 3, 1);
        steady.complete(70, 75, 2570, 3, 1);
        steady.complete(1140, 1145, 1600, 3, 1);
        let counts = steady.finish(5000);
        assert_eq!(counts.untimed, longest(2, 2500));
        assert_eq!(counts.open_at_end, longest(2, 2500));
        // 180 and all 1,010 of the window, and 370 after it.
        assert_eq!(counts.beyond_ns, 180 + 1010 - 370);
        let mut scheduled = Recorder::new(Calls::default());
        assert_eq!(scheduled.start_scheduled(0, PHASES, &[]), 1100);
        for (due, end) in [(50, 90), (60, 400), (500, 600), (900, 1700)] {
            scheduled.complete_due(due, due, end, end, 3);
        }
        let counts = scheduled.finish(5000);
        assert_eq!((counts.untimed, counts.open_at_end), (longest(1, 340), longest(1, 800)));
    }

    #[test]
    fn the_first_half_ends_with_a_completion_too() {
        let half = |completions: &[u64]| recorder(completions).finish(5000).first_half;
        assert_eq!(
            half(&[120, 300, 640, 1119, 1130]),
            Some(FirstHalf {
                requests: 2,
                elapsed_ns: 520
            })
        );
        assert_eq!(
            half(&[120, 300, 1130]),
            None,
            "the first one after half of the time is the last one"
        );
        let units = |ends: &[u64]| {
            let mut recorder = recorder(&[120]);
            ends.iter()
                .for_each(|end| recorder.complete_unit(end - 10, end - 5, *end, 5, 3));
            recorder.finish(5000).first_half
        };
        assert_eq!(
            units(&[700, 1200]),
            Some(FirstHalf {
                requests: 3,
                elapsed_ns: 580
            })
        );
        let mut cut_short = recorder(&[120, 600]);
        cut_short.cut_short(610);
        cut_short.complete(610, 615, 650, 3, 1);
        assert_eq!((cut_short.is_over(), cut_short.finish(5000).first_half), (true, None));
    }

    #[test]
    fn a_run_over_the_edge_counts_as_its_replies_do_one_by_one() {
        for ends in [[50, 120, 600, 1119], [120, 130, 1120, 1130]] {
            let mut one = recorder(&[]);
            let mut run = recorder(&[]);
            for end in ends {
                (0..3).for_each(|_| one.complete(end - 10, end - 5, end, 3, 1));
                run.complete(end - 10, end - 5, end, 3, 3);
            }
            let one = one.finish(5000);
            let run = run.finish(5000);
            assert_eq!(
                (one.requests, one.requests_total, one.elapsed_ns),
                (run.requests, run.requests_total, run.elapsed_ns)
            );
            assert_eq!(
                (one.service_time, one.phases.first_byte),
                (run.service_time, run.phases.first_byte)
            );
        }
    }

    #[test]
    fn the_first_byte_is_told_from_the_last() {
        let mut recorder = recorder(&[120]);
        recorder.complete(200, 250, 250, 3, 1);
        recorder.complete(300, 310, 370, 3, 1);
        let record = recorder.finish(5000);
        let bins = |histogram: &Histogram| histogram.bins().collect::<Vec<_>>();
        assert_eq!(bins(&record.service_time.unwrap()), [(50, 1), (70, 1)]);
        assert_eq!(bins(&record.phases.first_byte.unwrap()), [(10, 1), (50, 1)]);
    }

    #[test]
    fn a_window_that_nothing_shuts_ends_with_the_trial() {
        let mut recorder = recorder(&[120, 600]);
        assert!(!recorder.is_expired(1119));
        assert!(recorder.is_expired(1120));
        let record = recorder.finish(3120);
        assert_eq!((record.elapsed_ns, record.requests), (3000, 1));
    }

    #[test]
    fn a_unit_is_within_the_window_as_a_whole() {
        let mut recorder = Recorder::new(Calls::default());
        recorder.start(1000, PHASES);
        // Units before the end of the warm-up, opening the window, in it, shutting it, too late; 3 replies each.
        for (start, end) in [(1000, 1050), (1050, 1150), (1160, 1400), (1400, 2200), (2200, 2300)] {
            (0..3).for_each(|_| recorder.answered());
            recorder.complete_unit(start, start + 10, end, 5, 3);
        }
        // A unit that broke off: its replies were work for the servers all the same.
        recorder.answered();
        let record = recorder.finish(9000);
        assert_eq!(
            (record.requests, record.requests_total, record.bytes_received),
            (6, 16, 10)
        );
        let service = record.service_time.unwrap();
        assert_eq!((record.elapsed_ns, service.count(), service.max()), (1050, 2, 800));
        assert_eq!(record.phases.first_byte.unwrap().max(), 10);
    }

    #[test]
    fn a_trial_cut_short_keeps_what_was_counted() {
        let mut closed = recorder(&[120, 600]);
        closed.cut_short(700);
        closed.complete(600, 605, 720, 3, 1);
        assert!(closed.is_over());
        let record = closed.finish(5000);
        assert_eq!((record.elapsed_ns, record.requests), (600, 2));

        let mut open = Recorder::new(Calls::default());
        open.start_scheduled(1000, PHASES, &[]);
        open.sent(1200, 1210);
        open.complete_due(1200, 1210, 1211, 1300, 2);
        open.cut_short(1600);
        assert_eq!(open.expires_at(), 1600);
        let record = open.finish(9000);
        assert_eq!(
            (record.elapsed_ns, record.requests, record.offered.unwrap().scheduled),
            (500, 1, 1)
        );

        let mut early = recorder(&[50]);
        early.cut_short(60);
        assert_eq!(early.finish(70).requests, 0);
    }

    #[test]
    fn nothing_completed_is_no_rate() {
        let mut recorder = recorder(&[50]);
        recorder.fail(&Failure::timeout("reply"), 1);
        assert!(recorder.is_expired(1100));
        let record = recorder.finish(1100);
        assert_eq!((record.requests, record.requests_total), (0, 1));
        let result = merge(vec![record], Engine::Blocking, Model::Closed);
        assert_eq!((result.requests, result.error_total()), (0, 1));
    }

    #[test]
    fn rates_of_workers_add_up() {
        // 3 in 1010 ns and 1 in 3000 ns.
        let records = vec![
            recorder(&[120, 600, 1119, 1130]).finish(5000),
            recorder(&[120, 600]).finish(3120),
        ];
        let result = merge(records, Engine::Epoll, Model::Closed);
        let rate = 3.0 / 1010.0 + 1.0 / 3000.0;
        assert_eq!(result.requests, 4);
        assert!((result.throughput() / (rate * 1e9) - 1.0).abs() < 1e-3);
        assert_eq!(
            (result.first_half, result.service_time.unwrap().count()),
            (None, 4),
            "one worker has no halves"
        );
        let halves = [[120, 640, 1130], [120, 700, 1140]].map(|completions| recorder(&completions).finish(5000));
        let half = merge(halves.into(), Engine::Epoll, Model::Closed).first_half.unwrap();
        assert_eq!(
            (half.requests, half.elapsed_ns),
            (2, (2.0 / (1.0 / 520.0 + 1.0 / 580.0_f64)).round() as u64)
        );
    }

    #[test]
    fn an_open_loop_counts_what_was_due_within_the_phase() {
        let mut recorder = Recorder::new(Calls::default());
        assert_eq!(recorder.start_scheduled(1000, PHASES, &[]), 2100);
        // Due, sent and completed: before the phase, in it, in it but late, after it.
        for (due, sent, end) in [
            (1099, 1100, 1150),
            (1100, 1110, 1300),
            (2099, 2150, 2500),
            (2100, 2100, 2200),
        ] {
            recorder.sent(due, sent);
            recorder.complete_due(due, sent, sent + 1, end, 2);
        }
        recorder.missed(3);
        let record = recorder.finish(9000);
        let offered = record.offered.unwrap();
        assert_eq!(
            (record.requests, record.requests_total, record.bytes_received),
            (2, 4, 4)
        );
        assert_eq!((offered.scheduled, offered.sent, record.elapsed_ns), (5, 2, 1000));
        let max = |histogram: Option<Histogram>| histogram.unwrap().max();
        assert_eq!(
            (max(record.service_time), max(record.response_time), max(record.lag)),
            (350, 401, 51)
        );
    }
}
