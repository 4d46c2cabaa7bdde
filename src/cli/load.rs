//! `lasthop load`: puts load on one endpoint and prints its figures. Also `lasthop null`, which it calibrates against.

use std::{
    fs,
    io::{self, IsTerminal as _},
    path::PathBuf,
    process::ExitCode,
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use clap::{ArgGroup, Args, ValueEnum};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use lasthop_load::{
    engine::CaseError,
    null::{NullServer, NullSpec},
    result::ErrorClass,
    spec::{
        Arrivals, Endpoint, Engine, Http, HttpVersion, Model, OpenLoop, Postgres, PostgresExpect, Protocol, QueryMode,
        Redis, RedisExpect, Reuse, SocketOptions, Spec, Timeouts,
    },
    url::{self, UrlOptions},
    wire::{Stage, TrialPhases},
};

use super::{CliError, FAILED, INTERRUPTED, print};
use crate::{
    experiment::quantity::{duration, duration_or_none},
    load::{self, Figures, Job},
    service::null::LISTENING,
};

const URLS: &str = "\
URLs:
  http://127.0.0.1:8000/uri          HTTP over TCP; https:// with TLS
  http+unix:/run/app.sock:/uri       HTTP over a Unix socket; @name is an abstract one
  http+unix://%2Frun%2Fapp.sock/uri  the same, percent-encoded
  postgres://user@127.0.0.1/db       PostgreSQL; ?sslmode=require for TLS, then
                                     channel_binding=disable|prefer|require as in libpq
  postgres:///db?host=/run/postgresql&user=me
                                     PostgreSQL over the socket in a directory
  redis://127.0.0.1:6379/0           Redis; rediss:// with TLS
  redis+unix:/run/redis.sock?db=2    Redis over a Unix socket; also user= and password=
  echo://127.0.0.1:9000, echo+unix:/run/echo.sock
                                     lasthop's own server (`lasthop serve`); also hello and stream, +tls for TLS

Without --expect the first two replies say what is right: a reply that differs from what they have in common is an error.

Exit codes:
  0  every reply was right, and an open loop kept its rate
  1  errors, a rate that was not reached, or no connection
  2  wrong use
  130  ended early by Ctrl-C; the figures are those of the time until then";

/// Options of `lasthop load`.
#[derive(Debug, Args)]
#[command(after_help = URLS, group = ArgGroup::new("mode").multiple(false))]
pub struct LoadArgs {
    /// What to drive; the forms are listed below
    pub url: String,
    /// Connections held at the same time
    #[arg(short, long, default_value_t = 1, value_name = "N")]
    connections: u32,
    /// Length of the measure phase
    #[arg(short, long, default_value = "5s", value_parser = duration, value_name = "TIME")]
    duration: Duration,
    /// Load before it that is not counted
    #[arg(long, default_value = "500ms", value_parser = duration, value_name = "TIME")]
    warm_up: Duration,
    /// Threads of the generator
    #[arg(short, long, default_value_t = 1, value_name = "N")]
    threads: u32,
    /// Open loop: requests per second over all connections, due at scheduled times whether or not replies came
    #[arg(short = 'R', long, value_name = "PER SECOND")]
    rate: Option<f64>,
    /// How the requests of an open loop are spread over time
    #[arg(long, value_enum, default_value_t = ArrivalsArg::Constant, requires = "rate")]
    arrivals: ArrivalsArg,
    /// Seed of Poisson arrivals
    #[arg(long, default_value_t = 1, requires = "rate", value_name = "N")]
    seed: u64,
    /// Requests sent at once on a connection before their replies are awaited
    #[arg(short = 'P', long, default_value_t = 1, value_name = "DEPTH")]
    pipeline: u32,
    /// With `--reuse per-request`: requests that a connection carries one after the other before it is closed; they
    /// are timed together, with their connect
    #[arg(long, default_value_t = 1, value_name = "N")]
    requests_per_connection: u32,
    /// What becomes of a connection after a reply
    #[arg(long, value_enum, default_value_t = ReuseArg::KeepAlive)]
    reuse: ReuseArg,
    /// The way to wait for sockets; blocking takes one connection per thread
    #[arg(long, value_enum, default_value_t = EngineArg::Auto)]
    engine: EngineArg,
    /// Ask for events for so long before going to sleep, `0` for not at all [default: 50us before an open loop's request
    /// is due, else 0]
    #[arg(long, value_parser = duration_or_none, value_name = "TIME")]
    spin: Option<Duration>,
    /// The longest that connecting, a TLS handshake, authentication and a reply may take, each
    #[arg(long, default_value = "10s", value_parser = duration, value_name = "TIME")]
    timeout: Duration,
    /// The longest that connecting and a TLS handshake may take, each, if it is not the same
    #[arg(long, value_parser = duration, value_name = "TIME")]
    connect_timeout: Option<Duration>,
    /// Also measure a server that does nothing: how many times more the generator could have done
    #[arg(long)]
    headroom: bool,
    #[command(flatten)]
    socket: SocketArgs,
    #[command(flatten)]
    http: HttpArgs,
    #[command(flatten)]
    database: DatabaseArgs,
    #[command(flatten)]
    own: OwnArgs,
    /// Form of the figures
    #[arg(long, value_enum, default_value_t = LoadFormat::Terminal, help_heading = "What comes out")]
    format: LoadFormat,
    /// Write the figures into a file instead of standard output
    #[arg(short, long, value_name = "FILE", help_heading = "What comes out")]
    output: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Sockets and TLS")]
struct SocketArgs {
    /// TCP_NODELAY
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, value_name = "BOOL")]
    nodelay: bool,
    /// SO_SNDBUF in bytes
    #[arg(long, value_name = "BYTES")]
    send_buffer: Option<u32>,
    /// SO_RCVBUF in bytes
    #[arg(long, value_name = "BYTES")]
    receive_buffer: Option<u32>,
    /// PEM file with the certificate authorities to trust, instead of the system's own
    #[arg(long, value_name = "FILE")]
    authority: Option<PathBuf>,
    /// Name that the server's certificate must carry, instead of the URL's host
    #[arg(long, value_name = "NAME")]
    server_name: Option<String>,
    /// Offer TLS session resumption on later connections
    #[arg(long)]
    resumption: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "HTTP")]
