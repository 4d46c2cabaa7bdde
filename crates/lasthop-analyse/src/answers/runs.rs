//! Runs of an experiment on several days and machines, and their prediction for another machine.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use lasthop_model::record::size;
use lasthop_stats::{CONFIDENCE, Interval, moderated::Scatter, verdict::verdict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Against, Answer, KnownCase, Machine, Setting, rounded};
use crate::{
    comparisons::better,
    decision::Perhaps,
    summary::{Metric, Verdict},
};

/// The fewest runs that are pooled.
pub const FEWEST_RUNS: usize = 3;
/// The fewest rounds of a pooled run. With fewer, a run hardly shows how a start changes its figures.
pub const FEWEST_ROUNDS: u32 = 10;

/// A run, reduced to the data for pooling: a line of `docs/answers/runs/EXPERIMENT.jsonl`, which `script/answers`
/// writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptRun {
    /// Start of the run, as in RFC 3339.
    pub started: String,
    /// Version of lasthop that measured the run.
    pub lasthop: String,
    pub rounds: u32,
    pub machine: Machine,
    pub ratios: Vec<KeptRatio>,
}

/// The ratio of a case to the reference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptRatio {
    /// Levels of the setting, without that of the compared factor.
    pub levels: IndexMap<String, String>,
    /// Level of the compared factor for the case.
    pub level: String,
    pub metric: Metric,
    pub ratio: Interval,
}

impl From<&Answer> for KeptRun {
    fn from(answer: &Answer) -> Self {
        let of_setting = |setting: &Setting| {
            let ratio = |(case, against): (&KnownCase, &Against)| KeptRatio {
                levels: setting.levels.clone(),
                level: case.level.clone(),
                metric: against.metric,
                ratio: against.ratio,
            };
            setting.compared().map(ratio).collect::<Vec<_>>()
        };
        Self {
            started: answer.started.clone(),
            lasthop: answer.lasthop.clone(),
            rounds: answer.rounds,
            machine: answer.machine.clone(),
            ratios: answer.settings.iter().flat_map(of_setting).collect(),
        }
    }
}

/// A ratio pooled over runs on several days and machines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pooled {
    pub runs: u32,
    /// Mean ratio of the runs, with its 95 % interval.
    pub mean: Interval,
    /// Verdict on the mean.
    pub verdict: Verdict,
    /// Why the verdict is not firm: the range has ratios on both sides of 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub perhaps: Option<Perhaps>,
    /// The range in which the ratio of a run on another machine of the kind lies, with 95 % confidence.
    pub next: Interval,
}

/// The values of a ratio: the logarithm in each run.
type Values = Vec<f64>;

/// Pools each ratio of the answers with those of older runs on machines of the same kind, by name of the experiment.
pub fn pool(answers: &mut [Answer], older: &BTreeMap<String, Vec<KeptRun>>) {
    let values: Vec<Vec<Values>> = answers
        .iter()
        .map(|answer| values(answer, older.get(&answer.experiment).map_or(&[], Vec::as_slice)))
        .collect();
    let Some(scatter) = Scatter::of(&values.concat()) else {
        return;
    };
    for (answer, values) in answers.iter_mut().zip(values) {
        let margin = answer.margin;
        let compared = answer.settings.iter_mut().flat_map(|setting| &mut setting.cases);
        let ratios = compared.filter_map(|case| case.against.as_mut());
        for (against, values) in ratios.zip(values) {
            let moderated = (values.len() >= FEWEST_RUNS).then(|| scatter.moderate(&values));
            against.pooled = moderated.map(|moderated| {
                let mean = moderated.mean.exponential(CONFIDENCE);
                let next = moderated.next.exponential(CONFIDENCE);
                let verdict = verdict(&mean, margin, better(against.metric));
                let is_either = verdict.differs() && next.low <= 1.0 && 1.0 <= next.high;
                Pooled {
                    runs: values.len() as u32,
                    mean: mean.map(rounded),
                    verdict,
                    perhaps: is_either.then_some(Perhaps::AnotherMachine),
                    next: next.map(rounded),
                }
            });
        }
    }
}

