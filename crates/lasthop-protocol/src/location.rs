//! The parts of URLs that protocols have in common.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _},
    path::PathBuf,
};

use lasthop_trial::address::{Address, Endpoint, Tls, Transport};

/// Placeholder for a password.
pub const HIDDEN: &str = "***";

/// Error text for a character that should have been encoded.
pub const UNENCODED: &str =
    "there is an `@` after the host: in a user, password or name write `@` as `%40`, `/` as `%2F` and `?` as `%3F`";

const NO_USER: &str = "a URL of this scheme takes no user or password: for HTTP, use `--header 'Authorization: Basic …'`; for Redis, a URL \
     of `redis+unix:`";

pub fn unknown_parameter(given: &str, known: &str) -> String {
    format!("unknown parameter `{given}` (known: {known})")
}

pub fn no_port(text: &str) -> String {
    let what = if text.is_empty() {
        "the URL".to_owned()
    } else {
        format!("`{text}`")
    };
    format!("{what} needs a host and a port, for example `127.0.0.1:9000`")
}

/// Settings that a URL does not contain.
#[derive(Clone, Debug)]
pub struct UrlOptions {
    /// Size in bytes of an echo's message or of a stream's transfer.
    pub size: u32,
    /// Bytes of each send of a stream.
    pub chunk: u32,
    /// PEM file with the certificate authorities to trust; `None` trusts the system's own.
    pub authority: Option<PathBuf>,
    /// Name that the server's certificate must carry; `None` takes the URL's host, or `localhost` for a socket path.
    pub server_name: Option<String>,
    /// Accept any certificate.
    pub insecure: bool,
    /// Chooses the address to connect to if a host has several.
    pub choose: fn(&str, &[Address]) -> Address,
}

impl Default for UrlOptions {
    fn default() -> Self {
        Self {
            size: 64,
            chunk: 65_536,
            authority: None,
            server_name: None,
            insecure: false,
            choose: |_, found| found[0].clone(),
        }
    }
}

/// A URL in parts.
#[derive(Clone, Copy, Debug)]
pub struct Location<'a> {
    /// First word of the scheme: `http` in `http+unix`.
    pub scheme: &'a str,
    /// Whether the scheme has `+unix`, or another transport with a path: the path of a socket follows.
    pub is_socket: bool,
    /// The transport, if it is no stream socket: a channel, or a socket of whole messages.
    pub transport: Option<Transport>,
    /// Whether the URL asks for TLS, by `+tls` or by a scheme of the protocol's own.
    pub is_secure: bool,
    /// The rest after the scheme and its colon.
    pub rest: &'a str,
    pub options: &'a UrlOptions,
}

impl<'a> Location<'a> {
    /// This location, with TLS if its scheme is `scheme`.
    pub fn secured_by(self, scheme: &str) -> Self {
        Self {
            is_secure: self.is_secure || self.scheme == scheme,
            ..self
        }
    }

