//! Synthetic records with a known truth.

use std::sync::Arc;

use indexmap::IndexMap;
use lasthop_model::{
    level::Level,
    observation::{MachineUsage, NetworkCounters, Observations, RoleUsage},
    profile::{FoldedStack, Profile, RoleProfile},
    record::{
        CasePlan, CaseProof, Environment, ExperimentSummary, FactorSummary, Failure, LoadSummary, MeasuredTrial,
        Placement, ProfileRecord, ProfileTrial, RoundRecord, RunEnd, RunHeader, Settings, Stage, Stopped, TrialRecord,
        VERSION,
    },
};
use lasthop_protocol::{Protocol, Spec, echo::Echo};
use lasthop_record::data::RunData;
use lasthop_stats::random::Draws;
use lasthop_trial::{
    Histogram, TrialResult,
    address::{Endpoint, Tls, Transport},
    options::{Arrivals, Engine, Reuse},
    result::{DriverCost, ErrorClass, ErrorCount, Offered, Proof},
};

use super::{
    summarise,
    summary::{Check, Comparison, Metric, Severity, Summary},
};

const TRIAL_NS: u64 = 100_000_000;

/// A case of a synthetic run.
#[derive(Clone, Copy)]
pub struct Truth {
    pub transport: Transport,
    /// Requests per second.
    pub rate: f64,
    /// CPU microseconds of the service per request; the driver takes 10.
    pub service_cpu_us: f64,
}

pub const TCP: Truth = Truth {
    transport: Transport::Tcp,
    rate: 20_000.0,
    service_cpu_us: 20.0,
};
/// TCP with TLS, which costs nothing here.
pub const TLS: Truth = Truth {
    transport: Transport::Tls,
    ..TCP
};
/// A case with 1.3 times the requests per second of `TCP`, at 0.7 times the CPU time.
pub const UNIX: Truth = Truth {
    transport: Transport::Unix,
    rate: 26_000.0,
    service_cpu_us: 14.0,
};

/// A run with a case for each truth, of which the first is the reference of the others. The luck of a round is 0.5 %,
/// the noise of a trial 1 %, and neighbours' noise, common to a block's trials, 5 %.
pub fn run(truths: &[Truth], rounds: u32, blocks: u32) -> RunData {
    let mut data = counting_run(truths, rounds, blocks, 2_017);
    let mut draws = Draws::new(2_018);
    for truth in 0..truths.len() {
        let case = case_name(truths, truth);
        each_trial(&mut data, &case, |trial| {
            trial.result.service_time = Some(latencies(&mut draws, &trial.result))
        });
    }
    data
}

/// Scatter of speeds, as shares: by the start of the servers, between trials, and by neighbours in a block.
#[derive(Clone, Copy)]
pub struct Noise {
    pub luck: f64,
    pub trial: f64,
    pub neighbours: f64,
}

const QUIET: Noise = Noise {
    luck: 0.005,
    trial: 0.01,
    neighbours: 0.05,
};

/// A run whose driver reports no latencies.
pub fn counting_run(truths: &[Truth], rounds: u32, blocks: u32, seed: u64) -> RunData {
    noisy_run(truths, rounds, blocks, seed, QUIET)
}

