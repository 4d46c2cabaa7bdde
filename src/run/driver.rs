//! The caller's side of `lasthop drive`.

use std::{
    io::{BufRead, BufReader, Write},
    os::fd::{AsFd, AsRawFd, OwnedFd},
    time::{Duration, Instant},
};

use lasthop_load::{
    TrialResult,
    result::Proof,
    spec::Spec,
    wire::{self, Reply, Request, Stage, TrialPhases},
};

/// What went wrong with a driver or with what it was asked to do.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// The driver lives and says why it could not do it.
    #[error("{cause}")]
    Refused { stage: Stage, cause: String },
    #[error("the driver ended unexpectedly")]
    Ended,
    #[error("the driver gave no answer within {0:?}")]
    Silent(Duration),
    #[error("the driver wrote `{line}`, which is not its protocol: {cause}")]
    Garbled { line: String, cause: String },
    #[error("the driver speaks protocol {found}, this lasthop speaks {}", wire::VERSION)]
    Version { found: u32 },
    #[error("cannot talk to the driver: {0}")]
    Io(#[from] std::io::Error),
}

impl DriverError {
    /// Whether the driver can still be asked for other things.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        matches!(self, Self::Refused { .. })
    }

    /// Stage of the failure as records name it.
    #[must_use]
    pub fn stage(&self) -> &'static str {
        match self {
            Self::Refused { stage: Stage::Spec, .. } => "spec",
            Self::Refused { stage: Stage::Connect, .. } => "connect",
            Self::Refused { stage: Stage::Verify, .. } => "verify",
            _ => "trial",
        }
    }
}

/// A driver process, spoken to over two pipes.
#[derive(Debug)]
pub struct Driver {
    requests: std::fs::File,
    replies: BufReader<std::fs::File>,
}

/// Connecting and two verified answers must be done in this time.
const PREPARE: Duration = Duration::from_secs(20);
/// What a trial may take beyond its phases: the drain, and one request timeout.
const DRAIN: Duration = Duration::from_secs(20);

impl Driver {
    /// Takes over the pipes of a started driver and waits for its first line.
    ///
    /// # Errors
    /// [`DriverError::Version`] when it speaks another protocol; [`DriverError::Silent`] or [`DriverError::Ended`] when
    /// it says nothing.
    pub fn greet(requests: OwnedFd, replies: OwnedFd) -> Result<Self, DriverError> {
        let mut driver = Self { requests: requests.into(), replies: BufReader::new(replies.into()) };
        match driver.receive(Duration::from_secs(10))? {
            Reply::Hello { protocol: wire::VERSION, .. } => Ok(driver),
            Reply::Hello { protocol, .. } => Err(DriverError::Version { found: protocol }),
            other => Err(unexpected(&other)),
        }
    }

    /// Opens the connections of a case and verifies its answers.
    ///
    /// # Errors
    /// [`DriverError::Refused`] when the server answers wrongly or not at all.
    pub fn prepare(&mut self, case: &str, spec: &Spec) -> Result<Proof, DriverError> {
        match self.ask(&Request::Prepare { case: case.to_owned(), spec: Box::new(spec.clone()) }, PREPARE)? {
            Reply::Prepared { proof, .. } => Ok(proof),
            other => Err(unexpected(&other)),
        }
    }

    /// One slice of load.
    ///
    /// # Errors
    /// [`DriverError::Refused`] when the trial yielded no number.
    pub fn trial(&mut self, case: &str, phases: TrialPhases) -> Result<TrialResult, DriverError> {
        let limit = Duration::from_nanos(phases.warm_up_ns + phases.measure_ns) + DRAIN;
        match self.ask(&Request::Trial { case: case.to_owned(), phases }, limit)? {
            Reply::Trial { result, .. } => Ok(*result),
            other => Err(unexpected(&other)),
        }
    }

