//! The decision of a run: what to do, decided once from its verdicts. Reports only put it into words.
//!
//! For each alternative to the reference, the settings with a verdict for and against it are counted. An alternative
//! that has fewer settings than others is not recommended for all settings.
//!
//! | verdicts | advice |
//! |---|---|
//! | a case waits while nothing works | [`Advice::Wait`]; the decision without such cases is `otherwise` |
//! | an alternative is better somewhere and worse nowhere | [`Advice::Use`]; of several, by wins, then by mean gain |
//! | an alternative is better here and worse there | [`Advice::Depends`] |
//! | an alternative may be better | [`Advice::Undecided`], about the best so far |
//! | all are equivalent | [`Advice::Same`] |
//! | all are worse, or equivalent | [`Advice::Stay`] with the reference |
//!
//! Advice is not firm if each of its verdicts may be luck.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    groups::{Compared, Group, groups},
    summary::{CaseSummary, Comparison, Metric, Severity, Summary, Verdict, Wait},
};

/// The fewest rounds with which an interval includes the luck of a start.
const LEAST_ROUNDS: u32 = 2;

/// What a run says to do, and how sure that is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Decision {
    pub advice: Advice,
    /// With the advice `wait`: the advice from the comparisons without a wait, to which all other fields refer; absent
    /// if there are no such comparisons.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub otherwise: Option<Advice>,
    /// With the advice `wait`: the cases that wait, the longest first.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub waits: IndexMap<String, Wait>,
    /// The alternative of the advice, as on the command line: `unix`. Absent if the advice is about several
    /// alternatives, or none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alternative: Option<String>,
    /// The reference of the comparisons: `tcp`. Absent if nothing was compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// Why the advice is not firm; absent if the advice is firm.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub perhaps: Option<Perhaps>,
    /// Cases of the alternative by verdict, one for each setting; cases of all alternatives if the advice is about
    /// several.
    #[serde(default, skip_serializing_if = "Settings::is_empty")]
    pub settings: Settings,
    /// Effects in two settings: where the alternative is better by the least, and by the most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub least: Option<Effect>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most: Option<Effect>,
    /// CPU time of the user's own work per request, in milliseconds, below which the alternative changes the throughput
    /// of busy CPUs by more than the margin: the least and the greatest over the settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matters_below_ms: Option<[f64; 2]>,
    /// The other alternatives that the run cannot tell from it.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub others: IndexMap<String, Beside>,
}

/// What to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Advice {
    /// Remove a wait that is no work, and measure again: it hides what the transport costs.
    Wait,
    /// Use the alternative: it is better somewhere, and worse nowhere.
    Use,
    /// The alternative is better in some settings, and worse, or not to be had, in others.
    Depends,
    /// Stay with the reference.
    Stay,
    /// All are equivalent.
    Same,
    /// The alternative may be better.
    Undecided,
    /// There is no usable comparison, or nothing to choose.
    #[default]
    None,
}

/// Why a verdict is no firm advice. Where several hold, the first one is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Perhaps {
    /// The run has one round, and the next may say otherwise.
    OneRound,
    /// The verdict rests on few rounds.
    FewRounds,
    /// Another case must not be used.
    AnotherInvalid,
    /// The verdict may be chance among so many comparisons.
    Chance,
    /// The verdict holds for the mean of several machines, and another machine may differ.
    AnotherMachine,
}

/// Names of cases, by verdict.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Settings {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub better: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub worse: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub equivalent: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undecided: Vec<String>,
    /// Cases that failed or must not be used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unusable: Vec<String>,
    /// Cases that wait while nothing works, or whose reference waits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<String>,
}

/// How much an alternative changes in a setting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Effect {
    pub case: String,
    /// Case divided by reference, of the quantity that verdicts are about.
    pub ratio: f64,
    /// CPU time of the services that it saves per request, in microseconds; absent unless it is known to differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_saved_us: Option<f64>,
}

/// Another alternative compared with the advised one, in the settings in which the advised one is better than the
/// reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Beside {
    /// Equivalent.
    AsGood,
    /// Whether it is worse is undecided.
    Undecided,
    /// It takes more CPU per request, and whether it is slower is undecided.
    Costlier,
}

