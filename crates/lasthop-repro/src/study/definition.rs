//! The file of a study, `studies/NAME.toml`. The doc comments become the descriptions of the JSON schema.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Deserialize;

use super::model::{Method, Missed, Quantity, StudyEnvironment, StudyRun};

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
    pub environment: StudyEnvironment,
    /// How it was measured.
    pub method: Method,
    /// Its own quantities by name, besides those of lasthop.
    #[serde(default)]
    pub quantities: IndexMap<String, Quantity>,
    /// What its method could not see or mixed up.
    pub missed: Vec<Missed>,
    /// What repeats it here.
    pub runs: Vec<StudyRun>,
    /// Published figures, a table for each condition.
    #[serde(default)]
    pub figures: Vec<FiguresFile>,
    /// Published comparisons.
    #[serde(default)]
    pub claims: Vec<ClaimFile>,
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
