//! The caller's side of `lasthop drive`.

use std::{
    collections::HashMap,
    fmt::Display,
    time::{Duration, Instant},
};

use lasthop_model::record::Stage;
use lasthop_protocol::{
    spec::Spec,
    wire::{self, Reply, Request, TrialPhases},
};
use lasthop_trial::{
    Histogram, TrialResult,
    options::{LoadStage, Model},
    result::{Proof, Reported},
};

use lasthop_system::lines::{LineError, Lines};

/// A driver failed, or refused a request.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// The driver still runs and gives the cause.
    #[error("{cause}")]
    Refused { stage: wire::Stage, cause: String },
    #[error("the driver ended unexpectedly")]
    Ended,
    /// The connection to the driver is lost.
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

    /// Whether the driver can take further requests.
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
pub struct Driver {
    lines: Lines,
    /// The bounds of prepared cases, by name.
    prepared: HashMap<String, Bounds>,
}

/// Bounds of a case's trials, from the specification that the driver prepared.
#[derive(Clone, Copy, Debug, Default)]
struct Bounds {
    /// The maximum of requests in flight.
    at_once: u64,
    /// Requests that are timed together.
    together: u64,
    is_open: bool,
    is_one_way: bool,
}

impl Bounds {
    fn of(spec: &Spec) -> Self {
        let together = u64::from(spec.requests_per_connection);
        Self {
            at_once: u64::from(spec.connections) * u64::from(spec.pipeline),
            together,
            is_open: matches!(spec.model, Model::Open(_)),
            is_one_way: spec.protocol.receipt().is_some(),
        }
    }
}

/// Limit for connecting and for two verified replies.
const PREPARE: Duration = Duration::from_secs(20);
/// Time for a trial beyond its phases: the drain, and one request timeout.
const DRAIN: Duration = Duration::from_secs(20);
/// Limit for the driver's first line, and for reading a request.
const ATTENTION: Duration = Duration::from_secs(10);
/// The longest line, in bytes. The histograms of a trial take about a hundred thousand.
pub const LONGEST: usize = 16 << 20;

impl Driver {
    /// Takes over the lines of a started driver and waits for the first.
    pub fn greet(lines: Lines) -> Result<Self, DriverError> {
        let mut driver = Self {
            lines,
            prepared: HashMap::new(),
        };
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
        self.prepared.insert(case.to_owned(), Bounds::of(spec));
        let request = Request::Prepare {
            case: case.to_owned(),
            spec: Box::new(spec.clone()),
        };
        match self.ask(&request, case)? {
            Reply::Prepared { proof, .. } => Ok(proof),
            other => Err(unexpected(&other)),
        }
    }

    /// Runs one trial.
    ///
    /// # Errors
    /// [`DriverError::Refused`] if the trial has no result.
    pub fn trial(&mut self, case: &str, phases: TrialPhases) -> Result<TrialResult, DriverError> {
        let pending = self.begin(case, phases)?;
        self.end(&pending)?.read()
    }

    /// Starts a trial and returns at once.
    pub fn begin(&mut self, case: &str, phases: TrialPhases) -> Result<Pending, DriverError> {
        self.send_trial(case, phases, Vec::new())
    }

    /// Starts a trial in stages and returns at once.
    pub fn begin_stages(&mut self, case: &str, stages: Vec<LoadStage>) -> Result<Pending, DriverError> {
        let phases = TrialPhases {
            warm_up_ns: 0,
            measure_ns: LoadStage::total_ns(&stages),
        };
        self.send_trial(case, phases, stages)
    }

    fn send_trial(&mut self, case: &str, phases: TrialPhases, stages: Vec<LoadStage>) -> Result<Pending, DriverError> {
        let mut bounds = self.prepared.get(case).copied().unwrap_or_default();
        bounds.is_open |= !stages.is_empty();
        // Before the write: a sender may lose its CPU for as long as a trial takes.
        let begun = Instant::now();
        self.send(&Request::Trial {
            case: case.to_owned(),
            phases,
            stages,
        })?;
        Ok(Pending {
            case: case.to_owned(),
            begun,
            limit: Duration::from_nanos(phases.warm_up_ns + phases.measure_ns) + DRAIN,
            bounds,
        })
    }