    /// Host with port, and the rest, of `//host:port/…`.
    pub fn authority(&self) -> (&'a str, &'a str) {
        let rest = self.rest.strip_prefix("//").unwrap_or(self.rest);
        rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()))
    }

    /// The endpoint of a URL without further parts: `//host:port` or the path of a socket.
    pub fn endpoint(&self, default_port: Option<u16>) -> Result<Endpoint, String> {
        if self.is_socket {
            self.socket(self.rest)
        } else {
            self.tcp(self.authority().0, default_port)
        }
    }

    /// The path of a socket and the target after it: `//%2Fpath/uri`, or `/path:/uri` and `///path:/uri`. The first
    /// `:/` separates them, as in nginx: the target may be or contain a URL. A path with `:/` or `?` must be encoded.
    pub fn socket_and_target(&self) -> Result<(String, &'a str), String> {
        if socket_user(self.rest).is_some() {
            return Err(NO_USER.to_owned());
        }
        let plain = match self.rest.strip_prefix("//") {
            Some(encoded) if !is_path(encoded) => {
                let (path, uri) = encoded.split_at(encoded.find('/').unwrap_or(encoded.len()));
                return Ok((decode(path)?, uri));
            }
            Some(plain) => plain,
            None => self.rest,
        };
        let (before, query) = plain.split_at(plain.find('?').unwrap_or(plain.len()));
        Ok(match before.find(":/") {
            Some(at) => (plain[..at].to_owned(), &plain[at + 1..]),
            None if query.is_empty() => (plain.to_owned(), "/"),
            None => (before.to_owned(), query),
        })
    }

    pub fn socket(&self, path: &str) -> Result<Endpoint, String> {
        let path = path.strip_prefix("//").filter(|path| is_path(path)).unwrap_or(path);
        if socket_user(path).is_some() {
            return Err(NO_USER.to_owned());
        }
        let named = Address::named(path).filter(|_| self.transport.is_none());
        let address = named.or_else(|| is_path(path).then(|| self.like(Transport::Unix).at(path, "", 0)));
        let address = address.ok_or_else(|| {
            let shown = without_password(path);
            format!(
                "`{shown}` is not the path of a socket: it must begin with `/`, `./` or `~/`, or with `@` for an abstract \
                 name (`abns@` as HAProxy pads it)"
            )
        })?;
        Ok(Endpoint {
            address,
            tls: self.tls("localhost"),
        })
    }

    /// User, password and host of `user:password@host`, decoded; the path of a socket may take the host's place. User
    /// and password are optional.
    pub fn credentials<'t>(&self, text: &'t str) -> Result<(Option<String>, Option<String>, &'t str), String> {
        // The last `@`, because a password may contain an unencoded one.
        let split = if self.is_socket {
            socket_user(text)
        } else {
            text.rsplit_once('@')
        };
        let Some((given, host)) = split else {
            return Ok((None, None, text));
        };
        let (user, password) = given
            .split_once(':')
            .map_or((given, None), |(user, password)| (user, Some(password)));
        let user = Some(decode(user)?).filter(|user| !user.is_empty());
        Ok((user, password.map(decode_password).transpose()?, host))
    }

    /// An empty address of the scheme's transport, or of `usual` if the scheme names none.
    fn like(&self, usual: Transport) -> Address {
        self.transport.unwrap_or(usual).address()
    }

    pub fn tcp(&self, text: &str, default_port: Option<u16>) -> Result<Endpoint, String> {
        if text.contains('@') {
            return Err(NO_USER.to_owned());
        }
        let (host, port) = split_port(text)?;
        let port = port.or(default_port).filter(|_| !host.is_empty());
        let port = port.ok_or_else(|| no_port(text))?;
        Ok(Endpoint {
            address: self.resolved(host, port)?,
            tls: self.tls(without_zone(host)),
        })
    }

    /// The address to connect to for a host.
    pub fn resolved(&self, host: &str, port: u16) -> Result<Address, String> {
        let over = if self.transport == Some(Transport::Udp) {
            Address::Udp
        } else {
            Address::Tcp
        };
        let found: Vec<Address> = resolve(host, port)?.into_iter().map(over).collect();
        Ok(match &found[..] {
            [only] => only.clone(),
            several => (self.options.choose)(host, several),
        })
    }

    /// TLS towards this host, if the URL asks for it.
    pub fn tls(&self, host: &str) -> Option<Tls> {
        let options = self.options;
        let server_name = options.server_name.clone().unwrap_or_else(|| host.to_owned());
        self.is_secure.then(|| Tls {
            authority: options.authority.clone(),
            server_name,
            resumption: false,
            insecure: options.insecure,
        })
    }
}

/// Whether a text begins like the path of a socket. A path below the current folder or the home starts with `./`, `../`
/// or `~/`.
fn is_path(text: &str) -> bool {
    ["/", "./", "../", "~/"]
        .iter()
        .any(|start| text.len() > start.len() && text.starts_with(start))
}

/// Whether a text begins like the path or the abstract name of a socket.
pub fn is_socket(text: &str) -> bool {
    is_path(text) || Address::named(text).is_some()
}

