//! PostgreSQL's protocol, version 3: authentication, then one query, repeated, in the simple or the extended form.

mod channel;
mod login;
mod message;
mod replies;
mod result;
mod scram;
mod spec;

use std::{collections::BTreeMap, path::PathBuf, rc::Rc};

use lasthop_trial::{
    address::{Address, Endpoint},
    failure::Failure,
    options::within,
    result::ErrorClass,
};

use self::{
    message::{MESSAGE_MAX, Requests},
    replies::PostgresReplies,
    result::{first_value, result, without_notices},
};
pub use self::{
    result::PostgresExpect,
    spec::{ChannelBinding, Postgres, QueryMode},
};
use super::{
    exact::Exact,
    exact::alike::usual,
    exchange::Factory,
    kind::{LoadOptions, Protocol, ProtocolKind, ProtocolSpec, Trait, Usage},
    statement,
};
use crate::{
    location::{Location, UNENCODED, decode, is_socket, pairs, port_number, split_port, unknown_parameter},
    tls_request::TlsRequest,
};

pub static KIND: ProtocolKind = ProtocolKind {
    schemes: &["postgres", "postgresql"],
    urls: &[
        (
            "postgres://user@127.0.0.1/db",
            "PostgreSQL; ?sslmode=require for TLS, verified as\nby libpq: only with --authority or verify-full; also\n\
             application_name, options, channel_binding, …",
        ),
        (
            "postgres:///db?host=/run/postgresql&user=me",
            "PostgreSQL over the socket in a directory",
        ),
    ],
    password_variable: Some("PGPASSWORD"),
    ..ProtocolKind::of::<Postgres>("postgres", "PostgreSQL", from_url)
};

fn from_url(location: &Location<'_>) -> Result<(Endpoint, Protocol), String> {
    if location.is_socket || location.is_secure {
        let text =
            "a PostgreSQL URL names the folder of its socket by `?host=/…`, and asks for TLS by `?sslmode=require`";
        return Err(text.to_owned());
    }
    let (host, rest) = location.authority();
    let (mut user, mut password, host) = location.credentials(host)?;
    let (path, parameters) = rest.split_once('?').unwrap_or((rest, ""));
    if path.contains('@') {
        return Err(UNENCODED.to_owned());
    }
    let (name, port) = split_port(host)?;
    // libpq takes an encoded host for the folder of a socket.
    let mut host = decode(name)?;
    let mut port = port.unwrap_or(5432);
    let mut location = *location;
    let mut channel_binding = ChannelBinding::default();
    let mut named = decode(path.trim_start_matches('/'))?;
    let mut settings = BTreeMap::new();
    let mut verified = false;
    let mut authority = None;
    let mut of_system = false;
    for (key, value) in pairs(parameters)? {
        match key {
            "host" => host = value,
            "dbname" => named = value,
            "port" => port = port_number(&value)?,
            "user" => user = Some(value),
            "password" => password = Some(value),
            "sslmode" => (location.is_secure, verified) = ssl_mode(&value)?,
            "sslrootcert" if value == "system" => of_system = true,
            "sslrootcert" => authority = Some(PathBuf::from(value)),
            "channel_binding" => channel_binding = binding(&value)?,
            "fallback_application_name" => drop(settings.entry("application_name".to_owned()).or_insert(value)),
            _ if SAID.contains(&key) => drop(settings.insert(key.to_owned(), value)),
            _ if UNUSED.contains(&key) => {}
            _ => {
                let known = "host, port, dbname, user, password, sslmode, sslrootcert, channel_binding";
                return Err(unknown_parameter(
                    key,
                    &format!("{known}, {}, {}", SAID.join(", "), UNUSED.join(", ")),
                ));
            }
        }
    }
    let user = user.ok_or_else(|| "the user is missing (write `postgres://user@…` or `?user=…`)".to_owned())?;
    // The file name that PostgreSQL gives its socket.
    let file = format!(".s.PGSQL.{port}");
    let address = if let Some(name) = host.strip_prefix('@') {
        Address::Abstract(format!("{name}/{file}"))
    } else if is_socket(&host) {
        Address::Unix(PathBuf::from(&host).join(file))
    } else if host.is_empty() {
        return Err(
            "the host is missing: name it, or the folder of the socket by `?host=/…` or, in place of the host, with each `/` \
             as `%2F`"
                .to_owned(),
        );
    } else {
        location.resolved(&host, port)?
    };
    let mut tls = location.tls(&host);
    if let Some(tls) = &mut tls {
        tls.authority = tls.authority.take().or(authority);
        // `require` checks certificates only against a given authority.
        tls.insecure |= !verified && !of_system && tls.authority.is_none();
    }
    let postgres = Postgres {
        // libpq's default.
        database: if named.is_empty() { user.clone() } else { named },
        user,
        password,
        query: "select 1".to_owned(),
        mode: QueryMode::Simple,
        parameters: Vec::new(),
        expect: PostgresExpect {
            rows: Some(1),
            first: Some("1".to_owned()),
            ..PostgresExpect::default()
        },
        channel_binding,
        settings,
    };
    Ok((Endpoint { address, tls }, postgres.into()))
}

