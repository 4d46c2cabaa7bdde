//! Tests that every check fires, and does not fire just below its limit.

use std::collections::BTreeSet;

use lasthop_model::{
    level::Level,
    observation::{HeldPorts, RoleUsage},
    record::{
        ComparedEndpoints, Difference, Elsewhere, GivenEndpoint, LinkObserved, MeasuredTrial, PacketFilter, Placement,
        ProgramVersion, Resumption, Stopped, TrialRecord,
    },
    selection::DRIVER,
};
use lasthop_protocol::{
    Protocol,
    redis::{Redis, RedisExpect},
    wire::TrialPhases,
};
use lasthop_record::data::RunData;
use lasthop_stats::student;
use lasthop_trial::{
    Histogram,
    address::Transport,
    options::Reuse,
    result::{ErrorClass, FirstHalf},
};

use super::cross_check;
use crate::{
    comparisons::compare_all,
    summarise,
    summary::{
        Comparison, Metric,
        Severity::{self, Doubt, Invalid, Note},
        Verdict,
    },
    testing::{
        Noise, TCP, TLS, Truth, UNIX, add_errors, comparison, counting_run, each_proof, each_round, each_trial, fail,
        finding, findings, fires, healthy, noisy_run, run,
    },
    trials::Trials,
};

/// Makes a driver with two connections this busy for a case.
fn driver_load(data: &mut RunData, case: &str, share: f64) {
    for plan in &mut data.header.cases {
        plan.load.connections = 2;
    }
    each_trial(data, case, |trial| {
        trial.result.cost.user_ns = 0;
        trial.result.cost.system_ns = (share * trial.result.elapsed_ns as f64) as u64;
    });
}

#[test]
fn a_saturated_driver_makes_a_lower_bound() {
    let mut data = healthy();
    driver_load(&mut data, "unix", 0.84);
    assert_eq!(findings(&data, "driver-saturated"), []);
    driver_load(&mut data, "unix", 0.86);
    fires(&data, "driver-saturated", "unix", Doubt, "86 %");
    let summary = summarise(&data);
    for (metric, bound) in [
        (Metric::Throughput, true),
        (Metric::LatencyP50, true),
        (Metric::CpuPerRequest, false),
    ] {
        assert_eq!(
            comparison(&summary, "unix", metric).unwrap().lower_bound,
            bound,
            "{metric:?}"
        );
    }
}

/// A run of `lasthop compare` that found the servers of these cases.
fn given(found: &[&str]) -> RunData {
    let mut data = healthy();
    let spec = data.rounds().next().unwrap().cases["tcp"].spec.clone();
    let endpoint = |case: &&str| {
        let server = found.contains(case).then(|| "server".to_owned());
        let (url, spec) = (format!("http://{case}/"), spec.clone());
        (
            (*case).to_owned(),
            GivenEndpoint {
                url,
                spec,
                server,
                differs: Vec::new(),
                unchecked: None,
                closes: false,
                learnt: false,
                secret: false,
            },
        )
    };
    let endpoints = ["tcp", "unix"].iter().map(endpoint).collect();
    data.header.given = Some(ComparedEndpoints {
        endpoints,
        restart: None,
        pids: Default::default(),
    });
    data
}

#[test]
fn servers_that_run_already_are_restarted_or_doubted() {
    assert_eq!(findings(&healthy(), "not-restarted"), []);
    let mut data = given(&["tcp", "unix"]);
    assert_eq!(finding(&data, "not-restarted").severity, Severity::Doubt);
    data.header.given.as_mut().unwrap().restart = Some("true".to_owned());
    assert_eq!(findings(&data, "not-restarted"), []);
    each_round(&mut data).for_each(|round| round.same_servers = vec!["unix".to_owned()]);
    let found = finding(&data, "not-restarted");
    assert!(
        found.severity == Severity::Doubt && found.evidence.ends_with("as before it: unix"),
        "{found:?}"
    );
}

#[test]
fn a_named_process_that_ends_has_no_share_and_leaves_a_doubt() {
    let mut data = given(&["tcp", "unix"]);
    data.header.given.as_mut().unwrap().pids.insert("helper".to_owned(), 7);
    let shares = |data: &RunData| summarise(data).cases[0].metrics.clone().unwrap().cpu_per_request.roles;
    each_trial(&mut data, "tcp", |trial| {
        trial.observations.roles.insert("helper".to_owned(), Default::default());
    });
    assert!(shares(&data).contains_key("helper"));
    let mut first = true;
    each_trial(&mut data, "tcp", |trial| {
        if !std::mem::take(&mut first) {
            trial.observations.roles.shift_remove("helper");
        }
    });
    assert!(!shares(&data).contains_key("helper"));
    assert!(
        findings(&data, "server-unknown")
            .iter()
            .any(|check| check.case.as_deref() == Some("tcp"))
    );
}

#[test]
fn replies_that_are_not_checked_byte_for_byte_are_doubted() {
    let mut data = given(&["tcp", "unix"]);
    assert_eq!(findings(&data, "weak-check"), []);
    let text = "only the length of the body is checked: the first two replies differ at byte 17";
    data.header.given.as_mut().unwrap().endpoints["unix"].unchecked = Some(text.to_owned());
    let check = finding(&data, "weak-check");
    assert_eq!((check.case.as_deref(), check.severity), (Some("unix"), Severity::Doubt));
    assert_eq!(check.evidence, text);
}

#[test]
fn an_endpoint_that_keeps_no_connection_is_named() {
    let mut data = given(&["tcp", "unix"]);
    assert_eq!(findings(&data, "server-closes"), []);
    data.header.given.as_mut().unwrap().endpoints["unix"].closes = true;
    fires(&data, "server-closes", "unix", Note, "http://unix/ closes the");
}

#[test]
fn the_cpu_time_of_unknown_servers_is_not_compared() {
    let compared = |data: &RunData| comparison(&summarise(data), "unix", Metric::CpuPerRequest).is_some();
    let mut data = given(&["tcp"]);
    assert_eq!(finding(&data, "server-unknown").case.as_deref(), Some("unix"));
    assert!(!compared(&data));
    // A process that the user named, but that does nothing, is not the server.
    data.header.given.as_mut().unwrap().pids.insert("server".to_owned(), 7);
    assert!(findings(&data, "server-unknown").is_empty() && compared(&data));
    each_trial(&mut data, "unix", |trial| trial.observations.roles.clear());
    assert_eq!(finding(&data, "server-unknown").case.as_deref(), Some("unix"));
    assert!(!compared(&data));
}

#[test]
fn a_driver_with_one_request_under_way_limits_nobody() {
    let mut data = healthy();
    driver_load(&mut data, "unix", 0.99);
    data.header.cases.iter_mut().for_each(|plan| plan.load.connections = 1);
    assert_eq!(findings(&data, "driver-saturated"), []);
    assert!(
        !comparison(&summarise(&data), "unix", Metric::Throughput)
            .unwrap()
            .lower_bound
    );
    data.header.cases.iter_mut().for_each(|plan| plan.load.pipeline = 16);
    assert_eq!(finding(&data, "driver-saturated").case.as_deref(), Some("unix"));
}

