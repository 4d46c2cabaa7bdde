//! The layers of CPU time by which a case differs from its reference, from profile trials.

use lasthop_analyse::{
    groups::{Compared, Group, groups},
    summary::{Explained, LayerDifference, LayerSaving, Measured, ProfiledRole, Summary, ThreadTime, Verdict},
};
use lasthop_model::{profile::KERNEL, quantity::joined};
use lasthop_stats::Interval;

use super::{parts, why::place};
use crate::{
    columns::Columns,
    document::{Block, Cell, Table, Tone},
    names::Named,
    units::{Micros, NONE, TimeUnit, capital, grouped, percent},
    wording::listed,
};

/// The most kinds of events that are named.
const EVENTS: usize = 6;
/// A share of a difference beyond which it is called most of the difference.
const MOST: f64 = 0.6;
/// The most roles with a column each.
const ROLES: usize = 3;

/// The layers of a comparison; empty without profile trials.
pub fn blocks(compared: Compared<'_>) -> Vec<Block> {
    let Some((explained, found)) = difference(compared) else {
        return Vec::new();
    };
    let names = names(compared);
    let sign = sign(found);
    let lines = lines(explained, found);
    let titles = [compared.reference, compared.case].map(|case| compared.group.label(case));
    let tables = [events(&titles, found), time(&titles, compared, explained)];
    let said = [kernel(found), saves_no_time(&names, compared)];
    [
        Block::Paragraph(heading(&names, explained, found, sign).into()),
        Block::Table(table(found, &lines, sign)),
    ]
    .into_iter()
    .chain(said.into_iter().flatten().map(Block::legend))
    .chain(tables.into_iter().flatten().map(Block::Table))
    .collect()
}

/// The layers in a paragraph: those that certainly differ, and where each role spends the rest of its CPU time. `None`
/// unless both cases have profile trials.
#[must_use]
pub fn in_words(summary: &Summary, case: &str) -> Option<String> {
    let groups = groups(summary);
    let compared = groups
        .iter()
        .flat_map(Group::compared)
        .find(|one| one.case.case == case)?;
    let (explained, found) = difference(compared)?;
    let sign = sign(found);
    let differing: Vec<&LayerSaving> = found
        .layers
        .iter()
        .filter(|saving| saving.saved.interval.is_known())
        .collect();
    let said = differing.iter().map(|saving| {
        let Interval { low, high, estimate } = saving.saved.interval;
        let ends = if sign < 0.0 { [-high, -low] } else { [low, high] };
        let [estimate, low, high] =
            [estimate * sign, ends[0], ends[1]].map(|us| written(us, found.saved.interval.estimate));
        format!("{} {estimate} ({low} to {high})", explained.title(&saving.layer))
    });
    let said = match joined(said, ", ") {
        none if none.is_empty() => "no layer certainly differs".to_owned(),
        said => said,
    };
    let reference = explained.cases.get(&compared.reference.case);
    let roles = reference.into_iter().flat_map(|of| &of.roles);
    let kept = roles
        .filter(|(role, _)| *role != KERNEL)
        .filter_map(|(role, of)| kept(explained, role, of, &differing));
    let kept = match joined(kept, "; ") {
        none if none.is_empty() => none,
        kept => format!(" With {}, {kept}.", compared.group.name(compared.reference)),
    };
    Some(format!(
        "{} {said}.{kept}",
        heading(&names(compared), explained, found, sign)
    ))
}

/// `server spends 21.0 µs of 25.1 µs (84 %) in layers that do not differ, most in The program (18.2 µs)`
fn kept(explained: &Explained, role: &str, of: &ProfiledRole, differing: &[&LayerSaving]) -> Option<String> {
    let all = of.layers.values().sum::<f64>() + of.not_attributed_us;
    let differs = |layer: &str| differing.iter().any(|saving| saving.layer == layer);
    let same = || of.layers.iter().filter(|(layer, _)| !differs(layer));
    // The largest layer, because layers are sorted by size.
    let (most, us) = same().next()?;
    let sum: f64 = same().map(|(_, us)| us).sum();
    Some(format!(
        "{} spends {} of {} ({}) in layers that do not differ, most in {} ({})",
        place(role),
        Micros(sum),
        Micros(all),
        percent(sum / all, 0),
        explained.title(most),
        Micros(*us)
    ))
}

fn names(compared: Compared<'_>) -> (String, String) {
    (
        parts::full_name(compared.group, compared.case),
        compared.group.name(compared.reference),
    )
}

/// The sign of a saving: -1 if the case takes more.
fn sign(found: &LayerDifference) -> f64 {
    if found.saved.interval.estimate < 0.0 { -1.0 } else { 1.0 }
}

