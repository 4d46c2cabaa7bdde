//! An endpoint and what to say to it, written as a URL.
//!
//! | form | meaning |
//! |---|---|
//! | `http://host[:port]/uri`, `https://…` | HTTP over TCP, with TLS |
//! | `http+unix:/path.sock[:/uri]`, `https+unix:…` | HTTP over a Unix socket; `@name` is an abstract one |
//! | `http+unix://%2Fpath.sock/uri` | the same, percent-encoded |
//! | `postgres://user[:password]@host[:port]/database[?sslmode=require]` | PostgreSQL over TCP |
//! | `postgres:///database?host=/directory&user=…` | PostgreSQL over the Unix socket in a directory |
//! | `postgres://…?sslmode=require&channel_binding=disable\|prefer\|require` | SCRAM bound to the TLS connection, as libpq has it |
//! | `redis://[[user]:password@]host[:port][/number]`, `rediss://…` | Redis over TCP, with TLS |
//! | `redis+unix:/path.sock[?user=…&password=…&db=3]` | Redis over a Unix socket |
//! | `echo://host:port`, `echo+unix:/path.sock`, the same for `hello` and `stream`; `+tls` for TLS | lasthop's own server |

use std::{
    net::{SocketAddr, ToSocketAddrs as _},
    path::PathBuf,
};

use crate::spec::{
    Address, ChannelBinding, Echo, Endpoint, Hello, Http, HttpExpect, HttpVersion, Postgres, PostgresExpect, Protocol,
    QueryMode, Redis, RedisExpect, Stream, Tls,
};

/// The URL is not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    #[error("`{0}` has no scheme (for example `http://127.0.0.1:8000/` or `http+unix:/run/app.sock:/`)")]
    NoScheme(String),
    #[error(
        "unknown scheme `{0}` (known: http, https, http+unix, https+unix, postgres, redis, rediss, redis+unix, echo, \
         hello, stream, each of the last three with +unix, +tls or +tls+unix)"
    )]
    UnknownScheme(String),
    #[error("`{0}` is not the path of a socket: it must begin with `/`, or with `@` for an abstract name")]
    SocketPath(String),
    #[error("`{0}` needs a host and a port, for example `127.0.0.1:9000`")]
    NoPort(String),
    #[error("`{0}` is not a port")]
    Port(String),
    #[error("cannot find the address of `{host}`: {cause}")]
    Resolve { host: String, cause: String },
    #[error("`{0}` contains a broken percent-encoding")]
    Percent(String),
    #[error("unknown parameter `{given}` (known: {known})")]
    Parameter { given: String, known: &'static str },
    #[error(
        "sslmode `{0}` is not one of `disable`, `require`, `verify-ca` and `verify-full` (all but the first verify)"
    )]
    SslMode(String),
    #[error("channel_binding `{0}` is not one of `disable`, `prefer` and `require`")]
    ChannelBinding(String),
    #[error("the user is missing (write `postgres://user@…` or `?user=…`)")]
    NoUser,
    #[error("`{0}` is not the number of a Redis database")]
    Database(String),
}

/// What the URL itself does not say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlOptions {
    /// Bytes of an echo's message or of a stream's transfer.
    pub size: u32,
    /// Bytes of a stream's sends.
    pub chunk: u32,
    /// PEM file with the certificate authorities to trust; `None` trusts the system's own.
    pub authority: Option<PathBuf>,
    /// Name that the server's certificate must carry; `None` takes the URL's host, or `localhost` for a socket path.
    pub server_name: Option<String>,
}

impl Default for UrlOptions {
    fn default() -> Self {
        Self { size: 64, chunk: 65_536, authority: None, server_name: None }
    }
}