/// A run with this noise, whose driver reports no latencies.
pub fn noisy_run(truths: &[Truth], rounds: u32, blocks: u32, seed: u64, scatter: Noise) -> RunData {
    let cases: Vec<CasePlan> = (0..truths.len()).map(|index| plan(truths, index)).collect();
    let mut draws = Draws::new(seed);
    let mut records = Vec::new();
    let mut at_ns = 0;
    for round in 0..rounds {
        records.push(TrialRecord::Round(Box::new(round_record(&cases, round, at_ns))));
        let luck: Vec<f64> = truths.iter().map(|_| noise(&mut draws, scatter.luck)).collect();
        for block in 0..blocks {
            let neighbours = noise(&mut draws, scatter.neighbours);
            let mut order: Vec<usize> = (0..truths.len()).collect();
            draws.shuffle(&mut order);
            for (position, index) in (0..).zip(order) {
                let speed = luck[index] * neighbours * noise(&mut draws, scatter.trial);
                let trial = MeasuredTrial {
                    round,
                    block,
                    position,
                    case: cases[index].case.clone(),
                    at_ns,
                    phases: None,
                    result: result(&truths[index], speed),
                    observations: observations(&truths[index], speed),
                };
                records.push(TrialRecord::Trial(Box::new(trial)));
                at_ns += TRIAL_NS + 10_000_000;
            }
        }
    }
    let end = RunEnd {
        stopped: Stopped::Budget,
        ended: "2026-01-01T00:01:00Z".parse().unwrap(),
        took_ns: at_ns,
        packet_filter: None,
    };
    RunData {
        header: header(cases),
        environment: Some(environment()),
        records,
        profiles: Vec::new(),
        end: Some(end),
    }
}

/// Six rounds of five blocks, with which no check fires.
pub fn healthy() -> RunData {
    run(&[TCP, UNIX], 6, 5)
}

/// The run as open loops at this rate, with all requests sent. Response times are service times plus a lag of 1 µs.
pub fn at_rate(mut data: RunData, rate: f64) -> RunData {
    for case in &mut data.header.cases {
        (case.load.rate, case.load.arrivals) = (Some(rate), Some(Arrivals::Constant));
    }
    for record in &mut data.records {
        let TrialRecord::Trial(trial) = record else { continue };
        let result = &mut trial.result;
        let scheduled = (rate * result.elapsed_ns as f64 / 1e9) as u64;
        for role in trial.observations.roles.values_mut() {
            role.cpu_ns = (role.cpu_ns as f64 * scheduled as f64 / result.requests as f64) as u64;
        }
        (result.requests, result.requests_total) = (scheduled, scheduled + scheduled / 10);
        result.offered = Some(Offered {
            rate,
            scheduled,
            sent: scheduled,
        });
        result.response_time.clone_from(&result.service_time);
        let mut lag = Histogram::new();
        lag.record_n(1_000, scheduled);
        result.lag = Some(lag);
    }
    data
}

/// Samples of the server per request, in nanoseconds: by layer, and without a layer.
pub struct Layers {
    pub case: &'static str,
    pub layers: &'static [(&'static str, f64)],
    pub without: f64,
}

/// Adds `per_round` profile trials of a thousand requests to each round, with a noise of 2 % for each layer. The driver
/// spends 10 µs on the program, and the kernel's account equals the samples.
pub fn profile(data: &mut RunData, cases: &[Layers], per_round: u32) {
    const REQUESTS: u64 = 1_000;
    let rounds: Vec<u32> = data.rounds().map(|round| round.round).collect();
    let mut draws = Draws::new(2_019);
    for (round, _) in rounds
        .iter()
        .flat_map(|round| (0..per_round).map(move |trial| (*round, trial)))
    {
        for Layers { case, layers, without } in cases {
            let mut ns = |each: f64| (each * noise(&mut draws, 0.02) * REQUESTS as f64) as u64;
            let layers: Vec<(&str, u64)> = layers.iter().map(|(layer, each)| (*layer, ns(*each))).collect();
            let roles = [
                ("driver", role(&[("program", ns(10_000.0))], 0)),
                ("server", role(&layers, ns(*without))),
                (
                    "kernel",
                    RoleProfile {
                        cpu_ns: 0,
                        ..role(&[("scheduler", ns(500.0))], 0)
                    },
                ),
            ];
            data.profiles.push(ProfileRecord::Profile(Box::new(ProfileTrial {
                round,
                case: (*case).to_owned(),
                at_ns: 0,
                requests: REQUESTS,
                // About 0.9 times as fast as TCP.
                elapsed_ns: ns(1e9 / (0.9 * TCP.rate)),
                requests_total: REQUESTS,
                cost: DriverCost::default(),
                profile: Profile {
                    period_ns: 1_000,
                    samples: 1_000,
                    roles: roles.into_iter().map(|(name, role)| (name.to_owned(), role)).collect(),
                    ..Profile::default()
                },
            })));
        }
    }
}

