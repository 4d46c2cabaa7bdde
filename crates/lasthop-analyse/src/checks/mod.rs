//! Checks of trust: reasons against a result, each with its evidence and its effect.
//!
//! A check looks at one subject, and returns its finding. Ids are stable. To add a check, write the function, enter it
//! in `CHECKS`, and explain its id in `known`.

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
mod layers;
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

use lasthop_model::record::CasePlan;

pub use self::finding::{Evidence, percent};
use self::{
    Subject::{Case, Run, Tcp},
    finding::Finding,
};
use super::{pairs::Compared, summary::Check, trials::Trials};

/// The subject of a check. A check is called for each.
enum Subject {
    Run(fn(&Evidence) -> Option<Finding>),
    Case(fn(&Trials, &CasePlan) -> Option<Finding>),
    /// A case that may use TCP. During other cases, events of TCP belong to other programs.
    Tcp(fn(&Trials, &CasePlan) -> Option<Finding>),
    Comparison(fn(&Evidence, &Compared) -> Option<Finding>),
}

/// Every check by id, the most important subjects first. [`known`] explains the ids.
const CHECKS: &[(&str, Subject)] = &[
    ("errors", Case(errors::errors)),
    ("backlog-full", Case(errors::backlog_full)),
    ("ports-exhausted", Case(errors::ports_exhausted)),
    ("sent-again", Case(errors::sent_again)),
    ("failed-trials", Case(errors::failed_trials)),
    ("lost", Case(one_way::lost)),
    ("transport-not-as-asked", Case(link::transport_not_as_asked)),
    ("load-not-over-link", Case(crossing::load_not_over_link)),
    ("less-work", Case(crossing::less_work)),
    ("reuse-not-as-asked", Case(link::reuse_not_as_asked)),
    ("link-not-proven", Case(link::link_not_proven)),
    ("tls-differs", Case(link::tls_differs)),
    ("nodelay-off", Case(link::nodelay_off)),
    ("open-to-everybody", Case(link::open_to_everybody)),
    ("config-differs", Case(configuration::config_differs)),
    ("driver-saturated", Case(driver::driver_saturated)),
    ("driver-kept-off", Case(driver::driver_kept_off)),
    ("headroom", Case(driver::headroom)),
    ("replies-unseen", Case(driver::replies_unseen)),
    ("littles-law", Case(steady::littles_law)),
    ("short-trials", Case(steady::short_trials)),
    ("rate-not-reached", Case(open_loop::rate_not_reached)),
    ("late", Case(open_loop::late)),
    (cross_check::AGREES, Case(cross_check::cross_check)),
    ("tool-trials", Run(cross_check::tool_trials)),
    ("password-shown", Case(cross_check::password_shown)),
    ("run-cut-off", Run(design::run_cut_off)),
    ("no-interval", Case(design::no_interval)),
    ("too-few-blocks", Case(design::too_few_blocks)),
    ("multiplicity", Subject::Comparison(design::multiplicity)),
    ("resolution", Run(design::resolution)),
    ("two-states", Case(design::two_states)),
    ("rounds-correlated", Case(design::rounds_correlated)),
    ("process-luck", Case(design::process_luck)),
    ("not-restarted", Run(design::not_restarted)),
    ("server-unknown", Case(design::server_unknown)),
    ("weak-check", Case(design::weak_check)),
    ("server-closes", Case(design::server_closes)),
    ("steal", Run(machine::steal)),
    ("foreign-load", Run(machine::foreign_load)),
    ("own-load", Run(machine::own_load)),
    ("packet-filter", Run(machine::packet_filter)),
    ("placement", Run(machine::placement)),
    ("spins-in-vain", Case(machine::spins_in_vain)),
    ("governor", Run(machine::governor)),
    ("throttled", Case(containers::throttled)),
    ("short-for-the-limit", Run(containers::short_for_the_limit)),
    ("image-programs-differ", Run(containers::image_programs)),
    ("accept-queue-overflow", Tcp(network::accept_queue_overflow)),
    ("retransmissions", Tcp(network::retransmissions)),
    ("time-wait", Case(time_wait::time_wait)),
    ("delayed-ack", Tcp(latency::delayed_ack)),
    ("syn-retransmit", Tcp(latency::syn_retransmit)),
    ("idle-wait", Case(latency::idle_wait)),
    ("coarse-clock", Case(latency::coarse_clock)),
    ("pause", Case(pause::pause)),
    ("drift", Case(order::drift)),
    ("position", Case(order::position)),
    ("settling", Case(order::settling)),
    ("warming", Case(order::warming)),
    ("resumed", Run(pause::resumed)),
    ("layers-do-not-add-up", Case(layers::do_not_add_up)),
    ("layers-missing", Case(layers::without_layer)),
    ("not-observed", Run(layers::not_observed)),
    ("derived-left-out", Run(open_loop::derived_left_out)),
];

/// All findings, invalidating ones first.
#[must_use]
pub fn all(evidence: &Evidence) -> Vec<Check> {
    let trials = evidence.trials;
    let mut all = Vec::new();
    for (id, subject) in CHECKS {
        let mut add = |case: Option<&String>, found: Option<Finding>| {
            all.extend(found.map(|found| Check {
                id: found.id.unwrap_or(id).to_owned(),
                severity: found.severity,
                case: case.cloned(),
                evidence: found.evidence,
                effect: found.effect,
            }));
        };
        match subject {
            Run(check) => add(None, check(evidence)),
            Case(check) | Tcp(check) => {
                for plan in trials.cases() {
                    if matches!(subject, Case(_)) || trials.may_use_tcp(&plan.case) {
                        add(Some(&plan.case), check(trials, plan));
                    }
                }
            }
            Subject::Comparison(check) => {
                for one in evidence.compared {
                    add(Some(&one.comparison.case), check(evidence, one));
                }
            }
        }
    }
    all.sort_by_key(|check| std::cmp::Reverse(check.severity));
    all
}
