//! h2load of nghttp2, here for HTTP/1.1: closed loop, TCP and Unix sockets, TLS over TCP.

use lasthop_load::{
    protocol::http::Http,
    result::{ErrorClass, Reported},
    spec::{Address, Reuse},
};

use super::{
    form::{self, Misread},
    kind::{Order, Reading, Tool, Unable},
    url,
};

const NAME: &str = "h2load";

pub static TOOL: Tool = Tool {
    version: ("--version", r"nghttp2/(\S+)"),
    package: "nghttp2-client",
    speaks: |protocol| protocol.get::<Http>().is_some(),
    ..Tool::new(NAME, arguments, |output, order, _| read(output, order))
};

fn arguments(order: &Order<'_>) -> Result<Vec<String>, Unable> {
    let http = url::http(NAME, order.spec)?;
    let cannot = |what: &str| Err(Unable::Mode { tool: NAME, what: what.to_owned() });
    if order.spec.reuse == Reuse::PerRequest {
        return cannot("open a connection for each request");
    }
    let mut arguments = vec!["--h1".to_owned()];
    match order.flags {
        [] => arguments.extend([
            format!("-t{}", order.spec.threads),
            format!("-c{}", order.spec.connections),
            format!("-D{}", order.seconds),
            // A Host header beside the authority would be sent twice.
        ]),
        flags => arguments.extend(flags.iter().cloned()),
    }
    let further = http.headers.iter().flat_map(|(name, value)| ["-H".to_owned(), format!("{name}: {value}")]);
    arguments.extend(further);
    let scheme = url::scheme(order.spec);
    match &order.spec.endpoint.address {
        Address::Tcp(address) => {
            let (ip, port) = (address.ip(), address.port());
            arguments.push(format!("--connect-to={ip}:{port}"));
            arguments.push(format!("{scheme}://{}:{port}{}", http.host, http.path));
        }
        Address::Unix(path) if order.spec.endpoint.tls.is_none() => {
            arguments.extend(["-B".to_owned(), format!("unix:{}", path.display())]);
            arguments.push(format!("{scheme}://{}{}", http.host, http.path));
        }
        Address::Unix(_) => return cannot("verify TLS over a Unix socket here"),
        other => return cannot(&format!("connect to {other}")),
    }
    Ok(arguments)
}

const FORM: &[&str] = &[
    r"starting benchmark\.\.\.",
    r"spawning thread #\d+: .*",
    r"Warm-up (?:started|phase is over) for thread #\d+\.",
    r"Main benchmark duration is (?:started|over) for thread #\d+\..*",
    r"Stopped all clients for thread #\d+",
    r"progress: \d+% .*",
    r"Application protocol: http/1\.1",
    r"(?:TLS Protocol|Cipher|Server Temp Key): .*",
    r"finished in \S+, (?P<rate>[0-9.]+) req/s, \S+",
    r"requests: (?P<total>\d+) total, \d+ started, (?P<done>\d+) done, (?P<succeeded>\d+) succeeded, (?P<failed>\d+) failed, (?P<errored>\d+) errored, (?P<timeout>\d+) timeout",
    r"status codes: (?P<right>\d+) 2xx, (?P<s3>\d+) 3xx, (?P<s4>\d+) 4xx, (?P<s5>\d+) 5xx",
    r"traffic: \S+ \(\d+\) total, \S+ \(\d+\) headers \(space savings \S+\), \S+ \((?P<bytes>\d+)\) data",
    r"min +max +mean +sd +\+/- sd",
    r"time for request: +\S+ +(?P<max>\S+) +(?P<mean>\S+) +(?P<deviation>\S+) +\S+",
    r"time (?:for connect|to 1st byte): .*",
    r"req/s +: .*",
];

fn read(output: &str, order: &Order<'_>) -> Result<Reading, Misread> {
    let caught = form::read(FORM, output)?;
    let right = caught.count("right")?;
    let done = caught.count("done")?.max(1);
    let wrong = caught.count("s3")? + caught.count("s4")? + caught.count("s5")?;
    Ok(Reading {
        requests: right,
        rate: caught.number("rate")? * right as f64 / done as f64,
        bytes: caught.count("bytes")?,
        errors: vec![
            (ErrorClass::WrongStatus, wrong, "h2load: a status other than 2xx".to_owned()),
            (ErrorClass::Timeout, caught.count("timeout")?, "h2load: timeout".to_owned()),
            (ErrorClass::Reset, caught.count("errored")?, "h2load: errored".to_owned()),
        ],
        connections: u64::from(order.spec.connections),
        reported: Reported {
            tool: "h2load".to_owned(),
            mean_ns: caught.duration("mean")?,
            deviation_ns: caught.duration("deviation")?,
            median_ns: None,
            p99_ns: None,
            max_ns: caught.duration("max")?,
            resolution_ns: 1e3,
            caution: None,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::testing::{http_order, words};

    /// h2load of nghttp2 1.52.0 against nginx 1.22.1, over TCP and over a Unix socket.
    const OUTPUT: &str = include_str!("outputs/h2load.txt");
    const UNIX: &str = include_str!("outputs/h2load-unix.txt");

    #[test]
    fn real_outputs_are_read() {
        let reading = http_order(|order| read(OUTPUT, &order).unwrap());
        assert_eq!((reading.requests, reading.rate), (32_229, 32_229.0));
        assert_eq!(reading.reported.mean_ns, Some(60_000.0));
        let reading = http_order(|order| read(UNIX, &order).unwrap());
        assert_eq!((reading.requests, reading.rate, reading.bytes), (500, 41_240.51, 6_000));
    }

    #[test]
    fn another_form_is_an_error() {
        let other = OUTPUT.replace("http/1.1", "h2");
        assert!(matches!(http_order(|order| read(&other, &order)).unwrap_err(), Misread::Line(_)));
    }

    #[test]
    fn it_opens_unix_sockets() {
        let own = http_order(|order| arguments(&order).unwrap());
        assert_eq!(own, words("--h1 -t1 -c10 -D1 --connect-to=127.0.0.1:8080 http://localhost:8080/x"));
        let unix = http_order(|order| {
            let mut spec = order.spec.clone();
            spec.endpoint.address = Address::Unix("/run/x.sock".into());
            arguments(&Order { spec: &spec, ..order }).unwrap()
        });
        assert_eq!(unix[4..], words("-B unix:/run/x.sock http://localhost/x"));
    }
}
