//! `--fail-if`

use lasthop_analyse::{
    limit::{self, Limit, Subject},
    summary::{JudgedLimit, Standing, Summary},
};
use lasthop_report::across;

use super::output::{CliError, DONE, LIMIT, OrExit, UNJUDGED, talk};

/// Checks that each limit names a case that is compared.
pub fn check(limits: &[Limit], subjects: &[Subject]) -> Result<(), CliError> {
    limit::judge(limits, subjects).map(drop).or_usage()
}

/// The results of all limits for the cases of a run.
pub fn judge_run(limits: &[Limit], summary: &Summary) -> Result<Vec<JudgedLimit>, CliError> {
    judge(limits, &limit::of_run(summary), summary.settings.confidence)
}

/// The results of all limits for these subjects.
pub fn judge(limits: &[Limit], subjects: &[Subject], confidence: f64) -> Result<Vec<JudgedLimit>, CliError> {
    Ok(across::judged_limits(
        &limit::judge(limits, subjects).or_usage()?,
        confidence,
    ))
}

/// Prints the results of the limits, and returns the exit status: [`LIMIT`] if a case exceeds a limit, [`UNJUDGED`] if
/// a limit could be judged for no case.
pub fn exit_status(judged: &[JudgedLimit]) -> u8 {
    judged.iter().for_each(|one| talk(&one.text));
    let is_judged = |one: &JudgedLimit| {
        let mut alike = judged.iter().filter(|other| other.limit == one.limit);
        alike.any(|other| other.standing != Standing::Unjudged)
    };
    if judged.iter().any(|one| one.standing == Standing::Beyond) {
        LIMIT
    } else if judged.iter().all(is_judged) {
        DONE
    } else {
        UNJUDGED
    }
}
