//! Each case against its reference, within blocks.
//!
//! Two metrics are declared in advance and have verdict sentences: the throughput of a closed loop, or the median
//! response time of an open one ([`Metric::primary`]), and the CPU time per request. The others are descriptive. Each
//! interval covers 95 % for its own comparison. The check `multiplicity` names verdicts that do not survive Holm's
//! adjustment over all declared ones.

use lasthop_model::record::{CasePlan, MeasuredTrial};
use lasthop_stats::{
    Better, Estimate, Interval, holm,
    location::{self, Located},
    quantile::MergedPairs,
    stopping, verdict,
};

use super::{
    absolute::Absolute,
    cases::{BIN_ERROR, MEDIAN},
    materiality,
    pairs::{Compared, Pairs},
    run_delay,
    summary::{Comparison, Metric, Verdict},
    trials::{self, Place, Trials},
    under_load::UnderLoad,
};

/// With fewer starts of the servers, nothing is known of how a ratio varies from one to the next.
const LEAST_STARTS: usize = 2;

/// What a comparison rests on.
struct Found {
    log_ratio: Estimate,
    unweighted: Option<Estimate>,
    weights: Vec<(Place, f64)>,
}

impl Found {
    /// Of blocks that all count alike.
    fn of(log_ratio: Estimate) -> Self {
        Self {
            log_ratio,
            unweighted: None,
            weights: Vec::new(),
        }
    }
}

/// Where the ratio of a quantity lies.
fn located(pairs: &Pairs, quantity: impl Fn(&MeasuredTrial) -> Option<f64> + Copy) -> Option<Found> {
    let Located {
        estimate: log_ratio,
        unweighted,
        weights,
    } = location::locate(&pairs.disturbed(quantity)?)?;
    let places = pairs.placed(quantity).map(|(place, _)| place);
    Some(Found {
        log_ratio,
        unweighted,
        weights: places.zip(weights).collect(),
    })
}

/// Where the ratio of the throughput lies: while others took nothing from the machine, if it depends on that.
fn throughput(trials: &Trials, pairs: &Pairs) -> Option<Found> {
    let found = located(pairs, trials::primary)?;
    let answer = UnderLoad::of(pairs).and_then(|under_load| under_load.answer(trials));
    Some(match answer {
        Some(log_ratio) => Found {
            log_ratio,
            unweighted: None,
            ..found
        },
        None => found,
    })
}

/// All comparisons with at least two blocks, ordered by case, then by metric.
pub fn compare_all(trials: &Trials) -> Vec<Compared> {
    let pairs: Vec<Pairs> = trials
        .cases()
        .iter()
        .filter_map(|plan| Pairs::of(trials, plan))
        .collect();
    let mut all: Vec<Compared> = pairs.iter().flat_map(|pairs| compare(trials, pairs)).collect();
    adjust(trials, &mut all);
    if !trials.ratios_only {
        let worth = materiality::of_all(trials, &Absolute::of(trials, &all), &all);
        all.iter_mut()
            .zip(worth)
            .for_each(|(one, worth)| one.comparison.materiality = worth);
    }
    all
}

/// Every two alternatives with the same reference, compared like each with that. They are a family of their own.
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
        for other in plans[..place].iter().filter(|other| other.reference == case.reference) {
            let blocks = trials.pairs(&case.case, &other.case);
            all.extend(declared(
                trials,
                &Pairs {
                    case,
                    reference: other,
                    blocks,
                },
            ));
        }
    }
    adjust(trials, &mut all);
    all.into_iter().map(|one| one.comparison).collect()
}

/// By the metrics that were declared beforehand.
fn declared(trials: &Trials, pairs: &Pairs) -> Vec<Compared> {
    let primary = match Metric::primary(&pairs.case.load) {
        Metric::LatencyP50 => primary(trials, pairs).map(Found::of),
        _ => throughput(trials, pairs),
    };
    let cpu = if trials.knows_servers() {
        located(pairs, |trial| trials.cpu_per_request(trial))
    } else {
        None
    };
    let found = [
        (Metric::primary(&pairs.case.load), primary),
        (Metric::CpuPerRequest, cpu),
    ];
    found
        .into_iter()
        .filter_map(|(metric, found)| Some(judge(trials, pairs, metric, found?)))
        .collect()
}

/// Holm's adjustment over the metrics that were declared beforehand: the primary one of each load, and CPU per request.
fn adjust(trials: &Trials, all: &mut [Compared]) {
    let is_declared = |Comparison { case, metric, .. }: &Comparison| {
        *metric == Metric::CpuPerRequest
            || trials
                .plan(case)
                .is_some_and(|plan| Metric::primary(&plan.load) == *metric)
    };
    let mut family: Vec<&mut Compared> = all.iter_mut().filter(|one| is_declared(&one.comparison)).collect();
    let probabilities: Vec<f64> = family.iter().map(|one| one.log_ratio.p_value()).collect();
    for (one, adjusted) in family.iter_mut().zip(holm::adjust(&probabilities)) {
        one.comparison.adjusted_p = Some(adjusted);
    }
}

fn compare(trials: &Trials, pairs: &Pairs) -> Vec<Compared> {
    let latencies = pairs.latencies(trials);
    let latency = |share, name| Some(Found::of(latency(trials, pairs, latencies.as_ref()?, share, name)?));
    // The throughput of an open loop was asked for, so comparing it makes no sense.
    let is_open = pairs.case.load.is_open();
    let cpu = || located(pairs, |trial| trials.cpu_per_request(trial));
    let found = [
        (
            Metric::Throughput,
            if is_open { None } else { throughput(trials, pairs) },
        ),
        (Metric::LatencyP50, latency(0.5, MEDIAN)),
        (Metric::LatencyP99, latency(0.99, "latency_p99")),
        (Metric::CpuPerRequest, if trials.knows_servers() { cpu() } else { None }),
    ];
    found
        .into_iter()
        .filter_map(|(metric, found)| Some(judge(trials, pairs, metric, found?)))
        .collect()
}

/// Logarithm of the ratio that verdicts are about.
pub fn primary(trials: &Trials, pairs: &Pairs) -> Option<Estimate> {
    match Metric::primary(&pairs.case.load) {
        Metric::LatencyP50 => latency(trials, pairs, &pairs.latencies(trials)?, 0.5, MEDIAN),
        _ => Some(throughput(trials, pairs)?.log_ratio),
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

fn judge(trials: &Trials, pairs: &Pairs, metric: Metric, found: Found) -> Compared {
    let Found {
        log_ratio,
        unweighted,
        weights,
    } = found;
    let margin = trials.data.header.settings.margin;
    let Interval { estimate, low, high } = log_ratio.exponential(trials.confidence());
    let one_start = trials.restarts_servers() && pairs.rounds() < LEAST_STARTS;
    let verdict = match one_start {
        true => Verdict::Undecided,
        false => verdict::verdict(&Interval { estimate, low, high }, margin, better(metric)).into(),
    };
    let more = || stopping::more_data(&log_ratio, margin, trials.confidence());
    let open = verdict == Verdict::Undecided && !one_start;
    let more_seconds = open.then(more).flatten().map(|more| more * trials.seconds());
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
        one_start,
        more_seconds,
        materiality: None,
        run_delay_saved: if trials.ratios_only {
            None
        } else {
            run_delay::saved(trials, pairs, metric)
        },
    };
    Compared {
        comparison,
        log_ratio,
        unweighted,
        weights,
    }
}