/// Adds an event of the server to each profile trial of a case.
pub fn count(data: &mut RunData, case: &str, event: &str, per_request: u64) {
    for record in &mut data.profiles {
        if let ProfileRecord::Profile(trial) = record
            && trial.case == case
        {
            let counts = &mut trial.profile.roles["server"].counts;
            counts.insert(event.to_owned(), per_request * trial.requests_total);
        }
    }
}

fn role(layers: &[(&str, u64)], without: u64) -> RoleProfile {
    let stack = |layer: Option<&str>, ns| FoldedStack {
        frames: vec!["main".to_owned(), format!("{}_work", layer.unwrap_or("no"))].into(),
        layer: layer.map(str::to_owned),
        ns,
    };
    let mut stacks: Vec<FoldedStack> = layers.iter().map(|(layer, ns)| stack(Some(layer), *ns)).collect();
    stacks.push(stack(None, without));
    RoleProfile {
        cpu_ns: stacks.iter().map(|stack| stack.ns).sum(),
        layers: layers.iter().map(|(layer, ns)| ((*layer).to_owned(), *ns)).collect(),
        unassigned: vec![("no_work".to_owned(), without)],
        stacks,
        ..RoleProfile::default()
    }
}

/// A factor around 1, whose logarithm has the standard deviation `share`.
fn noise(draws: &mut Draws, share: f64) -> f64 {
    let sum: f64 = (0..12).map(|_| draws.unit()).sum::<f64>() - 6.0;
    (share * sum).exp()
}

fn case_name(truths: &[Truth], index: usize) -> String {
    let transport = truths[index].transport;
    let same = truths[..index]
        .iter()
        .filter(|truth| truth.transport == transport)
        .count();
    if same == 0 {
        transport.name().to_owned()
    } else {
        format!("{transport}#{}", same + 1)
    }
}

fn plan(truths: &[Truth], index: usize) -> CasePlan {
    let load = LoadSummary {
        target: "server".to_owned(),
        protocol: "echo".to_owned(),
        connections: 1,
        threads: 1,
        reuse: Reuse::KeepAlive,
        requests_per_connection: 1,
        pipeline: 1,
        rate: None,
        arrivals: None,
        bytes: Some(64),
        driver: "lasthop".to_owned(),
    };
    CasePlan {
        case: case_name(truths, index),
        levels: IndexMap::from([(
            "transport".to_owned(),
            Level::Text(truths[index].transport.name().to_owned()),
        )]),
        transport: truths[index].transport,
        reference: (index > 0).then(|| case_name(truths, 0)),
        stack: index,
        load,
        conditions: None,
    }
}

fn header(cases: Vec<CasePlan>) -> RunHeader {
    let factor = FactorSummary {
        help: String::new(),
        levels: cases
            .iter()
            .map(|case| Level::Text(case.transport.name().to_owned()))
            .collect(),
        reference: None,
        controls: Vec::new(),
        labels: IndexMap::new(),
    };
    RunHeader {
        record: VERSION,
        run: "test-1".to_owned(),
        lasthop: "0.1.0".to_owned(),
        command: vec!["lasthop".to_owned()],
        started: "2026-01-01T00:00:00Z".parse().unwrap(),
        experiment: ExperimentSummary {
            name: "sockets".to_owned(),
            title: "Sockets".to_owned(),
            question: "Which?".to_owned(),
            source: "built-in".to_owned(),
            from: "driver".to_owned(),
            to: "server".to_owned(),
            services: IndexMap::from([("server".to_owned(), "lasthop".to_owned())]),
        },
        settings: Settings {
            rounds: None,
            tools: Vec::new(),
            driver_at: None,
            overload: None,
            explain: None,
            seed: 1,
            precision: 0.02,
            budget_ns: 30_000_000_000,
            margin: 0.02,
            trial_ns: TRIAL_NS,
            lengthens: false,
            settle_ns: 0,
            warm_up_ns: 0,
            blocks: Some(5),
            aa: false,
            placement: Placement::Free,
            headroom: false,
        },
        factors: IndexMap::from([("transport".to_owned(), factor)]),
        cases,
        derived: vec![],
        answer: None,
        differences: vec![],
        given: None,
        labels: IndexMap::new(),
        origin: None,
    }
}

