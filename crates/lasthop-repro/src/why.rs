//! Explains why figures differ. Each note is made from facts about these runs, and is left out if its facts are
//! missing.

use indexmap::IndexMap;
use lasthop_analyse::{
    checks::{driver::SATURATED, percent},
    summary::CaseSummary,
};
use lasthop_model::{
    observation,
    quantity::counted,
    record::{Environment, Placement},
};

use super::{
    carry_out::Carried,
    measured::MeasuredPart,
    outcome::{ClaimRow, FigureRow, Note, Part, Repetition},
};
use crate::study::model::{Base, Quantity, Study, Time};

/// What the rules look at.
struct Facts<'a> {
    study: &'a Study,
    part: &'a MeasuredPart<'a>,
    carried: &'a Carried,
    made: &'a Part,
    claims: Vec<&'a ClaimRow>,
    repetition: &'a Repetition,
}

/// Every reason that these runs give.
pub fn notes(
    study: &Study,
    part: &MeasuredPart<'_>,
    carried: &Carried,
    made: &Part,
    repetition: &Repetition,
) -> Vec<Note> {
    let claims = repetition
        .claims
        .iter()
        .filter(|row| row.claim.runs == part.run.id)
        .collect();
    let facts = Facts {
        study,
        part,
        carried,
        made,
        claims,
        repetition,
    };
    let rules: [fn(&Facts<'_>) -> Option<Note>; 11] = [
        speed,
        runs,
        line,
        difference,
        reuse,
        paths,
        client,
        placement,
        versions,
        resolution,
        process_start,
    ];
    rules.iter().filter_map(|rule| rule(&facts)).collect()
}

fn note(id: &str, text: String) -> Option<Note> {
    Some(Note {
        id: id.to_owned(),
        text,
    })
}

impl Facts<'_> {
    fn environment(&self) -> Option<&Environment> {
        self.carried.environment()
    }

    fn cases(&self) -> impl Iterator<Item = &CaseSummary> {
        self.carried.design.iter().flat_map(|summary| &summary.cases)
    }
}

/// Another machine: the figures themselves cannot agree, their ratios can.
fn speed(facts: &Facts<'_>) -> Option<Note> {
    let rows = facts
        .repetition
        .figures
        .iter()
        .filter(|row| row.figure.runs == facts.part.run.id);
    let factors: Vec<f64> = rows
        .filter_map(|row| factor(facts, row))
        .filter(|factor| *factor > 0.0)
        .collect();
    let (low, high) = factors.iter().fold((f64::MAX, 0.0_f64), |(low, high), &next| {
        (low.min(next), high.max(next))
    });
    let environment = facts.environment()?;
    (!factors.is_empty()).then_some(())?;
    note(
        "machine",
        format!(
            "this machine ({}, {} CPUs, {}, Linux {}) is {low:.2} to {high:.2} times as fast as the study's ({}; {}): compare \
             ratios, not figures",
            environment.cpu_model,
            environment.cpus,
            environment.virtualization,
            environment.kernel,
            facts.study.environment.machine,
            facts.study.environment.system
        ),
    )
}

/// How many times as fast a figure is here; `None` for what is neither a rate nor a time.
fn factor(facts: &Facts<'_>, row: &FigureRow) -> Option<f64> {
    let here = row.method.or(row.lasthop)?.value / row.figure.value;
    let quantity = &row.figure.measured;
    match quantity.base {
        Base::Rate => Some(here),
        // Shorter runs have fewer requests on any machine, and runs by count have the same.
        Base::Requests => (facts.made.shortened.is_none() && facts.part.run.count.is_none()).then_some(here),
        Base::LatencyMean | Base::Time if quantity.is(quantity.base) => Some(1.0 / here),
        _ => None,
    }
}

/// What lasthop's intervals say of the published ratio.
fn runs(facts: &Facts<'_>) -> Option<Note> {
    let row = facts.claims.iter().find(|row| row.lasthop.is_some())?;
    let lasthop = row.lasthop?;
    let (low, high) = (lasthop.low?, lasthop.high?);
    let summary = facts.carried.design.as_ref()?;
    let mut text = format!(
        "the study has {} of each condition; lasthop's {} in {} give the ratio to ±{}",
        counted(facts.part.run.runs.into(), "run"),
        counted(summary.blocks.into(), "block"),
        counted(summary.rounds.into(), "round"),
        percent((high - low) / 2.0 / lasthop.value)
    );
    if let Some(published) = row.published {
        let inside = published >= low && published <= high;
        let word = if inside { "inside" } else { "outside" };
        text.push_str(&format!(
            "; the published ratio {published:.3} lies {word} its interval"
        ));
    }
    note("runs", text)
}

