//! Sockets of whole messages: messages sent one way, and messages that arrive at a fast reader, a slow one, and none.

use crate::common;

use std::{net::UdpSocket, os::unix::net::UnixDatagram, thread};

use common::{Running, SHORT, With, echo, run, spec};
use lasthop_load::{
    engine::Case,
    serve::{Pattern, RECEIVED, ServeSpec, Server},
};
use lasthop_protocol::{
    Protocol,
    spec::Spec,
    statsd::Statsd,
    wire::{Stage, TrialPhases},
};
use lasthop_trial::{
    TrialResult,
    address::{Address, Endpoint, Transport},
    options::Engine,
    result::{ErrorClass, OneWay},
};

const PACKETS: [Transport; 4] = [
    Transport::Unixgram,
    Transport::Seqpacket,
    Transport::Udp,
    Transport::Udp6,
];
fn is_udp(transport: Transport) -> bool {
    matches!(transport, Transport::Udp | Transport::Udp6)
}

const TRIAL: TrialPhases = TrialPhases {
    warm_up_ns: 5_000_000,
    measure_ns: 50_000_000,
};

fn statsd(server: &Running, metrics: u32) -> Protocol {
    let counter = format!("http://{}/metrics", server.counter.unwrap());
    Statsd {
        metrics,
        counter,
        counts: RECEIVED.to_owned(),
    }
    .into()
}

fn sent(server: &Running, metrics: u32) -> TrialResult {
    let mut case = Case::prepare(&spec(&server.endpoint, statsd(server, metrics))).unwrap();
    let result = case.trial(TRIAL).unwrap();
    assert_eq!(result.error_total(), 0, "{:?}", result.errors);
    result
}

fn one_way(result: &TrialResult) -> OneWay {
    **result.one_way.as_ref().unwrap()
}

#[test]
fn a_message_comes_back_whole_over_every_socket_that_keeps_boundaries() {
    for transport in PACKETS {
        let server = Running::start(Pattern::Echo, transport);
        for engine in [Engine::Blocking, Engine::Epoll] {
            for (size, pipeline) in [(8, 1), (60_000, 1), (64, 16)] {
                let spec = spec(&server.endpoint, echo(size)).engine(engine).pipeline(pipeline);
                let mut case = Case::prepare(&spec).unwrap_or_else(|error| panic!("{transport}: {error}"));
                let (proof, result) = (case.proof().clone(), case.trial(SHORT));
                let result =
                    result.unwrap_or_else(|error| panic!("{transport}, {engine:?}, {size} B, {pipeline}: {error}"));
                assert_eq!(proof.family, transport.name());
                assert_eq!((proof.nodelay, proof.reused), (None, true));
                assert!(
                    result.requests > 0 && result.error_total() == 0,
                    "{transport}: {:?}",
                    result.errors
                );
            }
        }
    }
}

/// The first two replies, which verify the server, are complete.
#[test]
fn a_message_that_comes_back_in_two_is_an_error() {
    for engine in [Engine::Blocking, Engine::Epoll] {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = Address::Udp(server.local_addr().unwrap());
        let until = server.try_clone().unwrap();
        let echo_it = thread::spawn(move || {
            let mut message = [0; 64];
            for number in 0.. {
                let (count, client) = until.recv_from(&mut message).unwrap();
                let cut = if number < 2 { 64 } else { 32 };
                match count {
                    0 => break,
                    _ => message[..count]
                        .chunks(cut)
                        .for_each(|part| drop(until.send_to(part, client))),
                }
            }
        });
        let spec = spec(&Endpoint::plain(address), echo(64)).engine(engine);
        let error = run(&spec, TRIAL).map(drop).unwrap_err().to_string();
        UdpSocket::bind("127.0.0.1:0")
            .unwrap()
            .send_to(&[], server.local_addr().unwrap())
            .unwrap();
        echo_it.join().unwrap();
        assert!(
            error.contains("a message of 32 bytes came back, expected 64"),
            "{engine:?}: {error}"
        );
    }
}

/// The reader takes everything: nothing is lost over a Unix socket, and over UDP the kernel knows the losses.
#[test]
fn both_sides_count_the_same() {
    for transport in PACKETS {
        let server = Running::start(Pattern::Statsd, transport);
        for metrics in [1, 20] {
            let result = sent(&server, metrics);
            let one_way = one_way(&result);
            assert!(result.requests > 0 && one_way.sent > 0, "{transport}: {one_way:?}");
            assert_eq!(
                (result.requests_total, result.first_half),
                (one_way.received_total, None)
            );
            assert_eq!(
                one_way.lost(),
                one_way.dropped_total.unwrap_or(0),
                "{transport}: {one_way:?}"
            );
            assert_eq!(one_way.dropped_total.is_some(), is_udp(transport));
        }
    }
}

