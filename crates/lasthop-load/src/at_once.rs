//! How many connections a server serves at a time: one with few workers, each of which keeps its connection, lets the
//! others wait.

use std::{
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver},
    },
    thread,
    time::{Duration, Instant},
};

use lasthop_protocol::spec::{Model, Reuse, Spec};

use crate::sample;

/// Most connections that are tried.
const TRIED_MAX: u32 = 32;

/// Nobody is served any more if no reply comes for so long, and for so many times as the first one took. Servers end
/// connections that nothing comes over after a second or later.
const STALL: Duration = Duration::from_millis(600);
const STALL_TIMES: u32 = 20;

const TICK: Duration = Duration::from_millis(10);

/// A server that serves fewer connections than it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtOnce {
    pub served: u32,
    pub tried: u32,
    /// How long the others waited.
    pub waited: Duration,
}

impl AtOnce {
    /// What it is, and what to do about it.
    pub fn in_words(&self) -> String {
        let Self { served, tried, waited } = self;
        format!(
            "the server serves {served} of {tried} connections at a time; the others waited up to {:.1} s: use fewer \
             connections (`--connections {served}`), or give the server more workers",
            waited.as_secs_f64()
        )
    }
}

/// Sends a request over each connection of a load that keeps them, all at once, and leaves them open. `None` where all are
/// answered, also slowly, or something else fails; or where that cannot be found out.
pub fn look(spec: &Spec, mut go_on: impl FnMut() -> bool) -> Option<AtOnce> {
    let tried = spec.connections.min(TRIED_MAX);
    let keeps = spec.reuse == Reuse::KeepAlive && !spec.closes_each_time() && spec.model == Model::Closed;
    if tried < 2 || !keeps || spec.protocol.kind().own || spec.protocol.greets() || spec.protocol.receipt().is_some() {
        return None;
    }
    // Of those that are answered, and of all.
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
            // Only if another is served now, those before kept it waiting.
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

/// How many replies come, of so many, until none comes any more; `None` if something fails.
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