/// Reads a URL. Host names are looked up; the first address counts.
///
/// # Errors
/// What is wrong, and how it should look.
pub fn parse(url: &str, options: &UrlOptions) -> Result<(Endpoint, Protocol), UrlError> {
    // What follows a colon and begins with a digit is a port: `localhost:8000` has no scheme.
    let is_port = |rest: &str| rest.starts_with(|first: char| first.is_ascii_digit());
    let split = url.split_once(':').filter(|(_, rest)| !is_port(rest));
    let (scheme, rest) = split.ok_or_else(|| UrlError::NoScheme(url.to_owned()))?;
    let words: Vec<&str> = scheme.split('+').collect();
    match words.as_slice() {
        ["postgres" | "postgresql"] => postgres(rest, options),
        ["http"] => http_tcp(rest, 80, false, options),
        ["https"] => http_tcp(rest, 443, true, options),
        ["http", "unix"] => http_unix(rest, false, options),
        ["https", "unix"] => http_unix(rest, true, options),
        ["redis"] => redis(rest, false, options),
        ["rediss"] => redis(rest, true, options),
        ["redis", "unix"] => redis_unix(rest, options),
        [own @ ("echo" | "hello" | "stream"), modifiers @ ..] => {
            let secure = match modifiers {
                [] | ["unix"] => false,
                ["tls"] | ["tls", "unix"] => true,
                _ => return Err(UrlError::UnknownScheme(scheme.to_owned())),
            };
            let unix = modifiers.last() == Some(&"unix");
            let endpoint =
                if unix { socket(rest, secure, options)? } else { tcp(authority(rest).0, None, secure, options)? };
            Ok((endpoint, own_protocol(own, options)))
        }
        _ => Err(UrlError::UnknownScheme(scheme.to_owned())),
    }
}

fn own_protocol(name: &str, options: &UrlOptions) -> Protocol {
    match name {
        "echo" => Protocol::Echo(Echo { size: options.size }),
        "stream" => Protocol::Stream(Stream { size: options.size.into(), chunk: options.chunk }),
        _ => Protocol::Hello(Hello { expect: String::from_utf8_lossy(crate::serve::HELLO).into_owned() }),
    }
}

fn get(path: &str, host: &str) -> Protocol {
    let path = path.split('#').next().unwrap_or_default();
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    Protocol::Http(Http {
        method: "GET".to_owned(),
        path,
        host: host.to_owned(),
        headers: Vec::new(),
        body: String::new(),
        version: HttpVersion::V11,
        expect: HttpExpect { status: 200, body: None, contains: Vec::new(), length: None },
    })
}

fn http_tcp(rest: &str, port: u16, secure: bool, options: &UrlOptions) -> Result<(Endpoint, Protocol), UrlError> {
    let (host, path) = authority(rest);
    Ok((tcp(host, Some(port), secure, options)?, get(path, host)))
}

fn http_unix(rest: &str, secure: bool, options: &UrlOptions) -> Result<(Endpoint, Protocol), UrlError> {
    // `//%2Fpath/uri`, or `/path:/uri`, where a colon within the path is only taken for the border before a slash.
    let (path, uri) = match rest.strip_prefix("//") {
        Some(encoded) => {
            let (path, uri) = encoded.split_at(encoded.find('/').unwrap_or(encoded.len()));
            (decode(path)?, uri)
        }
        None => match rest.rfind(":/") {
            Some(at) => (rest[..at].to_owned(), &rest[at + 1..]),
            None => (rest.to_owned(), "/"),
        },
    };
    Ok((socket(&path, secure, options)?, get(uri, "localhost")))
}

/// Host with port, and what follows, of `//host:port/…`.
fn authority(rest: &str) -> (&str, &str) {
    let rest = rest.strip_prefix("//").unwrap_or(rest);
    rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()))
}

fn socket(path: &str, secure: bool, options: &UrlOptions) -> Result<Endpoint, UrlError> {
    let path = path.strip_prefix("//").map_or(path, |absolute| if absolute.starts_with('/') { absolute } else { path });
    let address = match path.strip_prefix('@') {
        Some(name) if !name.is_empty() => Address::Abstract(name.to_owned()),
        _ if path.starts_with('/') && path.len() > 1 => Address::Unix(PathBuf::from(path)),
        _ => return Err(UrlError::SocketPath(path.to_owned())),
    };
    Ok(Endpoint { address, tls: tls(secure, "localhost", options) })
}

fn tls(secure: bool, host: &str, options: &UrlOptions) -> Option<Tls> {
    let name = || options.server_name.clone().unwrap_or_else(|| host.to_owned());
    secure.then(|| Tls { authority: options.authority.clone(), server_name: name(), resumption: false })
}

