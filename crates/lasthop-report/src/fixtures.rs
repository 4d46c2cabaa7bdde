//! Hand-made summaries, one for each kind of result that a report must be able to show.

use std::{collections::BTreeMap, path::PathBuf};

use indexmap::IndexMap;
use lasthop_analyse::{decision::Decision, summary::*};
use lasthop_model::{
    level::Level,
    record::{Environment, Failure, LoadSummary, PacketFilter, Placement, ProgramVersion, Stage, Stopped},
    selection,
};
use lasthop_stats::Interval;
use lasthop_trial::{
    address::Transport,
    options::{Arrivals, Reuse},
};

/// Figures of a case: requests/s, p50 and p99 in µs, CPU of the driver and of each service in µs.
pub struct Figures<'a> {
    pub rate: f64,
    pub p50: f64,
    pub p99: f64,
    pub driver: f64,
    pub roles: &'a [(&'a str, f64)],
}

pub fn measured(unit: &str, estimate: f64) -> Measured {
    Measured::of(
        unit,
        Interval {
            estimate,
            low: estimate * 0.98,
            high: estimate * 1.02,
        },
    )
}

pub fn metrics(figures: &Figures<'_>) -> Metrics {
    let switches = ["driver"]
        .into_iter()
        .chain(figures.roles.iter().map(|(role, _)| *role));
    Metrics {
        throughput: measured("1/s", figures.rate),
        bandwidth: Some(measured("bytes/s", figures.rate * 64.0)),
        latency_p50: Some(measured("us", figures.p50)),
        latency_p99: Some(measured("us", figures.p99)),
        latency_mean: Some(figures.p50 * 1.1),
        latency_max: Some(figures.p99 * 4.0),
        reply_bytes: None,
        cpu_per_byte: None,
        cpu_per_request: CpuPerRequest {
            unit: "us".into(),
            driver: figures.driver,
            roles: figures
                .roles
                .iter()
                .map(|(role, cpu)| ((*role).to_owned(), *cpu))
                .collect(),
        },
        switches_per_request: switches
            .map(|role| (role.to_owned(), if figures.p50 > 30.0 { 1.4 } else { 1.0 }))
            .collect(),
        run_delay: IndexMap::new(),
        driver_system_calls_per_request: 2.0,
        driver_load: 0.45,
        open_loop: None,
        one_way: None,
    }
}

/// A case named after its levels; the first level is its transport.
pub fn case(levels: &[(&str, &str)], reference: bool, metrics: Option<Metrics>) -> CaseSummary {
    let name: Vec<String> = levels
        .iter()
        .enumerate()
        .map(|(place, (factor, level))| {
            if place == 0 {
                (*level).to_owned()
            } else {
                format!("{factor}={level}")
            }
        })
        .collect();
    let worked = metrics.is_some();
    CaseSummary {
        case: name.join("/"),
        levels: levels
            .iter()
            .map(|(factor, level)| ((*factor).to_owned(), Level::from(*level)))
            .collect(),
        transport: levels[0].1.parse().unwrap_or(Transport::Tcp),
        reference,
        load: LoadSummary {
            target: "server".into(),
            protocol: "echo".into(),
            connections: if levels.contains(&("connections", "10")) { 10 } else { 1 },
            threads: 1,
            reuse: Reuse::KeepAlive,
            requests_per_connection: 1,
            pipeline: 1,
            rate: None,
            arrivals: None,
            bytes: Some(64),
            driver: "lasthop".into(),
        },
        trials: if worked { 96 } else { 0 },
        failed_trials: u32::from(!worked),
        requests: if worked { 432_100 } else { 0 },
        errors: IndexMap::new(),
        metrics,
        proof: None,
        trial_seconds: None,
        headroom: None,
        reported: None,
        throttled: IndexMap::new(),
        wait: None,
    }
}

/// An interval from its low end, estimate and high end.
pub const fn interval([low, estimate, high]: [f64; 3]) -> Interval {
    Interval { estimate, low, high }
}