#[test]
fn a_driver_that_limits_only_the_worse_case_bounds_nothing() {
    let mut data = healthy();
    driver_load(&mut data, "tcp", 0.95);
    assert_eq!(finding(&data, "driver-saturated").case.as_deref(), Some("tcp"));
    assert!(
        !comparison(&summarise(&data), "unix", Metric::Throughput)
            .unwrap()
            .lower_bound
    );
}

#[test]
fn a_driver_kept_from_a_cpu_of_its_own_is_doubted() {
    let kept = |share: f64, placement: Placement| {
        let mut data = healthy();
        data.header.settings.placement = placement;
        each_trial(&mut data, "unix", |trial| {
            trial.result.cost.run_delay_ns = Some((share * trial.result.elapsed_ns as f64) as u64);
        });
        findings(&data, "driver-kept-off")
    };
    let apart = || Placement::Apart {
        driver: vec![1],
        services: vec![0],
    };
    assert_eq!(kept(0.009, apart()), []);
    let found = kept(0.011, apart());
    assert_eq!(
        (found.len(), found[0].case.as_deref(), found[0].severity),
        (1, Some("unix"), Severity::Note)
    );
    assert_eq!(kept(0.06, apart())[0].severity, Severity::Doubt);
    assert!(found[0].evidence.contains("1.1 %"), "{}", found[0].evidence);
    assert_eq!(kept(0.5, Placement::Free), []);
    let mut unknown = healthy();
    unknown.header.settings.placement = apart();
    each_trial(&mut unknown, "unix", |trial| trial.result.cost.run_delay_ns = None);
    assert_eq!(findings(&unknown, "driver-kept-off"), []);
}

#[test]
fn a_driver_that_alone_saw_the_replies_is_noted() {
    let mut data = healthy();
    assert_eq!(findings(&data, "replies-unseen"), []);
    data.header.cases[1].load.protocol = "custom".to_owned();
    assert_eq!(finding(&data, "replies-unseen").severity, Severity::Note);
}

#[test]
fn scarce_headroom_is_doubted() {
    let null = |times: f64| {
        let mut data = healthy();
        let rate = summarise(&data).cases[1]
            .metrics
            .as_ref()
            .unwrap()
            .throughput
            .interval
            .estimate;
        each_round(&mut data)
            .next()
            .unwrap()
            .headroom
            .insert("unix".to_owned(), times * rate);
        data
    };
    assert_eq!(findings(&healthy(), "headroom"), []);
    assert_eq!(findings(&null(2.05), "headroom"), []);
    fires(&null(1.9), "headroom", "unix", Doubt, "1.9 times");
    let check = finding(&null(0.8), "headroom");
    assert!(
        check.evidence.ends_with("reached no more than as many requests"),
        "{check:?}"
    );
    assert_eq!(summarise(&null(3.0)).cases[0].headroom, None);
}

#[test]
fn threads_share_the_drivers_load() {
    let mut data = healthy();
    driver_load(&mut data, "unix", 1.6);
    let mut asked = data.clone();
    asked.header.cases[1].load.threads = 2;
    assert_eq!(findings(&asked, "driver-saturated"), []);
    assert_eq!(findings(&data, "driver-saturated").len(), 1);
    each_proof(&mut data, "unix", |proof| proof.spec.threads = 2);
    assert_eq!(findings(&data, "driver-saturated"), [], "it took another by itself");
    assert_eq!(summarise(&data).cases[1].load.threads, 2);
}

#[test]
fn errors_are_doubted_and_above_a_thousandth_invalid() {
    let mut data = healthy();
    add_errors(&mut data, "unix", ErrorClass::Reset, 1);
    fires(&data, "errors", "unix", Doubt, "30 × reset (first: the first one)");
    add_errors(&mut data, "unix", ErrorClass::Reset, 10);
    assert_eq!(finding(&data, "errors").severity, Severity::Invalid);
    assert_eq!(summarise(&data).cases[1].errors["reset"], 300);
    assert_eq!(findings(&data, "backlog-full"), []);
}

#[test]
fn requests_that_are_often_sent_again_are_doubted() {
    let mut data = healthy();
    let with = |data: &mut RunData, percent: u64| {
        each_trial(data, "unix", |trial| {
            trial.result.sent_again = trial.result.requests_total * percent / 100;
        });
    };
    with(&mut data, 1);
    assert_eq!(findings(&data, "sent-again"), []);
    with(&mut data, 3);
    let check = finding(&data, "sent-again");
    assert_eq!((check.severity, check.case.as_deref()), (Severity::Doubt, Some("unix")));
    assert!(check.evidence.starts_with("3.0 % of requests ("), "{}", check.evidence);
}

#[test]
fn errors_with_a_known_cause_are_named() {
    let mut data = healthy();
    add_errors(&mut data, "unix", ErrorClass::BacklogFull, 3);
    add_errors(&mut data, "tcp", ErrorClass::NoPort, 2);
    fires(&data, "backlog-full", "unix", Doubt, "90 connections failed");
    assert_eq!(finding(&data, "ports-exhausted").case.as_deref(), Some("tcp"));
}

#[test]
fn failed_trials_of_a_working_case() {
    let mut data = healthy();
    fail(&mut data, "unix", |trial| trial.round == 1 && trial.block == 2);
    let check = finding(&data, "failed-trials");
    assert_eq!(
        (check.evidence.as_str(), check.severity),
        ("1 failed in 1 round, 29 worked", Severity::Doubt)
    );
    fail(&mut data, "unix", |trial| trial.round == 2 && trial.block == 2);
    let check = finding(&data, "failed-trials");
    assert_eq!(
        (check.evidence.as_str(), check.severity),
        ("2 failed in 2 rounds, 28 worked", Severity::Invalid)
    );
}

#[test]
fn an_error_weighs_no_less_where_its_trial_failed() {
    let with_errors = |each: u64| {
        let mut data = healthy();
        add_errors(&mut data, "unix", ErrorClass::Reset, each);
        data
    };
    // 0.2 % of 2,860 requests in each trial, and 10 % in a single trial.
    assert_eq!(finding(&with_errors(6), "errors").severity, Severity::Invalid);
    let mut failed = with_errors(0);
    each_trial(&mut failed, "unix", |trial| {
        let is_first = trial.round == 0 && trial.block == 0;
        let count = trial.result.requests_total / 10 * u64::from(is_first);
        trial.result.errors.get_mut(&ErrorClass::Reset).unwrap().count = count;
    });
    fail(&mut failed, "unix", |trial| trial.round == 0 && trial.block == 0);
    fires(&failed, "errors", "unix", Invalid, " × reset (first: the first one)");
    assert!(summarise(&failed).cases[1].errors["reset"] > 200);
}

