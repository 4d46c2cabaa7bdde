//! h2load of nghttp2, here for HTTP/1.1, HTTP/2 and gRPC: closed loop, TCP and Unix sockets, TLS over TCP. It looks at the
//! status of HTTP alone, so that a call that fails is known by the message that is missing.

use lasthop_protocol::{
    grpc::Grpc,
    http::Http,
    kind::ProtocolSpec as _,
    result::{ErrorClass, Reported},
    spec::{Address, Reuse},
};

use super::{
    form,
    kind::{Order, Reading, Tool, cannot, in_closed_loop},
    psql, url,
};

pub static TOOL: Tool = Tool {
    version: ("--version", r"nghttp2/(\S+)"),
    package: "nghttp2-client",
    speaks: |protocol| protocol.get::<Http>().is_some() || protocol.get::<Grpc>().is_some(),
    ..Tool::new("h2load", arguments, |output, order, _| read(output, order))
};

/// A request without its address.
struct Asked<'a> {
    host: &'a str,
    path: String,
    arguments: Vec<String>,
}

fn headers<'a>(all: impl Iterator<Item = (&'a str, &'a str)>) -> impl Iterator<Item = String> {
    all.flat_map(|(name, value)| ["-H".to_owned(), format!("{name}: {value}")])
}

fn call<'a>(order: &Order<'_>, grpc: &'a Grpc) -> Result<Asked<'a>, String> {
    in_closed_loop(order.spec)?;
    // It would send the next call as soon as one of them has its reply.
    if order.spec.pipeline > 1 {
        return cannot("wait for all streams of a connection");
    }
    let mut arguments = vec![
        "-m1".to_owned(),
        "-d".to_owned(),
        psql::write(order, "message", grpc.data())?,
    ];
    arguments.extend(headers(
        // gRPC over HTTP/2 requires both of a call.
        [("content-type", "application/grpc"), ("te", "trailers")]
            .into_iter()
            .chain(
                grpc.metadata
                    .iter()
                    .map(|(name, value)| (name.as_str(), value.as_str())),
            ),
    ));
    Ok(Asked {
        host: &grpc.host,
        path: format!("/{}", grpc.method),
        arguments,
    })
}

fn get(http: &Http) -> Asked<'_> {
    let version = if http.is_second() { "-m1" } else { "--h1" };
    let mut arguments = vec![version.to_owned()];
    // A Host header beside the authority would be sent twice.
    arguments.extend(headers(
        http.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())),
    ));
    Asked {
        host: &http.host,
        path: http.path.clone(),
        arguments,
    }
}

