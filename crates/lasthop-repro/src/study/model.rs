//! Studies as the rest of the program sees them: read, checked, complete.

use indexmap::IndexMap;
use lasthop_classic::Tool;
use lasthop_model::engine::EngineKind;
use lasthop_stats::mean;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A published measurement.
#[derive(Clone, Debug)]
pub struct Study {
    /// The file's name.
    pub name: String,
    pub title: String,
    pub author: String,
    pub published: String,
    pub question: String,
    pub environment: StudyEnvironment,
    pub method: Method,
    pub missed: Vec<Missed>,
    pub runs: Vec<StudyRun>,
    pub figures: Vec<Figure>,
    pub claims: Vec<Claim>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StudyEnvironment {
    pub machine: String,
    pub system: String,
    /// Version by name of recipe or tool.
    pub software: IndexMap<String, String>,
    pub link: String,
}

/// How the study measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Method {
    /// `None` where the experiment's own programs do what the study's did.
    pub tool: Option<&'static Tool>,
    /// With `{seconds}` and `{count}`.
    pub flags: Vec<String>,
    pub text: String,
    pub runs: u32,
    pub seconds: Option<u32>,
    pub count: Option<u64>,
    /// The container engine that it used.
    pub engine: Option<EngineKind>,
}

/// Something that the method could not see or mixed up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Missed {
    pub id: String,
    pub text: String,
}

/// An experiment of lasthop that answers a group of figures.
#[derive(Clone, Debug, PartialEq)]
pub struct StudyRun {
    pub id: String,
    pub experiment: String,
    pub levels: IndexMap<String, Vec<String>>,
    /// Levels in their place where less than a minute is given.
    pub short: IndexMap<String, Vec<String>>,
    pub time: Time,
    /// Another of the runs, whose time of a request is subtracted.
    pub minus: Option<String>,
    pub runs: u32,
    pub count: Option<u64>,
    /// What lasthop's own design does otherwise.
    pub design: Design,
    /// What the study could not do; then there is lasthop's own design alone.
    pub beyond: Option<String>,
    /// Why it is not repeated, where it is not.
    pub because: Option<String>,
}

/// What lasthop's own design does otherwise than the study's method.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Design {
    /// Levels in the place of those of the runs.
    #[serde(default)]
    pub levels: IndexMap<String, Vec<String>>,
    /// Levels in their place where less than a minute is given.
    #[serde(default)]
    pub short: IndexMap<String, Vec<String>>,
    /// The quantity of the experiment (`[derive.NAME]`) that answers what the study got by a line or a subtraction.
    pub quantity: Option<String>,
}

impl StudyRun {
    /// Levels of lasthop's own design.
    pub fn design_levels(&self) -> IndexMap<String, Vec<String>> {
        let mut levels = self.levels.clone();
        levels.extend(self.design.levels.clone());
        levels
    }

    /// The levels that tell the study's condition from others that lasthop's design has beside it.
    pub fn design_condition(&self) -> IndexMap<String, String> {
        let only = |levels: &Vec<String>| {
            if let [one] = &levels[..] {
                Some(one.clone())
            } else {
                None
            }
        };
        let condition = |(factor, levels): (&String, &Vec<String>)| {
            let theirs = self
                .levels
                .get(factor)
                .and_then(only)
                .filter(|level| levels.contains(level));
            Some((factor.clone(), theirs.or_else(|| only(levels))?))
        };
        self.design_levels().iter().filter_map(condition).collect()
    }
}

/// How the time of a request is had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Time {
    /// From the requests of a second.
    Rate,
    /// From the line through `count` and twice as many requests: what every run pays once falls out.
    Slope,
    /// From the line through the levels of this factor: the time of one more of what it counts.
    Levels(String),
}

/// One published number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figure {
    pub runs: String,
    /// Which of the study's machines; empty where there is one.
    pub system: String,
    /// The condition as the study names it.
    pub condition: String,
    /// As levels of our factors; empty where no single case of ours corresponds.
    pub levels: IndexMap<String, String>,
    /// As the study's file names it.
    pub quantity: String,
    /// The same for tables.
    #[serde(default)]
    pub words: String,
    #[serde(skip)]
    pub measured: Quantity,
    /// As printed, without the unit.
    pub printed: String,
    pub value: f64,
    pub unit: String,
}

impl Figure {
    /// What it is a number of; in an older book by its name.
    pub fn words(&self) -> &str {
        if self.words.is_empty() {
            &self.quantity
        } else {
            &self.words
        }
    }
}

