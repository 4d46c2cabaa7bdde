//! Checks of trust: what speaks against a result, each with its evidence and its effect.
//!
//! A check is a function from [`Evidence`] to the findings that it has; ids are stable. To add one, write the function and
//! put it into `CHECKS`.

mod configuration;
mod containers;
mod cross_check;
mod design;
pub mod driver;
mod errors;
mod latency;
mod link;
mod machine;
mod network;
mod open_loop;
mod order;
mod pause;
#[cfg(test)]
mod tests;
mod time_wait;

use super::{
    comparisons::Compared,
    summary::{Check, Severity},
    trials::Trials,
};

/// What checks look at.
pub struct Evidence<'a> {
    pub trials: &'a Trials<'a>,
    pub compared: &'a [Compared],
}

type CheckFunction = fn(&Evidence) -> Vec<Check>;

/// Every check there is, the weightiest themes first.
const CHECKS: &[CheckFunction] = &[
    errors::errors,
    errors::backlog_full,
    errors::ports_exhausted,
    errors::failed_trials,
    link::transport_not_as_asked,
    link::reuse_not_as_asked,
    link::link_not_proven,
    link::tls_differs,
    link::nodelay_off,
    configuration::config_differs,
    driver::driver_saturated,
    driver::driver_kept_off,
    driver::headroom,
    open_loop::rate_not_reached,
    open_loop::late,
    cross_check::cross_check,
    cross_check::tool_trials,
    design::run_cut_off,
    design::no_interval,
    design::too_few_blocks,
    design::multiplicity,
    design::resolution,
    design::process_luck,
    machine::steal,
    machine::foreign_load,
    machine::placement,
    machine::governor,
    containers::throttled,
    containers::short_for_the_limit,
    containers::image_programs,
    network::accept_queue_overflow,
    network::retransmissions,
    time_wait::time_wait,
    latency::delayed_ack,
    latency::syn_retransmit,
    latency::coarse_clock,
    pause::pause,
    order::drift,
    order::position,
    pause::resumed,
    open_loop::derived_left_out,
];

/// All findings, invalidating ones first.
#[must_use]
pub fn all(evidence: &Evidence) -> Vec<Check> {
    let mut found: Vec<Check> = CHECKS.iter().flat_map(|check| check(evidence)).collect();
    found.sort_by_key(|check| std::cmp::Reverse(check.severity));
    found
}

/// A finding about one case.
fn of_case(id: &str, severity: Severity, case: &str, evidence: String, effect: &str) -> Check {
    Check { case: Some(case.to_owned()), ..of_run(id, severity, evidence, effect) }
}

/// A finding about the whole run.
fn of_run(id: &str, severity: Severity, evidence: String, effect: &str) -> Check {
    Check { id: id.to_owned(), severity, case: None, evidence, effect: effect.to_owned() }
}

/// `1 block`, `12 blocks`, as JSON is to have it.
pub(crate) fn counted(count: u64, word: &str) -> String {
    format!("{count} {word}{}", if count == 1 { "" } else { "s" })
}

/// A share in per cent, with as many digits as it takes to see something.
fn percent(share: f64) -> String {
    let value = share * 100.0;
    match value {
        _ if value >= 10.0 => format!("{value:.0} %"),
        _ if value >= 0.1 || value == 0.0 => format!("{value:.1} %"),
        _ if value >= 0.001 => format!("{value:.3} %"),
        _ => format!("{value:.1e} %"),
    }
}
