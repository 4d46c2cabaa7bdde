//! The user's limits, such as `unix slower > 5%`. The interval decides, not the estimate: a result exceeds a limit if
//! its whole interval does, and is undecided if a part does.

use std::{fmt, str::FromStr};

use lasthop_model::{
    level::{Level, Levels},
    quantity::{joined, share},
    record::CasePlan,
};
use lasthop_stats::{Better, Interval, stopping::data_for};

use super::{
    across::diff::Diff,
    comparisons::better,
    summary::{CaseSummary, Metric, Standing, Summary, Verdict},
};

/// The words between cases and share.
const WORDS: [(&str, Verdict); 2] = [("slower", Verdict::Slower), ("faster", Verdict::Faster)];
/// The word for every case.
pub const ANY: &str = "any";

/// A limit as typed.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    text: String,
    /// Parts that the name of a case and its levels must have.
    cases: Vec<String>,
    word: Verdict,
    share: f64,
}

impl Limit {
    /// The half width of an interval that distinguishes this share from nothing and from twice as much.
    #[must_use]
    pub fn precision(&self) -> f64 {
        // Runs hardly ever reach a smaller precision.
        (self.share / 2.0).max(0.001)
    }
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const FORM: &str = "write CASES slower > SHARE or CASES faster > SHARE, such as 'unix slower > 5%'";
        let (left, right) = text.split_once('>').ok_or(FORM)?;
        // Split from the right, because names of endpoints for `compare` may contain blanks.
        let (cases, word) = left.trim().rsplit_once(char::is_whitespace).ok_or(FORM)?;
        let (_, word) = WORDS.into_iter().find(|(known, _)| *known == word).ok_or(FORM)?;
        let share = share(right.trim())?;
        let cases = cases.trim().split('/').map(str::to_owned).collect();
        Ok(Self {
            text: text.trim().to_owned(),
            cases,
            word,
            share,
        })
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The subject of limits: a case that is, or was to be, compared with its reference.
#[derive(Clone, Debug)]
pub struct Subject {
    pub case: String,
    pub levels: Levels,
    /// The result to judge, or the reason why there is none.
    pub judged: Result<(Metric, Interval), Unjudged>,
    /// The time of its run; `None` for a change between two runs.
    pub time: Option<Spent>,
}

/// The time of a run in seconds.
#[derive(Clone, Copy, Debug)]
pub struct Spent {
    pub seconds: f64,
    pub budget: f64,
}

/// The reason why there is no usable ratio.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unjudged {
    /// The case or its reference has no result.
    WithoutResult,
    /// Both have results, but too few blocks have both.
    WithoutInterval,
    /// The ratio rests on one start of the servers.
    OneStart,
    /// A check forbids the use of the ratio: its id, and its evidence.
    Invalid { id: String, evidence: String },
}

/// A limit, with a subject that it names.
#[derive(Clone, Debug)]
pub struct Finding<'a> {
    pub limit: &'a Limit,
    pub subject: &'a Subject,
    pub standing: Standing,
}

impl Limit {
    /// Whether the limit names the case: by its name, or by levels, all of which the case has.
    fn names(&self, subject: &Subject) -> bool {
        let has = |part: &String| {
            let is_level =
                |(factor, level): (&String, &Level)| *part == level.to_string() || *part == format!("{factor}={level}");
            part == ANY || subject.levels.iter().any(is_level)
        };
        self.cases.join("/") == subject.case || self.cases.iter().all(has)
    }

    fn standing(&self, metric: Metric, ratio: &Interval) -> Standing {
        let upwards = (self.word == Verdict::Faster) == (better(metric) == Better::More);
        let limit = if upwards { 1.0 + self.share } else { 1.0 - self.share };
        let beyond = |end: f64| if upwards { end > limit } else { end < limit };
        match (beyond(ratio.low), beyond(ratio.high)) {
            (true, true) => Standing::Beyond,
            (false, false) => Standing::Within,
            _ => Standing::Undecided,
        }
    }
}

impl Finding<'_> {
    /// How many more seconds the run would need until the interval has the limit's precision. Zero if it has that
    /// already; `None` unless the limit is undecided for the case of a run.
    #[must_use]
    pub fn more_seconds(&self) -> Option<f64> {
        match (self.standing, &self.subject.judged, self.subject.time) {
            (Standing::Undecided, Ok((_, ratio)), Some(run)) => {
                let times = data_for(ratio, self.limit.precision());
                Some(((times - 1.0) * run.seconds).max(0.0))
            }
            _ => None,
        }
    }
}