/// The case is as fast as its reference, and fails at its first slow trial in a round, so that it has no more trials
/// there.
#[test]
fn a_case_that_fails_when_it_is_slow_has_no_verdict() {
    let scatter = Noise {
        luck: 0.02,
        trial: 0.05,
        neighbours: 0.05,
    };
    let truth = [TCP, Truth { rate: TCP.rate, ..UNIX }];
    let mut flattered = 0;
    for seed in 0..40 {
        let mut data = noisy_run(&truth, 8, 10, seed, scatter);
        // One standard deviation below the mean.
        let slow = TCP.rate * 0.1 * (1.0 - 0.074);
        let mut failed = BTreeSet::new();
        let mut over = BTreeSet::new();
        for trial in data.trials().filter(|trial| trial.case == "unix") {
            if over.contains(&trial.round) {
                continue;
            }
            if (trial.result.requests as f64) < slow {
                over.insert(trial.round);
                failed.insert((trial.round, trial.block));
            }
        }
        let after = |trial: &MeasuredTrial| {
            failed
                .range((trial.round, 0)..(trial.round, trial.block))
                .next()
                .is_some()
        };
        data.records
            .retain(|record| !matches!(record, TrialRecord::Trial(trial) if trial.case == "unix" && after(trial)));
        fail(&mut data, "unix", |trial| failed.contains(&(trial.round, trial.block)));
        let trials = Trials::of_ratios(&data);
        let faster = |one: &Comparison| one.metric == Metric::Throughput && one.verdict == Verdict::Faster;
        let compared = compare_all(&trials);
        flattered += u32::from(compared.iter().any(|one| faster(&one.comparison)));
        let summary = crate::summary(&trials, compared);
        assert!(!summary.comparisons.iter().any(faster), "seed {seed}");
        let invalid = summary.invalid("unix", "tcp").unwrap();
        assert_eq!(invalid.id, "failed-trials", "seed {seed}");
    }
    assert!(flattered > 0, "the failures flatter nobody");
}

/// With containers, the changed rules belong to the containers, which come and go.
#[test]
fn a_packet_filter_that_changed_is_doubted() {
    let filter = |rules| {
        Some(PacketFilter {
            chains: Some(6),
            rules: Some(rules),
            hooks: [("output".to_owned(), rules)].into(),
            iptables: Vec::new(),
            tracking: Some(true),
        })
    };
    let mut data = healthy();
    data.end.as_mut().unwrap().packet_filter = filter(5);
    assert_eq!(findings(&data, "packet-filter"), [], "older records have no beginning");
    let environment = data.environment.as_mut().unwrap();
    environment.packet_filter = filter(5);
    assert_eq!(findings(&data, "packet-filter"), []);
    data.environment.as_mut().unwrap().packet_filter = filter(4);
    let evidence = "6 chains, 4 rules (output 4), connection tracking; at the end: 6 chains, 5 rules (output 5)";
    fires(&data, "packet-filter", None, Doubt, evidence);
    let engine = ProgramVersion {
        path: "/usr/bin/podman".to_owned(),
        version: "5.0".to_owned(),
    };
    let programs = &mut data.environment.as_mut().unwrap().programs;
    programs.insert("podman".to_owned(), engine);
    assert_eq!(findings(&data, "packet-filter"), []);
}

#[test]
fn steal_and_foreign_load_are_shares_of_all_cpus() {
    let mut data = healthy();
    // A trial has 4 × 110 ms of CPU time, and every second trial is of this case.
    each_trial(&mut data, "unix", |trial| {
        trial.observations.machine.steal_ns = 8_000_000
    });
    assert_eq!(findings(&data, "steal"), []);
    each_trial(&mut data, "unix", |trial| {
        trial.observations.machine.steal_ns = 9_000_000
    });
    assert!(finding(&data, "steal").evidence.contains("1.0 %"));
    each_trial(&mut data, "tcp", |trial| {
        trial.observations.machine.foreign_ns = 43_000_000
    });
    assert_eq!(findings(&data, "foreign-load"), []);
    each_trial(&mut data, "tcp", |trial| {
        trial.observations.machine.foreign_ns = 45_000_000
    });
    assert_eq!(finding(&data, "foreign-load").severity, Severity::Doubt);
}

/// Ticks miss work between which a CPU idles, so that they may be below 0 beside a busy process.
#[test]
fn foreign_load_is_seen_by_clocks_where_ticks_miss_it() {
    let mut data = healthy();
    for case in ["unix", "tcp"] {
        each_trial(&mut data, case, |trial| {
            let machine = &mut trial.observations.machine;
            (machine.foreign_ns, machine.others_ns) = (-30_000_000, 21_000_000);
        });
    }
    assert_eq!(findings(&data, "foreign-load"), []);
    for case in ["unix", "tcp"] {
        each_trial(&mut data, case, |trial| {
            trial.observations.machine.others_ns = 66_000_000
        });
    }
    assert!(finding(&data, "foreign-load").evidence.contains("15 %"));
}

#[test]
fn cpu_time_of_nobody_is_that_of_lasthop() {
    let mut data = healthy();
    assert_eq!(findings(&data, "own-load"), []);
    for case in ["unix", "tcp"] {
        each_trial(&mut data, case, |trial| {
            let roles = trial.observations.services_cpu_ns();
            let machine = &mut trial.observations.machine;
            // A trial has 4 × 110 ms of CPU time.
            machine.busy_ns = roles + trial.result.cost.cpu_ns() + machine.softirq_ns + 300_000_000;
        });
    }
    assert_eq!(finding(&data, "own-load").severity, Severity::Doubt);
}

#[test]
fn differences_of_configuration_are_shown() {
    let mut data = healthy();
    data.header.differences.push(Difference {
        case: "unix".to_owned(),
        reference: "tcp".to_owned(),
        place: "nginx/nginx.conf".to_owned(),
        diff: "-access_log off;\n+access_log on;\n".to_owned(),
    });
    let check = finding(&data, "config-differs");
    assert!(check.evidence.contains("nginx/nginx.conf") && check.evidence.contains("+access_log on;"));
}

#[test]
fn spinning_takes_a_cpu_for_each() {
    let mut data = run(
        &[
            TCP,
            Truth {
                transport: Transport::ShmSpin,
                ..UNIX
            },
        ],
        6,
        5,
    );
    let mut found = |placement: Placement, cpus: u32| {
        data.header.settings.placement = placement;
        data.environment.as_mut().unwrap().cpus = cpus;
        findings(&data, "spins-in-vain")
            .into_iter()
            .map(|check| check.evidence)
            .collect::<Vec<_>>()
    };
    let apart = |services| Placement::Apart {
        driver: vec![0],
        services,
    };
    assert_eq!(found(Placement::Free, 2), [""; 0]);
    assert_eq!(found(apart(vec![1]), 2), [""; 0]);
    assert_eq!(found(apart(vec![0, 1]), 2), [""; 0]);
    assert_eq!(found(apart(vec![0]), 2), ["client and server spin, and share CPU 0"]);
    assert_eq!(
        found(Placement::Same { cpu: 3 }, 4),
        ["client and server spin, and share CPU 3"]
    );
    assert_eq!(
        found(Placement::Free, 1),
        ["client and server spin, and share the machine's only CPU"]
    );
}

#[test]
fn another_transport_than_asked_is_invalid() {
    let mut data = healthy();
    each_proof(&mut data, "unix", |seen| seen.driver.family = "inet".to_owned());
    fires(&data, "transport-not-as-asked", "unix", Invalid, "inet, not unix");
}

