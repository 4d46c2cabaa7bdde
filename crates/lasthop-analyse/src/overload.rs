//! The results of a run with overload: capacity, and correct replies, errors and recovery for each offered load.
//!
//! Each figure is of one trial. A [`Span`] has the figures of all repetitions.

use indexmap::{IndexMap, IndexSet};
use lasthop_model::{
    observation::{MachineUsage, NetworkCounters},
    record::OverloadTrial,
};
use lasthop_record::data::RunData;
use lasthop_stats::location;
use lasthop_trial::{
    Histogram,
    result::{ErrorClass, StageResult, WrongKind},
};

use super::{
    cases::name_of,
    summary::{Overload, OverloadCase, OverloadPoint, Recovery, Span, Wrong},
};

/// A load is served if at most this share of its requests has no correct reply.
const UNSERVED: f64 = 0.01;
/// The least share of correct replies at the usual load that makes it a usable standard.
const USUAL: f64 = 0.95;
/// Consecutive parts of the usual load that show that the service has recovered.
const STEADY: usize = 3;
const NANOSECONDS: f64 = 1e9;

/// The results; `None` for a run without overload.
pub fn summarise(data: &RunData) -> Option<Overload> {
    let settings = data.header.settings.overload.as_ref()?;
    let cases = data.header.cases.iter().map(|plan| {
        let trials: Vec<&OverloadTrial> = data.overloads().filter(|trial| trial.case == plan.case).collect();
        // The capacity comes from closed loops, which are not a multiple of it.
        let closed = trials.iter().filter(|trial| trial.times.is_none());
        OverloadCase {
            case: plan.case.clone(),
            capacity: Span::of(closed.map(|trial| trial.result.throughput())),
            points: settings
                .times
                .iter()
                .filter_map(|times| {
                    let at_load = trials.iter().filter(|trial| trial.times == Some(*times));
                    point(*times, at_load.copied().collect())
                })
                .collect(),
        }
    });
    Some(Overload {
        counted_seconds: data.header.settings.trial_ns as f64 / NANOSECONDS,
        fill_seconds: data.header.settings.warm_up_ns as f64 / NANOSECONDS,
        recovery_seconds: settings.after_ns as f64 / NANOSECONDS,
        foreign_share: foreign_share(data),
        cases: cases.collect(),
    })
}

fn foreign_share(data: &RunData) -> f64 {
    let environment = data.environment.as_ref();
    let cpus = environment.map_or(1, |environment| environment.cpus).max(1);
    let machines = || data.overloads().map(|trial| &trial.observations.machine);
    let used: i64 = machines().map(MachineUsage::taken_ns).sum();
    let wall: u64 = machines().map(|machine| machine.wall_ns).sum();
    used.max(0) as f64 / (wall.max(1) as f64 * f64::from(cpus))
}

/// The stage of a trial with the offered load.
fn load(trial: &OverloadTrial) -> Option<&StageResult> {
    // The first stage is the usual load, which also follows.
    trial.result.stages.get(1)
}

fn point(times: f64, trials: Vec<&OverloadTrial>) -> Option<OverloadPoint> {
    let loads: Vec<&StageResult> = trials.iter().filter_map(|trial| load(trial)).collect();
    let first = loads.first()?;
    let each = |of: &dyn Fn(&StageResult) -> f64| Span::of(loads.iter().map(|load| of(load)));
    let quantile = |quantile: f64| {
        let answered = loads.iter().filter(|load| !load.times.is_empty());
        Span::of(answered.map(|load| load.times.quantile(quantile) as f64 / 1e6))
    };
    let network = |of: fn(&NetworkCounters) -> u64| {
        let counted = trials.iter().map(|trial| of(&trial.observations.network) as f64);
        Span::of(counted)
    };
    let lags = trials.iter().filter_map(|trial| trial.result.lag.as_ref());
    let lags = lags.filter(|lag| !lag.is_empty());
    Some(OverloadPoint {
        times,
        offered: first.rate,
        trials: loads.len() as u32,
        served: loads.iter().all(|load| is_served(load)),
        goodput: each(&|load| load.right as f64 * NANOSECONDS / load.counted_ns.max(1) as f64)?,
        right: each(&|load| share(load, load.right))?,
        wrong: wrong(&loads),
        not_sent: each(&|load| share(load, load.not_sent))?,
        unanswered: each(&|load| share(load, load.unanswered()))?,
        p50_ms: quantile(0.5),
        p99_ms: quantile(0.99),
        lag_p99_ms: Span::of(lags.map(|lag| lag.quantile(0.99) as f64 / 1e6)),
        listen_overflows: network(|network| network.listen_overflows)?,
        listen_drops: network(|network| network.listen_drops)?,
        syns_retransmitted: network(|network| network.syns_retransmitted)?,
        logged: logged(&trials),
        recovery: recovery(&trials),
    })
}

fn share(load: &StageResult, count: u64) -> f64 {
    count as f64 / load.due.max(1) as f64
}

fn is_served(load: &StageResult) -> bool {
    let wrong: u64 = load.wrong.iter().map(|wrong| wrong.count).sum();
    share(load, wrong + load.not_sent + load.unanswered()) <= UNSERVED
}

/// The name of an outcome, such as `status-502` or `reset`.
fn outcome_name(kind: WrongKind) -> String {
    match kind {
        (ErrorClass::WrongStatus, Some(status)) => format!("status-{status}"),
        (class, _) => name_of(class),
    }
}

