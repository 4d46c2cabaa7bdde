//! Answers for people and for spreadsheets.

use indexmap::IndexSet;
use lasthop_analyse::{
    answers::{Against, Answer, KnownCase, Machine, Setting, runs::Pooled},
    name_of,
};
use lasthop_model::record::size;
use lasthop_stats::{CONFIDENCE, Interval};

use super::plain;
use crate::{
    against::{self, Against as Row, Frame},
    columns::{Columns, Ratio},
    document::{Block, Cell, Depth, Document, Section, Table, Text, Tone},
    units::{NBSP, NONE, Seconds, TimeUnit, bound, bounds, ends, plural, ratio_places},
    wording::{NOT_SHOWN, Quantity, freed, tone, word},
};

/// A comparison of an answer, with its setting.
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

/// The alternatives to choose from: the first in all settings, or all in the only setting.
fn choices(answer: &Answer) -> Vec<Compared<'_>> {
    let all: Vec<Compared<'_>> = compared(answer).filter(|one| !one.case.control).collect();
    let Some(first) = all.first().map(|one| &one.case.level) else {
        return all;
    };
    let of_first: Vec<Compared<'_>> = all.iter().filter(|one| one.case.level == *first).copied().collect();
    if of_first.len() == 1 { all } else { of_first }
}

impl Compared<'_> {
    /// The ratio as `1.44` or `≥ 3.579`.
    #[must_use]
    pub fn ratio(&self) -> String {
        let Ratio { of, is_bound, .. } = self.known();
        format!("{}{}", bound(is_bound, of.estimate), ends(of)[1])
    }

    /// The interval of the run whose record is kept: `1.35 to 1.55`
    #[must_use]
    pub fn ends(&self) -> String {
        let [low, _, high] = ends(self.against.ratio);
        format!("{low} to {high}")
    }

    /// The CPU freed at 1,000 requests per second.
    #[must_use]
    pub fn freed(&self) -> String {
        let saved = self.against.cpu.as_ref().map(|cpu| cpu.saved_us);
        saved.map_or_else(|| NONE.to_owned(), freed)
    }

    /// CPU time per request of the reference and of the case in microseconds, if these differ for certain.
    fn cpu_us(&self) -> Option<[f64; 2]> {
        let cpu = self.against.cpu.as_ref()?;
        let differ = cpu.verdict.differs() && cpu.saved_us.is_known();
        differ.then_some([self.reference.cpu_us, self.case.cpu_us])
    }

    /// CPU times as text: `6.2 → 3.9 µs`
    #[must_use]
    pub fn cpu(&self) -> String {
        let Some(times) = self.cpu_us() else {
            return NOT_SHOWN.to_owned();
        };
        let unit = TimeUnit::of_column(&times);
        let texts = unit.column(&times.map(Some)).join(" → ");
        format!("{texts}{NBSP}{}", unit.name())
    }

    /// How reliable the verdict is.
    #[must_use]
    pub fn sure(&self) -> Cell {
        match &self.against.pooled {
            Some(pooled) => against::sure(pooled.verdict, pooled.perhaps),
            None => against::sure(self.against.verdict, self.against.perhaps),
        }
    }

    /// The prediction range for another machine's ratio: `1.9 to 2.3`
    #[must_use]
    pub fn elsewhere(&self) -> Option<String> {
        let pooled = self.against.pooled.as_ref()?;
        Some(bounds(pooled.next, ratio_places(pooled.next)))
    }

    /// The best known ratio: the mean of several runs with the prediction range for another machine, or the ratio of
    /// the only run with its interval.
    fn known(&self) -> Ratio {
        match &self.against.pooled {
            Some(Pooled {
                mean, next, verdict, ..
            }) => Ratio {
                of: Interval {
                    estimate: mean.estimate,
                    ..*next
                },
                tone: tone(*verdict),
                is_bound: self.against.lower_bound,
            },
            None => Ratio {
                of: self.against.ratio,
                tone: tone(self.against.verdict),
                is_bound: self.against.lower_bound,
            },
        }
    }
}

/// The machine in words: `a virtual machine with 2 CPUs (AMD EPYC, Linux 6.18)`
#[must_use]
pub fn of_machine(machine: &Machine) -> String {
    let kind = match machine.virtualization.as_str() {
        "" | "none" => "a machine",
        _ => "a virtual machine",
    };
    let cpus = plural(u64::from(machine.cpus), "CPU");
    let model = &machine.cpu_model;
    let release: Vec<&str> = machine.kernel.split('.').take(2).collect();
    plain(&format!("{kind} with {cpus} ({model}, Linux {})", release.join(".")))
}