/// Two services in series, with the second service's work for an answer by case: nanoseconds of CPU time, and switches.
fn with_work(work: &[(&str, u64, f64)]) -> RunData {
    let mut data = healthy();
    let experiment = &mut data.header.experiment;
    (experiment.from, experiment.to) = ("proxy".to_owned(), "server".to_owned());
    experiment.services = ["proxy", "server", "other"]
        .map(|name| (name.to_owned(), name.to_owned()))
        .into();
    data.header
        .cases
        .iter_mut()
        .for_each(|plan| plan.load.target = "proxy".to_owned());
    for (case, cpu_ns, switches) in work {
        each_trial(&mut data, case, |trial| {
            let answers = trial.result.requests_total;
            let server = trial.observations.roles.get_mut("server").unwrap();
            (server.cpu_ns, server.voluntary_switches) = (answers * cpu_ns, (answers as f64 * switches) as u64);
        });
    }
    data
}

const LOAD: &str = "load-not-over-link";

#[test]
fn a_server_that_does_nothing_for_an_answer_did_not_answer() {
    assert_eq!(
        findings(&with_work(&[("unix", 600, 0.0), ("tcp", 600, 0.0)]), LOAD),
        [],
        "it is quick"
    );
    let data = with_work(&[("unix", 10, 0.02), ("tcp", 136_000, 2.5)]);
    let check = finding(&data, LOAD);
    assert_eq!(
        (check.case.as_deref(), check.severity),
        (Some("unix"), Severity::Invalid)
    );
    assert_eq!(
        check.evidence,
        "for each answer server took 0.0 µs of CPU time and 0.0 context switches, against 136 µs of CPU time and 2.5 \
         context switches with tcp: most answers did not come through the link"
    );
    let summary = summarise(&data);
    assert!(summary.comparisons.iter().all(|one| one.verdict == Verdict::Undecided));
    // If both cases work little, neither matches the other.
    assert_eq!(
        findings(&with_work(&[("unix", 10, 0.0), ("tcp", 10, 0.0)]), LOAD).len(),
        2
    );
    // lasthop's own driver sees its own link.
    let mut direct = data;
    direct.header.experiment.from = "driver".to_owned();
    assert_eq!(findings(&direct, LOAD), []);
    // A foreign driver may claim anything.
    for plan in &mut direct.header.cases {
        plan.load.driver = "driver.py".to_owned();
    }
    let check = finding(&direct, LOAD);
    assert_eq!(check.case.as_deref(), Some("unix"));
    assert_eq!(
        check.evidence,
        "for each answer that `driver.py` counts, server took 0.0 µs of CPU time and 0.0 context switches, which is not \
         enough for one"
    );
    direct.header.cases[1].load.pipeline = 16;
    assert_eq!(findings(&direct, LOAD), []);
    let tcp = &mut direct.header.cases[0];
    tcp.load.reuse = Reuse::PerRequest;
    each_trial(&mut direct, "tcp", |trial| {
        trial.observations.network.tcp_opened = trial.result.requests_total / 5;
    });
    assert!(
        finding(&direct, LOAD)
            .evidence
            .starts_with("for 100 answers 20 TCP connections")
    );
}

#[test]
fn the_same_work_takes_about_as_much_over_each_transport() {
    let of = |cpu_ns, switches| findings(&with_work(&[("unix", 20_000, 1.0), ("tcp", cpu_ns, switches)]), LOAD);
    assert_eq!(of(30_000, 3.0), [], "another transport");
    assert_eq!(of(300_000, 1.5), [], "as TLS may take");
    assert_eq!(of(19_000, 0.01), [], "as where requests queue");
    let found = of(90_000, 3.0);
    assert_eq!((found.len(), found[0].case.as_deref()), (1, Some("unix")));
}

/// A service behind both cases, with nanoseconds of CPU time for an answer by case. They apply in rounds for which
/// `there` holds; in other rounds both cases work alike.
fn with_service_behind(role: &str, [unix, tcp]: [u64; 2], there: impl Fn(u32) -> bool) -> RunData {
    let mut data = with_work(&[("unix", 20_000, 1.0), ("tcp", 30_000, 1.0)]);
    for (case, cpu_ns) in [("unix", unix), ("tcp", tcp)] {
        each_trial(&mut data, case, |trial| {
            let cpu_ns = if there(trial.round) { cpu_ns } else { tcp };
            let usage = RoleUsage {
                cpu_ns: trial.result.requests_total * cpu_ns,
                processes: 1,
                ..RoleUsage::default()
            };
            trial.observations.roles.insert(role.to_owned(), usage);
        });
    }
    data
}

const LESS: &str = "less-work";

#[test]
fn a_service_that_is_asked_less_in_one_case_invalidates_it() {
    // The application answers from a cache over the Unix socket, and asks its database over TCP.
    let data = with_service_behind("other", [200, 20_000], |_| true);
    let check = finding(&data, LESS);
    assert_eq!(
        (check.case.as_deref(), check.severity),
        (Some("unix"), Severity::Invalid)
    );
    assert_eq!(
        check.evidence,
        "for each answer other took 0.2 µs of CPU time and 0.0 context switches, against 20 µs of CPU time and 0.0 context \
         switches with tcp, in 6 rounds"
    );
    let summary = summarise(&data);
    assert!(summary.comparisons.iter().all(|one| one.verdict == Verdict::Undecided));
    // The check fires for either case, and also if the driver is an end of the link.
    let mut other = with_service_behind("other", [20_000, 200], |_| true);
    assert_eq!(finding(&other, LESS).case.as_deref(), Some("tcp"));
    let experiment = &mut other.header.experiment;
    (experiment.from, experiment.to) = ("driver".to_owned(), "proxy".to_owned());
    assert_eq!(finding(&other, LESS).case.as_deref(), Some("tcp"));
    assert_eq!(findings(&other, LOAD), []);
}

#[test]
fn a_service_that_is_asked_as_often_does_not() {
    let of = |role: &str, each| findings(&with_service_behind(role, each, |_| true), LESS);
    assert_eq!(of("other", [8_000, 20_000]), [], "it may do less where requests queue");
    assert_eq!(of("other", [10, 350]), [], "a service that idles");
    assert_eq!(
        of("proxy", [200, 20_000]),
        [],
        "what it spares on the link, the proxy may"
    );
    assert_eq!(of("docker-proxy", [200, 20_000]), [], "a hop of one path");
    let in_rounds = |count| {
        findings(
            &with_service_behind("other", [200, 20_000], |round| round < count),
            LESS,
        )
        .len()
    };
    assert_eq!(
        [in_rounds(1), in_rounds(4), in_rounds(5)],
        [0, 0, 1],
        "in most of the run"
    );
}

#[test]
fn each_answer_that_should_have_a_connection_had_one() {
    let opened = |share: f64, wanted: &str, case: &str| {
        let mut data = with_work(&[]);
        for case in ["unix", "tcp"] {
            let wanted = Some(wanted.to_owned());
            let link = LinkObserved {
                family: family(case).to_owned(),
                requests: 8,
                connections: 8,
                wanted,
            };
            each_proof(&mut data, case, |seen| seen.link = Some(link.clone()));
        }
        each_trial(&mut data, case, |trial| {
            trial.observations.network.tcp_opened = (trial.result.requests_total as f64 * share) as u64;
        });
        findings(&data, LOAD).len()
    };
    assert_eq!(opened(0.5, "per-request", "tcp"), 1);
    for (share, wanted, case) in [
        (1.0, "per-request", "tcp"),
        (3.0, "per-request", "tcp"),
        (0.0, "per-request", "tcp"),
        (0.5, "keep-alive", "tcp"),
        (0.5, "per-request", "unix"),
    ] {
        assert_eq!(opened(share, wanted, case), 0, "{share} {wanted} {case}");
    }
}