fn arguments(order: &Order<'_>) -> Result<Vec<String>, String> {
    let Asked {
        host,
        path,
        mut arguments,
    } = match order.spec.protocol.get::<Grpc>() {
        Some(grpc) => call(order, grpc)?,
        None => get(url::http(order.spec)?),
    };
    if order.spec.reuse == Reuse::PerRequest {
        return cannot("open a connection for each request");
    }
    arguments.extend(order.flags_or([
        format!("-t{}", order.spec.threads),
        format!("-c{}", order.spec.connections),
        format!("-D{}", order.seconds),
    ]));
    let scheme = url::scheme(order.spec);
    match &order.spec.endpoint.address {
        Address::Tcp(address) => {
            let ip = address.ip();
            let port = address.port();
            arguments.push(format!("--connect-to={ip}:{port}"));
            arguments.push(format!("{scheme}://{host}:{port}{path}"));
        }
        Address::Unix(socket) if order.spec.endpoint.tls.is_none() => {
            arguments.extend(["-B".to_owned(), format!("unix:{}", socket.display())]);
            arguments.push(format!("{scheme}://{host}{path}"));
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
    r"Application protocol: (?P<protocol>http/1\.1|h2c?)",
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

fn read(output: &str, order: &Order<'_>) -> Result<Reading, String> {
    let caught = form::read(FORM, output)?;
    let protocol = caught.text("protocol")?;
    let grpc = order.spec.protocol.get::<Grpc>();
    let wants_h2 = grpc.is_some() || order.spec.protocol.get().is_some_and(Http::is_second);
    if wants_h2 != protocol.starts_with("h2") {
        return Err(form::unknown_line(&format!("Application protocol: {protocol}")));
    }
    let answered = caught.count("right")?;
    // What precedes a message has five bytes.
    let replies = |length: u64| caught.count("bytes").map(|bytes| bytes / (length + 5));
    let right = answered.min(grpc.and_then(Grpc::payload).map_or(Ok(answered), replies)?);
    let done = caught.count("done")?.max(1);
    let wrong = caught.count("s3")? + caught.count("s4")? + caught.count("s5")?;
    Ok(Reading {
        requests: right,
        // h2load's rate is of all that is done, wrong or right.
        rate: caught.number("rate")? * right as f64 / done as f64,
        bytes: caught.count("bytes")?,
        errors: vec![
            (
                ErrorClass::WrongContent,
                answered - right,
                "h2load: calls without the message".to_owned(),
            ),
            (
                ErrorClass::WrongStatus,
                wrong,
                "h2load: a status other than 2xx".to_owned(),
            ),
            (
                ErrorClass::Timeout,
                caught.count("timeout")?,
                "h2load: timeout".to_owned(),
            ),
            (
                ErrorClass::Reset,
                caught.count("errored")?,
                "h2load: errored".to_owned(),
            ),
        ],
        connections: u64::from(order.spec.connections),
        reported: Reported {
            mean_ns: caught.duration("mean")?,
            deviation_ns: caught.duration("deviation")?,
            max_ns: caught.duration("max")?,
            resolution_ns: 1e3,
            ..Reported::default()
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lasthop_protocol::grpc::GrpcExpect;

    use crate::drive::testing::{grpc_order, http_order, words};

    /// h2load of nghttp2 1.52.0 against nginx 1.22.1, over TCP and over a Unix socket.
    const OUTPUT: &str = include_str!("outputs/h2load.txt");
    const UNIX: &str = include_str!("outputs/h2load-unix.txt");
    /// The same h2load against grpcio 1.85.1: calls of 71 bytes with two connections, and of a method that there is
    /// not.
    const GRPC: &str = include_str!("outputs/h2load-grpc.txt");
    const UNKNOWN: &str = include_str!("outputs/h2load-grpc-unknown.txt");

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
        assert!(
            http_order(|order| read(&other, &order))
                .unwrap_err()
                .contains("unknown line")
        );
    }

    #[test]
    fn it_opens_unix_sockets() {
        let own = http_order(|order| arguments(&order).unwrap());
        assert_eq!(
            own,
            words("--h1 -t1 -c10 -D1 --connect-to=127.0.0.1:8080 http://localhost:8080/x")
        );
        let unix = http_order(|order| {
            let mut spec = order.spec.clone();
            spec.endpoint.address = Address::Unix("/run/x.sock".into());
            arguments(&Order { spec: &spec, ..order }).unwrap()
        });
        assert_eq!(unix[4..], words("-B unix:/run/x.sock http://localhost/x"));
    }

    #[test]
    fn calls_of_grpc_are_read_and_those_without_a_message_are_errors() {
        let read = |output| {
            grpc_order(|order| {
                let mut spec = order.spec.clone();
                let Some(Grpc { method, host, .. }) = spec.protocol.get::<Grpc>().cloned() else {
                    unreachable!()
                };
                spec.protocol = Grpc {
                    method,
                    host,
                    size: 64,
                    expect: GrpcExpect::Echo,
                    ..Grpc::default()
                }
                .into();
                read(output, &Order { spec: &spec, ..order }).unwrap()
            })
        };
        let reading = read(GRPC);
        assert_eq!(
            (
                reading.requests,
                reading.errors.iter().map(|error| error.1).sum::<u64>()
            ),
            (2_968, 0)
        );
        let reading = read(UNKNOWN);
        assert_eq!((reading.requests, reading.errors[0].1), (0, 20));
        assert!(
            grpc_order(|order| super::read(UNIX, &order))
                .unwrap_err()
                .contains("unknown line")
        );
    }

    #[test]
    fn a_call_is_a_file_and_two_fields() {
        grpc_order(|order| {
            let own = arguments(&order).unwrap();
            let file = order.scratch.join("message");
            assert_eq!(std::fs::read(&file).unwrap(), b"\0\0\0\0\x07\x0a\x05Hello");
            let call = format!(
                "-m1 -d {} -H 'content-type: application/grpc' -H 'te: trailers'",
                file.display()
            );
            assert_eq!(
                own,
                words(&format!(
                    "{call} -t1 -c2 -D1 -B unix:/run/x.sock http://localhost/a.B/C"
                ))
            );
            let spec = lasthop_protocol::spec::Spec {
                pipeline: 16,
                ..order.spec.clone()
            };
            let unable = TOOL.arguments(&Order { spec: &spec, ..order }).unwrap_err();
            assert_eq!(unable.to_string(), "h2load cannot wait for all streams of a connection");
        });
    }
}