pub fn compare(case: &str, reference: &str, ratio: [f64; 3], verdict: Verdict) -> Comparison {
    Comparison {
        case: case.into(),
        reference: reference.into(),
        metric: Metric::Throughput,
        ratio: interval(ratio),
        verdict,
        perhaps: None,
        lower_bound: false,
        adjusted_p: None,
        blocks: 96,
        one_start: false,
        more_seconds: (verdict == Verdict::Undecided).then_some(170.0),
        materiality: None,
        run_delay_saved: None,
        published: None,
    }
}

/// The materiality of ratios of time with a margin of 2 %, for a reference whose requests take `spent_us`.
fn materiality(spent_us: f64, ratio: [f64; 3], advises: bool) -> Materiality {
    let saved = |ratio: f64| spent_us * (1.0 - ratio);
    let handler_ms = |ratio: f64| (spent_us * ((1.0 - ratio).abs() / 0.02 - 1.0)).max(0.0) / 1e3;
    let mut ends = [handler_ms(ratio[0]), handler_ms(ratio[2])];
    ends.sort_by(f64::total_cmp);
    let break_even = Measured::of(
        "ms",
        Interval {
            estimate: handler_ms(ratio[1]),
            low: ends[0],
            high: ends[1],
        },
    );
    Materiality {
        saved_us: interval([2, 1, 0].map(|end| saved(ratio[end]))),
        break_even: advises.then_some(break_even),
        cores_saved_at_1000_per_second: saved(ratio[1]) / 1e3,
    }
}

/// Makes figures and savings agree with the ratios, as in every summary of a record.
fn agree(summary: &mut Summary) {
    for comparison in &mut summary.comparisons {
        let of = |cases: &[CaseSummary], name: &str| cases.iter().find(|case| case.case == name)?.metrics.clone();
        let Some(reference) = of(&summary.cases, &comparison.reference) else {
            continue;
        };
        let case = summary
            .cases
            .iter_mut()
            .find(|case| case.case == comparison.case)
            .expect("is compared");
        let (connections, is_open) = (case.load.connections, case.load.is_open());
        let Some(metrics) = case.metrics.as_mut() else { continue };
        let Interval {
            low,
            estimate: ratio,
            high,
        } = comparison.ratio;
        match comparison.metric {
            Metric::Throughput => {
                metrics.throughput = measured("1/s", reference.throughput.interval.estimate * ratio);
                if let (Some(ours), Some(theirs)) = (&mut metrics.bandwidth, &reference.bandwidth) {
                    *ours = measured("bytes/s", theirs.interval.estimate * ratio);
                }
                let spent = f64::from(connections) * 1e6 / reference.throughput.interval.estimate;
                let remains = [1.0 / high, 1.0 / ratio, 1.0 / low];
                comparison.materiality = Some(materiality(spent, remains, connections == 1));
            }
            Metric::LatencyP50 => {
                let spent = reference.latency_p50.as_ref().map_or(0.0, |one| one.interval.estimate);
                metrics.latency_p50 = Some(measured("us", spent * ratio));
                if is_open {
                    comparison.materiality = Some(materiality(spent, [low, ratio, high], false));
                }
            }
            Metric::LatencyP99 => {
                let theirs = reference.latency_p99.as_ref().map_or(0.0, |one| one.interval.estimate);
                metrics.latency_p99 = Some(measured("us", theirs * ratio));
            }
            Metric::CpuPerRequest => {
                let ours = &mut metrics.cpu_per_request;
                ours.scale(reference.cpu_total() * ratio / ours.total());
                comparison.materiality = Some(materiality(reference.cpu_total(), [low, ratio, high], true));
            }
        }
    }
}

/// A comparison by CPU time with this ratio and verdict.
fn by_cpu(comparison: &Comparison, ratio: [f64; 3], verdict: Verdict) -> Comparison {
    by(Metric::CpuPerRequest, comparison, ratio, verdict)
}

pub fn by(metric: Metric, comparison: &Comparison, ratio: [f64; 3], verdict: Verdict) -> Comparison {
    Comparison {
        metric,
        ratio: interval(ratio),
        verdict,
        materiality: None,
        run_delay_saved: None,
        published: None,
        ..comparison.clone()
    }
}