/// Splits `host`, `host:port`, `[v6]` or `[v6]:port`; removes the brackets.
pub fn split_port(text: &str) -> Result<(&str, Option<u16>), String> {
    let (host, port) = match text.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
        Some((host, rest)) => (host, rest.strip_prefix(':')),
        None if text.parse::<Ipv6Addr>().is_ok() => {
            return Err(format!("an IPv6 address needs brackets in a URL: [{text}]"));
        }
        None => text
            .rsplit_once(':')
            .map_or((text, None), |(host, port)| (host, Some(port))),
    };
    Ok((host, port.map(port_number).transpose()?))
}

/// The host of a URL as sent to a server. The zone of an IPv6 address, as in `[fe80::1%25eth0]`, means something on
/// this machine only.
pub fn host_header(host: &str) -> String {
    match host.split_once('%').zip(host.find(']')) {
        Some(((address, _), end)) if host.starts_with('[') => format!("{address}{}", &host[end..]),
        _ => host.to_owned(),
    }
}

/// An IPv6 address without its zone; any other host unchanged.
fn without_zone(host: &str) -> &str {
    let address = host.split_once('%').map(|(address, _)| address);
    address
        .filter(|address| address.parse::<Ipv6Addr>().is_ok())
        .unwrap_or(host)
}

/// Reads a port. An error does not show a text that is no number: it may be a password without the `@host` after it.
pub fn port_number(text: &str) -> Result<u16, String> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let wrong = || {
        if is_number {
            format!("`{text}` is not a port")
        } else {
            "what follows the last `:` of the host is not a port; a password there needs `@HOST` after it".to_owned()
        }
    };
    text.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)
}

/// The addresses of a host, at least one, each once and in the system's order.
fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
    if host.contains(',') {
        return Err(format!("`{host}` names several hosts: load each by a URL of its own"));
    }
    let failed = |cause: String| format!("cannot find the address of `{host}`: {cause}");
    // RFC 6874 encodes the `%` before a zone, but people often do not. Only link-local addresses have a zone.
    let of_link = |host: &&str| {
        let address: Option<Ipv6Addr> = without_zone(host).parse().ok();
        address.is_some_and(|address| address.is_unicast_link_local() || address.is_multicast())
    };
    let zoned = Some(host).filter(of_link).map(|host| host.replacen("%25", "%", 1));
    let all = (zoned.as_deref().unwrap_or(without_zone(host)), port)
        .to_socket_addrs()
        .map_err(|error| failed(error.to_string()))?;
    // Both loopback addresses (RFC 6761, section 6.3), though /etc/hosts may have one of them only.
    let loopback = host.eq_ignore_ascii_case("localhost").then(|| {
        [IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)].map(|address| (address, port).into())
    });
    let mut found = Vec::new();
    for address in all.chain(loopback.into_iter().flatten()) {
        if !found.contains(&address) {
            found.push(address);
        }
    }
    if found.is_empty() {
        return Err(failed("it has no address".to_owned()));
    }
    Ok(found)
}

/// The parts of `key=value&key=value`, values decoded.
pub fn pairs(parameters: &str) -> Result<Vec<(&str, String)>, String> {
    let parameters = parameters.split('&').filter(|parameter| !parameter.is_empty());
    parameters
        .map(|parameter| {
            let (key, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            match key {
                "password" => Ok((key, decode_password(value)?)),
                _ if key.contains('@') => Err(UNENCODED.to_owned()),
                _ => Ok((key, decode(value)?)),
            }
        })
        .collect()
}

/// User and password of `//user:password@/path` and `///:password@/path`, as some clients write them before the path of
/// a socket; and that path.
pub fn socket_user(rest: &str) -> Option<(&str, &str)> {
    let text = rest.strip_prefix("//").unwrap_or(rest);
    let is_user = |text: &&str| {
        let first = text.split('/').next().unwrap_or_default();
        first.starts_with(':') || (first.contains(':') && first.ends_with('@'))
    };
    let text = text.strip_prefix('/').filter(is_user).unwrap_or(text);
    // A path may be encoded.
    if is_socket(text) || text.starts_with('%') {
        return None;
    }
    // The last `@`, as before a host.
    let mut borders = text.rmatch_indices('@').map(|(at, _)| text.split_at(at));
    borders.find_map(|(given, path)| Some((given, path.strip_prefix('@').filter(|path| is_path(path))?)))
}

/// Replaces what may be a password by `***`: the text between the first colon and the last `@`.
pub fn without_password(text: &str) -> String {
    let user = text.rfind('@').and_then(|at| Some((text[..at].find(':')?, at)));
    user.map_or_else(
        || text.to_owned(),
        |(colon, at)| format!("{}:{HIDDEN}{}", &text[..colon], &text[at..]),
    )
}

fn decode_password(text: &str) -> Result<String, String> {
    decode(text).map_err(|_| "the password contains a broken percent-encoding; write `%` as `%25`".to_owned())
}

/// Decodes percent-encoding.
pub fn decode(text: &str) -> Result<String, String> {
    let broken = || format!("`{text}` contains a broken percent-encoding");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'%' {
            bytes.push(*byte);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2).ok_or_else(broken)?;
        let digits = std::str::from_utf8(digits)
            .ok()
            // `from_str_radix` alone would take a sign, as in `%+f`.
            .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        bytes.push(
            digits
                .and_then(|digits| u8::from_str_radix(digits, 16).ok())
                .ok_or_else(broken)?,
        );
        rest = after;
    }
    String::from_utf8(bytes).map_err(|_| broken())
}

