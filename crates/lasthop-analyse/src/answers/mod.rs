//! Kept answers: the figures of the records that the project keeps, available without a run. There is an [`Answer`] for
//! each experiment. `script/generate` makes `docs/answers/answers.json` from `docs/answers/records`, and the file is
//! embedded.

pub mod placed;
pub mod runs;

use std::sync::LazyLock;

use indexmap::IndexMap;
use lasthop_model::record::{LoadSummary, TrialRecord};
use lasthop_record::RunData;
use lasthop_stats::{Interval, middle};
use lasthop_trial::address::Transport;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::runs::Pooled;
use crate::{
    decision::Perhaps,
    summary::{LinkEnds, Metric, Verdict},
};

pub const SCHEMA: &str = "lasthop-answers/1";

/// The answers that are built into this program. An experiment without a kept record has none.
#[must_use]
pub fn answers() -> &'static Answers {
    static KEPT: LazyLock<Answers> = LazyLock::new(|| {
        let text = include_str!("../../../../docs/answers/answers.json");
        serde_json::from_str(text).expect("a test reads the embedded answers")
    });
    &KEPT
}

/// What the kept records say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Answers {
    /// `lasthop-answers/1`
    pub schema: String,
    /// By name of the experiment.
    pub answers: Vec<Answer>,
}

impl Answers {
    #[must_use]
    pub fn of(answers: Vec<Answer>) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            answers,
        }
    }

    #[must_use]
    pub fn get(&self, experiment: &str) -> Option<&Answer> {
        self.answers.iter().find(|answer| answer.experiment == experiment)
    }
}

/// What one record says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Answer {
    /// Name of the experiment.
    pub experiment: String,
    /// Heading of the experiment's group in a list.
    pub group: String,
    pub title: String,
    pub question: String,
    /// Ends of the link under test.
    pub link: LinkEnds,
    /// The recommendation and other remarks, in the words of reports.
    pub advice: Vec<String>,
    /// Differences within this share count as none.
    pub margin: f64,
    /// When the run began, RFC 3339.
    pub started: String,
    /// Seconds that the run took, without pauses.
    pub seconds: f64,
    pub rounds: u32,
    pub blocks: u32,
    /// Version of lasthop that measured.
    pub lasthop: String,
    pub machine: Machine,
    /// Ids of the checks that cast doubt on it (`lasthop report --check ID`).
    pub doubts: Vec<String>,
    pub settings: Vec<Setting>,
}

impl Answer {
    /// The experiment, with the engine of its containers: `redis-published-port (podman 4.3.1)`.
    #[must_use]
    pub fn named(&self) -> String {
        let engine = self.machine.engine.iter().map(|engine| format!(" ({engine})"));
        self.experiment.clone() + &engine.collect::<String>()
    }
}

/// The machine that it was measured on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Machine {
    pub cpu_model: String,
    pub cpus: u32,
    pub kernel: String,
    pub architecture: String,
    /// `none`, or the hypervisor.
    pub virtualization: String,
    /// The container engine that ran services, with its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// Congestion control and MTU of TCP on loopback, and the state of the packet filter there, in the words of
    /// reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<String>,
    /// Median speed of the driver's CPU, in steps of a fixed computation per microsecond.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speed: Option<f64>,
}

/// A reference and what is compared with it, under one load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Setting {
    /// The levels that distinguish the setting from the others, in words: `GET, pipeline 16`; empty if there is only
    /// one setting.
    pub name: String,
    /// Its levels, without that of the compared factor.
    pub levels: IndexMap<String, String>,
    pub load: LoadSummary,
    /// Bytes of payload per reply of the load; absent where nothing comes back, and in older answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply_bytes: Option<f64>,
    /// Cases of the setting, the reference first.
    pub cases: Vec<KnownCase>,
}

impl Setting {
    #[must_use]
    pub fn reference(&self) -> Option<&KnownCase> {
        self.cases.iter().find(|case| case.against.is_none())
    }

    /// The cases that were compared with the reference.
    pub fn compared(&self) -> impl Iterator<Item = (&KnownCase, &Against)> {
        self.cases
            .iter()
            .filter_map(|case| Some((case, case.against.as_ref()?)))
    }
}

/// What is known of a transport or path in a setting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KnownCase {
    /// Its level, as the command line has it: `unix`, `published-port`.
    pub level: String,
    /// Name of the level in a sentence: `the Unix socket`.
    pub name: String,
    #[schemars(with = "String")]
    pub transport: Transport,
    /// Whether the case is only a control, which no report advises.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub control: bool,
    /// Correct replies per second.
    pub requests_per_s: Interval,
    /// CPU time per request in microseconds, of the services and of a driver that is an end of the link.
    pub cpu_us: f64,
    /// Context switches per request of the services; absent in older answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub switches: Option<f64>,
    /// `None` for the reference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub against: Option<Against>,
}

/// A case against the reference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Against {
    /// Metric of the ratio and of the verdict.
    pub metric: Metric,
    /// Case divided by reference.
    pub ratio: Interval,
    pub verdict: Verdict,
    /// Why the verdict is not firm; absent if it is, or is `undecided`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub perhaps: Option<Perhaps>,
    /// Whether the ratio is a lower bound: the true ratio is at least as far from 1.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lower_bound: bool,
    /// The ratio pooled over this run and runs on other days and machines; absent with fewer than three runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pooled: Option<Pooled>,
    /// Time per request that it saves, in microseconds; negative if it costs time. It includes queueing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub saved_us: Option<Interval>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<CpuAgainst>,
}

/// CPU time per request of a case against that of the reference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CpuAgainst {
    /// Case divided by reference: less is better.
    pub ratio: Interval,
    /// `faster` means less CPU time.
    pub verdict: Verdict,
    /// CPU time per request that the case saves, in microseconds; negative if the case costs CPU time.
    pub saved_us: Interval,
    /// CPU time of the user's own work per request, in microseconds, below which the difference changes the throughput
    /// of busy CPUs by more than the margin. The interval begins at 0 if the saving may be 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matters_below_us: Option<Interval>,
}

/// Rounds to nine digits, because reports round once more, and after five digits that could give a different number.
/// Infinity becomes a number, because JSON has no infinity.
#[must_use]
pub fn rounded(value: f64) -> f64 {
    const FARTHEST: f64 = 1e15;
    let text = format!("{:.8e}", value.clamp(-FARTHEST, FARTHEST));
    text.parse().unwrap_or(value)
}

/// The median speed of the driver's CPU over all trials, in steps per microsecond; `None` if the record has none.
#[must_use]
pub fn speed(data: &RunData) -> Option<f64> {
    let trials = data.records.iter().filter_map(|record| match record {
        TrialRecord::Trial(trial) => trial.result.speed,
        _ => None,
    });
    middle(trials.flat_map(|speed| [speed.before, speed.after])).map(rounded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_answers_are_read() {
        assert_eq!(answers().schema, SCHEMA);
        assert!(answers().get("no such experiment").is_none());
    }

    #[test]
    fn figures_keep_nine_digits_and_stay_finite() {
        assert_eq!(
            Interval {
                estimate: 1.914_961_234_5,
                low: -0.001_234_567_894,
                high: f64::MAX,
            }
            .map(rounded),
            Interval {
                estimate: 1.914_961_23,
                low: -0.001_234_567_89,
                high: 1e15,
            }
        );
    }
}
