//! The metrics of each case.

use indexmap::IndexMap;
use lasthop_model::{
    observation::{CgroupUsage, RoleUsage},
    record::{CasePlan, CaseProof, LoadSummary, MeasuredTrial},
};
use lasthop_stats::{Estimate, Interval, mean, quantile::Merged};
use lasthop_trial::{
    Histogram, TrialResult,
    result::{DriverCost, Offered, OneWay as Sending, Reported},
};
use serde::Serialize;

use super::{
    absolute::{Absolute, Figure},
    run_delay,
    summary::{CaseSummary, CpuPerRequest, Measured, Metric, Metrics, OneWay, OpenLoop, ProofSummary, Throttled},
    trials::{self, DRIVER, Trials, grouped},
    waits,
};

/// Standard error of a value read from a bin of a histogram with three significant digits: bins are at most 1/1024
/// wide, and a value may be anywhere within, so that its standard deviation is the width divided by √12.
pub const BIN_ERROR: f64 = 1.0 / 1_024.0 / 3.464_101_6;

/// Name of the draws for the median latency.
pub const MEDIAN: &str = "latency_p50";

pub fn summarise_all(trials: &Trials, absolute: &Absolute) -> Vec<CaseSummary> {
    trials
        .cases()
        .iter()
        .map(|plan| summarise(trials, absolute, plan))
        .collect()
}

fn summarise(trials: &Trials, absolute: &Absolute, plan: &CasePlan) -> CaseSummary {
    let case = plan.case.as_str();
    CaseSummary {
        case: case.to_owned(),
        levels: plan.levels.clone(),
        transport: plan.transport,
        reference: trials
            .cases()
            .iter()
            .any(|other| other.reference.as_deref() == Some(case)),
        load: LoadSummary {
            threads: driver_threads(trials, plan),
            ..plan.load.clone()
        },
        trials: u32::try_from(trials.count(case)).unwrap_or(u32::MAX),
        failed_trials: u32::try_from(trials.failed(case).len()).unwrap_or(u32::MAX),
        requests: trials.sum(case, |trial| trial.result.requests),
        errors: errors(trials, case),
        metrics: metrics(trials, absolute, plan),
        proof: proof(trials, case),
        headroom: headroom(trials, plan),
        reported: reported(trials, case),
        throttled: throttled(trials, case),
        trial_seconds: trials
            .of_case(case)
            .find_map(|trial| trial.phases)
            .map(|phases| phases.measure_ns as f64 / 1e9),
        wait: waits::of_case(trials, plan),
    }
}

fn reported(trials: &Trials, case: &str) -> Option<Reported> {
    let all = trials
        .of_case(case)
        .filter_map(|trial| trial.result.reported.as_deref());
    let all: Vec<&Reported> = all.collect();
    let average = |of: fn(&Reported) -> Option<f64>| {
        let values: Option<Vec<f64>> = all.iter().map(|one| of(one)).collect();
        mean::of(values?)
    };
    Some(Reported {
        mean_ns: average(|one| one.mean_ns),
        deviation_ns: average(|one| one.deviation_ns),
        median_ns: average(|one| one.median_ns),
        p99_ns: average(|one| one.p99_ns),
        max_ns: average(|one| one.max_ns),
        ..(*all.first()?).clone()
    })
}

/// Throttled services: those that a CPU limit stopped at least once.
pub fn throttled(trials: &Trials, case: &str) -> IndexMap<String, Throttled> {
    let wall = trials.sum(case, |trial| trial.observations.machine.wall_ns);
    let of_role = |name: &str| {
        let mut sum = CgroupUsage::default();
        let all = trials
            .of_case(case)
            .filter_map(|trial| trial.observations.roles.get(name)?.cgroup);
        all.for_each(|cgroup| sum.add(cgroup));
        (sum.throttled > 0).then(|| Throttled {
            times: sum.throttled,
            periods: sum.periods,
            seconds: sum.throttled_ns as f64 / 1e9,
            share: sum.throttled_ns as f64 / wall.max(1) as f64,
        })
    };
    roles(trials, case)
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), of_role(name)?)))
        .collect()
}

