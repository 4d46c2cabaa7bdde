//! Each case against its reference, within blocks.
//!
//! Two metrics are declared in advance and have verdict sentences: the throughput of a closed loop, or the median
//! response time of an open one ([`Metric::primary`]), and the CPU time per request. The others are descriptive. Each
//! interval covers 95 % for its own comparison. The check `multiplicity` names verdicts that do not survive Holm's
//! adjustment over all declared ones.

use lasthop_model::record::{CasePlan, MeasuredTrial};
use lasthop_stats::{
    Better, Estimate, Grouped, Interval, holm,
    location::{self, Disturbed, Located},
    quantile::{MergedPairs, PairedBins},
    stopping,
    totals::{self, PairedTotals},
    verdict,
};

use super::{
    cases::{BIN_ERROR, MEDIAN},
    materiality, run_delay,
    summary::{Comparison, Metric, Verdict},
    trials::{self, Place, Trials, grouped},
};

/// Trials of a case and of its reference in the same blocks.
pub struct Pairs<'a> {
    pub case: &'a CasePlan,
    pub reference: &'a CasePlan,
    pub blocks: Vec<(Place, &'a MeasuredTrial, &'a MeasuredTrial)>,
}

/// A comparison, and the logarithm of its ratio with its standard error.
pub struct Compared {
    pub comparison: Comparison,
    pub log_ratio: Estimate,
    /// The same with every block weighted alike, if disturbed blocks count less.
    pub unweighted: Option<Estimate>,
}

impl<'a> Pairs<'a> {
    /// `None` for a reference.
    pub fn of(trials: &Trials<'a>, case: &'a CasePlan) -> Option<Self> {
        let name = case.reference.as_deref()?;
        let reference = trials.plan(name)?;
        Some(Self { case, reference, blocks: trials.pairs(&case.case, name) })
    }

    pub fn rounds(&self) -> usize {
        self.blocks.chunk_by(|a, b| a.0.0 == b.0.0).count()
    }

