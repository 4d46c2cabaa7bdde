//! The agreement of lasthop with a classic tool that drives the same cases.

use lasthop_classic::tool_of;
use lasthop_model::{
    record::CasePlan,
    selection::{DRIVER, OWN_DRIVER},
};
use lasthop_stats::{Interval, totals};
use lasthop_trial::TrialResult;

use super::{
    driver::SATURATED,
    finding::{Evidence, Finding, doubt, note, percent},
};
use crate::{
    cases,
    trials::{self, Trials, grouped},
};

/// Two drivers agree if the ratio of their throughputs differs from 1 by at most this much.
pub const AGREEMENT: f64 = 0.05;

pub const AGREES: &str = "cross-check-agrees";
pub const DIFFERS: &str = "cross-check-differs";
pub const EXPLAINED: &str = "cross-check-explained";
pub const UNDECIDED: &str = "cross-check-undecided";

/// The case with the same levels that lasthop drives.
fn twin<'a>(trials: &Trials<'a>, tool: &CasePlan) -> Option<&'a CasePlan> {
    let same = |other: &&CasePlan| {
        let driver = other.levels.get(DRIVER);
        let mut others = tool.levels.iter().filter(|(factor, _)| *factor != DRIVER);
        driver.is_some_and(|level| level.to_string() == OWN_DRIVER)
            && others.all(|(factor, level)| other.levels.get(factor) == Some(level))
    };
    tool_of(&tool.levels)?;
    trials.cases().iter().find(same)
}

/// The tool's throughput divided by lasthop's, within blocks.
fn ratio(trials: &Trials, tool: &CasePlan, own: &CasePlan) -> Option<Interval> {
    let pairs = trials.pairs(&tool.case, &own.case).into_iter();
    let blocks = grouped(pairs.map(|(place, tool, own)| (place.0, [tool, own].map(trials::rate))))?;
    let log = totals::log_ratio(&blocks, trials.resampling(&tool.case, "cross-check"))?;
    Some(log.exponential(trials.confidence()))
}

pub fn cross_check(trials: &Trials, plan: &CasePlan) -> Option<Finding> {
    let own = twin(trials, plan)?;
    let ratio = ratio(trials, plan, own)?;
    let seen = format!(
        "{} counted {:.3} ({:.3} to {:.3}) times lasthop's requests/s",
        plan.load.driver, ratio.estimate, ratio.low, ratio.high
    );
    let seen = match median(trials, plan, own) {
        Some(text) => format!("{seen}; {text}"),
        None => seen,
    };
    let limit = percent(AGREEMENT);
    let reasons = reasons(trials, plan, own, ratio.estimate);
    let (id, finding) = if ratio.low >= 1.0 - AGREEMENT && ratio.high <= 1.0 + AGREEMENT {
        (AGREES, note(seen, format!("two load generators agree within {limit}")))
    } else if ratio.high >= 1.0 - AGREEMENT && ratio.low <= 1.0 + AGREEMENT {
        let effect = format!("too few blocks to say whether they agree within {limit}; a longer run would tell");
        (UNDECIDED, note(seen, effect))
    } else if reasons.is_empty() {
        let effect = "one of them miscounts, or they send different requests";
        (DIFFERS, doubt(seen, effect))
    } else {
        (EXPLAINED, note(seen, format!("likely because {}", reasons.join("; "))))
    };
    Some(Finding {
        id: Some(id),
        ..finding
    })
}

