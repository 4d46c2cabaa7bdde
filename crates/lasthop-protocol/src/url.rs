//! An endpoint and its protocol, written as a URL. Each protocol reads its own forms; common to all:
//!
//! | form | meaning |
//! |---|---|
//! | `SCHEME://host[:port]…` | over TCP |
//! | `SCHEME+unix:/path.sock…` | over a Unix socket; `@name` is an abstract one, `./` and `~/` are left to the caller |
//! | `SCHEME+pipe:/path.sock`, `+socketpair`, `+shm`, `+shm-spin` | over a channel that the server hands over there |
//! | `SCHEME+unixgram:/path.sock`, `+seqpacket` | over a Unix socket that carries whole messages |
//! | `SCHEME+udp://host:port` | over UDP |
//! | `SCHEME+tls://…`, `SCHEME+tls+unix:…` | with TLS |
//! | `unix:/path.sock…` | HTTP over a Unix socket |

use lasthop_trial::address::{Endpoint, Transport};

pub use crate::location::UrlOptions;

use crate::{
    PROTOCOLS, Protocol,
    location::{Location, socket_user, with_harmless, without_password},
};

/// The URL in a form to show and keep, with `***` in place of passwords and of parameters that are not known to be
/// harmless. It need not be a valid URL.
pub fn redacted(url: &str) -> String {
    let (scheme, rest) = url.split_once(':').unwrap_or(("", url));
    let lower = scheme.to_ascii_lowercase();
    let authority = url.find("://").map_or(0, |at| at + 3);
    // A wrongly encoded password may contain any character; a path of HTTP or of a socket may contain `@`.
    let (start, end) = match lower.as_str() {
        _ if url[authority..].starts_with("unix:") => (0, 0),
        "http" | "https" | "ws" | "wss" if authority > 0 => {
            let end = url[authority..].find(['/', '?', '#']);
            (authority, end.map_or(url.len(), |end| authority + end))
        }
        _ if lower.ends_with("unix") => {
            let path = socket_user(rest).map_or(rest, |(_, path)| path);
            (scheme.len() + 1, url.len() - path.len())
        }
        _ => (authority, url.len()),
    };
    let shown = without_password(&url[start..end]);
    with_harmless(&format!("{}{shown}{}", &url[..start], &url[end..]))
}

/// Reads a URL. Host names are looked up; of several addresses, `options` choose one.
pub fn parse(url: &str, options: &UrlOptions) -> Result<(Endpoint, Protocol), String> {
    // A colon before a digit precedes a port: `localhost:8000` has no scheme.
    let is_port = |rest: &str| rest.starts_with(|first: char| first.is_ascii_digit());
    let split = url.split_once(':').filter(|(_, rest)| !is_port(rest));
    let (scheme, rest) = split.ok_or_else(|| {
        let shown = redacted(url);
        format!("`{shown}` has no scheme (for example `http://127.0.0.1:8000/` or `http+unix:/run/app.sock:/`)")
    })?;
    let scheme = scheme.to_ascii_lowercase();
    // Most people mean HTTP by a bare socket.
    let scheme = if scheme == "unix" { "http+unix" } else { &scheme };
    let mut words = scheme.split('+');
    let first = words.next().unwrap_or_default();
    let mut location = Location {
        scheme: first,
        is_socket: false,
        transport: None,
        is_secure: false,
        rest,
        options,
    };
    for word in words {
        match word {
            "unix" => location.is_socket = true,
            "tls" => location.is_secure = true,
            _ => {
                let transport = Transport::of_address(word).ok_or_else(|| unknown(scheme, rest))?;
                location.is_socket = transport.is_unix();
                location.transport = Some(transport);
            }
        }
    }
    let kind = PROTOCOLS.into_iter().find(|kind| kind.schemes.contains(&first));
    (kind.ok_or_else(|| unknown(scheme, rest))?.from_url)(&location)
}

