//! Where nobody says what a correct reply is, the first one is: two samples are taken, and what they have in common is
//! expected of every reply.

use lasthop_protocol::{
    Protocol,
    failure::Failure,
    several::{Several, Weighted},
    spec::Spec,
};

use crate::sample::{self, Line, Sample};

/// What two samples teach.
#[derive(Clone, Debug)]
pub struct Reference {
    /// The protocol with the expectation.
    pub protocol: Protocol,
    /// What is not checked, or less than byte for byte, because the samples differ: in words.
    pub unchecked: Option<String>,
    /// None of lasthop's own protocols, whose replies are known anyway.
    pub samples: Option<[Sample; 2]>,
}

/// What the endpoint of `spec` answers as the expectation, as far as two replies agree. An expectation that `spec` has
/// already must hold for both. Once `go_on` says no, this ends with an error that means nothing.
pub fn learn(spec: &Spec, go_on: impl FnMut() -> bool) -> Result<Reference, Failure> {
    let mut reference = sampled(spec, go_on)?;
    if let Some([first, second]) = &reference.samples {
        reference.unchecked = reference.protocol.learn(&first.reply, &second.reply)?;
    }
    Ok(reference)
}

/// As [`learn`], of each of several requests by itself, all over one connection if the server keeps it: the requests
/// with their expectations, and what of which is not checked.
pub fn learn_each(
    spec: &Spec,
    several: &Several,
    go_on: impl FnMut() -> bool,
) -> Result<(Several, Vec<String>), Failure> {
    let learn = |line: &mut Line, protocol: &mut Protocol| {
        let (first, second) = (line.ask(protocol)?, line.ask(protocol)?);
        protocol.learn(&first.reply, &second.reply)
    };
    sample::converse(spec, go_on, |line| {
        let mut several = several.clone();
        let mut unchecked = Vec::new();
        for Weighted { name, protocol, .. } in &mut several.requests {
            let learnt = learn(line, protocol).map_err(|failure| Weighted::failed(name, failure))?;
            unchecked.extend(learnt.map(|text| format!("{name}: {text}")));
        }
        Ok((several, unchecked))
    })
}

/// The samples alone: the expectation stays as it is.
pub fn sampled(spec: &Spec, mut go_on: impl FnMut() -> bool) -> Result<Reference, Failure> {
    let protocol = spec.protocol.clone();
    let samples = if protocol.kind().own {
        None
    } else {
        Some([sample::take(spec, &mut go_on)?, sample::take(spec, go_on)?])
    };
    Ok(Reference {
        protocol,
        unchecked: None,
        samples,
    })
}
