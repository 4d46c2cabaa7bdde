//! The caller's side of `lasthop drive`.

use std::{
    fmt::Display,
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

use lasthop_model::record::Stage;
use lasthop_protocol::{
    TrialResult,
    result::{Proof, Reported},
    spec::{LoadStage, Spec},
    wire::{self, Reply, Request, TrialPhases},
};

use lasthop_system::lines::{LineError, Lines};

/// A driver failed, or could not do what it was asked to do.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// The driver is alive and says why it could not do it.
    #[error("{cause}")]
    Refused { stage: wire::Stage, cause: String },
    #[error("the driver ended unexpectedly")]
    Ended,
    /// It cannot be talked to any more.
    #[error("{0}")]
    Lost(String),
}

impl From<LineError> for DriverError {
    fn from(error: LineError) -> Self {
        Self::Lost(match error {
            LineError::Ended => return Self::Ended,
            LineError::Silent(limit) => format!("the driver did not answer within {limit:?}"),
            LineError::TooLong(most) => {
                format!("the driver wrote a line of more than {most} bytes, which does not follow the protocol")
            }
            LineError::Interrupted => "interrupted".to_owned(),
            LineError::Io(error) => format!("cannot talk to the driver: {error}"),
        })
    }
}

impl DriverError {
    fn garbled(line: &str, cause: impl Display) -> Self {
        let line: String = line.trim_end().chars().take(200).collect();
        Self::Lost(format!(
            "the driver wrote `{line}`, which does not follow the protocol: {cause}"
        ))
    }

    /// Whether the driver can still be asked for other things.
    pub fn is_alive(&self) -> bool {
        matches!(self, Self::Refused { .. })
    }

    pub fn stage(&self) -> Stage {
        match self {
            Self::Refused { stage, .. } => (*stage).into(),
            _ => Stage::Trial,
        }
    }
}

/// A driver process, connected by two pipes.
#[derive(Debug)]
pub struct Driver(Lines);

/// Limit for connecting and for two verified replies.
const PREPARE: Duration = Duration::from_secs(20);
/// What a trial may take in addition to its phases: the drain, and one request timeout.
const DRAIN: Duration = Duration::from_secs(20);
/// Limit for its first line, and for reading a request.
const ATTENTION: Duration = Duration::from_secs(10);
/// The longest line in bytes. The histograms of a trial take about a hundred thousand.
const LONGEST: usize = 16 << 20;

impl Driver {
    /// Takes over the pipes of a started driver and waits for its first line.
    pub fn greet(requests: OwnedFd, replies: OwnedFd) -> Result<Self, DriverError> {
        let mut driver = Self(Lines::new(Some(requests), replies, LONGEST).map_err(LineError::Io)?);
        match driver.receive(ATTENTION)? {
            Reply::Hello {
                protocol: wire::VERSION,
                ..
            } => Ok(driver),
            Reply::Hello { protocol, .. } => Err(DriverError::Lost(format!(
                "the driver speaks protocol version {protocol}, but this lasthop speaks {}",
                wire::VERSION
            ))),
            other => Err(unexpected(&other)),
        }
    }

    /// Opens the connections of a case and verifies its replies.
    ///
    /// # Errors
    /// [`DriverError::Refused`] if the server's reply is wrong or missing.
    pub fn prepare(&mut self, case: &str, spec: &Spec) -> Result<Proof, DriverError> {
        match self.ask(
            &Request::Prepare {
                case: case.to_owned(),
                spec: Box::new(spec.clone()),
            },
            PREPARE,
        )? {
            Reply::Prepared { proof, .. } => Ok(proof),
            other => Err(unexpected(&other)),
        }
    }

    /// Runs one trial.
    ///
    /// # Errors
    /// [`DriverError::Refused`] if the trial has no result.
    pub fn trial(&mut self, case: &str, phases: TrialPhases) -> Result<TrialResult, DriverError> {
        let asked = self.begin(case, phases)?;
        self.end(&asked)?.read()
    }

    /// Asks for a trial, which then runs by itself.
    pub fn begin(&mut self, case: &str, phases: TrialPhases) -> Result<Asked, DriverError> {
        self.send_trial(case, phases, Vec::new())
    }

