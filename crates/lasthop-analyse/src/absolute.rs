//! Absolute figures of cases, consistent with the ratios: requests per second, latencies and CPU time.
//!
//! A ratio is located over blocks, some of which count less than others. The figure of a reference comes from the same
//! blocks, with their weights in the ratios against it. The figure of a case is that of its reference times their
//! ratio. So the quotient of two columns is the third column. Latencies have no weights: a block that is slow because
//! of a late reply must not count less in the tail that contains this reply.

use std::{
    cell::RefCell,
    collections::{BTreeMap, HashMap},
};

use lasthop_model::record::MeasuredTrial;
use lasthop_stats::{
    Estimate, Grouped,
    totals::{self, Totals},
};

use super::{
    cases::{self, MEDIAN},
    pairs::Compared,
    summary::Metric,
    trials::{self, BlockId, Trials, grouped},
};

/// A figure of a case, whose logarithm has an interval if there are at least two blocks.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    pub value: f64,
    pub log: Option<Estimate>,
}

/// The figures of a run's cases.
pub struct Absolute<'a> {
    trials: &'a Trials<'a>,
    /// Weights of blocks, by case and metric. If missing, all blocks count alike.
    weights: HashMap<(&'a str, Metric), BTreeMap<BlockId, f64>>,
    /// The reference of a case, and the logarithm of the ratio to the reference.
    ratios: HashMap<(&'a str, Metric), (&'a str, f64)>,
    /// Cache of figures, because each case of a reference needs the reference's.
    known: RefCell<HashMap<(String, Metric), Option<Figure>>>,
}

impl<'a> Absolute<'a> {
    pub fn of(trials: &'a Trials<'a>, compared: &[Compared]) -> Self {
        let mut absolute = Self {
            trials,
            weights: HashMap::new(),
            ratios: HashMap::new(),
            known: RefCell::default(),
        };
        for one in compared {
            let metric = one.comparison.metric;
            let [case, reference] = [&one.comparison.case, &one.comparison.reference].map(|name| trials.plan(name));
            let Some((case, reference)) = case.zip(reference) else {
                continue;
            };
            let ratio = (reference.case.as_str(), one.log_ratio.value);
            absolute.ratios.insert((&case.case, metric), ratio);
            for name in [&case.case, &reference.case] {
                let weights = absolute.weights.entry((name, metric)).or_default();
                for (place, weight) in &one.weights {
                    *weights.entry(*place).or_default() += weight;
                }
            }
        }
        // Without weights all blocks count alike. An empty table would mean that no block counts.
        absolute.weights.retain(|_, weights| !weights.is_empty());
        absolute
    }

    /// Weight of a trial in the figure of its case.
    pub fn weight(&self, trial: &MeasuredTrial, metric: Metric) -> f64 {
        let weight = |weights: &BTreeMap<BlockId, f64>| weights.get(&(trial.round, trial.block)).copied();
        let weights = self.weights.get(&(trial.case.as_str(), metric));
        // A block without a ratio has no weight.
        weights.map_or(1.0, |weights| weight(weights).unwrap_or(0.0))
    }

    /// The figure: correct replies per second, microseconds of CPU time, or nanoseconds of a latency.
    pub fn figure(&self, case: &str, metric: Metric) -> Option<Figure> {
        let own = self.own(case, metric)?;
        let Some((reference, ratio)) = self.ratios.get(&(case, metric)) else {
            return Some(own);
        };
        let Some(theirs) = self.own(reference, metric) else {
            return Some(own);
        };
        let value = theirs.value * ratio.exp();
        Some(Figure {
            value,
            log: own.log.map(|log| Estimate {
                value: value.ln(),
                ..log
            }),
        })
    }

    /// The figure without regard to a reference.
    pub fn own(&self, case: &str, metric: Metric) -> Option<Figure> {
        let key = (case.to_owned(), metric);
        if let Some(known) = self.known.borrow().get(&key) {
            return *known;
        }
        let found = match metric {
            Metric::Throughput => self.quotient(case, metric, "throughput", trials::rate),
            Metric::CpuPerRequest => self.quotient(case, metric, "cpu", trials::cpu),
            Metric::LatencyP50 => self.latency(case, 0.5, MEDIAN),
            Metric::LatencyP99 => self.latency(case, 0.99, "latency_p99"),
        };
        self.known.borrow_mut().insert(key, found);
        found
    }

    fn quotient(
        &self,
        case: &str,
        metric: Metric,
        draws: &str,
        totals: impl Fn(&MeasuredTrial) -> Totals,
    ) -> Option<Figure> {
        let blocks: Grouped<Totals> = grouped(self.trials.of_case(case).filter_map(|trial| {
            let weight = self.weight(trial, metric);
            (weight > 0.0).then(|| (trial.round, totals(trial).times(weight)))
        }))?;
        let log = || totals::log_quotient(&blocks, self.trials.resampling(case, draws));
        Some(Figure {
            value: totals::point(&blocks)?,
            log: self.unless_ratios_only(log),
        })
    }

    fn latency(&self, case: &str, share: f64, draws: &str) -> Option<Figure> {
        let bins = cases::latencies(self.trials, case)?;
        let log = || cases::log_latency(self.trials, case, &bins, share, draws);
        Some(Figure {
            value: bins.point(share)?,
            log: self.unless_ratios_only(log),
        })
    }

    fn unless_ratios_only(&self, log: impl Fn() -> Option<Estimate>) -> Option<Estimate> {
        if self.trials.ratios_only { None } else { log() }
    }
}
