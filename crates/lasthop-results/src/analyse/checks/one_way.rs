//! Requests that nobody answers, and that never arrive.

use super::finding::{Evidence, grouped, of_case, percent};
use crate::analyse::{
    cases,
    summary::{Check, Severity},
};

/// Where senders are not told, only the two counts together show a loss.
pub fn lost(evidence: &Evidence) -> Vec<Check> {
    let effect =
        "nobody told the sender; throughput counts what the server received, and a faster sender only loses more";
    let check = |case: &str| {
        let all = cases::sending(evidence.trials, case).filter(|all| all.lost() > 0)?;
        let where_lost = match all.dropped_total {
            Some(dropped) if dropped >= all.lost() => {
                ", all dropped by the kernel because the server's buffer was full".to_owned()
            }
            Some(dropped) if dropped > 0 => format!(
                ": the kernel dropped {} because the server's buffer was full, and the server lost {}",
                grouped(dropped),
                grouped(all.lost() - dropped)
            ),
            _ => ", none of them dropped by the kernel as far as it tells".to_owned(),
        };
        let share = percent(all.lost() as f64 / all.sent_total as f64);
        let text = format!("{share} of {} requests never arrived{where_lost}", grouped(all.sent_total));
        Some(of_case("lost", Severity::Doubt, case, text, effect))
    };
    evidence.trials.cases().iter().filter_map(|plan| check(&plan.case)).collect()
}