/// A line through two totals that nearly coincide has no slope to speak of.
fn line(facts: &Facts<'_>) -> Option<Note> {
    let plain = facts.part.run.time == Time::Rate;
    let (negative, all) = negative(facts, &Quantity::of(Base::Time));
    let text = format!(
        "in {negative} of {all} conditions the longer run took no more time than the shorter one: the start of the \
             client, part of every run, varies by more than the requests take; only longer runs would tell"
    );
    (!plain && negative > 0).then(|| note("line", text)).flatten()
}

/// In how many of the study's conditions a quantity came out as nothing or less, and how many have it.
fn negative(facts: &Facts<'_>, quantity: &Quantity) -> (usize, usize) {
    let mut conditions: Vec<IndexMap<String, String>> = Vec::new();
    for case in &facts.part.method {
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
    (values.iter().filter(|value| **value <= 0.0).count(), values.len())
}

/// What is left of two totals that nearly coincide is noise.
fn difference(facts: &Facts<'_>) -> Option<Note> {
    let mut claims = facts.claims.iter().map(|row| &row.claim);
    let claim = claims.find(|claim| claim.measured.base == Base::Difference)?;
    let (negative, all) = negative(facts, &claim.measured);
    let text = format!(
        "by the study's method {} is negative in {negative} of {all} conditions: its two runs vary by more than their \
             difference",
        claim.words
    );
    (negative > 0).then(|| note("difference", text)).flatten()
}

/// Whether connections of the link were used again, as the application saw it.
fn reuse(facts: &Facts<'_>) -> Option<Note> {
    let mut alike: IndexMap<(u64, u64), Vec<&str>> = IndexMap::new();
    for case in facts.cases() {
        if let Some(link) = case.proof.as_ref().and_then(|proof| proof.link.as_ref()) {
            let counted = (u64::from(link.requests), u64::from(link.connections));
            alike.entry(counted).or_default().push(&case.case);
        }
    }
    let seen: Vec<String> = alike
        .iter()
        .map(|((requests, connections), cases)| {
            format!(
                "{requests} requests over {} in {}",
                counted(*connections, "connection"),
                cases.join(", ")
            )
        })
        .collect();
    if seen.is_empty() {
        return drivers_reuse(facts);
    }
    note(
        "reuse",
        format!(
            "connections of the link, counted by the application: {}",
            seen.join("; ")
        ),
    )
}

/// The same of the driver's own connection, as its sockets showed.
fn drivers_reuse(facts: &Facts<'_>) -> Option<Note> {
    let mut alike: IndexMap<String, usize> = IndexMap::new();
    for case in facts.cases().filter(|case| case.proof.is_some()) {
        let kept = case.proof.as_ref().is_some_and(|proof| proof.reused);
        let how = match (kept, case.load.requests_per_connection) {
            (true, _) => "a kept connection".to_owned(),
            (false, 1) => "a connection per request".to_owned(),
            (false, many) => format!("a connection per {many} requests"),
        };
        *alike.entry(how).or_default() += 1;
    }
    let words: Vec<String> = alike
        .iter()
        .map(|(how, cases)| format!("{how} in {}", counted(*cases as u64, "condition")))
        .collect();
    let text = format!("lasthop's driver had {}, as its sockets showed", words.join(", "));
    (!words.is_empty()).then(|| note("reuse", text)).flatten()
}

/// What the words of a study ("forwarded port") were on this machine.
fn paths(facts: &Facts<'_>) -> Option<Note> {
    let found = facts.cases().filter_map(|case| {
        let hops = &case.proof.as_ref()?.path;
        (!hops.is_empty()).then(|| format!("{}: {}", case.case, observation::path(hops)))
    });
    let found: Vec<String> = found.collect();
    (!found.is_empty())
        .then(|| note("paths", format!("found on this machine: {}", found.join("; "))))
        .flatten()
}

/// How much of a core the study's client and lasthop's used.
fn client(facts: &Facts<'_>) -> Option<Note> {
    let loads: Vec<f64> = facts
        .part
        .method
        .iter()
        .flat_map(|case| &case.trials)
        .map(lasthop_protocol::TrialResult::driver_load)
        .filter(|load| load.is_finite())
        .collect();
    let highest = loads.iter().copied().fold(0.0, f64::max);
    let own = facts
        .cases()
        .filter_map(|case| Some(case.metrics.as_ref()?.driver_load))
        .fold(0.0, f64::max);
    (!loads.is_empty()).then_some(())?;
    let name = facts.study.method.tool.map_or("the study's program", |tool| tool.name);
    let verdict = if highest >= SATURATED {
        "it was the bottleneck, which compresses differences between servers"
    } else {
        "it was not the bottleneck"
    };
    note(
        "client",
        format!(
            "{name} used up to {} of a core, lasthop's driver {}: {verdict}",
            percent(highest),
            percent(own)
        ),
    )
}

fn placement(facts: &Facts<'_>) -> Option<Note> {
    let summary = facts.carried.design.as_ref()?;
    let cpus = facts.environment()?.cpus;
    let how = match &summary.settings.placement {
        Placement::Free => format!("client and servers share {cpus} CPUs freely"),
        Placement::Apart { .. } => {
            format!("lasthop pinned its driver apart from the servers ({cpus} CPUs); the study's method was not pinned")
        }
        Placement::Same { .. } => "client and servers shared one CPU".to_owned(),
    };
    note(
        "placement",
        format!("{how}; part of each figure depends on which CPUs the processes get"),
    )
}

/// Versions there and here, of what both name.
fn versions(facts: &Facts<'_>) -> Option<Note> {
    let environment = facts.environment()?;
    let pairs = facts.study.environment.software.iter().filter_map(|(name, theirs)| {
        let ours = environment.programs.get(name).map(|program| program.version.clone())?;
        let theirs = if theirs == "not stated" {
            "version not stated"
        } else {
            theirs.as_str()
        };
        Some(format!("{name} {theirs} then, {ours} here"))
    });
    let pairs: Vec<String> = pairs.collect();
    (!pairs.is_empty())
        .then(|| note("versions", pairs.join("; ")))
        .flatten()
}

/// What the tool's clock can show, against the difference that was found.
fn resolution(facts: &Facts<'_>) -> Option<Note> {
    let trial = facts
        .part
        .method
        .iter()
        .flat_map(|case| &case.trials)
        .find_map(|trial| trial.reported.as_ref())?;
    let row = facts.claims.first()?;
    let (quantity, words) = match row.claim.measured.base {
        Base::Time | Base::Difference => (row.claim.measured.clone(), row.claim.words.as_str()),
        _ => (Quantity::of(Base::LatencyMean), Base::LatencyMean.words()),
    };
    let time = |levels| {
        facts
            .part
            .design_value(&quantity, levels, "us")
            .map(|value| value.value)
    };
    let effect = (time(&row.claim.case)? - time(&row.claim.against)?).abs();
    let resolution = trial.resolution_ns / 1e3;
    let word = if resolution > effect {
        "its latencies cannot show the difference, but its rate can"
    } else {
        "fine enough for the difference"
    };
    let caution = trial
        .caution
        .as_ref()
        .map_or_else(String::new, |caution| format!(" ({caution})"));
    let shown = if resolution < 1.0 {
        "less than 1".to_owned()
    } else {
        format!("{resolution:.0}")
    };
    note(
        "resolution",
        format!(
            "{} resolves {shown} µs, and the difference of {effect:.1} µs is in the {words}: {word}{caution}",
            trial.tool
        ),
    )
}

/// A client that is started for each connection is timed with it.
fn process_start(facts: &Facts<'_>) -> Option<Note> {
    let tool = facts.study.method.tool.filter(|tool| tool.is_timed_from_outside)?.name;
    let case = facts.part.method.iter().find(|case| !case.trials.is_empty())?;
    let trial = case.trials.first()?;
    (trial.connections_opened == trial.requests && trial.requests > 1).then_some(())?;
    let theirs = facts
        .part
        .method_value(&Quantity::of(Base::Time), &case.levels, "ms")?
        .value;
    let ours = facts
        .part
        .design_value(&Quantity::of(Base::Time), &case.levels, "ms")?
        .value;
    note(
        "process-start",
        format!(
            "with a {tool} per connection it takes {theirs:.2} ms, without {tool} {ours:.2} ms: {} of the study's \
             figure is the start of {tool}",
            percent((1.0 - ours / theirs).max(0.0))
        ),
    )
}
