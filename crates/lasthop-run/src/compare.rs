//! `lasthop compare`: examines running endpoints before a run measures them.

use std::{
    net::{IpAddr, UdpSocket},
    time::{Duration, Instant},
};

use crate::{hint, job::nanoseconds, lengths};
use indexmap::IndexMap;
use lasthop_load::{
    at_once,
    reference::{self, Reference},
    sample::{self, Sample},
};
use lasthop_model::record::{ComparedEndpoints, GivenEndpoint, Settings};
use lasthop_plan::given;
use lasthop_protocol::{
    Protocol, contrast,
    exact::Exact,
    http::NO_REPLY,
    spec::Spec,
    url::{UrlOptions, parse},
};
use lasthop_system::{
    interrupt,
    listener::{self, Owner},
    process,
};
use lasthop_trial::{address::Address, failure::Failure, options::Reuse, result::ErrorClass};

#[derive(Clone, Debug)]
pub struct CompareRequest {
    /// The endpoints to compare; the first is the reference.
    pub endpoints: Vec<EndpointRequest>,
    /// Whether each reply must have what the sampled replies have in common.
    pub learn: bool,
    /// Why replies are not checked, if the user asked for that.
    pub unchecked: Option<String>,
    /// Whether to compare endpoints whose replies differ.
    pub differing: bool,
    /// Whether load may go to other machines.
    pub remote: bool,
    pub restart: Option<String>,
    /// Process ids of servers by role.
    pub pids: IndexMap<String, i32>,
}

#[derive(Clone, Debug)]
pub struct EndpointRequest {
    /// The user's name for the endpoint.
    pub name: Option<String>,
    /// The URL as it may be shown.
    pub url: String,
    /// The load on the endpoint.
    pub spec: Spec,
}

/// Why the endpoints cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    #[error("{0}")]
    NoAnswer(String),
    /// The request itself is wrong.
    #[error("{0}")]
    Wrong(String),
}

/// The probable cause of a failure before the measurement, and its remedy.
fn advice(failure: &Failure, address: &Address) -> Option<String> {
    let said = failure.message.as_str();
    let advice = match failure.class {
        ErrorClass::Refused => {
            return Some(format!(
                "nothing listens at {address}: start the server or correct the URL"
            ));
        }
        ErrorClass::Reset if said.contains(NO_REPLY) => Some(hint::NO_REPLY),
        ErrorClass::Tls => hint::tls(said),
        _ if said.contains("status 401") || said.contains("status 403") => {
            Some("the server requires authentication: add `--header @FILE`, a file with an `Authorization:` line")
        }
        _ if said.contains("status ") => {
            Some("correct the URL, or say with --expect-status that this is the correct reply")
        }
        _ => None,
    };
    advice.map(str::to_owned)
}

/// Endpoints that can be compared.
#[derive(Debug)]
pub struct Examined {
    pub given: ComparedEndpoints,
    /// Time of the fastest reply of each endpoint.
    fastest: Vec<Duration>,
}

impl Examined {
    /// Checks that a run with these settings has time for replies as slow as those seen.
    ///
    /// # Errors
    /// How long the replies would take, and a sufficient budget.
    pub fn check_room(&self, settings: &Settings) -> Result<(), String> {
        let slow = |fastest: &Duration| Some(nanoseconds(*fastest)).filter(|time| *time > settings.trial_ns);
        let replies: Vec<u64> = self.fastest.iter().map(|time| slow(time).unwrap_or(0)).collect();
        lengths::check_room(&replies, settings.budget_ns)
    }
}