/// The amount of data, and the date and the machine of the measurement.
#[must_use]
pub fn provenance(answer: &Answer) -> String {
    let rounds = plural(u64::from(answer.rounds), "round");
    let day = answer.started.get(..10).unwrap_or_default();
    let doubts = match &answer.doubts[..] {
        [] => "no doubts".to_owned(),
        ids => format!("doubts: {}", ids.join(", ")),
    };
    let machine = &answer.machine;
    let engine = machine.engine.iter().map(|engine| format!(", {engine}"));
    let conditions = machine.conditions.iter().map(|words| format!("; {words}"));
    plain(&format!(
        "{rounds} in {} on {day}, on {}{}; {doubts}",
        Seconds(answer.seconds),
        of_machine(machine),
        engine.chain(conditions).collect::<String>()
    ))
}

/// A document of the answers: a line or two for each, or all of each if `whole`.
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
    let rows: Vec<(&Answer, Option<Compared<'_>>)> = answers
        .iter()
        .map(|answer| (*answer, choices(answer).first().copied()))
        .collect();
    let table = Columns::of(&rows)
        .names("experiment", |(answer, _)| answer.named())
        .left("first setting", |(_, first)| {
            first.map_or("", |first| &first.setting.name)
        })
        .left("ratio", |(_, first)| {
            first.map_or_else(String::new, |first| first.elsewhere().unwrap_or(first.ends()))
        })
        .left("answer", |(answer, _)| answer.advice[0].as_str())
        .under(|(answer, _)| &answer.group)
        .table();
    let legend = "Ratio: the range in which that of another machine lies; of fewer than three runs, the interval of one. \
                  `lasthop answers EXPERIMENT` has all settings.";
    Section {
        title: None,
        depth: Depth::Open,
        blocks: vec![Block::Table(table), Block::legend(legend)],
    }
}

/// The first setting's ratio on another machine: `GET, pipeline 1, unix: 1.9 to 2.3 times on another machine of 2 to 4
/// CPUs, sure.` `None` if fewer than three runs are known.
#[must_use]
pub fn lead(answer: &Answer) -> Option<String> {
    let first = *choices(answer).first()?;
    let parts = [&answer.experiment, &first.setting.name, &first.case.level];
    let name: Vec<&str> = parts
        .iter()
        .map(|part| part.as_str())
        .filter(|part| !part.is_empty())
        .collect();
    let range = first.elsewhere()?.replace(NBSP, " ");
    let machines = size(answer.machine.cpus);
    Some(format!(
        "{}: {range} times on another machine of {machines}, {}.",
        name.join(", "),
        first.sure().text
    ))
}