fn tcp(text: &str, default_port: Option<u16>, secure: bool, options: &UrlOptions) -> Result<Endpoint, UrlError> {
    let (host, port) = split_port(text)?;
    let port = port.or(default_port).filter(|_| !host.is_empty());
    let port = port.ok_or_else(|| UrlError::NoPort(text.to_owned()))?;
    Ok(Endpoint { address: Address::Tcp(resolve(host, port)?), tls: tls(secure, host, options) })
}

/// `host`, `host:port`, `[v6]` or `[v6]:port`; the brackets are taken off.
fn split_port(text: &str) -> Result<(&str, Option<u16>), UrlError> {
    let (host, port) = match text.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
        Some((host, rest)) => (host, rest.strip_prefix(':')),
        None => text.rsplit_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    let number = |port: &str| port.parse::<u16>().ok().filter(|port| *port > 0).ok_or(UrlError::Port(port.to_owned()));
    Ok((host, port.map(number).transpose()?))
}

fn resolve(host: &str, port: u16) -> Result<SocketAddr, UrlError> {
    let failed = |cause: String| UrlError::Resolve { host: host.to_owned(), cause };
    let mut found = (host, port).to_socket_addrs().map_err(|error| failed(error.to_string()))?;
    found.next().ok_or_else(|| failed("it has no address".to_owned()))
}

fn redis_ping() -> Redis {
    Redis {
        command: vec!["PING".to_owned()],
        expect: RedisExpect::Simple("PONG".to_owned()),
        username: None,
        password: None,
        database: 0,
    }
}

fn redis_unix(rest: &str, options: &UrlOptions) -> Result<(Endpoint, Protocol), UrlError> {
    let (path, parameters) = rest.split_once('?').unwrap_or((rest, ""));
    let mut redis = redis_ping();
    for (key, value) in pairs(parameters)? {
        match key {
            "user" => redis.username = Some(value),
            "password" => redis.password = Some(value),
            "db" => redis.database = database(&value)?,
            _ => return Err(UrlError::Parameter { given: key.to_owned(), known: "user, password, db" }),
        }
    }
    Ok((socket(path, false, options)?, Protocol::Redis(redis)))
}

fn database(number: &str) -> Result<u32, UrlError> {
    number.parse().map_err(|_| UrlError::Database(number.to_owned()))
}