struct HttpArgs {
    /// Request method
    #[arg(short = 'X', long, value_name = "METHOD")]
    method: Option<String>,
    /// A further header, `Name: value`
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = header)]
    headers: Vec<(String, String)>,
    /// Body of the request
    #[arg(long, value_name = "TEXT")]
    body: Option<String>,
    /// Status that a right reply has [default: 200]
    #[arg(long, value_name = "STATUS")]
    expect_status: Option<u16>,
    /// Speak HTTP/1.0
    #[arg(long = "http1.0")]
    http10: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Redis and PostgreSQL")]
struct DatabaseArgs {
    /// Redis: the command, for example "GET key" [default: PING]
    #[arg(long, value_name = "WORDS", value_parser = words)]
    command: Option<Words>,
    /// PostgreSQL: the query [default: select 1]
    #[arg(long, value_name = "SQL")]
    query: Option<String>,
    /// PostgreSQL: simple query protocol (the default)
    #[arg(long, group = "mode")]
    simple: bool,
    /// PostgreSQL: parse, bind and execute with every request
    #[arg(long, group = "mode")]
    extended: bool,
    /// PostgreSQL: parse once for each connection, bind and execute with every request
    #[arg(long, group = "mode")]
    prepared: bool,
    /// PostgreSQL: value of $1, $2, …
    #[arg(long = "parameter", value_name = "TEXT")]
    parameters: Vec<String>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "lasthop's own server, and expectations")]
