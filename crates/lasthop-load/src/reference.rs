//! Where nobody says what a right reply is, the first one is: two samples are taken, and what they have in common is
//! expected of every reply.

use crate::{failure::Failure, protocol::Protocol, sample, spec::Spec};

/// The protocol of `spec` with what its endpoint answers as the expectation, as far as two replies agree.
/// An expectation that `spec` has already must hold for both. Protocols of lasthop's own server know their answers anyway.
/// Once `go_on` says no, this ends with an error of no account.
/// Errors: as of a load: no connection, or a wrong answer.
pub fn learn(spec: &Spec, mut go_on: impl FnMut() -> bool) -> Result<Protocol, Failure> {
    let mut protocol = spec.protocol.clone();
    if !protocol.kind().own {
        let first = sample::take(spec, &mut go_on)?;
        let second = sample::take(spec, go_on)?;
        protocol.learn(&first.reply, &second.reply)?;
    }
    Ok(protocol)
}
