//! Explains why figures differ, from facts about these runs. A reason is left out if its facts are missing.

use indexmap::IndexMap;
use lasthop_analyse::{
    checks::percent,
    summary::{CaseSummary, Summary},
};
use lasthop_model::{level::texts, observation, quantity::counted, record::Placement, selection::DRIVER};
use lasthop_trial::options::Reuse;

use super::{measured::Measured, outcome::Note};
use crate::study::{
    figures::figure,
    model::{By, StudyRun},
};

/// The facts for the rules.
struct Facts<'a> {
    run: &'a StudyRun,
    measured: &'a Measured<'a>,
}

/// A rule: a sentence about a repetition, if the rule applies.
type Rule = fn(&Facts<'_>) -> Option<String>;

/// Every reason that these runs give, and the findings of their records' checks.
pub fn notes(run: &StudyRun, measured: &Measured<'_>) -> Vec<Note> {
    let facts = Facts { run, measured };
    let rules: [(&str, Rule); 7] = [
        ("difference", difference),
        ("reuse", reuse),
        ("paths", paths),
        ("placement", placement),
        ("versions", versions),
        ("resolution", resolution),
        ("process-start", process_start),
    ];
    let notes = rules.iter().filter_map(|(id, rule)| {
        Some(Note {
            id: (*id).to_owned(),
            text: rule(&facts)?,
        })
    });
    let carried = measured.carried.iter().filter(|carried| carried.part.runs == run.id);
    notes
        .chain(carried.flat_map(|carried| carried.checks.clone()))
        .collect()
}

impl Facts<'_> {
    fn result(&self, by: By) -> Option<&Summary> {
        self.measured.result(self.run, by)
    }

    fn cases(&self, by: By) -> impl Iterator<Item = &CaseSummary> {
        self.result(by).into_iter().flat_map(|summary| &summary.cases)
    }
}

/// The difference of two nearly equal totals is mostly noise, and so is the slope of a line through them.
fn difference(facts: &Facts<'_>) -> Option<String> {
    let figures = &facts.measured.study.figures;
    let mut conditions: IndexMap<&str, IndexMap<String, bool>> = IndexMap::new();
    for figure in figures
        .iter()
        .filter(|figure| figure.runs == facts.run.id && !figure.levels.is_empty())
    {
        let value = facts
            .measured
            .value(facts.run, By::Study, &figure.measured, &figure.levels, &figure.unit);
        if let Some(value) = value {
            let levels = figure.levels.values().cloned().collect::<Vec<_>>().join("/");
            conditions
                .entry(&figure.words)
                .or_default()
                .insert(levels, value.value <= 0.0);
        }
    }
    listed(conditions.iter().filter_map(|(words, of)| {
        let negative = of.values().filter(|negative| **negative).count();
        (negative > 0).then(|| {
            format!(
                "by the study's method {words} is negative in {negative} of {} conditions: the runs that it follows from \
                 vary by more than they differ; only longer ones would tell",
                of.len()
            )
        })
    }))
}

/// Reuse of the link's connections, as counted by the application.
fn reuse(facts: &Facts<'_>) -> Option<String> {
    let mut alike: IndexMap<(u64, u64), Vec<&str>> = IndexMap::new();
    for case in facts.cases(By::Lasthop) {
        if let Some(link) = case.proof.as_ref().and_then(|proof| proof.link.as_ref()) {
            let counts = (u64::from(link.requests), u64::from(link.connections));
            alike.entry(counts).or_default().push(&case.case);
        }
    }
    let seen = listed(alike.iter().map(|((requests, connections), cases)| {
        let connections = counted(*connections, "connection");
        format!("{requests} requests over {connections} in {}", cases.join(", "))
    }))?;
    Some(format!("connections of the link, counted by the application: {seen}"))
}

fn listed(parts: impl Iterator<Item = String>) -> Option<String> {
    let parts: Vec<String> = parts.collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// The actual paths on this machine for the study's words, such as "forwarded port".
fn paths(facts: &Facts<'_>) -> Option<String> {
    let found = listed(facts.cases(By::Lasthop).filter_map(|case| {
        let path = &case.proof.as_ref()?.path;
        (!path.is_empty()).then(|| format!("{}: {}", case.case, observation::path(path)))
    }))?;
    Some(format!("found on this machine: {found}"))
}

fn placement(facts: &Facts<'_>) -> Option<String> {
    let (Placement::Apart { .. } | Placement::Compact { .. }) = facts.result(By::Lasthop)?.settings.placement else {
        return None;
    };
    Some("lasthop pinned its driver apart from the servers; the study's method was not pinned".to_owned())
}

/// Versions in the study and here, of programs that both name.
fn versions(facts: &Facts<'_>) -> Option<String> {
    let mut results = [By::Study, By::Lasthop].into_iter().filter_map(|by| facts.result(by));
    let environment = results.find_map(|summary| summary.environment.as_ref())?;
    listed(
        facts
            .measured
            .study
            .environment
            .software
            .iter()
            .filter_map(|(name, theirs)| {
                let ours = &environment.programs.get(name)?.version;
                let theirs = if theirs == "not stated" {
                    "version not stated"
                } else {
                    theirs.as_str()
                };
                Some(format!("{name} {theirs} then, {ours} here"))
            }),
    )
}

/// The resolution of the tool's clock.
fn resolution(facts: &Facts<'_>) -> Option<String> {
    let said = facts.cases(By::Study).find_map(|case| case.reported.as_ref())?;
    let caution = said.caution.iter().map(|caution| format!(" ({caution})"));
    let shown = match said.resolution_ns / 1e3 {
        fine if fine < 1.0 => "less than 1".to_owned(),
        coarse => format!("{coarse:.0}"),
    };
    Some(format!(
        "{} resolves {shown} µs{}",
        said.tool,
        caution.collect::<String>()
    ))
}

/// A client that is started for each connection adds its start to the time.
fn process_start(facts: &Facts<'_>) -> Option<String> {
    let method = &facts.measured.study.method;
    let tool = method.tool().filter(|tool| tool.is_timed_from_outside)?.name;
    let case = facts.cases(By::Study).find(|case| case.metrics.is_some())?;
    let load = &case.load;
    (load.reuse == Reuse::PerRequest && load.requests_per_connection == 1).then_some(())?;
    let mut levels = texts(&case.levels);
    levels.shift_remove(DRIVER);
    let without = facts.measured.case(facts.run, By::Lasthop, &levels)?;
    let [theirs, ours] = [case, without].map(|case| figure(case, "time").map(|time| time.estimate * 1e3));
    let (theirs, ours) = theirs.zip(ours)?;
    Some(format!(
        "with a {tool} per connection it takes {theirs:.2} ms, without {tool} {ours:.2} ms: {} of the study's figure is \
         the start of {tool}",
        percent((1.0 - ours / theirs).max(0.0))
    ))
}