/// libpq parameters sent to the server.
const SAID: [&str; 3] = ["application_name", "client_encoding", "options"];

/// libpq parameters for slow, lost or alternative connections: a load has its own options for timeouts.
const UNUSED: [&str; 8] = [
    "connect_timeout",
    "gssencmode",
    "keepalives",
    "keepalives_count",
    "keepalives_idle",
    "keepalives_interval",
    "target_session_attrs",
    "tcp_user_timeout",
];

/// Whether TLS is used, and whether certificates are verified without a named authority. `prefer` and `allow` are
/// refused: they would leave open what is measured.
fn ssl_mode(word: &str) -> Result<(bool, bool), String> {
    match word {
        "disable" => Ok((false, false)),
        "require" => Ok((true, false)),
        "verify-ca" | "verify-full" => Ok((true, true)),
        _ => Err(format!(
            "sslmode `{word}` is not one of `disable`, `require`, `verify-ca` and `verify-full` (the last two verify)"
        )),
    }
}

fn binding(word: &str) -> Result<ChannelBinding, String> {
    match word {
        "disable" => Ok(ChannelBinding::Disable),
        "prefer" => Ok(ChannelBinding::Prefer),
        "require" => Ok(ChannelBinding::Require),
        _ => Err(format!(
            "channel_binding `{word}` is not one of `disable`, `prefer` and `require`"
        )),
    }
}