    /// Waits for the end of a started trial.
    pub fn end(&mut self, pending: &Pending) -> Result<Answer, DriverError> {
        Ok(Answer {
            line: self.lines.hear(pending.limit)?,
            waited: pending.begun.elapsed(),
            case: pending.case.clone(),
            bounds: pending.bounds,
        })
    }

    /// Closes the connections of a case.
    pub fn close(&mut self, case: &str) -> Result<(), DriverError> {
        match self.ask(&Request::Close { case: case.to_owned() }, case)? {
            Reply::Closed { .. } => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    fn ask(&mut self, request: &Request, case: &str) -> Result<Reply, DriverError> {
        self.send(request)?;
        granted(self.receive(PREPARE)?, case)
    }

    fn send(&mut self, request: &Request) -> Result<(), DriverError> {
        let mut line = serde_json::to_vec(request).expect("requests hold no maps with keys other than text");
        line.push(b'\n');
        Ok(self.lines.say(&line, ATTENTION)?)
    }

    fn receive(&mut self, limit: Duration) -> Result<Reply, DriverError> {
        parse(&self.lines.hear(limit)?)
    }
}

/// A trial in progress.
#[derive(Debug)]
pub struct Pending {
    case: String,
    begun: Instant,
    limit: Duration,
    bounds: Bounds,
}

/// A driver's reply after a trial, not yet parsed. Parsing takes a millisecond or more, so it happens during the next
/// trial.
#[derive(Debug)]
pub struct Answer {
    line: Vec<u8>,
    waited: Duration,
    case: String,
    bounds: Bounds,
}

impl Answer {
    /// Whether the reply begins like a result.
    pub fn is_result(&self) -> bool {
        // Without parsing, which would delay the next trial by a millisecond or more.
        self.line.starts_with(b"{\"trial\"")
    }

    pub fn read(self) -> Result<TrialResult, DriverError> {
        match granted(parse(&self.line)?, &self.case)? {
            Reply::Trial { result, .. } => match possible(&result, self.bounds, self.waited) {
                Ok(()) => Ok(*result),
                Err(why) => Err(DriverError::Refused {
                    stage: wire::Stage::Trial,
                    cause: format!("the driver's result is impossible: {why}"),
                }),
            },
            other => Err(unexpected(&other)),
        }
    }
}

/// The reply, if it is about the case asked for.
fn granted(reply: Reply, asked: &str) -> Result<Reply, DriverError> {
    match &reply {
        Reply::Prepared { case, .. }
        | Reply::Trial { case, .. }
        | Reply::Closed { case }
        | Reply::Failed { case, .. }
            if case != asked =>
        {
            Err(DriverError::Lost(format!(
                "the driver's reply has the `case` `{case}`, but `{asked}` was asked for"
            )))
        }
        Reply::Failed { stage, cause, .. } => Err(DriverError::Refused {
            stage: *stage,
            cause: cause.clone(),
        }),
        _ => Ok(reply),
    }
}

fn parse(line: &[u8]) -> Result<Reply, DriverError> {
    wire::parse(line).map_err(|error| DriverError::garbled(&String::from_utf8_lossy(line), error))
}

/// The least time for a request and its reply on any connection, in nanoseconds.
const LEAST_NS: u64 = 20;
/// The share by which clocks and rounded histograms may differ.
const CLOCKS: f64 = 0.02;
/// The most CPUs that a driver can use.
const MOST_CPUS: u64 = 1024;
/// The highest memory bandwidth: 100 GB/s.
const MOST_BYTES_PER_NS: u64 = 100;

/// Refuses a result that is impossible for this case within the time that lasthop waited, and names the field. This
/// also keeps sums over many trials within their types.
fn possible(result: &TrialResult, bounds: Bounds, waited: Duration) -> Result<(), String> {
    let waited_ns = u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX);
    let at_once = bounds.at_once;
    let seconds = format!("{:.3} s", waited.as_secs_f64());

    let longest = if result.reported.is_some() || result.ran_ns.is_some() {
        // Tools round their times.
        waited_ns.saturating_mul(2).saturating_add(1_000_000_000)
    } else {
        waited_ns.saturating_add((waited_ns as f64 * CLOCKS) as u64)
    };
    let time = format!("though lasthop waited only {seconds}");
    // Rates divide by this time.
    refuse(result.elapsed_ns == 0, "elapsed_ns", 0, "no rate follows from that")?;
    refuse(result.elapsed_ns > longest, "elapsed_ns", result.elapsed_ns, &time)?;
    let ran = result.ran_ns.unwrap_or(0);
    refuse(ran > longest, "ran_ns", ran, &time)?;

    let most = (longest / LEAST_NS).saturating_mul(at_once);
    let too_many = format!("more than {at_once} requests at a time can be in {seconds}");
    let total = result.requests_total;
    let but_total = format!("but `requests_total` is {total}");
    refuse(result.requests > total, "requests", result.requests, but_total)?;
    refuse(total > most, "requests_total", total, &too_many)?;
    let errors = result.errors.values().map(|error| error.count);
    let errors = errors.fold(0, u64::saturating_add);
    refuse(errors > most, "errors", errors, &too_many)?;
    refuse(result.unanswered > most, "unanswered", result.unanswered, &too_many)?;
    refuse(result.sent_again > most, "sent_again", result.sent_again, &too_many)?;
    let opened = result.connections_opened;
    refuse(
        opened > most.saturating_add(at_once),
        "connections_opened",
        opened,
        &too_many,
    )?;
    let bytes = result.bytes_received;
    let most_bytes = longest.saturating_mul(MOST_BYTES_PER_NS);
    refuse(
        bytes > most_bytes,
        "bytes_received",
        bytes,
        format!("too many for {seconds}"),
    )?;
    if let Some(half) = result.first_half {
        let whole = "more than in both halves";
        refuse(
            half.requests > result.requests,
            "first_half.requests",
            half.requests,
            whole,
        )?;
        refuse(
            half.elapsed_ns > result.elapsed_ns,
            "first_half.elapsed_ns",
            half.elapsed_ns,
            whole,
        )?;
    }

    for (field, times) in [
        ("service_time", &result.service_time),
        ("response_time", &result.response_time),
        ("lag", &result.lag),
    ] {
        let count = times.as_ref().map_or(0, Histogram::count);
        refuse(count > most, field, format!("{count} times"), &too_many)?;
    }
    possible_times(result, bounds, waited)?;
    if let Some(one_way) = &result.one_way {
        let [sent, total, received] = [one_way.sent, one_way.sent_total, one_way.received_total];
        refuse(
            !bounds.is_one_way,
            "one_way",
            format!("{sent} sent"),
            "but there are replies",
        )?;
        refuse(total > most, "one_way.sent_total", total, too_many)?;
        let but_sent = format!("but `sent_total` is {total}");
        refuse(sent > total, "one_way.sent", sent, &but_sent)?;
        refuse(received > total, "one_way.received_total", received, &but_sent)?;
        refuse(
            one_way.waited > sent,
            "one_way.waited",
            one_way.waited,
            format!("but `sent` is {sent}"),
        )?;
    }

    let cost = &result.cost;
    let most_ns = longest.saturating_mul(MOST_CPUS);
    for (field, value) in [
        ("cost.user_ns", cost.user_ns),
        ("cost.system_ns", cost.system_ns),
        ("cost.run_delay_ns", cost.run_delay_ns.unwrap_or(0)),
        ("cost.voluntary_switches", cost.voluntary_switches),
        ("cost.involuntary_switches", cost.involuntary_switches),
        ("cost.system_calls", cost.system_calls),
    ] {
        refuse(
            value > most_ns,
            field,
            value,
            format!("more than {MOST_CPUS} CPUs have in {seconds}"),
        )?;
    }
    if let Some(speed) = result.speed {
        refuse(
            !is_speed(speed.before),
            "speed.before",
            speed.before,
            "which no CPU does in a microsecond",
        )?;
        refuse(
            !is_speed(speed.after),
            "speed.after",
            speed.after,
            "which no CPU does in a microsecond",
        )?;
    }
    Ok(())
}

/// Like [`possible`], for the times of requests.
fn possible_times(result: &TrialResult, bounds: Bounds, waited: Duration) -> Result<(), String> {
    let Bounds { at_once, together, .. } = bounds;
    for (field, is_there) in [
        ("offered", result.offered.is_some()),
        ("response_time", result.response_time.is_some()),
        ("lag", result.lag.is_some()),
    ] {
        refuse(is_there && !bounds.is_open, field, "given", "but no rate was asked for")?;
    }
    if let Some(offered) = result.offered {
        let is_rate = (0.0..1e12).contains(&offered.rate);
        refuse(!is_rate, "offered.rate", offered.rate, "which is not a rate")?;
        let due = format!("but `scheduled` is {}", offered.scheduled);
        refuse(offered.sent > offered.scheduled, "offered.sent", offered.sent, due)?;
    }
    if let Some(times) = &result.service_time {
        let (count, requests) = (times.count(), result.requests);
        // Requests that cross the start or the end of the phase are in only one of the two counts.
        let differ = count.saturating_mul(together).abs_diff(requests) > at_once.saturating_mul(together);
        let is_counted = !bounds.is_open && !bounds.is_one_way;
        let but = format!("but `requests` is {requests}");
        refuse(is_counted && differ, "service_time", format!("{count} times"), but)?;
        let sum = times.sum();
        let most = waited.as_secs_f64() * 1e9 * at_once as f64 * (1.0 + CLOCKS);
        let but = format!(
            "more than {at_once} requests at a time have in {:.3} s",
            waited.as_secs_f64()
        );
        refuse(sum > most, "service_time", format!("{:.3} s in all", sum / 1e9), but)?;
    }
    let Some(reported) = result.reported.as_deref() else {
        return Ok(());
    };
    let Reported {
        mean_ns,
        median_ns,
        p99_ns,
        max_ns,
        ..
    } = reported;
    for (field, value) in [
        ("reported.resolution_ns", &Some(reported.resolution_ns)),
        ("reported.deviation_ns", &reported.deviation_ns),
        ("reported.mean_ns", mean_ns),
        ("reported.median_ns", median_ns),
        ("reported.p99_ns", p99_ns),
        ("reported.max_ns", max_ns),
    ] {
        // 1e18 ns are 31 years.
        let is_time = |value: &f64| (0.0..1e18).contains(value);
        refuse(
            !value.iter().all(is_time),
            field,
            value.unwrap_or_default(),
            "which is no time",
        )?;
    }
    for (field, value, next, larger) in [
        ("reported.mean_ns", mean_ns, "max_ns", max_ns),
        ("reported.median_ns", median_ns, "p99_ns", p99_ns),
        ("reported.median_ns", median_ns, "max_ns", max_ns),
        ("reported.p99_ns", p99_ns, "max_ns", max_ns),
    ] {
        if let (Some(value), Some(larger)) = (value, larger) {
            let but = format!("but `{next}` is {larger}");
            refuse(*value > larger + reported.resolution_ns, field, value, but)?;
        }
    }
    Ok(())
}

fn refuse(is_so: bool, field: &str, value: impl Display, why: impl Display) -> Result<(), String> {
    if is_so {
        return Err(format!("`{field}` is {value}, {why}"));
    }
    Ok(())
}

/// A plausible speed in steps per microsecond: less than a hundred for each nanosecond.
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

