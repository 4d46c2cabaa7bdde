//! Whether the live connections were what the case asks for.

use lasthop_model::{
    quantity::counted,
    record::{CasePlan, CaseProof, LinkObserved},
};

use super::finding::{Evidence, grouped, of_case, percent};
use crate::{
    summary::{Check, Severity},
    trials::served,
};

/// Share of requests that may open a connection even with keep-alive, because servers close connections now and then.
const REOPENED_SHARE: f64 = 0.01;
/// Share of requests that must have opened a connection if each should have its own.
const OPENED_SHARE: f64 = 0.9;

/// The first contradiction between a case and its connections, in words.
fn contradiction(plan: &CasePlan, driver_is_the_link: bool, seen: &CaseProof) -> Option<String> {
    let endpoint = &seen.spec.endpoint;
    let (mut wanted, mut tls) = (endpoint.address.family(), endpoint.tls.is_some());
    if driver_is_the_link {
        (wanted, tls) = (plan.transport.address().family(), plan.transport.is_tls());
    }
    let got = &seen.driver;
    if got.family != wanted {
        return Some(format!(
            "the driver's connection is {}, not {wanted} (peer {})",
            got.family, got.peer
        ));
    }
    if tls != got.tls_version.is_some() {
        let version = got.tls_version.as_deref().unwrap_or("not encrypted");
        return Some(format!(
            "the driver's connection is {version}, but the case asks for {}",
            if tls { "TLS" } else { "no TLS" }
        ));
    }
    let link = seen
        .link
        .as_ref()
        .filter(|link| link.family != plan.transport.address().family())?;
    Some(format!(
        "the link's connection is {}, not {}",
        link.family,
        plan.transport.address().family()
    ))
}

pub fn transport_not_as_asked(evidence: &Evidence) -> Vec<Check> {
    let trials = evidence.trials;
    let direct = trials.data.header.experiment.from == "driver";
    let effect = "the case did not measure the transport in its name";
    let check = |plan: &CasePlan| {
        let text = trials
            .proofs(&plan.case)
            .find_map(|seen| contradiction(plan, direct, seen))?;
        Some(of_case(
            "transport-not-as-asked",
            Severity::Invalid,
            &plan.case,
            text,
            effect,
        ))
    };
    trials.cases().iter().filter_map(check).collect()
}

/// Whether each request has its own connection, by protocol or because the case asks for it.
fn per_request(seen: &CaseProof) -> bool {
    seen.spec.closes_each_time()
}

fn driver_reuse(evidence: &Evidence, case: &str, seen: &CaseProof) -> Option<String> {
    if per_request(seen) == seen.driver.reused {
        let (got, wanted) = if seen.driver.reused {
            ("shared", "one each")
        } else {
            ("had one each", "a shared one")
        };
        return Some(format!(
            "two requests of the driver {got} connection, but the case asks for {wanted}"
        ));
    }
    let opened: u64 = evidence
        .trials
        .of(case)
        .map(|trial| trial.result.connections_opened)
        .sum();
    let requests: f64 = evidence.trials.of(case).map(served).sum();
    let share = opened as f64 * f64::from(seen.spec.requests_per_connection) / requests.max(1.0);
    let trials = evidence.trials.count(case) as u64;
    let kept_badly = share > REOPENED_SHARE && opened > u64::from(seen.spec.connections) * trials;
    let wrong = if per_request(seen) {
        trials > 0 && share < OPENED_SHARE
    } else {
        kept_badly
    };
    wrong.then(|| {
        let (opened, requests) = (counted(opened, "connection"), grouped(requests as u64));
        format!(
            "the driver opened {opened} for {requests} requests ({})",
            percent(share)
        )
    })
}

fn link_reuse(link: &LinkObserved) -> Option<String> {
    let wanted = link.wanted.as_deref()?;
    let wrong = match wanted {
        "per-request" => link.connections < link.requests,
        // A pool may use a few connections, but not one per request.
        _ => link.requests > 1 && link.connections * 2 > link.requests,
    };
    let LinkObserved {
        requests, connections, ..
    } = link;
    wrong.then(|| {
        let (requests, connections) = (
            counted((*requests).into(), "request"),
            counted((*connections).into(), "connection"),
        );
        format!("{requests} came over {connections} of the link, but the case asks for {wanted}")
    })
}