/// A URL or a request's target with [`HIDDEN`] in place of parameters that are likely to be secret: for records, so
/// that the secrets must be given again.
#[must_use]
pub fn without_secrets(url: &str) -> String {
    with_parameters(url, |key, value| {
        if is_secret(key) {
            HIDDEN.to_owned()
        } else {
            value.to_owned()
        }
    })
}

/// A URL to show to anyone: parameters not known to be harmless are hidden.
#[must_use]
pub fn with_harmless(url: &str) -> String {
    let (url, fragment) = url.split_once('#').map_or((url, ""), |(url, _)| (url, "#***"));
    with_parameters(url, |key, value| match key {
        "counter" => with_parameters(&decode(value).unwrap_or_default(), harmless),
        _ => harmless(key, value),
    }) + fragment
}

/// Parameters whose values may be shown, of databases, counters and pages.
const HARMLESS: [&str; 25] = [
    "application_name",
    "bytes",
    "channel_binding",
    "connect_timeout",
    "count",
    "counts",
    "db",
    "format",
    "host",
    "lang",
    "limit",
    "metrics",
    "n",
    "offset",
    "order",
    "page",
    "per_page",
    "port",
    "protocol",
    "size",
    "socket",
    "sort",
    "sslmode",
    "unix_socket",
    "user",
];

fn harmless(key: &str, value: &str) -> String {
    if HARMLESS.contains(&key) {
        value.to_owned()
    } else {
        HIDDEN.to_owned()
    }
}

/// Whether a parameter or a header of this name is likely to be a secret.
pub fn is_secret(name: &str) -> bool {
    const WORDS: [&str; 11] = [
        "auth",
        "cookie",
        "credential",
        "jwt",
        "key",
        "pass",
        "pwd",
        "secret",
        "session",
        "signature",
        "token",
    ];
    let name = name.to_ascii_lowercase();
    // Short words count as whole names only: `sid`, `sig` and `mac` are in `inside`, `design` and `machine`.
    WORDS.iter().any(|word| name.contains(word)) || ["code", "hmac", "mac", "sid", "sig"].contains(&name.as_str())
}

/// Replaces the values of a URL's parameters by `shown(name, value)`. A part that is no pair has no name to judge it
/// by.
fn with_parameters(url: &str, shown: impl Fn(&str, &str) -> String) -> String {
    let Some((location, parameters)) = url.split_once('?') else {
        return url.to_owned();
    };
    let one = |parameter: &str| match parameter.split_once('=') {
        // `YWJj==` is no pair but base64 with padding, and its name may be the secret.
        Some((key, value)) if !value.trim_matches('=').is_empty() => format!("{key}={}", shown(key, value)),
        _ if parameter.is_empty() => String::new(),
        _ => shown("", parameter),
    };
    let parameters: Vec<String> = parameters.split('&').map(one).collect();
    format!("{location}?{}", parameters.join("&"))
}
