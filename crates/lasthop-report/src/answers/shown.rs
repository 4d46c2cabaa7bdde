//! What is known, for people and for spreadsheets.

use indexmap::IndexSet;
use lasthop_analyse::{
    answers::{Against, Answer, KnownCase, Machine, Setting},
    name_of,
};
use lasthop_stats::CONFIDENCE;

use super::plain;
use crate::{
    against::{self, Against as Row, Frame},
    columns::{Columns, Ratio},
    document::{Block, Depth, Document, Section, Table, Text, Tone},
    units::{NBSP, NONE, Seconds, TimeUnit, bound, ends, plural},
    wording::{NOT_SHOWN, Quantity, freed, tone, word},
};

/// A comparison of an answer, and where it is.
#[derive(Clone, Copy, Debug)]
pub struct Compared<'a> {
    pub setting: &'a Setting,
    pub reference: &'a KnownCase,
    pub case: &'a KnownCase,
    pub against: &'a Against,
}

/// All comparisons of an answer, in its order.
pub fn compared(answer: &Answer) -> impl Iterator<Item = Compared<'_>> {
    answer.settings.iter().flat_map(|setting| {
        let reference = setting.reference();
        setting.compared().filter_map(move |(case, against)| {
            Some(Compared {
                setting,
                reference: reference?,
                case,
                against,
            })
        })
    })
}

/// What somebody can choose: the first alternative in all settings, or all alternatives in the only one.
fn choices(answer: &Answer) -> Vec<Compared<'_>> {
    let all: Vec<Compared<'_>> = compared(answer).filter(|one| !one.case.control).collect();
    let Some(first) = all.first().map(|one| &one.case.level) else {
        return all;
    };
    let of_first: Vec<Compared<'_>> = all.iter().filter(|one| one.case.level == *first).copied().collect();
    if of_first.len() == 1 { all } else { of_first }
}

/// Those with the largest and the smallest ratio.
fn extremes(answer: &Answer) -> Vec<Compared<'_>> {
    let mut rows = choices(answer);
    rows.sort_by(|one, other| other.against.ratio.estimate.total_cmp(&one.against.ratio.estimate));
    if rows.len() > 2 {
        rows.drain(1..rows.len() - 1);
    }
    rows
}

impl Compared<'_> {
    /// `1.44`, `≥ 3.579`
    #[must_use]
    pub fn ratio(&self) -> String {
        let bound = bound(self.against.lower_bound, self.against.ratio.estimate);
        format!("{bound}{}", ends(self.against.ratio)[1])
    }

    /// `1.35 to 1.55`
    #[must_use]
    pub fn ends(&self) -> String {
        let [low, _, high] = ends(self.against.ratio);
        format!("{low} to {high}")
    }

    /// What it frees at 1,000 requests per second.
    #[must_use]
    pub fn freed(&self) -> String {
        let saved = self.against.cpu.as_ref().map(|cpu| cpu.saved_us);
        saved.map_or_else(|| NONE.to_owned(), freed)
    }

    /// CPU time of a request by the reference and by the case in microseconds, where these are known to differ.
    fn cpu_us(&self) -> Option<[f64; 2]> {
        let cpu = self.against.cpu.as_ref()?;
        let differ = cpu.verdict.differs() && cpu.saved_us.is_known();
        differ.then_some([self.reference.cpu_us, self.case.cpu_us])
    }

    /// The same as text: `6.2 → 3.9 µs`
    #[must_use]
    pub fn cpu(&self) -> String {
        let Some(times) = self.cpu_us() else {
            return NOT_SHOWN.to_owned();
        };
        let unit = TimeUnit::of_column(&times);
        let texts = unit.column(&times.map(Some)).join(" → ");
        format!("{texts}{NBSP}{}", unit.name())
    }

    /// Whether the verdict can be relied on.
    #[must_use]
    pub fn sure(&self) -> String {
        against::sure(self.against.verdict, self.against.perhaps).text
    }
}

/// `a virtual machine of 2026 with 2 CPUs (AMD EPYC, Linux 6.18)`
#[must_use]
pub fn of_machine(answer: &Answer) -> String {
    let Machine {
        cpu_model,
        cpus,
        kernel,
        virtualization,
        engine,
        ..
    } = &answer.machine;
    let kind = match virtualization.as_str() {
        "" | "none" => "a machine",
        _ => "a virtual machine",
    };
    let year = answer.started.get(..4).unwrap_or_default();
    let cpus = plural(u64::from(*cpus), "CPU");
    let engine = engine.iter().map(|engine| format!(", {engine}")).collect::<String>();
    plain(&format!(
        "{kind} of {year} with {cpus} ({cpu_model}, Linux {kernel}{engine})"
    ))
}