    use lasthop_trial::{
        options::Engine,
        result::{ErrorClass, ErrorCount, FirstHalf, Offered, Speed},
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
        let requests = ours.try_clone().unwrap().into();
        Driver::greet(Lines::new(Some(requests), ours.into(), LONGEST).unwrap())
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

    /// Bounds of one connection with one request at a time.
    const BOUNDS: Bounds = Bounds {
        at_once: 1,
        together: 1,
        is_open: false,
        is_one_way: false,
    };

    /// Ten requests in 5 ms. lasthop waited for 6 ms.
    fn good() -> TrialResult {
        let mut times = Histogram::new();
        times.record_n(500_000, 10);
        TrialResult {
            requests: 10,
            requests_total: 12,
            service_time: Some(times),
            ..TrialResult::empty(Engine::Blocking, 5_000_000)
        }
    }

    fn judged(result: &TrialResult) -> Result<(), String> {
        possible(result, BOUNDS, Duration::from_millis(6))
    }

    /// The wrong field, and the change that made it wrong.
    type Change<'a> = (&'static str, &'a dyn Fn(&mut TrialResult));

    #[test]
    fn a_result_that_cannot_be_is_refused_by_its_field() {
        assert_eq!(judged(&good()), Ok(()));
        let times = |nanoseconds, count| {
            let mut times = Histogram::new();
            times.record_n(nanoseconds, count);
            Some(times)
        };
        let errors = |count| {
            let first = String::new();
            [ErrorClass::Reset, ErrorClass::Os]
                .map(|class| {
                    (
                        class,
                        ErrorCount {
                            count,
                            first: first.clone(),
                            ..ErrorCount::default()
                        },
                    )
                })
                .into()
        };
        let reported = |median, p99, max| {
            Some(Box::new(Reported {
                median_ns: Some(median),
                p99_ns: Some(p99),
                max_ns: Some(max),
                ..Reported::default()
            }))
        };
        let half = |requests, elapsed_ns| Some(FirstHalf { requests, elapsed_ns });
        let changes: [Change<'_>; 25] = [
            ("elapsed_ns", &|it| it.elapsed_ns = 0),
            ("elapsed_ns", &|it| it.elapsed_ns = 7_000_000),
            ("elapsed_ns", &|it| it.elapsed_ns = u64::MAX),
            ("ran_ns", &|it| it.ran_ns = Some(u64::MAX)),
            ("requests", &|it| it.requests = 13),
            ("requests_total", &|it| it.requests_total = 1_000_000),
            ("requests_total", &|it| it.requests_total = u64::MAX),
            ("errors", &|it| it.errors = errors(u64::MAX)),
            ("unanswered", &|it| it.unanswered = u64::MAX),
            ("sent_again", &|it| it.sent_again = u64::MAX),
            ("connections_opened", &|it| it.connections_opened = u64::MAX),
            ("bytes_received", &|it| it.bytes_received = 1 << 40),
            ("first_half.requests", &|it| it.first_half = half(11, 1)),
            ("first_half.elapsed_ns", &|it| it.first_half = half(5, 6_000_000)),
            ("service_time", &|it| it.service_time = times(500_000, 8)),
            ("service_time", &|it| it.service_time = times(10, 12)),
            ("service_time", &|it| it.service_time = times(700_000, 10)),
            ("response_time", &|it| it.response_time = times(500_000, 10)),
            ("offered", &|it| {
                it.offered = Some(Offered {
                    rate: 2_000.0,
                    scheduled: 10,
                    sent: 10,
                });
            }),
            ("one_way", &|it| it.one_way = Some(Box::default())),
            ("cost.user_ns", &|it| it.cost.user_ns = u64::MAX),
            ("cost.system_calls", &|it| it.cost.system_calls = u64::MAX),
            ("speed.after", &|it| {
                it.speed = Some(Speed {
                    before: 700.0,
                    after: f64::NAN,
                });
            }),
            ("reported.median_ns", &|it| it.reported = reported(3.0, 2.0, 4.0)),
            ("reported.p99_ns", &|it| {
                it.reported = reported(f64::NAN, 5.0, 4.0).map(|mut all| {
                    all.median_ns = None;
                    all
                })
            }),
        ];
        for (field, change) in changes {
            let mut result = good();
            change(&mut result);
            let why = judged(&result).expect_err(field);
            assert!(why.starts_with(&format!("`{field}` is ")), "{field}: {why}");
        }
        let mut lying = good();
        lying.requests = 13;
        assert_eq!(
            judged(&lying).unwrap_err(),
            "`requests` is 13, but `requests_total` is 12"
        );
    }

    #[test]
    fn what_overlaps_the_phase_is_possible() {
        // One request began before the phase or ended after it; several connections have several in flight.
        let mut result = good();
        for requests in [9, 11] {
            result.requests = requests;
            assert_eq!(judged(&result), Ok(()));
        }
        let mut slow = Histogram::new();
        slow.record_n(5_000_000, 10);
        result.service_time = Some(slow);
        let ten = Bounds { at_once: 10, ..BOUNDS };
        assert_eq!(possible(&result, ten, Duration::from_millis(6)), Ok(()));
        assert!(judged(&result).is_err());
    }

    #[test]
    fn a_result_of_another_case_is_refused() {
        let mut driver = scripted(vec![HELLO, "{\"closed\":{\"case\":\"b\"}}\n"]).unwrap();
        assert_eq!(
            driver.close("a").unwrap_err().to_string(),
            "the driver's reply has the `case` `b`, but `a` was asked for"
        );
    }

    #[test]
    fn a_field_that_is_no_number_is_named() {
        for (value, why) in [("-5", "invalid value: integer `-5`"), ("NaN", "expected value")] {
            let line = format!("{{\"trial\":{{\"case\":\"a\",\"result\":{{\"elapsed_ns\":1,\"requests\":{value}}}}}}}");
            let error = parse(line.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(&format!("trial.result.requests: {why}")), "{error}");
        }
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
