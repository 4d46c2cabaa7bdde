//! Addresses and requests as HTTP tools take them.

use std::net::SocketAddr;

use lasthop_load::spec::{Address, Http, Protocol, Spec};

use super::{Tool, Unable, protocol_name};

/// The request of a case, if the tool can make it: `GET` without a body, an answer with a status 2xx.
pub fn http(tool: Tool, spec: &Spec) -> Result<&Http, Unable> {
    let Protocol::Http(http) = &spec.protocol else {
        return Err(Unable::Protocol { tool, speaks: "HTTP", protocol: protocol_name(&spec.protocol) });
    };
    let cannot = |what: String| Err(Unable::Mode { tool, what });
    if spec.pipeline > 1 {
        return cannot("be told here to pipeline".to_owned());
    }
    if spec.model != lasthop_load::spec::Model::Closed {
        return cannot("keep the schedule of an open loop".to_owned());
    }
    if http.method != "GET" || !http.body.is_empty() {
        return cannot(format!("be told here to send {} with a body", http.method));
    }
    if !(200..300).contains(&http.expect.status) {
        return cannot(format!("count the status {} as a right answer", http.expect.status));
    }
    Ok(http)
}

/// The TCP address of a case.
pub fn tcp(tool: Tool, spec: &Spec) -> Result<SocketAddr, Unable> {
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
pub fn by_address(tool: Tool, spec: &Spec, http: &Http) -> Result<String, Unable> {
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