fn family(case: &str) -> &'static str {
    if case == "unix" { "unix" } else { "inet" }
}

#[test]
fn a_server_that_is_reached_by_another_address_invalidates() {
    let seen = |connections, over_link| {
        let mut data = with_work(&[]);
        let elsewhere = Elsewhere {
            address: "127.0.0.1:8001".to_owned(),
            connections,
            over_link,
        };
        each_proof(&mut data, "unix", |seen| seen.elsewhere = Some(elsewhere.clone()));
        findings(&data, LOAD)
    };
    assert_eq!(seen(1, 40), []);
    let found = seen(20, 20);
    assert_eq!((found.len(), found[0].severity), (1, Severity::Invalid));
    assert_eq!(
        found[0].evidence,
        "while the driver sent, server was reached over 20 connections at 127.0.0.1:8001, which is not the link; 20 were \
         seen on the link"
    );
}

#[test]
fn missing_and_unasked_tls_are_invalid() {
    let mut data = run(&[TCP, TLS], 6, 5);
    assert_eq!(findings(&data, "transport-not-as-asked"), []);
    each_proof(&mut data, "tls", |seen| seen.driver.tls_version = None);
    assert_eq!(finding(&data, "transport-not-as-asked").case.as_deref(), Some("tls"));
    let mut data = healthy();
    each_proof(&mut data, "tcp", |seen| {
        seen.driver.tls_version = Some("TLSv1.3".to_owned())
    });
    let said = "TLSv1.3, but the case asks for no TLS";
    fires(&data, "transport-not-as-asked", "tcp", Invalid, said);
}

fn behind_a_proxy(wanted: &str, requests: u32, connections: u32) -> RunData {
    let mut data = healthy();
    data.header.experiment.from = "nginx".to_owned();
    for (case, family) in [("tcp", "inet"), ("unix", "unix")] {
        each_proof(&mut data, case, |seen| {
            let (family, wanted) = (family.to_owned(), Some(wanted.to_owned()));
            seen.link = Some(LinkObserved {
                family,
                requests,
                connections,
                wanted,
            });
            // The driver uses TCP to the proxy, whatever the link is.
            seen.driver.family = "inet".to_owned();
            seen.spec.endpoint.address = lasthop_trial::address::Address::Tcp("127.0.0.1:8".parse().unwrap());
        });
    }
    data
}

#[test]
fn a_link_behind_a_proxy_is_judged_by_the_applications_word() {
    let mut data = behind_a_proxy("per-request", 4, 4);
    assert_eq!(summarise(&data).checks, []);
    each_proof(&mut data, "unix", |seen| {
        seen.link.as_mut().unwrap().family = "inet".to_owned()
    });
    let said = "the link's connection is inet";
    fires(&data, "transport-not-as-asked", "unix", Invalid, said);
    each_proof(&mut data, "unix", |seen| seen.link = None);
    fires(&data, "link-not-proven", "unix", Note, "from nginx to server");
}

#[test]
fn a_server_that_lets_anybody_in_is_named_where_anybody_can_reach_it() {
    let mut data = healthy();
    for (asked, open) in [
        (None, vec![]),
        (Some(true), vec![]),
        (Some(false), vec![Some("tcp".to_owned())]),
    ] {
        for case in ["unix", "tcp"] {
            each_proof(&mut data, case, |seen| seen.driver.password_asked = asked);
        }
        let found = findings(&data, "open-to-everybody");
        assert!(found.iter().all(|check| check.severity == Severity::Note), "{found:?}");
        assert_eq!(
            found.into_iter().map(|check| check.case).collect::<Vec<_>>(),
            open,
            "{asked:?}"
        );
    }
}

#[test]
fn reuse_of_the_link_is_proven_by_its_connections() {
    for (wanted, requests, connections, wrong) in [
        ("per-request", 4, 4, false),
        ("per-request", 4, 1, true),
        ("keep-alive", 4, 1, false),
        ("keep-alive", 4, 2, false),
        ("keep-alive", 4, 4, true),
    ] {
        let found = findings(&behind_a_proxy(wanted, requests, connections), "reuse-not-as-asked");
        assert_eq!(!found.is_empty(), wrong, "{wanted} {connections}: {found:?}");
        assert!(found.iter().all(|check| check.severity == Severity::Invalid));
    }
}

#[test]
fn reuse_of_the_driver_is_proven_and_counted() {
    let mut data = healthy();
    each_proof(&mut data, "unix", |seen| seen.driver.reused = false);
    assert!(finding(&data, "reuse-not-as-asked").evidence.contains("had one each"));
    let mut data = healthy();
    // Closing after 1,000 requests is no contradiction; closing after 20 is.
    each_trial(&mut data, "unix", |trial| {
        trial.result.connections_opened = trial.result.requests_total / 1_000
    });
    assert_eq!(findings(&data, "reuse-not-as-asked"), []);
    each_trial(&mut data, "unix", |trial| {
        trial.result.connections_opened = trial.result.requests_total / 20
    });
    assert!(finding(&data, "reuse-not-as-asked").evidence.contains("5.0 %"));
}

#[test]
fn a_connection_per_request_must_be_opened_for_each() {
    let mut data = healthy();
    each_proof(&mut data, "unix", |seen| {
        seen.spec.reuse = Reuse::PerRequest;
        seen.driver.reused = false;
    });
    assert_eq!(
        findings(&data, "reuse-not-as-asked").len(),
        1,
        "no connection was opened"
    );
    each_trial(&mut data, "unix", |trial| {
        trial.result.connections_opened = trial.result.requests_total
    });
    assert_eq!(findings(&data, "reuse-not-as-asked"), []);
}

#[test]
fn tls_versions_that_differ() {
    let mut data = run(&[TLS, TLS], 6, 5);
    assert_eq!(findings(&data, "tls-differs"), []);
    each_proof(&mut data, "tls#2", |seen| {
        seen.driver.tls_version = Some("TLSv1.2".to_owned())
    });
    assert!(finding(&data, "tls-differs").evidence.contains("TLSv1.2"));
}

#[test]
fn nodelay_that_is_off() {
    let mut data = healthy();
    each_proof(&mut data, "tcp", |seen| seen.driver.nodelay = Some(false));
    assert_eq!(finding(&data, "nodelay-off").severity, Severity::Doubt);
    each_proof(&mut data, "tcp", |seen| seen.spec.socket.nodelay = false);
    assert_eq!(finding(&data, "nodelay-off").severity, Severity::Note);
}

#[test]
fn too_few_rounds_or_blocks() {
    for (rounds, blocks, few) in [(3, 5, true), (4, 2, true), (4, 3, false), (1, 20, true)] {
        let found = findings(&run(&[TCP, UNIX], rounds, blocks), "too-few-blocks");
        assert_eq!(!found.is_empty(), few, "{rounds} {blocks} {found:?}");
    }
}

