//! The model of a study. serde reads it from `studies/NAME.toml`, and the catalog checks it and fills in the rest. The
//! doc comments become the descriptions of the JSON schema.

use indexmap::IndexMap;
use lasthop_classic::Tool;
use lasthop_model::engine::EngineKind;
use lasthop_stats::mean;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A published measurement: its conditions, its method, its figures, and what repeats it.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "lasthop study")]
pub struct Study {
    /// The name of the file.
    #[serde(skip)]
    pub name: String,
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
    #[serde(default, rename = "figures")]
    pub conditions: Vec<Condition>,
    /// The figures of all conditions.
    #[serde(skip)]
    pub figures: Vec<Figure>,
    /// Published comparisons.
    #[serde(default)]
    pub claims: Vec<Claim>,
}

/// Machine, software and link of a study.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StudyEnvironment {
    /// Machine, as far as it is known.
    pub machine: String,
    /// Operating system and kernel.
    pub system: String,
    /// Version by name, or `not stated`. Names are those of recipes and tools where there is one.
    pub software: IndexMap<String, String>,
    /// The two ends, what went over the link, and how connections were used.
    pub link: String,
}

/// The driver of a study whose method uses the experiment's own programs.
pub const PROGRAM: &str = "program";

/// How a study measured.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Method {
    /// A classic tool, or `program` where the experiment's own programs do what the study's did.
    pub driver: String,
    /// The tool's own flags; `{seconds}` and `{count}` stand for the length of a run.
    #[serde(default)]
    pub flags: Vec<String>,
    /// The method in a sentence.
    pub text: String,
    /// Runs of each condition, whose results the study averaged. A repetition makes as many blocks.
    pub runs: u32,
    /// Length of a run in seconds, for drivers that stop by time.
    pub seconds: Option<u32>,
    /// Requests of a run, or connections if each carries several requests, for drivers that stop by count.
    pub count: Option<u64>,
    /// The container engine of the study. A repetition uses the same engine if it works.
    pub engine: Option<EngineKind>,
}

impl Method {
    /// The classic tool; `None` if the experiment's own programs do its work.
    pub fn tool(&self) -> Option<&'static Tool> {
        lasthop_classic::named(&self.driver).ok()
    }
}

/// Something that the method could not see or mixed up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Missed {
    /// Stable name.
    pub id: String,
    /// A description in one sentence, not quoted from the study.
    pub text: String,
}

/// An experiment of lasthop that answers a group of figures.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StudyRun {
    /// Name that figures refer to.
    pub id: String,
    /// Name of the experiment; it need not exist yet.
    pub experiment: String,
    /// Levels of the experiment's factors, as of `--set`.
    #[serde(default)]
    pub levels: IndexMap<String, Vec<String>>,
    /// Replacements for `levels`, by factor, if the budget is less than a minute.
    #[serde(default)]
    pub short: IndexMap<String, Vec<String>>,
    /// Runs of each condition, where they differ from the method's.
    pub runs: Option<u32>,
    /// Requests of a run, where they differ from the method's.
    pub count: Option<u64>,
    /// How lasthop's own design differs from the study's method.
    #[serde(default)]
    pub design: Design,
    /// What the study could not do, in a few words. Such runs use only lasthop's own design, and have no published
    /// figure.
    pub beyond: Option<String>,
    /// Why the runs are not repeated; missing if they are.
    pub because: Option<String>,
}

/// How lasthop's own design differs from the study's method.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Design {
    /// Levels that replace those of the runs, by factor, and include them.
    #[serde(default)]
    pub levels: IndexMap<String, Vec<String>>,
    /// Replacements for `levels`, by factor, if the budget is less than a minute.
    #[serde(default)]
    pub short: IndexMap<String, Vec<String>>,
}

impl StudyRun {
    /// Levels of lasthop's own design.
    pub fn design_levels(&self) -> IndexMap<String, Vec<String>> {
        let mut levels = self.levels.clone();
        levels.extend(self.design.levels.clone());
        levels
    }

    /// The levels that distinguish the study's condition from additional conditions of lasthop's design.
    pub fn condition(&self) -> IndexMap<String, String> {
        let single = |(factor, levels): (&String, &Vec<String>)| match &levels[..] {
            [only] => Some((factor.clone(), only.clone())),
            _ => None,
        };
        self.levels.iter().filter_map(single).collect()
    }
}

/// Published figures of one condition.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Condition {
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

/// One published number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figure {
    pub runs: String,
    /// The study's machine; empty if there is only one.
    pub system: String,
    /// The condition as the study names it.
    pub condition: String,
    /// The condition as levels of lasthop's factors; empty if no single case of lasthop corresponds.
    pub levels: IndexMap<String, String>,
    /// Name of the quantity in the study's file.
    pub quantity: String,
    /// Name of the quantity in tables.
    pub words: String,
    #[serde(skip)]
    pub measured: Quantity,
    /// The number as printed, without the unit.
    pub printed: String,
    pub value: f64,
    pub unit: String,
}

/// A comparison that a study draws.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Claim {
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
    pub quantity: String,
    #[serde(skip)]
    pub measured: Quantity,
    /// The quantity of `against`, if it differs from `quantity`, as for a share of a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub against_quantity: Option<String>,
    #[serde(skip)]
    pub against_measured: Quantity,
    /// The published ratio, where no figures give it.
    #[serde(skip_serializing)]
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
    #[serde(skip_serializing)]
    pub because: Option<String>,
}