/// Samples the replies of every endpoint, and finds the process that sends them.
///
/// # Errors
/// An endpoint is not on this machine, gives no correct reply, or replies unlike the first. After `go_on` returns
/// false, the error has no meaning.
pub fn examine(request: CompareRequest, mut go_on: impl FnMut() -> bool) -> Result<Examined, CompareError> {
    given::check_names(request.endpoints.iter().filter_map(|one| one.name.as_ref())).map_err(CompareError::Wrong)?;
    let endpoints = request.endpoints.iter().map(|one| (one.url.clone(), &one.spec));
    permit(endpoints, request.remote).map_err(CompareError::Wrong)?;
    if let Some((role, pid)) = request.pids.iter().find(|(_, pid)| process::Stat::of(**pid).is_none()) {
        let text = format!("--pid {role}={pid}: there is no process {pid}");
        return Err(CompareError::Wrong(text));
    }
    let specs: Vec<&Spec> = request.endpoints.iter().map(|one| &one.spec).collect();
    let no_answer = |endpoint: usize, failure: Failure| {
        let EndpointRequest { url, spec, .. } = &request.endpoints[endpoint];
        let advice =
            advice(&failure, &spec.endpoint.address).map_or_else(String::new, |advice| format!("\n  {advice}"));
        CompareError::NoAnswer(format!("{url}: {}{advice}", failure.message))
    };
    let looked =
        reference::sampled(&specs, request.learn, &mut go_on).map_err(|(at, failure)| no_answer(at, failure))?;
    let fastest = looked.iter().map(|one| one.fastest).collect();
    let places = request
        .endpoints
        .iter()
        .map(|one| (one.name.clone(), one.spec.endpoint.clone()));
    let names = given::names(&places.collect::<Vec<_>>());
    let traits: Result<Vec<Traits>, _> = (0..)
        .zip(&looked)
        .map(|(at, one)| traits(one).map_err(|failure| no_answer(at, failure)))
        .collect();
    let traits = traits?;
    let mut expected = looked.clone();
    if request.learn {
        expect(&mut expected, &traits).map_err(|(at, failure)| no_answer(at, failure))?;
    }
    let closes = looked.iter().any(|reference| reference.closes);
    for EndpointRequest { url, spec, .. } in request.endpoints.iter().filter(|_| !closes) {
        if let Some(few) = at_once::look(spec, &mut go_on) {
            return Err(CompareError::NoAnswer(format!("{url}: {}", few.in_words())));
        }
    }
    let reference = &request.endpoints[0].url;
    let mut endpoints = IndexMap::new();
    let mut unlike = Vec::new();
    let learnt = expected.into_iter().zip(&traits);
    let named = names.into_iter().zip(request.endpoints.clone());
    for ((name, EndpointRequest { url, mut spec, .. }), (learnt, theirs)) in named.zip(learnt) {
        spec.protocol = learnt.protocol;
        if closes {
            spec.reuse = Reuse::PerRequest;
        }
        let differs = differences(&traits[0], theirs);
        unlike.extend(
            differs
                .iter()
                .map(|(what, [one, other])| format!("{what}: {one} at {reference}, {other} at {url}")),
        );
        let differs = differs
            .iter()
            .map(|(what, [one, other])| format!("{what}: {one} and {other}"));
        let server = listener::server(&spec.endpoint.address).map(|owner| role_of(&owner, &request.pids));
        let endpoint = GivenEndpoint {
            unchecked: learnt.unchecked.or_else(|| request.unchecked.clone()),
            closes: learnt.closes,
            learnt: request.learn,
            differs: differs.collect(),
            secret: false,
            url,
            spec,
            server,
        };
        endpoints.insert(name, endpoint);
    }
    if unlike.is_empty() || request.differing {
        let given = ComparedEndpoints {
            endpoints,
            restart: request.restart,
            pids: request.pids,
        };
        return Ok(Examined { given, fastest });
    }
    let unlike: String = unlike.iter().map(|line| format!("  {line}\n")).collect();
    Err(CompareError::Wrong(format!(
        "the endpoints do not answer alike, so they would be compared in more than the way there:\n{unlike}\
         Correct a URL, or compare them all the same with --differing"
    )))
}

/// The role of a server: the user's name for its process or an ancestor, otherwise the program. A restart keeps the
/// role.
fn role_of(server: &Owner, pids: &IndexMap<String, i32>) -> String {
    let is_its = |pid: i32| pid == server.pid || process::descendants(pid).contains(&server.pid);
    let named = pids.iter().find(|(_, pid)| is_its(**pid));
    named.map_or_else(|| server.command.clone(), |(role, _)| role.clone())
}

