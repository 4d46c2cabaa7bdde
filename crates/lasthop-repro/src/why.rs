//! Explains why figures differ, from facts about these runs. A reason whose facts are missing is left out.

use indexmap::IndexMap;
use lasthop_analyse::{checks::percent, summary::CaseSummary};
use lasthop_model::{observation, quantity::counted, record::Placement};

use super::{carry_out::Carried, measured::MeasuredPart, outcome::Note};
use crate::study::model::{Base, Quantity, Study, Time};

/// What the rules look at.
struct Facts<'a> {
    study: &'a Study,
    part: &'a MeasuredPart<'a>,
    carried: &'a Carried,
}

/// What there is to say about a repetition by one rule, if anything.
type Rule = fn(&Facts<'_>) -> Option<String>;

/// Every reason that these runs give, and what the checks of their records say.
pub fn notes(study: &Study, part: &MeasuredPart<'_>, carried: &Carried) -> Vec<Note> {
    let facts = Facts { study, part, carried };
    let rules: [(&str, Rule); 8] = [
        ("line", line),
        ("difference", difference),
        ("reuse", reuse),
        ("paths", paths),
        ("placement", placement),
        ("versions", versions),
        ("resolution", resolution),
        ("process-start", process_start),
    ];
    rules
        .iter()
        .filter_map(|(id, rule)| {
            Some(Note {
                id: (*id).to_owned(),
                text: rule(&facts)?,
            })
        })
        .chain(carried.checks.iter().cloned())
        .collect()
}

impl Facts<'_> {
    fn cases(&self) -> impl Iterator<Item = &CaseSummary> {
        self.part.design.iter().flat_map(|summary| &summary.cases)
    }
}

/// A line through two totals that nearly coincide has no slope to speak of.
fn line(facts: &Facts<'_>) -> Option<String> {
    let (negative, all) = negative(facts, &Quantity::of(Base::Time))?;
    (facts.part.run.time != Time::Rate).then(|| {
        format!(
            "in {negative} of {all} conditions the longer run took no more time than the shorter one: the start of the \
             client, part of every run, varies by more than the requests take; only longer runs would tell"
        )
    })
}

/// What is left of two totals that nearly coincide is noise.
fn difference(facts: &Facts<'_>) -> Option<String> {
    let mut claims = facts
        .study
        .claims
        .iter()
        .filter(|claim| claim.runs == facts.part.run.id);
    let claim = claims.find(|claim| claim.measured.base == Base::Difference)?;
    let (negative, all) = negative(facts, &claim.measured)?;
    Some(format!(
        "by the study's method {} is negative in {negative} of {all} conditions: its two runs vary by more than their \
         difference",
        claim.words
    ))
}

/// In how many of the study's conditions a quantity came out as nothing or less, if in any, and how many have it.
fn negative(facts: &Facts<'_>, quantity: &Quantity) -> Option<(usize, usize)> {
    let mut conditions: Vec<IndexMap<String, String>> = Vec::new();
    for case in facts.part.method {
        let mut levels = case.levels.clone();
        if let Time::Levels(factor) = &facts.part.run.time {
            levels.shift_remove(factor);
        }
        if !conditions.contains(&levels) {
            conditions.push(levels);
        }
    }
    let values = conditions
        .iter()
        .filter_map(|levels| facts.part.method_value(quantity, levels, "us"));
    let values: Vec<f64> = values.map(|value| value.value).collect();
    let negative = values.iter().filter(|value| **value <= 0.0).count();
    (negative > 0).then_some((negative, values.len()))
}

/// Whether connections of the link were used again, as the application saw it.
fn reuse(facts: &Facts<'_>) -> Option<String> {
    let mut alike: IndexMap<(u64, u64), Vec<&str>> = IndexMap::new();
    for case in facts.cases() {
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

/// What the words of a study ("forwarded port") were on this machine.
fn paths(facts: &Facts<'_>) -> Option<String> {
    let found = listed(facts.cases().filter_map(|case| {
        let path = &case.proof.as_ref()?.path;
        (!path.is_empty()).then(|| format!("{}: {}", case.case, observation::path(path)))
    }))?;
    Some(format!("found on this machine: {found}"))
}

fn placement(facts: &Facts<'_>) -> Option<String> {
    let (Placement::Apart { .. } | Placement::Compact { .. }) = facts.part.design?.settings.placement else {
        return None;
    };
    Some("lasthop pinned its driver apart from the servers; the study's method was not pinned".to_owned())
}

/// Versions there and here, of what both name.
fn versions(facts: &Facts<'_>) -> Option<String> {
    let environment = facts.carried.environment()?;
    listed(facts.study.environment.software.iter().filter_map(|(name, theirs)| {
        let ours = &environment.programs.get(name)?.version;
        let theirs = if theirs == "not stated" {
            "version not stated"
        } else {
            theirs.as_str()
        };
        Some(format!("{name} {theirs} then, {ours} here"))
    }))
}

/// What the tool's clock can show.
fn resolution(facts: &Facts<'_>) -> Option<String> {
    let mut trials = facts.part.method.iter().flat_map(|case| &case.trials);
    let trial = trials.find_map(|trial| trial.reported.as_ref())?;
    let caution = trial.caution.iter().map(|caution| format!(" ({caution})"));
    let shown = match trial.resolution_ns / 1e3 {
        fine if fine < 1.0 => "less than 1".to_owned(),
        coarse => format!("{coarse:.0}"),
    };
    Some(format!(
        "{} resolves {shown} µs{}",
        trial.tool,
        caution.collect::<String>()
    ))
}

/// A client that is started for each connection is timed with it.
fn process_start(facts: &Facts<'_>) -> Option<String> {
    let tool = facts.study.method.tool.filter(|tool| tool.is_timed_from_outside)?.name;
    let case = facts.part.method.iter().find(|case| !case.trials.is_empty())?;
    let trial = case.trials.first()?;
    (trial.connections_opened == trial.requests && trial.requests > 1).then_some(())?;
    let time = Quantity::of(Base::Time);
    let theirs = facts.part.method_value(&time, &case.levels, "ms")?.value;
    let ours = facts.part.design_value(&time, &case.levels, "ms")?.value;
    Some(format!(
        "with a {tool} per connection it takes {theirs:.2} ms, without {tool} {ours:.2} ms: {} of the study's figure is \
         the start of {tool}",
        percent((1.0 - ours / theirs).max(0.0))
    ))
}