/// Error text for a scheme, before `rest`, of which a word is unknown.
fn unknown(scheme: &str, rest: &str) -> String {
    let known: Vec<&str> = PROTOCOLS.iter().flat_map(|kind| kind.schemes).copied().collect();
    // Libraries add words of their own: `jdbc:postgresql://…`, `mysql+pymysql://…`, `redis+socket:///…`.
    let is_known = |scheme: &str| known.contains(&scheme);
    if rest.split_once(':').is_some_and(|(scheme, _)| is_known(scheme)) {
        return format!("leave out `{scheme}:` before the URL");
    }
    if let Some((first, other)) = scheme.split_once('+').filter(|(first, _)| is_known(first)) {
        return format!(
            "leave out `+{other}`; for a Unix socket write `{first}+unix:/…`, or for PostgreSQL `?host=/…`"
        );
    }
    format!(
        "unknown scheme `{scheme}`: for another protocol of requests and replies, use raw:// with --send and --until (known: \
         {}; all but postgres also with +unix for a Unix socket and +tls for TLS)",
        known.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use lasthop_trial::address::Address;
    use proptest::prelude::*;

    use super::*;
    use crate::{
        echo::Echo,
        http::Http,
        mysql::Mysql,
        postgres::{ChannelBinding, Postgres},
        redis::{Redis, Resp},
    };

    fn read(url: &str) -> Result<(Endpoint, Protocol), String> {
        parse(url, &UrlOptions::default())
    }

    fn address(url: &str) -> Address {
        read(url).unwrap_or_else(|error| panic!("{url}: {error}")).0.address
    }

    fn tcp_address(text: &str) -> Address {
        Address::Tcp(text.parse().unwrap())
    }

    /// URLs of HTTP, and the address, path and TLS that they stand for.
    const HTTP: &str = "
http://127.0.0.1:8000/a?b=c#d -> 127.0.0.1:8000 /a?b=c
http://127.0.0.1 -> 127.0.0.1:80 /
https://[::1]/x -> [::1]:443 /x tls
http+unix:/run/app.sock:/uri -> unix:/run/app.sock /uri
http+unix:/run/app.sock -> unix:/run/app.sock /
http+unix:/a:b.sock:/u -> unix:/a:b.sock /u
http+unix:/s:/resize?url=http://h:1/x -> unix:/s /resize?url=http://h:1/x
http://unix:/s:/a:/b -> unix:/s /a:/b
unix:/s?to=http://h/ -> unix:/s /?to=http://h/
http+unix://%2Fa:%2Fs%3F/u:/v@/w -> unix:/a:/s? /u:/v@/w
http+unix://%2Frun%2Fapp.sock/uri -> unix:/run/app.sock /uri
http+unix:///run/app.sock -> unix:/run/app.sock /
http+unix:///run/app.sock:/uri -> unix:/run/app.sock /uri
http+unix://%2Frun%2Fapp.sock -> unix:/run/app.sock /
http://unix:/run/app.sock:/ -> unix:/run/app.sock /
http://unix:/run/app.sock -> unix:/run/app.sock /
https://unix:/run/app.sock:/uri -> unix:/run/app.sock /uri tls
http://unix:@app:/uri -> unix:@app /uri
unix:/run/app.sock -> unix:/run/app.sock /
unix:/run/app.sock:/uri -> unix:/run/app.sock /uri
unix:///run/app.sock -> unix:/run/app.sock /
unix:@app -> unix:@app /
http+unix:abns@app:/uri -> unix:abns@app /uri
http://unix:abns@app:/ -> unix:abns@app /
HTTP://127.0.0.1:8000/A -> 127.0.0.1:8000 /A
Https+Unix:/run/App.sock -> unix:/run/App.sock / tls
unix:./app.sock:/uri -> unix:./app.sock /uri
http+unix:../app.sock -> unix:../app.sock /
http://unix:~/app.sock:/ -> unix:~/app.sock /
http+unix://./app.sock:/ -> unix:./app.sock /
https+unix:@app:/ -> unix:@app / tls
";

    #[test]
    fn http_is_understood_over_tcp_and_sockets() {
        for row in HTTP.trim().lines() {
            let (url, expected) = row.split_once(" -> ").unwrap();
            let (endpoint, protocol) = read(url).unwrap_or_else(|error| panic!("{url}: {error}"));
            let http = protocol.get::<Http>().unwrap();
            let mut expected = expected.split(' ');
            let address: Address = expected.next().unwrap().parse().unwrap();
            assert_eq!(endpoint.address, address, "{url}");
            assert_eq!(Some(http.path.as_str()), expected.next(), "{url}");
            assert_eq!(endpoint.tls.is_some(), expected.next() == Some("tls"), "{url}");
        }
    }

    #[test]
    fn databases_are_understood() {
        let (endpoint, protocol) = read("postgres://u:p%40ss@127.0.0.1:6000/db?sslmode=require").unwrap();
        let postgres = protocol.get::<Postgres>().unwrap();
        assert_eq!(endpoint.address, tcp_address("127.0.0.1:6000"));
        assert_eq!(endpoint.tls.unwrap().server_name, "127.0.0.1");
        assert_eq!(
            (
                postgres.user.as_str(),
                postgres.password.as_deref(),
                postgres.database.as_str()
            ),
            ("u", Some("p@ss"), "db")
        );
        assert_eq!(
            address("postgres:///db?host=/run/pg&user=u&port=6000"),
            Address::Unix("/run/pg/.s.PGSQL.6000".into())
        );
        let (_, protocol) = read("postgres://u@127.0.0.1/?sslmode=require&channel_binding=require").unwrap();
        let postgres = protocol.get::<Postgres>().unwrap();
        assert_eq!(
            (postgres.channel_binding, postgres.database.as_str()),
            (ChannelBinding::Require, "u")
        );
        let tls = |url: &str| read(url).unwrap().0.tls.unwrap();
        assert!(tls("postgres://u@127.0.0.1/?sslmode=require").insecure);
        assert!(!tls("postgres://u@127.0.0.1/?sslmode=verify-full").insecure);
        let named = tls("postgres://u@127.0.0.1/?sslrootcert=/ca.pem&sslmode=require");
        assert_eq!((named.insecure, named.authority), (false, Some("/ca.pem".into())));
        let (endpoint, protocol) = read(
            "postgres:///?host=./run&dbname=d&user=u&application_name=bench&connect_timeout=5&options=-c%20geqo%3Doff",
        )
        .unwrap();
        let postgres = protocol.get::<Postgres>().unwrap();
        assert_eq!(
            (endpoint.address, postgres.database.as_str()),
            (Address::Unix("./run/.s.PGSQL.5432".into()), "d")
        );
        let settings: Vec<_> = postgres.settings.iter().collect();
        let expected = [("application_name", "bench"), ("options", "-c geqo=off")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(
            settings,
            expected.iter().map(|(name, value)| (name, value)).collect::<Vec<_>>()
        );
        let (endpoint, protocol) = read("mysql+tls://u:p%40ss@127.0.0.1/db").unwrap();
        let mysql = protocol.get::<Mysql>().unwrap();
        assert_eq!(
            (endpoint.address, endpoint.tls.is_some()),
            (tcp_address("127.0.0.1:3306"), true)
        );
        assert_eq!(
            (&*mysql.user, mysql.password.as_deref(), &*mysql.database),
            ("u", Some("p@ss"), "db")
        );
        let (endpoint, protocol) = read("mariadb+unix:/run/mysqld/mysqld.sock?user=me&password=a%26b&db=d").unwrap();
        let mysql = protocol.get::<Mysql>().unwrap();
        assert_eq!(endpoint.address, Address::Unix("/run/mysqld/mysqld.sock".into()));
        assert_eq!(
            (&*mysql.user, mysql.password.as_deref(), &*mysql.database),
            ("me", Some("a&b"), "d")
        );
        let (endpoint, protocol) = read("rediss://:secret@127.0.0.1/3").unwrap();
        let redis = protocol.get::<Redis>().unwrap();
        assert_eq!((endpoint.address, redis.database), (tcp_address("127.0.0.1:6379"), 3));
        assert_eq!(
            (redis.username.as_deref(), redis.password.as_deref()),
            (None, Some("secret"))
        );
        assert_eq!(
            address("redis+unix:/run/redis.sock"),
            Address::Unix("/run/redis.sock".into())
        );
        for url in ["redis://127.0.0.1/3?protocol=3", "redis+unix:/s?db=3&protocol=3"] {
            let redis = read(url).unwrap().1.get::<Redis>().cloned().unwrap();
            assert_eq!((redis.database, redis.protocol), (3, Resp::V3), "{url}");
        }
        let (endpoint, protocol) = read("redis+unix:/run/redis.sock?user=me&password=a%26b&db=2").unwrap();
        let redis = protocol.get::<Redis>().unwrap();
        assert_eq!(
            (endpoint.address, redis.database),
            (Address::Unix("/run/redis.sock".into()), 2)
        );
        assert_eq!(
            (redis.username.as_deref(), redis.password.as_deref()),
            (Some("me"), Some("a&b"))
        );
    }

    /// Credentials where clients write them: redis-rs before the path, as in a URL over TCP; libpq, Node and Rails in
    /// their own ways.
    #[test]
    fn sockets_of_databases_are_understood_as_their_clients_write_them() {
        let socket = || Address::Unix("/run/s.sock".into());
        for (url, user, password) in [
            ("redis+unix:///:pa/s%40s@/run/s.sock?db=1", None, Some("pa/s@s")),
            ("redis+unix://me:p@ss@/run/s.sock", Some("me"), Some("p@ss")),
            ("redis+unix:///me:pass@/run/s.sock", Some("me"), Some("pass")),
            ("redis+unix://me@/run/s.sock?password=pass", Some("me"), Some("pass")),
        ] {
            let (endpoint, protocol) = read(url).unwrap_or_else(|error| panic!("{url}: {error}"));
            let redis = protocol.get::<Redis>().unwrap();
            let given = (redis.username.as_deref(), redis.password.as_deref());
            assert_eq!((endpoint.address, given), (socket(), (user, password)), "{url}");
        }
        for url in [
            "mysql+unix://me:pass@/run/s.sock?db=d",
            "mysql://me:pass@localhost/d?socket=/run/s.sock",
            "mariadb://me:pass@/d?unix_socket=%2Frun/s.sock",
        ] {
            let (endpoint, protocol) = read(url).unwrap_or_else(|error| panic!("{url}: {error}"));
            let mysql = protocol.get::<Mysql>().unwrap();
            let given = (&*mysql.user, mysql.password.as_deref(), &*mysql.database);
            assert_eq!(
                (endpoint.address, given),
                (socket(), ("me", Some("pass"), "d")),
                "{url}"
            );
        }
        assert_eq!(
            address("postgresql://me@%2Frun%2Fpg:6000/db"),
            Address::Unix("/run/pg/.s.PGSQL.6000".into())
        );
        assert_eq!(address("redis+unix:///a@/s.sock"), Address::Unix("/a@/s.sock".into()));
    }

    /// No server is told a zone, and no certificate has one. `::1` is on every link.
    #[test]
    fn an_address_of_ip_may_have_a_zone() {
        let (endpoint, protocol) = read("https://[::1%25lo]:1/x").unwrap();
        assert_eq!(endpoint.address, tcp_address("[::1]:1"));
        assert_eq!(endpoint.tls.unwrap().server_name, "::1");
        assert_eq!(protocol.get::<Http>().unwrap().host, "[::1]:1");
        for zone in ["%25lo", "%lo"] {
            assert_eq!(
                address(&format!("http://[fe80::1{zone}]:1")),
                tcp_address("[fe80::1%1]:1")
            );
        }
    }

    #[test]
    fn the_own_server_is_understood() {
        let options = UrlOptions {
            size: 1024,
            ..UrlOptions::default()
        };
        assert_eq!(
            address("echo+shm-spin:/s"),
            Address::Channel(Transport::ShmSpin, "/s".into())
        );
        let (_, protocol) = parse("echo+unix:/s", &options).unwrap();
        assert_eq!(protocol, Echo { size: 1024 }.into());
        assert_eq!(address("hello://127.0.0.1:9000"), tcp_address("127.0.0.1:9000"));
        assert!(read("stream+tls+unix:/s").unwrap().0.tls.is_some());
    }

    #[test]
    fn localhost_is_both_loopback_addresses() {
        let options = UrlOptions {
            choose: |_, found| {
                assert!(found.contains(&tcp_address("127.0.0.1:1")), "{found:?}");
                tcp_address("[::1]:1")
            },
            ..UrlOptions::default()
        };
        for url in ["http://localhost:1/", "redis://LOCALHOST:1"] {
            assert_eq!(parse(url, &options).unwrap().0.address, tcp_address("[::1]:1"), "{url}");
        }
    }

    /// URLs that are refused, and a part of what is said.
    const WRONG: &str = "
127.0.0.1 -> has no scheme
localhost:8000 -> has no scheme
ftp://x/ -> unknown scheme `ftp`
echo+quic:/s -> leave out `+quic`; for a Unix socket write `echo+unix:/…`
redis+socket:///run/redis.sock -> leave out `+socket`; for a Unix socket write `redis+unix:/…`
postgresql+psycopg2://u@127.0.0.1/db -> leave out `+psycopg2`; for
jdbc:postgresql://127.0.0.1/db -> leave out `jdbc:` before the URL
mqtt://127.0.0.1 -> for another protocol of requests and replies, use raw://
raw://127.0.0.1 -> `127.0.0.1` needs a host and a port
raw://127.0.0.1:1/PING -> `--send` says what is sent
http+unix:app.sock -> is not the path of a socket: it must begin with `/`, `./`
http+unix:./ -> is not the path of a socket
http+unix:abns@ -> is not the path of a socket
echo+pipe:@name -> is not the path of a socket
echo://127.0.0.1 -> `127.0.0.1` needs a host and a port
http:// -> the URL needs a host and a port
http://127.0.0.1:99999/ -> `99999` is not a port
postgres://127.0.0.1/db -> the user is missing
postgres://u:p@/run/postgresql:5432/db -> the host is missing: name it, or the folder
postgres://u@127.0.0.1:5432,127.0.0.1:5433/db -> `127.0.0.1:5432,127.0.0.1` names several hosts
postgres://u@127.0.0.1/db?sslmode=prefer -> sslmode `prefer`
postgres://u@127.0.0.1/db?x=1 -> unknown parameter `x`
postgres://u@127.0.0.1/db?channel_binding=maybe -> channel_binding `maybe`
mysql://127.0.0.1/db -> the user is missing
mysql+unix:/s -> the user is missing
mysql://u@/db -> needs a host and a port
mysql://u@127.0.0.1/db?sslmode=require -> unknown parameter `sslmode` (known: user, password, db, socket, cleartext)
mysql+unix:/s?user=u&cleartext=1 -> cleartext `1` is neither
redis://127.0.0.1/x -> not the number of a Redis database
redis+unix:/s?db=x -> not the number of a Redis database
redis+unix:/s?host=x -> unknown parameter `host` (known: user, password, db, protocol)
http+unix://%2/ -> broken percent-encoding
http+unix://:pass@/run/s:/ -> takes no user or password
echo+unix:///:pass@/run/s -> takes no user or password
unix://:pass@/run/redis.sock?db=2 -> for Redis, a URL of `redis+unix:`
";

    #[test]
    fn errors_say_what_is_wrong() {
        for row in WRONG.trim().lines() {
            let (url, text) = row.split_once(" -> ").unwrap();
            let error = read(url).map(drop).unwrap_err().to_string();
            assert!(error.contains(text), "{url}: {error}");
        }
    }

    /// URLs, and what is shown of them.
    const SHOWN: &str = "
postgres://me:s3cret@127.0.0.1:1/db -> postgres://me:***@127.0.0.1:1/db
postgres://me:s3/cr?et@h/db -> postgres://me:***@h/db
redis://:s3cret@h/3 -> redis://:***@h/3
redis:me:s3cret@h -> redis:***@h
redis+unix:/a:b@c.sock?user=me&password=s3cret&db=2 -> redis+unix:/a:b@c.sock?user=me&password=***&db=2
postgres:///db?host=/run&user=a@b&PassWord=s3cret -> postgres:///db?host=/run&user=a@b&PassWord=***
http://me:s3cret@h/x -> http://me:***@h/x
HTTP://me:s3cret@h/@x -> HTTP://me:***@h/@x
http://h:80/a:b@c?access_token=s3cret -> http://h:80/a:b@c?access_token=***
me:s3cret@h -> me:***@h
http://h/a?page=2&X-Amz-Signature=s3cret&s3cret -> http://h/a?page=2&X-Amz-Signature=***&***
http://h/a?czNjcmV0==&code=s3cret#token=s3cret -> http://h/a?***&code=***#***
statsd+udp://h?counter=http://h/m?token=s3cret&counts=n -> statsd+udp://h?counter=http://h/m?token=***&counts=n
statsd+udp://h?counter=http%3A%2F%2Fh%2Fm%3Fk%3Ds3cret -> statsd+udp://h?counter=http://h/m?k=***
http+unix:/run/app.sock:/@x -> http+unix:/run/app.sock:/@x
http+unix://%2Frun%2Fapp.sock/a:b@/c -> http+unix://%2Frun%2Fapp.sock/a:b@/c
redis+unix:///:s3cret@/s?db=1 -> redis+unix:///:***@/s?db=1
redis+unix:///me:s3cret@/s -> redis+unix:///me:***@/s
redis+unix://me:s3?c/r:e@t@/s -> redis+unix://me:***@/s
Mysql+Unix:me:s3cret@/s -> Mysql+Unix:me:***@/s
unix://:s3cret@/s:/ -> unix://:***@/s:/
http://unix:abns@app:/x -> http://unix:abns@app:/x
";

    #[test]
    fn passwords_are_not_shown() {
        for row in SHOWN.trim().lines() {
            let (url, shown) = row.split_once(" -> ").unwrap();
            assert_eq!(redacted(url), shown);
        }
    }

    #[test]
    fn errors_show_no_password() {
        for url in [
            "postgres://me:s3cret/db",
            "postgres://me:s3cret",
            "postgres://me:1s3/cret@127.0.0.1/db",
            "postgres://me:12/s3cret@127.0.0.1/db",
            "postgres://me:12?s3cret@127.0.0.1/db",
            "postgres://me:s3cret%zz@127.0.0.1/db",
            "postgres://127.0.0.1/db?user=me&password=s3cret%",
            "postgres://me:s3cret@127.0.0.1:0/db",
            "postgres//me:s3cret@127.0.0.1/db",
            "me:5s3cret@127.0.0.1/db",
            "redis://:s3cret/3",
            "mysql://me:s3cret/db",
            "mysql://me:1s3/cret@127.0.0.1/db",
            "mysql://me:12?s3cret@127.0.0.1/db",
            "mysql+unix:/s?user=me&password=s3cret%",
            "redis://:12/s3cret@127.0.0.1/3",
            "redis+unix:/s?password=s3cret%",
            "rediss://me:s3cret@127.0.0.1:70000/3",
            "http://me:s3cret@127.0.0.1/",
            "echo://me:s3cret@127.0.0.1:1",
            "unix://:s3cret@/s:/",
            "redis+unix::s3cret@s",
            "redis+unix://:s3cret%zz@/s",
            "memcached+unix://me:s3cret@/s",
        ] {
            let error = read(url).map(drop).unwrap_err();
            for text in [error.to_string(), format!("{error:?}")] {
                assert!(!text.contains("s3") && !text.contains("cret"), "{url}: {text}");
            }
        }
    }

    proptest! {
        #[test]
        fn no_password_is_shown(password in "[a-zA-Z0-9:/?#%@&=+ é]{0,12}", scheme in 0usize..4) {
            let scheme = ["postgres", "mysql", "redis", "rediss"][scheme];
            let url = format!("{scheme}://me:<{password}>@127.0.0.1:1/0");
            prop_assert_eq!(redacted(&url), format!("{scheme}://me:***@127.0.0.1:1/0"));
        }

        #[test]
        fn no_text_is_too_strange(rest in "[/:@%\\[\\]?=&#a.0-9é]{0,20}", scheme in 0usize..6) {
            // Only forms without a host name to look up.
            let scheme = ["http+unix", "redis+unix", "echo+unix", "stream+tls+unix", "https+unix", "nope"][scheme];
            let _ = read(&format!("{scheme}:{rest}"));
        }
    }
}
