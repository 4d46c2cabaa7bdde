//! Learns correct replies where the user gives none. Samples are taken for a while, and their common content is
//! expected of every reply. Content that changes once a second, or from connection to connection, has changed by then.

use std::{
    thread,
    time::{Duration, Instant},
};

use lasthop_protocol::{
    Protocol,
    several::{Several, Weighted},
    spec::Spec,
};
use lasthop_trial::{failure::Failure, options::Reuse, result::ErrorClass};

use crate::sample::{self, Line, Sample};

/// Connections for samples, one after the other.
const ROUNDS: u32 = 16;

/// Interval between the beginnings of two connections. All but the last two, whose replies confirm that a change
/// persists, take more than a second together.
const STEP: Duration = Duration::from_millis(85);

/// Limits of time and bytes for samples from a slow server.
const SPAN_MAX: Duration = Duration::from_secs(3);
const BYTES_MAX: usize = 64 << 20;

/// Excess of wrong replies over correct ones to a request that is tolerated at first. At the end none is.
const WRONG_MORE: usize = 3;

/// Interval between calls of `go_on`.
const TICK: Duration = Duration::from_millis(10);

/// The result of learning.
#[derive(Clone, Debug)]
pub struct Reference {
    /// The protocol with the expectation.
    pub protocol: Protocol,
    /// In words: parts that are not checked, or not byte for byte, because the samples differ.
    pub unchecked: Option<String>,
    /// Samples in order of arrival; none for lasthop's own protocols, whose replies are known.
    pub samples: Vec<Sample>,
    /// Whether the server closes each connection after a reply, although the load would keep it.
    pub closes: bool,
    /// Time of the fastest reply; 0 if none was awaited.
    pub fastest: Duration,
}

/// Learns the expectation from the replies of the endpoint of `spec`, as far as they agree. An expectation already in
/// `spec` must hold for the first replies. If `go_on` returns false, learning ends with a meaningless error.
pub fn learn(spec: &Spec, go_on: impl FnMut() -> bool) -> Result<Reference, Failure> {
    let mut all = sampled(&[spec], true, go_on).map_err(|(_, failure)| failure)?;
    let mut reference = all.remove(0);
    reference.unchecked = learn_from(&mut reference.protocol, &reference.samples)?;
    Ok(reference)
}

/// Sets the common content of the samples as the expectation. Returns the parts that are not checked.
pub fn learn_from<'a>(
    protocol: &mut Protocol,
    samples: impl IntoIterator<Item = &'a Sample>,
) -> Result<Option<String>, Failure> {
    let replies: Vec<&[u8]> = samples.into_iter().map(|sample| &sample.reply[..]).collect();
    if replies.is_empty() {
        return Ok(None);
    }
    protocol.learn(&replies)
}

/// Like [`learn`], for each of several requests by itself, over one connection if the server keeps it. Returns the
/// requests with their expectations, the parts that are not checked, and whether the server closes connections.
pub fn learn_each(
    spec: &Spec,
    several: &Several,
    go_on: impl FnMut() -> bool,
) -> Result<(Several, Vec<String>, bool), Failure> {
    let asked = several.requests.iter().map(|request| request.protocol.clone());
    let mut all = [Sampler::new(spec, asked)];
    gather(&mut all, ROUNDS, go_on).map_err(|(_, asked, failure)| {
        let name = &several.requests[asked].name;
        Weighted::failed(name, failure)
    })?;
    let [asked] = all;
    let mut several = several.clone();
    let mut unchecked = Vec::new();
    for (Weighted { name, protocol, .. }, question) in several.requests.iter_mut().zip(&asked.asked) {
        let learnt = learn_from(protocol, &question.samples).map_err(|failure| Weighted::failed(name, failure))?;
        unchecked.extend(learnt.map(|text| format!("{name}: {text}")));
    }
    Ok((several, unchecked, asked.closes))
}

/// Samples of the endpoints in turn, without learning: many of each over a while, or two. An error comes with the index
/// of its endpoint.
pub fn sampled(specs: &[&Spec], many: bool, go_on: impl FnMut() -> bool) -> Result<Vec<Reference>, (usize, Failure)> {
    let asked = |spec: &&Spec| {
        let asked = (!spec.protocol.kind().own).then(|| spec.protocol.clone());
        Sampler::new(spec, asked)
    };
    let mut all: Vec<Sampler> = specs.iter().map(asked).collect();
    let rounds = if many { ROUNDS } else { 1 };
    gather(&mut all, rounds, go_on).map_err(|(endpoint, _, failure)| (endpoint, failure))?;
    let reference = |asked: Sampler| Reference {
        protocol: asked.spec.protocol.clone(),
        unchecked: None,
        closes: asked.closes,
        fastest: asked.fastest.unwrap_or_default(),
        samples: asked.asked.into_iter().flat_map(|question| question.samples).collect(),
    };
    Ok(all.into_iter().map(reference).collect())
}

/// Whether an endpoint closes each connection after a reply, although the load would keep it. Replies must be correct,
/// and may be of any length.
pub fn closes(spec: &Spec, go_on: impl FnMut() -> bool) -> Result<bool, Failure> {
    let asked = (!spec.protocol.kind().own).then(|| spec.protocol.clone());
    let mut all = [Sampler {
        forgets: true,
        ..Sampler::new(spec, asked)
    }];
    gather(&mut all, 1, go_on).map_err(|(.., failure)| failure)?;
    Ok(all[0].closes)
}