pub fn reuse_not_as_asked(evidence: &Evidence) -> Vec<Check> {
    let trials = evidence.trials;
    let effect = "connecting is counted although it should not be, or the other way round; its cost depends on the \
                  transport and can decide the verdict";
    let check = |plan: &CasePlan| {
        let mut proofs = trials.proofs(&plan.case);
        let text = proofs.find_map(|seen| {
            seen.link
                .as_ref()
                .and_then(link_reuse)
                .or_else(|| driver_reuse(evidence, &plan.case, seen))
        })?;
        Some(of_case(
            "reuse-not-as-asked",
            Severity::Invalid,
            &plan.case,
            text,
            effect,
        ))
    };
    trials.cases().iter().filter_map(check).collect()
}

pub fn link_not_proven(evidence: &Evidence) -> Vec<Check> {
    let trials = evidence.trials;
    let experiment = &trials.data.header.experiment;
    let check = |plan: &CasePlan| {
        let unseen = trials.proofs(&plan.case).last()?.link.is_none();
        let text = format!(
            "neither the application nor the kernel's socket tables showed a connection from {} to {}",
            experiment.from, experiment.to
        );
        let effect = "only the rendered configuration says that the transport was used";
        unseen.then(|| of_case("link-not-proven", Severity::Note, &plan.case, text, effect))
    };
    let cases = trials.cases().iter().filter(|_| experiment.from != "driver");
    cases.filter_map(check).collect()
}

/// A folder protects a Unix socket from other users. Nothing protects an address.
pub fn open_to_everybody(evidence: &Evidence) -> Vec<Check> {
    let trials = evidence.trials;
    let effect =
        "other users of this machine could send it requests too, which would take its time; it cannot reach your files";
    let check = |plan: &CasePlan| {
        let open =
            |seen: &&CaseProof| seen.driver.password_asked == Some(false) && seen.spec.endpoint.address.ip().is_some();
        let seen = trials.proofs(&plan.case).find(open)?;
        let text = format!(
            "{} accepted the driver at {} without a password",
            plan.load.target, seen.driver.peer
        );
        Some(of_case("open-to-everybody", Severity::Note, &plan.case, text, effect))
    };
    trials.cases().iter().filter_map(check).collect()
}

/// Version and cipher of a case's connections, each once.
fn tls_of(evidence: &Evidence, case: &str) -> Vec<String> {
    let tls = |seen: &CaseProof| {
        let driver = &seen.driver;
        Some(format!(
            "{} {}",
            driver.tls_version.as_deref()?,
            driver.tls_cipher.as_deref().unwrap_or("")
        ))
    };
    let mut all: Vec<String> = evidence.trials.proofs(case).filter_map(tls).collect();
    all.sort();
    all.dedup();
    all
}

pub fn tls_differs(evidence: &Evidence) -> Vec<Check> {
    let effect = "another version or cipher takes different CPU time, so the comparison is not of the transport alone";
    let check = |plan: &CasePlan| {
        let mut all = tls_of(evidence, &plan.case);
        if !all.is_empty() {
            all.extend(plan.reference.iter().flat_map(|reference| tls_of(evidence, reference)));
        }
        all.sort();
        all.dedup();
        let text = format!("TLS was {}", all.join(" and "));
        (all.len() > 1).then(|| of_case("tls-differs", Severity::Doubt, &plan.case, text, effect))
    };
    evidence.trials.cases().iter().filter_map(check).collect()
}

pub fn nodelay_off(evidence: &Evidence) -> Vec<Check> {
    let trials = evidence.trials;
    let effect = "Nagle's algorithm may hold small writes until the peer's delayed ACK, up to 40 ms, which makes Unix \
                  sockets look better than they are";
    let check = |plan: &CasePlan| {
        let off = trials
            .proofs(&plan.case)
            .find(|seen| seen.driver.nodelay == Some(false))?;
        let (severity, text) = match off.spec.socket.nodelay {
            true => (Severity::Doubt, "TCP_NODELAY was asked for, but reads back as off"),
            false => (Severity::Note, "TCP_NODELAY is off, as asked"),
        };
        Some(of_case("nodelay-off", severity, &plan.case, text.to_owned(), effect))
    };
    trials.cases().iter().filter_map(check).collect()
}
