//! A study as it is written in `studies/NAME.toml`. The doc comments become the descriptions of the JSON schema.

use indexmap::IndexMap;
use lasthop_model::engine::EngineKind;
use schemars::JsonSchema;
use serde::Deserialize;

use super::model::{Base, Design};

/// A published measurement: its conditions, its method, its figures, and what repeats it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "lasthop study")]
pub struct StudyFile {
    /// Title as published.
    pub title: String,
    /// Who published it.
    pub author: String,
    /// Year, month or day, or `not stated`.
    pub published: String,
    /// What it asked, in one sentence.
    pub question: String,
    /// Where it was measured.
    pub environment: EnvironmentFile,
    /// How it was measured.
    pub method: MethodFile,
    /// Its own quantities by name, besides those of lasthop.
    #[serde(default)]
    pub quantities: IndexMap<String, QuantityFile>,
    /// What its method could not see or mixed up.
    pub missed: Vec<MissedFile>,
    /// What repeats it here.
    pub runs: Vec<RunFile>,
    /// Published figures, a table for each condition.
    #[serde(default)]
    pub figures: Vec<FiguresFile>,
    /// Published comparisons.
    #[serde(default)]
    pub claims: Vec<ClaimFile>,
}

/// Where it was measured.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EnvironmentFile {
    /// Machine, as far as it is known.
    pub machine: String,
    /// Operating system and kernel.
    pub system: String,
    /// Version by name, or `not stated`. Names are those of recipes and tools where there is one.
    pub software: IndexMap<String, String>,
    /// The two ends, what went over the link, and how connections were used.
    pub link: String,
}

/// How it was measured.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MethodFile {
    /// A classic tool, or `program` where the experiment's own programs do what the study's did.
    pub driver: String,
    /// The tool's own flags; `{seconds}` and `{count}` stand for the length of a run.
    #[serde(default)]
    pub flags: Vec<String>,
    /// The method in a sentence.
    pub text: String,
    /// Runs of each condition, whose results were averaged.
    pub runs: u32,
    /// Length of a run, for what stops by time.
    pub seconds: Option<u32>,
    /// Requests of a run, for what stops by count.
    pub count: Option<u64>,
    /// The container engine that it used. It is taken here, too, if it works.
    pub engine: Option<EngineKind>,
}

/// What a number of the study is a number of.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QuantityFile {
    /// For tables.
    pub words: String,
    /// Which of lasthop's quantities it is. Without it the number is kept as printed, and nothing is compared.
    #[serde(default)]
    pub of: Base,
    /// With `of = "time-per-request"`: the time of so many requests, the `count` of the runs or twice that.
    pub count: Option<u64>,
    /// With `of = "time-per-request"`: the time at this level of the `factor` of the runs.
    pub level: Option<String>,
}

/// Something that the method could not see or mixed up.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MissedFile {
    /// Stable name.
    pub id: String,
    /// What it is, in a sentence of ours.
    pub text: String,
}

/// An experiment of lasthop that answers a group of figures.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunFile {
    /// Name that figures refer to.
    pub id: String,
    /// Name of the experiment; it need not exist yet.
    pub experiment: String,
    /// Levels of the experiment's factors, as of `--set`.
    #[serde(default)]
    pub levels: IndexMap<String, Vec<String>>,
    /// Levels in their place where less than a minute is given.
    #[serde(default)]
    pub short: IndexMap<String, Vec<String>>,
    /// How the time of a request is had: from its rate, from the line through `count` and twice as many requests, or from
    /// the line through the levels of a factor.
    #[serde(default)]
    pub time: TimeFile,
    /// The factor of `time = "levels"`.
    pub factor: Option<String>,
    /// Another of the runs, whose time of a request is subtracted.
    pub minus: Option<String>,
    /// Runs of each condition, where they differ from the method's.
    pub runs: Option<u32>,
    /// Requests of a run, where they differ from the method's.
    pub count: Option<u64>,
    /// What lasthop's own design does otherwise than the study's method.
    pub design: Option<Design>,
    /// What the study could not do, in a few words: lasthop's own design alone, without a figure that was published.
    pub beyond: Option<String>,
    /// Why it is not repeated, where it is not.
    pub because: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TimeFile {
    #[default]
    Rate,
    Slope,
    Levels,
}

/// What was published of one condition.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FiguresFile {
    /// The `id` of the runs that answer it.
    pub runs: String,
    /// Which of the study's machines.
    #[serde(default)]
    pub system: String,
    /// The condition as the study names it.
    pub condition: String,
    /// The condition as levels of our factors; empty where no single case of ours corresponds.
    #[serde(default)]
    pub levels: IndexMap<String, String>,
    /// Figure and unit as printed, by quantity: `requests-per-second = "1837.29 1/s"`.
    pub values: IndexMap<String, String>,
}

/// A comparison that the study draws.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClaimFile {
    /// The `id` of the runs that answer it.
    pub runs: String,
    /// Which of the study's machines.
    #[serde(default)]
    pub system: String,
    /// What is said, in a few words of ours.
    pub text: String,
    /// The case, as levels of our factors.
    pub case: IndexMap<String, String>,
    /// What it is compared with.
    pub against: IndexMap<String, String>,
    /// The quantity that is compared.
    pub metric: String,
    /// The quantity of `against`, where it is another one: a share of a whole.
    pub against_metric: Option<String>,
    /// The published ratio, where no figures give it.
    pub published: Option<f64>,
    /// Lowest ratio of case to `against` that fits the claim. Without it and `most`, what is within 2 % of the published
    /// ratio.
    pub least: Option<f64>,
    /// Highest ratio that fits the claim.
    pub most: Option<f64>,
    /// Figures of the claim as printed.
    #[serde(default)]
    pub printed: Vec<String>,
    /// Why nothing here answers it, where nothing does.
    pub because: Option<String>,
}