fn environment() -> Environment {
    let range = ("net.ipv4.ip_local_port_range".to_owned(), "32768\t60999".to_owned());
    Environment {
        host: "test".to_owned(),
        machine: String::new(),
        cpu_model: "test".to_owned(),
        cpus: 4,
        memory: 1 << 33,
        kernel: "6.18".to_owned(),
        architecture: "x86_64".to_owned(),
        distribution: "test".to_owned(),
        virtualization: "none".to_owned(),
        governor: None,
        load_average: [0.0; 3],
        sysctl: IndexMap::from([range]),
        caches: IndexMap::new(),
        topology: None,
        mitigations: IndexMap::new(),
        loopback_mtu: None,
        packet_filter: None,
        programs: IndexMap::new(),
        driver: None,
    }
}

fn round_record(cases: &[CasePlan], round: u32, at_ns: u64) -> RoundRecord {
    let cases = cases
        .iter()
        .map(|case| (case.case.clone(), proof(case.transport).into()))
        .collect();
    RoundRecord {
        round,
        at_ns,
        start_ns: 1_000_000,
        ready_ns: Some(600_000),
        cases,
        headroom: IndexMap::new(),
        blocks: None,
        left: Vec::new(),
        same_servers: Vec::new(),
    }
}

fn proof(transport: Transport) -> CaseProof {
    let tls = transport.is_tls().then(|| Tls {
        authority: None,
        server_name: "s".to_owned(),
        resumption: false,
        insecure: false,
    });
    let address = transport.address().at("/run/s", "s", 9);
    let family = address.family().to_owned();
    let spec = Spec::new(Endpoint { address, tls }, Protocol::from(Echo { size: 64 }));
    let driver = Proof {
        family,
        peer: "peer".to_owned(),
        tls_version: transport.is_tls().then(|| "TLSv1.3".to_owned()),
        tls_cipher: transport.is_tls().then(|| "TLS13_AES_256_GCM_SHA384".to_owned()),
        reused: true,
        password_asked: None,
        nodelay: (!transport.is_unix()).then_some(true),
        send_buffer: None,
        receive_buffer: None,
    };
    CaseProof {
        spec,
        driver,
        link: None,
        elsewhere: None,
        path: Vec::new(),
    }
}

/// 300 latencies around the mean time of a request on one connection.
fn latencies(draws: &mut Draws, result: &TrialResult) -> Histogram {
    let mean_ns = 1e9 / result.throughput();
    let mut latencies = Histogram::new();
    for _ in 0..300 {
        latencies.record((mean_ns * noise(draws, 0.2)) as u64);
    }
    latencies
}

fn result(truth: &Truth, speed: f64) -> TrialResult {
    let requests = (truth.rate * speed * TRIAL_NS as f64 / 1e9) as u64;
    TrialResult {
        requests,
        requests_total: requests + requests / 10,
        bytes_received: requests * 64,
        cost: DriverCost {
            user_ns: requests * 4_000,
            system_ns: requests * 6_000,
            voluntary_switches: requests,
            system_calls: 2 * requests,
            run_delay_ns: Some(0),
            ..DriverCost::default()
        },
        ..TrialResult::empty(Engine::Blocking, TRIAL_NS)
    }
}

