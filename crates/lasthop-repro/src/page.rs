//! A repetition for people: published figures, figures by the study's method here and by lasthop here, and why they
//! differ.

use lasthop_page::{
    columns::Columns,
    document::{Block, Cell, Depth, Document, Section, Table, Text, Tone},
    units::{NONE, Seconds, plural},
};
use lasthop_report::wording::word;

use super::outcome::{ClaimRow, ClaimVerdict, FigureRow, Found, RepeatedExperiment, Repetition, Value};
use crate::study::model::Study;

/// The document of a repetition.
pub fn document(result: &Repetition) -> Document {
    let mut sections = vec![claims(result)];
    for part in &result.parts {
        sections.push(figures(result, part));
        sections.extend(beside(part));
        sections.push(layers(part));
        sections.extend(why(part));
    }
    sections.extend([missed(result), environment(result)]);
    Document {
        title: verdict(result),
        subtitle: Text::of(
            Tone::Dim,
            format!(
                "{} · {}, {} · {} · repeated in {}",
                result.title,
                result.author,
                result.published,
                result.question,
                Seconds(result.seconds)
            ),
        ),
        sections: sections
            .into_iter()
            .filter(|section| !section.blocks.is_empty())
            .collect(),
    }
}

/// The verdicts on the claims, in a line.
fn verdict(result: &Repetition) -> Text {
    let all = result.claims.len();
    let count = |word| result.claims.iter().filter(|row| row.word == word).count();
    let [reproduced, refuted] = [ClaimVerdict::Reproduced, ClaimVerdict::Refuted].map(count);
    let tone = match (reproduced == all, refuted) {
        _ if all == 0 => Tone::Warning,
        (true, _) => Tone::Good,
        (false, 0) => Tone::Strong,
        (false, _) => Tone::Bad,
    };
    let claims = plural(all as u64, "claim");
    let study = &result.study;
    Text::of(
        tone,
        format!("{study}: {reproduced} of {claims} reproduced, {refuted} refuted."),
    )
}

fn section(title: &str, depth: Depth, blocks: Vec<Block>) -> Section {
    Section {
        title: Some(title.to_owned()),
        depth,
        blocks,
    }
}

/// A value in words; a dash if unknown.
fn known<T>(value: Option<T>, words: impl Fn(T) -> String) -> String {
    value.map_or_else(|| NONE.to_owned(), words)
}

fn claims(result: &Repetition) -> Section {
    let tone = |word| match word {
        ClaimVerdict::Reproduced => Tone::Good,
        ClaimVerdict::Refuted => Tone::Bad,
        _ => Tone::Warning,
    };
    let plain = |ratio: f64| format!("{ratio:.3}");
    let table = Columns::of(&result.claims)
        .left("claim (ratio)", claim_name)
        .left("verdict", |row| Cell::new(tone(row.word), row.word.words()))
        .right("published", |row| known(row.published, plain))
        .right("their method here", |row| known(row.ratios.method, plain))
        .right("lasthop here", |row| known(row.ratios.lasthop, ratio))
        .right("rounds", |row| {
            known(row.ratios.sample, |sample| sample.rounds.to_string())
        })
        .right("blocks", |row| {
            known(row.ratios.sample, |sample| sample.blocks.to_string())
        })
        .left("because", |row| row.because.as_deref().unwrap_or_default())
        .table();
    section("What was claimed", Depth::Open, unless_empty(table))
}

fn unless_empty(table: Table) -> Vec<Block> {
    if table.rows.is_empty() {
        vec![]
    } else {
        vec![Block::Table(table)]
    }
}

fn claim_name(row: &ClaimRow) -> String {
    let system = if row.claim.system.is_empty() {
        String::new()
    } else {
        format!(" [{}]", row.claim.system)
    };
    format!("{}{system}", row.claim.text)
}

fn ratio(value: Value) -> String {
    match (value.low, value.high) {
        (Some(low), Some(high)) => format!("{:.3} ({low:.3} to {high:.3})", value.value),
        _ => format!("{:.3}", value.value),
    }
}

fn figures(result: &Repetition, part: &RepeatedExperiment) -> Section {
    let mut blocks = Vec::new();
    match (&part.skipped, &part.method) {
        (Some(reason), _) => blocks.push(Block::Paragraph(Text::of(
            Tone::Warning,
            format!("Not repeated here: {}.", reason.trim_end_matches('.')),
        ))),
        (None, Some(method)) => {
            let shortened = part
                .shortened
                .as_ref()
                .map_or_else(String::new, |short| format!(" (shortened to the budget: {short})"));
            blocks.push(Block::Paragraph(
                format!("Their method here: {method}{shortened}.").into(),
            ));
        }
        _ => {}
    }
    if let Some(design) = &part.design {
        blocks.push(Block::Paragraph(format!("lasthop here: {design}.").into()));
    }
    blocks.extend(
        part.failures
            .iter()
            .map(|failure| Block::Item(Text::of(Tone::Bad, failure))),
    );
    let rows = result.figures.iter().filter(|row| row.figure.runs == part.runs);
    let rows: Vec<&FigureRow> = rows.collect();
    let condition = |row: &&FigureRow| match row.figure.system.as_str() {
        "" => row.figure.condition.clone(),
        system => format!("{}, system {system}", row.figure.condition),
    };
    let table = Columns::of(&rows)
        .left("figure", |row| &row.figure.words)
        .right("published", |row| format!("{} {}", row.figure.printed, row.figure.unit))
        .right("their method here", |row| {
            known(row.method, |value| shown(value, &row.figure.unit))
        })
        .right("lasthop here", |row| {
            known(row.lasthop, |value| shown(value, &row.figure.unit))
        })
        .under(condition)
        .table();
    blocks.extend(unless_empty(table));
    section(&format!("{}: {}", part.experiment, part.runs), Depth::Open, blocks)
}

