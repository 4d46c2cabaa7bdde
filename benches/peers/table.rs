//! Ratios with intervals over rounds.

use std::fs;

use lasthop_stats::{CONFIDENCE, Grouped, Interval, Resampling, mean};

use crate::{
    page::{Agreement, Cost},
    scenario::{Scenario, Server},
    tool::{Measured, Tool},
};

/// Facts about the machine that a reader needs to judge the figures.
pub fn environment() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let cpu = read("/proc/cpuinfo")
        .lines()
        .find_map(|line| {
            line.strip_prefix("model name")
                .map(|rest| rest.trim_start_matches(['\t', ' ', ':']).to_owned())
        })
        .unwrap_or_default();
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    format!(
        "{cpu}, {cpus} CPUs, Linux {}; load average {}",
        read("/proc/sys/kernel/osrelease"),
        read("/proc/loadavg")
    )
}

type Rounds = [Vec<(Tool, Measured)>];

/// Ratios of lasthop to every peer of a scenario.
pub fn costs(scenario: &Scenario, rounds: &Rounds) -> Vec<Cost> {
    let quantity = |measured: &Measured| compared(scenario, measured);
    let cost = |(peer, target): &(Tool, f64)| {
        let ratio = ratio(rounds, (Tool::Lasthop, *peer), |measured| Some(quantity(measured)))?;
        Some(Cost {
            scenario: scenario.name.clone(),
            peer: peer.name().to_owned(),
            lasthop: geometric_mean(rounds, Tool::Lasthop, quantity),
            theirs: geometric_mean(rounds, *peer, quantity),
            ratio: ratio.estimate,
            low: ratio.low,
            high: ratio.high,
            target: *target,
            rounds: rounds.len(),
        })
    };
    scenario.targets.iter().filter_map(cost).collect()
}

/// Measurements of each tool, by round.
pub type Series = Vec<Vec<(Tool, Measured)>>;

/// Requests per CPU second. For round trips of one connection their rate, which is the inverse of their mean time.
fn compared(scenario: &Scenario, measured: &Measured) -> f64 {
    if scenario.server == Server::Echo {
        measured.throughput
    } else {
        measured.per_cpu_second
    }
}

/// Throughput and median of lasthop against each peer. Both measure one server, so their figures should agree if the
/// server is the limit.
pub fn agreement(scenario: &Scenario, rounds: &Rounds) -> Vec<Agreement> {
    let agreement = |(peer, _): &(Tool, f64)| {
        let throughput = ratio(rounds, (Tool::Lasthop, *peer), |measured| Some(measured.throughput))?;
        let median = ratio(rounds, (Tool::Lasthop, *peer), |measured| measured.median_us);
        let in_flight_theirs = in_flight(scenario, rounds, *peer);
        Some(Agreement {
            scenario: scenario.name.clone(),
            peer: peer.name().to_owned(),
            throughput: throughput.estimate,
            throughput_low: throughput.low,
            throughput_high: throughput.high,
            median: median.map(|ratio| ratio.estimate),
            median_low: median.map(|ratio| ratio.low),
            median_high: median.map(|ratio| ratio.high),
            in_flight: in_flight(scenario, rounds, Tool::Lasthop),
            in_flight_theirs,
            rounds: rounds.len(),
        })
    };
    // The floor does not time replies.
    scenario
        .targets
        .iter()
        .filter(|(peer, _)| *peer != Tool::Floor)
        .filter_map(agreement)
        .collect()
}

/// Mean requests in flight as a share of connections × pipeline, which a closed loop keeps. By Little's law, mean
/// latency × throughput is the number of requests in flight. A value below 1 shows time that the tool's clocks do not
/// see.
fn in_flight(scenario: &Scenario, rounds: &Rounds, tool: Tool) -> Option<f64> {
    let asked = f64::from(scenario.connections * scenario.pipeline);
    let share = |round: &Vec<(Tool, Measured)>| {
        let measured = measured_by(round, tool)?;
        Some(measured.mean_us? / 1e6 * measured.throughput / asked)
    };
    let shares: Vec<f64> = rounds.iter().filter_map(share).collect();
    median(&shares)
}

fn measured_by(round: &[(Tool, Measured)], tool: Tool) -> Option<Measured> {
    round
        .iter()
        .find(|(own, _)| *own == tool)
        .map(|(_, measured)| *measured)
}

/// The ratio of the first tool to the second, within each round.
pub fn ratio(
    rounds: &Rounds,
    (own, peer): (Tool, Tool),
    quantity: impl Fn(&Measured) -> Option<f64>,
) -> Option<Interval> {
    let log = |round: &Vec<(Tool, Measured)>| {
        let (ours, theirs) = (measured_by(round, own)?, measured_by(round, peer)?);
        Some(vec![(quantity(&ours)? / quantity(&theirs)?).ln()])
    };
    let values = Grouped::new(rounds.iter().filter_map(log).collect())?;
    Some(mean::mean(&values, Resampling::new(1))?.exponential(CONFIDENCE))
}

pub fn geometric_mean(rounds: &Rounds, tool: Tool, quantity: impl Fn(&Measured) -> f64) -> f64 {
    let logs: Vec<f64> = rounds
        .iter()
        .filter_map(|round| Some(quantity(&measured_by(round, tool)?).ln()))
        .collect();
    (logs.iter().sum::<f64>() / logs.len().max(1) as f64).exp()
}

/// Median of the values; `None` without values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}