fn observations(truth: &Truth, speed: f64) -> Observations {
    let requests_total = truth.rate * speed * TRIAL_NS as f64 / 1e9 * 1.1;
    let server = RoleUsage {
        cpu_ns: (requests_total * truth.service_cpu_us * 1e3) as u64,
        voluntary_switches: requests_total as u64,
        run_delay_ns: Some(0),
        processes: 1,
        ..RoleUsage::default()
    };
    Observations {
        roles: IndexMap::from([("server".to_owned(), server)]),
        machine: MachineUsage {
            wall_ns: 110_000_000,
            busy_ns: 90_000_000,
            ..MachineUsage::default()
        },
        network: NetworkCounters {
            tcp_segments_sent: 4_000,
            ..NetworkCounters::default()
        },
        held_ports: None,
    }
}

/// Changes every trial of a case.
pub fn each_trial(data: &mut RunData, case: &str, mut change: impl FnMut(&mut MeasuredTrial)) {
    for record in &mut data.records {
        match record {
            TrialRecord::Trial(trial) if trial.case == case => change(trial),
            _ => {}
        }
    }
}

/// All rounds, mutable.
pub fn each_round(data: &mut RunData) -> impl Iterator<Item = &mut RoundRecord> {
    data.records.iter_mut().filter_map(|record| match record {
        TrialRecord::Round(round) => Some(&mut **round),
        _ => None,
    })
}

/// Changes the proof of a case in every round.
pub fn each_proof(data: &mut RunData, case: &str, mut change: impl FnMut(&mut CaseProof)) {
    each_round(data)
        .filter_map(|round| round.cases.get_mut(case))
        .for_each(|proof| change(Arc::make_mut(proof)));
}

/// Replaces each trial of a case for which `when` holds by a failure.
pub fn fail(data: &mut RunData, case: &str, when: impl Fn(&MeasuredTrial) -> bool) {
    for record in &mut data.records {
        let failure = match record {
            TrialRecord::Trial(trial) if trial.case == case && when(trial) => Failure {
                round: trial.round,
                block: Some(trial.block),
                case: case.to_owned(),
                stage: Stage::Trial,
                cause: "the server died".to_owned(),
                log: "signal 11".to_owned(),
                log_file: None,
                hint: None,
                requests: trial.result.requests_total,
                errors: trial.result.errors.clone(),
            },
            _ => continue,
        };
        *record = TrialRecord::Failure(Box::new(failure));
    }
}

pub fn add_errors(data: &mut RunData, case: &str, class: ErrorClass, each: u64) {
    each_trial(data, case, |trial| {
        trial.result.errors.insert(
            class,
            ErrorCount {
                count: each,
                first: "the first one".to_owned(),
                ..ErrorCount::default()
            },
        );
    });
}

pub fn comparison(summary: &Summary, case: &str, metric: Metric) -> Option<Comparison> {
    summary
        .comparisons
        .iter()
        .find(|found| found.case == case && found.metric == metric)
        .cloned()
}

/// The findings with this id.
pub fn findings(data: &RunData, id: &str) -> Vec<Check> {
    summarise(data)
        .checks
        .into_iter()
        .filter(|check| check.id == id)
        .collect()
}

/// The only finding with this id.
#[track_caller]
pub fn finding(data: &RunData, id: &str) -> Check {
    let mut found = findings(data, id);
    assert_eq!(found.len(), 1, "{id}: {found:#?}");
    found.remove(0)
}

/// Checks that the only finding with this id has this case, if any, and severity, and that its evidence has this part.
#[track_caller]
pub fn fires<'a>(data: &RunData, id: &str, case: impl Into<Option<&'a str>>, severity: Severity, part: &str) {
    let check = finding(data, id);
    assert_eq!(
        (check.case.as_deref(), check.severity),
        (case.into(), severity),
        "{check:#?}"
    );
    assert!(check.evidence.contains(part), "`{part}` is not in {check:#?}");
}