/// The wrong outcomes of a load, most frequent first. A repetition without an outcome has a 0.
fn wrong(loads: &[&StageResult]) -> IndexMap<String, Wrong> {
    let mut kinds: IndexMap<WrongKind, (u64, Histogram, String)> = IndexMap::new();
    for wrong in loads.iter().flat_map(|load| &load.wrong) {
        let (count, times, _) = kinds
            .entry(wrong.kind())
            .or_insert_with(|| (0, Histogram::new(), wrong.first.clone()));
        *count += wrong.count;
        times.merge(&wrong.times);
    }
    kinds.sort_by(|_, one, _, other| other.0.cmp(&one.0));
    let of = |load: &StageResult, kind: WrongKind| {
        let same = load.wrong.iter().filter(|wrong| wrong.kind() == kind);
        same.map(|wrong| wrong.count).sum()
    };
    let each = |(kind, (count, times, first)): (WrongKind, (u64, Histogram, String))| {
        let wrong = Wrong {
            count,
            share: Span::of(loads.iter().map(|load| share(load, of(load, kind))))?,
            after_ms: times.quantile(0.5) as f64 / 1e6,
            first,
        };
        Some((outcome_name(kind), wrong))
    };
    kinds.into_iter().filter_map(each).collect()
}

fn logged(trials: &[&OverloadTrial]) -> IndexMap<String, Span> {
    let meanings: IndexSet<&String> = trials.iter().flat_map(|trial| trial.logged.keys()).collect();
    meanings
        .into_iter()
        .filter_map(|meaning| {
            let counts = trials
                .iter()
                .map(|trial| trial.logged.get(meaning).copied().unwrap_or(0) as f64);
            Some((meaning.clone(), Span::of(counts)?))
        })
        .collect()
}

fn recovery(trials: &[&OverloadTrial]) -> Option<Recovery> {
    let seen = trials.iter().filter_map(|trial| recovered(&trial.result.stages));
    let seen: Vec<Option<f64>> = seen.collect();
    (!seen.is_empty()).then(|| Recovery {
        seconds: Span::of(seen.iter().flatten().copied()),
        late: seen.iter().filter(|after| after.is_none()).count() as u32,
    })
}

/// Seconds from the end of the load until the usual load is served as before: as many correct replies, and a median no
/// longer than the earlier 99th percentile. The outer `None` if there is no basis to judge, the inner `None` if
/// recovery took longer than the observation.
fn recovered(stages: &[StageResult]) -> Option<Option<f64>> {
    let [before, _, after] = stages else { return None };
    let mut usual = Histogram::new();
    before.slots.iter().for_each(|slot| usual.merge(&slot.right));
    let due: u64 = before.slots.iter().map(|slot| slot.due).sum();
    let right = usual.count() as f64 / due.max(1) as f64;
    if usual.is_empty() || after.slots.is_empty() || right < USUAL {
        return None;
    }
    let limit = usual.quantile(0.99);
    let length = after.counted_ns as f64 / NANOSECONDS / after.slots.len() as f64;
    let first = after.slots.windows(STEADY).position(|slots| {
        slots.iter().all(|slot| {
            // A part without due requests shows nothing.
            slot.due > 0 && slot.right.count() as f64 >= right * slot.due as f64 && slot.right.quantile(0.5) <= limit
        })
    });
    Some(first.map(|slot| slot as f64 * length))
}

impl Span {
    /// The span of values; `None` without values.
    pub fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let least = *values.first()?;
        let most = *values.last()?;
        let median = location::median(values);
        Some(Self { least, median, most })
    }
}

#[cfg(test)]
mod tests {
    use lasthop_trial::result::Slot;

    use super::*;

    fn slot(times: &[u64], due: u64) -> Slot {
        let mut right = Histogram::new();
        times.iter().for_each(|time| right.record(*time));
        Slot { due, right }
    }

    fn stages(after: Vec<Slot>) -> Vec<StageResult> {
        let usual = |slots: Vec<Slot>| StageResult {
            counted_ns: slots.len() as u64 * 100_000_000,
            slots,
            ..StageResult::default()
        };
        vec![
            usual(vec![slot(&[100, 110], 2), slot(&[105], 1)]),
            StageResult::default(),
            usual(after),
        ]
    }

    #[test]
    fn a_load_recovers_when_it_is_as_before_for_a_while() {
        let slow = slot(&[900], 1);
        let lost = slot(&[100], 2);
        let good = slot(&[100], 1);
        let after = |slots: &[&Slot]| recovered(&stages(slots.iter().map(|slot| (*slot).clone()).collect()));
        assert_eq!(after(&[&good, &good, &good]), Some(Some(0.0)));
        let at = after(&[&slow, &good, &lost, &good, &good, &good]).flatten().unwrap();
        assert!((at - 0.3).abs() < 1e-9, "{at}");
        assert_eq!(
            after(&[&slow, &good, &good]),
            Some(None),
            "not within what was looked at"
        );
        assert_eq!(
            recovered(&stages(vec![good.clone()])[..2]),
            None,
            "a load below capacity"
        );
        let mut unusual = stages(vec![good.clone(), good.clone(), good]);
        unusual[0].slots.push(lost);
        assert_eq!(recovered(&unusual), None, "nothing to compare with");
    }

    #[test]
    fn what_was_not_sent_was_not_served() {
        let load = |not_sent| StageResult {
            due: 100,
            not_sent,
            right: 100 - not_sent,
            ..StageResult::default()
        };
        assert!(is_served(&load(1)));
        assert!(!is_served(&load(2)));
    }

    #[test]
    fn a_span_has_the_values_between_its_ends() {
        assert_eq!(
            Span::of([3.0, 1.0, 2.0].into_iter()),
            Some(Span {
                least: 1.0,
                median: 2.0,
                most: 3.0
            })
        );
        assert_eq!(Span::of([1.0, 2.0].into_iter()).unwrap().median, 1.5);
        assert_eq!(Span::of(std::iter::empty()), None);
    }
}