/// Judges each limit with each subject that it names.
pub fn judge<'a>(limits: &'a [Limit], subjects: &'a [Subject]) -> Result<Vec<Finding<'a>>, String> {
    let mut found = Vec::new();
    for limit in limits {
        let named: Vec<&Subject> = subjects.iter().filter(|subject| limit.names(subject)).collect();
        if named.is_empty() {
            let known = joined(subjects.iter().map(|one| one.case.as_str()), ", ");
            return Err(format!(
                "`{limit}` names no case that is compared; name `{ANY}`, a level, or one of the cases {known}"
            ));
        }
        found.extend(named.into_iter().map(|subject| {
            let judged = subject.judged.as_ref();
            let standing = judged.map(|(metric, ratio)| limit.standing(*metric, ratio));
            Finding {
                limit,
                subject,
                standing: standing.unwrap_or(Standing::Unjudged),
            }
        }));
    }
    Ok(found)
}

/// The cases of a plan, without results yet.
#[must_use]
pub fn of_plan<'a>(cases: impl IntoIterator<Item = &'a CasePlan>) -> Vec<Subject> {
    let compared = cases.into_iter().filter(|case| case.reference.is_some());
    compared
        .map(|case| Subject {
            case: case.case.clone(),
            levels: case.levels.clone(),
            judged: Err(Unjudged::WithoutResult),
            time: None,
        })
        .collect()
}

/// The cases of a run, each with its reference.
#[must_use]
pub fn of_run(summary: &Summary) -> Vec<Subject> {
    let subject = |case: &CaseSummary| Subject {
        case: case.case.clone(),
        levels: case.levels.clone(),
        judged: judged(summary, case),
        time: Some(Spent {
            seconds: summary.seconds,
            budget: summary.settings.budget_seconds,
        }),
    };
    let compared = summary.cases.iter().filter(|case| !case.reference);
    compared.map(subject).collect()
}

fn judged(summary: &Summary, case: &CaseSummary) -> Result<(Metric, Interval), Unjudged> {
    let Some(one) = summary.declared(case) else {
        let has_result = |case: &CaseSummary| case.metrics.is_some();
        let are_measured = has_result(case) && summary.cases.iter().any(|other| other.reference && has_result(other));
        return Err(if are_measured {
            Unjudged::WithoutInterval
        } else {
            Unjudged::WithoutResult
        });
    };
    match summary.invalid(&one.case, &one.reference) {
        Some(check) => Err(Unjudged::Invalid {
            id: check.id.clone(),
            evidence: check.evidence.clone(),
        }),
        None if one.one_start => Err(Unjudged::OneStart),
        None => Ok((one.metric, one.ratio)),
    }
}

