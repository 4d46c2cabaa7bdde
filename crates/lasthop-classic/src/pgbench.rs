//! pgbench: PostgreSQL's load generator, closed loop. Prints the mean latency; milliseconds with three digits more.

use lasthop_protocol::{
    postgres::{Postgres, QueryMode},
    result::{ErrorClass, Reported},
    spec::Reuse,
};

use super::{
    form,
    kind::{Order, Reading, Tool, cannot},
    psql,
};

pub static TOOL: Tool = Tool {
    version: ("--version", r"pgbench \(PostgreSQL\) (\S+)"),
    // Debian has it in the package of the server: there is none with the client alone.
    package: "postgresql-contrib",
    speaks: |protocol| protocol.get::<Postgres>().is_some(),
    environment: psql::environment,
    ..Tool::new("pgbench", arguments, |output, order, _| read(output, order))
};

fn arguments(order: &Order<'_>) -> Result<Vec<String>, String> {
    let postgres = psql::postgres(order.spec)?;
    if !postgres.parameters.is_empty() {
        return cannot("pass parameters here");
    }
    let script = psql::write(order, "pgbench.sql", psql::statement(postgres))?;
    // Without -n pgbench vacuums its own tables first, which are not there.
    let mut arguments = vec!["-n".to_owned(), "-f".to_owned(), script];
    arguments.extend(order.flags_or([
        format!("-c{}", order.spec.connections),
        format!("-j{}", order.spec.threads),
        format!("-T{}", order.seconds),
    ]));
    if order.spec.reuse == Reuse::PerRequest {
        arguments.push("-C".to_owned());
    }
    let mode = match postgres.mode {
        QueryMode::Simple => "simple",
        QueryMode::Extended => "extended",
        QueryMode::Prepared => "prepared",
    };
    arguments.push(format!("-M{mode}"));
    arguments.push(order.spec.protocol.data_source(&order.spec.endpoint));
    Ok(arguments)
}

const FORM: &[&str] = &[
    r"pgbench \(.*\)",
    r"transaction type: .*",
    r"scaling factor: \d+",
    r"query mode: (?:simple|extended|prepared)",
    r"number of clients: (?P<clients>\d+)",
    r"number of threads: \d+",
    r"maximum number of tries: \d+",
    r"duration: \d+ s",
    r"number of transactions per client: \d+",
    r"number of transactions actually processed: (?P<requests>\d+)(?:/\d+)?",
    r"number of failed transactions: (?P<failed>\d+) \(.*%\)",
    r"latency average = (?P<mean>[0-9.]+) ms",
    r"latency stddev = (?P<deviation>[0-9.]+) ms",
    r"(?:initial|average) connection time = [0-9.]+ ms",
    r"tps = (?P<rate>[0-9.]+) \((?:without initial connection time|including reconnection times)\)",
];

fn read(output: &str, order: &Order<'_>) -> Result<Reading, String> {
    let caught = form::read(FORM, output)?;
    let requests = caught.count("requests")?;
    Ok(Reading {
        requests,
        rate: caught.number("rate")?,
        errors: vec![(
            ErrorClass::WrongStatus,
            caught.count_if_any("failed")?,
            "pgbench: failed transactions".to_owned(),
        )],
        connections: order.connections(requests, caught.count("clients")?),
        reported: Reported {
            mean_ns: caught.milliseconds("mean")?,
            deviation_ns: caught.milliseconds("deviation")?,
            resolution_ns: 1e3,
            ..Reported::default()
        },
        ..Reading::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::testing::postgres_order;

    /// pgbench 15.18 (Debian): connections kept for a second; a connection for each of 200 transactions.
    const OUTPUT: &str = include_str!("outputs/pgbench.txt");
    const RECONNECT: &str = include_str!("outputs/pgbench-C.txt");

    #[test]
    fn real_outputs_are_read() {
        postgres_order(|order| {
            let reading = read(OUTPUT, &order).unwrap();
            assert_eq!(
                (reading.requests, reading.rate, reading.connections),
                (68_422, 68_668.382_155, 2)
            );
            assert_eq!(reading.reported.mean_ns, Some(29_000.0));
            assert_eq!(read(RECONNECT, &order).unwrap().requests, 200);
        });
    }

    #[test]
    fn an_aborted_client_is_an_error() {
        let aborted = format!("pgbench: error: client 0 script 0 aborted in command 0\n{OUTPUT}");
        postgres_order(|order| assert!(read(&aborted, &order).unwrap_err().contains("unknown line")));
    }

    #[test]
    fn the_query_is_a_script() {
        postgres_order(|order| {
            let arguments = arguments(&order).unwrap();
            assert_eq!(arguments[3..7], ["-c1", "-j1", "-T1", "-Msimple"]);
        });
    }
}