impl ProtocolSpec for Postgres {
    fn kind(&self) -> &'static ProtocolKind {
        &KIND
    }

    fn validate(&self, usage: Usage) -> Result<(), String> {
        if self.channel_binding == ChannelBinding::Require && !usage.encrypted {
            return Err("the channel binding that is required needs TLS (`sslmode=require`)".to_owned());
        }
        let password = self.password.as_deref().unwrap_or_default();
        let texts = [
            ("the user", &*self.user),
            ("the database", &self.database),
            ("the password", password),
            ("the query", &self.query),
        ];
        let settings = self
            .settings
            .iter()
            .flat_map(|(name, value)| [("a setting", &**name), ("a setting", value)]);
        let texts: Vec<_> = texts.into_iter().chain(settings).collect();
        statement::without_nul(&texts, "PostgreSQL")?;
        within(
            "length of the query",
            self.query.len() as u64,
            0,
            u64::from(MESSAGE_MAX) / 2,
        )?;
        // Bind counts parameters in an Int16.
        within("number of parameters", self.parameters.len() as u64, 0, 32_767)?;
        if self.mode == QueryMode::Simple && !self.parameters.is_empty() {
            return Err("a simple query has no parameters (use the mode `extended` or `prepared`)".to_owned());
        }
        Ok(())
    }

    fn factory(&self, usage: Usage) -> Factory {
        let requests = Rc::new(Requests::new(self, usage.pipeline));
        Factory::checked(usage.pipeline, move || PostgresReplies::new(Rc::clone(&requests)))
    }

    fn checked(&self, size: &dyn Fn(u64) -> String) -> String {
        statement::checked(self.expect.parts(), self.expect.reply.as_ref(), size)
    }

    fn learn(&mut self, replies: &[&[u8]]) -> Result<Option<String>, Failure> {
        let replies: Vec<Vec<u8>> = replies.iter().map(|reply| without_notices(reply)).collect();
        let replies: Vec<&[u8]> = replies.iter().map(Vec::as_slice).collect();
        let replies = usual(&replies);
        let (first, others) = replies.split_first().expect("there is a reply");
        let value = first_value(first);
        let mut common = result(first);
        for reply in others {
            let PostgresExpect { rows, tag, .. } = result(reply);
            common.rows = common.rows.filter(|own| rows == Some(*own));
            common.tag = common.tag.filter(|own| tag.as_ref() == Some(own));
            if first_value(reply) != value {
                (common.first, common.null) = (None, false);
            }
        }
        self.expect = common;
        if others.iter().all(|reply| reply == first) {
            self.expect.reply = Some(Exact::of(first));
            return Ok(None);
        }
        Ok(Some(statement::only_checked(self.expect.parts(), &replies)))
    }

    fn apply(&mut self, options: &mut LoadOptions) -> Result<(), String> {
        if let Some(query) = options.query.take() {
            self.query = query;
            self.expect = PostgresExpect::default();
        }
        if let Some(value) = options.expect.take() {
            self.expect.first = Some(value);
        }
        self.parameters = std::mem::take(&mut options.parameters);
        self.mode = match options.mode.take() {
            Some("extended") => QueryMode::Extended,
            Some("prepared") => QueryMode::Prepared,
            _ => QueryMode::Simple,
        };
        Ok(())
    }

    fn traits(&self, reply: &[u8]) -> Result<Vec<Trait>, Failure> {
        Ok(vec![("reply", without_notices(reply))])
    }

    fn password(&mut self) -> Option<&mut Option<String>> {
        Some(&mut self.password)
    }

    fn greets(&self) -> bool {
        true
    }

    fn tls_request(&self) -> Option<TlsRequest> {
        Some(TlsRequest {
            request: &TLS_REQUEST,
            server_first: false,
            missing: tls_answer,
            granted: &[TLS_GRANTED],
        })
    }

    fn let_anybody_in(&mut self) {
        self.password = None;
        self.channel_binding = ChannelBinding::Disable;
    }

    fn welcome(&self, step: usize, _: bool) -> Vec<u8> {
        if step == 0 { WELCOME.to_vec() } else { PARSED.to_vec() }
    }

    /// A libpq connection string without the password. A Unix socket is given by its directory and the port in its
    /// name; TLS is always verified if an authority is given.
    fn data_source(&self, endpoint: &Endpoint) -> String {
        let mut words = match &endpoint.address {
            Address::Tcp(address) => {
                let name = endpoint
                    .tls
                    .as_ref()
                    .map_or_else(|| address.ip().to_string(), |tls| tls.server_name.clone());
                vec![
                    // The name is for the certificate, the address for the connection, so no name is looked up.
                    ("host", name),
                    ("hostaddr", address.ip().to_string()),
                    ("port", address.port().to_string()),
                ]
            }
            Address::Unix(path) => {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let port = name
                    .rsplit('.')
                    .next()
                    .filter(|port| port.parse::<u16>().is_ok())
                    .unwrap_or("5432")
                    .to_owned();
                let folder = path
                    .parent()
                    .map(|folder| folder.display().to_string())
                    .unwrap_or_default();
                vec![("host", folder), ("port", port)]
            }
            named => vec![("host", format!("@{}", named.bare()))],
        };
        words.extend([("user", self.user.clone()), ("dbname", self.database.clone())]);
        let authority = endpoint.tls.as_ref().map(|tls| tls.authority.as_ref());
        let mode = match authority {
            Some(Some(_)) => "verify-full",
            Some(None) => "require",
            None => "disable",
        };
        words.push(("sslmode", mode.to_owned()));
        words.extend(
            authority
                .flatten()
                .map(|path| ("sslrootcert", path.display().to_string())),
        );
        let settings = self.settings.iter();
        words.extend(settings.map(|(name, value)| (name.as_str(), value.clone())));
        // With credentials at hand libpq tries GSSAPI encryption first.
        words.push(("gssencmode", "disable".to_owned()));
        let binding = match self.channel_binding {
            // libpq's own default.
            ChannelBinding::Prefer => None,
            ChannelBinding::Disable => Some("disable"),
            ChannelBinding::Require => Some("require"),
        };
        words.extend(binding.map(|word| ("channel_binding", word.to_owned())));
        words
            .iter()
            .map(|(key, value)| format!("{key}={}", quoted(value)))
            .collect::<Vec<_>>()
            .join(" ")
    }
}

