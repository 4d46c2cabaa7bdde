//! Trials that are too short for their measurement.

use std::time::Duration;

use lasthop_model::{
    quantity::written,
    record::{CasePlan, Settings},
};
use lasthop_stats::stopping::LEAST_BLOCKS;

use super::finding::{Finding, doubt};
use crate::{
    steady::{self, TooShort},
    trials::Trials,
};

/// Length of a trial with slow replies and all its phases, in multiples of a slow reply: the warm-up, four for the
/// trial, and the last replies.
const UNITS: u64 = 7;

/// Latencies that contradict the throughput.
pub fn littles_law(trials: &Trials, plan: &CasePlan) -> Option<Finding> {
    let little = steady::little(trials, plan).filter(|little| !little.holds())?;
    let least = little.possible.start();
    let most = little.possible.end();
    let known = if (most - least) / most < 0.05 {
        format!("{most:.0}")
    } else {
        format!("{least:.1} to {most:.0}")
    };
    let text = format!(
        "by Little's law, the mean latency and the throughput make {:.1} requests under way at a time; the \
         connections had {known}",
        little.under_way
    );
    let effect = "the trials do not show a steady state, so its latencies are left out, and its throughput may be off: use \
                  longer trials (--trial) and a longer warm-up (--warm-up)";
    Some(doubt(text, effect))
}

/// Replies that are slow for the length of their trials.
pub fn short_trials(trials: &Trials, plan: &CasePlan) -> Option<Finding> {
    let short = steady::too_short(trials, plan)?;
    let text = format!(
        "slow replies, with a tenth of the time of all connections, take {} and longer; a trial takes {}",
        said(short.slow_ns),
        said(short.trial_ns)
    );
    let left_out = if steady::is_steady(trials, plan) {
        "its latencies and throughput are partly those of a load that has just begun"
    } else {
        "its latencies are left out, and its throughput is partly that of a load that has just begun"
    };
    Some(doubt(text, format!("{left_out}: {}", advice(trials, short))))
}

fn advice(trials: &Trials, short: TooShort) -> String {
    let Settings {
        lengthens, budget_ns, ..
    } = trials.data.header.settings;
    let needed = trials.cases().len() as u64 * UNITS * short.slow_ns * LEAST_BLOCKS as u64;
    if !lengthens {
        return format!(
            "use `--trial {}` or more, or leave out --trial",
            whole(short.slow_ns * 4)
        );
    }
    if needed > budget_ns {
        format!("its trials would be longer with `--budget {}`", whole(needed))
    } else {
        "a longer run will find the length that its trials need".to_owned()
    }
}

fn said(nanoseconds: u64) -> String {
    match nanoseconds as f64 / 1e6 {
        milliseconds if milliseconds < 1e3 => format!("{milliseconds:.0} ms"),
        milliseconds => format!("{:.1} s", milliseconds / 1e3),
    }
}

/// A duration rounded up, in an option's syntax.
fn whole(nanoseconds: u64) -> String {
    let unit = if nanoseconds < 1_000_000_000 {
        1_000_000
    } else {
        1_000_000_000
    };
    written(Duration::from_nanos(nanoseconds.div_ceil(unit) * unit))
}
