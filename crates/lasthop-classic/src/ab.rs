//! ab, the Apache benchmark: HTTP/1.0, closed loop, TCP only. It prints milliseconds, with three decimals for means.

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
    version: ("-V", r"ApacheBench, Version (\S+)"),
    package: "apache2-utils",
    speaks: |protocol| protocol.get::<Http>().is_some(),
    ..Tool::new("ab", arguments, |output, _, _| read(output))
};

/// ab stops by time but also needs a count, with 32 bytes of memory for each request: this many times what lasthop
/// sends.
const ROOM: u64 = 4;

fn arguments(order: &Order<'_>) -> Result<Vec<String>, String> {
    let http = url::http1(order.spec)?;
    let target = url::by_address(order.spec, http)?;
    // -n after -t: -t sets a count of its own.
    // -l: otherwise every reply whose length differs from the first one's counts as failed.
    let mut arguments = order.flags_or([
        "-t".to_owned(),
        order.seconds.to_string(),
        "-n".to_owned(),
        order.count.max(1).saturating_mul(ROOM).to_string(),
        "-c".to_owned(),
        order.spec.connections.to_string(),
        "-l".to_owned(),
    ]);
    arguments.push("-q".to_owned());
    if order.spec.reuse == Reuse::KeepAlive && order.flags.is_empty() {
        arguments.push("-k".to_owned());
    }
    arguments.extend(url::headers(http));
    arguments.push(target);
    Ok(arguments)
}

const FORM: &[&str] = &[
    r"This is ApacheBench, Version .*",
    r"Copyright .*",
    r"Licensed to .*",
    r"Benchmarking .*",
    r"..done",
    r"Server (?:Software|Hostname|Port): .*",
    r"Server Software:",
    r"(?:SSL/TLS Protocol|Server Temp Key|TLS Server Name): .*",
    r"Document (?:Path|Length): .*",
    r"Concurrency Level: +(?P<concurrency>\d+)",
    r"Time taken for tests: +(?P<time>[0-9.]+) seconds",
    r"Complete requests: +(?P<requests>\d+)",
    r"Failed requests: +(?P<failed>\d+)",
    r"\(Connect: \d+, Receive: \d+, Length: \d+, Exceptions: \d+\)",
    r"Write errors: +\d+",
    r"Non-2xx responses: +(?P<status>\d+)",
    r"Keep-Alive requests: +(?P<kept>\d+)",
    r"Total transferred: +(?P<bytes>\d+) bytes",
    r"HTML transferred: +\d+ bytes",
    r"Requests per second: +(?P<rate>[0-9.]+) \[#/sec\] \(mean\)",
    r"Time per request: +(?P<mean>[0-9.]+) \[ms\] \(mean\)",
    r"Time per request: +[0-9.]+ \[ms\] \(mean, across all concurrent requests\)",
    r"Transfer rate: .*",
    r"Connection Times \(ms\)",
    r"min +mean\[\+/-sd\] median +max",
    r"(?:Connect|Processing|Waiting): +\d+ +\d+ +[0-9.]+ +\d+ +\d+",
    r"Total: +\d+ +\d+ +(?P<deviation>[0-9.]+) +(?P<median>\d+) +(?P<max>\d+)",
    r"(?:WARNING|ERROR): The median and mean .*",
    r"These results are probably not that reliable\.",
    r"deviation apart\. These results are NOT reliable\.",
    r"Percentage of the requests served within a certain time \(ms\)",
    r"(?:50|66|75|80|90|95|98)% +\d+",
    r"99% +(?P<p99>\d+)",
    r"100% +\d+ \(longest request\)",
];

fn read(output: &str) -> Result<Reading, String> {
    let caught = form::read(FORM, output)?;
    let wrong = caught.count_if_any("status")?;
    let failed = caught.count("failed")?;
    let all = caught.count("requests")?;
    // One reply may be in both counts, so they are not added.
    let requests = all.saturating_sub(wrong.max(failed));
    let rate = caught.number("rate")?;
    let text = |what: &str| format!("ab: {what}");
    Ok(Reading {
        requests,
        rate: rate * requests as f64 / all.max(1) as f64,
        bytes: caught.count("bytes")?,
        errors: vec![
            (ErrorClass::WrongStatus, wrong, text("a status other than 2xx")),
            (ErrorClass::WrongContent, failed, text("failed requests")),
        ],
        connections: match caught.count_if_any("kept")? {
            0 => all,
            kept => all.saturating_sub(kept) + caught.count("concurrency")?,
        },
        reported: Reported {
            mean_ns: caught.milliseconds("mean")?,
            deviation_ns: caught.milliseconds("deviation")?,
            median_ns: caught.milliseconds("median")?,
            p99_ns: caught.milliseconds("p99")?,
            max_ns: caught.milliseconds("max")?,
            resolution_ns: 1e6,
            caution: Some("ab's percentiles are whole milliseconds; its mean has microseconds".to_owned()),
            ..Reported::default()
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::testing::{http_order, words};

    /// ab 2.3 of apache2-utils 2.4.71 against nginx 1.22.1.
    const OUTPUT: &str = include_str!("outputs/ab.txt");
    const WRONG_STATUS: &str = include_str!("outputs/ab-404.txt");

    #[test]
    fn a_real_output_is_read() {
        let reading = read(OUTPUT).unwrap();
        assert_eq!(
            (reading.requests, reading.rate, reading.connections),
            (1_000, 11_621.15, 1_000)
        );
        assert_eq!(reading.reported.mean_ns, Some(86_000.0));
        assert_eq!(reading.reported.p99_ns, Some(2e6));
    }

    #[test]
    fn wrong_answers_are_errors_and_kept_connections_are_counted() {
        let reading = read(WRONG_STATUS).unwrap();
        assert_eq!((reading.requests, reading.rate, reading.connections), (0, 0.0, 4));
        assert_eq!(reading.errors[0].1, 56_310);
    }

    #[test]
    fn what_ab_thinks_of_its_own_results_is_no_figure() {
        let doubt = "ERROR: The median and mean for the initial connection time are more than twice the standard\n       \
                     deviation apart. These results are NOT reliable.\nPercentage of";
        let doubted = OUTPUT.replace("Percentage of", doubt);
        assert_ne!(doubted, OUTPUT);
        assert_eq!(read(&doubted).unwrap().requests, 1_000);
    }

    #[test]
    fn another_form_is_an_error() {
        let error = read(&OUTPUT.replace("Failed requests", "Faulty requests")).unwrap_err();
        assert!(error.to_string().contains("Faulty"), "{error}");
    }

    #[test]
    fn flags_of_a_study_or_of_the_case() {
        let flags = words("-n 1000 -c 1 -l");
        let theirs = http_order(|order| arguments(&Order { flags: &flags, ..order }).unwrap());
        assert_eq!(
            theirs,
            words("-n 1000 -c 1 -l -q -H 'Host: localhost' http://127.0.0.1:8080/x")
        );
        let own = http_order(|order| arguments(&order).unwrap());
        assert_eq!(own[..8], words("-t 1 -n 12 -c 10 -l -q"));
        assert!(own.contains(&"-k".to_owned()));
    }
}