/// Headroom: the throughput against a null server divided by the throughput over all trials of the case, or by the rate
/// of an open loop.
pub fn headroom(trials: &Trials, plan: &CasePlan) -> Option<f64> {
    let case = plan.case.as_str();
    let null = trials.data.rounds().find_map(|round| round.headroom.get(case))?;
    if let Some(rate) = plan.load.rate {
        return Some(null / rate);
    }
    let requests = trials.sum(case, |trial| trial.result.requests);
    let nanoseconds = trials.sum(case, |trial| trial.result.elapsed_ns);
    (requests > 0).then(|| null * nanoseconds as f64 / 1e9 / requests as f64)
}

/// Number of errors by class.
pub fn errors(trials: &Trials, case: &str) -> IndexMap<String, u64> {
    let mut errors = std::collections::BTreeMap::new();
    for (class, error) in trials.errors(case) {
        *errors.entry(*class).or_insert(0) += error.count;
    }
    errors
        .into_iter()
        .map(|(class, count)| (name_of(class), count))
        .collect()
}

/// The name of a plain enum value, as in records and JSON, such as an error class or a metric.
#[must_use]
pub fn name_of(value: impl Serialize) -> String {
    serde_json::to_value(value)
        .ok()
        .and_then(|name| name.as_str().map(str::to_owned))
        .unwrap_or_default()
}

/// The proof of the last round, with the path of the first round that started.
fn proof(trials: &Trials, case: &str) -> Option<ProofSummary> {
    let CaseProof { driver, link, .. } = trials.proofs(case).last()?;
    let path = trials.proofs(case).map(|seen| &seen.path).find(|path| !path.is_empty());
    Some(ProofSummary {
        family: driver.family.clone(),
        tls_version: driver.tls_version.clone(),
        tls_cipher: driver.tls_cipher.clone(),
        reused: driver.reused,
        link: link.clone(),
        path: path.cloned().unwrap_or_default(),
    })
}

/// The unit of a figure, and the factor for converting to it.
fn told_in(metric: Metric) -> (&'static str, f64) {
    match metric {
        Metric::Throughput => ("1/s", 1.0),
        Metric::LatencyP50 | Metric::LatencyP99 => ("us", 1e-3),
        Metric::CpuPerRequest => ("us", 1.0),
    }
}

fn metrics(trials: &Trials, absolute: &Absolute, plan: &CasePlan) -> Option<Metrics> {
    let figure = |metric, (unit, factor)| {
        let figure = absolute.figure(&plan.case, metric)?;
        Some(measured(unit, &figure, trials.confidence(), factor))
    };
    let [throughput, latency_p50, latency_p99] =
        [Metric::Throughput, Metric::LatencyP50, Metric::LatencyP99].map(|metric| figure(metric, told_in(metric)));
    let bytes = plan.load.bytes;
    let mut metrics = Metrics {
        throughput: throughput?,
        bandwidth: bytes.and_then(|bytes| figure(Metric::Throughput, ("bytes/s", bytes as f64))),
        latency_p50,
        latency_p99,
        latency_mean: merged(trials, &plan.case, TrialResult::latency)
            .filter(|_| trials.is_steady(&plan.case))
            .map(|all| all.mean() / 1e3),
        latency_max: slowest(trials, &plan.case).filter(|_| trials.is_steady(&plan.case)),
        reply_bytes: reply_bytes(trials, &plan.case),
        cpu_per_byte: None,
        cpu_per_request: cpu_per_request(trials, absolute, plan),
        switches_per_request: by_role(
            trials,
            &plan.case,
            |_| 1.0,
            |cost| cost.voluntary_switches + cost.involuntary_switches,
            |usage| usage.voluntary_switches + usage.involuntary_switches,
        ),
        run_delay: run_delay::by_role(trials, &plan.case),
        driver_system_calls_per_request: per(trials, &plan.case, |t| t.result.cost.system_calls as f64, answered),
        driver_load: driver_load(trials, plan),
        open_loop: open_loop(trials, plan),
        one_way: one_way(trials, absolute, plan),
    };
    // Converts microseconds to nanoseconds.
    metrics.cpu_per_byte = bytes.map(|bytes| metrics.cpu_total() * 1e3 / bytes.max(1) as f64);
    Some(metrics)
}