    /// Asks for a trial in stages, which then runs by itself.
    pub fn begin_stages(&mut self, case: &str, stages: Vec<LoadStage>) -> Result<Asked, DriverError> {
        let phases = TrialPhases {
            warm_up_ns: 0,
            measure_ns: LoadStage::total_ns(&stages),
        };
        self.send_trial(case, phases, stages)
    }

    fn send_trial(&mut self, case: &str, phases: TrialPhases, stages: Vec<LoadStage>) -> Result<Asked, DriverError> {
        self.send(&Request::Trial {
            case: case.to_owned(),
            phases,
            stages,
        })?;
        Ok(Asked {
            begun: Instant::now(),
            limit: Duration::from_nanos(phases.warm_up_ns + phases.measure_ns) + DRAIN,
        })
    }

    /// Waits for the end of the trial that was begun.
    pub fn end(&mut self, asked: &Asked) -> Result<Answer, DriverError> {
        Ok(Answer {
            line: self.0.hear(asked.limit)?,
            waited: asked.begun.elapsed(),
        })
    }

    /// Closes the connections of a case.
    pub fn close(&mut self, case: &str) -> Result<(), DriverError> {
        match self.ask(&Request::Close { case: case.to_owned() }, PREPARE)? {
            Reply::Closed { .. } => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    fn ask(&mut self, request: &Request, limit: Duration) -> Result<Reply, DriverError> {
        self.send(request)?;
        granted(self.receive(limit)?)
    }

    fn send(&mut self, request: &Request) -> Result<(), DriverError> {
        let mut line = serde_json::to_vec(request).expect("requests hold no maps with keys other than text");
        line.push(b'\n');
        Ok(self.0.say(&line, ATTENTION)?)
    }

    fn receive(&mut self, limit: Duration) -> Result<Reply, DriverError> {
        parse(&self.0.hear(limit)?)
    }
}

/// A trial that a driver was asked for.
#[derive(Debug)]
pub struct Asked {
    begun: Instant,
    limit: Duration,
}

/// What a driver wrote after a trial. Reading it takes a millisecond or more, so it waits until the next trial runs.
#[derive(Debug)]
pub struct Answer {
    line: Vec<u8>,
    waited: Duration,
}

impl Answer {
    /// Whether it begins like a result.
    pub fn is_result(&self) -> bool {
        // Not parsed: that would take a millisecond or more, and the next trial is to begin first.
        self.line.starts_with(b"{\"trial\"")
    }

    pub fn read(self) -> Result<TrialResult, DriverError> {
        match granted(parse(&self.line)?)? {
            Reply::Trial { result, .. } => match absurdity(&result, self.waited) {
                None => Ok(*result),
                Some(what) => Err(DriverError::Refused {
                    stage: wire::Stage::Trial,
                    cause: format!("the driver's result is impossible: {what}"),
                }),
            },
            other => Err(unexpected(&other)),
        }
    }
}

fn granted(reply: Reply) -> Result<Reply, DriverError> {
    match reply {
        Reply::Failed { stage, cause, .. } => Err(DriverError::Refused { stage, cause }),
        reply => Ok(reply),
    }
}

fn parse(line: &[u8]) -> Result<Reply, DriverError> {
    serde_json::from_slice(line).map_err(|error| DriverError::garbled(&String::from_utf8_lossy(line), error))
}

/// Rejects a result that no trial of this length can have. This also keeps sums over many trials within their types.
fn absurdity(result: &TrialResult, waited: Duration) -> Option<&'static str> {
    let waited = u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX);
    // A tool rounds its times, and up to a thousand CPUs may have worked for it.
    let elapsed = waited * 2 + 1_000_000_000;
    let cpu = waited.saturating_mul(1024);
    let cost = &result.cost;
    let errors = result.errors.values().map(|error| error.count);
    // One per nanosecond.
    let count = elapsed;
    let histograms = [&result.service_time, &result.response_time, &result.lag];
    let finite = |reported: &Reported| {
        let values = [
            reported.mean_ns,
            reported.deviation_ns,
            reported.median_ns,
            reported.p99_ns,
            reported.max_ns,
        ];
        values
            .into_iter()
            .flatten()
            .chain([reported.resolution_ns])
            // 1e18 ns are 31 years.
            .all(|value| (0.0..1e18).contains(&value))
    };
    [
        // Rates divide by it.
        (result.elapsed_ns == 0, "no time has passed"),
        (result.elapsed_ns > elapsed, "it took more time than it was given"),
        (
            result.requests > result.requests_total,
            "there are more requests in its measure phase than in all of it",
        ),
        (
            result.requests_total > count,
            "there are more requests than nanoseconds",
        ),
        (
            errors.fold(0, u64::saturating_add) > count,
            "there are more errors than nanoseconds",
        ),
        (
            histograms.iter().copied().flatten().any(|one| one.count() > count),
            "there are more times than nanoseconds",
        ),
        (
            // 2^56 bytes a day are 830 GB/s.
            result.bytes_received > 1 << 56,
            "there are more bytes than memory moves in a day",
        ),
        (
            cost.user_ns.max(cost.system_ns) > cpu,
            "it used more CPU time than a thousand CPUs have",
        ),
        (
            cost.run_delay_ns.is_some_and(|delay| delay > cpu),
            "it waited longer for CPUs than a thousand threads can",
        ),
        (
            result
                .offered
                .is_some_and(|offered| !(0.0..1e12).contains(&offered.rate)),
            "its rate is not a rate",
        ),
        (
            result.reported.as_ref().is_some_and(|reported| !finite(reported)),
            "its reported times are not times",
        ),
        (
            result
                .speed
                .is_some_and(|speed| ![speed.before, speed.after].into_iter().all(is_speed)),
            "its speed is not one",
        ),
    ]
    .into_iter()
    .find_map(|(is_so, what)| is_so.then_some(what))
}

