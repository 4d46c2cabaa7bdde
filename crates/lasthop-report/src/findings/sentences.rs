//! What the answers say together, in sentences.

use std::collections::BTreeSet;

use indexmap::IndexMap;
use lasthop_analyse::{
    answers::{Answer, CpuAgainst, KnownCase},
    summary::Verdict,
};
use lasthop_model::quantity::joined;
use lasthop_protocol::spec::Transport;

use crate::{
    answers::{Compared, compared, interval, of_machine},
    content::listed,
    document::{Block, Cell, Columns, Row, Table, Text, Tone},
    units::{NBSP, Seconds, percent, plural},
    wording::margin,
};

/// A comparison and whose it is.
type Told<'a> = (&'a Answer, Compared<'a>);

/// Settings named in a list; more are counted.
const MOST: usize = 6;

/// `redis (GET, pipeline 16)`
pub fn place((answer, one): &Told<'_>) -> String {
    let (name, setting) = (&answer.experiment, &one.setting.name);
    if setting.is_empty() {
        name.clone()
    } else {
        format!("{name} ({setting})")
    }
}

fn all<'a>(answers: &[&'a Answer]) -> impl Iterator<Item = Told<'a>> {
    let each = |answer: &&'a Answer| {
        let answer = *answer;
        compared(answer).map(move |one| (answer, one)).collect::<Vec<_>>()
    };
    answers.iter().flat_map(each).collect::<Vec<_>>().into_iter()
}

/// Whether the transports themselves are compared, and not paths into a container.
fn are_transports(one: &Compared<'_>, wanted: Transport) -> bool {
    let own = |case: &KnownCase, transport: Transport| case.transport == transport && case.level == transport.name();
    own(one.case, wanted) && own(one.reference, Transport::Tcp) && !one.case.control
}

fn unix_against_tcp<'a>(answers: &[&'a Answer]) -> Vec<Told<'a>> {
    let mut found: Vec<Told<'_>> = all(answers)
        .filter(|(_, one)| are_transports(one, Transport::Unix))
        .collect();
    found.sort_by(|(_, one), (_, other)| one.against.ratio.estimate.total_cmp(&other.against.ratio.estimate));
    found
}

fn shown(one: &Told<'_>) -> String {
    format!("{} in {}", figures(&one.1), place(one))
}

/// `from LEAST to MOST, with a median of MIDDLE`, of a sorted list; or the only one.
fn spread<T>(sorted: &[T], shown: impl Fn(&T) -> String) -> Option<String> {
    let (least, most) = (sorted.first()?, sorted.last()?);
    Some(match sorted.len() {
        1 => shown(least),
        2 => format!("from {} to {}", shown(least), shown(most)),
        _ => {
            let middle = &sorted[sorted.len() / 2];
            format!(
                "from {} to {}, with a median of {}",
                shown(least),
                shown(most),
                shown(middle)
            )
        }
    })
}

/// The answer: which is faster, what it saves, and when that stops mattering.
pub fn answer(answers: &[&Answer]) -> Vec<String> {
    let found = unix_against_tcp(answers);
    let Some((answer, _)) = found.first() else {
        return vec!["Unix sockets have not been compared with TCP yet.".to_owned()];
    };
    let within = margin(answer.margin);
    let saids = [Some(faster(&found, &within)), saved(&found), matters(&found, &within)];
    saids.into_iter().flatten().collect()
}

/// How often it is faster, and by how much where that is certain.
fn faster(found: &[Told<'_>], within: &str) -> String {
    let stacks: BTreeSet<&str> = found.iter().map(|(answer, _)| answer.experiment.as_str()).collect();
    let of = |verdict| found.iter().filter(|(_, one)| one.against.verdict == verdict).count();
    let others = [
        (of(Verdict::Slower), "slower in".to_owned()),
        (of(Verdict::Equivalent), format!("within {within} of it in")),
        (of(Verdict::Undecided), "undecided in".to_owned()),
    ];
    let others = others.into_iter().filter(|(count, _)| *count > 0);
    let counts = std::iter::once(format!(
        "faster than TCP in {} of {} comparisons of {}",
        of(Verdict::Faster),
        found.len(),
        plural(stacks.len() as u64, "stack")
    ))
    .chain(others.map(|(count, what)| format!("{what} {count}")));
    let counts: Vec<String> = counts.collect();
    let counts = listed(&counts.iter().map(String::as_str).collect::<Vec<_>>());
    let ends = spread(found, shown).filter(|_| of(Verdict::Faster) > 0);
    format!(
        "The Unix socket is {counts}{}.",
        ends.map_or_else(String::new, |ends| format!(": {ends}"))
    )
}

/// Those whose saving of CPU time is certain, the smallest first.
fn savings<'a>(found: &[Told<'a>]) -> Vec<(Told<'a>, &'a CpuAgainst)> {
    let known = found
        .iter()
        .filter_map(|told| Some((*told, told.1.against.cpu.as_ref()?)));
    let mut certain: Vec<_> = known
        .filter(|(_, cpu)| cpu.verdict == Verdict::Faster && cpu.saved_us.low > 0.0)
        .collect();
    certain.sort_by(|(_, one), (_, other)| one.saved_us.estimate.total_cmp(&other.saved_us.estimate));
    certain
}