/// How much data there is, when it was measured, and on what.
#[must_use]
pub fn provenance(answer: &Answer) -> String {
    let rounds = plural(u64::from(answer.rounds), "round");
    let day = answer.started.get(..10).unwrap_or_default();
    let doubts = match &answer.doubts[..] {
        [] => "no doubts".to_owned(),
        ids => format!("doubts: {}", ids.join(", ")),
    };
    let conditions = answer.machine.conditions.as_ref();
    let conditions = conditions.map(|words| format!("; {words}")).unwrap_or_default();
    plain(&format!(
        "{rounds} in {} on {day}, on {}{conditions}; {doubts}",
        Seconds(answer.seconds),
        of_machine(answer)
    ))
}

/// What is known: a line or two of each, or `whole`.
#[must_use]
pub fn document(answers: &[&Answer], whole: bool) -> Document {
    let sections = if whole {
        answers.iter().map(|answer| section(answer)).collect()
    } else {
        vec![overview(answers)]
    };
    Document {
        title: Text::of(Tone::Strong, "What lasthop knows without running anything"),
        subtitle: Text::of(
            Tone::Dim,
            "measured elsewhere, so your machine may answer otherwise: lasthop run EXPERIMENT",
        ),
        sections,
    }
}

fn overview(answers: &[&Answer]) -> Section {
    let groups: IndexSet<&str> = answers.iter().map(|answer| answer.group.as_str()).collect();
    let mut answers = answers.to_vec();
    answers.sort_by_key(|answer| groups.get_index_of(answer.group.as_str()));
    let table = Columns::of(&answers)
        .names("experiment", |answer| answer.named())
        .left("ratio", |answer| range(answer))
        .left("answer", |answer| answer.advice[0].as_str())
        .under(|answer| &answer.group)
        .table();
    let legend = "Ratio: the smallest and the largest of its settings. Chosen by their estimates, these lie somewhat too \
                  far out. `lasthop answers EXPERIMENT` has all.";
    Section {
        title: None,
        depth: Depth::Open,
        blocks: vec![Block::Table(table), Block::legend(legend)],
    }
}

/// `1.03 to 1.31`
fn range(answer: &Answer) -> String {
    let mut ratios: Vec<String> = extremes(answer).iter().rev().map(Compared::ratio).collect();
    ratios.dedup();
    ratios.join(" to ")
}

fn section(answer: &Answer) -> Section {
    let mut said = answer.advice.iter().map(|line| Block::Paragraph(line.as_str().into()));
    let mut blocks: Vec<Block> = said.next().into_iter().collect();
    blocks.push(Block::Table(table(answer)));
    blocks.extend(said);
    blocks.push(Block::legend(format!(
        "{}. Yours: lasthop run {}",
        provenance(answer),
        answer.experiment
    )));
    Section {
        title: Some(format!("{}: {}", answer.experiment, answer.title)),
        depth: Depth::Open,
        blocks,
    }
}

/// As the report of the run begins, by alternative.
fn table(answer: &Answer) -> Table {
    let mut all: Vec<Compared<'_>> = compared(answer).collect();
    let levels: IndexSet<&str> = all.iter().map(|one| one.case.level.as_str()).collect();
    all.sort_by_key(|one| levels.get_index_of(one.case.level.as_str()));
    let of_settings = answer.settings.len() > 1;
    let has_headings = of_settings && levels.len() > 1;
    let row = |one: &Compared<'_>| Row {
        heading: if has_headings {
            format!("{} instead of {}", one.case.level, one.reference.level)
        } else {
            String::new()
        },
        name: if of_settings {
            one.setting.name.clone()
        } else {
            one.case.level.clone()
        },
        quantity: Quantity::Requests,
        reached: [one.reference, one.case].map(|case| Some(case.requests_per_s.estimate)),
        ratio: Some(Ratio {
            of: one.against.ratio,
            tone: tone(one.against.verdict),
            is_bound: one.against.lower_bound,
        }),
        cpu: one.cpu_us(),
        lost: None,
        sure: against::sure(one.against.verdict, one.against.perhaps),
        note: None,
    };
    let reference = all.first().map_or("reference", |one| &one.reference.level);
    let alternative = if levels.len() == 1 { levels[0] } else { "instead" };
    let instead = format!("instead of {reference}");
    let frame = Frame {
        name: if of_settings { "setting" } else { &instead },
        reference,
        alternative,
        confidence: CONFIDENCE,
        of_settings,
    };
    against::table(all.iter().map(row).collect(), &frame)
}

