//! psql: PostgreSQL's own client, one connection. It measures no time, so the time is that of the whole process, which
//! includes starting psql and reading the script, as in the study of 2020.

use std::fs;

use lasthop_protocol::{
    postgres::{Postgres, QueryMode},
    result::Reported,
    spec::{Reuse, Spec},
};

use super::{
    form,
    kind::{Order, Reading, Tool, cannot, in_closed_loop, speaking},
};

pub static TOOL: Tool = Tool {
    version: ("--version", r"psql \(PostgreSQL\) (\S+)"),
    package: "postgresql-client",
    speaks: |protocol| protocol.get::<Postgres>().is_some(),
    environment,
    repeats,
    is_timed_from_outside: true,
    ..Tool::new("psql", arguments, read)
};

fn arguments(order: &Order<'_>) -> Result<Vec<String>, String> {
    let postgres = postgres(order.spec)?;
    if order.spec.connections != 1 {
        return cannot("hold more than one connection");
    }
    if postgres.mode != QueryMode::Simple || !postgres.parameters.is_empty() {
        return cannot("send any but simple queries");
    }
    // -X: a user's ~/.psqlrc could change the connection and the output.
    let mut arguments: Vec<String> = ["-X", "-q", "-v", "ON_ERROR_STOP=1", "-o", "/dev/null"]
        .map(str::to_owned)
        .to_vec();
    arguments.extend(order.flags.iter().cloned());
    if repeats(order) > 1 {
        arguments.extend(["-c".to_owned(), postgres.query.clone()]);
    } else {
        let script = statement(postgres).repeat(usize::try_from(order.count).unwrap_or(usize::MAX));
        arguments.extend(["-f".to_owned(), write(order, "psql.sql", &script)?]);
    }
    arguments.push(order.spec.protocol.data_source(&order.spec.endpoint));
    Ok(arguments)
}

/// How often the program runs: a connection for each request means a psql for each.
fn repeats(order: &Order<'_>) -> u64 {
    if order.spec.reuse == Reuse::PerRequest {
        order.count.max(1)
    } else {
        1
    }
}

/// It says nothing unless something is wrong.
fn read(output: &str, order: &Order<'_>, elapsed_ns: u64) -> Result<Reading, String> {
    form::read(&[], output)?;
    let mean = elapsed_ns as f64 / order.count.max(1) as f64;
    Ok(Reading {
        requests: order.count,
        rate: 1e9 / mean,
        connections: repeats(order),
        reported: Reported {
            mean_ns: Some(mean),
            resolution_ns: 1e6 / order.count.max(1) as f64,
            caution: Some(
                "the time of the whole process, including psql's start and its reading of the script".to_owned(),
            ),
            ..Reported::default()
        },
        ..Reading::default()
    })
}

/// The query of a case.
pub fn postgres(spec: &Spec) -> Result<&Postgres, String> {
    let postgres: &Postgres = speaking(spec, "PostgreSQL")?;
    if spec.pipeline > 1 {
        return cannot("pipeline here");
    }
    in_closed_loop(spec)?;
    Ok(postgres)
}

/// The query as a line of a script.
pub fn statement(postgres: &Postgres) -> String {
    format!("{};\n", postgres.query.trim_end().trim_end_matches(';'))
}

/// Writes a script or a request into the private folder and yields its path.
pub fn write(order: &Order<'_>, name: &str, content: impl AsRef<[u8]>) -> Result<String, String> {
    let path = order.scratch.join(name);
    let shown = path.display().to_string();
    fs::write(&path, content).map_err(|error| format!("cannot write {shown}: {error}"))?;
    Ok(shown)
}

/// What libpq takes from the environment: a password among the arguments could be read by every user of the machine.
pub fn environment(spec: &Spec) -> Option<(&'static str, String)> {
    Some(("PGPASSWORD", spec.protocol.get::<Postgres>()?.password.clone()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::testing::postgres_order;

    #[test]
    fn a_script_of_as_many_queries_as_are_asked_for() {
        postgres_order(|order| {
            let arguments = arguments(&order).unwrap();
            let script = fs::read_to_string(order.scratch.join("psql.sql")).unwrap();
            assert_eq!(script, "select 1;\n".repeat(3));
            let wanted = "host='/run/pg' port='5433' user='foo' dbname='bar' sslmode='disable'";
            assert!(arguments.last().unwrap().starts_with(wanted), "{arguments:?}");
            assert!(!arguments.concat().contains("a'b"), "{arguments:?}");
            assert_eq!(environment(order.spec), Some(("PGPASSWORD", "a'b".to_owned())));
        });
    }

    #[test]
    fn a_connection_for_each_request_is_a_psql_for_each() {
        postgres_order(|order| {
            let mut spec = order.spec.clone();
            spec.reuse = Reuse::PerRequest;
            let order = Order { spec: &spec, ..order };
            assert_eq!(repeats(&order), 3);
            assert!(arguments(&order).unwrap().contains(&"-c".to_owned()));
        });
    }

    #[test]
    fn anything_that_it_says_is_an_error() {
        postgres_order(|order| {
            let reading = read("", &order, 3_000_000).unwrap();
            assert_eq!((reading.requests, reading.rate.round()), (3, 1_000.0));
            let error = read("psql:x.sql:1: ERROR:  division by zero\n", &order, 1).unwrap_err();
            assert!(error.to_string().contains("division by zero"), "{error}");
        });
    }
}
