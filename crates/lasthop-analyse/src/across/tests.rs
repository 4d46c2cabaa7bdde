//! Pairs of runs with a known truth.

use lasthop_model::{level::Level, record::TrialRecord};
use lasthop_stats::random::Draws;
use lasthop_trial::address::Transport;

use super::{
    diff::{Diff, RatioChange, diff},
    fleet::{Fleet, Member, fleet},
    *,
};
use crate::testing::{self, Noise, TCP, Truth, UNIX, at_rate, each_trial, fail, noisy_run};

const TLS: Truth = Truth {
    transport: Transport::Tls,
    rate: 15_000.0,
    service_cpu_us: 30.0,
};
/// Noise of a shared machine: 2 % for each start, 5 % for each trial, and up to a fifth by neighbours.
const SHARED: Noise = Noise {
    luck: 0.02,
    trial: 0.05,
    neighbours: 0.1,
};
/// Rounds and blocks of a run that takes about 30 s.
const LENGTH: (u32, u32) = (10, 8);
const PAIRS: u64 = 100;

/// A run on a day of its own: the machine is faster or slower as a whole, and CPU times scatter too.
fn day(truths: &[Truth], seed: u64) -> RunData {
    let mut draws = Draws::new(seed ^ 0xda);
    let speed = 0.7 + 0.6 * draws.unit();
    let today: Vec<Truth> = truths
        .iter()
        .map(|truth| Truth {
            rate: truth.rate * speed,
            ..*truth
        })
        .collect();
    let mut data = noisy_run(&today, LENGTH.0, LENGTH.1, seed, SHARED);
    for case in data.header.cases.clone() {
        each_trial(&mut data, &case.case, |trial| {
            let cost = (1.0 + 0.06 * (draws.unit() - 0.5)) / speed;
            let driver = &mut trial.result.cost;
            let services = trial.observations.roles.values_mut().map(|role| &mut role.cpu_ns);
            for time in services.chain([&mut driver.user_ns, &mut driver.system_ns]) {
                *time = (*time as f64 * cost) as u64;
            }
        });
    }
    data.header.run = format!("day-{seed}");
    data
}

fn changed(diff: &Diff) -> Vec<&RatioChange> {
    diff.comparisons.iter().filter(|one| one.changed()).collect()
}

/// Compares pairs of equal runs, and pairs whose second run has a case that is 10 % slower.
#[test]
fn ninety_five_of_a_hundred_pairs_are_judged_rightly() {
    let same = [TCP, UNIX, TLS];
    let slower = [
        TCP,
        Truth {
            rate: UNIX.rate * 0.9,
            ..UNIX
        },
        TLS,
    ];
    let (mut silent, mut found) = (0, 0);
    for seed in (0..PAIRS).map(|pair| 3 * pair) {
        let old = day(&same, seed);
        silent += u64::from(changed(&diff(&old, &day(&same, seed + 1)).unwrap()).is_empty());
        let planted = diff(&old, &day(&slower, seed + 2)).unwrap();
        let is_it = |one: &&RatioChange| one.case == "unix" && one.verdict == Some(Verdict::Slower);
        found += u64::from(changed(&planted).iter().any(is_it));
    }
    assert!(
        silent >= 95 && found >= 95,
        "of {PAIRS} pairs {silent} say no change, and {found} find the one planted"
    );
}

#[test]
fn ratios_are_matched_and_changes_are_quotients() {
    let old = testing::healthy();
    let mut new = testing::run(&[TCP, Truth { rate: 13_000.0, ..UNIX }], 6, 5);
    new.header.run = "test-2".to_owned();
    let diff = diff(&old, &new).unwrap();
    let rate = diff.comparisons.iter().find(|one| one.declared).unwrap();
    assert!((rate.change.estimate - rate.new.estimate / rate.old.estimate).abs() < 1e-12);
    assert!(
        (rate.change.estimate - 0.5).abs() < 0.02 && rate.verdict == Some(Verdict::Slower) && rate.changed(),
        "{rate:?}"
    );
    // The reference did not change. A case with half the rate has twice the median.
    let change = |case: &str, metric: Metric| {
        diff.cases
            .iter()
            .find(|one| one.case == case && one.metric == metric)
            .unwrap()
            .change
            .estimate
    };
    assert!((change("tcp", Metric::Throughput) - 1.0).abs() < 0.05);
    assert!((change("unix", Metric::LatencyP50) - 2.0).abs() < 0.1);
    assert_eq!(diff.comparisons.iter().filter(|one| one.is_judged()).count(), 2);
}

#[test]
fn what_must_not_be_used_is_not_judged() {
    let (old, mut new) = (testing::healthy(), testing::healthy());
    new.header.run = "test-2".to_owned();
    testing::add_errors(&mut new, "unix", lasthop_trial::result::ErrorClass::WrongContent, 50);
    let diff = diff(&old, &new).unwrap();
    assert!(
        diff.comparisons
            .iter()
            .all(|one| one.verdict.is_none() && !one.is_judged()),
        "{:?}",
        diff.comparisons
    );
}

#[test]
fn cases_of_one_run_alone_are_named() {
    let mut new = testing::run(&[TCP, UNIX, TLS], 6, 5);
    new.header.run = "test-2".to_owned();
    fail(&mut new, "unix", |_| true);
    let diff = diff(&testing::healthy(), &new).unwrap();
    assert_eq!(
        (&diff.only_old[..], &diff.only_new[..]),
        (&[][..], &["tls".to_owned()][..])
    );
    assert!(diff.comparisons.is_empty());
}

