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
    /// Who published the study.
    pub author: String,
    /// Date of publication: a year, month or day, or `not stated`.
    pub published: String,
    /// The question that the study asked, in one sentence.
    pub question: String,
    /// Machine, software and link of the study.
    pub environment: StudyEnvironment,
    /// How the study measured.
    pub method: Method,
    /// Quantities of the study by name, besides those of lasthop.
    #[serde(default)]
    pub quantities: IndexMap<String, Quantity>,
    /// What the study's method could not see or mixed up.
    pub missed: Vec<Missed>,
    /// The experiments that repeat the study.
    pub runs: Vec<StudyRun>,
    /// Published figures, a table for each condition.
    #[serde(default)]
    pub figures: Vec<FiguresFile>,
    /// Published comparisons.
    #[serde(default)]
    pub claims: Vec<ClaimFile>,
}

/// Published figures of one condition.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FiguresFile {
    /// The `id` of the runs that repeat the condition.
    pub runs: String,
    /// The study's machine, if there are several.
    #[serde(default)]
    pub system: String,
    /// The condition as the study names it.
    pub condition: String,
    /// The condition as levels of lasthop's factors; empty if no single case of lasthop corresponds.
    #[serde(default)]
    pub levels: IndexMap<String, String>,
    /// Figure and unit as printed, by quantity: `requests-per-second = "1837.29 1/s"`.
    pub values: IndexMap<String, String>,
}

/// A comparison that the study draws.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClaimFile {
    /// The `id` of the runs that answer the claim.
    pub runs: String,
    /// The study's machine, if there are several.
    #[serde(default)]
    pub system: String,
    /// The claim in a few words, not quoted from the study.
    pub text: String,
    /// The case, as levels of lasthop's factors.
    pub case: IndexMap<String, String>,
    /// What the case is compared with, as levels of the same factors.
    pub against: IndexMap<String, String>,
    /// The quantity that is compared.
    pub metric: String,
    /// The quantity of `against`, if it differs from `metric`, as for a share of a whole.
    pub against_metric: Option<String>,
    /// The published ratio, where no figures give it.
    pub published: Option<f64>,
    /// Lowest ratio of case to `against` that fits the claim. Without `least` and `most`, ratios within 2 % of the
    /// published one fit.
    pub least: Option<f64>,
    /// Highest ratio that fits the claim.
    pub most: Option<f64>,
    /// Figures of the claim as printed.
    #[serde(default)]
    pub printed: Vec<String>,
    /// Why no run answers the claim; missing if one does.
    pub because: Option<String>,
}