/// An endpoint with its requests and their replies.
struct Sampler {
    spec: Spec,
    /// Whether no bytes of replies are kept.
    forgets: bool,
    /// Time of the fastest reply, including the connect if one was needed.
    fastest: Option<Duration>,
    asked: Vec<Question>,
    closes: bool,
}

/// A request and its outcomes.
struct Question {
    protocol: Protocol,
    samples: Vec<Sample>,
    /// Wrong replies, and why the first was wrong.
    wrong: usize,
    why: Option<Failure>,
}

impl Question {
    /// Why the first reply was wrong, if wrong replies outnumber correct ones by more than `more`.
    fn outweighed(&self, more: usize) -> Option<Failure> {
        self.why.clone().filter(|_| self.wrong > self.samples.len() + more)
    }
}

impl Sampler {
    fn new(spec: &Spec, asked: impl IntoIterator<Item = Protocol>) -> Self {
        let question = |protocol| Question {
            protocol,
            samples: Vec::new(),
            wrong: 0,
            why: None,
        };
        let asked: Vec<_> = asked.into_iter().map(question).collect();
        Self {
            closes: !asked.is_empty() && spec.reuse == Reuse::KeepAlive && !spec.closes_each_time(),
            spec: spec.clone(),
            forgets: false,
            fastest: None,
            asked,
        }
    }

    /// How often each request is sent over a connection: two show whether the server keeps it.
    fn times(&self) -> usize {
        if self.asked.len() == 1 { 2 } else { 1 }
    }

    /// Sends the requests over a new connection. An error comes with the index of its request.
    fn converse(&mut self, go_on: impl FnMut() -> bool) -> Result<(), (usize, Failure)> {
        let times = self.times();
        let Self {
            spec,
            forgets,
            fastest,
            asked,
            closes,
        } = self;
        let conversation = |line: &mut Line| {
            line.forgets = *forgets;
            let mut outcome = Ok(());
            'all: for (index, question) in asked.iter_mut().enumerate() {
                for _ in 0..times {
                    let begun = Instant::now();
                    match line.ask(&question.protocol) {
                        Ok(sample) => {
                            let took = begun.elapsed();
                            *fastest = Some(fastest.map_or(took, |fastest| fastest.min(took)));
                            question.samples.push(sample);
                        }
                        Err(failure) => {
                            if failure.class.is_of_reply() {
                                question.wrong += 1;
                                question.why.get_or_insert_with(|| failure.clone());
                            }
                            outcome = Err((index, failure));
                            break 'all;
                        }
                    }
                }
            }
            *closes &= !line.keeps();
            Ok(outcome)
        };
        sample::converse(spec, go_on, conversation).unwrap_or_else(|failure| Err((0, failure)))
    }

    /// Like [`Sampler::converse`], repeated until each request has its correct replies, unless too many are wrong.
    fn insist(&mut self, mut go_on: impl FnMut() -> bool) -> Result<(), (usize, Failure)> {
        loop {
            match self.converse(&mut go_on) {
                Err((request, failure)) if failure.class.is_of_reply() => {
                    if let Some(why) = self.asked[request].outweighed(WRONG_MORE) {
                        return Err((request, why));
                    }
                    if self.asked.iter().all(|question| question.samples.len() >= self.times()) {
                        return Ok(());
                    }
                }
                outcome => return outcome,
            }
        }
    }

    fn bytes(&self) -> usize {
        let samples = self.asked.iter().flat_map(|question| &question.samples);
        samples.map(|sample| sample.reply.len()).sum()
    }
}

/// Takes samples in turn, over a while. Some of the first replies of each endpoint must be correct, and no fewer than
/// the wrong ones; later errors are left to the load.
fn gather(all: &mut [Sampler], rounds: u32, mut go_on: impl FnMut() -> bool) -> Result<(), (usize, usize, Failure)> {
    let begin = Instant::now();
    for round in 0..rounds {
        let is_needed = round
            < if all.iter().any(|asked| asked.asked.len() > 1) {
                2
            } else {
                1
            };
        let has_enough = begin.elapsed() > SPAN_MAX || all.iter().map(Sampler::bytes).sum::<usize>() > BYTES_MAX;
        if has_enough && !is_needed {
            break;
        }
        while begin.elapsed() < STEP * round {
            if !go_on() {
                let failure = Failure::new(ErrorClass::Os, "interrupted");
                return Err((0, 0, failure));
            }
            thread::sleep(TICK);
        }
        for (endpoint, asked) in all.iter_mut().enumerate().filter(|(_, asked)| !asked.asked.is_empty()) {
            // Requests without replies teach nothing.
            if round > 0 && asked.spec.protocol.receipt().is_some() {
                continue;
            }
            if is_needed {
                let asked = asked.insist(&mut go_on);
                asked.map_err(|(request, failure)| (endpoint, request, failure))?;
            } else if let Err((_, failure)) = asked.converse(&mut go_on)
                && failure.class == ErrorClass::Timeout
            {
                return settled(all, rounds);
            }
        }
    }
    settled(all, rounds)
}

/// Fails if most replies to any request are wrong, unless there was only one round.
fn settled(all: &[Sampler], rounds: u32) -> Result<(), (usize, usize, Failure)> {
    if rounds == 1 {
        return Ok(());
    }
    for (endpoint, asked) in all.iter().enumerate() {
        for (request, question) in asked.asked.iter().enumerate() {
            if let Some(why) = question.outweighed(0) {
                return Err((endpoint, request, why));
            }
        }
    }
    Ok(())
}