#[test]
fn cases_of_the_same_levels_are_the_same_under_other_names() {
    let (mut old, mut new) = (day(&[TCP, UNIX], 1), day(&[TCP, UNIX], 2));
    let longer = |name: &str| format!("{name}/pattern=echo");
    for case in &mut new.header.cases {
        case.case = longer(&case.case);
        case.reference = case.reference.as_deref().map(longer);
    }
    for record in &mut new.records {
        if let TrialRecord::Trial(trial) = record {
            trial.case = longer(&trial.case);
        }
    }
    for data in [&mut old, &mut new] {
        for case in &mut data.header.cases {
            case.levels.insert("pattern".to_owned(), Level::Text("echo".to_owned()));
        }
    }
    let found = diff(&old, &new).unwrap();
    assert!(
        found
            .comparisons
            .iter()
            .any(|one| one.declared && one.case == "unix/pattern=echo"),
        "{found:?}"
    );
    assert!(found.only_old.is_empty() && found.only_new.is_empty());
    let all = together(&[old, new]).comparisons;
    assert!(
        all.iter().all(|one| one.machines.iter().all(Option::is_some)),
        "{all:?}"
    );
}

#[test]
fn runs_that_are_not_alike_are_refused() {
    let old = testing::healthy();
    assert_eq!(diff(&old, &old).unwrap_err(), NotAlike::Same("test-1".to_owned()));
    let mut new = old.clone();
    new.header.run = "test-2".to_owned();
    new.header.experiment.name = "store".to_owned();
    let error = diff(&old, &new).unwrap_err().to_string();
    assert_eq!(
        error,
        "`test-1` is a run of sockets and `test-2` one of store; compare runs of the same experiment"
    );
    let mut new = testing::run(&[TLS], 6, 5);
    new.header.run = "test-2".to_owned();
    assert!(
        diff(&old, &new)
            .unwrap_err()
            .to_string()
            .contains("the former has tcp, unix, the latter tls")
    );
}

#[test]
fn several_runs_say_whether_they_differ() {
    let runs: Vec<RunData> = (0..3).map(|seed| day(&[TCP, UNIX], seed)).collect();
    let declared = |runs: &[RunData]| together(runs).comparisons.into_iter().find(|one| one.declared).unwrap();
    let differs = |one: &fleet::Together| one.between_machines.unwrap().differs;
    let one = declared(&runs);
    assert_eq!((differs(&one), one.machines.len()), (Some(false), 3), "{one:?}");
    let mut runs = runs;
    runs.push(day(&[TCP, Truth { rate: 20_000.0, ..UNIX }], 9));
    let one = declared(&runs);
    assert_eq!((differs(&one), one.machines.len()), (Some(true), 4), "{one:?}");
}

fn together(runs: &[RunData]) -> Fleet {
    fleet(runs.iter().cloned().map(Member::of).collect(), &[]).unwrap()
}

/// Any report on two runs has equal p and an equal verdict for each ratio.
#[test]
fn all_reports_of_two_runs_agree() {
    let slower = |factor: f64| {
        [
            TCP,
            Truth {
                rate: UNIX.rate * factor,
                ..UNIX
            },
            TLS,
        ]
    };
    let (mut some, mut none) = (0, 0);
    for (seed, factor) in [1.0, 0.97, 0.85, 0.9, 1.1, 0.96, 0.94, 1.05].into_iter().enumerate() {
        let runs = [
            day(&[TCP, UNIX, TLS], 2 * seed as u64),
            day(&slower(factor), 2 * seed as u64 + 1),
        ];
        let changes = diff(&runs[0], &runs[1]).unwrap();
        let fleet = together(&runs);
        for change in changes.comparisons.iter().filter(|one| one.is_judged()) {
            let is = |case: &str, metric: Metric| case == change.case && metric == change.metric;
            let machines = fleet
                .comparisons
                .iter()
                .find(|one| is(&one.case, one.metric))
                .unwrap()
                .between_machines;
            assert_eq!(machines.unwrap().differs, Some(change.changed()), "{change:?}");
            assert!(
                (machines.unwrap().p - change.adjusted_p.unwrap()).abs() < 1e-9,
                "{change:?} {machines:?}"
            );
            *(if change.changed() { &mut some } else { &mut none }) += 1;
        }
    }
    assert!(some >= 4 && none >= 8, "{some} changed, {none} did not");
}

#[test]
fn a_closed_and_an_open_loop_have_no_ratio_in_common() {
    let runs = [day(&[TCP, UNIX], 1), at_rate(day(&[TCP, UNIX], 2), 1_000.0)];
    let judged = |one: bool, metric: Metric| one && metric != Metric::CpuPerRequest;
    let changes = diff(&runs[0], &runs[1]).unwrap().comparisons;
    assert!(
        !changes.iter().any(|one| judged(one.is_judged(), one.metric)),
        "{changes:?}"
    );
    let fleet = together(&runs).comparisons;
    let compared = |one: &fleet::Together| one.between_machines.is_some_and(|spread| spread.differs.is_some());
    assert!(!fleet.iter().any(|one| judged(compared(one), one.metric)), "{fleet:?}");
}