#[test]
fn one_trial_has_no_interval() {
    let mut data = healthy();
    data.records.truncate(3);
    assert_eq!(findings(&data, "no-interval").len(), 2);
}

#[test]
fn runs_without_an_end() {
    let mut data = healthy();
    data.end.as_mut().unwrap().stopped = Stopped::Interrupted;
    assert!(finding(&data, "run-cut-off").evidence.contains("signal"));
    data.end = None;
    assert!(finding(&data, "run-cut-off").evidence.contains("no end"));
}

/// A difference that just excludes 1 by itself, among three comparisons.
#[test]
fn a_difference_that_many_comparisons_would_yield_by_chance() {
    let mut data = counting_run(&[TCP, Truth { rate: 26_000.0, ..TCP }, TCP, TCP], 5, 4, 1);
    data.header.settings.margin = 0.0;
    let differs = |data: &RunData| {
        let found = comparison(&summarise(data), "tcp#3", Metric::Throughput).unwrap();
        matches!(found.verdict, Verdict::Faster | Verdict::Slower)
    };
    let raised = (0..100).map(|step| {
        let mut data = data.clone();
        each_trial(&mut data, "tcp#3", |trial| trial.result.requests += step);
        data
    });
    let barely = raised
        .skip_while(|data| differs(data))
        .find(differs)
        .expect("some step just excludes 1");
    let check = finding(&barely, "multiplicity");
    assert_eq!(
        check.case.as_deref(),
        Some("tcp#3"),
        "the real difference, of tcp#2, outlasts"
    );
    assert!(check.evidence.starts_with("one of 6 comparisons"), "{}", check.evidence);
}

#[test]
fn rounds_that_differ_more_than_their_blocks() {
    let mut data = run(&[TCP, UNIX], 8, 6);
    assert_eq!(findings(&data, "process-luck"), []);
    each_trial(&mut data, "unix", |trial| {
        trial.result.requests = trial.result.requests * (100 + 7 * u64::from(trial.round % 3)) / 100;
    });
    fires(&data, "process-luck", "unix", Note, "of the ratio's variance");
}

/// Scales the Unix case's rate in each round of a run, in per cent.
fn with_rounds(percent: &[u64]) -> RunData {
    let mut data = run(&[TCP, UNIX], percent.len() as u32, 6);
    each_trial(&mut data, "unix", |trial| {
        trial.result.requests = trial.result.requests * percent[trial.round as usize] / 100;
    });
    data
}

#[test]
fn rounds_in_two_states_are_doubted_with_both() {
    let check = finding(
        &with_rounds(&[100, 130, 100, 100, 130, 100, 130, 100, 100, 100]),
        "two-states",
    );
    assert_eq!((check.severity, check.case.as_deref()), (Severity::Doubt, Some("unix")));
    assert!(check.evidence.contains("two groups, ") && check.evidence.contains("(7 rounds) and "));
    assert!(check.evidence.ends_with("(3 rounds)"), "{}", check.evidence);
    assert_eq!(findings(&with_rounds(&[100; 10]), "two-states"), []);
    let margin = [1000, 1010, 1000, 1010, 1000, 1010, 1000, 1010].map(|rate| rate / 10);
    assert_eq!(findings(&with_rounds(&margin), "two-states"), [], "it does not matter");
}

#[test]
fn rounds_that_resemble_the_one_before_are_doubted() {
    let alike = with_rounds(&[100, 104, 109, 112, 118, 121, 118, 112, 109, 104, 100, 97]);
    fires(&alike, "rounds-correlated", "unix", Doubt, "one round and the next is ");
    let in_turn = with_rounds(&[100, 118, 104, 112, 97, 121, 109, 100, 118, 104, 121, 112]);
    assert_eq!(findings(&in_turn, "rounds-correlated"), []);
}

#[test]
fn only_a_run_against_itself_states_a_resolution() {
    assert_eq!(findings(&run(&[TCP, TCP], 6, 5), "resolution"), []);
    let mut data = run(&[TCP, TCP], 6, 5);
    data.header.settings.aa = true;
    assert_eq!(finding(&data, "resolution").severity, Severity::Note);
}

#[test]
fn placements_that_colour_the_result() {
    let mut data = healthy();
    data.header.settings.placement = Placement::Apart {
        driver: vec![0],
        services: vec![1, 2],
    };
    assert_eq!(findings(&data, "placement"), []);
    data.header.settings.placement = Placement::Apart {
        driver: vec![0, 1],
        services: vec![1, 2],
    };
    assert!(finding(&data, "placement").evidence.contains("CPU 1"));
    data.header.settings.placement = Placement::Same { cpu: 3 };
    assert!(finding(&data, "placement").evidence.contains("CPU 3"));
    data.header.settings.placement = Placement::Free;
    data.environment.as_mut().unwrap().cpus = 1;
    assert!(finding(&data, "placement").evidence.contains("one CPU"));
}

#[test]
fn a_governor_that_saves() {
    let mut data = healthy();
    data.environment.as_mut().unwrap().governor = Some("performance".to_owned());
    assert_eq!(findings(&data, "governor"), []);
    data.environment.as_mut().unwrap().governor = Some("powersave".to_owned());
    assert!(finding(&data, "governor").evidence.contains("powersave"));
}

#[test]
fn programs_of_an_image_that_are_not_this_machines() {
    let mut data = healthy();
    let program = |version: &str| ProgramVersion {
        path: "/usr/sbin/nginx".to_owned(),
        version: version.to_owned(),
    };
    let programs = &mut data.environment.as_mut().unwrap().programs;
    programs.insert("nginx".to_owned(), program("1.22.1"));
    programs.insert("nginx, in the image".to_owned(), program("1.22.1"));
    assert_eq!(findings(&data, "image-programs-differ"), []);
    data.environment.as_mut().unwrap().programs["nginx, in the image"] = program("1.29.0");
    let evidence = finding(&data, "image-programs-differ").evidence;
    assert_eq!(evidence, "nginx 1.29.0 in the image, 1.22.1 on this machine");
}

#[test]
fn counters_of_the_network() {
    let mut data = healthy();
    each_trial(&mut data, "tcp", |trial| {
        trial.observations.network.listen_overflows = 2;
        trial.observations.network.tcp_retransmitted = 8;
    });
    fires(&data, "accept-queue-overflow", "tcp", Doubt, "60 connections");
    assert_eq!(finding(&data, "retransmissions").severity, Severity::Doubt);
    each_trial(&mut data, "tcp", |trial| {
        trial.observations.network.tcp_retransmitted = 1
    });
    assert_eq!(finding(&data, "retransmissions").severity, Severity::Note);
}

/// Holds ports at the end of each block: this many for each block of the round so far.
fn hold(data: &mut RunData, each: u64, reused: bool) {
    each_trial(data, "tcp", |trial| {
        let held = each * u64::from(trial.block + 1);
        let roles = vec!["nginx".to_owned()];
        trial.observations.held_ports = Some(Box::new(HeldPorts {
            roles,
            server: "10.89.0.3:8000".to_owned(),
            held,
            range: 28_232,
            reused,
        }));
    });
}

