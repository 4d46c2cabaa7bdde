//! Whether a classic tool that drives the same cases finds what lasthop finds.

use lasthop_classic::tool_of;
use lasthop_model::{
    record::{CasePlan, MeasuredTrial},
    selection::{DRIVER, OWN_DRIVER},
};
use lasthop_protocol::TrialResult;
use lasthop_stats::{
    Interval,
    totals::{self, PairedTotals},
};

use super::finding::{Evidence, of_case, of_run, percent};
use crate::{
    cases,
    summary::{Check, Severity},
    trials::{self, Trials, grouped},
};

/// Two drivers agree if the ratio of their throughputs is within this of 1.
pub const AGREEMENT: f64 = 0.05;

/// A case driven by a tool, and the same case driven by lasthop.
struct Twins<'a> {
    tool: &'a CasePlan,
    own: &'a CasePlan,
}

impl<'a> Twins<'a> {
    fn of(trials: &Trials<'a>, plan: &'a CasePlan) -> Option<Self> {
        tool_of(&plan.levels)?;
        let same = |other: &&CasePlan| {
            let own = other
                .levels
                .get(DRIVER)
                .is_some_and(|level| level.to_string() == OWN_DRIVER);
            own && plan
                .levels
                .iter()
                .all(|(factor, level)| factor == DRIVER || other.levels.get(factor) == Some(level))
        };
        Some(Self {
            tool: plan,
            own: trials.cases().iter().find(same)?,
        })
    }

    /// The tool's throughput divided by lasthop's, within blocks.
    fn ratio(&self, trials: &Trials<'a>) -> Option<Interval> {
        let pairs = trials.pairs(&self.tool.case, &self.own.case);
        let pair = |case: &MeasuredTrial, reference: &MeasuredTrial| PairedTotals {
            case: trials::rate(case),
            reference: trials::rate(reference),
        };
        let blocks = grouped(pairs.iter().map(|&(place, tool, own)| (place.0, pair(tool, own))))?;
        let log = totals::log_ratio(&blocks, trials.resampling(&self.tool.case, "cross-check"))?;
        Some(log.exponential(trials.confidence()))
    }
}

pub fn cross_check(evidence: &Evidence) -> Vec<Check> {
    let trials = evidence.trials;
    let twins = trials.cases().iter().filter_map(|plan| Twins::of(trials, plan));
    twins.filter_map(|twins| judge(trials, &twins)).collect()
}

fn judge(trials: &Trials<'_>, twins: &Twins<'_>) -> Option<Check> {
    let tool = &twins.tool.load.driver;
    let ratio = twins.ratio(trials)?;
    let seen = format!(
        "{tool} counted {:.3} ({:.3} to {:.3}) times lasthop's requests/s",
        ratio.estimate, ratio.low, ratio.high
    );
    let limit = percent(AGREEMENT);
    let within = ratio.low >= 1.0 - AGREEMENT && ratio.high <= 1.0 + AGREEMENT;
    let outside = ratio.high < 1.0 - AGREEMENT || ratio.low > 1.0 + AGREEMENT;
    let reasons = reasons(trials, twins, ratio.estimate);
    let (id, severity, effect) = match (within, outside) {
        (true, _) => (
            "cross-check-agrees",
            Severity::Note,
            format!("two load generators agree within {limit}"),
        ),
        (_, true) if reasons.is_empty() => (
            "cross-check-differs",
            Severity::Doubt,
            "one of the two counts wrong, or they send different requests".to_owned(),
        ),
        (_, true) => (
            "cross-check-explained",
            Severity::Note,
            format!("likely because {}", reasons.join("; ")),
        ),
        _ => {
            let effect = format!("too few blocks to say whether they agree within {limit}; a longer run would tell");
            ("cross-check-undecided", Severity::Note, effect)
        }
    };
    let evidence = match median(trials, twins) {
        Some(text) => format!("{seen}; {text}"),
        None => seen,
    };
    Some(of_case(id, severity, &twins.tool.case, evidence, &effect))
}