fn environment(programs: &[(&str, &str, &str)]) -> Environment {
    Environment {
        host: "machine".into(),
        machine: String::new(),
        cpu_model: "AMD EPYC 7B13".into(),
        cpus: 2,
        memory: 8 << 30,
        kernel: "6.18.5".into(),
        architecture: "x86_64".into(),
        distribution: "Debian GNU/Linux 12 (bookworm)".into(),
        virtualization: "kvm".into(),
        governor: None,
        load_average: [0.31, 0.28, 0.2],
        sysctl: IndexMap::from([
            ("net.core.somaxconn".into(), "4096".into()),
            ("net.ipv4.tcp_congestion_control".into(), "cubic".into()),
        ]),
        caches: IndexMap::from([("L3 of 0-1".into(), "32768K".into())]),
        topology: None,
        mitigations: IndexMap::from([("spectre_v2".into(), "Mitigation: Retpolines".into())]),
        loopback_mtu: Some(65_536),
        packet_filter: Some(PacketFilter {
            hooks: IndexMap::new(),
            chains: Some(6),
            rules: Some(5),
            iptables: vec![],
            tracking: Some(true),
        }),
        programs: programs
            .iter()
            .map(|(name, path, version)| {
                (
                    (*name).to_owned(),
                    ProgramVersion {
                        path: (*path).into(),
                        version: (*version).into(),
                    },
                )
            })
            .collect(),
        driver: None,
    }
}

fn factors(cases: &[CaseSummary]) -> IndexMap<String, Vec<String>> {
    let mut factors: IndexMap<String, Vec<String>> = IndexMap::new();
    for (factor, level) in cases.iter().flat_map(|case| &case.levels) {
        let levels = factors.entry(factor.clone()).or_default();
        if !levels.contains(&level.to_string()) {
            levels.push(level.to_string());
        }
    }
    factors
}

pub fn summary(cases: Vec<CaseSummary>, comparisons: Vec<Comparison>) -> Summary {
    let mut summary = Summary {
        schema: SCHEMA.into(),
        experiment: "sockets".into(),
        title: "Unix socket, TCP and TLS between two processes".into(),
        question: "Which local transport is fastest between two processes?".into(),
        answer: vec![],
        limits: vec![],
        link: LinkEnds {
            from: "driver".into(),
            to: "server".into(),
        },
        run: "sockets-20260801-120000".into(),
        lasthop: "0.1.0".into(),
        command: ["lasthop", "run", "sockets", "--seed", "42"].map(String::from).to_vec(),
        started: "2026-08-01T12:00:00Z".into(),
        seconds: 29.8,
        time: Some(TimeUse {
            measured: 0.624,
            warm_up: 0.125,
            between: 0.04,
            starting: 0.101,
            verifying: 0.06,
        }),
        seed: 42,
        stopped: Stopped::Precision,
        complete: true,
        decision: Decision::default(),
        running: false,
        folder: PathBuf::new(),
        word: "sockets-20260801-120000".into(),
        resumed: vec![],
        aa: false,
        settings: SettingsSummary {
            precision: 0.02,
            budget_seconds: 30.0,
            margin: 0.02,
            trial_seconds: 0.1,
            blocks_per_round: Some(32),
            confidence: 0.95,
            placement: Placement::Free,
        },
        rounds: 3,
        blocks: 96,
        compared: selection::compared(&factors(&cases), |_| false).to_owned(),
        factors: factors(&cases),
        labels: IndexMap::new(),
        controls: vec![],
        environment: Some(environment(&[("server", "/usr/local/bin/lasthop", "0.1.0")])),
        cases,
        comparisons,
        alternatives: vec![],
        template: None,
        overload: None,
        explained: None,
        derived: vec![],
        checks: vec![],
        failures: vec![],
    };
    agree(&mut summary);
    summary
}