/// The cases of two runs, with the change of each ratio.
#[must_use]
pub fn of_diff(diff: &Diff) -> Vec<Subject> {
    let changed = |subject: Subject| {
        let mut all = diff.comparisons.iter().filter(|one| one.case == subject.case);
        let judged = match all.find(|one| one.declared) {
            Some(one) if one.one_start => Err(Unjudged::OneStart),
            Some(one) if one.verdict.is_some() => Ok((one.metric, one.change)),
            // The new run may have cases that the old run lacks.
            _ => subject.judged.and(Err(Unjudged::WithoutInterval)),
        };
        Subject {
            judged,
            time: None,
            ..subject
        }
    };
    of_run(&diff.runs[1]).into_iter().map(changed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(text: &str) -> Limit {
        text.parse().unwrap()
    }

    fn subject(case: &str, levels: &[(&str, &str)], metric: Metric, [low, high]: [f64; 2]) -> Subject {
        let levels = levels
            .iter()
            .map(|(factor, level)| ((*factor).to_owned(), Level::from(*level)))
            .collect();
        let ratio = Interval {
            estimate: f64::midpoint(low, high),
            low,
            high,
        };
        Subject {
            case: case.to_owned(),
            levels,
            judged: Ok((metric, ratio)),
            time: Some(Spent {
                seconds: 60.0,
                budget: 60.0,
            }),
        }
    }

    #[test]
    fn a_limit_takes_an_interval_of_its_own_width() {
        assert!((limit("unix slower > 2%").precision() - 0.01).abs() < 1e-12);
        assert_eq!(limit("any faster > 0.01%").precision(), 0.001);
    }

    #[test]
    fn the_interval_decides() {
        use Standing::{Beyond, Undecided, Within};
        let rate = |text, ends: [f64; 2]| {
            let all = [subject("unix", &[], Metric::Throughput, ends)];
            judge(&[limit(text)], &all).unwrap()[0].standing
        };
        assert_eq!(rate("unix slower > 5%", [0.80, 0.94]), Beyond);
        assert_eq!(rate("unix slower > 5%", [0.80, 0.96]), Undecided);
        assert_eq!(rate("unix slower > 5%", [0.96, 1.30]), Within);
        assert_eq!(rate("unix faster > 5%", [1.06, 1.10]), Beyond);
        assert_eq!(rate("unix faster > 5%", [1.04, 1.10]), Undecided);
        assert_eq!(rate("unix faster > 5%", [0.20, 0.30]), Within);
        let time = |text, ends: [f64; 2]| {
            let all = [subject("unix", &[], Metric::LatencyP50, ends)];
            judge(&[limit(text)], &all).unwrap()[0].standing
        };
        assert_eq!(time("unix slower > 5%", [1.06, 1.20]), Beyond);
        assert_eq!(time("unix faster > 5%", [0.80, 0.90]), Beyond);
        assert_eq!(time("unix slower > 5%", [0.80, 0.90]), Within);
    }

    #[test]
    fn an_undecided_limit_needs_an_interval_of_its_precision() {
        let more = |text, ends: [f64; 2]| {
            let all = [subject("unix", &[], Metric::Throughput, ends)];
            judge(&[limit(text)], &all).unwrap()[0].more_seconds()
        };
        // Twice as wide as ±1 %: four times the data.
        let more_than_a_run = more("unix slower > 2%", [0.98 / 1.01_f64.powi(2), 0.98 * 1.01_f64.powi(2)]).unwrap();
        assert!((more_than_a_run - 180.0).abs() < 1e-6, "{more_than_a_run}");
        assert_eq!(more("unix slower > 2%", [0.979, 0.981]), Some(0.0));
        assert_eq!(more("unix slower > 2%", [0.99, 1.02]), None);
    }

    #[test]
    fn cases_are_named_by_name_or_level() {
        let levels = |transport, pattern| [("transport", transport), ("pattern", pattern)];
        let of = |case, transport, pattern| subject(case, &levels(transport, pattern), Metric::Throughput, [1.0, 1.0]);
        let all = [
            of("unix/pattern=echo", "unix", "echo"),
            of("unix/pattern=hello", "unix", "hello"),
            of("tls", "tls", "echo"),
        ];
        let named = |cases: &str| {
            let limits = [limit(&format!("{cases} slower > 5%"))];
            judge(&limits, &all).map(|found| found.iter().map(|one| one.subject.case.clone()).collect::<Vec<_>>())
        };
        assert_eq!(named("unix").unwrap(), ["unix/pattern=echo", "unix/pattern=hello"]);
        assert_eq!(named("unix/echo").unwrap(), ["unix/pattern=echo"]);
        assert_eq!(named("pattern=echo").unwrap(), ["unix/pattern=echo", "tls"]);
        assert_eq!(named("unix/pattern=hello").unwrap(), ["unix/pattern=hello"]);
        assert_eq!(named("any").unwrap().len(), 3);
        let error = named("abstract").unwrap_err().to_string();
        assert!(
            error.contains("`abstract slower > 5%` names no case") && error.contains("unix/pattern=echo, "),
            "{error}"
        );
    }

    #[test]
    fn what_has_no_ratio_is_not_judged() {
        let all = [Subject {
            judged: Err(Unjudged::OneStart),
            ..subject("unix", &[], Metric::Throughput, [1.0, 1.0])
        }];
        assert_eq!(
            judge(&[limit("unix slower>5%")], &all).unwrap()[0].standing,
            Standing::Unjudged
        );
    }

    #[test]
    fn a_share_is_taken_as_reports_write_it() {
        for text in ["unix slower > 5 %", "unix slower > 5\u{a0}%", "unix slower>5%"] {
            assert_eq!(limit(text).share, 0.05, "{text}");
        }
    }

    #[test]
    fn other_forms_are_refused() {
        for wrong in [
            "unix",
            "unix > 5%",
            "unix slow > 5%",
            "slower > 5%",
            "unix slower < 5%",
            "",
        ] {
            assert!(
                wrong
                    .parse::<Limit>()
                    .is_err_and(|error| error.starts_with("write CASES")),
                "{wrong}"
            );
        }
        let said = |text: &str| text.parse::<Limit>().unwrap_err().to_string();
        assert!(
            said("unix slower > 5").contains("percent sign"),
            "{}",
            said("unix slower > 5")
        );
        assert!(said("unix slower > 0%").contains("more than zero"));
    }
}