fn difference<'a>(compared: Compared<'a>) -> Option<(&'a Explained, &'a LayerDifference)> {
    let explained = compared.group.summary().explained.as_ref()?;
    let found = explained
        .differences
        .iter()
        .find(|one| one.case == compared.case.case)?;
    Some((explained, found))
}

/// `In the profile trials, the Unix socket saves 17.6 µs of CPU per request (16.9 to 18.3; 8.1 in the driver, …):`
fn heading((case, reference): &(String, String), explained: &Explained, found: &LayerDifference, sign: f64) -> String {
    let Interval { estimate, low, high } = found.saved.interval;
    let mut values = vec![low * sign, high * sign];
    values.sort_by(f64::total_cmp);
    values.extend(found.roles.values().map(|saved| saved * sign));
    let values: Vec<String> = values.into_iter().map(|value| written(value, estimate)).collect();
    let (ends, roles) = values.split_at(2);
    let of_role = |(role, saved): (&String, &String)| format!("{saved} in {}", place(role));
    let roles = joined(found.roles.keys().zip(roles).map(of_role), ", ");
    let more = if sign < 0.0 { "more" } else { "less" };
    format!(
        "In the profile trials, {case} takes {} {more} CPU per request than {reference} ({} to {}; {roles}){}:",
        Micros(estimate.abs()),
        ends[0],
        ends[1],
        mostly(explained, found)
    )
}

/// `, mostly in TCP, IP and Socket layer`: the fewest layers that make up most of the difference.
fn mostly(explained: &Explained, found: &LayerDifference) -> String {
    let whole = found.saved.interval.estimate;
    let mut sum = 0.0;
    let mut names = Vec::new();
    // Layers are sorted by size.
    for saving in &found.layers {
        let saved = saving.saved.interval.estimate;
        if sum / whole < MOST && saved / whole > 0.0 {
            sum += saved;
            names.push(explained.title(&saving.layer));
        }
    }
    if sum / whole < MOST {
        return String::new();
    }
    format!(", mostly in {}", listed(&names))
}

/// A time in the unit and with the decimals of the whole difference, so that parts add up.
fn written(micros: f64, whole: f64) -> String {
    let unit = TimeUnit::of(whole).micros();
    let places = 2_usize.saturating_sub((whole.abs() / unit).max(1.0).log10() as usize);
    grouped(micros / unit, places)
}

/// A line of the table.
struct Line<'a> {
    title: &'a str,
    saved: f64,
    ends: Option<[f64; 2]>,
    saving: Option<&'a LayerSaving>,
}

fn lines<'a>(explained: &'a Explained, found: &'a LayerDifference) -> Vec<Line<'a>> {
    let of = |title, saving: &'a LayerSaving| Line {
        title,
        saved: saving.saved.interval.estimate,
        ends: Some([saving.saved.interval.low, saving.saved.interval.high]),
        saving: Some(saving),
    };
    let layers = found
        .layers
        .iter()
        .map(|saving| of(explained.title(&saving.layer), saving));
    let others = Line {
        title: "all other layers",
        saved: found.others_us,
        ends: None,
        saving: None,
    };
    layers
        .chain([others, of("not attributed", &found.not_attributed)])
        .collect()
}

fn table(found: &LayerDifference, lines: &[Line<'_>], sign: f64) -> Table {
    let unit = TimeUnit::of(found.saved.interval.estimate);
    // All cells have the same format. Adding 0.0 removes the sign of -0.
    let write = |value: f64| written(value * sign + 0.0, found.saved.interval.estimate);
    let interval = |line: &Line<'_>| {
        line.ends.map_or(String::new(), |ends| {
            let [low, high] = if sign < 0.0 { [ends[1], ends[0]] } else { ends };
            format!("{} to {}", write(low), write(high))
        })
    };
    let more = if sign < 0.0 { "more" } else { "less" };
    let mut columns = Columns::of(lines)
        .left("layer", |line| line.title)
        .right(format!("{} {more}", unit.name()), |line| {
            Cell::new(Tone::Strong, write(line.saved))
        })
        .joined("95 % interval", interval);
    for role in found.roles.keys().filter(|_| found.roles.len() <= ROLES) {
        columns = columns.right(role, |line| {
            let saved = line.saving.and_then(|saving| saving.roles.get(role));
            saved.map_or(NONE.to_owned(), |saved| write(*saved))
        });
    }
    columns.table()
}

/// A kernel event, with its counts per request for the reference and for the case.
struct Event<'a> {
    name: &'a str,
    before: f64,
    now: f64,
    saved: Option<&'a Measured>,
}

