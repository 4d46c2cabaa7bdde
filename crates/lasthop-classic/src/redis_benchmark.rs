//! redis-benchmark: closed loop with pipelining, TCP, Unix sockets and TLS. Stops by count; prints microseconds.
//!
//! redis-benchmark 7.0 takes a password as an argument and, unlike redis-cli, nowhere else.
//! A run says so.

use lasthop_protocol::{
    redis::Redis,
    result::Reported,
    spec::{Address, Reuse},
};

use super::{
    form,
    kind::{Order, Reading, Tool, cannot, in_closed_loop, speaking},
};

pub static TOOL: Tool = Tool {
    version: ("--version", r"redis-benchmark (\S+)"),
    package: "redis-tools",
    speaks: |protocol| protocol.get::<Redis>().is_some(),
    shows_password: |spec| {
        spec.protocol
            .get::<Redis>()
            .is_some_and(|redis| redis.password.is_some())
    },
    ..Tool::new("redis-benchmark", arguments, |output, order, _| read(output, order))
};

fn arguments(order: &Order<'_>) -> Result<Vec<String>, String> {
    let spec = order.spec;
    let redis: &Redis = speaking(spec, "Redis")?;
    in_closed_loop(spec)?;
    let mut arguments = match &spec.endpoint.address {
        Address::Tcp(address) => {
            vec![
                "-h".to_owned(),
                address.ip().to_string(),
                "-p".to_owned(),
                address.port().to_string(),
            ]
        }
        Address::Unix(path) => vec!["-s".to_owned(), path.display().to_string()],
        other => return cannot(&format!("connect to {other}")),
    };
    if let Some(tls) = &spec.endpoint.tls {
        arguments.extend(["--tls".to_owned(), "--sni".to_owned(), tls.server_name.clone()]);
        let authority = tls
            .authority
            .iter()
            .flat_map(|path| ["--cacert".to_owned(), path.display().to_string()]);
        arguments.extend(authority);
    }
    if let Some(password) = &redis.password {
        arguments.extend(["-a".to_owned(), password.clone()]);
        arguments.extend(
            redis
                .username
                .iter()
                .flat_map(|user| ["--user".to_owned(), user.clone()]),
        );
    }
    arguments.extend(order.flags_or([
        "-c".to_owned(),
        spec.connections.to_string(),
        "-n".to_owned(),
        order.count.to_string(),
        "-P".to_owned(),
        spec.pipeline.to_string(),
    ]));
    if spec.threads > 1 {
        arguments.extend(["--threads".to_owned(), spec.threads.to_string()]);
    }
    if spec.reuse == Reuse::PerRequest {
        arguments.extend(["-k".to_owned(), "0".to_owned()]);
    }
    arguments.extend(["--dbnum".to_owned(), redis.database.to_string(), "--csv".to_owned()]);
    // Last: redis-benchmark takes all that follows its options for the command.
    arguments.extend(redis.command.iter().cloned());
    Ok(arguments)
}

const FORM: &[&str] = &[
    r#""test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms","p99_latency_ms","max_latency_ms""#,
    r#"".*","(?P<rate>[0-9.]+)","(?P<mean>[0-9.]+)","[0-9.]+","(?P<median>[0-9.]+)","[0-9.]+","(?P<p99>[0-9.]+)","(?P<max>[0-9.]+)""#,
];

fn read(output: &str, order: &Order<'_>) -> Result<Reading, String> {
    let caught = form::read(FORM, output)?;
    // A wrong reply ends it, and then its output has another form.
    Ok(Reading {
        requests: order.count,
        rate: caught.number("rate")?,
        connections: order.connections(order.count, u64::from(order.spec.connections)),
        reported: Reported {
            mean_ns: caught.milliseconds("mean")?,
            median_ns: caught.milliseconds("median")?,
            p99_ns: caught.milliseconds("p99")?,
            max_ns: caught.milliseconds("max")?,
            // Bins of 8 µs: the lowest values that occur are 0.007, 0.015, 0.023.
            resolution_ns: 8e3,
            ..Reported::default()
        },
        ..Reading::default()
    })
}

#[cfg(test)]
mod tests {
    use lasthop_protocol::{Protocol, redis::RedisExpect, spec::Spec};

    use super::*;
    use crate::drive::testing::{http_order, words};

    /// redis-benchmark 7.0.15 (Debian) with a command of its own.
    const OUTPUT: &str = include_str!("outputs/redis-command.txt");

    fn spec(order: &Order<'_>) -> Spec {
        let mut spec = order.spec.clone();
        spec.protocol = Protocol::from(Redis {
            command: words("GET key"),
            expect: RedisExpect::Success,
            username: None,
            password: None,
            database: 0,
            protocol: Default::default(),
        });
        spec
    }

    #[test]
    fn a_real_output_is_read() {
        let reading = http_order(|order| read(OUTPUT, &order).unwrap());
        assert!(
            reading.rate > 10_000.0 && reading.reported.median_ns.unwrap() > 0.0,
            "{reading:?}"
        );
    }

    #[test]
    fn an_error_of_the_server_is_an_error() {
        let error = http_order(|order| read("Error from server: NOAUTH Authentication required.\n", &order));
        assert!(error.unwrap_err().to_string().contains("NOAUTH"));
    }

    #[test]
    fn the_command_of_the_case_is_sent() {
        let own = http_order(|order| {
            let spec = spec(&order);
            arguments(&Order { spec: &spec, ..order }).unwrap()
        });
        assert_eq!(
            own,
            words("-h 127.0.0.1 -p 8080 -c 10 -n 3 -P 1 --dbnum 0 --csv GET key")
        );
    }
}
