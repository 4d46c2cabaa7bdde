//! Several runs together: the pooled result, and whether the answer depends on the machine or its kind. For runs of one
//! machine: whether the answer depends on the run.

use indexmap::{IndexMap, IndexSet};
use lasthop_model::record::size;
use lasthop_record::data::RunData;
use lasthop_stats::{
    CONFIDENCE, Estimate, Interval, holm,
    pooled::{self, Pooled},
    verdict,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    Analysed, NotAlike, Side, alike,
    apart::{self, Apart, ByRun},
    facts::{Differing, differing},
};
use crate::{
    comparisons::{better, compare_all},
    summary::{Comparison, JudgedLimit, Metric, Summary, Verdict},
    trials::Trials,
};

pub const SCHEMA: &str = "lasthop-fleet/2";
/// The label that names a machine. Without this label, the name of the host does.
pub const NAME: &str = "machine";
/// Facts that define kinds by default, besides labels, if they differ between machines.
const USUAL: [&str; 4] = ["architecture", "cpu", "size", "kernel"];

/// Runs of the same experiment, usually each of another machine.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Fleet {
    /// `lasthop-fleet/2`
    pub schema: String,
    /// Name of the experiment.
    pub experiment: String,
    pub title: String,
    pub question: String,
    /// One entry for each run, in the order given.
    pub machines: Vec<Machine>,
    /// Facts and labels that make a kind of machine; empty if all are of one kind.
    pub by: Vec<String>,
    /// Kinds of machine, in the order of their first machines.
    pub kinds: Vec<MachineKind>,
    /// The largest margin of the runs: differences within this share count as none.
    pub margin: f64,
    /// Confidence level of every interval, 0.95.
    pub confidence: f64,
    pub comparisons: Vec<Together>,
    /// Differences in the recorded facts; values are by machine.
    pub differences: Vec<Differing>,
    /// Results of the `--fail-if` limits, one for each limit and case.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<JudgedLimit>,
    /// What each run counts as: `run` where all are of one machine, else `machine`.
    #[serde(skip)]
    pub unit: &'static str,
    /// The run that names the cases: one that has most of them.
    #[serde(skip)]
    pub main: Summary,
}

/// A run and where it was made.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Machine {
    /// The label `machine` of the run, else the name of the host. If all runs are of one machine, the name of the run.
    pub name: String,
    /// Place in the list of kinds.
    pub kind: usize,
    pub run: Side,
}

/// Machines with equal values of the facts and labels that define a kind.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct MachineKind {
    /// Values of the facts and labels that define a kind, `null` where a record has none.
    pub values: Vec<Option<String>>,
    pub machines: usize,
}

/// A comparison on all machines.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Together {
    pub case: String,
    pub reference: String,
    pub metric: Metric,
    /// Whether verdicts are about this metric.
    pub declared: bool,
    /// Ratio and verdict by machine; `null` where the comparison was not measured or must not be used.
    pub machines: Vec<Option<Judged>>,
    /// Mean ratio of the population of which the machines are a sample; `null` with fewer than two machines.
    pub mean: Option<Interval>,
    /// Prediction interval for the ratio on another machine of this population; `null` with fewer than three machines.
    pub next: Option<Interval>,
    /// How much machines differ, whatever their kind; `null` with fewer than two.
    pub between_machines: Option<Spread>,
    /// Comparison by kind; `null` with fewer than two kinds, or if each machine is of a kind of its own.
    pub kinds: Option<ByKind>,
}

/// A machine's ratio and its verdict.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Judged {
    #[serde(flatten, with = "lasthop_stats::AsRatio")]
    pub ratio: Interval,
    pub verdict: Verdict,
}

/// How much true ratios differ.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Spread {
    /// Geometric standard deviation of the true ratios, 1 or more, with its interval.
    pub typical: Interval,
    /// Probability of the differences by chance, adjusted by Holm for all comparisons of the declared metric and of the
    /// CPU time; not adjusted for other metrics.
    pub p: f64,
    /// Whether the true ratios reliably differ; for machines, whether two of them differ by more than the margin.
    /// `null` where that is not judged.
    pub differs: Option<bool>,
}

impl Spread {
    /// Whether the machines reliably differ.
    #[must_use]
    pub fn differs(&self) -> bool {
        self.differs.unwrap_or(self.p < 1.0 - CONFIDENCE)
    }
}

impl From<pooled::Spread> for Spread {
    fn from(pooled::Spread { deviation, p }: pooled::Spread) -> Self {
        // Finite, so that JSON can represent it.
        Self {
            typical: deviation.map(|log| log.exp().min(f64::MAX)),
            p,
            differs: None,
        }
    }
}

