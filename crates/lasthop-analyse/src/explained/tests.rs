//! Made-up profile trials with a known truth.

use lasthop_model::record::ProfileRecord;
use lasthop_record::data::RunData;

use super::*;
use crate::{
    summarise as summarise_run,
    summary::Severity,
    testing::{Layers, at_rate, count as count_events, each_trial, finding, findings, healthy, profile},
};

const TCP: Layers = Layers {
    case: "tcp",
    layers: &[
        ("tcp", 8_000.0),
        ("loopback", 4_000.0),
        ("wake", 3_000.0),
        ("program", 2_000.0),
        ("vfs", 100.0),
    ],
    without: 300.0,
};
const UNIX: Layers = Layers {
    case: "unix",
    layers: &[
        ("unix-socket", 1_500.0),
        ("wake", 3_000.0),
        ("program", 2_000.0),
        ("vfs", 100.0),
    ],
    without: 300.0,
};

fn profiled() -> RunData {
    let mut data = healthy();
    profile(&mut data, &[TCP, UNIX], 2);
    data
}

fn explained(data: &RunData) -> Explained {
    summarise_run(data).explained.unwrap()
}

fn of_unix(data: &RunData) -> LayerDifference {
    explained(data).differences.remove(0)
}

#[test]
fn each_layer_has_its_own_part_of_the_difference() {
    let found = of_unix(&profiled());
    let layers: Vec<(&str, f64)> = found
        .layers
        .iter()
        .map(|one| (&one.layer[..], one.saved.interval.estimate))
        .collect();
    let names: Vec<&str> = layers.iter().map(|(name, _)| *name).collect();
    assert_eq!(
        names,
        ["tcp", "loopback", "unix-socket"],
        "what does not differ is not listed"
    );
    for ((name, saved), truth) in layers.iter().zip([8.0, 4.0, -1.5]) {
        assert!((saved - truth).abs() < 0.15, "{name}: {saved}");
    }
    for one in &found.layers {
        let Interval { low, estimate, high } = one.saved.interval;
        assert!(low < estimate && estimate < high && high - low < 0.5, "{one:?}");
    }
    assert_eq!(found.layers[0].functions, ["tcp_work"]);
    assert_eq!(found.layers[2].functions, ["unix-socket_work"]);
    assert!((found.layers[0].roles["server"] - found.layers[0].saved.interval.estimate).abs() < 1e-9);
    assert!(found.layers[0].roles["driver"].abs() < 1e-9);
}

#[test]
fn the_parts_add_up_to_the_difference() {
    let found = of_unix(&profiled());
    let listed: f64 = found.layers.iter().map(|one| one.saved.interval.estimate).sum();
    let sum = listed + found.others_us + found.not_attributed.saved.interval.estimate;
    assert!(
        (sum - found.saved.interval.estimate).abs() < 1e-9,
        "{sum} and {:?}",
        found.saved
    );
    let roles: f64 = found.roles.values().sum();
    assert!(
        (roles - found.saved.interval.estimate).abs() < 1e-9,
        "{:?}",
        found.roles
    );
    assert!(!found.roles.contains_key(KERNEL), "its work is in no sum");
    assert!(found.kernel.is_none(), "it does not differ");
}

#[test]
fn events_that_differ_have_an_interval() {
    let mut data = profiled();
    for (case, switches) in [("tcp", 2), ("unix", 1)] {
        count_events(&mut data, case, "switches", switches);
        count_events(&mut data, case, "syscalls:read", 1);
    }
    let found = of_unix(&data);
    assert_eq!(found.counts, IndexMap::from([("switches".to_owned(), [1.0, 2.0])]));
    assert_eq!(found.events.keys().collect::<Vec<_>>(), ["switches"]);
    let fewer = &found.events["switches"];
    assert_eq!(
        [fewer.interval.low, fewer.interval.estimate, fewer.interval.high],
        [1.0; 3]
    );
}

