//! Addresses and requests as HTTP tools take them.

use std::net::SocketAddr;

use lasthop_protocol::{
    http::Http,
    spec::{Address, Spec},
};

use super::kind::{cannot, in_closed_loop, speaking};

/// The request of a case for a tool that speaks HTTP/1 alone, if it can make it.
pub fn http1(spec: &Spec) -> Result<&Http, String> {
    match http(spec)? {
        http if http.is_second() => cannot("speak HTTP/2"),
        http => Ok(http),
    }
}

/// The request of a case, if the tool can make it: `GET` without a body, an answer with a status 2xx.
pub fn http(spec: &Spec) -> Result<&Http, String> {
    let http: &Http = speaking(spec, "HTTP")?;
    if spec.pipeline > 1 {
        return cannot("pipeline here");
    }
    in_closed_loop(spec)?;
    if http.method != "GET" || !http.body.is_empty() {
        return cannot(&format!("send {} with a body here", http.method));
    }
    if !(200..300).contains(&http.expect.status) {
        return cannot(&format!("count the status {} as a correct reply", http.expect.status));
    }
    Ok(http)
}

/// The TCP address of a case.
pub fn tcp(spec: &Spec) -> Result<SocketAddr, String> {
    match &spec.endpoint.address {
        Address::Tcp(address) => Ok(*address),
        _ => cannot("open a Unix socket; it can drive cases whose driver uses TCP, such as a link behind a proxy"),
    }
}

/// `http` or `https`.
pub fn scheme(spec: &Spec) -> &'static str {
    if spec.endpoint.tls.is_some() { "https" } else { "http" }
}

/// The URL with the numeric address, as tools without a `--connect-to` need it.
pub fn by_address(spec: &Spec, http: &Http) -> Result<String, String> {
    Ok(format!("{}://{}{}", scheme(spec), tcp(spec)?, http.path))
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