/// Mean ratios of the kinds of machine, and the spread within and between kinds.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ByKind {
    /// The mean of each kind; `null` where none of its machines has the comparison.
    pub means: Vec<Option<Interval>>,
    /// How much machines of one kind differ.
    pub within: Spread,
    /// How much kinds differ.
    pub between: Spread,
}

/// A run, reduced to the data that a fleet needs.
pub struct Member {
    analysed: Analysed,
    /// The record without trials.
    data: RunData,
}

impl Member {
    /// Reads a whole record, and drops its trials.
    #[must_use]
    pub fn of(mut data: RunData) -> Self {
        let trials = Trials::of_ratios(&data);
        let analysed = Analysed::of_compared(&trials, compare_all(&trials));
        // The trials take nearly all memory of a record, and a fleet may have hundreds of records.
        data.records = Vec::new();
        Self { analysed, data }
    }

    #[must_use]
    pub fn summary(&self) -> &Summary {
        &self.analysed.summary
    }

    /// A fact about the machine, or a label.
    fn fact(&self, name: &str) -> Option<String> {
        let known = self.data.environment.as_ref().and_then(|environment| match name {
            "architecture" => Some(&environment.architecture),
            "cpu" => Some(&environment.cpu_model),
            "kernel" => Some(&environment.kernel),
            "distribution" => Some(&environment.distribution),
            "virtualization" => Some(&environment.virtualization),
            _ => None,
        });
        match (name, &self.data.environment) {
            ("cpus", Some(environment)) => Some(environment.cpus.to_string()),
            ("size", Some(environment)) => Some(size(environment.cpus).to_owned()),
            _ => known.or_else(|| self.data.header.labels.get(name)).cloned(),
        }
    }

    fn name(&self) -> String {
        let name = self
            .fact(NAME)
            .or_else(|| Some(self.data.environment.as_ref()?.host.clone()));
        name.unwrap_or_else(|| self.data.header.run.clone())
    }
}

/// The error for runs that are not a fleet.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoFleet {
    #[error(transparent)]
    NotAlike(#[from] NotAlike),
    #[error(
        "no record has `{0}`: kinds are made of {known} and of labels",
        known = "architecture, cpu, size, kernel, cpus, distribution, virtualization"
    )]
    Unknown(String),
}

/// Makes a fleet of machines. `by` names the facts that define a kind; if empty, the default facts do.
///
/// # Panics
/// Without a member.
pub fn fleet(mut members: Vec<Member>, by: &[String]) -> Result<Fleet, NoFleet> {
    let first = members[0].analysed.summary.clone();
    for member in &mut members[1..] {
        member.analysed.rename_like(&first);
    }
    for (place, member) in members.iter().enumerate() {
        for before in &members[..place] {
            alike(&before.analysed, &member.analysed)?;
        }
    }
    let by = what_makes_kinds(&members, by)?;
    let (kinds, of) = kinds(&members, &by);
    let data: Vec<&RunData> = members.iter().map(|member| &member.data).collect();
    let is_one_machine = members.len() > 1 && members.iter().all(|member| member.name() == members[0].name());
    let unit = if is_one_machine { "run" } else { "machine" };
    let machine = |(member, kind): (&Member, &usize)| {
        let run = Side::of(&member.analysed.summary);
        let name = if is_one_machine { run.run.clone() } else { member.name() };
        Machine { name, kind: *kind, run }
    };
    let summaries = || members.iter().map(Member::summary);
    let main = summaries().max_by_key(|summary| summary.cases.len());
    let margin = summaries().map(|summary| summary.settings.margin).fold(0.0, f64::max);
    Ok(Fleet {
        schema: SCHEMA.to_owned(),
        experiment: first.experiment.clone(),
        title: first.title.clone(),
        question: first.question.clone(),
        machines: members.iter().zip(&of).map(machine).collect(),
        margin,
        confidence: CONFIDENCE,
        comparisons: comparisons(&members, &of, kinds.len(), margin),
        differences: differing(&data),
        limits: Vec::new(),
        by,
        kinds,
        unit,
        main: main.unwrap_or(&first).clone(),
    })
}

fn what_makes_kinds(members: &[Member], by: &[String]) -> Result<Vec<String>, NoFleet> {
    let known = |name: &String| members.iter().any(|member| member.fact(name).is_some());
    if let Some(unknown) = by.iter().find(|name| !known(name)) {
        return Err(NoFleet::Unknown(unknown.clone()));
    }
    if !by.is_empty() {
        return Ok(by.to_vec());
    }
    let labels = members.iter().flat_map(|member| member.data.header.labels.keys());
    let labels = labels.map(String::as_str).filter(|label| *label != NAME);
    let all: IndexSet<&str> = USUAL.into_iter().chain(labels).collect();
    Ok(all
        .into_iter()
        .filter(|name| members.iter().any(|member| member.fact(name) != members[0].fact(name)))
        .map(str::to_owned)
        .collect())
}