#[test]
fn a_case_has_its_layers_by_role() {
    let explained = explained(&profiled());
    let tcp = &explained.cases["tcp"];
    assert_eq!(tcp.trials, 12);
    let names: Vec<&String> = tcp.roles.keys().collect();
    assert_eq!(names, ["driver", "server", "kernel"]);
    let server = &tcp.roles["server"];
    let layers: f64 = server.layers.values().sum();
    assert!((layers + server.not_attributed_us - server.cpu_us).abs() < 1e-9);
    assert!((server.layers["tcp"] - 8.0).abs() < 0.2 && server.layers.keys().next().unwrap() == "tcp");
    assert_eq!(server.stacks[0].stack, "main;tcp_work");
    let speed = tcp.speed.as_ref().unwrap();
    assert!(
        speed.interval.low < 0.9 && 0.9 < speed.interval.high && speed.interval.high < 1.0,
        "{speed:?}"
    );
}

#[test]
fn observation_changes_no_figure() {
    let (plain, observed) = (summarise_run(&healthy()), summarise_run(&profiled()));
    assert_eq!(plain.explained, None);
    assert_eq!(
        crate::summary::Summary {
            explained: None,
            ..observed
        },
        plain
    );
}

#[test]
fn a_round_that_lacks_one_of_the_two_does_not_count() {
    let mut data = profiled();
    data.profiles.pop();
    assert_eq!(explained(&data).cases["unix"].trials, 11);
    data.profiles
        .retain(|record| !matches!(record, ProfileRecord::Profile(one) if one.case == "unix" && one.round > 0));
    data.profiles.truncate(2);
    assert_eq!(explained(&data).differences, [], "one pair has no interval");
}

#[test]
fn a_driver_that_stands_for_others_is_left_out() {
    let found = of_unix(&at_rate(profiled(), 1_000.0));
    assert_eq!(found.roles.keys().collect::<Vec<_>>(), ["server"]);
    assert_eq!(explained(&at_rate(profiled(), 1_000.0)).cases["unix"].speed, None);
}

#[test]
fn samples_must_add_up_to_the_cpu_time() {
    let with = |server: f64, driver: f64| {
        let mut data = profiled();
        for record in &mut data.profiles {
            let ProfileRecord::Profile(trial) = record else {
                continue;
            };
            for (role, share) in [("server", server), ("driver", driver)] {
                let role = &mut trial.profile.roles[role];
                role.cpu_ns = (role.cpu_ns as f64 / share) as u64;
            }
        }
        data
    };
    assert_eq!(findings(&with(0.95, 0.95), "layers-do-not-add-up"), []);
    assert_eq!(
        findings(&with(1.1, 0.9), "layers-do-not-add-up").len(),
        0,
        "together they do"
    );
    let found = findings(&with(0.9, 0.9), "layers-do-not-add-up");
    assert_eq!(found.len(), 2, "of both cases");
    assert_eq!(found[0].severity, Severity::Doubt);
    assert!(
        found[0].evidence.contains("samples have 90 % of"),
        "{}",
        found[0].evidence
    );
}

#[test]
fn what_has_no_layer_is_said() {
    assert_eq!(findings(&profiled(), "layers-missing"), []);
    let mut data = healthy();
    profile(
        &mut data,
        &[Layers {
            without: 1_500.0,
            ..TCP
        }],
        2,
    );
    let found = finding(&data, "layers-missing");
    assert!(
        found.evidence.contains("8.0 % of the samples of server"),
        "{}",
        found.evidence
    );
}

#[test]
fn what_could_not_be_observed_is_said() {
    let mut data = healthy();
    data.profiles.push(ProfileRecord::Missing("not allowed".to_owned()));
    assert_eq!(explained(&data).missing.as_deref(), Some("not allowed"));
    assert_eq!(finding(&data, "not-observed").evidence, "not allowed");
}

#[test]
fn absurd_profiles_have_a_summary() {
    let mut data = profiled();
    for record in &mut data.profiles {
        let ProfileRecord::Profile(trial) = record else {
            continue;
        };
        (trial.requests, trial.profile.period_ns, trial.profile.samples) = (u64::MAX, 0, u64::MAX);
        for role in trial.profile.roles.values_mut() {
            role.layers.values_mut().for_each(|ns| *ns = u64::MAX);
            role.stacks.iter_mut().for_each(|stack| stack.ns = u64::MAX);
            (role.truncated_ns, role.cpu_ns) = (u64::MAX, 0);
        }
    }
    each_trial(&mut data, "tcp", |trial| trial.result.requests = 0);
    let text = serde_json::to_string(&summarise_run(&data)).unwrap();
    serde_json::from_str::<crate::summary::Summary>(&text).unwrap();
}