#[test]
fn ports_in_time_wait() {
    let mut data = healthy();
    hold(&mut data, 2_823, false);
    assert_eq!(
        findings(&data, "time-wait"),
        [],
        "five blocks a round: 14,115, and half of 28,232 is 14,116"
    );
    hold(&mut data, 2_824, false);
    let text = finding(&data, "time-wait").evidence;
    assert_eq!(
        text,
        "TIME_WAIT held up to 14,120 of 28,232 local ports of the network namespace of nginx towards 10.89.0.3:8000",
        "no trial began after that"
    );
    hold(&mut data, 7_058, false);
    each_trial(&mut data, "tcp", |trial| {
        trial.result.requests /= if trial.block > 1 { 5 } else { 1 }
    });
    let check = finding(&data, "time-wait");
    assert_eq!((check.severity, check.case.as_deref()), (Severity::Doubt, Some("tcp")));
    let figures = check.evidence.split_once("; ").unwrap().1;
    let figures: Vec<f64> = figures
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    assert!((3.0..8.0).contains(&(figures[0] / figures[1])), "{}", check.evidence);
    hold(&mut data, 7_058, true);
    assert_eq!(
        findings(&data, "time-wait"),
        [],
        "ports that serve again are no trouble"
    );
}

fn slow_answers(data: &mut RunData, case: &str, ns: u64, each: u64) {
    each_trial(data, case, |trial| {
        let latencies: &mut Histogram = trial.result.service_time.as_mut().unwrap();
        (0..each).for_each(|i| latencies.record(ns + i * 100_000));
    });
}

#[test]
fn clusters_at_forty_milliseconds_and_at_one_second() {
    let mut data = healthy();
    slow_answers(&mut data, "tcp", 41_000_000, 2);
    let check = finding(&data, "delayed-ack");
    assert!(check.evidence.starts_with("60 answers (0.7 %)"), "{}", check.evidence);
    assert_eq!(findings(&data, "syn-retransmit"), []);
    slow_answers(&mut data, "tcp", 1_020_000_000, 1);
    assert_eq!(findings(&data, "syn-retransmit"), [], "a queue may take a second, too");
    each_trial(&mut data, "tcp", |trial| {
        trial.observations.network.syns_retransmitted = 1
    });
    assert_eq!(finding(&data, "syn-retransmit").case.as_deref(), Some("tcp"));
}

/// Makes a case of ten connections, each of whose replies takes `ns`.
fn ten_at_once(data: &mut RunData, case: &str, ns: u64) {
    each_proof(data, case, |proof| proof.spec.connections = 10);
    each_trial(data, case, |trial| {
        let mut times = Histogram::new();
        times.record_n(ns, 10);
        trial.result.service_time = Some(times);
        trial.result.requests = 10 * trial.result.elapsed_ns / 200_000_000;
    });
}

#[test]
fn latencies_that_contradict_the_throughput_are_left_out() {
    let mut data = healthy();
    assert_eq!(findings(&data, "littles-law"), []);
    each_trial(&mut data, "tcp", |trial| trial.result.elapsed_ns = 1_000_000_000);
    let has_latency = |data: &RunData| {
        let summary = summarise(data);
        summary
            .cases
            .iter()
            .find(|case| case.case == "tcp")
            .unwrap()
            .metrics
            .as_ref()
            .unwrap()
            .latency_p50
            .is_some()
    };
    // 50 replies per second on 10 connections take 200 ms each.
    data.header.settings.trial_ns = 1_000_000_000;
    ten_at_once(&mut data, "tcp", 200_000_000);
    assert_eq!(
        (findings(&data, "littles-law"), findings(&data, "short-trials")),
        (vec![], vec![])
    );
    assert!(has_latency(&data));
    ten_at_once(&mut data, "tcp", 60_000_000);
    fires(&data, "littles-law", "tcp", Doubt, "make 3.0 requests under way");
    assert!(!has_latency(&data));
}

#[test]
fn trials_that_are_short_for_their_replies_say_which_budget_would_do() {
    let mut data = healthy();
    each_trial(&mut data, "tcp", |trial| trial.result.elapsed_ns = 1_000_000_000);
    ten_at_once(&mut data, "tcp", 200_000_000);
    data.header.settings.trial_ns = 500_000_000;
    let advised = finding(&data, "short-trials").effect;
    assert!(advised.contains("use `--trial 80"), "{advised}");
    data.header.settings.lengthens = true;
    data.header.settings.budget_ns = 10_000_000_000;
    let advised = finding(&data, "short-trials").effect;
    assert!(advised.contains("with `--budget 2"), "{advised}");
    // Trials from before the lengthening do not count.
    let last = TrialPhases {
        warm_up_ns: 400_000_000,
        measure_ns: 800_000_000,
    };
    each_trial(&mut data, "tcp", |trial| {
        trial.phases = (trial.round > 0).then_some(last)
    });
    assert_eq!(findings(&data, "short-trials"), []);
    let summary = summarise(&data);
    let case = summary.cases.iter().find(|case| case.case == "tcp").unwrap();
    assert_eq!(case.trial_seconds, Some(0.8));
    assert!((case.trials as usize) < data.trials().filter(|trial| trial.case == "tcp").count());
}

#[test]
fn without_tcp_nothing_is_said_of_it() {
    let mut data = healthy();
    slow_answers(&mut data, "unix", 41_000_000, 2);
    slow_answers(&mut data, "unix", 1_020_000_000, 1);
    each_trial(&mut data, "unix", |trial| {
        trial.observations.network.listen_overflows = 2;
        trial.observations.network.tcp_retransmitted = 8;
        trial.observations.network.syns_retransmitted = 1;
    });
    let ids = [
        "delayed-ack",
        "syn-retransmit",
        "accept-queue-overflow",
        "retransmissions",
    ];
    ids.iter().for_each(|id| assert_eq!(findings(&data, id), [], "{id}"));
    each_trial(&mut data, "unix", |trial| {
        trial
            .observations
            .roles
            .insert("backend".to_owned(), Default::default());
    });
    ids.iter()
        .for_each(|id| assert_eq!(findings(&data, id).len(), 1, "{id}: behind the socket there may be TCP"));
}

#[test]
fn a_slow_tail_is_no_cluster() {
    let mut data = healthy();
    for ns in (5..100).map(|ms| ms * 1_000_000) {
        slow_answers(&mut data, "tcp", ns, 1);
    }
    assert_eq!(findings(&data, "delayed-ack"), []);
}

#[test]
fn clocks_that_are_too_coarse() {
    let mut data = healthy();
    each_trial(&mut data, "tcp", |trial| {
        let mut steps = Histogram::new();
        (0..500).for_each(|i| steps.record(1_000_000 * (1 + i % 2)));
        trial.result.service_time = Some(steps);
    });
    fires(&data, "coarse-clock", "tcp", Doubt, "only 2 distinct values");
    let mut data = healthy();
    each_trial(&mut data, "unix", |trial| {
        let mut short = Histogram::new();
        (0..100).for_each(|i| short.record(600 + i));
        trial.result.service_time = Some(short);
    });
    assert!(finding(&data, "coarse-clock").evidence.contains("0.6 µs"));
}