struct OwnArgs {
    /// Bytes of an echo's message, or of a stream's transfer [default: 64]
    #[arg(long, value_name = "BYTES")]
    size: Option<u32>,
    /// HTTP: the body that every reply has; Redis: the value; PostgreSQL: the first column of the first row
    #[arg(long, value_name = "TEXT")]
    expect: Option<String>,
    /// Do not hold replies against the first one: check form and status only
    #[arg(long, conflicts_with = "expect")]
    no_reference: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ArrivalsArg {
    /// The same gap between any two
    Constant,
    /// Independent of each other
    Poisson,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ReuseArg {
    /// It is used again
    KeepAlive,
    /// Each request has a connection of its own
    PerRequest,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum EngineArg {
    /// Blocking for one connection per thread, else epoll
    Auto,
    Blocking,
    Epoll,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LoadFormat {
    Terminal,
    Json,
}

/// The words of a command; a type of its own, so that clap takes them as one value.
#[derive(Clone, Debug)]
struct Words(Vec<String>);

fn words(text: &str) -> Result<Words, String> {
    match shlex::split(text) {
        Some(words) if !words.is_empty() => Ok(Words(words)),
        Some(_) => Err("the command is empty".to_owned()),
        None => Err("a quotation mark is open".to_owned()),
    }
}

fn header(text: &str) -> Result<(String, String), String> {
    match text.split_once(':') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.trim().to_owned())),
        _ => Err("expected `Name: value`".to_owned()),
    }
}

pub fn load(arguments: &LoadArgs) -> Result<ExitCode, CliError> {
    let job = job(arguments)?;
    let interrupt = super::run::watch_signals()?;
    let mut progress = Progress::new(&job);
    let done = load::execute(&job, || {
        progress.show();
        !interrupt.load(Ordering::Relaxed)
    });
    progress.end();
    let figures = match done {
        Ok(outcome) => Figures::new(&job, &outcome),
        Err(error) if error.stage != Stage::Spec && matches!(arguments.format, LoadFormat::Json) => {
            Figures::failed(&job, &error)
        }
        Err(error) => return Err(failed(&arguments.url, &error)),
    };
    let color = arguments.output.is_none() && super::terminal().color;
    let bytes = match arguments.format {
        LoadFormat::Terminal => load::render(&figures, load::Style { color }),
        LoadFormat::Json => figures.json(),
    };
    match &arguments.output {
        None => print(&bytes)?,
        Some(path) => fs::write(path, bytes)
            .map_err(|error| CliError::failed(format!("cannot write {}: {error}", path.display())))?,
    }
    Ok(match () {
        () if figures.cut_short => ExitCode::from(INTERRUPTED),
        () if figures.is_clean() => ExitCode::SUCCESS,
        () => ExitCode::from(FAILED),
    })
}

/// How far the load is, as one line that is rewritten; only where somebody looks.
struct Progress {
    bar: ProgressBar,
    length: Duration,
    /// The first look: connections stand by then.
    began: Option<Instant>,
}

impl Progress {
    fn new(job: &Job) -> Self {
        let length = Duration::from_nanos(job.phases.warm_up_ns.saturating_add(job.phases.measure_ns));
        let target = match io::stderr().is_terminal() {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(Some(length.as_millis() as u64), target);
        let style = ProgressStyle::with_template("{bar:16} {msg}").expect("the template is a constant");
        bar.set_style(style.progress_chars("━╸ "));
        Self { bar, length, began: None }
    }

    fn show(&mut self) {
        let elapsed = self.began.get_or_insert_with(Instant::now).elapsed().min(self.length);
        self.bar.set_position(elapsed.as_millis() as u64);
        let (elapsed, length) = (elapsed.as_secs_f64(), self.length.as_secs_f64());
        self.bar.set_message(format!("{elapsed:.1} of {length:.1} s; Ctrl-C ends it and shows what was measured"));
    }

    fn end(&self) {
        self.bar.finish_and_clear();
    }
}

fn failed(url: &str, error: &CaseError) -> CliError {
    match (error.stage, error.class.and_then(advice)) {
        (Stage::Spec, _) => CliError::usage(format!("{url}: {error}")),
        (_, Some(advice)) => CliError::failed(format!("{url}: {error}\n  {advice}")),
        (_, None) => CliError::failed(format!("{url}: {error}")),
    }
}

/// What to do about an error that came before the load, where one thing is likely.
fn advice(class: ErrorClass) -> Option<&'static str> {
    match class {
        ErrorClass::Refused => Some("nothing listens there: start the server, or correct the address"),
        ErrorClass::BacklogFull => {
            Some("its accept queue is full: give it a longer backlog, or ask for fewer connections")
        }
        ErrorClass::NoPort => {
            Some("all local ports are in use: wait a minute, or widen `net.ipv4.ip_local_port_range`")
        }
        ErrorClass::Timeout => Some("`--timeout` and `--connect-timeout` allow more"),
        ErrorClass::Tls => {
            Some("`--authority FILE` names who signed its certificate, `--server-name` whom it is made out to")
        }
        _ => None,
    }
}

fn job(arguments: &LoadArgs) -> Result<Job, CliError> {
    let (endpoint, protocol) = endpoint(arguments)?;
    let nanoseconds = |duration: Duration| duration.as_nanos() as u64;
    let connect = arguments.connect_timeout.unwrap_or(arguments.timeout);
    let phases =
        TrialPhases { warm_up_ns: nanoseconds(arguments.warm_up), measure_ns: nanoseconds(arguments.duration) };
    let socket = &arguments.socket;
    let spec = Spec {
        endpoint,
        protocol,
        socket: SocketOptions {
            nodelay: socket.nodelay,
            send_buffer: socket.send_buffer,
            receive_buffer: socket.receive_buffer,
        },
        reuse: match arguments.reuse {
            ReuseArg::KeepAlive => Reuse::KeepAlive,
            ReuseArg::PerRequest => Reuse::PerRequest,
        },
        model: model(arguments),
        engine: match arguments.engine {
            EngineArg::Auto => Engine::Auto,
            EngineArg::Blocking => Engine::Blocking,
            EngineArg::Epoll => Engine::Epoll,
        },
        connections: arguments.connections,
        threads: arguments.threads,
        pipeline: arguments.pipeline,
        requests_per_connection: arguments.requests_per_connection,
        timeouts: Timeouts { connect_ns: nanoseconds(connect), request_ns: nanoseconds(arguments.timeout) },
        spin_ns: arguments.spin.map(nanoseconds),
    };
    let learn = !arguments.own.no_reference && arguments.own.expect.is_none();
    Ok(Job { url: arguments.url.clone(), spec, phases, learn, headroom: arguments.headroom })
}

fn model(arguments: &LoadArgs) -> Model {
    let Some(rate) = arguments.rate else { return Model::Closed };
    let arrivals = match arguments.arrivals {
        ArrivalsArg::Constant => Arrivals::Constant,
        ArrivalsArg::Poisson => Arrivals::Poisson,
    };
    Model::Open(OpenLoop { rate, arrivals, seed: arguments.seed })
}

fn endpoint(arguments: &LoadArgs) -> Result<(Endpoint, Protocol), CliError> {
    let defaults = UrlOptions::default();
    let options = UrlOptions {
        size: arguments.own.size.unwrap_or(defaults.size),
        authority: arguments.socket.authority.clone(),
        server_name: arguments.socket.server_name.clone(),
        ..defaults
    };
    let (mut endpoint, mut protocol) = url::parse(&arguments.url, &options).map_err(CliError::usage)?;
    if let Some(tls) = &mut endpoint.tls {
        tls.resumption = arguments.socket.resumption;
    }
    if let Some(option) = arguments.foreign_option(&protocol) {
        return Err(CliError::usage(format!("{option} does not go with {}", arguments.url)));
    }
    match &mut protocol {
        Protocol::Http(http) => arguments.http.apply(http, arguments.own.expect.as_ref()),
        Protocol::Redis(redis) => arguments.database.apply_redis(redis, arguments.own.expect.as_ref()),
        Protocol::Postgres(postgres) => arguments.database.apply_postgres(postgres, arguments.own.expect.as_ref()),
        Protocol::Hello(_) | Protocol::Echo(_) | Protocol::Stream(_) => {}
    }
    Ok((endpoint, protocol))
}

impl LoadArgs {
    /// An option that was given and means nothing to the protocol.
    fn foreign_option(&self, protocol: &Protocol) -> Option<&'static str> {
        let (http, database, own) = (&self.http, &self.database, &self.own);
        let is = |name| match protocol {
            Protocol::Http(_) => name == "http",
            Protocol::Redis(_) => name == "redis",
            Protocol::Postgres(_) => name == "postgres",
            Protocol::Echo(_) | Protocol::Stream(_) => name == "sized",
            Protocol::Hello(_) => false,
        };
        let judged = is("http") || is("redis") || is("postgres");
        [
            ("--method", http.method.is_some(), is("http")),
            ("--header", !http.headers.is_empty(), is("http")),
            ("--body", http.body.is_some(), is("http")),
            ("--expect-status", http.expect_status.is_some(), is("http")),
            ("--http1.0", http.http10, is("http")),
            ("--command", database.command.is_some(), is("redis")),
            ("--query", database.query.is_some(), is("postgres")),
            ("--parameter", !database.parameters.is_empty(), is("postgres")),
            ("--simple", database.simple, is("postgres")),
            ("--extended", database.extended, is("postgres")),
            ("--prepared", database.prepared, is("postgres")),
            ("--size", own.size.is_some(), is("sized")),
            ("--expect", own.expect.is_some(), judged),
            ("--no-reference", own.no_reference, judged),
        ]
        .into_iter()
        .find_map(|(name, given, fits)| (given && !fits).then_some(name))
    }
}