impl Settings {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn add(&mut self, rival: &Rival<'_>) {
        for one in &rival.compared {
            let list = match one.comparison.verdict {
                Verdict::Faster => &mut self.better,
                Verdict::Slower => &mut self.worse,
                Verdict::Equivalent => &mut self.equivalent,
                Verdict::Undecided => &mut self.undecided,
            };
            list.push(one.case.case.clone());
        }
        self.unusable.extend(rival.unusable.iter().map(ToString::to_string));
    }
}

/// An alternative to the reference, in all settings.
struct Rival<'a> {
    name: String,
    reference: String,
    compared: Vec<Compared<'a>>,
    /// Cases that failed or must not be used.
    unusable: Vec<&'a str>,
    /// Cases that wait while nothing works, or whose reference waits, each with the reference.
    waiting: Vec<[&'a CaseSummary; 2]>,
}

/// The decision from the verdicts of a run.
#[must_use]
pub fn decide(summary: &Summary) -> Decision {
    if summary.aa {
        return Decision::default();
    }
    let groups = groups(summary);
    let rivals = choices(summary, rivals(&groups));
    let decision = by_verdicts(summary, &rivals);
    match rivals.iter().find(|rival| !rival.waiting.is_empty()) {
        Some(first) => about_waits(first, &rivals, decision),
        None => decision,
    }
}

fn by_verdicts(summary: &Summary, rivals: &[Rival<'_>]) -> Decision {
    let Some(first) = rivals.iter().find(|rival| !rival.compared.is_empty()) else {
        return Decision::default();
    };
    if let Some(best) = best(rivals) {
        return Decision {
            others: others(summary, rivals, best),
            ..about(Advice::Use, best)
        };
    }
    let has = |verdict| move |rival: &&Rival<'_>| rival.count(verdict) > 0;
    let better = rivals.iter().filter(has(Verdict::Faster));
    if let Some(mixed) = better
        .clone()
        .find(has(Verdict::Slower))
        .or_else(|| better.clone().next())
    {
        return about(Advice::Depends, mixed);
    }
    let open = rivals.iter().filter(has(Verdict::Undecided));
    let may_be_better = open.filter(|rival| rival.count(Verdict::Slower) == 0);
    let gain = |rival: &&Rival<'_>| rival.gain(Verdict::Undecided);
    if let Some(open) = may_be_better.max_by(|one, other| gain(one).total_cmp(&gain(other))) {
        return about(Advice::Undecided, open);
    }
    let loses = rivals.iter().any(|rival| rival.count(Verdict::Slower) > 0);
    let advice = if loses { Advice::Stay } else { Advice::Same };
    match rivals {
        [only] => about(advice, only),
        _ => about_all(advice, rivals, first),
    }
}

/// The reason why a verdict is no firm advice.
#[must_use]
pub fn perhaps(summary: &Summary, comparison: &Comparison) -> Option<Perhaps> {
    let has_few_rounds = || {
        let mut few = summary.checks.iter().filter(|check| check.id == "too-few-blocks");
        few.any(|check| check.case.as_ref() == Some(&comparison.case))
    };
    if comparison.verdict == Verdict::Undecided {
        None
    } else if summary.rounds < LEAST_ROUNDS {
        Some(Perhaps::OneRound)
    } else if has_few_rounds() {
        Some(Perhaps::FewRounds)
    } else if summary.checks.iter().any(|check| check.severity == Severity::Invalid) {
        Some(Perhaps::AnotherInvalid)
    } else if comparison.may_be_chance() {
        Some(Perhaps::Chance)
    } else {
        None
    }
}

/// The reason why advice from these verdicts is not firm: each of them may be luck.
fn luck<'b, 'a: 'b>(compared: impl IntoIterator<Item = &'b Compared<'a>>) -> Option<Perhaps> {
    let each: Option<Vec<Perhaps>> = compared.into_iter().map(|one| one.comparison.perhaps).collect();
    each?.into_iter().min()
}