fn reply_bytes(trials: &Trials, case: &str) -> Option<f64> {
    let [bytes, requests] = [
        trials.sum(case, |trial| trial.result.bytes_received),
        trials.sum(case, |trial| trial.result.requests),
    ];
    (bytes > 0 && requests > 0).then(|| bytes as f64 / requests as f64)
}

fn open_loop(trials: &Trials, plan: &CasePlan) -> Option<OpenLoop> {
    let offered = offered(trials, &plan.case)?;
    let lag = merged(trials, &plan.case, |result| result.lag.as_ref());
    let lag_us = |share| lag.as_ref().map(|lag| lag.quantile(share) as f64 / 1e3);
    Some(OpenLoop {
        scheduled: offered.scheduled,
        sent: offered.sent,
        reached: offered.is_reached(),
        lag_p50_us: lag_us(0.5),
        lag_p99_us: lag_us(0.99),
    })
}

/// The totals of all trials that sent one way; `None` if there are replies.
pub fn sending(trials: &Trials, case: &str) -> Option<Sending> {
    let all = trials
        .every_of(case)
        .filter_map(|trial| trial.result.one_way.as_deref());
    all.copied().reduce(|sum, next| Sending {
        sent: sum.sent + next.sent,
        waited: sum.waited + next.waited,
        sent_total: sum.sent_total + next.sent_total,
        received_total: sum.received_total + next.received_total,
        // If unknown for one trial, the total is unknown.
        dropped_total: sum.dropped_total.zip(next.dropped_total).map(|(sum, next)| sum + next),
    })
}

/// Whether all sent requests were received, within the margin. Otherwise, CPU time per request includes that of lost
/// requests, and a difference may be one in loss.
fn arrives(trials: &Trials, case: &str) -> bool {
    let margin = trials.data.header.settings.margin;
    sending(trials, case).is_none_or(|all| all.lost() as f64 <= margin * all.sent_total as f64)
}

/// Whether all requests of two cases arrive, so that the cases can be compared by cost per request.
pub fn both_arrive(trials: &Trials, case: &str, reference: &str) -> bool {
    arrives(trials, case) && arrives(trials, reference)
}

fn one_way(trials: &Trials, absolute: &Absolute, plan: &CasePlan) -> Option<OneWay> {
    let case = plan.case.as_str();
    let all = sending(trials, case)?;
    let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
    let sent = |count: fn(&Sending) -> u64| {
        move |trial: &MeasuredTrial| trial.result.one_way.as_deref().map_or(0.0, |one| count(one) as f64)
    };
    // From the blocks of the received requests, with their weights.
    let weight = |trial: &MeasuredTrial| absolute.weight(trial, Metric::Throughput);
    let sent_for_each = per(
        trials,
        case,
        |trial| weight(trial) * sent(|one| one.sent)(trial),
        |trial| weight(trial) * answered(trial),
    );
    let services = |trial: &MeasuredTrial| trial.observations.services_cpu_ns() as f64;
    let services = per(trials, case, services, sent(|one| one.sent_total));
    Some(OneWay {
        sent: all.sent_total,
        received: all.received_total,
        dropped: all.dropped_total,
        lost: share(all.lost(), all.sent_total),
        sent_per_s: absolute.figure(case, Metric::Throughput)?.value * sent_for_each,
        waited: share(all.waited, all.sent),
        cpu_us_per_sent: services / 1e3,
    })
}