impl HttpArgs {
    fn apply(&self, http: &mut Http, expect: Option<&String>) {
        if let Some(method) = &self.method {
            http.method.clone_from(method);
        }
        http.headers.clone_from(&self.headers);
        if let Some(at) = http.headers.iter().position(|(name, _)| name.eq_ignore_ascii_case("host")) {
            http.host = http.headers.remove(at).1;
        }
        http.body = self.body.clone().unwrap_or_default();
        http.version = if self.http10 { HttpVersion::V10 } else { HttpVersion::V11 };
        http.expect.status = self.expect_status.unwrap_or(http.expect.status);
        http.expect.body = expect.cloned();
    }
}

impl DatabaseArgs {
    fn apply_redis(&self, redis: &mut Redis, expect: Option<&String>) {
        if let Some(Words(words)) = &self.command {
            redis.command.clone_from(words);
            redis.expect = RedisExpect::Success;
        }
        if let Some(value) = expect {
            redis.expect = RedisExpect::Bulk(value.clone());
        }
    }

    fn apply_postgres(&self, postgres: &mut Postgres, expect: Option<&String>) {
        if let Some(query) = &self.query {
            postgres.query.clone_from(query);
            postgres.expect = PostgresExpect::default();
        }
        if let Some(value) = expect {
            postgres.expect.first = Some(value.clone());
        }
        postgres.parameters.clone_from(&self.parameters);
        postgres.mode = match (self.extended, self.prepared) {
            (true, _) => QueryMode::Extended,
            (_, true) => QueryMode::Prepared,
            _ => QueryMode::Simple,
        };
    }
}

/// Serves one conversation over and over, as the first line of the input says, until it is ended.
pub fn null() -> Result<(), CliError> {
    let mut line = String::new();
    io::stdin().read_line(&mut line).map_err(CliError::failed)?;
    let spec: NullSpec = serde_json::from_str(&line).map_err(CliError::usage)?;
    let server = NullServer::bind(spec).map_err(CliError::failed)?;
    print(format!("{LISTENING}\n").as_bytes())?;
    server.run().map_err(CliError::failed)
}
