//! Addresses and requests as HTTP tools take them.

use std::net::SocketAddr;

use lasthop_protocol::{
    http::Http,
    spec::{Address, Spec},
};

use super::kind::Unable;

/// The request of a case, if the tool can make it: `GET` without a body, an answer with a status 2xx.
pub fn http<'a>(tool: &'static str, spec: &'a Spec) -> Result<&'a Http, Unable> {
    let Some(http) = spec.protocol.get::<Http>() else {
        return Err(Unable::Protocol { tool, speaks: "HTTP", protocol: spec.protocol.kind().title });
    };
    let cannot = |what: String| Err(Unable::Mode { tool, what });
    if spec.pipeline > 1 {
        return cannot("pipeline here".to_owned());
    }
    if spec.model != lasthop_protocol::spec::Model::Closed {
        return cannot("keep the schedule of an open loop".to_owned());
    }
    if http.method != "GET" || !http.body.is_empty() {
        return cannot(format!("send {} with a body here", http.method));
    }
    if !(200..300).contains(&http.expect.status) {
        return cannot(format!("count the status {} as a right answer", http.expect.status));
    }
    Ok(http)
}

/// The TCP address of a case.
pub fn tcp(tool: &'static str, spec: &Spec) -> Result<SocketAddr, Unable> {
    match &spec.endpoint.address {
        Address::Tcp(address) => Ok(*address),
        _ => Err(Unable::UnixSocket { tool }),
    }
}

/// `http` or `https`.
pub fn scheme(spec: &Spec) -> &'static str {
    if spec.endpoint.tls.is_some() { "https" } else { "http" }
}

/// The URL with the address in figures, as tools without a `--connect-to` need it.
pub fn by_address(tool: &'static str, spec: &Spec, http: &Http) -> Result<String, Unable> {
    Ok(format!("{}://{}{}", scheme(spec), tcp(tool, spec)?, http.path))
}

/// `-H NAME: VALUE` for each header, the host first.
pub fn headers(http: &Http) -> Vec<String> {
    let host = ("Host", http.host.as_str());
    let further = http.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    std::iter::once(host)
        .chain(further)
        .flat_map(|(name, value)| ["-H".to_owned(), format!("{name}: {value}")])
        .collect()
}