/// What this run knows about why the two may differ.
fn reasons(trials: &Trials<'_>, twins: &Twins<'_>, ratio: f64) -> Vec<String> {
    let tool = &twins.tool.load.driver;
    let mut found = Vec::new();
    let cost = |plan: &CasePlan| {
        let (cpu, requests) = trials.of(&plan.case).fold((0, 0), |(cpu, requests), trial| {
            (cpu + trial.result.cost.cpu_ns(), requests + trial.result.requests)
        });
        cpu as f64 / 1e3 / (requests.max(1) as f64)
    };
    let between = |plan: &CasePlan| {
        let (elapsed, requests) = trials.of(&plan.case).fold((0, 0), |(elapsed, requests), trial| {
            (elapsed + trial.result.elapsed_ns, requests + trial.result.requests)
        });
        elapsed as f64 / 1e3 / (requests.max(1) as f64)
    };
    let (theirs, ours) = (cost(twins.tool), cost(twins.own));
    let slower = between(twins.tool) - between(twins.own);
    // On shared CPUs, the driver that costs more CPU time is the slower one. What it costs more must be a large part of the
    // time that a request takes longer: a tool's own start costs more than a few slow requests.
    let is_enough = (theirs - ours).abs() >= slower.abs() / 2.0;
    if is_enough && ((theirs > ours * 1.2 && ratio < 1.0) || (ours > theirs * 1.2 && ratio > 1.0)) {
        found.push(format!(
            "a request costs {tool} {theirs:.1} µs of CPU time and lasthop {ours:.1} µs, on CPUs shared with the servers"
        ));
    }
    let opened = |plan: &CasePlan| {
        let (opened, requests) = trials.of(&plan.case).fold((0, 0), |(opened, requests), trial| {
            (
                opened + trial.result.connections_opened,
                requests + trial.result.requests_total,
            )
        });
        opened as f64 / (requests.max(1) as f64)
    };
    let (theirs, ours) = (opened(twins.tool), opened(twins.own));
    if (theirs - ours).abs() > 0.05 {
        found.push(format!(
            "{tool} opened {theirs:.2} connections per request and lasthop {ours:.2}"
        ));
    }
    let load = cases::driver_load(trials, twins.tool);
    if load >= super::driver::SATURATED {
        found.push(format!(
            "{tool} used {} of a core and was the bottleneck",
            percent(load)
        ));
    }
    let asked = trials
        .data
        .header
        .settings
        .tools
        .iter()
        .find(|choice| choice.tool == *tool);
    if let Some(choice) = asked.filter(|choice| !choice.flags.is_empty()) {
        found.push(format!(
            "it ran with its own flags `{}` instead of the case's {} connections",
            choice.flags.join(" "),
            twins.own.load.connections
        ));
    }
    found
}

/// The medians, if the tool prints one and its clock is fine enough.
fn median(trials: &Trials<'_>, twins: &Twins<'_>) -> Option<String> {
    let reported: Vec<_> = trials
        .of(&twins.tool.case)
        .filter_map(|trial| trial.result.reported.as_ref())
        .collect();
    let medians: Vec<f64> = reported.iter().filter_map(|reported| reported.median_ns).collect();
    let resolution = reported.first()?.resolution_ns;
    let (low, high) = medians.iter().fold((f64::MAX, 0.0_f64), |(low, high), &next| {
        (low.min(next), high.max(next))
    });
    if medians.is_empty() {
        return None;
    }
    let ours = cases::merged(trials, &twins.own.case, TrialResult::latency)?.quantile(0.5) as f64;
    let tool = &twins.tool.load.driver;
    if resolution > ours / 10.0 {
        return Some(format!(
            "its clock counts {:.0} µs and cannot resolve a median of {:.1} µs",
            resolution / 1e3,
            ours / 1e3
        ));
    }
    Some(format!(
        "median latency: {tool} {:.0} to {:.0} µs, lasthop {:.1} µs",
        low / 1e3,
        high / 1e3,
        ours / 1e3
    ))
}

/// Some tools take a password only as an argument.
pub fn password_shown(evidence: &Evidence) -> Vec<Check> {
    let trials = evidence.trials;
    let shown = |plan: &CasePlan| {
        let tool = tool_of(&plan.levels)?;
        let shows = trials
            .proofs(&plan.case)
            .any(|proof| (tool.shows_password)(&proof.spec));
        let text = format!(
            "{} got the password as an argument, the only way it takes one",
            tool.name
        );
        let effect = "every user of this machine could read the password during a trial; the figures are not affected";
        shows.then(|| of_case("password-shown", Severity::Note, &plan.case, text, effect))
    };
    trials.cases().iter().filter_map(shown).collect()
}

/// Tools run longer trials than were asked for.
pub fn tool_trials(evidence: &Evidence) -> Vec<Check> {
    let trials = evidence.trials;
    let trial = trials.data.header.settings.trial_ns as f64 / 1e9;
    let shortest = lasthop_classic::SHORTEST_TRIAL.as_secs_f64();
    let text = format!("trials of the classic tools last at least {shortest:.0} s, those of lasthop {trial:.3} s");
    let effect = "tools run for whole seconds and include the warm-up; fewer of their trials fit into the budget";
    let has_tools = trials.cases().iter().any(|plan| tool_of(&plan.levels).is_some());
    (has_tools && shortest > trial)
        .then(|| of_run("tool-trials", Severity::Note, text, effect))
        .into_iter()
        .collect()
}