/// Steps per microsecond: less than a hundred for each nanosecond.
fn is_speed(speed: f64) -> bool {
    (f64::MIN_POSITIVE..1e5).contains(&speed)
}

fn unexpected(reply: &Reply) -> DriverError {
    let line = serde_json::to_string(reply).unwrap_or_default();
    DriverError::garbled(&line, "another reply was expected")
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        os::unix::net::UnixStream,
        thread,
    };

    use lasthop_protocol::{
        result::{DriverCost, ErrorClass, ErrorCount},
        spec::Engine,
    };

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
        let error = scripted(vec![
            "{\"hello\":{\"protocol\":9,\"driver\":\"test\",\"version\":\"0\"}}\n",
        ])
        .unwrap_err();
        assert_eq!(
            error.to_string(),
            "the driver speaks protocol version 9, but this lasthop speaks 1"
        );
    }

    #[test]
    fn a_failed_request_leaves_the_driver_usable() {
        let mut driver = scripted(vec![
            HELLO,
            "{\"failed\":{\"case\":\"a\",\"stage\":\"verify\",\"cause\":\"status 500\"}}\n",
            "{\"closed\":{\"case\":\"a\"}}\n",
        ])
        .unwrap();
        let error = driver
            .trial(
                "a",
                TrialPhases {
                    warm_up_ns: 1,
                    measure_ns: 1,
                },
            )
            .unwrap_err();
        assert!(error.is_alive());
        assert_eq!(
            (error.stage(), error.to_string().as_str()),
            (Stage::Verify, "status 500")
        );
        driver.close("a").unwrap();
    }

    #[test]
    fn numbers_that_cannot_be_are_refused() {
        let good = TrialResult {
            requests: 10,
            requests_total: 12,
            ..TrialResult::empty(Engine::Blocking, 5_000_000)
        };
        let judged = |result| absurdity(&result, Duration::from_millis(6));
        assert_eq!(judged(good.clone()), None);
        assert!(
            judged(TrialResult {
                elapsed_ns: 0,
                ..good.clone()
            })
            .is_some()
        );
        assert!(
            judged(TrialResult {
                elapsed_ns: u64::MAX,
                ..good.clone()
            })
            .is_some()
        );
        assert!(
            judged(TrialResult {
                requests: 13,
                ..good.clone()
            })
            .is_some()
        );
        assert!(
            judged(TrialResult {
                requests: u64::MAX,
                requests_total: u64::MAX,
                ..good.clone()
            })
            .is_some()
        );
        let cost = DriverCost {
            user_ns: u64::MAX,
            system_ns: u64::MAX,
            ..DriverCost::default()
        };
        assert!(judged(TrialResult { cost, ..good.clone() }).is_some());
        let error = |class| {
            (
                class,
                ErrorCount {
                    count: u64::MAX,
                    first: String::new(),
                },
            )
        };
        let errors = [error(ErrorClass::Reset), error(ErrorClass::Os)].into_iter().collect();
        assert!(judged(TrialResult { errors, ..good }).is_some());
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