/// A decision about one alternative.
fn about(advice: Advice, rival: &Rival<'_>) -> Decision {
    let won: Vec<&Compared<'_>> = rival.with(Verdict::Faster).collect();
    let lost: Vec<&Compared<'_>> = rival.with(Verdict::Slower).collect();
    let by_gain = |one: &&&Compared<'_>, other: &&&Compared<'_>| one.gain().total_cmp(&other.gain());
    let limits = || won.iter().filter_map(|one| one.matters_below_ms());
    let limits = limits().min_by(f64::total_cmp).zip(limits().max_by(f64::total_cmp));
    let mut settings = Settings::default();
    settings.add(rival);
    Decision {
        advice,
        alternative: Some(rival.name.clone()),
        reference: Some(rival.reference.clone()),
        perhaps: match advice {
            // `Depends` rests on wins and losses, or on wins alone if the alternative is not available everywhere.
            Advice::Depends if lost.is_empty() => luck(won.iter().copied()),
            Advice::Depends => luck(won.iter().copied()).and(luck(lost.iter().copied())),
            Advice::Use => luck(won.iter().copied()),
            Advice::Stay => luck(lost.iter().copied()),
            Advice::Same => luck(&rival.compared),
            Advice::Undecided | Advice::Wait | Advice::None => None,
        },
        settings,
        least: won.iter().min_by(by_gain).map(|one| one.effect()),
        most: won.iter().max_by(by_gain).map(|one| one.effect()),
        matters_below_ms: limits.map(|(least, most)| [least, most]),
        ..Decision::default()
    }
}

/// A decision about waiting cases, with the decision on the other cases.
fn about_waits(first: &Rival<'_>, rivals: &[Rival<'_>], others: Decision) -> Decision {
    let waiting = || rivals.iter().flat_map(|rival| &rival.waiting);
    let mut waits: IndexMap<String, Wait> = waiting()
        .flatten()
        .filter_map(|case| Some((case.case.clone(), case.wait?)))
        .collect();
    waits.sort_by(|_, one, _, other| other.us.total_cmp(&one.us));
    let otherwise = Some(others.advice).filter(|advice| *advice != Advice::None);
    let mut decision = otherwise.map_or_else(|| about(Advice::None, first), |_| others);
    decision.settings.waiting = waiting().map(|[case, _]| case.case.clone()).collect();
    Decision {
        advice: Advice::Wait,
        otherwise,
        waits,
        ..decision
    }
}

/// A decision against all alternatives, or for none.
fn about_all(advice: Advice, rivals: &[Rival<'_>], first: &Rival<'_>) -> Decision {
    let rests_on = rivals.iter().flat_map(|rival| &rival.compared);
    let mut settings = Settings::default();
    rivals.iter().for_each(|rival| settings.add(rival));
    Decision {
        advice,
        reference: Some(first.reference.clone()),
        perhaps: luck(rests_on.filter(|one| advice == Advice::Same || one.comparison.verdict == Verdict::Slower)),
        settings,
        ..Decision::default()
    }
}

/// The alternatives to choose from: without controls, if there are others.
fn choices<'a>(summary: &Summary, mut rivals: Vec<Rival<'a>>) -> Vec<Rival<'a>> {
    let controls = |rival: &Rival<'_>| {
        let mut compared = rival.compared.iter();
        !rival.compared.is_empty() && compared.all(|one| summary.controls.contains(&one.case.case))
    };
    if rivals.iter().any(|rival| !controls(rival)) {
        rivals.retain(|rival| !controls(rival));
    }
    rivals
}

