//! Whether the live connections were what the case is named after.

use lasthop_load::spec::{Address, Protocol, Reuse, Transport};

use super::{Evidence, of_case, percent};
use crate::{
    analyse::{
        summary::{Check, Severity},
        trials::served,
    },
    record::schema::{CasePlan, CaseProof, LinkObserved},
};

/// Share of requests that may open a connection although connections are kept: servers close them now and then.
const REOPENED_SHARE: f64 = 0.01;
/// Share of requests that must have opened a connection where each is to have its own.
const OPENED_SHARE: f64 = 0.9;

fn family(transport: Transport) -> &'static str {
    match transport {
        Transport::Unix | Transport::Abstract | Transport::TlsUnix => "unix",
        Transport::Tcp | Transport::Tls => "inet",
        Transport::Tcp6 => "inet6",
    }
}

fn address_family(address: &Address) -> &'static str {
    match address {
        Address::Unix(_) | Address::Abstract(_) => "unix",
        Address::Tcp(address) if address.is_ipv4() => "inet",
        Address::Tcp(_) => "inet6",
    }
}

/// The first contradiction between the case and what its connections were, in words.
fn contradiction(plan: &CasePlan, driver_is_the_link: bool, seen: &CaseProof) -> Option<String> {
    let endpoint = &seen.spec.endpoint;
    let (mut wanted, mut tls) = (address_family(&endpoint.address), endpoint.tls.is_some());
    if driver_is_the_link {
        (wanted, tls) = (family(plan.transport), plan.transport.is_tls());
    }
    let got = &seen.driver;
    if got.family != wanted {
        return Some(format!("the driver's connection is {} and not {wanted} (peer {})", got.family, got.peer));
    }
    if tls != got.tls_version.is_some() {
        let version = got.tls_version.as_deref().unwrap_or("not encrypted");
        return Some(format!("the driver's connection is {version}, asked for {}", if tls { "TLS" } else { "no TLS" }));
    }
    let link = seen.link.as_ref().filter(|link| link.family != family(plan.transport))?;
    Some(format!("the link's connection is {} and not {}", link.family, family(plan.transport)))
}

pub fn transport_not_as_asked(evidence: &Evidence) -> Vec<Check> {
    let trials = evidence.trials;
    let direct = trials.data.header.experiment.from == "driver";
    let effect = "the case did not measure the transport that it is named after";
    let check = |plan: &CasePlan| {
        let text = trials.proofs(&plan.case).find_map(|seen| contradiction(plan, direct, seen))?;
        Some(of_case("transport-not-as-asked", Severity::Invalid, &plan.case, text, effect))
    };
    trials.cases().iter().filter_map(check).collect()
}

/// One request is one connection, by protocol or by wish.
fn per_request(seen: &CaseProof) -> bool {
    seen.spec.reuse == Reuse::PerRequest || matches!(seen.spec.protocol, Protocol::Hello(_))
}

fn driver_reuse(evidence: &Evidence, case: &str, seen: &CaseProof) -> Option<String> {
    if per_request(seen) == seen.driver.reused {
        let (got, wanted) = if seen.driver.reused { ("shared", "one each") } else { ("had one each", "a shared one") };
        return Some(format!("two requests of the driver {got} connection, asked for {wanted}"));
    }
    let opened: u64 = evidence.trials.of(case).map(|trial| trial.result.connections_opened).sum();
    let requests: f64 = evidence.trials.of(case).map(served).sum();
    let share = opened as f64 * f64::from(seen.spec.requests_per_connection) / requests.max(1.0);
    let trials = evidence.trials.count(case) as u64;
    let kept_badly = share > REOPENED_SHARE && opened > u64::from(seen.spec.connections) * trials;
    let wrong = if per_request(seen) { trials > 0 && share < OPENED_SHARE } else { kept_badly };
    wrong.then(|| format!("the driver opened {opened} connections for {requests} requests ({})", percent(share)))
}

fn link_reuse(link: &LinkObserved) -> Option<String> {
    let wrong = match link.wanted.as_str() {
        "per-request" => link.connections < link.requests,
        // A pool may use a few connections, but not one for every request.
        _ => link.requests > 1 && link.connections * 2 > link.requests,
    };
    let LinkObserved { requests, connections, wanted, .. } = link;
    wrong.then(|| format!("{requests} requests came over {connections} connections of the link, asked for {wanted}"))
}

pub fn reuse_not_as_asked(evidence: &Evidence) -> Vec<Check> {
    let trials = evidence.trials;
    let effect = "connecting is counted where it should not be, or left out where it should be; it costs unequally by \
                  transport and can decide the verdict";
    let check = |plan: &CasePlan| {
        let mut proofs = trials.proofs(&plan.case);
        let text = proofs.find_map(|seen| {
            seen.link.as_ref().and_then(link_reuse).or_else(|| driver_reuse(evidence, &plan.case, seen))
        })?;
        Some(of_case("reuse-not-as-asked", Severity::Invalid, &plan.case, text, effect))
    };
    trials.cases().iter().filter_map(check).collect()
}

pub fn link_not_proven(evidence: &Evidence) -> Vec<Check> {
    let trials = evidence.trials;
    let experiment = &trials.data.header.experiment;
    let check = |plan: &CasePlan| {
        let unseen = trials.proofs(&plan.case).last()?.link.is_none();
        let text = format!("nothing tells what {} and {} spoke over", experiment.from, experiment.to);
        let effect = "that the transport was used rests on the rendered configuration alone";
        unseen.then(|| of_case("link-not-proven", Severity::Note, &plan.case, text, effect))
    };
    let cases = trials.cases().iter().filter(|_| experiment.from != "driver");
    cases.filter_map(check).collect()
}

/// Version and cipher of a case's connections, each once.
fn tls_of(evidence: &Evidence, case: &str) -> Vec<String> {
    let tls = |seen: &CaseProof| {
        let driver = &seen.driver;
        Some(format!("{} {}", driver.tls_version.as_deref()?, driver.tls_cipher.as_deref().unwrap_or("")))
    };
    let mut all: Vec<String> = evidence.trials.proofs(case).filter_map(tls).collect();
    all.sort();
    all.dedup();
    all
}

pub fn tls_differs(evidence: &Evidence) -> Vec<Check> {
    let effect = "another version or cipher costs other CPU time: not the transport alone is compared";
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
    let effect = "Nagle's algorithm may hold small writes until the peer's delayed ACK, up to 40 ms: Unix sockets then look \
                  better than they are";
    let check = |plan: &CasePlan| {
        let off = trials.proofs(&plan.case).find(|seen| seen.driver.nodelay == Some(false))?;
        let (severity, text) = match off.spec.socket.nodelay {
            true => (Severity::Doubt, "TCP_NODELAY was asked for and reads back as off"),
            false => (Severity::Note, "TCP_NODELAY is off, as asked"),
        };
        Some(of_case("nodelay-off", severity, &plan.case, text.to_owned(), effect))
    };
    trials.cases().iter().filter_map(check).collect()
}