/// Requests that an open loop should have sent in all trials, and those that it sent; `None` for a closed loop. Trials
/// without a reply count too, because an overload may look like that.
pub fn offered(trials: &Trials, case: &str) -> Option<Offered> {
    let all = trials.every_of(case).filter_map(|trial| trial.result.offered);
    all.reduce(|sum, next| Offered {
        scheduled: sum.scheduled + next.scheduled,
        sent: sum.sent + next.sent,
        ..sum
    })
}

/// All latencies of one kind; `None` without latencies.
pub fn merged(trials: &Trials, case: &str, pick: impl Fn(&TrialResult) -> Option<&Histogram>) -> Option<Histogram> {
    let all: Histogram = trials.of_case(case).filter_map(|trial| pick(&trial.result)).collect();
    Some(all).filter(|all| !all.is_empty())
}

/// A figure by which runs are compared, with its logarithm.
pub struct KnownFigure {
    pub metric: Metric,
    pub measured: Measured,
    pub log: Estimate,
}

/// Figures of a case that have an interval. The throughput of an open loop is left out, because it was requested.
pub fn known(trials: &Trials, absolute: &Absolute, plan: &CasePlan) -> Vec<KnownFigure> {
    let of = |metric| {
        let is_known = match metric {
            Metric::Throughput => !plan.load.is_open(),
            Metric::CpuPerRequest => trials.knows_servers() && arrives(trials, &plan.case),
            _ => true,
        };
        let figure = absolute.figure(&plan.case, metric).filter(|_| is_known)?;
        let (unit, factor) = told_in(metric);
        Some(KnownFigure {
            metric,
            measured: measured(unit, &figure, trials.confidence(), factor),
            log: figure.log?,
        })
    };
    Metric::ALL.into_iter().filter_map(of).collect()
}

/// All latencies of a case, by round; `None` without latencies, or if the trials are not steady enough to show them.
pub fn latencies(trials: &Trials, case: &str) -> Option<Merged> {
    let steady = trials.of_case(case).filter(|_| trials.is_steady(case));
    let blocks = grouped(steady.filter_map(|trial| Some((trial.round, trials::latencies(trial)?))))?;
    Some(Merged::of(&blocks))
}

/// The logarithm of a latency quantile in nanoseconds; `name` is the name of its draws.
pub fn log_latency(trials: &Trials, case: &str, latencies: &Merged, share: f64, name: &str) -> Option<Estimate> {
    let estimate = latencies.log(share, trials.quantile_resampling(case, name))?;
    Some(estimate.with_rounding(BIN_ERROR))
}

/// A figure with its interval. With one block, or if only ratios are wanted, there is no interval: `low` and `high`
/// repeat the estimate, and for one block the check `no-interval` fires.
fn measured(unit: &str, figure: &Figure, confidence: f64, factor: f64) -> Measured {
    let alone = Interval::exact(figure.value);
    let interval = figure.log.map_or(alone, |log| log.exponential(confidence));
    Measured::of(unit, interval.times(factor))
}

/// The slowest correct reply, in microseconds.
fn slowest(trials: &Trials, case: &str) -> Option<f64> {
    let histograms = trials.of_case(case).filter_map(trials::latency);
    histograms.map(|all| all.max() as f64 / 1e3).reduce(f64::max)
}

fn answered(trial: &MeasuredTrial) -> f64 {
    trial.result.requests as f64
}

/// A total divided by another total over all trials of a case.
fn per(
    trials: &Trials,
    case: &str,
    numerator: impl Fn(&MeasuredTrial) -> f64,
    denominator: impl Fn(&MeasuredTrial) -> f64,
) -> f64 {
    trials.of_case(case).map(numerator).sum::<f64>() / trials.of_case(case).map(denominator).sum::<f64>()
}