fn rivals<'a>(groups: &'a [Group<'a>]) -> Vec<Rival<'a>> {
    let mut rivals: IndexMap<String, Rival<'a>> = IndexMap::new();
    for group in groups {
        for case in group.cases.iter().filter(|case| case.case != group.head().case) {
            let name = group.alternative(case);
            let rival = rivals.entry(name.clone()).or_insert_with(|| Rival {
                name,
                reference: group.alternative(group.head()),
                compared: vec![],
                unusable: vec![],
                waiting: vec![],
            });
            let both = [case, group.head()];
            match group.compare(case) {
                _ if group.invalid(case).is_none() && both.iter().any(|case| case.wait.is_some()) => {
                    rival.waiting.push(both);
                }
                Some(compared) => rival.compared.push(compared),
                None => rival.unusable.push(&case.case),
            }
        }
    }
    rivals.into_values().collect()
}

impl<'a> Rival<'a> {
    fn with(&self, verdict: Verdict) -> impl Iterator<Item = &Compared<'a>> {
        let all = self.compared.iter();
        all.filter(move |one| one.comparison.verdict == verdict)
    }

    fn count(&self, verdict: Verdict) -> usize {
        self.with(verdict).count()
    }

    fn settings(&self) -> usize {
        self.compared.len() + self.unusable.len() + self.waiting.len()
    }

    /// The mean size of the effects with this verdict, in logarithms.
    fn gain(&self, verdict: Verdict) -> f64 {
        self.with(verdict).map(Compared::gain).sum::<f64>() / self.count(verdict).max(1) as f64
    }
}

impl Compared<'_> {
    fn effect(&self) -> Effect {
        Effect {
            case: self.case.case.clone(),
            ratio: self.comparison.ratio.estimate,
            cpu_saved_us: self.cpu().map(|cpu| cpu.saved_us.estimate),
        }
    }

    fn matters_below_ms(&self) -> Option<f64> {
        let cpu = self.cpu().filter(|cpu| cpu.saved_us.estimate > 0.0)?;
        let limit = cpu.break_even.as_ref()?.interval.estimate;
        (limit > 0.0 && self.group.summary().settings.margin > 0.0).then_some(limit)
    }
}

/// The best alternative: better somewhere, worse nowhere, and available in as many settings as any.
fn best<'b, 'a>(rivals: &'b [Rival<'a>]) -> Option<&'b Rival<'a>> {
    let most = rivals.iter().map(Rival::settings).max()?;
    let safe = rivals.iter().filter(|rival| {
        rival.settings() == most && rival.count(Verdict::Faster) > 0 && rival.count(Verdict::Slower) == 0
    });
    let rank = |rival: &&Rival<'_>| (rival.count(Verdict::Faster), rival.gain(Verdict::Faster));
    // A pair with an `f64` has no total order.
    safe.max_by(|one, other| rank(one).partial_cmp(&rank(other)).unwrap_or(std::cmp::Ordering::Equal))
}

/// Alternatives that the run cannot distinguish from the best, each compared with it in the same blocks.
fn others(summary: &Summary, rivals: &[Rival<'_>], best: &Rival<'_>) -> IndexMap<String, Beside> {
    let others = rivals.iter().filter(|rival| rival.name != best.name);
    let known = others.filter(|rival| rival.count(Verdict::Slower) == 0);
    known
        .filter_map(|rival| Some((rival.name.clone(), beside(summary, rival, best)?)))
        .collect()
}

/// The comparison with the best alternative; `None` if the best is better, or if the two were not compared.
fn beside(summary: &Summary, rival: &Rival<'_>, best: &Rival<'_>) -> Option<Beside> {
    let judged = |metric| -> Option<Vec<Verdict>> {
        let of = |won: &Compared<'_>| {
            let mut all = rival.compared.iter();
            let same = all.find(|one| one.reference.case == won.reference.case)?;
            summary.against(&won.case.case, &same.case.case, metric)
        };
        best.with(Verdict::Faster).map(of).collect()
    };
    // An alternative that failed in every setting has no results.
    let metric = Metric::primary(&rival.compared.first()?.case.load);
    let verdicts = judged(metric).filter(|all| !all.contains(&Verdict::Faster))?;
    let all_are = |all: &[Verdict], wanted| all.iter().all(|verdict| *verdict == wanted);
    let is_costlier = judged(Metric::CpuPerRequest).is_some_and(|all| all_are(&all, Verdict::Faster));
    Some(if is_costlier {
        Beside::Costlier
    } else if all_are(&verdicts, Verdict::Equivalent) {
        Beside::AsGood
    } else {
        Beside::Undecided
    })
}