/// A comparison that a study draws.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Claim {
    pub runs: String,
    pub system: String,
    pub text: String,
    pub case: IndexMap<String, String>,
    pub against: IndexMap<String, String>,
    /// As the study's file names it.
    pub quantity: String,
    #[serde(skip)]
    pub words: String,
    #[serde(skip)]
    pub measured: Quantity,
    /// The quantity of `against`, where it is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against_quantity: Option<String>,
    #[serde(skip)]
    pub against_measured: Quantity,
    /// The published ratio, where no figures give it.
    #[serde(skip)]
    pub published: Option<f64>,
    /// Ratio of case to `against` that fits the claim.
    pub least: Option<f64>,
    pub most: Option<f64>,
    pub printed: Vec<String>,
    /// Why nothing here answers it.
    #[serde(skip)]
    pub because: Option<String>,
}

impl Claim {
    /// Ratios that fit it.
    pub fn range(&self, published: Option<f64>) -> (f64, f64) {
        match (self.least, self.most, published) {
            (None, None, Some(ratio)) => (ratio * 0.98, ratio * 1.02),
            (least, most, _) => (least.unwrap_or(0.0), most.unwrap_or(f64::INFINITY)),
        }
    }

    /// Whether another claim, perhaps of an earlier version of the study, is about the same measured ratio.
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

macro_rules! bases {
    ($($(#[$doc:meta])* $variant:ident $name:literal $words:literal,)*) => {
        /// What lasthop knows of a run. The quantities of studies are made of these.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
        pub enum Base { $($(#[$doc])* #[serde(rename = $name)] $variant,)* }

        impl Base {
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// As files write it.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// For tables.
            pub fn words(self) -> &'static str {
                match self { $(Self::$variant => $words,)* }
            }
        }
    };
}

bases! {
    /// A number that lasthop does not measure.
    #[default] Printed "printed" "printed",
    /// One divided by the time of a request.
    Rate "requests-per-second" "requests/s",
    /// Time of a request from its client's view.
    LatencyMean "latency-mean" "mean latency",
    LatencyDeviation "latency-deviation" "deviation of latency",
    LatencyMax "latency-max" "longest latency",
    LatencyP99 "latency-p99" "99th percentile",
    Requests "requests" "requests of a run",
    Seconds "seconds" "length of a run",
    Received "received" "bytes received",
    Transfer "transfer" "bytes/s",
    /// As `time` of the runs says: of one request, or of one more.
    Time "time-per-request" "time of a request",
    /// The time of a request, less that of the runs of `minus`.
    Difference "difference" "difference",
    /// The time of a request in the runs of `minus`.
    Subtracted "subtracted" "subtracted",
    /// What starting the study's tool adds to the time of a request. lasthop's own design starts none.
    ToolStart "tool-start" "start of the tool",
}

/// What a published number is a number of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quantity {
    pub base: Base,
    /// All of so many requests, instead of one.
    pub count: Option<u64>,
    /// At this level of the factor that the runs' line goes over.
    pub level: Option<String>,
}

impl Quantity {
    pub fn of(base: Base) -> Self {
        Self {
            base,
            ..Self::default()
        }
    }

    /// Whether it is the base and nothing else.
    pub fn is(&self, base: Base) -> bool {
        *self == Self::of(base)
    }
}

/// Units that figures are printed in.
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

/// How many base units a unit is.
pub fn unit(name: &str) -> f64 {
    match name {
        "ms" => 1e-3,
        "us" => 1e-6,
        "%" => 1e-2,
        // As ab and wrk count them.
        "KB" | "KB/s" => 1024.0,
        "MB" | "MB/s" => 1024.0 * 1024.0,
        _ => 1.0,
    }
}

/// A number as studies print it: digits with `,` between thousands, and a `k`, `K` or `M` behind.
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
    /// The runs of this id; figures and claims are checked to have one.
    pub fn run(&self, id: &str) -> Option<&StudyRun> {
        self.runs.iter().find(|run| run.id == id)
    }

    /// The published ratio of a claim: of its figures, or of their means where several are of its conditions.
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
            // A study that counts requests for a second publishes the rate, too.
            let counted = || values(&|figure| claim.measured.is(Base::Rate) && figure.measured.is(Base::Requests));
            values(&|figure| figure.quantity == quantity).or_else(counted)
        };
        let of_figures = || {
            let theirs = claim.against_quantity.as_ref().unwrap_or(&claim.quantity);
            Some(figure(&claim.case, &claim.quantity)? / figure(&claim.against, theirs)?)
        };
        claim.published.or_else(of_figures)
    }

    /// Every number that it published: figures, and numbers of comparisons.
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
