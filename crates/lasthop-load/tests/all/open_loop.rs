//! The open loop and the pipeline, against lasthop's own server.

use crate::common;

use common::{Running, SHORT, With, counted, echo, hello, open, run, spec};
use lasthop_load::serve::Pattern;
use lasthop_protocol::wire::TrialPhases;
use lasthop_trial::{
    address::Transport,
    options::{Arrivals, Reuse},
};

const PHASES: TrialPhases = TrialPhases {
    warm_up_ns: 10_000_000,
    measure_ns: 200_000_000,
};

#[test]
fn every_scheduled_request_is_sent_and_answered() {
    for transport in [Transport::Unix, Transport::Tcp, Transport::Tls] {
        let server = Running::start(Pattern::Echo, transport);
        for (connections, threads, reuse) in [
            (1, 1, Reuse::KeepAlive),
            (4, 1, Reuse::KeepAlive),
            (4, 2, Reuse::KeepAlive),
            (4, 1, Reuse::PerRequest),
        ] {
            let model = open(1000.0, Arrivals::Constant);
            let spec = spec(&server.endpoint, echo(64))
                .model(model)
                .connections(connections)
                .threads(threads)
                .reuse(reuse);
            let result = run(&spec, PHASES).unwrap();
            assert_eq!(result.error_total(), 0, "{:?}", result.errors);
            let offered = result.offered.unwrap();
            assert_eq!((offered.rate, offered.scheduled), (1000.0, 200));
            assert_eq!(result.elapsed_ns, PHASES.measure_ns);
            // On a crowded machine some may be late; every request sent must be in every histogram.
            assert_eq!(result.requests, offered.sent);
            assert_eq!(offered.is_reached(), offered.sent >= 198);
            let count = |histogram: Option<lasthop_trial::Histogram>| histogram.unwrap().count();
            assert_eq!(count(result.lag), offered.sent);
            assert_eq!(count(result.response_time.clone()), offered.sent);
            assert_eq!(count(result.service_time.clone()), offered.sent);
            assert!(result.response_time.unwrap().mean() >= result.service_time.unwrap().mean());
        }
    }
}

#[test]
fn a_number_of_requests_takes_the_gap_behind_the_last_one_too() {
    let server = Running::start(Pattern::Echo, Transport::Unix);
    for threads in [1, 2] {
        let spec = spec(&server.endpoint, echo(64))
            .model(open(10.0, Arrivals::Constant))
            .connections(2)
            .threads(threads);
        let result = counted(&spec, 4);
        assert_eq!((result.requests, result.offered.unwrap().scheduled), (4, 4));
        // As exact as the sum of the threads' rates.
        assert!(result.elapsed_ns >= 399_999_999, "{}", result.elapsed_ns);
        assert!(result.throughput() <= 10.000_001, "{}", result.throughput());
    }
}

#[test]
fn poisson_arrivals_have_the_rate() {
    let server = Running::start(Pattern::Echo, Transport::Unix);
    let model = open(2000.0, Arrivals::Poisson);
    let result = run(&spec(&server.endpoint, echo(64)).model(model).connections(4), PHASES).unwrap();
    // 400 expected, standard deviation 20.
    let scheduled = result.offered.unwrap().scheduled;
    assert!((280..520).contains(&scheduled), "{scheduled}");
}

#[test]
fn a_rate_that_cannot_be_reached_is_said() {
    let server = Running::start(Pattern::Hello, Transport::Tcp);
    let model = open(5e6, Arrivals::Constant);
    let result = run(&spec(&server.endpoint, hello()).model(model).connections(2), SHORT).unwrap();
    let offered = result.offered.unwrap();
    assert_eq!(offered.scheduled, 50_000);
    assert!(offered.sent < offered.scheduled && !offered.is_reached());
    assert_eq!(result.requests, offered.sent);
    assert!(
        result.lag.unwrap().max() > 1_000_000,
        "the last ones sent were due long before"
    );
}

#[test]
fn a_pipeline_counts_every_reply() {
    for transport in [Transport::Unix, Transport::Tcp, Transport::TlsUnix] {
        let server = Running::start(Pattern::Echo, transport);
        for (size, pipeline, connections) in [(64, 16, 1), (64, 16, 5), (100_000, 8, 1), (100_000, 8, 3)] {
            let spec = spec(&server.endpoint, echo(size))
                .pipeline(pipeline)
                .connections(connections);
            let result = run(&spec, SHORT).unwrap_or_else(|error| panic!("{transport} {spec:?}: {error}"));
            assert_eq!(result.error_total(), 0, "{:?}", result.errors);
            assert_eq!(result.requests_total % u64::from(pipeline), 0);
            assert_eq!(result.bytes_received, result.requests * u64::from(size));
            // Requests at the edges of the window are either counted or timed.
            let edges = u64::from(pipeline) * u64::from(connections);
            let timed = result.service_time.unwrap().count();
            assert!(
                timed.abs_diff(result.requests) <= edges,
                "{timed} times of {} requests",
                result.requests
            );
        }
    }
}

#[test]
fn what_cannot_be_pipelined_is_refused() {
    let server = Running::start(Pattern::Hello, Transport::Unix);
    let error = run(&spec(&server.endpoint, hello()).pipeline(2), SHORT).unwrap_err();
    assert_eq!(
        error.cause,
        "2 requests in a pipeline: the server closes after its first word"
    );
}
