//! How many connections a server serves at a time. A server whose few workers each keep one connection lets all other
//! connections wait.

use std::{
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver},
    },
    thread,
    time::{Duration, Instant},
};

use lasthop_protocol::{spec::Spec, wire::TrialPhases};
use lasthop_trial::{
    options::{Model, Reuse},
    result::{ErrorClass, TrialResult},
};

use crate::sample;

/// Maximum number of connections to try.
const TRIED_MAX: u32 = 32;

/// No more connections are served if no reply comes for this time, and for `STALL_TIMES` times the mean interval
/// between replies. Servers close idle connections only after a second or later.
const STALL: Duration = Duration::from_millis(600);
const STALL_TIMES: u32 = 20;

/// Largest share of the connections that counts as few.
const FEW: f64 = 0.8;

const TICK: Duration = Duration::from_millis(10);

/// A server that serves fewer connections at a time than it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtOnce {
    pub served: u32,
    pub tried: u32,
    /// How long the other connections waited.
    pub waited: Duration,
}

impl AtOnce {
    /// `Some` if the server served only some of the connections all the time, and the others not before their timeout
    /// or the end of the load.
    pub(crate) fn of_trial(connections: u32, phases: TrialPhases, result: &TrialResult) -> Option<Self> {
        let mean = result.service_time.as_ref().filter(|_| connections > 1)?.mean();
        let waiting = result.unserved;
        let (served, waited_ns) = if waiting.longest_ns as f64 > f64::from(STALL_TIMES) * mean {
            (
                u64::from(connections).saturating_sub(waiting.count) as u32,
                waiting.longest_ns,
            )
        } else {
            let timeouts = result.errors.get(&ErrorClass::Timeout)?.count;
            let served = mean * result.requests as f64 / result.elapsed_ns as f64;
            let served = served.round().max(1.0) as u32;
            let waited_ns = result.open_at_end.longest_ns.max(result.untimed.longest_ns);
            // Few timeouts, or short waits, do not prove that connections are unserved.
            if u64::from(connections.saturating_sub(served)) > timeouts || waited_ns < phases.measure_ns / 2 {
                return None;
            }
            (served, waited_ns)
        };
        let is_few = served > 0 && f64::from(served) <= FEW * f64::from(connections);
        is_few.then_some(Self {
            served,
            tried: connections,
            waited: Duration::from_nanos(waited_ns),
        })
    }

    /// The problem and what to do about it.
    pub fn in_words(&self) -> String {
        let Self { served, tried, waited } = self;
        format!(
            "the server serves {served} of {tried} connections at a time; the others waited up to {:.1} s: use fewer \
             connections (`--connections {served}`), or give the server more workers",
            waited.as_secs_f64()
        )
    }
}

/// Sends one request over each connection of a keep-alive load at once, and leaves the connections open. `None` if all
/// are answered, even slowly, if something else fails, or if the load does not allow this check.
pub fn look(spec: &Spec, mut go_on: impl FnMut() -> bool) -> Option<AtOnce> {
    let tried = spec.connections.min(TRIED_MAX);
    let keeps = spec.reuse == Reuse::KeepAlive && !spec.closes_each_time() && spec.model == Model::Closed;
    if tried < 2 || !keeps || spec.protocol.kind().own || spec.protocol.greets() || spec.protocol.receipt().is_some() {
        return None;
    }
    // `release` ends the connections that were answered; `end` ends all.
    let [release, end] = [AtomicBool::new(false), AtomicBool::new(false)];
    let (tell, told) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..tried {
            let (tell, release, end) = (tell.clone(), &release, &end);
            scope.spawn(move || {
                let is_on = || !end.load(Ordering::Relaxed);
                let asked = sample::converse(spec, is_on, |line| {
                    line.ask(&spec.protocol)?;
                    let _ = tell.send(true);
                    while is_on() && !release.load(Ordering::Relaxed) {
                        thread::sleep(TICK);
                    }
                    Ok(())
                });
                if asked.is_err() {
                    let _ = tell.send(false);
                }
            });
        }
        let mut wait = |most: usize| await_replies(&told, most, &mut go_on);
        let found = wait(tried as usize).filter(|served| *served > 0 && *served < tried);
        let found = found.and_then(|served| {
            // If another connection is served now, the answered ones had kept it waiting.
            release.store(true, Ordering::Relaxed);
            wait(1).filter(|more| *more > 0)?;
            Some(AtOnce {
                served,
                tried,
                waited: STALL,
            })
        });
        end.store(true, Ordering::Relaxed);
        found
    })
}

/// Counts replies until `most` have come or no more come; `None` if a connection fails.
fn await_replies(told: &Receiver<bool>, most: usize, go_on: &mut impl FnMut() -> bool) -> Option<u32> {
    let begin = Instant::now();
    let mut stall = STALL;
    let mut last = begin;
    let mut served = 0;
    while (served as usize) < most && last.elapsed() < stall {
        match told.recv_timeout(TICK) {
            Ok(true) => {
                served += 1;
                last = Instant::now();
                stall = stall.max(STALL_TIMES * begin.elapsed() / served);
            }
            Ok(false) => return None,
            Err(_) if !go_on() => return None,
            Err(_) => {}
        }
    }
    Some(served)
}

#[cfg(test)]
mod tests {
    use lasthop_trial::{
        Histogram,
        options::Engine,
        result::{ErrorCount, Longest},
    };

    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const PHASES: TrialPhases = TrialPhases {
        warm_up_ns: SECOND / 2,
        measure_ns: 5 * SECOND,
    };

    /// Connections out of ten found to be served in a trial with `replies` of `time` each, and with `count` waiting
    /// requests, the longest for `longest_ns`, of which `timeouts` timed out.
    fn served((replies, time): (u64, u64), (count, longest_ns): (u64, u64), timeouts: u64) -> Option<u32> {
        let mut times = Histogram::default();
        times.record_n(time, replies);
        let open = Longest { count, longest_ns };
        let mut result = TrialResult {
            requests: replies,
            service_time: Some(times),
            open_at_end: open,
            unserved: open,
            ..TrialResult::empty(Engine::Epoll, PHASES.measure_ns)
        };
        if timeouts > 0 {
            let count = ErrorCount {
                count: timeouts,
                ..ErrorCount::default()
            };
            result.errors.insert(ErrorClass::Timeout, count);
        }
        AtOnce::of_trial(10, PHASES, &result).map(|few| few.served)
    }

    #[test]
    fn a_trial_shows_how_many_connections_are_served() {
        let fast = (5_000, SECOND / 1_000);
        for timeouts in [0, 3, 9] {
            assert_eq!(served(fast, (9, 7 * SECOND), timeouts), Some(1));
            assert_eq!(served(fast, (4, 7 * SECOND), timeouts), Some(6));
        }
        // One lost request; or all, as when the server stalls.
        assert_eq!(served(fast, (1, 7 * SECOND), 1), None);
        assert_eq!(served(fast, (10, 7 * SECOND), 0), None);
        assert_eq!(served(fast, (0, 0), 0), None);
        // Replies that all take long.
        assert_eq!(served((20, SECOND), (9, 7 * SECOND), 0), None);
    }
}
