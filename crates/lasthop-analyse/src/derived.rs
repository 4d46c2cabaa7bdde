//! Derived quantities, from several cases: differences, slopes, and crossovers of two curves.
//!
//! All are computed within blocks, from mean times of a request. Like all others, their intervals come from the
//! bootstrap over rounds. Every block has the same cases, so that the line over all points is the mean of the blocks'
//! lines.

use std::collections::BTreeMap;

use lasthop_model::record::{CasePlan, Derivation, DerivedPlan, MeasuredTrial};
use lasthop_stats::{
    Estimate, Grouped, Interval,
    crossing::{self, Crossing},
    line::{Line, line},
    mean,
};

use super::{
    summary::{Derived, Measured, Outside},
    trials::{BlockId, Trials, grouped},
};

pub type ByBlock<T> = BTreeMap<BlockId, T>;

pub fn derive_all(trials: &Trials) -> Vec<Derived> {
    let plans = &trials.data.header.derived;
    let closed = plans.iter().filter(|plan| !is_at_a_rate(trials, &plan.from));
    closed.filter_map(|plan| derive(trials, plans, plan)).collect()
}

fn derive(trials: &Trials, plans: &[DerivedPlan], plan: &DerivedPlan) -> Option<Derived> {
    let case = main_case(trials, &plan.from)?;
    let mut derived = Derived {
        quantity: plan.quantity.clone(),
        help: plan.help.clone(),
        levels: plan.levels.clone(),
        transport: case.transport,
        value: None,
        intercept: None,
        against_reference: None,
        over: None,
        outside: None,
    };
    let mean = |values: &ByBlock<f64>| mean_in_blocks(trials, values, &case.case, &plan.quantity);
    match &plan.from {
        Derivation::Difference { .. } => derived.value = mean(&time_values(trials, &plan.from)),
        Derivation::Slope { points, .. } => {
            derived.value = mean(&time_values(trials, &plan.from));
            // An intercept lies outside of the points, so that it says nothing without an interval.
            let intercept = mean(&fitted(trials, points, |line| line.intercept));
            derived.intercept = intercept.filter(|found| found.interval.has_width());
        }
        Derivation::Crossover { over, points } => {
            derived.over = Some(over.clone());
            derived.outside = match crossover(trials, points, case) {
                Some(Crossing::At(log)) => {
                    derived.value = Some(level(trials, over, points, &log));
                    None
                }
                Some(Crossing::Before) => Some(Outside::Before),
                Some(Crossing::Beyond) => Some(Outside::Beyond),
                Some(Crossing::Open) => Some(Outside::Open),
                None => None,
            };
        }
    }
    let reference = plans.iter().find(|other| is_reference(trials, plan, other, case));
    derived.against_reference = reference.and_then(|reference| against(trials, plan, reference, case));
    Some(derived)
}

/// Whether a quantity uses an open loop, in which the time of a request is not connections divided by throughput.
pub fn is_at_a_rate(trials: &Trials, from: &Derivation) -> bool {
    let names = from.cases();
    let mut open = trials.cases().iter().filter(|plan| plan.load.is_open());
    open.any(|plan| names.contains(&&plan.case))
}

/// The case that represents a quantity: the minuend of a difference, or the first case of a series.
fn main_case<'a>(trials: &Trials<'a>, from: &Derivation) -> Option<&'a CasePlan> {
    let name = match from {
        Derivation::Difference { of, .. } => of,
        Derivation::Slope { points, .. } | Derivation::Crossover { points, .. } => &points.first()?.1,
    };
    trials.plan(name)
}

fn is_reference(trials: &Trials, plan: &DerivedPlan, other: &DerivedPlan, case: &CasePlan) -> bool {
    let is_time = !matches!(plan.from, Derivation::Crossover { .. });
    let theirs = || main_case(trials, &other.from).map(|case| &case.case);
    is_time && other.quantity == plan.quantity && case.reference.is_some() && theirs() == case.reference.as_ref()
}

/// Microseconds per request in each block: the time of all connections divided by correct replies. If a connection
/// carries several requests before it is closed, the unit is all of these requests.
fn times(trials: &Trials, name: &str) -> ByBlock<f64> {
    let load = trials.plan(name).map(|case| &case.load);
    let requests = load.map_or(1.0, |load| {
        f64::from(load.connections.max(1)) * f64::from(load.requests_per_connection)
    });
    let time = |trial: &MeasuredTrial| trial.result.elapsed_ns as f64 / 1e3 * requests / trial.result.requests as f64;
    let timed = trials
        .of_case(name)
        .map(|trial| ((trial.round, trial.block), time(trial)));
    timed.collect()
}

/// Points of the blocks that contain every case.
fn in_all(series: &[(f64, ByBlock<f64>)]) -> impl Iterator<Item = (BlockId, Vec<(f64, f64)>)> {
    let places = series.first().into_iter().flat_map(|(_, first)| first.keys());
    places.filter_map(|place| {
        let points: Option<Vec<_>> = series
            .iter()
            .map(|(at, values)| Some((*at, *values.get(place)?)))
            .collect();
        Some((*place, points?))
    })
}