const UNIX: Figures<'_> = Figures {
    rate: 45_123.0,
    p50: 20.94,
    p99: 31.2,
    driver: 8.1,
    roles: &[("server", 7.4)],
};
const TCP: Figures<'_> = Figures {
    rate: 24_130.0,
    p50: 39.8,
    p99: 61.0,
    driver: 15.2,
    roles: &[("server", 12.6)],
};
const TLS: Figures<'_> = Figures {
    rate: 16_650.0,
    p50: 57.1,
    p99: 90.2,
    driver: 22.4,
    roles: &[("server", 20.9)],
};

fn echo(transport: &str, reference: bool, figures: &Figures<'_>) -> CaseSummary {
    case(
        &[("transport", transport), ("pattern", "echo"), ("size", "64")],
        reference,
        Some(metrics(figures)),
    )
}

/// Faster and slower, by much and by little.
pub fn three_transports() -> Summary {
    let cases = vec![
        echo("unix", false, &UNIX),
        echo("tcp", true, &TCP),
        echo("tls", false, &TLS),
    ];
    let (unix, tcp, tls) = (cases[0].case.clone(), cases[1].case.clone(), cases[2].case.clone());
    let faster = compare(&unix, &tcp, [1.83, 1.87, 1.91], Verdict::Faster);
    let slower = compare(&tls, &tcp, [0.68, 0.69, 0.70], Verdict::Slower);
    let comparisons = vec![
        by(Metric::LatencyP50, &faster, [0.51, 0.526, 0.54], Verdict::Faster),
        by_cpu(&faster, [0.54, 0.557, 0.57], Verdict::Faster),
        faster,
        by_cpu(&slower, [1.53, 1.557, 1.58], Verdict::Slower),
        slower,
    ];
    summary(cases, comparisons)
}

/// No difference between the two but for a slower tail.
pub fn equivalent() -> Summary {
    let similar = Figures {
        rate: 44_950.0,
        p99: 44.0,
        ..UNIX
    };
    let cases = vec![echo("abstract", false, &similar), echo("unix", true, &UNIX)];
    let (one, reference) = (cases[0].case.clone(), cases[1].case.clone());
    let equivalent = compare(&one, &reference, [0.988, 0.996, 1.005], Verdict::Equivalent);
    let tail = by(Metric::LatencyP99, &equivalent, [1.3, 1.41, 1.52], Verdict::Slower);
    summary(cases, vec![equivalent, tail])
}

/// Everything on one CPU: a service and the driver wait for the CPU, less over a Unix socket; TLS takes more CPU time
/// and waits as long.
pub fn shared_cpu() -> Summary {
    let mut summary = three_transports();
    let delays = [[4.2, 5.3], [9.6, 14.1], [9.8, 13.9]];
    for (case, [driver, server]) in summary.cases.iter_mut().zip(delays) {
        let Some(metrics) = case.metrics.as_mut() else { continue };
        let delay = |us: f64, cpu: f64| RunDelay {
            us_per_request: us,
            share: us / (us + cpu),
        };
        let cpu = &metrics.cpu_per_request;
        let (driver, server) = (delay(driver, cpu.driver), delay(server, cpu.roles["server"]));
        metrics.run_delay = IndexMap::from([("driver".to_owned(), driver), ("server".to_owned(), server)]);
    }
    let saved = |us: f64| {
        Measured::of(
            "us",
            Interval {
                estimate: us,
                low: us - 0.5,
                high: us + 0.5,
            },
        )
    };
    let declared = summary
        .comparisons
        .iter_mut()
        .filter(|comparison| comparison.metric == Metric::Throughput);
    for (comparison, [driver, server]) in declared.zip([[5.4, 8.8], [-0.2, 0.2]]) {
        let roles = [
            ("driver".to_owned(), saved(driver)),
            ("server".to_owned(), saved(server)),
        ]
        .into();
        comparison.run_delay_saved = Some(RunDelaySaved {
            all: Some(saved(driver + server)),
            roles,
        });
    }
    summary
}

