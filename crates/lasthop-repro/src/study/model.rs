//! Studies as the rest of the program sees them: read, checked, complete.

use indexmap::IndexMap;
use lasthop_classic::Tool;
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    /// Ratio of case to `against` that fits the claim.
    pub least: Option<f64>,
    pub most: Option<f64>,
    pub printed: Vec<String>,
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