/// Conditions and quantities without a published figure.
fn beside(part: &RepeatedExperiment) -> Option<Section> {
    let difference = part.found.iter().any(|found| found.unit == "us");
    let time = |value: Value| shown(value, "us");
    let columns = Columns::of(&part.found);
    let value = |found: &Found| known(found.value, |value| shown(value, &found.unit));
    let table = if difference {
        columns
            .left("quantity", |found| &found.condition)
            .right("time", value)
            .right("more than the reference", |found| known(found.against, time))
            .table()
    } else {
        columns
            .left("condition", |found| &found.condition)
            .right("requests/s", value)
            .right("99th percentile", |found| known(found.latency_p99, time))
            .right("ratio to the reference", |found| known(found.against, ratio))
            .left("verdict", |found| found.verdict.map_or("reference", word))
            .table()
    };
    let title = match &part.beyond {
        Some(beyond) => format!("What the study could not do: {beyond}"),
        None => format!("What else lasthop found ({})", part.runs),
    };
    (!part.found.is_empty()).then(|| section(&title, Depth::Open, vec![Block::Table(table)]))
}

/// A value with four significant digits and its unit.
fn shown(value: Value, unit: &str) -> String {
    let number = |value: f64| {
        // 0 has no logarithm.
        let digits = 3 - value.abs().max(1e-9).log10().floor() as i32;
        format!("{value:.*}", digits.clamp(0, 6) as usize)
    };
    match (value.low, value.high) {
        (Some(low), Some(high)) if high > low => {
            format!("{} {unit} ({} to {})", number(value.value), number(low), number(high))
        }
        _ => format!("{} {unit}", number(value.value)),
    }
}

fn why(part: &RepeatedExperiment) -> Option<Section> {
    let items = part
        .why
        .iter()
        .map(|note| Block::Item(Text::of(Tone::Strong, format!("{}: ", note.id)).plain(&note.text)));
    let blocks: Vec<Block> = items.collect();
    (!blocks.is_empty()).then(|| section(&format!("Why they differ ({})", part.runs), Depth::Open, blocks))
}

fn layers(part: &RepeatedExperiment) -> Section {
    let paragraphs = part.layers.iter();
    let paragraphs = paragraphs.map(|said| Block::Paragraph(said.as_str().into()));
    let title = format!("Where the time goes ({})", part.runs);
    section(&title, Depth::Open, paragraphs.collect())
}

fn missed(result: &Repetition) -> Section {
    let items = result
        .missed
        .iter()
        .map(|missed| Block::Item(missed.text.as_str().into()))
        .collect();
    section("What the study's method missed", Depth::Folded, items)
}

fn environment(result: &Repetition) -> Section {
    let theirs = &result.published_environment;
    let software: Vec<String> = theirs
        .software
        .iter()
        .map(|(name, version)| format!("{name} {version}"))
        .collect();
    let mut blocks = vec![
        Block::Paragraph(
            format!(
                "Then: {}; {}; {}; {}",
                theirs.machine,
                theirs.system,
                software.join(", "),
                theirs.link
            )
            .into(),
        ),
        Block::Paragraph(format!("Their method: {}", result.published_method).into()),
    ];
    if let Some(here) = &result.environment {
        let programs: Vec<String> = here
            .programs
            .iter()
            .map(|(name, program)| format!("{name} {}", program.version))
            .collect();
        let text = format!(
            "Here: {}, {}, {}, Linux {}; {}",
            here.cpu_model,
            plural(u64::from(here.cpus), "CPU"),
            here.distribution,
            here.kernel,
            programs.join(", ")
        );
        blocks.push(Block::Paragraph(text.into()));
    }
    for part in &result.parts {
        let records = part.design_record.iter().chain(&part.method_records);
        let records: Vec<&str> = records.map(String::as_str).collect();
        if !records.is_empty() {
            blocks.push(Block::Item(
                format!("records of {}: {}", part.runs, records.join(", ")).into(),
            ));
        }
    }
    section("Environment", Depth::Folded, blocks)
}

/// The list of studies: name, number of figures, tool, and whether the study can be repeated here.
pub fn listing(studies: &[(Study, String)]) -> Document {
    let table = Columns::of(studies)
        .left("study", |(study, _)| &study.name)
        .right("figures", |(study, _)| study.numbers().len().to_string())
        .left("tool", |(study, _)| &study.method.driver)
        .left("state here", |(_, state)| state)
        .table();
    Document {
        title: Text::of(Tone::Strong, "Studies"),
        subtitle: Text::of(
            Tone::Dim,
            "lasthop repro NAME repeats one study, lasthop repro --all writes a book of all",
        ),
        sections: vec![Section {
            title: None,
            depth: Depth::Open,
            blocks: vec![Block::Table(table)],
        }],
    }
}