/// The kinds, and the index of each member's kind.
fn kinds(members: &[Member], by: &[String]) -> (Vec<MachineKind>, Vec<usize>) {
    let mut found: IndexMap<Vec<Option<String>>, usize> = IndexMap::new();
    let mut of = Vec::new();
    for member in members {
        let values = by.iter().map(|name| member.fact(name)).collect();
        let entry = found.entry(values);
        // The index of a new kind, too, which is inserted next.
        of.push(entry.index());
        *entry.or_insert(0) += 1;
    }
    let kinds = found
        .into_iter()
        .map(|(values, machines)| MachineKind { values, machines });
    (kinds.collect(), of)
}

fn comparisons(members: &[Member], of: &[usize], kinds: usize, margin: f64) -> Vec<Together> {
    let runs: Vec<&Analysed> = members.iter().map(|member| &member.analysed).collect();
    let all = apart::by_run(&runs);
    let judged = all.iter().zip(apart::judge(&all, margin));
    let mut together: Vec<Together> = judged
        .map(|(found, apart)| self::together(found, apart, of, kinds))
        .collect();
    adjust_kinds(&mut together);
    together
}

fn together(found: &ByRun<'_>, apart: Option<Apart>, of: &[usize], kinds: usize) -> Together {
    let pooled = pooled::pool(&found.logs());
    let ratio = |log: &Estimate| log.exponential(CONFIDENCE);
    let spread = |pooled: Pooled| {
        let spread = Spread::from(pooled.spread);
        Spread {
            p: apart.map_or(spread.p, |apart| apart.p),
            differs: apart.map(|apart| apart.differs),
            ..spread
        }
    };
    Together {
        case: found.one.case.clone(),
        reference: found.one.reference.clone(),
        metric: found.one.metric,
        declared: found.declared,
        machines: found
            .known
            .iter()
            .map(|known| {
                known.map(|(comparison, _): (&Comparison, _)| Judged {
                    ratio: comparison.ratio,
                    verdict: comparison.verdict,
                })
            })
            .collect(),
        mean: pooled.map(|Pooled { mean, .. }| ratio(&mean)),
        next: pooled.and_then(|pooled| pooled.next.as_ref().map(ratio)),
        between_machines: pooled.map(spread),
        kinds: by_kind(found, of, kinds),
    }
}

fn by_kind(found: &ByRun<'_>, of: &[usize], kinds: usize) -> Option<ByKind> {
    let mut logs: Vec<Vec<Estimate>> = vec![Vec::new(); kinds];
    for (known, kind) in found.known.iter().zip(of) {
        logs[*kind].extend(known.map(|(_, log)| *log));
    }
    let known: Vec<Vec<Estimate>> = logs.iter().filter(|logs| !logs.is_empty()).cloned().collect();
    let found = pooled::kinds(&known)?;
    let mut means = found.means.iter().map(|mean| mean.exponential(CONFIDENCE));
    let means = logs
        .iter()
        // `found` has means only for the kinds that have the comparison.
        .map(|logs| if logs.is_empty() { None } else { means.next() })
        .collect();
    Some(ByKind {
        means,
        within: found.within.into(),
        between: found.between.spread.into(),
    })
}

/// Adjusts for many comparisons: the judged comparisons are one family, as for machines.
fn adjust_kinds(all: &mut [Together]) {
    let judged = all
        .iter_mut()
        .filter(|one| one.declared || one.metric == Metric::CpuPerRequest);
    let between = judged.filter_map(|one| Some(&mut one.kinds.as_mut()?.between));
    let between: Vec<&mut Spread> = between.collect();
    let family: Vec<f64> = between.iter().map(|spread| spread.p).collect();
    for (spread, p) in between.into_iter().zip(holm::adjust(&family)) {
        spread.p = p;
        spread.differs = Some(p < 1.0 - CONFIDENCE);
    }
}

impl Together {
    /// The verdict on the mean.
    #[must_use]
    pub fn verdict(&self, margin: f64) -> Option<Verdict> {
        Some(verdict::verdict(&self.mean?, margin, better(self.metric)))
    }

    /// The number of machines with this verdict.
    #[must_use]
    pub fn count(&self, verdict: Verdict) -> usize {
        let all = self.machines.iter().flatten();
        all.filter(|judged| judged.verdict == verdict).count()
    }
}