/// The values of each ratio of an answer, in their order.
fn values(answer: &Answer, older: &[KeptRun]) -> Vec<Values> {
    let newest = KeptRun::from(answer);
    let alike = older
        .iter()
        .filter(|run| run.started != newest.started && run.machine.is_like(&newest.machine));
    let runs: Vec<&KeptRun> = std::iter::once(&newest)
        .chain(alike)
        .filter(|run| run.rounds >= FEWEST_ROUNDS)
        .collect();
    let same = |one: &KeptRatio, other: &&KeptRatio| {
        (&one.levels, &one.level, one.metric) == (&other.levels, &other.level, other.metric)
    };
    let of = |ratio: &KeptRatio| {
        let found = runs
            .iter()
            .filter_map(|run| run.ratios.iter().find(|other| same(ratio, other)));
        found.map(|found| found.ratio.estimate.ln()).collect()
    };
    newest.ratios.iter().map(of).collect()
}

impl Machine {
    /// Whether answers of two machines can be pooled: they have about as many CPUs, and their loopback has equal
    /// conditions. An engine's own rules are part of the measured path, so an equal engine is enough.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        let engine = |machine: &Self| Some(machine.engine.as_ref()?.split(' ').next()?.to_owned());
        let is_alike = match (engine(self), engine(other)) {
            (None, None) => self.conditions.is_some() && self.conditions == other.conditions,
            (one, other) => one == other,
        };
        is_alike && size(self.cpus) == size(other.cpus)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::answers, *};

    /// A run on another day, whose ratios are larger by this percentage.
    fn run(answer: &Answer, day: u8, percent: f64) -> KeptRun {
        let mut run = KeptRun {
            started: format!("2026-01-{day:02}T00:00:00Z"),
            rounds: FEWEST_ROUNDS,
            ..KeptRun::from(answer)
        };
        for one in &mut run.ratios {
            one.ratio = one.ratio.times(1.0 + percent / 100.0);
        }
        run
    }

    /// The kept answers, each pooled with two older runs, of which `unlike` can change one.
    fn pooled(unlike: impl Fn(&mut KeptRun)) -> Vec<Answer> {
        let mut all = answers().answers.clone();
        for answer in &mut all {
            answer.rounds = FEWEST_ROUNDS;
        }
        let older = |answer: &Answer| {
            let mut runs = vec![run(answer, 1, 3.0), run(answer, 2, -3.0)];
            unlike(&mut runs[0]);
            (answer.experiment.clone(), runs)
        };
        let older = all.iter().map(older).collect();
        pool(&mut all, &older);
        all
    }

    fn ratios(all: &[Answer]) -> Vec<&Against> {
        let settings = all.iter().flat_map(|answer| &answer.settings);
        settings
            .flat_map(Setting::compared)
            .map(|(_, against)| against)
            .collect()
    }

    #[test]
    fn three_runs_of_like_machines_are_a_range() {
        let all = pooled(|_| ());
        for against in ratios(&all) {
            let pooled = against.pooled.as_ref().unwrap();
            let mean = pooled.mean.estimate / against.ratio.estimate;
            assert!(pooled.runs == 3 && (mean - 1.0).abs() < 0.001, "{against:?}");
            assert!(
                pooled.next.low < pooled.mean.low && pooled.mean.high < pooled.next.high,
                "{against:?}"
            );
        }
    }

    #[test]
    fn other_machines_few_rounds_and_the_same_run_are_not_pooled() {
        let is_none = |unlike: &dyn Fn(&mut KeptRun)| ratios(&pooled(unlike)).iter().all(|one| one.pooled.is_none());
        assert!(is_none(&|run| run.machine.cpus = 16));
        assert!(is_none(&|run| run.rounds = FEWEST_ROUNDS - 1));
        assert!(is_none(&|run| run.ratios.clear()));
        assert!(is_none(&|run| {
            run.machine.engine = run.machine.engine.is_none().then(|| "docker 20".to_owned());
        }));
        let of_engines = pooled(|run: &mut KeptRun| run.machine.conditions = Some("TCP: bbr".to_owned()));
        for answer in &of_engines {
            let is_pooled = ratios(std::slice::from_ref(answer))
                .iter()
                .all(|one| one.pooled.is_some());
            assert_eq!(is_pooled, answer.machine.engine.is_some(), "{}", answer.experiment);
        }
    }
}