fn quoted(value: &str) -> String {
    format!("'{}'", value.replace('\\', "\\\\").replace('\'', "\\'"))
}

/// PostgreSQL accepts the client (AuthenticationOk) and is ready (ReadyForQuery, idle).
const WELCOME: &[u8] = b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I";
/// The statement is parsed (ParseComplete), and PostgreSQL is ready (ReadyForQuery, idle).
const PARSED: &[u8] = b"1\0\0\0\x04Z\0\0\0\x05I";

/// The request for TLS that precedes the handshake (1234 and 5679 in place of a version), and the byte that grants it.
pub const TLS_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];
pub const TLS_GRANTED: u8 = b'S';

/// The answer to the request for TLS is one byte.
fn tls_answer(heard: &[u8]) -> Result<usize, Failure> {
    match heard.first() {
        None => Ok(1),
        Some(&TLS_GRANTED) => Ok(0),
        Some(_) => Err(Failure::new(
            ErrorClass::Tls,
            "the server does not offer TLS on this socket",
        )),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{
        super::exchange::{
            Exchange, excerpt,
            testing::{self, same_at_every_cut, usage},
        },
        message::message,
        *,
    };

    fn exchange(expect: PostgresExpect) -> Box<dyn Exchange> {
        testing::exchange(&load(expect))
    }

    fn load(expect: PostgresExpect) -> Postgres {
        Postgres {
            user: "u".into(),
            database: "d".into(),
            password: None,
            query: "select 1".into(),
            mode: QueryMode::Simple,
            parameters: vec![],
            expect,
            channel_binding: ChannelBinding::Prefer,
            settings: BTreeMap::new(),
        }
    }

    fn row(value: &str) -> Vec<u8> {
        let length = (value.len() as u32).to_be_bytes();
        message(b'D', &[&[0, 1], &length[..], value.as_bytes()].concat())
    }

    fn reply(rows: &[&str]) -> Vec<u8> {
        let mut bytes = message(b'T', b"\0\x01?column?\0............");
        rows.iter().for_each(|value| bytes.extend(row(value)));
        bytes.extend(message(b'C', b"SELECT 1\0"));
        bytes.extend(message(b'Z', b"I"));
        bytes
    }

    fn outcome(expect: PostgresExpect, reply: &[u8]) -> Result<Option<ErrorClass>, ErrorClass> {
        let result = same_at_every_cut(&mut *exchange(expect), reply);
        result
            .map(|done| done.2.map(|fault| fault.class))
            .map_err(|error| error.class)
    }

    fn expect(rows: u64, first: &str) -> PostgresExpect {
        PostgresExpect {
            rows: Some(rows),
            first: Some(first.into()),
            tag: Some("SELECT 1".into()),
            ..PostgresExpect::default()
        }
    }

    #[test]
    fn requests_are_messages_of_the_protocol() {
        let spec = |mode| Postgres {
            mode,
            parameters: vec!["7".into(), String::new()],
            ..load(expect(1, "1"))
        };
        let parse = b"P\0\0\0\x10\0select 1\0\0\0";
        let bind = b"B\0\0\0\x15\0\0\0\0\0\x02\0\0\0\x017\0\0\0\0\0\0";
        let end = b"E\0\0\0\x09\0\0\0\0\0S\0\0\0\x04";
        let extended = [&parse[..], bind, end].concat();
        assert_eq!(
            Requests::new(&spec(QueryMode::Simple), 1).request,
            b"Q\0\0\0\x0dselect 1\0"
        );
        assert_eq!(Requests::new(&spec(QueryMode::Extended), 1).request, extended);
        let prepared = spec(QueryMode::Prepared);
        let said = Requests::new(&prepared, 1);
        let bind = b"B\0\0\0\x1c\0lasthop\0\0\0\0\x02\0\0\0\x017\0\0\0\0\0\0";
        assert_eq!(said.prepare, b"P\0\0\0\x17lasthop\0select 1\0\0\0S\0\0\0\x04");
        assert_eq!(said.request, [&bind[..], end].concat());
        assert_eq!(
            prepared.factory(usage(2)).exchange().request(),
            [&bind[..], end].concat().repeat(2)
        );
        let startup = b"\0\0\0\x49\0\x03\0\0user\0u\0database\0d\0application_name\0lasthop\0client_encoding\0UTF8\0\0";
        assert_eq!(said.startup, startup);
        let named = Postgres {
            settings: [("application_name", "a"), ("options", "-c x=1")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            ..load(expect(1, "1"))
        };
        let startup = b"\0\0\0\x52\0\x03\0\0user\0u\0database\0d\0client_encoding\0UTF8\0application_name\0a\0options\0-c x=1\0\0";
        assert_eq!(Requests::new(&named, 1).startup, startup);
        assert!(
            Postgres {
                query: "select '\0'".into(),
                ..load(expect(1, "1"))
            }
            .validate(usage(1))
            .is_err()
        );
    }

    #[test]
    fn a_password_is_said_as_the_server_asks() {
        let spec = Postgres {
            user: "md5_user".into(),
            password: Some("password".into()),
            ..load(expect(1, "1"))
        };
        let mut exchange = testing::exchange(&spec);
        exchange.reset();
        exchange.greet(&[], &mut Vec::new()).unwrap();
        assert_eq!(said(&mut *exchange, &authentication(3, &[])).unwrap(), b"password\0");
        let salted = said(&mut *exchange, &authentication(5, &[0x2a, 0x3d, 0x8f, 0xe0])).unwrap();
        assert_eq!(salted, b"md562af4dd09bbb41884907a838a3233294\0");
    }

    #[test]
    fn rows_and_their_first_value_are_checked() {
        let wrong = Ok(Some(ErrorClass::WrongContent));
        assert_eq!(outcome(expect(1, "1"), &reply(&["1"])), Ok(None));
        assert_eq!(outcome(expect(3, "1"), &reply(&["1", "2", "3"])), Ok(None));
        assert_eq!(outcome(expect(1, "2"), &reply(&["1"])), wrong);
        assert_eq!(outcome(expect(2, "1"), &reply(&["1"])), wrong);
        assert_eq!(outcome(expect(0, "1"), &reply(&[])), wrong);
        let tag = PostgresExpect {
            tag: Some("SELECT 2".into()),
            ..PostgresExpect::default()
        };
        assert_eq!(outcome(tag, &reply(&["1"])), wrong);
    }

    #[test]
    fn the_tags_of_several_statements_are_checked_in_order() {
        let replied = |tags: &[&str]| {
            let tags: Vec<u8> = tags
                .iter()
                .flat_map(|tag| message(b'C', format!("{tag}\0").as_bytes()))
                .collect();
            [row("1"), tags, message(b'Z', b"I")].concat()
        };
        let all = replied(&["BEGIN", "SELECT 1", "COMMIT"]);
        let (learnt, unchecked) = learnt(&all, &all);
        assert_eq!(learnt.tag.as_deref(), Some("BEGIN; SELECT 1; COMMIT"));
        assert_eq!((outcome(learnt, &all), unchecked.as_str()), (Ok(None), ""));
        let said = |tags: &[&str], reply: &[&str]| {
            let expect = PostgresExpect {
                tag: Some(tags.join("; ")),
                ..PostgresExpect::default()
            };
            let (_, keep, fault) = same_at_every_cut(&mut *exchange(expect), &replied(reply)).unwrap();
            assert!(keep);
            fault.map(|fault| fault.message)
        };
        let expected = ["BEGIN", "SELECT 1"];
        assert_eq!(said(&expected, &expected), None);
        for (reply, message) in [
            (
                &["BEGIN", "SELECT 10"][..],
                "the command tag is \"SELECT 10\", expected \"SELECT 1\"",
            ),
            (
                &["SELECT 1", "BEGIN"],
                "the command tag is \"SELECT 1\", expected \"BEGIN\"",
            ),
            (
                &["BEGIN", "SELECT 1", "COMMIT"],
                "the command tag is \"COMMIT\", expected none",
            ),
            (&["BEGIN"], "no command tag, expected \"SELECT 1\""),
        ] {
            assert_eq!(said(&expected, reply).as_deref(), Some(message));
        }
    }

    #[test]
    fn an_error_is_told_by_its_state() {
        let mut bytes = message(b'E', b"SERROR\0C42703\0Mcolumn \"x\" does not exist\0\0");
        bytes.extend(message(b'Z', b"I"));
        let (_, keep, fault) = same_at_every_cut(&mut *exchange(expect(1, "1")), &bytes).unwrap();
        assert!(keep);
        assert_eq!(
            fault.unwrap().message,
            "query: SQLSTATE 42703: column \"x\" does not exist"
        );
    }

    #[test]
    fn a_statement_that_another_client_prepared_brings_advice() {
        let mut exchange = testing::exchange(&Postgres {
            mode: QueryMode::Prepared,
            ..load(expect(1, "1"))
        });
        exchange.reset();
        exchange.greet(WELCOME, &mut Vec::new()).unwrap();
        let error = message(
            b'E',
            b"SERROR\0C42P05\0Mprepared statement \"lasthop\" already exists\0\0",
        );
        assert_eq!(
            said(&mut *exchange, &error).unwrap_err(),
            "prepare: SQLSTATE 42P05: prepared statement \"lasthop\" already exists; behind a pooler that shares \
             connections use `--extended` in place of `--prepared`"
        );
    }

    #[test]
    fn a_copy_is_refused_in_words() {
        for (kind, body) in [(b'H', [0, 0, 1, 0, 0]), (b'G', [0, 0, 1, 0, 0])] {
            let failure = testing::feed(&mut *exchange(expect(1, "1")), &[&message(kind, &body)]).unwrap_err();
            assert_eq!(failure.message, "COPY is not supported: use a query that returns rows");
        }
    }

    #[test]
    fn what_is_no_message_is_refused() {
        assert_eq!(outcome(expect(1, "1"), b"HTTP/1.1 400 Bad"), Err(ErrorClass::Protocol));
        assert_eq!(outcome(expect(1, "1"), &[b'D', 0, 0, 0, 3]), Err(ErrorClass::Protocol));
        assert_eq!(
            outcome(expect(1, "1"), &[b'D', 255, 255, 255, 255]),
            Err(ErrorClass::Protocol)
        );
        assert_eq!(outcome(expect(1, "1"), &reply(&["1"])[..20]), Err(ErrorClass::Reset));
    }

    const PLAIN: &[u8] = b"SCRAM-SHA-256\0\0";
    const BOTH: &[u8] = b"SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0";
    const PASSWORD: &str = "pencil";

    fn authentication(code: i32, rest: &[u8]) -> Vec<u8> {
        message(b'R', &[&code.to_be_bytes()[..], rest].concat())
    }

    fn certificate() -> Vec<u8> {
        rcgen::generate_simple_self_signed(["lasthop.test".to_owned()])
            .unwrap()
            .cert
            .der()
            .to_vec()
    }

    /// A client that has sent its first message, over a stream with this certificate.
    fn client(channel_binding: ChannelBinding, certificate: Option<&[u8]>) -> Box<dyn Exchange> {
        let spec = Postgres {
            channel_binding,
            password: Some(PASSWORD.into()),
            ..load(expect(1, "1"))
        };
        let mut exchange = testing::exchange(&spec);
        exchange.reset();
        if let Some(certificate) = certificate {
            exchange.secured(certificate, &[]);
        }
        assert_eq!(exchange.greet(&[], &mut Vec::new()), Ok(false));
        exchange
    }

    /// The client's answer, without the frame of its message.
    fn said(exchange: &mut dyn Exchange, input: &[u8]) -> Result<Vec<u8>, String> {
        let mut output = Vec::new();
        exchange.greet(input, &mut output).map_err(|failure| failure.message)?;
        Ok(output.get(5..).unwrap_or_default().to_vec())
    }

    #[test]
    fn the_channel_is_bound_where_both_sides_can() {
        use ChannelBinding::{Disable, Prefer, Require};
        let own = certificate();
        let first = |binding, encrypted: bool, offered: &[u8]| {
            said(
                &mut *client(binding, encrypted.then_some(&own)),
                &authentication(10, offered),
            )
        };
        let begins = |answer: Result<Vec<u8>, String>, mechanism: &str, header: &str| {
            let answer = answer.unwrap();
            let (name, words) = answer.split_at(mechanism.len() + 5);
            assert!(
                name.starts_with(mechanism.as_bytes()) && name[mechanism.len()] == 0,
                "{}",
                excerpt(&answer)
            );
            assert!(words.starts_with(header.as_bytes()), "{}", excerpt(words));
        };
        begins(
            first(Prefer, true, BOTH),
            "SCRAM-SHA-256-PLUS",
            "p=tls-server-end-point,,n=,r=",
        );
        begins(
            first(Require, true, BOTH),
            "SCRAM-SHA-256-PLUS",
            "p=tls-server-end-point,,n=,r=",
        );
        // The client says that it could bind, so that no attacker can remove the server's offer unnoticed.
        begins(first(Prefer, true, PLAIN), "SCRAM-SHA-256", "y,,n=,r=");
        begins(first(Disable, true, BOTH), "SCRAM-SHA-256", "n,,n=,r=");
        begins(first(Prefer, false, PLAIN), "SCRAM-SHA-256", "n,,n=,r=");
        assert!(
            first(Require, true, PLAIN)
                .unwrap_err()
                .contains("the server does not offer it")
        );
        assert!(
            first(Prefer, true, b"OAUTHBEARER\0\0")
                .unwrap_err()
                .contains("no SCRAM-SHA-256")
        );
        for (code, rest) in [(0, vec![]), (3, vec![]), (5, vec![1, 2, 3, 4])] {
            let refused = said(&mut *client(Require, Some(&own)), &authentication(code, &rest)).unwrap_err();
            assert!(refused.contains("channel binding is required"), "{code}: {refused}");
        }
    }

    /// The server's side (RFC 5802, RFC 7677) by another library. Returns the final message if the proof is right.
    fn served(first: &str, server_first: &str, client_final: &str, bound_to: &[u8]) -> Option<String> {
        use base64::{Engine as _, engine::general_purpose::STANDARD};
        use ring::{digest, hmac, pbkdf2};

        let (rest, proof) = client_final.rsplit_once(",p=")?;
        let bound = [b"p=tls-server-end-point,,", bound_to].concat();
        let binding = rest.split(',').next()?.strip_prefix("c=")?;
        if STANDARD.decode(binding).ok()? != bound {
            return None;
        }
        let mut salted = [0; 32];
        let rounds = std::num::NonZero::new(4096)?;
        pbkdf2::derive(
            pbkdf2::PBKDF2_HMAC_SHA256,
            rounds,
            b"salt",
            PASSWORD.as_bytes(),
            &mut salted,
        );
        let sign = |key: &[u8], text: &[u8]| hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text);
        let words = format!("{first},{server_first},{rest}");
        let client_key = sign(&salted, b"Client Key");
        let stored = digest::digest(&digest::SHA256, client_key.as_ref());
        let signature = sign(stored.as_ref(), words.as_bytes());
        let wanted: Vec<u8> = client_key
            .as_ref()
            .iter()
            .zip(signature.as_ref())
            .map(|(key, mask)| key ^ mask)
            .collect();
        if STANDARD.decode(proof).ok()? != wanted {
            return None;
        }
        let server_key = sign(&salted, b"Server Key");
        Some(format!(
            "v={}",
            STANDARD.encode(sign(server_key.as_ref(), words.as_bytes()))
        ))
    }

    #[test]
    fn a_bound_conversation_convinces_both_sides_and_no_other_certificate() {
        let own = certificate();
        let other = certificate();
        let mut exchange = client(ChannelBinding::Require, Some(&own));
        let initial = said(&mut *exchange, &authentication(10, BOTH)).unwrap();
        let initial = String::from_utf8(initial[scram::SHA_256_PLUS.len() + 5..].to_vec()).unwrap();
        let first = initial.strip_prefix("p=tls-server-end-point,,").unwrap();
        // "c2FsdA==" is "salt".
        let server_first = format!("{}server,s=c2FsdA==,i=4096", first.strip_prefix("n=,").unwrap());
        let answer = said(&mut *exchange, &authentication(11, server_first.as_bytes())).unwrap();
        let answer = String::from_utf8(answer).unwrap();
        let digest = |certificate: &[u8]| channel::server_end_point(certificate).unwrap();
        assert_eq!(
            served(first, &server_first, &answer, &digest(&other)),
            None,
            "somebody in between"
        );
        let last = served(first, &server_first, &answer, &digest(&own)).unwrap();
        let welcome = [
            authentication(12, last.as_bytes()),
            authentication(0, &[]),
            message(b'Z', b"I"),
        ]
        .concat();
        assert_eq!(exchange.greet(&welcome, &mut Vec::new()), Ok(true));
        assert_eq!(exchange.password_asked(), Some(true));
        // A new connection has to be bound anew.
        exchange.reset();
        exchange.secured(&own, &[]);
        exchange.greet(&[], &mut Vec::new()).unwrap();
        assert!(
            said(&mut *exchange, &authentication(0, &[]))
                .unwrap_err()
                .contains("let us in without it")
        );
        assert_eq!(exchange.password_asked(), Some(false));
    }

    /// The expectation learnt from two replies, and the parts that are not checked.
    fn learnt(first: &[u8], second: &[u8]) -> (PostgresExpect, String) {
        let mut postgres = load(PostgresExpect::default());
        let unchecked = postgres.learn(&[first, first, second]).unwrap();
        (postgres.expect, unchecked.unwrap_or_default())
    }

    #[test]
    fn a_result_that_stays_is_expected_byte_for_byte() {
        let reply = b"T\0\0\0\x06\0\x01D\0\0\0\x0b\0\x01\0\0\0\x01\x37D\0\0\0\x0b\0\x01\0\0\0\x01\x38C\0\0\0\x0dSELECT 2\0Z\0\0\0\x05I";
        let expect = PostgresExpect {
            rows: Some(2),
            first: Some("7".into()),
            null: false,
            tag: Some("SELECT 2".into()),
            reply: Some(Exact::of(reply)),
        };
        assert_eq!(learnt(reply, reply), (expect.clone(), String::new()));
        // A notice may come at any time.
        let noticed = [&message(b'N', b"Mhallo\0\0"), &reply[..]].concat();
        assert_eq!(learnt(reply, &noticed), (expect.clone(), String::new()));
        assert_eq!(outcome(expect.clone(), reply), Ok(None));
        assert_eq!(outcome(expect.clone(), &noticed), Ok(None));
        for at in [6, reply.len() - 1, reply.iter().position(|byte| *byte == b'8').unwrap()] {
            let mut other = reply.to_vec();
            other[at] ^= 1;
            assert_eq!(
                outcome(expect.clone(), &other),
                Ok(Some(ErrorClass::WrongContent)),
                "{at}"
            );
        }
    }

    #[test]
    fn of_a_result_that_changes_it_is_said_what_is_checked() {
        let reply = |rows: &[&[u8]]| {
            let rows: Vec<u8> = rows.iter().flat_map(|row| message(b'D', row)).collect();
            [rows, message(b'C', b"SELECT 1\0"), message(b'Z', b"I")].concat()
        };
        let null: &[u8] = b"\0\x01\xff\xff\xff\xff";
        let one = reply(&[null, b"\0\x01\0\0\0\x01a"]);
        let two = reply(&[null, b"\0\x01\0\0\0\x01b"]);
        let (expect, unchecked) = learnt(&one, &two);
        assert_eq!(
            expect,
            PostgresExpect {
                rows: Some(2),
                null: true,
                tag: Some("SELECT 1".into()),
                ..expect.clone()
            }
        );
        let said = "only this is checked: 2 rows, NULL in the first column, the tag `SELECT 1`; \
                    the first 3 replies differ from byte 22 on";
        assert_eq!((unchecked.as_str(), &expect.reply), (said, &None));
        assert_eq!(outcome(expect.clone(), &one), Ok(None));
        let empty: &[u8] = b"\0\x01\0\0\0\0";
        for first in [b"\0\x01\0\0\0\x05wrong", empty] {
            assert_eq!(
                outcome(expect.clone(), &reply(&[first, null])),
                Ok(Some(ErrorClass::WrongContent))
            );
        }
        // Different values that are not text are not taken for equal.
        let other = reply(&[b"\0\x01\0\0\0\x01\xff"]);
        assert_eq!(learnt(&other, &reply(&[b"\0\x01\0\0\0\x01\xfe"])).0.first, None);
    }

    proptest! {
        #[test]
        fn near_misses_have_one_outcome(at in 0usize..80, byte in any::<u8>()) {
            let mut bytes = reply(&["1", "2"]);
            let at = at % bytes.len();
            bytes[at] = byte;
            let _ = outcome(expect(2, "1"), &bytes);
        }

        #[test]
        fn any_greeting_is_survived(input in proptest::collection::vec(any::<u8>(), 0..60)) {
            let mut exchange = exchange(PostgresExpect::default());
            exchange.reset();
            let _ = exchange.greet(&input, &mut Vec::new());
        }
    }
}
