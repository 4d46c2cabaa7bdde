//! Kept answers: made from summaries, and shown without a run.

mod shown;

use std::collections::BTreeSet;

use lasthop_analyse::{
    answers::{Against, Answer, CpuAgainst, KnownCase, Machine, Setting, rounded},
    decision::decide,
    groups::{Group, compared_level, groups},
    summary::{CaseSummary, Comparison, Metric, Severity, Summary},
};
use lasthop_model::record::Environment;

pub use self::shown::{Compared, compared, csv, document, lead, of_machine};
use crate::{
    content::{answer, conditions},
    names::Named,
    units::NBSP,
};

/// The answer of a run. `group` is the heading of its experiment, `speed` that of the driver's CPU. `None` without
/// comparable figures: for runs with overload, A/A runs and runs without figures.
#[must_use]
pub fn answer_of(summary: &Summary, group: &str, speed: Option<f64>) -> Option<Answer> {
    let environment = summary.environment.as_ref()?;
    if summary.aa || summary.overload.is_some() {
        return None;
    }
    let settings: Vec<Setting> = groups(summary).iter().filter_map(setting).collect();
    let mut doubts: Vec<String> = Vec::new();
    for check in summary.checks.iter().filter(|check| check.severity >= Severity::Doubt) {
        if !doubts.contains(&check.id) {
            doubts.push(check.id.clone());
        }
    }
    (!settings.is_empty()).then(|| Answer {
        experiment: summary.experiment.clone(),
        group: group.to_owned(),
        title: summary.title.clone(),
        question: summary.question.clone(),
        link: summary.link.clone(),
        advice: lines(summary),
        margin: summary.settings.margin,
        started: summary.started.clone(),
        seconds: rounded(summary.seconds),
        rounds: summary.rounds,
        blocks: summary.blocks,
        lasthop: summary.lasthop.clone(),
        machine: Machine {
            cpu_model: environment.cpu_model.clone(),
            cpus: environment.cpus,
            kernel: environment.kernel.clone(),
            architecture: environment.architecture.clone(),
            virtualization: environment.virtualization.clone(),
            engine: environment.engine_in_words(),
            conditions: conditions_of(environment),
            speed,
        },
        doubts,
        settings,
    })
}

/// Renews the advice of an answer after its runs were pooled: the verdicts of several machines decide it where there are
/// any. `summary` is that of the answer's own run.
pub fn advise(answer: &mut Answer, summary: &Summary) {
    let mut known = summary.clone();
    let mut pooled_cases = BTreeSet::new();
    for group in groups(summary) {
        let levels = group.setting_levels();
        let Some(setting) = answer.settings.iter().find(|setting| setting.levels == levels) else {
            continue;
        };
        for one in group.compared() {
            let level = level_of(summary, one.case);
            let found = setting.compared().find(|(case, _)| case.level == level);
            let Some(pooled) = found.and_then(|(_, against)| against.pooled.as_ref()) else {
                continue;
            };
            let Comparison {
                case,
                reference,
                metric,
                ..
            } = one.comparison;
            let mut all = known.comparisons.iter_mut();
            let comparison =
                all.find(|other| (&other.case, &other.reference, &other.metric) == (case, reference, metric));
            let comparison = comparison.expect("a clone has the comparisons of its original");
            comparison.ratio = pooled.mean;
            comparison.verdict = pooled.verdict;
            comparison.perhaps = pooled.perhaps;
            pooled_cases.insert(case.clone());
        }
    }
    known.decision = decide(&known);
    // More time for one run does not decide between machines.
    known
        .decision
        .settings
        .undecided
        .retain(|case| !pooled_cases.contains(case));
    answer.advice = lines(&known);
}

/// The advice and further sentences of a summary.
fn lines(summary: &Summary) -> Vec<String> {
    answer(summary).iter().map(|line| plain(&line.to_string())).collect()
}

/// The conditions of TCP on loopback, which decide its cost, in the words of an answer.
#[must_use]
pub fn conditions_of(environment: &Environment) -> Option<String> {
    conditions(environment).map(|words| plain(&words))
}

fn plain(text: &str) -> String {
    text.replace(NBSP, " ")
}

/// The usable alternatives of a group, if there are any besides the reference.
fn setting(group: &Group<'_>) -> Option<Setting> {
    let head = group.head();
    let compared = group
        .compared()
        .filter_map(|one| known(group, one.case, Some(one.comparison)));
    let cases: Vec<KnownCase> = known(group, head, None).into_iter().chain(compared).collect();
    (cases.len() > 1).then(|| Setting {
        name: plain(&group.setting()),
        levels: group.setting_levels(),
        load: head.load.clone(),
        reply_bytes: head
            .metrics
            .as_ref()
            .and_then(|metrics| metrics.reply_bytes)
            .map(rounded),
        cases,
    })
}

/// The level of the compared factor, or the case's name without one.
fn level_of(summary: &Summary, case: &CaseSummary) -> String {
    compared_level(summary, case).map_or_else(|| case.case.clone(), ToString::to_string)
}

fn known(group: &Group<'_>, case: &CaseSummary, declared: Option<&Comparison>) -> Option<KnownCase> {
    let metrics = case.metrics.as_ref()?;
    let summary = group.summary();
    Some(KnownCase {
        level: level_of(summary, case),
        name: plain(&group.name(case)),
        transport: case.transport,
        control: summary.controls.contains(&case.case),
        requests_per_s: metrics.throughput.interval.map(rounded),
        cpu_us: rounded(metrics.cpu_total()),
        switches: Some(rounded(metrics.switches_total())),
        against: declared.map(|declared| against(summary, case, declared)),
    })
}

fn against(summary: &Summary, case: &CaseSummary, declared: &Comparison) -> Against {
    let cpu = summary.comparison(case, Metric::CpuPerRequest);
    Against {
        metric: declared.metric,
        ratio: declared.ratio.map(rounded),
        verdict: declared.verdict,
        perhaps: declared.perhaps,
        lower_bound: declared.lower_bound,
        pooled: None,
        saved_us: declared.materiality.as_ref().map(|of| of.saved_us.map(rounded)),
        cpu: cpu.and_then(|cpu| {
            let materiality = cpu.materiality.as_ref()?;
            let below = materiality.break_even.as_ref();
            Some(CpuAgainst {
                ratio: cpu.ratio.map(rounded),
                verdict: cpu.verdict,
                saved_us: materiality.saved_us.map(rounded),
                matters_below_us: below.map(|ms| ms.interval.map(|ms| rounded(ms * 1e3))),
            })
        }),
    }
}