/// The budget was too small.
pub fn undecided() -> Summary {
    let similar = Figures {
        rate: 24_400.0,
        p50: 39.1,
        ..TCP
    };
    let cases = vec![echo("tcp6", false, &similar), echo("tcp", true, &TCP)];
    let (one, reference) = (cases[0].case.clone(), cases[1].case.clone());
    let open = compare(&one, &reference, [0.97, 1.01, 1.05], Verdict::Undecided);
    Summary {
        stopped: Stopped::Budget,
        ..summary(cases, vec![open])
    }
}

/// The driver was at its limit.
pub fn lower_bound() -> Summary {
    let mut summary = three_transports();
    summary
        .comparisons
        .iter_mut()
        .for_each(|comparison| comparison.lower_bound = true);
    summary.checks = vec![
        Check {
            id: "settings".into(),
            severity: Severity::Note,
            case: None,
            evidence: "the CPU governor cannot be read".into(),
            effect: "frequency changes go unnoticed".into(),
        },
        saturated("unix/pattern=echo/size=64", 97),
        saturated("tcp/pattern=echo/size=64", 91),
        Check {
            id: "wrong-answers".into(),
            severity: Severity::Invalid,
            case: Some("tls/pattern=echo/size=64".into()),
            evidence: "12 of 432,100 answers had the wrong content".into(),
            effect: "this case must not be used.".into(),
        },
    ];
    summary
}

fn saturated(case: &str, share: u32) -> Check {
    Check {
        id: "driver-saturated".into(),
        severity: Severity::Doubt,
        case: Some(case.into()),
        evidence: format!("the driver used {share} % of its core"),
        effect: "ratios with this case are lower bounds".into(),
    }
}

/// One case never came up; its log is hostile.
pub fn failed_case() -> Summary {
    let mut summary = three_transports();
    let broken = &mut summary.cases[2];
    (broken.metrics, broken.trials, broken.failed_trials) = (None, 0, 3);
    let case = broken.case.clone();
    summary.comparisons.retain(|comparison| comparison.case != case);
    let failure = |round| Failure {
        round,
        block: None,
        case: case.clone(),
        stage: Stage::Ready,
        cause: "server did not accept a connection on 127.0.0.1:40311 within 5 s".into(),
        log:
            "starting\n\u{1b}[31mERROR\u{1b}[0m cannot load /run/lasthop/certificate-with-a-very-long-name/server.pem: \
              permission denied\n```\nbye"
                .into(),
        log_file: Some(format!("services/{round}/2/server/log").into()),
        hint: Some("the server runs as `nobody`, who must be able to read its files".into()),
        requests: 0,
        errors: BTreeMap::new(),
    };
    summary.failures = vec![failure(0), failure(1), failure(2)];
    summary
}

/// The reference never came up.
pub fn failed_reference() -> Summary {
    let mut summary = three_transports();
    let broken = &mut summary.cases[1];
    broken.metrics = None;
    let case = broken.case.clone();
    summary.comparisons.clear();
    summary.failures = vec![Failure {
        round: 0,
        block: None,
        case,
        stage: Stage::Start,
        cause: "address 127.0.0.1:8000 is in use".into(),
        log: String::new(),
        log_file: None,
        hint: None,
        requests: 0,
        errors: BTreeMap::new(),
    }];
    summary
}

/// Killed in the second round.
pub fn cut_off() -> Summary {
    Summary {
        complete: false,
        stopped: Stopped::Interrupted,
        seconds: 12.3,
        rounds: 2,
        blocks: 41,
        ..three_transports()
    }
}

/// Killed before anything was measured.
pub fn without_result() -> Summary {
    let mut summary = failed_reference();
    summary.cases.iter_mut().for_each(|case| case.metrics = None);
    Summary {
        complete: false,
        stopped: Stopped::Interrupted,
        seconds: 0.8,
        rounds: 0,
        blocks: 0,
        environment: None,
        ..summary
    }
}

/// A reference against itself.
pub fn same_twice() -> Summary {
    let again = CaseSummary {
        case: "tcp-again/pattern=echo/size=64".into(),
        ..echo("tcp", false, &TCP)
    };
    let cases = vec![echo("tcp", true, &TCP), again];
    let (reference, again) = (cases[0].case.clone(), cases[1].case.clone());
    let comparison = compare(&again, &reference, [0.994, 1.003, 1.012], Verdict::Equivalent);
    Summary {
        aa: true,
        ..summary(cases, vec![comparison])
    }
}