fn section(answer: &Answer) -> Section {
    let mut said = answer.advice.iter().map(|line| Block::Paragraph(line.as_str().into()));
    let lead = lead(answer).map(|line| Block::Paragraph(line.into()));
    let mut blocks: Vec<Block> = said.next().into_iter().chain(lead).collect();
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

/// The table that the run's report begins with, ordered by alternative.
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
        ratio: Some(one.known()),
        cpu: one.cpu_us(),
        lost: None,
        sure: one.sure(),
        note: None,
    };
    let reference = all.first().map_or("reference", |one| &one.reference.level);
    let alternative = if levels.len() == 1 { levels[0] } else { "instead" };
    let instead = format!("instead of {reference}");
    let frame = Frame {
        name: if of_settings { "setting" } else { &instead },
        reference,
        alternative,
        ratio: if all.iter().all(|one| one.against.pooled.is_some()) {
            ["mean", "another machine"].map(str::to_owned)
        } else {
            against::ratio_titles(CONFIDENCE)
        },
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
        .known("runs", |(_, one)| Some(one.against.pooled.as_ref()?.runs))
        .interval("mean_ratio", |(_, one)| Some(one.against.pooled.as_ref()?.mean))
        .interval("next_ratio", |(_, one)| Some(one.against.pooled.as_ref()?.next))
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
    use lasthop_analyse::{decision::Perhaps, summary::Verdict};
    use lasthop_model::record::ProgramVersion;

    use super::{
        super::{advise, answer_of},
        *,
    };
    use crate::fixtures;

    fn rendered(answers: &[&Answer], whole: bool) -> String {
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
            let whole = rendered(&[&answer], true);
            // Equal decimals for all. Rows without a difference may be merged.
            let places = compared(&answer)
                .map(|one| ratio_places(one.against.ratio))
                .max()
                .unwrap();
            for one in compared(&answer).filter(|one| one.against.verdict.differs()) {
                assert!(whole.contains(&bounds(one.against.ratio, places)), "{name}: {whole}");
            }
            assert!(rendered(&[&answer], true).contains(&format!("lasthop run {}", summary.experiment)));
            let text = String::from_utf8(csv(&[&answer])).unwrap();
            let width = |line: &str| csv_fields(line);
            assert!(text.lines().all(|line| width(line) == 38), "{name}: {text}");
            assert_eq!(text.lines().count(), 1 + compared(&answer).count());
        }
    }

    /// The number of fields of a CSV line, counted by commas outside quotes.
    fn csv_fields(line: &str) -> usize {
        1 + line
            .split('"')
            .step_by(2)
            .map(|part| part.matches(',').count())
            .sum::<usize>()
    }

    #[test]
    fn several_runs_are_one_mean_and_a_range_for_another_machine() {
        let mut answer = answer_of(&fixtures::patterns(), "raw", None).unwrap();
        assert!(!rendered(&[&answer], true).contains("another machine"));
        pool(&mut answer, Verdict::Faster, None);
        let whole = rendered(&[&answer], true);
        let name = &compared(&answer).next().unwrap().setting.name;
        let lead = format!(
            "{}, {name}, unix: 1.32 to 1.94 times on another machine of ",
            answer.experiment
        );
        assert!(whole.contains(&lead) && whole.contains(", sure."), "{whole}");
        assert!(whole.contains("| mean | another machine |"), "{whole}");
        let listed = rendered(&[&answer], false);
        assert!(listed.contains("1.32 to 1.94"), "{listed}");
    }

    /// The answer with this verdict of four runs in each comparison.
    fn pool(answer: &mut Answer, verdict: Verdict, perhaps: Option<Perhaps>) {
        let cases = answer.settings.iter_mut().flat_map(|setting| &mut setting.cases);
        for against in cases.filter_map(|case| case.against.as_mut()) {
            against.pooled = Some(Pooled {
                runs: 4,
                mean: fixtures::interval([1.51, 1.6, 1.69]),
                verdict,
                perhaps,
                next: fixtures::interval([1.32, 1.6, 1.94]),
            });
        }
    }

    #[test]
    fn the_verdicts_of_several_runs_decide_the_advice() {
        let mut summary = fixtures::patterns();
        summary.cases.retain(|case| !case.case.starts_with("tls"));
        summary.comparisons.retain(|one| !one.case.starts_with("tls"));
        summary.decide();
        let mut answer = answer_of(&summary, "raw", None).unwrap();
        let of_one_run = answer.advice.clone();
        advise(&mut answer, &summary);
        assert_eq!(answer.advice, of_one_run);
        for (verdict, perhaps, advice) in [
            (Verdict::Faster, None, "Use the Unix socket."),
            (
                Verdict::Faster,
                Some(Perhaps::AnotherMachine),
                "Perhaps the Unix socket.",
            ),
            (Verdict::Slower, None, "Stay with TCP."),
            (Verdict::Equivalent, None, "It makes no difference."),
            (Verdict::Undecided, None, "Undecided: the Unix socket may be better."),
        ] {
            pool(&mut answer, verdict, perhaps);
            advise(&mut answer, &summary);
            assert_eq!(answer.advice[0], advice);
            let is_on_most = rendered(&[&answer], true).contains("on most machines");
            assert_eq!(is_on_most, perhaps.is_some());
            // More time for one run decides nothing about machines.
            assert!(
                answer.advice.iter().all(|line| !line.contains("--budget")),
                "{:?}",
                answer.advice
            );
        }
    }

    /// A published port of Docker takes another path than one of podman.
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
        assert!(said.contains("), podman 4.3.1; "), "{said}");
        let listed = rendered(&[&answer], false);
        assert!(listed.contains(" (podman 4.3.1)"), "{listed}");
    }

    #[test]
    fn nothing_is_known_of_cases_that_were_compared_with_themselves() {
        let mut summary = fixtures::three_transports();
        summary.aa = true;
        assert_eq!(answer_of(&summary, "raw", None), None);
    }
}