/// Kernel events per request, sorted by their difference.
fn events<'a>([reference, case]: &[String; 2], found: &'a LayerDifference) -> Option<Table> {
    let of = |(name, [now, before]): (&'a String, &[f64; 2])| Event {
        name,
        before: *before,
        now: *now,
        saved: found.events.get(name),
    };
    let mut rows: Vec<Event<'a>> = found.counts.iter().map(of).collect();
    let size = |event: &Event<'_>| (event.now - event.before).abs();
    rows.sort_by(|one, other| size(other).total_cmp(&size(one)));
    rows.truncate(EVENTS);
    let change = |event: &Event<'_>| {
        event.saved.map_or(String::new(), |saved| {
            let Interval { low, high, .. } = saved.interval;
            format!("{} to {}", grouped(-high + 0.0, 2), grouped(-low + 0.0, 2))
        })
    };
    let table = Columns::of(&rows)
        .left("per request", |event| event.name)
        .right(reference, |event| grouped(event.before, 2))
        .right(case, |event| grouped(event.now, 2))
        .left("change, 95 % interval", change)
        .table();
    (!rows.is_empty()).then_some(table)
}

fn kernel(found: &LayerDifference) -> Option<String> {
    let saved = found.kernel.as_ref()?.interval.estimate;
    let less = if saved < 0.0 { "more" } else { "less" };
    Some(format!(
        "The kernel itself works {} {less} per request in nobody's context, which is in no sum.",
        Micros(saved.abs())
    ))
}

/// How the driver's threads spend the duration of a request.
fn time(titles: &[String; 2], compared: Compared<'_>, explained: &Explained) -> Option<Table> {
    let of = |case: &str| explained.cases.get(case)?.roles.get("driver")?.time;
    let times: Vec<ThreadTime> = [compared.reference, compared.case]
        .iter()
        .map(|case| of(&case.case))
        .collect::<Option<_>>()?;
    let rows: Vec<(&String, &ThreadTime)> = titles.iter().zip(&times).collect();
    let columns = Columns::of(&rows)
        .left("driver, per request", |(title, _)| *title)
        .figures("µs", |(_, time)| Some(time.total()))
        .figures("working", |(_, time)| Some(time.working_us))
        .figures("ready to run", |(_, time)| Some(time.runnable_us))
        .figures("waiting", |(_, time)| Some(time.waiting_us));
    Some(columns.table())
}

/// Says that a difference in CPU time makes no request shorter or longer.
fn saves_no_time((case, _): &(String, String), compared: Compared<'_>) -> Option<String> {
    use lasthop_analyse::summary::Metric;
    let cpu = compared.group.comparison(compared.case, Metric::CpuPerRequest)?;
    (cpu.verdict.differs() && compared.comparison.verdict == Verdict::Equivalent).then(|| {
        format!(
            "{} takes other CPU time and the same time: the work that differs is done while somebody waits anyway.",
            capital(case)
        )
    })
}

/// The widest interval, as a factor, that still says something about the cost of observing.
const TOO_WIDE: f64 = 2.0;

/// The cost of observing, for the case that slows down most.
pub fn cost(groups: &[Group<'_>]) -> Option<Block> {
    let explained = groups.first()?.summary().explained.as_ref()?;
    let known = explained
        .cases
        .iter()
        .filter_map(|(case, of)| Some((case, of, of.speed.as_ref()?)))
        .filter(|(.., speed)| speed.interval.high <= speed.interval.low * TOO_WIDE);
    let slowest = known.min_by(|one, other| one.2.interval.estimate.total_cmp(&other.2.interval.estimate));
    let share = |value: f64| percent(value, 0);
    let cost = slowest.map_or_else(
        || "They are too few, or differ too much, to say what observing costs.".to_owned(),
        |(case, of, speed)| {
            format!(
                "They ran at {} of the speed of the other trials ({} to {}){}.",
                share(speed.interval.estimate),
                share(speed.interval.low),
                share(speed.interval.high),
                if explained.cases.len() > 1 {
                    format!(" or faster; {case} was slowed down most, in {} trials", of.trials)
                } else {
                    String::new()
                }
            )
        },
    );
    Some(Block::legend(format!(
        "Layers are from profile trials, which are in no other figure. {cost}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{fixtures, units::NBSP};

    #[test]
    fn a_paragraph_has_what_differs_and_where_the_rest_goes() {
        let run = fixtures::explained();
        let said = in_words(&run, &run.cases[0].case).unwrap();
        insta::assert_snapshot!(said.replace(NBSP, " "));
        assert_eq!(in_words(&run, "pigeon"), None);
        assert_eq!(in_words(&fixtures::three_transports(), &run.cases[0].case), None);
    }
}