fn saved(found: &[Told<'_>]) -> Option<String> {
    let certain = savings(found);
    let spread = spread(&certain, |(told, _)| {
        format!("{} a request in {}", told.1.cpu_saved(), place(told))
    })?;
    Some(format!(
        "It certainly saves CPU time in {} of these: {spread}.",
        certain.len()
    ))
}

fn matters(found: &[Told<'_>], within: &str) -> Option<String> {
    let mut known: Vec<(Told<'_>, f64)> = savings(found)
        .into_iter()
        .filter_map(|(told, cpu)| Some((told, cpu.matters_below_us.as_ref()?.estimate)))
        .collect();
    known.sort_by(|(_, one), (_, other)| one.total_cmp(other));
    let spread = spread(&known, |(told, _)| {
        format!("{} in {}", told.1.matters_below().replace(" to ", "–"), place(told))
    })?;
    Some(format!(
        "It stops mattering (less than {within} of what busy CPUs handle) once the work of a request uses more CPU than this: \
         {spread}."
    ))
}

/// What one would not expect.
pub fn surprises(answers: &[&Answer]) -> Vec<Block> {
    let unix = unix_against_tcp(answers);
    let with = |found: &[Told<'_>], verdict: Verdict| -> Vec<String> {
        let found = found.iter().filter(|(_, one)| one.against.verdict == verdict);
        found
            .map(|told| format!("{}: {}", place(told), figures(&told.1)))
            .collect()
    };
    let tls: Vec<Told<'_>> = all(answers)
        .filter(|(_, one)| are_transports(one, Transport::Tls))
        .collect();
    let mut items = vec![
        item("The Unix socket is slower than TCP", with(&unix, Verdict::Slower)),
        item("The Unix socket makes no difference", with(&unix, Verdict::Equivalent)),
        item("TLS costs no throughput", with(&tls, Verdict::Equivalent)),
        item("TLS is faster than plain TCP", with(&tls, Verdict::Faster)),
    ];
    items.extend(paths(answers));
    let items: Vec<Block> = items.into_iter().flatten().collect();
    if items.is_empty() {
        return vec![Block::Paragraph("Nothing so far.".into())];
    }
    items
}

/// `0.89 times (0.87 to 0.91)`
fn figures(one: &Compared<'_>) -> String {
    format!("{}{NBSP}times ({})", one.ratio(), one.ends())
}

/// The paths into containers, the fastest first: an item for each setting.
fn paths(answers: &[&Answer]) -> Vec<Option<Block>> {
    let mut settings: IndexMap<String, Vec<Told<'_>>> = IndexMap::new();
    for told in all(answers).filter(|(_, one)| one.case.level != one.case.transport.name() && !one.case.control) {
        let name = format!("{}, against {}", place(&told), told.1.reference.name);
        settings.entry(name).or_default().push(told);
    }
    let one = |(name, mut paths): (String, Vec<Told<'_>>)| {
        paths.retain(|(_, one)| one.against.verdict.differs());
        paths.sort_by(|(_, one), (_, other)| other.against.ratio.estimate.total_cmp(&one.against.ratio.estimate));
        let shown = paths
            .iter()
            .map(|(_, one)| format!("{} {}", one.case.name, figures(one)));
        item(&name, shown.collect())
    };
    settings.into_iter().map(one).collect()
}

fn item(what: &str, places: Vec<String>) -> Option<Block> {
    let rest = places.len().saturating_sub(MOST);
    let more = if rest > 0 {
        format!("; and {rest} more")
    } else {
        String::new()
    };
    let list = joined(places.iter().take(MOST).map(String::as_str), "; ");
    (!places.is_empty())
        .then(|| Block::Item(Text::of(Tone::Strong, format!("{what}: ")).plain(format!("{list}{more}."))))
}

/// Half of an interval's width as a share; twice the truth and more is no figure.
fn precision(share: f64) -> String {
    if share > 1.0 {
        "over 100 %".to_owned()
    } else {
        percent(share, 1)
    }
}

/// How much data each answer rests on, and what is doubtful.
pub fn sure(answers: &[&Answer]) -> Vec<Block> {
    let mut machines: Vec<String> = answers.iter().map(|answer| of_machine(answer)).collect();
    machines.sort_unstable();
    machines.dedup();
    let mut blocks: Vec<Block> = Vec::new();
    if !machines.is_empty() {
        blocks.push(Block::Paragraph(format!("Measured on {}.", machines.join("; ")).into()));
    }
    let widest = |answer: &Answer| {
        let widths = compared(answer).map(|one| {
            let ratio = interval(&one.against.ratio);
            (ratio.high / ratio.low).sqrt() - 1.0
        });
        widths.fold(0.0, f64::max)
    };
    let undecided = |answer: &Answer| {
        compared(answer)
            .filter(|one| one.against.verdict == Verdict::Undecided)
            .count()
    };
    let each = |of: &dyn Fn(&Answer) -> String| answers.iter().map(|answer| of(answer)).collect::<Vec<_>>();
    let columns = Columns::default()
        .left(
            "experiment",
            answers
                .iter()
                .map(|answer| Cell::new(Tone::Strong, answer.experiment.clone())),
        )
        .right("rounds", each(&|answer| answer.rounds.to_string()))
        .right("time", each(&|answer| Seconds(answer.seconds).to_string()))
        .right("comparisons", each(&|answer| compared(answer).count().to_string()))
        .right("undecided", each(&|answer| undecided(answer).to_string()))
        .right("widest ±", each(&|answer| precision(widest(answer))))
        .left(
            "day",
            each(&|answer| answer.started.get(..10).unwrap_or_default().to_owned()),
        )
        .left("doubts", each(&|answer| answer.doubts.join(", ")));
    let (columns, rows) = columns.into_rows();
    if !rows.is_empty() {
        let rows = rows.into_iter().map(Row::Cells).collect();
        blocks.push(Block::Table(Table { columns, rows }));
        blocks.push(Block::legend(
            "Widest ±: half of the widest interval of a ratio. `lasthop explain-check` says what a doubt means.",
        ));
    }
    blocks
}