/// One transport only.
pub fn single_case() -> Summary {
    summary(vec![echo("unix", true, &UNIX)], vec![])
}

/// Three factors: transport × connections × reuse, with four roles.
pub fn twelve_cases() -> Summary {
    const ROLES: [(&str, f64); 3] = [("nginx", 61.2), ("gunicorn", 402.7), ("postgres", 210.4)];
    let (mut cases, mut comparisons) = (vec![], vec![]);
    for (at, (connections, reuse)) in [
        ("1", "close"),
        ("1", "keep-alive"),
        ("10", "close"),
        ("10", "keep-alive"),
    ]
    .into_iter()
    .enumerate()
    {
        let slowdown = 1.0 + at as f64;
        for (transport, speed) in [
            ("unix", 1.4 - 0.125 * at as f64),
            ("tcp", 1.0),
            ("tls", 0.4 + 0.197 * at as f64),
        ] {
            let roles = ROLES.map(|(role, cpu)| (role, cpu / speed));
            let figures = Figures {
                rate: 1_210.0 * speed * slowdown,
                p50: 812.0 / speed * slowdown,
                p99: 1_720.0 / speed * slowdown,
                driver: 14.2 / speed,
                roles: &roles,
            };
            let levels = [("transport", transport), ("connections", connections), ("reuse", reuse)];
            let metrics = metrics(&figures);
            cases.push(case(&levels, transport == "tcp", Some(metrics)));
            if transport != "tcp" {
                let verdict = match speed {
                    _ if (0.98..=1.02).contains(&speed) => Verdict::Equivalent,
                    _ if (0.95..=1.05).contains(&speed) => Verdict::Undecided,
                    _ if speed > 1.0 => Verdict::Faster,
                    _ => Verdict::Slower,
                };
                let name = |transport: &str| format!("{transport}/connections={connections}/reuse={reuse}");
                let ratio = [speed - 0.012, speed, speed + 0.012];
                let declared = compare(&name(transport), &name("tcp"), ratio, verdict);
                let cpu = ratio.map(|ratio| 1.0 / ratio);
                comparisons.extend([by_cpu(&declared, [cpu[2], cpu[1], cpu[0]], verdict), declared]);
            }
        }
    }
    Summary {
        experiment: "nginx-gunicorn".into(),
        title: "nginx in front of gunicorn".into(),
        link: LinkEnds {
            from: "nginx".into(),
            to: "gunicorn".into(),
        },
        environment: Some(environment(&[
            ("nginx", "/usr/sbin/nginx", "1.26.3"),
            ("gunicorn", "/opt/venv/bin/gunicorn", "23.0.0"),
            ("postgres", "/usr/lib/postgresql/17/bin/postgres", "17.5"),
        ])),
        ..summary(cases, comparisons)
    }
}

/// The default run: two patterns decided, and a large transfer, which is not, with the most CPU time by far.
pub fn patterns() -> Summary {
    let (mut cases, mut comparisons) = (vec![], vec![]);
    let times = |figures: &Figures<'_>, scale: f64| Figures {
        rate: figures.rate / scale,
        p50: figures.p50 * scale,
        p99: figures.p99 * scale,
        driver: figures.driver * scale,
        roles: &[("server", 0.0)],
    };
    for (pattern, scale, unix, tls) in [
        ("hello", 2.4, 1.63, 0.21),
        ("echo", 1.0, 1.87, 0.69),
        ("stream", 50.0, 1.05, 0.97),
    ] {
        let level = |transport| [("transport", transport), ("pattern", pattern)];
        for (transport, figures) in [("unix", &UNIX), ("tcp", &TCP), ("tls", &TLS)] {
            let mut metrics = metrics(&times(figures, scale));
            metrics.cpu_per_request.roles["server"] = figures.roles[0].1 * scale;
            cases.push(case(&level(transport), transport == "tcp", Some(metrics)));
        }
        let name = |transport: &str| format!("{transport}/pattern={pattern}");
        for (transport, ratio) in [("unix", unix), ("tls", tls)] {
            let (low, high, verdict) = match (pattern, ratio > 1.0) {
                ("stream", _) => (ratio - 0.2, ratio + 0.2, Verdict::Undecided),
                (_, true) => (ratio - 0.02, ratio + 0.02, Verdict::Faster),
                (_, false) => (ratio - 0.02, ratio + 0.02, Verdict::Slower),
            };
            comparisons.push(compare(&name(transport), &name("tcp"), [low, ratio, high], verdict));
        }
    }
    summary(cases, comparisons)
}