/// Conditions for loading endpoints, also in a resumed run: the load is valid, and goes to other machines only if the
/// user allows that.
pub fn permit<'a>(endpoints: impl Iterator<Item = (String, &'a Spec)>, remote: bool) -> Result<(), String> {
    for (url, spec) in endpoints {
        spec.validate().map_err(|cause| format!("{url}: {cause}"))?;
        if let Some(ip) = addresses(spec).iter().find_map(foreign).filter(|_| !remote) {
            return Err(format!(
                "{url}: {ip} is not an address of this machine; put load on other machines only with their owner's \
                 consent, and then add --remote"
            ));
        }
    }
    Ok(())
}

/// Waits until an endpoint gives a correct reply.
pub fn await_answer(spec: &Spec, longest: Duration) -> Result<(), Failure> {
    const AGAIN: Duration = Duration::from_millis(100);
    let begin = Instant::now();
    loop {
        match sample::take(spec, || !interrupt::heard()) {
            Err(failure) if begin.elapsed() > longest || !interrupt::pause(AGAIN) => return Err(failure),
            Err(_) => {}
            Ok(_) => return Ok(()),
        }
    }
}

/// The parts of all samples of an endpoint, by name.
type Traits = IndexMap<&'static str, Vec<Vec<u8>>>;

fn traits(reference: &Reference) -> Result<Traits, Failure> {
    let mut all = Traits::new();
    for sample in &reference.samples {
        for (name, value) in reference.protocol.traits(&sample.reply)? {
            all.entry(name).or_default().push(value);
        }
    }
    Ok(all)
}

/// Makes each endpoint expect what its samples have in common. If some samples vary but the endpoints are alike, all
/// endpoints expect what the samples of all have in common, so that their replies are checked alike.
fn expect(all: &mut [Reference], traits: &[Traits]) -> Result<(), (usize, Failure)> {
    let asked: Vec<Protocol> = all.iter().map(|one| one.protocol.clone()).collect();
    for (at, one) in all.iter_mut().enumerate() {
        one.unchecked = reference::learn_from(&mut one.protocol, &one.samples).map_err(|failure| (at, failure))?;
    }
    let is_alike = traits.iter().all(|theirs| differences(&traits[0], theirs).is_empty());
    if !is_alike || all.iter().all(|one| one.unchecked.is_none()) {
        return Ok(());
    }
    // Samples in the order of arrival: the endpoints took turns.
    let longest = all.iter().map(|one| one.samples.len()).max().unwrap_or(0);
    let in_turn = (0..longest).flat_map(|index| all.iter().filter_map(move |one| one.samples.get(index)));
    let in_turn: Vec<Sample> = in_turn.cloned().collect();
    for ((at, one), protocol) in all.iter_mut().enumerate().zip(asked) {
        one.protocol = protocol;
        one.unchecked = reference::learn_from(&mut one.protocol, &in_turn).map_err(|failure| (at, failure))?;
    }
    Ok(())
}

/// The name of a trait that differs, and both values where they first differ.
type Difference = (String, [String; 2]);

fn differences(one: &Traits, other: &Traits) -> Vec<Difference> {
    let mut found: Vec<Difference> = Vec::new();
    for (name, one) in one {
        let Some((mine, theirs)) = other.get(name).and_then(|other| unlike(name, one, other)) else {
            continue;
        };
        // A different length already implies a different body.
        if !found
            .iter()
            .any(|(what, _)| what.strip_prefix("length of the ") == Some(name))
        {
            found.push(difference(name, mine, theirs));
        }
    }
    found
}

