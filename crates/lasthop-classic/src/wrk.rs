//! wrk: HTTP/1.1, closed loop, TCP only. It corrects its latencies by an interval derived from their average
//! (`stats_correct`), so its percentiles beyond the median are not comparable with a plain record.

use lasthop_protocol::{
    http::Http,
    result::{ErrorClass, Reported},
    spec::Reuse,
};

use super::{
    form,
    kind::{Order, Reading, Tool},
    url,
};

pub static TOOL: Tool = Tool {
    version: ("--version", r"wrk (\S+)"),
    speaks: |protocol| protocol.get::<Http>().is_some(),
    ..Tool::new("wrk", arguments, |output, order, _| read(output, order))
};

fn arguments(order: &Order<'_>) -> Result<Vec<String>, String> {
    let http = url::http1(order.spec)?;
    let target = url::by_address(order.spec, http)?;
    let mut arguments = order.flags_or([
        format!("-t{}", order.spec.threads),
        format!("-c{}", order.spec.connections),
        format!("-d{}s", order.seconds),
        "--latency".to_owned(),
    ]);
    arguments.extend(url::headers(http));
    if order.spec.reuse == Reuse::PerRequest {
        arguments.extend(["-H".to_owned(), "Connection: close".to_owned()]);
    }
    arguments.push(target);
    Ok(arguments)
}

const FORM: &[&str] = &[
    r"Running \S+ test @ \S+",
    r"\d+ threads and (?P<connections>\d+) connections",
    r"Thread Stats +Avg +Stdev +Max +\+/- Stdev",
    r"Latency +(?P<mean>\S+) +(?P<deviation>\S+) +(?P<max>\S+) +[-0-9.na]+%",
    r"Req/Sec +\S+ +\S+ +\S+ +[-0-9.na]+%",
    r"Latency Distribution",
    r"50% +(?P<median>\S+)",
    r"(?:75|90)% +\S+",
    r"99% +(?P<p99>\S+)",
    r"(?P<requests>\d+) requests in (?P<time>\S+), (?P<read>[0-9.]+)(?P<unit>[KMGTP]?)B read",
    r"Socket errors: connect (?P<refused>\d+), read (?P<reading>\d+), write (?P<writing>\d+), timeout (?P<timeout>\d+)",
    r"Non-2xx or 3xx responses: (?P<status>\d+)",
    r"Requests/sec: +(?P<rate>[0-9.]+)",
    r"Transfer/sec: +\S+",
];

fn read(output: &str, order: &Order<'_>) -> Result<Reading, String> {
    let caught = form::read(FORM, output)?;
    let wrong = caught.count_if_any("status")?;
    let all = caught.count("requests")?;
    let rate = caught.number("rate")?;
    let requests = all.saturating_sub(wrong);
    let errors = [
        (ErrorClass::Refused, "refused", "wrk: connect"),
        (ErrorClass::Reset, "reading", "wrk: read"),
        (ErrorClass::Reset, "writing", "wrk: write"),
        (ErrorClass::Timeout, "timeout", "wrk: timeout"),
        (ErrorClass::WrongStatus, "status", "wrk: a status other than 2xx or 3xx"),
    ];
    let mut counted = Vec::new();
    for (class, name, text) in errors {
        counted.push((class, caught.count_if_any(name)?, text.to_owned()));
    }
    let connections = caught.count("connections")?;
    Ok(Reading {
        requests,
        // The rate counts wrong answers too.
        rate: rate * requests as f64 / all.max(1) as f64,
        bytes: bytes(caught.number("read")?, caught.text("unit")?),
        errors: counted,
        connections: order.connections(all, connections),
        reported: Reported {
            mean_ns: caught.duration("mean")?,
            deviation_ns: caught.duration("deviation")?,
            median_ns: caught.duration("median")?,
            p99_ns: caught.duration("p99")?,
            max_ns: caught.duration("max")?,
            resolution_ns: 1e3,
            caution: Some(
                "wrk corrects its histogram by an interval derived from the average, so use only its median".to_owned(),
            ),
            ..Reported::default()
        },
    })
}

/// wrk's units are powers of 1024.
fn bytes(number: f64, unit: &str) -> u64 {
    let power = match unit {
        "K" => 1,
        "M" => 2,
        "G" => 3,
        "T" => 4,
        "P" => 5,
        _ => 0,
    };
    (number * 1024_f64.powi(power)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::testing::{http_order, words};

    /// wrk 4.1.0 (Debian) against nginx 1.22.1.
    const OUTPUT: &str = include_str!("outputs/wrk.txt");
    const WRONG_STATUS: &str = include_str!("outputs/wrk-404.txt");

    #[test]
    fn a_real_output_is_read() {
        let reading = http_order(|order| read(OUTPUT, &order).unwrap());
        assert_eq!((reading.requests, reading.rate), (59_102, 58_650.74));
        assert_eq!(reading.bytes, 9_458_155, "9.02 MiB");
        assert_eq!(reading.reported.median_ns, Some(21_000.0));
        assert_eq!(reading.reported.max_ns, Some(5_440_000.0));
        assert!(reading.errors.iter().all(|(_, count, _)| *count == 0));
    }

    #[test]
    fn wrong_answers_are_errors_and_never_a_rate() {
        let reading = http_order(|order| read(WRONG_STATUS, &order).unwrap());
        assert_eq!((reading.requests, reading.rate), (0, 0.0));
        assert!(reading.errors.contains(&(
            ErrorClass::WrongStatus,
            58_790,
            "wrk: a status other than 2xx or 3xx".to_owned()
        )));
    }

    #[test]
    fn another_form_is_an_error() {
        let cut = OUTPUT.replace("Requests/sec:  58650.74\n", "");
        assert_eq!(
            http_order(|order| read(&cut, &order)).unwrap_err(),
            "its output lacks `rate`"
        );
        let strange = OUTPUT.replace("Transfer/sec", "Transfers/sec");
        assert!(
            http_order(|order| read(&strange, &order))
                .unwrap_err()
                .contains("unknown line")
        );
    }

    #[test]
    fn the_flags_of_a_study_replace_those_of_the_case() {
        let own = http_order(|order| arguments(&order).unwrap());
        assert_eq!(
            own,
            words("-t1 -c10 -d1s --latency -H 'Host: localhost' http://127.0.0.1:8080/x")
        );
        let flags = words("-d5s");
        let theirs = http_order(|order| arguments(&Order { flags: &flags, ..order }).unwrap());
        assert_eq!(theirs, words("-d5s -H 'Host: localhost' http://127.0.0.1:8080/x"));
    }
}