/// The quantity in each block that contains all its cases.
pub fn time_values(trials: &Trials, from: &Derivation) -> ByBlock<f64> {
    match from {
        Derivation::Difference { of, minus } => difference(&times(trials, of), &times(trials, minus)),
        Derivation::Slope { points, .. } => fitted(trials, points, |line| line.slope),
        Derivation::Crossover { .. } => ByBlock::new(),
    }
}

/// The difference in each block that has both values.
pub fn difference(ours: &ByBlock<f64>, theirs: &ByBlock<f64>) -> ByBlock<f64> {
    let both = ours
        .iter()
        .filter_map(|(place, value)| Some((*place, value - theirs.get(place)?)));
    both.collect()
}

/// A part of each block's line.
fn fitted(trials: &Trials, points: &[(f64, String)], part: fn(Line) -> f64) -> ByBlock<f64> {
    let series: Vec<_> = points.iter().map(|(at, name)| (*at, times(trials, name))).collect();
    let lines = in_all(&series).filter_map(|(place, points)| Some((place, part(line(&points)?))));
    lines.collect()
}

/// The mean over blocks, without an interval if there is only one block; `quantity` is the name of its draws.
pub fn mean_in_blocks(trials: &Trials, values: &ByBlock<f64>, of: &str, quantity: &str) -> Option<Measured> {
    let blocks = grouped(values.iter().map(|(place, value)| (place.0, *value)))?;
    let alone = || Some(Measured::of("us", Interval::exact(mean::of(values.values().copied())?)));
    let mean = mean::mean(&blocks, trials.resampling(of, quantity));
    mean.map(|mean| micros(trials, &mean)).or_else(alone)
}

fn crossover(trials: &Trials, points: &[(f64, String)], case: &CasePlan) -> Option<Crossing> {
    let log_ratios = |name: &str| -> Option<ByBlock<f64>> {
        let pairs = trials.pairs(name, trials.plan(name)?.reference.as_deref()?).into_iter();
        let logs = pairs.map(|(at, ours, theirs)| (at, (ours.result.throughput() / theirs.result.throughput()).ln()));
        Some(logs.collect())
    };
    let series: Option<Vec<_>> = points.iter().map(|(at, name)| Some((*at, log_ratios(name)?))).collect();
    let series = series?;
    let effects = |points: Vec<(f64, f64)>| points.into_iter().map(|point| point.1).collect();
    let blocks: Grouped<Vec<f64>> = grouped(in_all(&series).map(|(place, points)| (place.0, effects(points))))?;
    let levels: Vec<f64> = points.iter().map(|point| point.0).collect();
    let threshold = trials.data.header.settings.margin.ln_1p();
    crossing::crossing(&levels, &blocks, threshold, trials.resampling(&case.case, "crossover"))
}

/// A level from its logarithm, with an interval cut at the levels of the run.
fn level(trials: &Trials, over: &str, points: &[(f64, String)], log: &Estimate) -> Measured {
    let mut found = log.exponential(trials.confidence());
    // The cut interval still contains its estimate.
    found.low = found.low.max(points[0].0).min(found.estimate);
    found.high = found.high.min(points[points.len() - 1].0).max(found.estimate);
    Measured::of(over, found)
}

/// The difference from the reference's quantity, block by block.
fn against(trials: &Trials, plan: &DerivedPlan, reference: &DerivedPlan, case: &CasePlan) -> Option<Measured> {
    let differences = difference(&time_values(trials, &plan.from), &time_values(trials, &reference.from));
    mean_in_blocks(trials, &differences, &case.case, &format!("{} against", plan.quantity))
}

fn micros(trials: &Trials, found: &Estimate) -> Measured {
    Measured::of("us", found.interval(trials.confidence()))
}

#[cfg(test)]
mod tests {
    use lasthop_record::data::RunData;

    use super::{
        super::{
            summarise,
            testing::{TCP, Truth, UNIX, run},
        },
        *,
    };

    fn at(truth: Truth, rate: f64) -> Truth {
        Truth { rate, ..truth }
    }

    fn with(mut data: RunData, from: Vec<Derivation>) -> Vec<Derived> {
        let plan = |from| DerivedPlan {
            quantity: "q".into(),
            help: "what".into(),
            levels: Default::default(),
            from,
        };
        data.header.derived = from.into_iter().map(plan).collect();
        summarise(&data).derived
    }

    fn points(names: &[&str]) -> Vec<(f64, String)> {
        (0..)
            .zip(names)
            .map(|(at, name)| (1024.0 * 4f64.powi(at), (*name).to_owned()))
            .collect()
    }