    /// Ratios of the declared metric, block by block, each with the trial of the case.
    pub fn ratios(&self) -> impl Iterator<Item = (&'a MeasuredTrial, f64)> + '_ {
        let ratio = |ours, theirs| Some(trials::primary(ours)? / trials::primary(theirs)?);
        self.blocks.iter().filter_map(move |&(_, ours, theirs)| Some((ours, ratio(ours, theirs)?)))
    }

    /// Logarithms of the ratios of a quantity, each with how many CPUs others took from its two trials.
    pub fn disturbed(&self, quantity: impl Fn(&MeasuredTrial) -> Option<f64>) -> Option<Grouped<Disturbed>> {
        let block = |&(place, ours, theirs): &(Place, &MeasuredTrial, &MeasuredTrial)| {
            let value = (quantity(ours)? / quantity(theirs)?).ln();
            let disturbance = trials::disturbance(ours) + trials::disturbance(theirs);
            value.is_finite().then_some((place.0, Disturbed { value, disturbance }))
        };
        grouped(self.blocks.iter().filter_map(block))
    }

    /// Logarithms of [`Pairs::ratios`].
    pub fn log_ratios(&self) -> Option<Grouped<f64>> {
        grouped(self.ratios().map(|(trial, ratio)| (trial.round, ratio.ln())))
    }

    pub fn totals(
        &self,
        case: impl Fn(&MeasuredTrial) -> totals::Totals,
        reference: impl Fn(&MeasuredTrial) -> totals::Totals,
    ) -> Option<Grouped<PairedTotals>> {
        let pair = |ours, theirs| PairedTotals { case: case(ours), reference: reference(theirs) };
        grouped(self.blocks.iter().map(|&(place, ours, theirs)| (place.0, pair(ours, theirs))))
    }

    pub fn latencies(&self) -> Option<MergedPairs> {
        let pair = |ours: &'a _, theirs: &'a _| {
            Some(PairedBins { case: trials::latencies(ours)?, reference: trials::latencies(theirs)? })
        };
        let known = self.blocks.iter().filter_map(|&(place, ours, theirs)| Some((place.0, pair(ours, theirs)?)));
        Some(MergedPairs::of(&grouped(known)?))
    }
}

/// All comparisons with at least two blocks, ordered by case, then by metric.
pub fn compare_all(trials: &Trials) -> Vec<Compared> {
    let pairs = trials.cases().iter().filter_map(|plan| Pairs::of(trials, plan));
    let mut all: Vec<Compared> = pairs.flat_map(|pairs| compare(trials, &pairs)).collect();
    adjust(trials, &mut all);
    all
}

/// Holm's adjustment over the metrics that were declared beforehand: the primary one of each load, and CPU per request.
fn adjust(trials: &Trials, all: &mut [Compared]) {
    let is_declared = |Comparison { case, metric, .. }: &Comparison| {
        *metric == Metric::CpuPerRequest || trials.plan(case).is_some_and(|plan| Metric::primary(&plan.load) == *metric)
    };
    let mut family: Vec<&mut Compared> = all.iter_mut().filter(|one| is_declared(&one.comparison)).collect();
    let probabilities: Vec<f64> = family.iter().map(|one| one.log_ratio.p_value()).collect();
    for (one, adjusted) in family.iter_mut().zip(holm::adjust(&probabilities)) {
        one.comparison.adjusted_p = Some(adjusted);
    }
}

fn compare(trials: &Trials, pairs: &Pairs) -> Vec<Compared> {
    let latencies = pairs.latencies();
    let latency = |share, name| Some((latency(trials, pairs, latencies.as_ref()?, share, name)?, None));
    let located = |quantity: fn(&MeasuredTrial) -> Option<f64>| {
        let Located { estimate, unweighted } = location::locate(&pairs.disturbed(quantity)?)?;
        Some((estimate, unweighted))
    };
    // The throughput of an open loop was asked for, so comparing it makes no sense.
    let is_open = pairs.case.load.is_open();
    let found = [
        (Metric::Throughput, if is_open { None } else { located(trials::primary) }),
        (Metric::LatencyP50, latency(0.5, MEDIAN)),
        (Metric::LatencyP99, latency(0.99, "latency_p99")),
        (Metric::CpuPerRequest, if trials.knows_servers() { located(trials::cpu_per_request) } else { None }),
    ];
    found.into_iter().filter_map(|(metric, found)| Some(judge(trials, pairs, metric, found?))).collect()
}

/// Logarithm of the ratio that verdicts are about.
pub fn primary(trials: &Trials, pairs: &Pairs) -> Option<Estimate> {
    match Metric::primary(&pairs.case.load) {
        Metric::LatencyP50 => latency(trials, pairs, &pairs.latencies()?, 0.5, MEDIAN),
        _ => Some(location::locate(&pairs.disturbed(trials::primary)?)?.estimate),
    }
}

/// Logarithm of the ratio of a quantile.
fn latency(trials: &Trials, pairs: &Pairs, latencies: &MergedPairs, share: f64, name: &str) -> Option<Estimate> {
    let log_ratio = latencies.log_ratio(share, trials.quantile_resampling(&pairs.case.case, name))?;
    // Both readings are rounded.
    Some(log_ratio.with_rounding(BIN_ERROR * std::f64::consts::SQRT_2))
}

pub fn better(metric: Metric) -> Better {
    match metric {
        Metric::Throughput => Better::More,
        Metric::LatencyP50 | Metric::LatencyP99 | Metric::CpuPerRequest => Better::Less,
    }
}

fn judge(
    trials: &Trials,
    pairs: &Pairs,
    metric: Metric,
    (log_ratio, unweighted): (Estimate, Option<Estimate>),
) -> Compared {
    let margin = trials.data.header.settings.margin;
    let Interval { estimate, low, high } = log_ratio.exponential(trials.confidence());
    let verdict: Verdict = verdict::verdict(&Interval { estimate, low, high }, margin, better(metric)).into();
    let more = || stopping::more_data(&log_ratio, margin, trials.confidence());
    let more_seconds = (verdict == Verdict::Undecided).then(more).flatten().map(|more| more * trials.seconds());
    let comparison = Comparison {
        case: pairs.case.case.clone(),
        reference: pairs.reference.case.clone(),
        metric,
        ratio: estimate,
        low,
        high,
        verdict,
        lower_bound: false,
        adjusted_p: None,
        blocks: u32::try_from(pairs.blocks.len()).unwrap_or(u32::MAX),
        more_seconds,
        materiality: if trials.ratios_only { None } else { materiality::of(trials, pairs, metric) },
        run_delay_saved: if trials.ratios_only { None } else { run_delay::saved(trials, pairs, metric) },
    };
    Compared { comparison, log_ratio, unweighted }
}
