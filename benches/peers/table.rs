//! Ratios with intervals, as Markdown.

use std::{fmt::Write as _, fs};

use lasthop_stats::{CONFIDENCE, Grouped, Interval, Resampling, mean};

use crate::{
    scenario::{Scenario, Server},
    tool::{Measured, Tool},
};

pub const HEAD: &str = "\
| scenario | lasthop, thousand requests per CPU second (echo: round trips per second) | against | theirs | ratio (95 % interval) | target | |
|---|---|---|---|---|---|---|";

/// What a reader needs to judge the figures.
pub fn environment() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let cpu = read("/proc/cpuinfo")
        .lines()
        .find_map(|line| {
            line.strip_prefix("model name").map(|rest| rest.trim_start_matches(['\t', ' ', ':']).to_owned())
        })
        .unwrap_or_default();
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    format!("{cpu}, {cpus} CPUs, Linux {}; load average {}", read("/proc/sys/kernel/osrelease"), read("/proc/loadavg"))
}

type Rounds = [Vec<(Tool, Measured)>];

/// A line for each peer of a scenario.
pub fn rows(scenario: &Scenario, rounds: &Rounds) -> String {
    let mut text = String::new();
    for (peer, target) in &scenario.targets {
        let quantity = |measured: &Measured| compared(scenario, measured);
        let Some(ratio) = ratio(rounds, (Tool::Lasthop, *peer), |measured| Some(quantity(measured))) else { continue };
        let thousand = |tool| geometric_mean(rounds, tool, quantity) / 1e3;
        let mark = match (ratio.estimate >= *target, ratio.high >= *target) {
            (true, _) => "reached",
            (false, true) => "within the interval",
            (false, false) => "**missed**",
        };
        let _ = writeln!(
            text,
            "| {} | {:.1} | {} | {:.1} | {} | ≥ {target:.2} | {mark} |",
            scenario.name,
            thousand(Tool::Lasthop),
            peer.name(),
            thousand(*peer),
            shown(&ratio),
        );
    }
    text
}

/// What each tool measured, round by round.
pub type Series = Vec<Vec<(Tool, Measured)>>;

/// Requests per CPU second; for round trips of one connection their rate, which is the inverse of their mean time.
fn compared(scenario: &Scenario, measured: &Measured) -> f64 {
    if scenario.server == Server::Echo { measured.throughput } else { measured.per_cpu_second }
}

/// Throughput and median of lasthop against each peer: both measure the same server, so they should agree where the
/// server is what limits them.
pub fn agreement(all: &[(Scenario, Series)]) -> String {
    let mut text = "| scenario | against | throughput, ratio | median, ratio | in flight by the clocks: lasthop | theirs |\n|---|---|---|---|---|---|\n".to_owned();
    for (scenario, rounds) in all {
        for (peer, _) in &scenario.targets {
            let Some(throughput) = ratio(rounds, (Tool::Lasthop, *peer), |measured| Some(measured.throughput)) else {
                continue;
            };
            let median = ratio(rounds, (Tool::Lasthop, *peer), |measured| measured.median_us);
            let median = median.map_or_else(|| "–".to_owned(), |ratio| shown(&ratio));
            let _ = writeln!(
                text,
                "| {} | {} | {} | {median} | {} | {} |",
                scenario.name,
                peer.name(),
                shown(&throughput),
                in_flight(scenario, rounds, Tool::Lasthop),
                in_flight(scenario, rounds, *peer)
            );
        }
    }
    text
}

/// Little's law: mean latency × throughput is the number of requests that are on their way, which a closed loop keeps at
/// connections × pipeline. What is missing from 1 is time that a tool's clocks do not see.
fn in_flight(scenario: &Scenario, rounds: &Rounds, tool: Tool) -> String {
    let asked = f64::from(scenario.connections * scenario.pipeline);
    let share = |round: &Vec<(Tool, Measured)>| {
        let measured = of(round, tool)?;
        Some(measured.mean_us? / 1e6 * measured.throughput / asked)
    };
    let shares: Vec<f64> = rounds.iter().filter_map(share).collect();
    median(&shares).map_or_else(|| "–".to_owned(), |share| format!("{share:.2}"))
}

pub fn shown(ratio: &Interval) -> String {
    format!("{:.2} ({:.2}–{:.2})", ratio.estimate, ratio.low, ratio.high)
}

fn of(round: &[(Tool, Measured)], tool: Tool) -> Option<Measured> {
    round.iter().find(|(own, _)| *own == tool).map(|(_, measured)| *measured)
}

/// The first tool by the second, within each round.
pub fn ratio(
    rounds: &Rounds,
    (own, peer): (Tool, Tool),
    quantity: impl Fn(&Measured) -> Option<f64>,
) -> Option<Interval> {
    let log = |round: &Vec<(Tool, Measured)>| {
        let (ours, theirs) = (of(round, own)?, of(round, peer)?);
        Some(vec![(quantity(&ours)? / quantity(&theirs)?).ln()])
    };
    let values = Grouped::new(rounds.iter().filter_map(log).collect()).ok()?;
    Some(mean::mean(&values, Resampling::new(1))?.exponential(CONFIDENCE))
}

pub fn geometric_mean(rounds: &Rounds, tool: Tool, quantity: impl Fn(&Measured) -> f64) -> f64 {
    let logs: Vec<f64> = rounds.iter().filter_map(|round| Some(quantity(&of(round, tool)?).ln())).collect();
    (logs.iter().sum::<f64>() / logs.len().max(1) as f64).exp()
}

/// Median of some values; `None` of none.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}