impl Claim {
    /// Ratios that agree with the claim.
    pub fn range(&self, published: Option<f64>) -> (f64, f64) {
        match (self.least, self.most, published) {
            (None, None, Some(ratio)) => (ratio * 0.98, ratio * 1.02),
            (least, most, _) => (least.unwrap_or(0.0), most.unwrap_or(f64::INFINITY)),
        }
    }

    /// Whether two claims, perhaps from different versions of the study, compare the same measured ratio.
    pub fn compares_as(&self, other: &Self) -> bool {
        let compared = |claim: &Self| {
            let quantities = (claim.quantity.clone(), claim.against_quantity.clone());
            (
                claim.runs.clone(),
                quantities,
                claim.case.clone(),
                claim.against.clone(),
            )
        };
        compared(self) == compared(other)
    }
}

/// The method of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    Study,
    Lasthop,
}

impl By {
    pub fn words(self) -> &'static str {
        match self {
            Self::Study => "the study's method",
            Self::Lasthop => "lasthop's method",
        }
    }
}

/// The quantity of a published number. Without an expression, the number is kept as printed, and nothing is compared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Quantity {
    /// Name of the quantity in tables.
    pub words: String,
    /// An expression over a result by either method, in seconds and bytes: `time`, `1 / row`, `time - queries.time`.
    pub value: Option<String>,
    /// The expression for the study's method, if it differs from `value` or `value` is missing.
    pub method: Option<String>,
    /// The expression for lasthop's method, if it differs from `value` or `value` is missing.
    pub lasthop: Option<String>,
    /// Levels of lasthop's factors, in addition to those of a condition.
    #[serde(default)]
    pub levels: IndexMap<String, String>,
}

impl Quantity {
    /// The expression for a method; `None` if the method does not measure the quantity.
    pub fn by(&self, by: By) -> Option<&str> {
        let own = match by {
            By::Study => &self.method,
            By::Lasthop => &self.lasthop,
        };
        own.as_deref().or(self.value.as_deref())
    }
}

/// The prefix of names in an expression that refer to the result of lasthop's method.
pub const LASTHOP: &str = "lasthop";

/// Names of quantities that every study has: requests per second, and requests of a run.
pub const RATE: &str = "requests-per-second";
pub const REQUESTS: &str = "requests";

/// Units of printed figures.
pub const UNITS: [&str; 13] = [
    "1/s",
    "s",
    "ms",
    "us",
    "%",
    "requests",
    "connections",
    "threads",
    "bytes",
    "KB",
    "MB",
    "KB/s",
    "MB/s",
];

/// The size of a unit in base units.
pub fn unit(name: &str) -> f64 {
    match name {
        "ms" => 1e-3,
        "us" => 1e-6,
        "%" => 1e-2,
        // Kilobytes and megabytes are binary in ab and wrk.
        "KB" | "KB/s" => 1024.0,
        "MB" | "MB/s" => 1024.0 * 1024.0,
        _ => 1.0,
    }
}

/// A number as studies print it: digits with `,` between thousands, and a suffix `k`, `K` or `M`.
pub fn number(text: &str) -> Option<f64> {
    let plain = text.replace(',', "");
    let (digits, factor) = match plain.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1e3),
        None => plain
            .strip_suffix('M')
            .map_or((plain.as_str(), 1.0), |digits| (digits, 1e6)),
    };
    // Rust also parses signs, exponents, `inf` and `nan`.
    let valid = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    digits
        .parse::<f64>()
        .ok()
        .filter(|_| valid)
        .map(|number| number * factor)
}

impl Study {
    /// The run with this id; ids in figures and claims are already checked.
    pub fn run(&self, id: &str) -> Option<&StudyRun> {
        self.runs.iter().find(|run| run.id == id)
    }

    /// The published ratio of a claim: of its figures, or of their means if several fit its conditions.
    pub fn published_ratio(&self, claim: &Claim) -> Option<f64> {
        let figure = |wanted: &IndexMap<String, String>, quantity: &str| {
            let fitting = self.figures.iter().filter(|figure| {
                figure.runs == claim.runs
                    && figure.system == claim.system
                    && !figure.levels.is_empty()
                    && wanted
                        .iter()
                        .all(|(factor, level)| figure.levels.get(factor) == Some(level))
            });
            let values = |is_it: &dyn Fn(&Figure) -> bool| {
                let these = fitting.clone().filter(|figure| is_it(figure));
                mean::of(these.map(|figure| figure.value * unit(&figure.unit)))
            };
            // A study that counts the requests of one second publishes the rate, too.
            let counted = || values(&|figure| quantity == RATE && figure.quantity == REQUESTS);
            values(&|figure| figure.quantity == quantity).or_else(counted)
        };
        let of_figures = || {
            let theirs = claim.against_quantity.as_ref().unwrap_or(&claim.quantity);
            Some(figure(&claim.case, &claim.quantity)? / figure(&claim.against, theirs)?)
        };
        claim.published.or_else(of_figures)
    }

    /// Every published number: figures, and numbers of comparisons.
    pub fn numbers(&self) -> Vec<&str> {
        let figures = self.figures.iter().map(|figure| figure.printed.as_str());
        figures
            .chain(
                self.claims
                    .iter()
                    .flat_map(|claim| claim.printed.iter().map(String::as_str)),
            )
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_printed() {
        assert_eq!(number("1837.29"), Some(1837.29));
        assert_eq!(number("0.92k"), Some(920.0));
        assert_eq!(number("1.318M"), Some(1_318_000.0));
        assert_eq!(number("1,000"), Some(1_000.0));
        for wrong in ["", "k", "1e5", "-3", "inf", "1.2.3"] {
            assert_eq!(number(wrong), None, "{wrong}");
        }
    }
}