#[test]
fn a_slow_reader_makes_a_unix_sender_wait_and_loses_what_comes_by_udp() {
    for transport in PACKETS {
        let server = Running::slow(Pattern::Statsd, transport, 1_000_000);
        let result = sent(&server, 1);
        let OneWay { sent, waited, .. } = one_way(&result);
        let longest = result.service_time.as_ref().unwrap().max();
        if is_udp(transport) {
            let lost = one_way(&result).lost();
            assert!(
                lost > 0 && one_way(&result).dropped_total == Some(lost),
                "{:?}",
                result.one_way
            );
            assert!(sent > result.requests && waited == 0, "{:?}", result.one_way);
        } else {
            assert_eq!(one_way(&result).lost(), 0, "{transport}");
            assert!(
                waited > 0 && longest >= 500_000,
                "{transport}: {waited} waited, {longest} ns"
            );
        }
    }
}

#[test]
fn several_senders_share_a_counter() {
    let server = Running::start(Pattern::Statsd, Transport::Seqpacket);
    let spec = spec(&server.endpoint, statsd(&server, 5)).connections(3).threads(3);
    let result = run(&spec, TRIAL).unwrap();
    assert_eq!(one_way(&result).lost(), 0);
    assert_eq!(result.connections_opened, 0, "the sockets stay open");
}

#[test]
fn a_server_that_does_not_count_what_it_gets_is_found_before_the_load() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let _deaf = UnixDatagram::bind(&path).unwrap();
    let counting = Running::start(Pattern::Statsd, Transport::Udp);
    let deaf = Endpoint::plain(Address::Packets(lasthop_trial::address::Transport::Unixgram, path));
    let hasty = spec(&deaf, statsd(&counting, 1)).timeouts_ms(3_000, 200);
    let error = Case::prepare(&hasty).map(drop).unwrap_err();
    assert_eq!(
        (error.stage, error.class),
        (Stage::Verify, Some(ErrorClass::WrongContent)),
        "{error}"
    );
    assert!(
        error
            .cause
            .starts_with("the server counts 0 requests where 2 were sent"),
        "{error}"
    );
}

#[test]
fn somebody_else_who_sends_is_noticed() {
    let server = Running::start(Pattern::Statsd, Transport::Udp);
    let mut case = Case::prepare(&spec(&server.endpoint, statsd(&server, 50))).unwrap();
    let Address::Udp(at) = server.endpoint.address else {
        unreachable!()
    };
    let other = UdpSocket::bind("127.0.0.1:0").unwrap();
    let many = [&b"other:1|c\n"[..]; 3_000].concat();
    let mut calls = 0;
    let result = case.watched_trial(TrialPhases::without_warm_up(1_000_000), || {
        calls += 1;
        let _ = other.send_to(&many, at);
        true
    });
    let error = result.map(|result| result.one_way).unwrap_err();
    assert!(
        calls > 0 && error.cause.contains("somebody else sends to it, too"),
        "{error}"
    );
}

#[test]
fn nobody_who_reads_is_an_error_by_class() {
    for transport in PACKETS {
        let counting = Running::start(Pattern::Statsd, Transport::Udp);
        let gone = Running::start(Pattern::Echo, transport).endpoint.clone();
        let error = Case::prepare(&spec(&gone, statsd(&counting, 1))).map(drop).unwrap_err();
        let classes = [Some(ErrorClass::Refused), Some(ErrorClass::WrongContent)];
        assert!(
            error.stage != Stage::Trial && classes.contains(&error.class),
            "{transport}: {error}"
        );
    }
}

#[test]
fn what_cannot_be_served_or_sent_is_refused_in_words() {
    let refused = |spec: &ServeSpec| Server::bind(spec).map(drop).unwrap_err().to_string();
    let udp = Transport::Udp.address();
    assert!(refused(&ServeSpec::new(Pattern::Statsd, udp.clone())).contains("needs an address where it tells"));
    assert!(refused(&ServeSpec::new(Pattern::Stream, udp.clone())).contains("sockets of whole messages serve"));
    let tcp = ServeSpec {
        counter: "127.0.0.1:0".parse().ok(),
        ..ServeSpec::new(Pattern::Statsd, Transport::Tcp.address())
    };
    assert!(refused(&tcp).contains("other sockets serve all but `statsd`"));

    let endpoint = Endpoint::plain(udp);
    let counted = Statsd {
        metrics: 1,
        counter: "http://127.0.0.1:9/".into(),
        counts: "x".into(),
    };
    let base = Spec::new(endpoint, counted.clone().into());
    base.validate().unwrap();
    let uncounted = Statsd {
        counter: String::new(),
        ..counted.clone()
    };
    for (spec, text) in [
        (
            base.clone().connections(2),
            "a protocol without replies (StatsD) is driven like",
        ),
        (
            base.clone().engine(Engine::Epoll),
            "a protocol without replies (StatsD) is driven like",
        ),
        (base.clone().pipeline(2), "2 requests in a pipeline: nothing comes back"),
        (
            base.clone().protocol(uncounted.into()),
            "nothing comes back over StatsD: say where",
        ),
        (
            base.clone().protocol(common::stream(10, 10)),
            "stream needs a socket that carries a stream",
        ),
        (
            base.protocol(Statsd { metrics: 0, ..counted }.into()),
            "number of metrics in a datagram must be 1 to 1000, not 0",
        ),
    ] {
        let error = spec.validate().unwrap_err().to_string();
        assert!(error.starts_with(text), "{error}");
    }
}
