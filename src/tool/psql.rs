//! psql: PostgreSQL's own client, one connection. It times nothing: the time is that of the whole process, so it pays for
//! starting psql and for reading the script, as the study of 2020 did.

use std::fs;

use lasthop_load::{
    result::Reported,
    spec::{Address, ChannelBinding, Postgres, Protocol, QueryMode, Reuse, Spec},
};

use super::{
    Order, Reading, Tool, Unable,
    form::{self, Misread},
    protocol_name,
};

pub fn arguments(order: &Order<'_>) -> Result<Vec<String>, Unable> {
    let postgres = postgres(Tool::Psql, order.spec)?;
    let cannot = |what: &str| Err(Unable::Mode { tool: Tool::Psql, what: what.to_owned() });
    if order.spec.connections != 1 {
        return cannot("hold more than one connection");
    }
    if postgres.mode != QueryMode::Simple || !postgres.parameters.is_empty() {
        return cannot("send other than simple queries");
    }
    let mut arguments: Vec<String> =
        ["-X", "-q", "-v", "ON_ERROR_STOP=1", "-o", "/dev/null"].map(str::to_owned).to_vec();
    arguments.extend(order.flags.iter().cloned());
    if repeats(order) > 1 {
        arguments.extend(["-c".to_owned(), postgres.query.clone()]);
    } else {
        let script = statement(postgres).repeat(usize::try_from(order.count).unwrap_or(usize::MAX));
        arguments.extend(["-f".to_owned(), write(order, "psql.sql", &script)?]);
    }
    arguments.push(connection(order.spec, postgres));
    Ok(arguments)
}

/// How often the program runs: a connection for each request means a psql for each.
pub fn repeats(order: &Order<'_>) -> u64 {
    if order.spec.reuse == Reuse::PerRequest { order.count.max(1) } else { 1 }
}

/// It says nothing unless something is wrong.
pub fn read(output: &str, order: &Order<'_>, elapsed_ns: u64) -> Result<Reading, Misread> {
    form::read(&[], output)?;
    let mean = elapsed_ns as f64 / order.count.max(1) as f64;
    Ok(Reading {
        requests: order.count,
        rate: 1e9 / mean,
        bytes: 0,
        errors: Vec::new(),
        connections: repeats(order),
        reported: Reported {
            tool: "psql".to_owned(),
            mean_ns: Some(mean),
            deviation_ns: None,
            median_ns: None,
            p99_ns: None,
            max_ns: None,
            resolution_ns: 1e6 / order.count.max(1) as f64,
            caution: Some("the time of the whole process: psql's start and its reading of the script count".to_owned()),
        },
    })
}

/// The query of a case.
pub fn postgres(tool: Tool, spec: &Spec) -> Result<&Postgres, Unable> {
    match &spec.protocol {
        Protocol::Postgres(_) if spec.pipeline > 1 => {
            Err(Unable::Mode { tool, what: "be told here to pipeline".to_owned() })
        }
        Protocol::Postgres(_) if spec.model != lasthop_load::spec::Model::Closed => {
            Err(Unable::Mode { tool, what: "be told here to keep a schedule".to_owned() })
        }
        Protocol::Postgres(postgres) => Ok(postgres),
        other => Err(Unable::Protocol { tool, speaks: "PostgreSQL", protocol: protocol_name(other) }),
    }
}

/// The query as a line of a script.
pub fn statement(postgres: &Postgres) -> String {
    format!("{};\n", postgres.query.trim_end().trim_end_matches(';'))
}

/// Writes a script into the private folder and yields its path.
pub fn write(order: &Order<'_>, name: &str, text: &str) -> Result<String, Unable> {
    let path = order.scratch.join(name);
    let shown = path.display().to_string();
    fs::write(&path, text).map_err(|error| Unable::Script { path: shown.clone(), cause: error.to_string() })?;
    Ok(shown)
}

/// A connection string of libpq. A Unix socket is known by its directory and the port in its name; TLS is always
/// verified where an authority is given.
pub fn connection(spec: &Spec, postgres: &Postgres) -> String {
    let mut words = match &spec.endpoint.address {
        Address::Tcp(address) => {
            let name =
                spec.endpoint.tls.as_ref().map_or_else(|| address.ip().to_string(), |tls| tls.server_name.clone());
            vec![("host", name), ("hostaddr", address.ip().to_string()), ("port", address.port().to_string())]
        }
        Address::Unix(path) => {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let port = name.rsplit('.').next().filter(|port| port.parse::<u16>().is_ok()).unwrap_or("5432").to_owned();
            let folder = path.parent().map(|folder| folder.display().to_string()).unwrap_or_default();
            vec![("host", folder), ("port", port)]
        }
        Address::Abstract(name) => vec![("host", format!("@{name}"))],
    };
    words.extend([("user", postgres.user.clone()), ("dbname", postgres.database.clone())]);
    words.extend(postgres.password.iter().map(|password| ("password", password.clone())));
    match spec.endpoint.tls.as_ref().map(|tls| tls.authority.as_ref()) {
        Some(Some(authority)) => {
            words.extend([("sslmode", "verify-full".to_owned()), ("sslrootcert", authority.display().to_string())]);
        }
        Some(None) => words.push(("sslmode", "require".to_owned())),
        None => words.push(("sslmode", "disable".to_owned())),
    }
    words.push(("gssencmode", "disable".to_owned()));
    match postgres.channel_binding {
        // libpq's own default.
        ChannelBinding::Prefer => {}
        ChannelBinding::Disable => words.push(("channel_binding", "disable".to_owned())),
        ChannelBinding::Require => words.push(("channel_binding", "require".to_owned())),
    }
    words.iter().map(|(key, value)| format!("{key}={}", quoted(value))).collect::<Vec<_>>().join(" ")
}

fn quoted(value: &str) -> String {
    format!("'{}'", value.replace('\\', "\\\\").replace('\'', "\\'"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::drive::testing::postgres_order;

    #[test]
    fn a_script_of_as_many_queries_as_are_asked_for() {
        postgres_order(|order| {
            let arguments = arguments(&order).unwrap();
            let script = fs::read_to_string(order.scratch.join("psql.sql")).unwrap();
            assert_eq!(script, "select 1;\n".repeat(3));
            let wanted = "host='/run/pg' port='5433' user='foo' dbname='bar' password='a''b' sslmode='disable'";
            let wanted = wanted.replace("a''b", "a\\'b");
            assert!(arguments.last().unwrap().starts_with(&wanted), "{arguments:?}");
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
