//! sysbench: a load generator of databases, closed loop, one connection a thread. It runs a script in Lua, and prints
//! times in milliseconds with two digits more.

use lasthop_protocol::{
    mysql::{Mysql, MysqlMode},
    result::{ErrorClass, Reported},
    spec::{Address, Reuse},
};

use super::{
    form,
    kind::{Order, Reading, Tool, cannot, in_closed_loop, speaking},
    psql::write,
};

pub static TOOL: Tool = Tool {
    version: ("--version", r"sysbench (\S+)"),
    speaks: |protocol| protocol.get::<Mysql>().is_some(),
    ..Tool::new("sysbench", arguments, |output, order, _| read(output, order))
};

fn arguments(order: &Order<'_>) -> Result<Vec<String>, String> {
    let spec = order.spec;
    let mysql: &Mysql = speaking(spec, "MySQL")?;
    if spec.endpoint.tls.is_some() {
        return cannot("use TLS without a client's certificate");
    }
    in_closed_loop(spec)?;
    // `]]` would end the string of Lua that the query is written in.
    if !mysql.parameters.is_empty() || mysql.query.contains("]]") {
        return cannot("pass parameters or `]]` in a query here");
    }
    // Every user of the machine can read arguments; the folder of the script is private.
    let password = format!("mysql-password={}\n", mysql.password.as_deref().unwrap_or_default());
    let mut arguments = vec![
        format!("--config-file={}", write(order, "sysbench.conf", &password)?),
        "--db-driver=mysql".to_owned(),
        format!("--mysql-user={}", mysql.user),
        format!("--mysql-db={}", mysql.database),
    ];
    match &spec.endpoint.address {
        Address::Unix(path) => arguments.push(format!("--mysql-socket={}", path.display())),
        Address::Tcp(address) => {
            arguments.extend([
                format!("--mysql-host={}", address.ip()),
                format!("--mysql-port={}", address.port()),
            ]);
        }
        other => return cannot(&format!("connect to {other}")),
    }
    arguments.extend(order.flags_or([
        format!("--threads={}", spec.connections),
        format!("--time={}", order.seconds),
    ]));
    arguments.extend([
        write(order, "sysbench.lua", script(mysql, spec.reuse))?,
        "run".to_owned(),
    ]);
    Ok(arguments)
}

fn script(mysql: &Mysql, reuse: Reuse) -> String {
    let query = format!("[[{}]]", mysql.query);
    let (prepare, ask) = match mysql.mode {
        MysqlMode::Simple => (String::new(), format!("connection:query({query})")),
        MysqlMode::Prepared => (
            format!("statement = connection:prepare({query})"),
            "statement:execute()".to_owned(),
        ),
    };
    let connect = format!("connection = driver:connect() {prepare}");
    let (first, each) = match reuse {
        Reuse::KeepAlive => (connect, ask),
        Reuse::PerRequest => (String::new(), format!("{connect} {ask} connection:disconnect()")),
    };
    format!("function thread_init() driver = sysbench.sql.driver() {first} end\nfunction event() {each} end\n")
}

const FORM: &[&str] = &[
    r"sysbench \S+ \(using .*\)",
    r"WARNING: Global option '\S+' will not be exported, because the type is unknown",
    r"\(last message repeated \d+ times\)",
    r"Running the test with following options:",
    r"Number of threads: (?P<threads>\d+)",
    r"Initializing (?:random number generator from current time|worker threads\.\.\.)",
    r"Threads started!",
    r"SQL statistics:",
    r"queries performed:",
    r"(?:read|write|other|total): +\d+",
    r"(?:transactions|queries|reconnects): +\d+ +\([0-9.]+ per sec\.\)",
    r"ignored errors: +(?P<ignored>\d+) +\([0-9.]+ per sec\.\)",
    r"General statistics:",
    r"total time: +(?P<time>[0-9.]+)s",
    r"total number of events: +(?P<events>\d+)",
    r"Latency \(ms\):",
    r"max: +(?P<max>[0-9.]+)",
    r"(?:min|avg|95th percentile): +[0-9.]+",
    r"sum: +(?P<sum>[0-9.]+)",
    r"Threads fairness:",
    r"(?:events|execution time) \(avg/stddev\): +[0-9.]+/[0-9.]+",
];