    fn covers(found: Option<&Measured>, truth: f64, share: f64) {
        let found = found.unwrap();
        assert!(
            found.interval.low <= found.interval.estimate && found.interval.estimate <= found.interval.high,
            "{found:?}"
        );
        assert!(
            (found.interval.estimate - truth).abs() <= share * truth.abs().max(1.0),
            "{found:?}, truth {truth}"
        );
        assert!(
            found.interval.high - found.interval.low < 4.0 * share * truth.abs().max(1.0),
            "{found:?}, truth {truth}"
        );
    }

    #[test]
    fn a_difference_of_times_has_an_interval() {
        let data = run(&[at(TCP, 20_000.0), at(UNIX, 40_000.0)], 6, 5);
        let from = Derivation::Difference {
            of: "tcp".into(),
            minus: "unix".into(),
        };
        let [found] = &with(data, vec![from])[..] else { panic!() };
        covers(found.value.as_ref(), 25.0, 0.06);
        assert_eq!((found.transport.name(), &found.against_reference), ("tcp", &None));
    }

    #[test]
    fn a_slope_is_the_time_for_one_more() {
        let data = run(
            &[
                at(TCP, 10_000.0),
                at(TCP, 2_500.0),
                at(UNIX, 20_000.0),
                at(UNIX, 10_000.0),
            ],
            6,
            5,
        );
        let slope = |names: &[&str]| Derivation::Slope {
            per: "rows".into(),
            points: points(names),
        };
        let found = with(data, vec![slope(&["tcp", "tcp#2"]), slope(&["unix", "unix#2"])]);
        // 100 µs at 1,024 and 400 µs at 4,096, against 50 µs and 100 µs.
        covers(found[0].value.as_ref(), 300.0 / 3072.0, 0.05);
        covers(found[0].intercept.as_ref(), 0.0, 20.0);
        covers(found[1].value.as_ref(), 50.0 / 3072.0, 0.05);
        assert_eq!(found[0].against_reference, None);
        covers(found[1].against_reference.as_ref(), -250.0 / 3072.0, 0.05);
    }

    #[test]
    fn one_block_gives_a_slope_without_an_interval() {
        let data = run(&[at(TCP, 10_000.0), at(TCP, 2_500.0)], 1, 1);
        let from = Derivation::Slope {
            per: "rows".into(),
            points: points(&["tcp", "tcp#2"]),
        };
        let [found] = &with(data, vec![from])[..] else { panic!() };
        let slope = found.value.as_ref().unwrap().interval;
        assert!(
            !slope.has_width() && (slope.estimate * 3072.0 / 300.0 - 1.0).abs() < 0.5,
            "{slope:?}"
        );
        assert_eq!(found.intercept, None);
    }

    #[test]
    fn a_slope_over_requests_of_a_connection_is_of_the_whole_connection() {
        // 100 µs a request for connections with 1,024 requests, 80 µs for connections with 4,096.
        let mut data = run(&[at(TCP, 10_000.0), at(TCP, 12_500.0)], 6, 5);
        data.header.cases[0].load.requests_per_connection = 1024;
        data.header.cases[1].load.requests_per_connection = 4096;
        let from = Derivation::Slope {
            per: "queries".into(),
            points: points(&["tcp", "tcp#2"]),
        };
        let found = with(data, vec![from]);
        let slope = (4096.0 * 80.0 - 1024.0 * 100.0) / 3072.0;
        covers(found[0].value.as_ref(), slope, 0.08);
        covers(found[0].intercept.as_ref(), 1024.0 * (100.0 - slope), 0.3);
    }

    #[test]
    fn the_crossover_is_where_the_difference_falls_below_the_margin() {
        let truths = [TCP, at(UNIX, 26_000.0), at(UNIX, 22_000.0), at(UNIX, 20_010.0)];
        let names = ["unix", "unix#2", "unix#3"];
        let crossover = |names| {
            vec![Derivation::Crossover {
                over: "size".into(),
                points: points(names),
            }]
        };
        let [found] = &with(run(&truths, 6, 5), crossover(&names))[..] else {
            panic!()
        };
        let value = found.value.as_ref().unwrap();
        assert_eq!(value.unit, "size");
        assert!(
            value.interval.estimate > 4096.0 && value.interval.estimate < 16384.0 && value.interval.high <= 16384.0,
            "{value:?}"
        );
        let [found] = &with(run(&truths, 6, 5), crossover(&names[..2]))[..] else {
            panic!()
        };
        assert_eq!((&found.value, found.outside), (&None, Some(Outside::Beyond)));
    }

    #[test]
    fn a_case_without_results_has_no_quantity() {
        let mut data = run(&[TCP, UNIX], 3, 3);
        data.records.retain(
            |record| !matches!(record, lasthop_model::record::TrialRecord::Trial(trial) if trial.case == "unix"),
        );
        let from = Derivation::Difference {
            of: "tcp".into(),
            minus: "unix".into(),
        };
        let [found] = &with(data, vec![from])[..] else { panic!() };
        assert_eq!(found.value, None);
    }
}