/// The parts of `key=value&key=value`, values decoded.
fn pairs(parameters: &str) -> Result<Vec<(&str, String)>, UrlError> {
    let parameters = parameters.split('&').filter(|parameter| !parameter.is_empty());
    parameters
        .map(|parameter| {
            let (key, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            Ok((key, decode(value)?))
        })
        .collect()
}

fn redis(rest: &str, secure: bool, options: &UrlOptions) -> Result<(Endpoint, Protocol), UrlError> {
    let (host, path) = authority(rest);
    let (user, password, host) = credentials(host)?;
    let mut redis = Redis { username: user, password, ..redis_ping() };
    let number = path.trim_start_matches('/');
    if !number.is_empty() {
        redis.database = database(number)?;
    }
    Ok((tcp(host, Some(6379), secure, options)?, Protocol::Redis(redis)))
}

/// `user:password@host`, decoded; either may be absent.
fn credentials(text: &str) -> Result<(Option<String>, Option<String>, &str), UrlError> {
    let Some((given, host)) = text.rsplit_once('@') else { return Ok((None, None, text)) };
    let (user, password) = given.split_once(':').map_or((given, None), |(user, password)| (user, Some(password)));
    let user = Some(decode(user)?).filter(|user| !user.is_empty());
    Ok((user, password.map(decode).transpose()?, host))
}

fn postgres(rest: &str, options: &UrlOptions) -> Result<(Endpoint, Protocol), UrlError> {
    let (host, rest) = authority(rest);
    let (mut user, mut password, host) = credentials(host)?;
    let (path, parameters) = rest.split_once('?').unwrap_or((rest, ""));
    let (name, port) = split_port(host)?;
    let (mut host, mut port, mut secure) = (name.to_owned(), port.unwrap_or(5432), false);
    let mut channel_binding = ChannelBinding::default();
    for (key, value) in pairs(parameters)? {
        match key {
            "host" => host = value,
            "port" => port = value.parse().map_err(|_| UrlError::Port(value))?,
            "user" => user = Some(value),
            "password" => password = Some(value),
            "sslmode" => secure = ssl_mode(&value)?,
            "channel_binding" => channel_binding = binding(value)?,
            _ => {
                let known = "host, port, user, password, sslmode, channel_binding";
                return Err(UrlError::Parameter { given: key.to_owned(), known });
            }
        }
    }
    let user = user.ok_or(UrlError::NoUser)?;
    let address = if host.starts_with('/') {
        Address::Unix(PathBuf::from(&host).join(format!(".s.PGSQL.{port}")))
    } else if host.is_empty() {
        return Err(UrlError::NoPort(host));
    } else {
        Address::Tcp(resolve(&host, port)?)
    };
    let database = decode(path.trim_start_matches('/'))?;
    let protocol = Protocol::Postgres(Postgres {
        database: if database.is_empty() { user.clone() } else { database },
        user,
        password,
        query: "select 1".to_owned(),
        mode: QueryMode::Simple,
        parameters: Vec::new(),
        expect: PostgresExpect { rows: Some(1), first: Some("1".to_owned()), tag: None },
        channel_binding,
    });
    Ok((Endpoint { address, tls: tls(secure, &host, options) }, protocol))
}

/// Whether TLS is used. `prefer` and `allow` are refused: they would leave open what is measured.
fn ssl_mode(word: &str) -> Result<bool, UrlError> {
    match word {
        "disable" => Ok(false),
        "require" | "verify-ca" | "verify-full" => Ok(true),
        _ => Err(UrlError::SslMode(word.to_owned())),
    }
}

fn binding(word: String) -> Result<ChannelBinding, UrlError> {
    match word.as_str() {
        "disable" => Ok(ChannelBinding::Disable),
        "prefer" => Ok(ChannelBinding::Prefer),
        "require" => Ok(ChannelBinding::Require),
        _ => Err(UrlError::ChannelBinding(word)),
    }
}

/// Takes percent-encoding off.
fn decode(text: &str) -> Result<String, UrlError> {
    let broken = || UrlError::Percent(text.to_owned());
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'%' {
            bytes.push(*byte);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2).ok_or_else(broken)?;
        let digits =
            std::str::from_utf8(digits).ok().filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        bytes.push(digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).ok_or_else(broken)?);
        rest = after;
    }
    String::from_utf8(bytes).map_err(|_| broken())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(url: &str) -> Result<(Endpoint, Protocol), UrlError> {
        parse(url, &UrlOptions::default())
    }

    fn address(url: &str) -> Address {
        read(url).unwrap_or_else(|error| panic!("{url}: {error}")).0.address
    }

    fn tcp_address(text: &str) -> Address {
        Address::Tcp(text.parse().unwrap())
    }

    #[test]
    fn http_is_understood_over_tcp_and_sockets() {
        for (url, expected, path, secure) in [
            ("http://127.0.0.1:8000/a?b=c#d", tcp_address("127.0.0.1:8000"), "/a?b=c", false),
            ("http://127.0.0.1", tcp_address("127.0.0.1:80"), "/", false),
            ("https://[::1]/x", tcp_address("[::1]:443"), "/x", true),
            ("http+unix:/run/app.sock:/uri", Address::Unix("/run/app.sock".into()), "/uri", false),
            ("http+unix:/run/app.sock", Address::Unix("/run/app.sock".into()), "/", false),
            ("http+unix:/a:b.sock:/u", Address::Unix("/a:b.sock".into()), "/u", false),
            ("http+unix://%2Frun%2Fapp.sock/uri", Address::Unix("/run/app.sock".into()), "/uri", false),
            ("https+unix:@app:/", Address::Abstract("app".into()), "/", true),
        ] {
            let (endpoint, protocol) = read(url).unwrap_or_else(|error| panic!("{url}: {error}"));
            let Protocol::Http(http) = protocol else { panic!("{url}: {protocol:?}") };
            assert_eq!(
                (endpoint.address, http.path.as_str(), endpoint.tls.is_some()),
                (expected, path, secure),
                "{url}"
            );
        }
    }

    #[test]
    fn databases_are_understood() {
        let (endpoint, protocol) = read("postgres://u:p%40ss@127.0.0.1:6000/db?sslmode=require").unwrap();
        let Protocol::Postgres(postgres) = protocol else { panic!("{protocol:?}") };
        assert_eq!(endpoint.address, tcp_address("127.0.0.1:6000"));
        assert_eq!(endpoint.tls.unwrap().server_name, "127.0.0.1");
        assert_eq!(
            (postgres.user.as_str(), postgres.password.as_deref(), postgres.database.as_str()),
            ("u", Some("p@ss"), "db")
        );
        assert_eq!(
            address("postgres:///db?host=/run/pg&user=u&port=6000"),
            Address::Unix("/run/pg/.s.PGSQL.6000".into())
        );
        let (_, protocol) = read("postgres://u@127.0.0.1/?sslmode=require&channel_binding=require").unwrap();
        let Protocol::Postgres(postgres) = protocol else { panic!("{protocol:?}") };
        assert_eq!((postgres.channel_binding, postgres.database.as_str()), (ChannelBinding::Require, "u"));
        let (endpoint, protocol) = read("rediss://:secret@127.0.0.1/3").unwrap();
        let Protocol::Redis(redis) = protocol else { panic!("{protocol:?}") };
        assert_eq!((endpoint.address, redis.database), (tcp_address("127.0.0.1:6379"), 3));
        assert_eq!((redis.username, redis.password.as_deref()), (None, Some("secret")));
        assert_eq!(address("redis+unix:/run/redis.sock"), Address::Unix("/run/redis.sock".into()));
        let (endpoint, protocol) = read("redis+unix:/run/redis.sock?user=me&password=a%26b&db=2").unwrap();
        let Protocol::Redis(redis) = protocol else { panic!("{protocol:?}") };
        assert_eq!((endpoint.address, redis.database), (Address::Unix("/run/redis.sock".into()), 2));
        assert_eq!((redis.username.as_deref(), redis.password.as_deref()), (Some("me"), Some("a&b")));
    }

    #[test]
    fn the_own_server_is_understood() {
        let options = UrlOptions { size: 1024, ..UrlOptions::default() };
        let (_, protocol) = parse("echo+unix:/s", &options).unwrap();
        assert_eq!(protocol, Protocol::Echo(Echo { size: 1024 }));
        assert_eq!(address("hello://127.0.0.1:9000"), tcp_address("127.0.0.1:9000"));
        assert!(read("stream+tls+unix:/s").unwrap().0.tls.is_some());
    }

    #[test]
    fn errors_say_what_is_wrong() {
        for (url, text) in [
            ("127.0.0.1", "has no scheme"),
            ("localhost:8000", "has no scheme"),
            ("ftp://x/", "unknown scheme `ftp`"),
            ("echo+quic:/s", "unknown scheme `echo+quic`"),
            ("http+unix:app.sock", "is not the path of a socket"),
            ("echo://127.0.0.1", "needs a host and a port"),
            ("http://127.0.0.1:99999/", "`99999` is not a port"),
            ("postgres://127.0.0.1/db", "the user is missing"),
            ("postgres://u@127.0.0.1/db?sslmode=prefer", "sslmode `prefer`"),
            ("postgres://u@127.0.0.1/db?x=1", "unknown parameter `x`"),
            ("postgres://u@127.0.0.1/db?channel_binding=maybe", "channel_binding `maybe`"),
            ("redis://127.0.0.1/x", "not the number of a Redis database"),
            ("redis+unix:/s?db=x", "not the number of a Redis database"),
            ("redis+unix:/s?host=x", "unknown parameter `host` (known: user, password, db)"),
            ("http+unix://%2/", "broken percent-encoding"),
        ] {
            let error = read(url).map(drop).unwrap_err().to_string();
            assert!(error.contains(text), "{url}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(rest in "[/:@%\\[\\]?=&#a.0-9é]{0,20}", scheme in 0usize..6) {
            // Only forms without a name to look up.
            let scheme = ["http+unix", "redis+unix", "echo+unix", "stream+tls+unix", "https+unix", "nope"][scheme];
            let _ = read(&format!("{scheme}:{rest}"));
        }
    }
}