/// Names of the services observed in a case. A process that lasthop did not start, and that was absent in some trials,
/// is left out, because its share is unknown.
pub fn roles<'a>(trials: &Trials<'a>, case: &str) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    let is_told = |name: &str| trials.data.header.given.is_none() || trials.has_always(case, name);
    for name in trials.of_case(case).flat_map(|trial| trial.observations.roles.keys()) {
        if !names.contains(&name.as_str()) && is_told(name) {
            names.push(name);
        }
    }
    names
}

/// CPU time per correct reply, for the driver and then the services: the driver's in the measure phase, and a service's
/// in the whole trial. Trials count by their weights.
fn by_role(
    trials: &Trials,
    case: &str,
    weight: impl Fn(&MeasuredTrial) -> f64,
    driver: fn(&DriverCost) -> u64,
    service: fn(&RoleUsage) -> u64,
) -> IndexMap<String, f64> {
    let role = |name: &str| {
        let count = |trial: &MeasuredTrial| trial.observations.roles.get(name).map_or(0, service) as f64;
        per(
            trials,
            case,
            |trial| weight(trial) * count(trial),
            |trial| weight(trial) * trials::served(trial),
        )
    };
    let services = roles(trials, case).into_iter();
    let services = services.map(|name| (name.to_owned(), role(name)));
    let cost = |trial: &MeasuredTrial| weight(trial) * driver(&trial.result.cost) as f64;
    let driver = per(trials, case, cost, |trial| weight(trial) * answered(trial));
    std::iter::once((DRIVER.to_owned(), driver)).chain(services).collect()
}

/// CPU time per request by role, so that the services add up to the figure of the case.
fn cpu_per_request(trials: &Trials, absolute: &Absolute, plan: &CasePlan) -> CpuPerRequest {
    let metric = Metric::CpuPerRequest;
    let mut cpu = by_role(
        trials,
        &plan.case,
        |trial| absolute.weight(trial, metric),
        DriverCost::cpu_ns,
        |usage| usage.cpu_ns,
    );
    cpu.values_mut().for_each(|nanoseconds| *nanoseconds /= 1e3);
    let driver = cpu.shift_remove(DRIVER).unwrap_or_default();
    let mut cpu = CpuPerRequest {
        unit: "us".to_owned(),
        driver,
        roles: cpu,
    };
    let wanted = absolute
        .figure(&plan.case, metric)
        .map_or(f64::NAN, |figure| figure.value / cpu.total());
    if wanted.is_finite() {
        cpu.scale(wanted);
    }
    cpu
}

/// Number of the driver's threads, which may exceed the plan on free CPUs.
pub fn driver_threads(trials: &Trials, plan: &CasePlan) -> u32 {
    let proof = trials.proofs(&plan.case).last();
    let own = proof.filter(|_| plan.load.is_own()).map(|proof| proof.spec.threads);
    own.unwrap_or_default().max(plan.load.threads).max(1)
}

/// Share of the trials' time in which the driver's threads waited for a CPU; `None` if not measured.
pub fn driver_run_delay(trials: &Trials, plan: &CasePlan) -> Option<f64> {
    let delays = trials.of_case(&plan.case).map(|trial| trial.result.cost.run_delay_ns);
    let delay = delays.sum::<Option<u64>>()?;
    let time = trials.sum(&plan.case, |trial| trial.result.elapsed_ns);
    let share = delay as f64 / (time as f64 * f64::from(driver_threads(trials, plan)));
    Some(share).filter(|share| share.is_finite())
}

/// The driver's CPU time, as a share of a core per thread; 0 for a case without trials.
pub fn driver_load(trials: &Trials, plan: &CasePlan) -> f64 {
    let threads = f64::from(driver_threads(trials, plan));
    let load = per(
        trials,
        &plan.case,
        |trial| trial.result.cost.cpu_ns() as f64,
        |trial| trial.result.driven_ns() as f64,
    );
    if load.is_finite() { load / threads } else { 0.0 }
}
