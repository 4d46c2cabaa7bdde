//! httperf: HTTP, one request after the other, TCP only. Times in tenths of a millisecond.

use lasthop_protocol::{
    http::Http,
    result::{ErrorClass, Reported},
    spec::Reuse,
};

use super::{
    form,
    kind::{Order, Reading, Tool, cannot},
    url,
};

pub static TOOL: Tool = Tool {
    version: ("--version", r"httperf-(\S+)"),
    speaks: |protocol| protocol.get::<Http>().is_some(),
    ..Tool::new("httperf", arguments, |output, _, _| read(output))
};

fn arguments(order: &Order<'_>) -> Result<Vec<String>, String> {
    let http = url::http1(order.spec)?;
    let address = url::tcp(order.spec)?;
    if order.spec.connections != 1 && order.flags.is_empty() {
        return cannot("hold several connections in a closed loop; use connections=1");
    }
    if order.spec.endpoint.tls.is_some() {
        return cannot("use TLS here");
    }
    let (connections, calls) = match order.spec.reuse {
        Reuse::PerRequest => (order.count, 1),
        Reuse::KeepAlive => (1, order.count),
    };
    let mut arguments = vec![
        // Without it httperf takes its ports from 1,024 to 5,000 only, too few for a connection per request.
        "--hog".to_owned(),
        format!("--server={}", address.ip()),
        format!("--port={}", address.port()),
        format!("--server-name={}", http.host),
        format!("--uri={}", http.path),
    ];
    arguments.extend(
        http.headers
            .iter()
            // httperf ends no header by itself; it reads `\n` as an escape.
            .map(|(name, value)| format!("--add-header={name}: {value}\\n")),
    );
    arguments.extend(order.flags_or([format!("--num-conns={connections}"), format!("--num-calls={calls}")]));
    Ok(arguments)
}

const FORM: &[&str] = &[
    r"httperf(?: .*|: warning: open file limit > FD_SETSIZE; .*)",
    r"Maximum connect burst length: \d+",
    r"Total: connections (?P<connections>\d+) requests (?P<sent>\d+) replies (?P<replies>\d+) test-duration (?P<time>[0-9.]+) s",
    r"Connection rate: .*",
    r"Connection time \[ms\]: min \S+ avg \S+ max \S+ median \S+ stddev \S+",
    r"Connection time \[ms\]: connect [0-9.]+",
    r"Connection length \[replies/conn\]: \S+",
    r"Request rate: (?P<rate>[0-9.]+) req/s .*",
    r"Request size \[B\]: \S+",
    r"Reply rate \[replies/s\]: .*",
    r"Reply time \[ms\]: response [0-9.]+ transfer [0-9.]+",
    r"Reply size \[B\]: header \S+ content \S+ footer \S+ \(total (?P<size>[0-9.]+)\)",
    r"Reply status: 1xx=\d+ 2xx=(?P<right>\d+) 3xx=(?P<s3>\d+) 4xx=(?P<s4>\d+) 5xx=(?P<s5>\d+)",
    r"CPU time \[s\]: .*",
    r"Net I/O: .*",
    r"Errors: total (?P<errors>\d+) client-timo (?P<timeout>\d+) socket-timo \d+ connrefused (?P<refused>\d+) connreset (?P<reset>\d+)",
    r"Errors: fd-unavail (?P<files>\d+) addrunavail (?P<ports>\d+) ftab-full \d+ other (?P<other>\d+)",
];

fn read(output: &str) -> Result<Reading, String> {
    let caught = form::read(FORM, output)?;
    let right = caught.count("right")?;
    let sent = caught.count("sent")?.max(1);
    let wrong = caught.count("s3")? + caught.count("s4")? + caught.count("s5")?;
    let mut errors = vec![(
        ErrorClass::WrongStatus,
        wrong,
        "httperf: a status other than 2xx".to_owned(),
    )];
    for (class, name) in [
        (ErrorClass::Timeout, "timeout"),
        (ErrorClass::Refused, "refused"),
        (ErrorClass::Reset, "reset"),
        (ErrorClass::NoPort, "ports"),
        (ErrorClass::Os, "files"),
        (ErrorClass::Os, "other"),
    ] {
        errors.push((class, caught.count(name)?, format!("httperf: {name}")));
    }
    let rate = caught.number("rate")?;
    Ok(Reading {
        requests: right,
        rate: rate * right as f64 / sent as f64,
        bytes: (caught.number("size")? * right as f64) as u64,
        errors,
        connections: caught.count("connections")?,
        reported: Reported {
            // One request after the other: the inverse of the rate, which it prints as ms/req.
            mean_ns: (rate > 0.0).then(|| 1e9 / rate),
            resolution_ns: 1e5,
            caution: Some("httperf prints tenths of a millisecond".to_owned()),
            ..Reported::default()
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::testing::http_order;

    /// httperf 0.9.0 (Debian) against nginx 1.22.1.
    const OUTPUT: &str = include_str!("outputs/httperf.txt");

    #[test]
    fn a_real_output_is_read() {
        let reading = read(OUTPUT).unwrap();
        assert_eq!(
            (reading.requests, reading.rate, reading.connections),
            (1_000, 24_551.4, 1)
        );
        assert_eq!(reading.bytes, 160_000);
        assert!(reading.errors.iter().all(|(_, count, _)| *count == 0));
    }

    #[test]
    fn a_crash_is_not_a_number() {
        let crashed = format!("{OUTPUT}\n*** buffer overflow detected ***: terminated\n");
        assert!(read(&crashed).unwrap_err().to_string().contains("buffer overflow"));
    }

    #[test]
    fn only_one_connection_and_the_count_of_the_trial() {
        let error = http_order(|order| arguments(&order).unwrap_err());
        assert!(error.to_string().contains("connections=1"), "{error}");
        let flags = ["--num-conns=1000".to_owned()];
        let theirs = http_order(|order| arguments(&Order { flags: &flags, ..order }).unwrap());
        assert_eq!(theirs.last().unwrap(), "--num-conns=1000");
    }
}