/// Known reasons for a difference between the two.
fn reasons(trials: &Trials, plan: &CasePlan, own: &CasePlan, ratio: f64) -> Vec<String> {
    let tool = &plan.load.driver;
    let mut found = Vec::new();
    let each = |count: fn(&TrialResult) -> u64, of: fn(&TrialResult) -> u64| {
        [plan, own].map(|plan| {
            let requests = trials.sum(&plan.case, |trial| of(&trial.result));
            trials.sum(&plan.case, |trial| count(&trial.result)) as f64 / requests.max(1) as f64
        })
    };
    let [theirs, ours] = each(|result| result.cost.cpu_ns(), |result| result.requests).map(|cost| cost / 1e3);
    let [their_time, our_time] = each(|result| result.elapsed_ns, |result| result.requests).map(|time| time / 1e3);
    // On shared CPUs, the driver with more CPU time is slower. Its additional CPU time must be a large part of the
    // additional time of a request, because a tool's own start costs more than a few slow requests.
    let is_enough = (theirs - ours).abs() >= (their_time - our_time).abs() / 2.0;
    if is_enough && ((theirs > ours * 1.2 && ratio < 1.0) || (ours > theirs * 1.2 && ratio > 1.0)) {
        found.push(format!(
            "a request costs {tool} {theirs:.1} µs of CPU time and lasthop {ours:.1} µs, on CPUs shared with the servers"
        ));
    }
    let [theirs, ours] = each(|result| result.connections_opened, |result| result.requests_total);
    if (theirs - ours).abs() > 0.05 {
        found.push(format!(
            "{tool} opened {theirs:.2} connections per request and lasthop {ours:.2}"
        ));
    }
    let load = cases::driver_load(trials, plan);
    if load >= SATURATED {
        found.push(format!(
            "{tool} used {} of a core and was the bottleneck",
            percent(load)
        ));
    }
    let mut choices = trials.data.header.settings.tools.iter();
    let asked = choices.find(|choice| choice.tool == *tool);
    if let Some(choice) = asked.filter(|choice| !choice.flags.is_empty()) {
        found.push(format!(
            "it ran with its own flags `{}` instead of the case's {} connections",
            choice.flags.join(" "),
            own.load.connections
        ));
    }
    found
}

/// The two medians, if the tool prints one and its clock is precise enough.
fn median(trials: &Trials, plan: &CasePlan, own: &CasePlan) -> Option<String> {
    let reported = || {
        trials
            .of_case(&plan.case)
            .filter_map(|trial| trial.result.reported.as_ref())
    };
    let medians = || reported().filter_map(|reported| reported.median_ns);
    let low = medians().reduce(f64::min)?;
    let high = medians().fold(0.0, f64::max);
    let resolution = reported().next()?.resolution_ns;
    let ours = cases::merged(trials, &own.case, TrialResult::latency)?.quantile(0.5) as f64;
    // A clock with fewer than ten steps below the median is too coarse to compare.
    Some(if resolution > ours / 10.0 {
        format!(
            "its clock counts {:.0} µs and cannot resolve a median of {:.1} µs",
            resolution / 1e3,
            ours / 1e3
        )
    } else {
        format!(
            "median latency: {} {:.0} to {:.0} µs, lasthop {:.1} µs",
            plan.load.driver,
            low / 1e3,
            high / 1e3,
            ours / 1e3
        )
    })
}

/// A tool that gets a password as an argument, as some tools require.
pub fn password_shown(trials: &Trials, plan: &CasePlan) -> Option<Finding> {
    let tool = tool_of(&plan.levels)?;
    let mut proofs = trials.proofs(&plan.case);
    let text = format!(
        "{} got the password as an argument, the only way it takes one",
        tool.name
    );
    let effect = "every user of this machine could read the password during a trial; the figures are not affected";
    proofs
        .any(|proof| tool.shows_password(&proof.spec))
        .then(|| note(text, effect))
}

/// A tool that runs longer trials than requested.
pub fn tool_trials(Evidence { trials, .. }: &Evidence) -> Option<Finding> {
    let trial = trials.data.header.settings.trial_ns as f64 / 1e9;
    let shortest = lasthop_classic::SHORTEST_TRIAL.as_secs_f64();
    let text = format!("trials of the classic tools last at least {shortest:.0} s, those of lasthop {trial:.3} s");
    let effect = "tools run for whole seconds and include the warm-up; fewer of their trials fit into the budget";
    let has_tools = trials.cases().iter().any(|plan| tool_of(&plan.levels).is_some());
    (has_tools && shortest > trial).then(|| note(text, effect))
}