#[test]
fn a_ratio_that_moves_and_a_machine_that_does() {
    let mut data = healthy();
    let mut slow = |case: &str| {
        each_trial(&mut data, case, |trial| {
            trial.result.requests = (trial.result.requests as f64 * (1.0 - 0.07 * f64::from(trial.round))) as u64;
        });
    };
    slow("unix");
    slow("tcp");
    let check = finding(&data, "drift");
    assert_eq!(
        (check.severity, check.case.as_deref()),
        (Severity::Note, Some("tcp")),
        "both alike: {check:?}"
    );
    let mut data = healthy();
    each_trial(&mut data, "unix", |trial| {
        trial.result.requests -= 60 * u64::from(trial.round)
    });
    fires(&data, "drift", "unix", Doubt, "falls");
}

/// Makes the run look resumed before this round, after a pause of three hours.
fn resume_before(data: &mut RunData, round: u32, ended: Option<Stopped>) {
    let is_there = |record: &TrialRecord| matches!(record, TrialRecord::Round(found) if found.round == round);
    let place = data.records.iter().position(is_there).unwrap();
    let TrialRecord::Round(first) = &data.records[place] else {
        unreachable!()
    };
    let resumption = Resumption {
        at: "2026-01-01T03:00:00Z".parse().unwrap(),
        command: vec![],
        at_ns: first.at_ns,
        pause_ns: 3 * 3_600 * 1_000_000_000,
        budget_ns: data.header.settings.budget_ns,
        ended,
    };
    data.records.insert(place, TrialRecord::Resumed(Box::new(resumption)));
}

#[test]
fn a_ratio_that_is_another_one_after_a_pause() {
    let mut data = healthy();
    assert_eq!(findings(&data, "resumed"), []);
    resume_before(&mut data, 3, None);
    fires(&data, "resumed", None, Note, "killed");
    fires(&data, "resumed", None, Note, "3 h later");
    assert_eq!(findings(&data, "pause"), [], "the same before and after");
    let slow_after = |data: &mut RunData, case: &str| {
        each_trial(data, case, |trial| {
            trial.result.requests = trial.result.requests * if trial.round < 3 { 100 } else { 90 } / 100;
        });
    };
    slow_after(&mut data, "unix");
    fires(&data, "pause", "unix", Doubt, "differs by 12 %");
    slow_after(&mut data, "tcp");
    assert!(
        findings(&data, "pause")
            .iter()
            .all(|check| check.severity == Severity::Note),
        "both alike"
    );
}

/// An earlier report may have decided that the run continues. A run that was killed had reported nothing.
#[test]
fn a_run_that_was_reported_before_gets_wider_intervals() {
    let width = |ended: Option<Option<Stopped>>| {
        let mut data = healthy();
        if let Some(ended) = ended {
            resume_before(&mut data, 3, ended);
        }
        let found = comparison(&summarise(&data), "unix", Metric::Throughput).unwrap();
        (found.ratio.high / found.ratio.low).ln()
    };
    assert_eq!(width(None), width(Some(None)));
    let wider = width(Some(Some(Stopped::Budget))) / width(None);
    let expected = student::critical(0.9875, 5.0) / student::critical(0.95, 5.0);
    assert!((wider - expected).abs() < 1e-9, "{wider} {expected}");
}

#[test]
fn a_case_that_is_slower_when_it_comes_late() {
    let mut data = healthy();
    each_trial(&mut data, "unix", |trial| {
        trial.result.requests -= 600 * u64::from(trial.position)
    });
    assert!(finding(&data, "position").evidence.contains("slower late"));
}

#[test]
fn a_ratio_that_is_another_once_the_trial_has_settled() {
    let faster_first = |share: f64| {
        let mut data = healthy();
        for (case, first) in [("tcp", 0.5), ("unix", 0.5 * (1.0 + share))] {
            each_trial(&mut data, case, |trial| {
                let requests = (trial.result.requests as f64 * first) as u64;
                trial.result.first_half = Some(FirstHalf {
                    requests,
                    elapsed_ns: trial.result.elapsed_ns / 2,
                });
            });
        }
        data
    };
    assert_eq!(findings(&healthy(), "settling"), [], "nobody said");
    assert_eq!(findings(&faster_first(0.015), "settling"), [], "below the margin");
    let data = faster_first(0.05);
    fires(&data, "settling", "unix", Doubt, "in the first half of the trials and");
}

#[test]
fn invalidating_findings_come_first() {
    let mut data = healthy();
    data.end = None;
    add_errors(&mut data, "unix", ErrorClass::WrongContent, 50);
    data.environment.as_mut().unwrap().governor = Some("powersave".to_owned());
    let severities: Vec<Severity> = summarise(&data).checks.iter().map(|check| check.severity).collect();
    assert_eq!(severities, [Severity::Invalid, Severity::Doubt, Severity::Note]);
    assert!(
        data.records
            .iter()
            .any(|record| matches!(record, TrialRecord::Trial(_)))
    );
}

#[test]
fn a_password_among_the_arguments_of_a_tool_is_said() {
    let driven_by = |tool: &str, password: Option<&str>| {
        let mut data = healthy();
        for plan in &mut data.header.cases {
            plan.levels.insert(DRIVER.to_owned(), Level::Text(tool.to_owned()));
        }
        each_proof(&mut data, "unix", |proof| {
            proof.spec.protocol = Protocol::from(Redis {
                command: vec!["PING".to_owned()],
                expect: RedisExpect::Success,
                username: None,
                password: password.map(str::to_owned),
                database: 0,
                protocol: Default::default(),
            });
        });
        findings(&data, "password-shown")
    };
    let [check] = &driven_by("redis-benchmark", Some("s3cret"))[..] else {
        panic!("one case has a password")
    };
    assert_eq!((check.case.as_deref(), check.severity), (Some("unix"), Severity::Note));
    assert!(!check.evidence.contains("s3cret"), "{}", check.evidence);
    assert_eq!(driven_by("redis-benchmark", None), []);
    assert_eq!(driven_by("lasthop", Some("s3cret")), []);
}

#[test]
fn every_id_is_explained_and_no_other() {
    let explained: Vec<&str> = super::known::all().map(|known| known.id).collect();
    let own = super::CHECKS.iter().map(|(id, _)| *id);
    let others = [cross_check::DIFFERS, cross_check::EXPLAINED, cross_check::UNDECIDED];
    let known: BTreeSet<&str> = own.chain(others).collect();
    assert_eq!(explained.iter().copied().collect::<BTreeSet<_>>(), known);
    assert_eq!(explained.len(), known.len(), "an id is explained twice");
}

#[test]
fn a_ratio_that_changes_within_each_round_is_doubted() {
    let mut data = run(&[TCP, UNIX], 6, 6);
    assert_eq!(findings(&data, "warming"), []);
    // Later rounds are slower in both halves, which is not warming up.
    each_trial(&mut data, "unix", |trial| {
        trial.result.elapsed_ns += u64::from(trial.round) * 20_000_000
    });
    assert_eq!(findings(&data, "warming"), []);
    each_trial(&mut data, "unix", |trial| {
        if trial.block < 3 {
            trial.result.elapsed_ns = trial.result.elapsed_ns * 6 / 5;
        }
    });
    let check = finding(&data, "warming");
    assert!(
        check.effect.contains("--settle") && check.evidence.contains("first half of the rounds"),
        "{check:?}"
    );
    assert_eq!(check.case.as_deref(), Some("unix"));
}