fn read(output: &str, order: &Order<'_>) -> Result<Reading, String> {
    let caught = form::read(FORM, output)?;
    let events = caught.count("events")?;
    let mean_ns = |sum: f64| sum / events.max(1) as f64;
    Ok(Reading {
        requests: events,
        rate: events as f64 / caught.number("time")?,
        errors: vec![(
            ErrorClass::WrongStatus,
            caught.count_if_any("ignored")?,
            "sysbench: ignored errors".to_owned(),
        )],
        connections: order.connections(events, caught.count("threads")?),
        reported: Reported {
            mean_ns: caught.milliseconds("sum")?.map(mean_ns),
            max_ns: caught.milliseconds("max")?,
            // The sum is exact to 0.01 ms, so the mean is finer than the average that sysbench prints.
            resolution_ns: mean_ns(1e4),
            ..Reported::default()
        },
        ..Reading::default()
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use lasthop_protocol::{Protocol, spec::Spec};

    use super::*;
    use crate::drive::testing::postgres_order;

    /// sysbench 1.0.20 (Debian): two connections for a second, a prepared statement.
    const OUTPUT: &str = include_str!("outputs/sysbench.txt");

    fn with_mysql<T>(mode: MysqlMode, reuse: Reuse, test: impl FnOnce(&Order<'_>) -> T) -> T {
        postgres_order(|order| {
            let query = "select 1".into();
            let protocol = Protocol::from(Mysql {
                user: "foo".into(),
                database: "bar".into(),
                password: Some("a'b".into()),
                cleartext: false,
                query,
                mode,
                parameters: vec![],
                expect: Default::default(),
            });
            let spec = Spec {
                protocol,
                reuse,
                ..order.spec.clone()
            };
            test(&Order { spec: &spec, ..order })
        })
    }

    #[test]
    fn a_real_output_is_read() {
        with_mysql(MysqlMode::Prepared, Reuse::KeepAlive, |order| {
            let reading = read(OUTPUT, order).unwrap();
            assert!(reading.rate > 1_000.0 && reading.connections == 2, "{reading:?}");
            let mean = reading.reported.mean_ns.unwrap();
            assert!(
                (mean * reading.rate / 2e9 - 1.0).abs() < 0.1,
                "two threads are never idle: {reading:?}"
            );
            let error = read("FATAL: error 1049: Unknown database 'nope'\n", order).unwrap_err();
            assert!(error.to_string().contains("Unknown database"), "{error}");
        });
    }

    #[test]
    fn a_password_is_in_a_file_and_the_query_in_a_script() {
        with_mysql(MysqlMode::Prepared, Reuse::KeepAlive, |order| {
            let arguments = arguments(order).unwrap();
            assert!(!arguments.concat().contains("a'b"), "{arguments:?}");
            assert_eq!(
                fs::read_to_string(order.scratch.join("sysbench.conf")).unwrap(),
                "mysql-password=a'b\n"
            );
            let script = fs::read_to_string(order.scratch.join("sysbench.lua")).unwrap();
            assert!(script.contains("connection:prepare([[select 1]]) end\n"), "{script}");
            assert!(
                script.ends_with("function event() statement:execute() end\n"),
                "{script}"
            );
        });
        with_mysql(MysqlMode::Simple, Reuse::PerRequest, |order| {
            arguments(order).unwrap();
            let script = fs::read_to_string(order.scratch.join("sysbench.lua")).unwrap();
            assert!(
                script.contains("event() connection = driver:connect()  connection:query([[select 1]])"),
                "{script}"
            );
        });
        let error = postgres_order(|order| TOOL.arguments(&order).unwrap_err());
        assert_eq!(
            error.to_string(),
            "sysbench speaks MySQL, but the case's protocol is PostgreSQL"
        );
    }
}
