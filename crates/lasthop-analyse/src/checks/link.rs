//! The live connections, against the requirements of the case.

use std::collections::BTreeSet;

use lasthop_model::{
    quantity::{counted, joined},
    record::{CasePlan, CaseProof, LinkObserved},
};

use super::finding::{Finding, doubt, grouped, invalid, note, percent};
use crate::trials::{Trials, served};

/// Share of requests that may open a connection with keep-alive, because servers close connections now and then.
const REOPENED_SHARE: f64 = 0.01;
/// Share of requests that must have opened a connection, if each should have its own.
const OPENED_SHARE: f64 = 0.9;

/// The first contradiction between a case and its connections, in words.
fn contradiction(plan: &CasePlan, driver_is_the_link: bool, seen: &CaseProof) -> Option<String> {
    let endpoint = &seen.spec.endpoint;
    let of_link = plan.transport.address().family();
    let mut wanted = endpoint.address.family();
    let mut tls = endpoint.tls.is_some();
    if driver_is_the_link {
        wanted = of_link;
        tls = plan.transport.is_tls();
    }
    let got = &seen.driver;
    if got.family != wanted {
        return Some(format!(
            "the driver's connection is {}, not {wanted} (peer {})",
            got.family, got.peer
        ));
    }
    if tls != got.tls_version.is_some() {
        return Some(format!(
            "the driver's connection is {}, but the case asks for {}",
            got.tls_version.as_deref().unwrap_or("not encrypted"),
            if tls { "TLS" } else { "no TLS" }
        ));
    }
    let link = seen.link.as_ref().filter(|link| link.family != of_link)?;
    Some(format!("the link's connection is {}, not {of_link}", link.family))
}

pub fn transport_not_as_asked(trials: &Trials, plan: &CasePlan) -> Option<Finding> {
    let direct = trials.is_direct();
    let text = trials
        .proofs(&plan.case)
        .find_map(|seen| contradiction(plan, direct, seen))?;
    Some(invalid(text, "the case did not measure the transport in its name"))
}

fn driver_reuse(trials: &Trials, case: &str, seen: &CaseProof) -> Option<String> {
    // Because of the protocol, or because the case asks for that.
    let per_request = seen.spec.closes_each_time();
    if per_request == seen.driver.reused {
        let (got, wanted) = if seen.driver.reused {
            ("shared", "one each")
        } else {
            ("had one each", "a shared one")
        };
        return Some(format!(
            "two requests of the driver {got} connection, but the case asks for {wanted}"
        ));
    }
    let opened = trials.sum(case, |trial| trial.result.connections_opened);
    let requests: f64 = trials.of_case(case).map(served).sum();
    let share = opened as f64 * f64::from(seen.spec.requests_per_connection) / requests.max(1.0);
    let count = trials.count(case) as u64;
    let wrong = if per_request {
        count > 0 && share < OPENED_SHARE
    } else {
        // The first connections of a trial are not reopened, however few requests it had.
        share > REOPENED_SHARE && opened > u64::from(seen.spec.connections) * count
    };
    wrong.then(|| {
        format!(
            "the driver opened {} for {} requests ({})",
            counted(opened, "connection"),
            grouped(requests as u64),
            percent(share)
        )
    })
}

fn link_reuse(link: &LinkObserved) -> Option<String> {
    let wanted = link.wanted.as_deref()?;
    let wrong = match wanted {
        "per-request" => link.connections < link.requests,
        // A pool may use a few connections, but not a connection per request.
        _ => link.requests > 1 && link.connections * 2 > link.requests,
    };
    wrong.then(|| {
        format!(
            "{} came over {} of the link, but the case asks for {wanted}",
            counted(link.requests.into(), "request"),
            counted(link.connections.into(), "connection")
        )
    })
}

pub fn reuse_not_as_asked(trials: &Trials, plan: &CasePlan) -> Option<Finding> {
    let text = trials.proofs(&plan.case).find_map(|seen| {
        let of_link = seen.link.as_ref().and_then(link_reuse);
        of_link.or_else(|| driver_reuse(trials, &plan.case, seen))
    })?;
    let effect = "connecting is counted although it should not be, or the other way round; its cost depends on the \
                  transport and can decide the verdict";
    Some(invalid(text, effect))
}

pub fn link_not_proven(trials: &Trials, plan: &CasePlan) -> Option<Finding> {
    let experiment = &trials.data.header.experiment;
    let unseen = !trials.is_direct() && trials.proofs(&plan.case).last()?.link.is_none();
    let text = format!(
        "neither the application nor the kernel's socket tables showed a connection from {} to {}",
        experiment.from, experiment.to
    );
    let effect = "only the rendered configuration says that the transport was used";
    unseen.then(|| note(text, effect))
}

/// An address open to all users. A folder protects a Unix socket from other users, but nothing protects an address.
pub fn open_to_everybody(trials: &Trials, plan: &CasePlan) -> Option<Finding> {
    let is_open =
        |seen: &&CaseProof| seen.driver.password_asked == Some(false) && seen.spec.endpoint.address.ip().is_some();
    let text = format!(
        "{} accepted the driver at {} without a password",
        plan.load.target,
        trials.proofs(&plan.case).find(is_open)?.driver.peer
    );
    let effect =
        "other users of this machine could send it requests too, which would take its time; it cannot reach your files";
    Some(note(text, effect))
}

/// TLS version and cipher of a case's connections.
fn tls_of(trials: &Trials, case: &str) -> BTreeSet<String> {
    trials
        .proofs(case)
        .filter_map(|seen: &CaseProof| {
            let driver = &seen.driver;
            let cipher = driver.tls_cipher.as_deref().unwrap_or("");
            Some(format!("{} {cipher}", driver.tls_version.as_deref()?))
        })
        .collect()
}

pub fn tls_differs(trials: &Trials, plan: &CasePlan) -> Option<Finding> {
    let mut all = tls_of(trials, &plan.case);
    if !all.is_empty() {
        all.extend(plan.reference.iter().flat_map(|reference| tls_of(trials, reference)));
    }
    let effect = "another version or cipher takes different CPU time, so the comparison is not of the transport alone";
    (all.len() > 1).then(|| doubt(format!("TLS was {}", joined(all, " and ")), effect))
}

pub fn nodelay_off(trials: &Trials, plan: &CasePlan) -> Option<Finding> {
    let off = trials
        .proofs(&plan.case)
        .find(|seen| seen.driver.nodelay == Some(false))?;
    let effect = "Nagle's algorithm may hold small writes until the peer's delayed ACK, up to 40 ms, which makes Unix \
                  sockets look better than they are";
    Some(if off.spec.socket.nodelay {
        doubt("TCP_NODELAY was asked for, but reads back as off", effect)
    } else {
        note("TCP_NODELAY is off, as asked", effect)
    })
}
