//! Limits in words.

use lasthop_analyse::{
    limit::{Finding, Unjudged},
    summary::{Held, Metric, Standing},
};

use crate::{
    units::NBSP,
    wording::{Quantity, change},
};

/// Findings for reports.
#[must_use]
pub fn held(findings: &[Finding<'_>], confidence: f64) -> Vec<Held> {
    findings
        .iter()
        .map(|finding| Held {
            limit: finding.limit.to_string(),
            case: finding.subject.case.clone(),
            standing: finding.standing,
            text: line(finding, confidence),
        })
        .collect()
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
    format!("{limit}: {word} {}: {why}", subject.case).replace(NBSP, " ")
}