    /// Closes the connections of a case.
    ///
    /// # Errors
    /// As [`Driver::prepare`].
    pub fn close(&mut self, case: &str) -> Result<(), DriverError> {
        match self.ask(&Request::Close { case: case.to_owned() }, PREPARE)? {
            Reply::Closed { .. } => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    fn ask(&mut self, request: &Request, limit: Duration) -> Result<Reply, DriverError> {
        let mut line = serde_json::to_vec(request).expect("requests hold no maps with keys other than text");
        line.push(b'\n');
        self.requests.write_all(&line).map_err(|error| match error.kind() {
            std::io::ErrorKind::BrokenPipe => DriverError::Ended,
            _ => DriverError::Io(error),
        })?;
        match self.receive(limit)? {
            Reply::Failed { stage, cause, .. } => Err(DriverError::Refused { stage, cause }),
            reply => Ok(reply),
        }
    }

    fn receive(&mut self, limit: Duration) -> Result<Reply, DriverError> {
        let deadline = Instant::now() + limit;
        let mut line = Vec::new();
        while !line.ends_with(b"\n") {
            if self.replies.buffer().is_empty() {
                wait_readable(self.replies.get_ref(), deadline).then_some(()).ok_or(DriverError::Silent(limit))?;
            }
            let available = self.replies.fill_buf()?;
            if available.is_empty() {
                return Err(DriverError::Ended);
            }
            let taken = available.iter().position(|byte| *byte == b'\n').map_or(available.len(), |at| at + 1);
            line.extend_from_slice(&available[..taken]);
            self.replies.consume(taken);
        }
        serde_json::from_slice(&line).map_err(|error| DriverError::Garbled {
            line: String::from_utf8_lossy(&line).trim_end().chars().take(200).collect(),
            cause: error.to_string(),
        })
    }
}

fn unexpected(reply: &Reply) -> DriverError {
    let line = serde_json::to_string(reply).unwrap_or_default();
    DriverError::Garbled { line: line.chars().take(200).collect(), cause: "another reply was due".to_owned() }
}

/// False when nothing came until the deadline. A signal does not end the wait: trials are short.
fn wait_readable(file: &impl AsFd, deadline: Instant) -> bool {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let mut poll = libc::pollfd { fd: file.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid pollfd, and the count says one.
        match unsafe { libc::poll(&raw mut poll, 1, left.as_millis().min(60_000) as libc::c_int) } {
            1.. => return true,
            0 if left.is_zero() => return false,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Read, os::unix::net::UnixStream, thread};

    use super::*;

    /// A driver that answers each request with the next of `lines`.
    fn scripted(lines: Vec<&'static str>) -> Result<Driver, DriverError> {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        thread::spawn(move || {
            for line in lines {
                theirs.write_all(line.as_bytes()).unwrap();
                let mut byte = [0];
                while theirs.read(&mut byte).is_ok_and(|read| read == 1) && byte[0] != b'\n' {}
            }
        });
        Driver::greet(ours.try_clone().unwrap().into(), ours.into())
    }

    const HELLO: &str = "{\"hello\":{\"protocol\":1,\"driver\":\"test\",\"version\":\"0\"}}\n";

    #[test]
    fn another_protocol_version_is_refused() {
        let error = scripted(vec!["{\"hello\":{\"protocol\":9,\"driver\":\"test\",\"version\":\"0\"}}\n"]).unwrap_err();
        assert_eq!(error.to_string(), "the driver speaks protocol 9, this lasthop speaks 1");
    }

    #[test]
    fn a_failed_request_leaves_the_driver_usable() {
        let mut driver = scripted(vec![
            HELLO,
            "{\"failed\":{\"case\":\"a\",\"stage\":\"verify\",\"cause\":\"status 500\"}}\n",
            "{\"closed\":{\"case\":\"a\"}}\n",
        ])
        .unwrap();
        let error = driver.trial("a", TrialPhases { warm_up_ns: 1, measure_ns: 1 }).unwrap_err();
        assert!(error.is_alive());
        assert_eq!((error.stage(), error.to_string().as_str()), ("verify", "status 500"));
        driver.close("a").unwrap();
    }

    #[test]
    fn an_ended_or_garbled_driver_is_named() {
        let mut driver = scripted(vec![HELLO]).unwrap();
        assert!(matches!(driver.close("a").unwrap_err(), DriverError::Ended));
        let mut driver = scripted(vec![HELLO, "Traceback (most recent call last)\n"]).unwrap();
        let error = driver.close("a").unwrap_err();
        assert!(error.to_string().contains("Traceback"), "{error}");
        assert!(!error.is_alive());
    }
}