/// Bulk: bytes per second instead of requests.
pub fn stream() -> Summary {
    let bulk = |transport: &str, reference: bool, figures: &Figures<'_>, rate: f64| {
        let mut metrics = metrics(figures);
        (metrics.latency_p50, metrics.latency_p99, metrics.latency_mean) = (None, None, None);
        metrics.bandwidth = Some(measured("bytes/s", rate));
        let mut case = case(
            &[("transport", transport), ("pattern", "stream"), ("size", "1048576")],
            reference,
            Some(metrics),
        );
        (case.load.protocol, case.load.bytes) = ("stream".into(), Some(1 << 20));
        case
    };
    let cases = vec![bulk("unix", false, &UNIX, 5.32e9), bulk("tcp", true, &TCP, 4.88e9)];
    let (unix, tcp) = (cases[0].case.clone(), cases[1].case.clone());
    summary(cases, vec![compare(&unix, &tcp, [1.06, 1.09, 1.12], Verdict::Faster)])
}

/// An open loop: compared by the response time, with one case that could not keep the rate.
pub fn at_a_rate() -> Summary {
    let mut cases = vec![
        echo("unix", false, &UNIX),
        echo("tcp", true, &TCP),
        echo("tls", false, &TLS),
    ];
    for case in &mut cases {
        (case.load.rate, case.load.arrivals) = (Some(12_000.0), Some(Arrivals::Poisson));
        let Some(metrics) = case.metrics.as_mut() else { continue };
        metrics.throughput = measured("1/s", 12_000.0);
        metrics.open_loop = Some(OpenLoop {
            scheduled: 115_200,
            sent: 115_200,
            reached: true,
            lag_p50_us: Some(0.4),
            lag_p99_us: Some(3.6),
        });
    }
    let late = cases[2]
        .metrics
        .as_mut()
        .and_then(|metrics| metrics.open_loop.as_mut())
        .expect("just put there");
    (late.sent, late.reached, late.lag_p99_us) = (98_000, false, Some(14_321.0));
    let (unix, tcp, tls) = (cases[0].case.clone(), cases[1].case.clone(), cases[2].case.clone());
    let by_time = |case: &str, [low, ratio, high]: [f64; 3], verdict| {
        by(
            Metric::LatencyP50,
            &compare(case, &tcp, [1.0; 3], verdict),
            [low, ratio, high],
            verdict,
        )
    };
    let comparisons = vec![
        by_time(&unix, [0.52, 0.53, 0.54], Verdict::Faster),
        by_time(&tls, [1.39, 1.42, 1.45], Verdict::Slower),
    ];
    let mut summary = summary(cases, comparisons);
    summary.checks.push(Check {
        id: "rate-not-reached".into(),
        severity: Severity::Invalid,
        case: Some(tls),
        evidence: "of 115200 requests that were due at 12000 requests/s, 98000 (85 %) were sent in time".into(),
        effect: "the latencies are those of an overload".into(),
    });
    summary
}

