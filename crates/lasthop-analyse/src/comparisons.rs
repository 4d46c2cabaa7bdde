//! Comparisons of each case with its reference, within blocks.
//!
//! Two metrics are declared in advance and have verdict sentences: the throughput of a closed loop, or the median
//! response time of an open loop ([`Metric::primary`]), and the CPU time per request. The others are descriptive. Each
//! interval covers 95 % for its own comparison. The check `multiplicity` names verdicts that do not survive Holm's
//! adjustment over all declared comparisons.

use lasthop_model::record::{CasePlan, MeasuredTrial};
use lasthop_stats::{Better, Estimate, holm, location, quantile::MergedPairs, stopping, verdict};

use super::{
    absolute::Absolute,
    cases::{self, BIN_ERROR, MEDIAN},
    materiality,
    pairs::{Compared, Pairs},
    run_delay,
    summary::{Comparison, Metric, Verdict},
    trials::{self, BlockId, Trials},
};

/// The fewest starts of the servers that show how a ratio varies between starts.
const LEAST_STARTS: usize = 2;

/// The estimate of a comparison, with the weights of blocks.
pub struct Basis {
    pub log_ratio: Estimate,
    /// Empty if all blocks count alike.
    weights: Vec<(BlockId, f64)>,
}

/// The location of a quantity's ratio.
fn located(pairs: &Pairs, quantity: impl Fn(&MeasuredTrial) -> Option<f64> + Copy) -> Option<Basis> {
    let located = location::locate(&pairs.log_ratios(quantity)?)?;
    let places = pairs.placed(quantity).map(|(place, _)| place);
    Some(Basis {
        log_ratio: located.estimate,
        weights: places.zip(located.weights).collect(),
    })
}

/// All comparisons with at least two blocks, ordered by case, then by metric.
pub fn compare_all(trials: &Trials) -> Vec<Compared> {
    let pairs = trials.cases().iter().filter_map(|plan| Pairs::of(trials, plan));
    let mut all: Vec<Compared> = pairs.flat_map(|pairs| compare(trials, &pairs)).collect();
    adjust(trials, &mut all);
    if !trials.ratios_only {
        let absolute = Absolute::of(trials, &all);
        for one in &mut all {
            one.comparison.materiality = materiality::of_comparison(trials, &absolute, &one.comparison);
        }
    }
    all
}

/// Comparisons of every two alternatives with a common reference, made like those with the reference. They are a
/// separate family.
pub fn alternatives(trials: &Trials) -> Vec<Comparison> {
    if trials.data.header.settings.aa {
        return Vec::new();
    }
    let only_controls = super::controls(&trials.data.header);
    let plans: Vec<&CasePlan> = trials
        .cases()
        .iter()
        .filter(|plan| plan.reference.is_some() && !only_controls.contains(&plan.case))
        .collect();
    let mut all = Vec::new();
    for (place, case) in plans.iter().enumerate() {
        for reference in plans[..place].iter().filter(|other| other.reference == case.reference) {
            let pairs = Pairs {
                case,
                reference,
                blocks: trials.pairs(&case.case, &reference.case),
            };
            all.extend(declared(trials, &pairs));
        }
    }
    adjust(trials, &mut all);
    all.into_iter().map(|one| one.comparison).collect()
}

/// Comparisons by the metrics that were declared in advance.
fn declared(trials: &Trials, pairs: &Pairs) -> Vec<Compared> {
    let metric = Metric::primary(&pairs.case.load);
    let found = [
        (metric, primary(trials, pairs)),
        (Metric::CpuPerRequest, cpu(trials, pairs)),
    ];
    judge_all(trials, pairs, found)
}

fn cpu(trials: &Trials, pairs: &Pairs) -> Option<Basis> {
    let arrive = cases::both_arrive(trials, &pairs.case.case, &pairs.reference.case);
    (arrive && trials.knows_servers())
        .then(|| located(pairs, trials::cpu_per_request))
        .flatten()
}

