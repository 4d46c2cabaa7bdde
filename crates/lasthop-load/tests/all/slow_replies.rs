//! Replies that take longer than the trial.

use crate::common;

use std::{
    io::{Read as _, Write as _},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use common::{Accepting, With, echo, for_ms, run, spec};
use lasthop_protocol::{steady::Little, wire::TrialPhases};
use lasthop_trial::options::Reuse;

const SIZE: usize = 64;

/// Answers each message after `work` on its number, which counts from 0.
fn server(work: impl Fn(u64) + Send + Sync + 'static) -> Accepting {
    let messages = AtomicU64::new(0);
    Accepting::unix(move |mut peer| {
        let mut message = [0; SIZE];
        while peer.read_exact(&mut message).is_ok() {
            work(messages.fetch_add(1, SeqCst));
            if peer.write_all(&message).is_err() {
                break;
            }
        }
    })
}

/// One worker that needs 20 ms for each message.
fn one_worker() -> Accepting {
    let worker = Arc::new(Mutex::new(()));
    server(move |_| {
        let _busy = worker.lock().unwrap();
        thread::sleep(Duration::from_millis(20));
    })
}

#[test]
fn a_queue_is_as_long_as_its_connections_make_it() {
    let server = one_worker();
    for (connections, threads, reuse) in [
        (10, 1, Reuse::KeepAlive),
        (10, 2, Reuse::KeepAlive),
        (10, 1, Reuse::PerRequest),
    ] {
        let spec = spec(&server.endpoint, echo(SIZE as u32))
            .connections(connections)
            .threads(threads)
            .reuse(reuse);
        let phases = TrialPhases {
            warm_up_ns: 250_000_000,
            measure_ns: 400_000_000,
        };
        let result = run(&spec, phases).unwrap();
        let little = Little::of([&result], &spec).unwrap();
        let mean = result.service_time.as_ref().unwrap().mean() / 1e6;
        // 200 ms if nothing else runs; requests that end in a trial of 50 ms cannot take longer than 60.
        assert!(mean > 120.0, "{mean} ms, {reuse:?}, {threads} threads");
        // With so few replies, the edges of the window matter.
        assert!(
            (6.0..14.0).contains(&little.under_way),
            "{little:?}, {reuse:?}, {threads} threads"
        );
    }
}

#[test]
fn a_request_that_is_open_at_the_end_is_followed() {
    // Four connections need at least 25 ms for these messages, more than the warm-up; the window suffices even if each
    // message takes 20 ms.
    let server = server(|message| {
        let milliseconds = if message == 100 { 3_000 } else { 1 };
        thread::sleep(Duration::from_millis(milliseconds));
    });
    let spec = spec(&server.endpoint, echo(SIZE as u32)).connections(4);
    let result = run(&spec, for_ms(500)).unwrap();
    assert!(
        result.service_time.as_ref().unwrap().max() >= 3_000_000_000,
        "{result:?}"
    );
    assert!(
        result.elapsed_ns < 2_500_000_000,
        "the others went on and ended the window: {}",
        result.elapsed_ns
    );
}

#[test]
fn requests_that_nobody_waited_for_are_said() {
    let server = server(|message| {
        if message > 40 {
            thread::sleep(Duration::from_secs(2));
        }
    });
    let spec = spec(&server.endpoint, echo(SIZE as u32)).connections(4);
    let mut looks = 0;
    let mut case = lasthop_load::engine::Case::prepare(&spec).unwrap();
    let result = case.watched_trial(for_ms(5_000), || {
        looks += 1;
        looks < 6
    });
    assert_eq!(result.unwrap().unanswered, 4);
}
