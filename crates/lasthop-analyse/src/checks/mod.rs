//! Checks of trust: what speaks against a result, each with its evidence and its effect.
//!
//! A check is a function from [`Evidence`] to its findings. Their ids are stable. To add one, write the function, put it into
//! `CHECKS`, and say in `known` what its ids mean.

mod configuration;
mod containers;
mod cross_check;
mod crossing;
mod design;
pub mod driver;
mod errors;
mod finding;
pub mod known;
mod latency;
mod link;
mod machine;
mod network;
mod one_way;
mod open_loop;
mod order;
mod pause;
mod steady;
#[cfg(test)]
mod tests;
mod time_wait;

pub use self::finding::{Evidence, percent};
use super::summary::Check;

type CheckFunction = fn(&Evidence) -> Vec<Check>;

/// Every check with the ids of its findings, the most important subjects first. [`known`] says what each id means.
const CHECKS: &[(CheckFunction, &[&str])] = &[
    (errors::errors, &["errors"]),
    (errors::backlog_full, &["backlog-full"]),
    (errors::ports_exhausted, &["ports-exhausted"]),
    (errors::failed_trials, &["failed-trials"]),
    (one_way::lost, &["lost"]),
    (link::transport_not_as_asked, &["transport-not-as-asked"]),
    (crossing::load_not_over_link, &[crossing::ID]),
    (link::reuse_not_as_asked, &["reuse-not-as-asked"]),
    (link::link_not_proven, &["link-not-proven"]),
    (link::tls_differs, &["tls-differs"]),
    (link::nodelay_off, &["nodelay-off"]),
    (link::open_to_everybody, &["open-to-everybody"]),
    (configuration::config_differs, &["config-differs"]),
    (driver::driver_saturated, &["driver-saturated"]),
    (driver::driver_kept_off, &["driver-kept-off"]),
    (driver::headroom, &["headroom"]),
    (steady::littles_law, &["littles-law"]),
    (steady::short_trials, &["short-trials"]),
    (open_loop::rate_not_reached, &["rate-not-reached"]),
    (open_loop::late, &["late"]),
    (
        cross_check::cross_check,
        &[
            "cross-check-agrees",
            "cross-check-differs",
            "cross-check-explained",
            "cross-check-undecided",
        ],
    ),
    (cross_check::tool_trials, &["tool-trials"]),
    (cross_check::password_shown, &["password-shown"]),
    (design::run_cut_off, &["run-cut-off"]),
    (design::no_interval, &["no-interval"]),
    (design::too_few_blocks, &["too-few-blocks"]),
    (design::multiplicity, &["multiplicity"]),
    (design::resolution, &["resolution"]),
    (design::process_luck, &["process-luck"]),
    (design::not_restarted, &["not-restarted"]),
    (design::server_unknown, &["server-unknown"]),
    (design::weak_check, &["weak-check"]),
    (machine::steal, &["steal"]),
    (machine::foreign_load, &["foreign-load"]),
    (machine::ratio_under_load, &["ratio-under-load"]),
    (machine::weighted, &["weighted"]),
    (machine::placement, &["placement"]),
    (machine::spins_in_vain, &["spins-in-vain"]),
    (machine::governor, &["governor"]),
    (containers::throttled, &["throttled"]),
    (containers::short_for_the_limit, &["short-for-the-limit"]),
    (containers::image_programs, &["image-programs-differ"]),
    (network::accept_queue_overflow, &["accept-queue-overflow"]),
    (network::retransmissions, &["retransmissions"]),
    (time_wait::time_wait, &["time-wait"]),
    (latency::delayed_ack, &["delayed-ack"]),
    (latency::syn_retransmit, &["syn-retransmit"]),
    (latency::coarse_clock, &["coarse-clock"]),
    (pause::pause, &["pause"]),
    (order::drift, &["drift"]),
    (order::position, &["position"]),
    (order::settling, &["settling"]),
    (order::warming, &["warming"]),
    (pause::resumed, &["resumed"]),
    (open_loop::derived_left_out, &["derived-left-out"]),
];

/// Whether a finding says that the ratio may be another without what disturbed the run.
#[must_use]
pub fn is_of_another_ratio(finding: &Check) -> bool {
    machine::OF_ANOTHER_RATIO.contains(&finding.id.as_str())
}

/// All findings, invalidating ones first.
#[must_use]
pub fn all(evidence: &Evidence) -> Vec<Check> {
    let mut found = Vec::new();
    for (check, ids) in CHECKS {
        let own = check(evidence);
        debug_assert!(
            own.iter().all(|finding| ids.contains(&finding.id.as_str())),
            "not in CHECKS: {own:?}"
        );
        found.extend(own);
    }
    found.sort_by_key(|check| std::cmp::Reverse(check.severity));
    found
}