fn judge_all<const N: usize>(trials: &Trials, pairs: &Pairs, found: [(Metric, Option<Basis>); N]) -> Vec<Compared> {
    let known = found.into_iter().filter_map(|(metric, basis)| Some((metric, basis?)));
    known
        .map(|(metric, basis)| judge(trials, pairs, metric, basis))
        .collect()
}

/// Holm's adjustment over the metrics that were declared in advance: the primary metric of each load, and CPU time per
/// request.
fn adjust(trials: &Trials, all: &mut [Compared]) {
    let is_declared = |one: &Comparison| one.metric == Metric::CpuPerRequest || trials.is_primary(one);
    let mut family: Vec<&mut Compared> = all.iter_mut().filter(|one| is_declared(&one.comparison)).collect();
    let probabilities: Vec<f64> = family.iter().map(|one| one.log_ratio.p_value()).collect();
    for (one, adjusted) in family.iter_mut().zip(holm::adjust(&probabilities)) {
        one.comparison.adjusted_p = Some(adjusted);
    }
}

fn compare(trials: &Trials, pairs: &Pairs) -> Vec<Compared> {
    let latencies = pairs.latencies(trials);
    let latency = |share, name| latency(trials, pairs, latencies.as_ref()?, share, name);
    // The throughput of an open loop was requested, so comparing it makes no sense.
    let throughput = (!pairs.case.load.is_open()).then(|| located(pairs, trials::primary));
    let found = [
        (Metric::Throughput, throughput.flatten()),
        (Metric::LatencyP50, latency(0.5, MEDIAN)),
        (Metric::LatencyP99, latency(0.99, "latency_p99")),
        (Metric::CpuPerRequest, cpu(trials, pairs)),
    ];
    judge_all(trials, pairs, found)
}

/// The ratio that verdicts are about.
pub fn primary(trials: &Trials, pairs: &Pairs) -> Option<Basis> {
    match Metric::primary(&pairs.case.load) {
        Metric::LatencyP50 => latency(trials, pairs, &pairs.latencies(trials)?, 0.5, MEDIAN),
        _ => located(pairs, trials::primary),
    }
}

/// The ratio of a quantile.
fn latency(trials: &Trials, pairs: &Pairs, latencies: &MergedPairs, share: f64, name: &str) -> Option<Basis> {
    let log_ratio = latencies.log_ratio(share, trials.quantile_resampling(&pairs.case.case, name))?;
    Some(Basis {
        // Both readings have a rounding error.
        log_ratio: log_ratio.with_rounding(BIN_ERROR * std::f64::consts::SQRT_2),
        weights: Vec::new(),
    })
}

pub fn better(metric: Metric) -> Better {
    match metric {
        Metric::Throughput => Better::More,
        Metric::LatencyP50 | Metric::LatencyP99 | Metric::CpuPerRequest => Better::Less,
    }
}

fn judge(trials: &Trials, pairs: &Pairs, metric: Metric, basis: Basis) -> Compared {
    let log_ratio = basis.log_ratio;
    let margin = trials.data.header.settings.margin;
    let ratio = log_ratio.exponential(trials.confidence());
    let one_start = trials.restarts_servers() && pairs.rounds() < LEAST_STARTS;
    let verdict = if one_start {
        Verdict::Undecided
    } else {
        verdict::verdict(&ratio, margin, better(metric))
    };
    let more = || stopping::more_data(&log_ratio, margin, trials.confidence());
    let open = verdict == Verdict::Undecided && !one_start;
    let more_seconds = open.then(more).flatten().map(|more| more * trials.seconds());
    let comparison = Comparison {
        case: pairs.case.case.clone(),
        reference: pairs.reference.case.clone(),
        metric,
        ratio,
        verdict,
        perhaps: None,
        lower_bound: false,
        adjusted_p: None,
        blocks: u32::try_from(pairs.blocks.len()).unwrap_or(u32::MAX),
        one_start,
        more_seconds,
        materiality: None,
        run_delay_saved: run_delay::saved(trials, pairs, metric),
        published: None,
    };
    Compared {
        comparison,
        log_ratio,
        weights: basis.weights,
    }
}
