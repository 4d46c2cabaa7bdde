//! Limits in words.

use lasthop_analyse::{
    limit::{Finding, Unjudged},
    summary::{JudgedLimit, Metric, Standing},
};

use crate::{
    units::NBSP,
    wording::{Quantity, change, margin, with_more_time},
};

/// The findings about limits, in words for reports.
#[must_use]
pub fn judged_limits(findings: &[Finding<'_>], confidence: f64) -> Vec<JudgedLimit> {
    findings
        .iter()
        .map(|finding| JudgedLimit {
            limit: finding.limit.to_string(),
            case: finding.subject.case.clone(),
            standing: finding.standing,
            text: line(finding, confidence),
        })
        .collect()
}

/// What would decide a limit that is undecided.
fn longer(finding: &Finding<'_>) -> Option<String> {
    let run = finding.subject.time?;
    let seconds = finding.more_seconds()?;
    Some(if seconds > 0.0 {
        let gain = format!("narrow it to ±{}", margin(finding.limit.precision()));
        with_more_time(seconds, run.seconds, run.budget, &gain)
    } else {
        "it is too close to the limit for a longer run to decide".to_owned()
    })
}

/// `unix slower > 5%: exceeded by unix/pattern=echo: −12 %, 95 % interval −15 % to −9 % requests/s`
fn line(finding: &Finding<'_>, confidence: f64) -> String {
    let Finding {
        limit,
        subject,
        standing,
    } = finding;
    let word = match standing {
        Standing::Beyond => "exceeded by",
        Standing::Undecided => "undecided for",
        Standing::Within => "kept by",
        Standing::Unjudged => "not judged for",
    };
    let why = match &subject.judged {
        Ok((metric, ratio)) => {
            let quantity = if *metric == Metric::LatencyP50 {
                Quantity::ResponseTime
            } else {
                Quantity::Requests
            };
            format!("{} ({})", quantity.word(), change(*ratio, confidence))
        }
        Err(Unjudged::WithoutResult) => "it or its reference has no result".to_owned(),
        Err(Unjudged::WithoutInterval) => {
            "too few blocks have both it and its reference; use a larger budget".to_owned()
        }
        Err(Unjudged::OneStart) => "one start of the servers decides nothing; use a larger budget".to_owned(),
        Err(Unjudged::Invalid { id, evidence }) => {
            let first = evidence.lines().next().unwrap_or_default();
            format!("the result must not be used: {first} ({id})")
        }
    };
    let longer = longer(finding).map_or_else(String::new, |longer| format!("; {longer}"));
    format!("{limit}: {word} {}: {why}{longer}", subject.case).replace(NBSP, " ")
}

#[cfg(test)]
mod tests {
    use lasthop_analyse::limit::{self, Limit, Spent, Subject};
    use lasthop_stats::Interval;

    use super::*;

    fn told([low, estimate, high]: [f64; 3]) -> String {
        let limits: [Limit; 1] = ["new slower > 2%".parse().unwrap()];
        let subjects = [Subject {
            case: "new".to_owned(),
            levels: [].into(),
            judged: Ok((Metric::Throughput, Interval { estimate, low, high })),
            time: Some(Spent {
                seconds: 120.0,
                budget: 120.0,
            }),
        }];
        judged_limits(&limit::judge(&limits, &subjects).unwrap(), 0.95)
            .remove(0)
            .text
    }

    #[test]
    fn an_undecided_limit_tells_what_would_decide_it() {
        let said = told([0.952, 0.968, 0.984]);
        assert!(
            said.starts_with("new slower > 2%: undecided for new: requests/s (−3.2 %"),
            "{said}"
        );
        assert!(
            said.ends_with("; about 4 more minutes would narrow it to ±1 % (--budget 6m)"),
            "{said}"
        );
        let said = told([0.979, 0.981, 0.983]);
        assert!(
            said.ends_with("; it is too close to the limit for a longer run to decide"),
            "{said}"
        );
        let said = told([0.5, 0.97, 2.0]);
        assert!(
            said.ends_with("; more than a day of measuring would be needed"),
            "{said}"
        );
        let said = told([0.95, 0.96, 0.97]);
        assert!(said.contains("exceeded by new") && said.ends_with("%)"), "{said}");
    }
}