/// [`three_transports`] with profile trials of two cases.
pub fn explained() -> Summary {
    let role = |layers: &[(&str, f64)], time| ProfiledRole {
        cpu_us: layers.iter().map(|(_, us)| us).sum(),
        layers: layers.iter().map(|(layer, us)| ((*layer).to_owned(), *us)).collect(),
        not_attributed_us: 0.2,
        unassigned: IndexMap::from([("who_knows".to_owned(), 0.2)]),
        counts: IndexMap::from([("switches".to_owned(), 1.0)]),
        time,
        stacks: vec![Stack {
            stack: "main;send;tcp_sendmsg".into(),
            layer: Some("tcp".into()),
            us: 2.0,
        }],
        other_stacks_us: 1.5,
    };
    let time = |working_us, waiting_us| {
        Some(ThreadTime {
            working_us,
            runnable_us: 0.4,
            waiting_us,
        })
    };
    let case = |driver: &[(&str, f64)], server: &[(&str, f64)], time, speed| ProfiledCase {
        trials: 12,
        samples: 4_321,
        speed: Some(measured("ratio", speed)),
        roles: IndexMap::from([
            ("driver".to_owned(), role(driver, time)),
            ("server".to_owned(), role(server, None)),
        ]),
    };
    let saving = |layer: &str, us: [f64; 2], functions: &[&str]| LayerSaving {
        layer: layer.into(),
        saved: Measured::of(
            "us",
            Interval {
                estimate: us[0] + us[1],
                low: us[0] + us[1] - 0.4,
                high: us[0] + us[1] + 0.4,
            },
        ),
        roles: IndexMap::from([("driver".to_owned(), us[0]), ("server".to_owned(), us[1])]),
        functions: functions.iter().map(|name| (*name).to_owned()).collect(),
    };
    let tcp = [("tcp", 7.0), ("loopback", 3.0), ("scheduling", 2.0)];
    let summary = three_transports();
    let name = |place: usize| summary.cases[place].case.clone();
    Summary {
        explained: Some(Explained {
            missing: None,
            layers: IndexMap::from(
                [
                    ("tcp", "TCP"),
                    ("loopback", "Loopback and softirq"),
                    ("unix", "Unix sockets"),
                ]
                .map(|(id, title)| (id.to_owned(), title.to_owned())),
            ),
            cases: IndexMap::from([
                (
                    name(0),
                    case(&[("unix", 2.0)], &[("unix", 3.0)], time(12.0, 12.0), 0.94),
                ),
                (name(1), case(&tcp, &tcp, time(17.0, 15.0), 0.93)),
            ]),
            differences: vec![LayerDifference {
                case: name(0),
                reference: name(1),
                saved: Measured::of(
                    "us",
                    Interval {
                        estimate: 12.3,
                        low: 11.2,
                        high: 13.4,
                    },
                ),
                roles: IndexMap::from([("driver".to_owned(), 7.1), ("server".to_owned(), 5.2)]),
                layers: vec![
                    saving("tcp", [4.1, 3.8], &["tcp_sendmsg_locked", "tcp_ack"]),
                    saving("loopback", [2.2, 2.0], &["process_backlog", "__dev_queue_xmit"]),
                    saving("unix", [-0.4, -0.6], &["unix_stream_read_generic"]),
                ],
                others_us: 0.9,
                not_attributed: saving("not-attributed", [0.2, 0.1], &["who_knows"]),
                kernel: Some(measured("us", 0.31)),
                counts: IndexMap::from([
                    ("switches".to_owned(), [2.0, 2.4]),
                    ("softirq:net-rx".to_owned(), [0.0, 2.01]),
                ]),
                events: IndexMap::from([("switches".to_owned(), measured("1", 0.4))]),
            }],
        }),
        ..summary.clone()
    }
}

pub fn all() -> Vec<(&'static str, Summary)> {
    let mut all = vec![
        ("explained", explained()),
        ("three_transports", three_transports()),
        ("equivalent", equivalent()),
        ("shared_cpu", shared_cpu()),
        ("undecided", undecided()),
        ("lower_bound", lower_bound()),
        ("failed_case", failed_case()),
        ("failed_reference", failed_reference()),
        ("cut_off", cut_off()),
        ("without_result", without_result()),
        ("same_twice", same_twice()),
        ("single_case", single_case()),
        ("twelve_cases", twelve_cases()),
        ("patterns", patterns()),
        ("stream", stream()),
        ("at_a_rate", at_a_rate()),
    ];
    all.iter_mut().for_each(|(_, summary)| summary.decide());
    all
}