/// Two values that show a difference, unless at least three quarters of the values on one side fit what the other
/// side's values have in common.
fn unlike<'a>(name: &str, one: &'a [Vec<u8>], other: &'a [Vec<u8>]) -> Option<(&'a [u8], &'a [u8])> {
    let slices = |values: &'a [Vec<u8>]| -> Vec<&'a [u8]> { values.iter().map(Vec::as_slice).collect() };
    let (one, other) = (slices(one), slices(other));
    let (first, second) = (Exact::learn(name, &one).0, Exact::learn(name, &other).0);
    let fit = |common: &Exact, values: &[&[u8]]| {
        let fitting = values.iter().filter(|value| common.fits(value)).count();
        4 * fitting >= 3 * values.len()
    };
    if fit(&first, &other) || fit(&second, &one) {
        return None;
    }
    let mine = one.iter().find(|value| first.fits(value))?;
    let theirs = other.iter().find(|value| second.fits(value) && !first.fits(value))?;
    Some((mine, theirs))
}

/// The difference of two values of a trait. Short texts are shown in full.
fn difference(name: &str, one: &[u8], other: &[u8]) -> Difference {
    const SHORT: usize = 60;
    let plain = |text: &[u8]| {
        let is_plain = text.len() <= SHORT && text.iter().all(|byte| (b' '..=b'~').contains(byte));
        is_plain.then(|| String::from_utf8_lossy(text).into_owned())
    };
    if let (Some(one), Some(other)) = (plain(one), plain(other)) {
        return (name.to_owned(), [one, other]);
    }
    let (at, shown) = contrast(one, other);
    (format!("{name}, from byte {at} on"), shown)
}

/// Every address that receives requests: the endpoint, and the page that counts received messages.
fn addresses(spec: &Spec) -> Vec<Address> {
    let counter = spec
        .protocol
        .receipt()
        .and_then(|receipt| parse(&receipt.url, &UrlOptions::default()).ok());
    [
        Some(spec.endpoint.address.clone()),
        counter.map(|(page, _)| page.address),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The address, if it belongs to another machine: only addresses of this machine can be bound.
pub fn foreign(address: &Address) -> Option<IpAddr> {
    address
        .ip()
        .filter(|ip| !ip.is_loopback() && UdpSocket::bind((*ip, 0)).is_err())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_not_this_machine_is_foreign() {
        let of = |text: &str| foreign(&text.parse().unwrap());
        assert_eq!(of("192.0.2.1:80"), Some([192, 0, 2, 1].into()));
        assert_eq!((of("127.0.0.1:80"), of("[::1]:80"), of("unix:/s")), (None, None, None));
    }

    #[test]
    fn a_counter_elsewhere_is_foreign_too() {
        let foreign_at = |counter: &str| {
            let url = format!("statsd+udp://127.0.0.1:9?counts=n&counter=http://{counter}/metrics");
            let (endpoint, protocol) = parse(&url, &UrlOptions::default()).unwrap();
            addresses(&Spec::new(endpoint, protocol)).iter().find_map(foreign)
        };
        assert_eq!(foreign_at("127.0.0.1:80"), None);
        assert_eq!(foreign_at("192.0.2.1"), Some([192, 0, 2, 1].into()));
    }

    #[test]
    fn what_both_have_is_compared_byte_for_byte() {
        let text = |text: &str| vec![text.as_bytes().to_vec()];
        let one = [
            ("status", text("200")),
            ("length of the body", text("5 bytes")),
            ("body", text("Hello")),
        ];
        let said = |other: &[(&'static str, Vec<Vec<u8>>)]| {
            let of = |traits: &[(&'static str, Vec<Vec<u8>>)]| traits.iter().cloned().collect::<Traits>();
            let found = differences(&of(&one), &of(other));
            found
                .iter()
                .map(|(what, [one, other])| format!("{what}: {one}, {other}"))
                .collect::<Vec<_>>()
        };
        assert_eq!(said(&one), [""; 0]);
        assert_eq!(
            said(&[("status", text("404"))]),
            ["status: 200, 404"],
            "what varies is not compared"
        );
        assert_eq!(said(&[("body", text("Jello"))]), ["body: Hello, Jello"]);
        assert_eq!(
            said(&[("body", vec![b"Hell\xff".to_vec()])]),
            [r#"body, from byte 4 on: "Hello", "Hell\xff""#]
        );
        let longer = [("length of the body", text("6 bytes")), ("body", text("Hello!"))];
        assert_eq!(said(&longer), ["length of the body: 5 bytes, 6 bytes"]);
    }
}