/// A row for each comparison. Times are in microseconds.
#[must_use]
pub fn csv(answers: &[&Answer]) -> Vec<u8> {
    let all = answers
        .iter()
        .flat_map(|answer| compared(answer).map(move |one| (*answer, one)));
    let all: Vec<(&Answer, Compared<'_>)> = all.collect();
    Columns::of(&all)
        .data("experiment", |(answer, _)| &answer.experiment)
        .data("group", |(answer, _)| &answer.group)
        .data("setting", |(_, one)| &one.setting.name)
        .data("case", |(_, one)| &one.case.level)
        .data("reference", |(_, one)| &one.reference.level)
        .data("protocol", |(_, one)| &one.setting.load.protocol)
        .data("target", |(_, one)| &one.setting.load.target)
        .data("connections", |(_, one)| one.setting.load.connections)
        .data("reuse", |(_, one)| name_of(one.setting.load.reuse))
        .known("bytes", |(_, one)| one.setting.load.bytes)
        .data("pipeline", |(_, one)| one.setting.load.pipeline)
        .data("requests_per_s", |(_, one)| one.case.requests_per_s.estimate)
        .data("cpu_us", |(_, one)| one.case.cpu_us)
        .data("metric", |(_, one)| name_of(one.against.metric))
        .interval("ratio", |(_, one)| Some(one.against.ratio))
        .data("verdict", |(_, one)| word(one.against.verdict))
        .data("lower_bound", |(_, one)| one.against.lower_bound)
        .interval("saved_us", |(_, one)| one.against.saved_us)
        .interval("saved_cpu_us", |(_, one)| Some(one.against.cpu.as_ref()?.saved_us))
        .known("cpu_verdict", |(_, one)| Some(word(one.against.cpu.as_ref()?.verdict)))
        .several("matters_below_us", ["_low", "_high"], |(_, one)| {
            let below = one.against.cpu.as_ref()?.matters_below_us?;
            Some([below.low, below.high])
        })
        .data("rounds", |(answer, _)| answer.rounds)
        .data("started", |(answer, _)| &answer.started)
        .data("doubts", |(answer, _)| answer.doubts.join(" "))
        .csv()
}

#[cfg(test)]
mod tests {
    use lasthop_model::record::ProgramVersion;

    use super::{super::answer_of, *};
    use crate::{
        fixtures,
        units::{bounds, ratio_places},
    };

    fn told(answers: &[&Answer], whole: bool) -> String {
        String::from_utf8(lasthop_page::document_markdown(&document(answers, whole))).unwrap()
    }

    #[test]
    fn an_answer_has_what_its_report_has() {
        for (name, summary) in fixtures::all() {
            let Some(answer) = answer_of(&summary, "caches", Some(700.0)) else {
                continue;
            };
            let usable =
                |one: &&lasthop_analyse::summary::Comparison| summary.invalid(&one.case, &one.reference).is_none();
            let declared = summary.cases.iter().filter_map(|case| summary.declared(case));
            assert_eq!(compared(&answer).count(), declared.filter(usable).count(), "{name}");
            let whole = told(&[&answer], true);
            // All to the same place; those without a difference may share a row.
            let places = compared(&answer)
                .map(|one| ratio_places(one.against.ratio))
                .max()
                .unwrap();
            for one in compared(&answer).filter(|one| one.against.verdict.differs()) {
                assert!(whole.contains(&bounds(one.against.ratio, places)), "{name}: {whole}");
            }
            assert!(told(&[&answer], true).contains(&format!("lasthop run {}", summary.experiment)));
            let text = String::from_utf8(csv(&[&answer])).unwrap();
            let width = |line: &str| csv_fields(line);
            assert!(text.lines().all(|line| width(line) == 31), "{name}: {text}");
            assert_eq!(text.lines().count(), 1 + compared(&answer).count());
        }
    }

    /// Commas outside of quotes, and one more.
    fn csv_fields(line: &str) -> usize {
        1 + line
            .split('"')
            .step_by(2)
            .map(|part| part.matches(',').count())
            .sum::<usize>()
    }

    #[test]
    fn the_overview_has_the_largest_and_the_smallest_ratio() {
        let answer = answer_of(&fixtures::patterns(), "raw", None).unwrap();
        let [most, least] = &extremes(&answer)[..] else {
            panic!("{answer:?}")
        };
        let first = &most.case.level;
        let of_first = compared(&answer).filter(|one| one.case.level == *first);
        let ratios: Vec<f64> = of_first.map(|one| one.against.ratio.estimate).collect();
        assert!(ratios.len() > 1 && ratios.iter().all(|ratio| *ratio <= most.against.ratio.estimate));
        assert!(ratios.iter().all(|ratio| *ratio >= least.against.ratio.estimate));
        assert!(told(&[&answer], false).contains("raw"));
    }

    /// A published port of Docker is another path than one of podman.
    #[test]
    fn an_answer_about_containers_names_their_engine() {
        let mut summary = fixtures::patterns();
        let podman = ProgramVersion {
            path: "/usr/bin/podman".to_owned(),
            version: "4.3.1, runc, overlay, netavark".to_owned(),
        };
        let environment = summary.environment.as_mut().unwrap();
        environment.programs.insert("podman".to_owned(), podman);
        let subtitle = crate::content::subtitle(&summary).to_string();
        assert!(subtitle.contains(", podman 4.3.1 · "), "{subtitle}");
        let answer = answer_of(&summary, "raw", None).unwrap();
        let said = provenance(&answer);
        assert!(said.contains(", podman 4.3.1)"), "{said}");
        let listed = told(&[&answer], false);
        assert!(listed.contains(" (podman 4.3.1)"), "{listed}");
    }

    #[test]
    fn nothing_is_known_of_cases_that_were_compared_with_themselves() {
        let mut summary = fixtures::three_transports();
        summary.aa = true;
        assert_eq!(answer_of(&summary, "raw", None), None);
    }
}
