//! `lasthop load` loads a single endpoint and prints its figures. `lasthop null` is the null server for its
//! calibration.

use std::{
    io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use crate::load::{self, Figures, Job, requests};
use clap::{ArgGroup, Args, ValueEnum};
use indicatif::ProgressBar;
use lasthop_load::{
    engine::{CaseError, Onlooker},
    live::Live,
    null::{NullServer, NullSpec},
    sample::{ENDLESS, TOO_LONG},
};
use lasthop_model::quantity::{duration, duration_or_none};
use lasthop_page::units::{Micros, Significant};
use lasthop_protocol::{
    LoadOptions, PROTOCOLS, Protocol,
    content::Content,
    delimiter::{End, LengthPrefix},
    escaped::Escaped,
    http::{BODY_MAX, Http, HttpVersion, NO_REPLY},
    location::without_secrets,
    mysql::Mysql,
    raw::{self, Raw},
    several::{Order, Several, Weighted},
    spec::Spec,
    url::{self, UrlOptions},
    websocket::Websocket,
    wire::{Stage, TrialPhases},
};
use lasthop_run::{compare::foreign, hint};
use lasthop_stack::null::LISTENING;
use lasthop_system::{files, interrupt};
use lasthop_trial::{
    address::Endpoint,
    options::{Engine, Model, OpenLoop, Reuse, SocketOptions, Timeouts},
    result::ErrorClass,
};

use super::{
    endpoint,
    output::{CliError, Exit, OrExit, counted, deliver_bytes, exit_code, print, talk, writable},
    progress::{Talk, block},
    signals::watch_signals,
    values::{ArrivalsArg, count, rate},
};

/// The URLs of every protocol, for help.
pub fn urls() -> String {
    let mut text = "URLs:\n".to_owned();
    for (form, meaning) in PROTOCOLS.iter().flat_map(|kind| kind.urls) {
        let gap = if form.len() > FORM {
            format!("\n{:FORM$}    ", "")
        } else {
            "  ".to_owned()
        };
        let meaning = meaning.replace('\n', &format!("\n{:FORM$}    ", ""));
        text.push_str(&format!("  {form:FORM$}{gap}{meaning}\n"));
    }
    text
}

/// The width up to which the meaning of a URL is on the URL's own line.
const FORM: usize = 34;

/// Options of `lasthop load`.
#[derive(Debug, Args)]
#[command(after_help = urls() + "\n" + note!("load"))]
pub struct LoadArgs {
    /// Endpoint to load, such as http://HOST/ or http+unix:/PATH:/
    ///
    /// See URLs below.
    pub url: String,
    /// Send this many requests, then stop; `--duration` is still the limit. There is no warm-up, but a few requests come
    /// before, which verify the endpoint and teach the expected reply
    #[arg(short, long, value_parser = count, conflicts_with = "warm_up", value_name = "N")]
    number: Option<u64>,
    /// Length of the measurement
    #[arg(short, long, default_value = "5s", value_parser = duration, value_name = "TIME", allow_hyphen_values = true)]
    duration: Duration,
    /// Length of the warm-up before it, which is not counted
    #[arg(long, default_value = "500ms", value_parser = duration, value_name = "TIME", allow_hyphen_values = true)]
    warm_up: Duration,
    /// Seed for Poisson arrivals, for `--order random`, and for random variables of `--requests`
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Send the requests of this file (`.http`)
    ///
    /// In the format that editors have for them; see below. `--header` adds to each.
    #[arg(long = "requests", value_name = "FILE", conflicts_with_all = ["method", "body", "expect"])]
    file: Option<PathBuf>,
    /// Order of the requests of `--requests`
    #[arg(long, value_enum, default_value_t = OrderArg::Given, requires = "file")]
    order: OrderArg,
    /// Also load a server that does nothing, in turn with this one, to show how many times more requests the generator can
    /// send
    #[arg(long)]
    headroom: bool,
    #[command(flatten)]
    requests: RequestArgs,
    /// Show no progress
    #[arg(short, long, help_heading = "Output")]
    quiet: bool,
    /// Format of the figures
    #[arg(long, value_enum, default_value_t = LoadFormat::Terminal, help_heading = "Output")]
    format: LoadFormat,
    /// Write the figures to a file instead of standard output
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    output: Option<PathBuf>,
}

/// What is asked of an endpoint, and how often.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("mode").multiple(false), group = ArgGroup::new("end").multiple(false))]
pub struct RequestArgs {
    /// Number of concurrent connections
    #[arg(short, long, default_value_t = 1, value_name = "N")]
    connections: u32,
    /// Threads of the load generator
    #[arg(short, long, default_value_t = 1, value_name = "N")]
    threads: u32,
    /// Open loop: requests per second
    ///
    /// In total, on schedule, without waiting for replies.
    #[arg(short = 'R', long, value_name = "PER SECOND", value_parser = rate)]
    rate: Option<f64>,
    /// Spacing of an open loop's requests
    #[arg(long, value_enum, default_value_t = ArrivalsArg::Constant, requires = "rate")]
    arrivals: ArrivalsArg,
    /// Requests at once on a connection
    ///
    /// They are sent before waiting for their replies.
    #[arg(short = 'P', long, default_value_t = 1, value_name = "DEPTH")]
    pipeline: u32,
    /// With `--reuse per-request`: requests to send one after the other on a connection before closing it. They are
    /// timed together, including the connect
    #[arg(long, default_value_t = 1, value_name = "N")]
    requests_per_connection: u32,
    /// A connection after a reply
    #[arg(long, value_enum, default_value_t = ReuseArg::KeepAlive)]
    reuse: ReuseArg,
    /// How to wait for sockets; blocking needs one thread per connection
    #[arg(long, value_enum, default_value_t = EngineArg::Auto)]
    engine: EngineArg,
    /// Busy-poll for this long before sleeping; 0 never does [default: 50us before an open loop's request is due, else
    /// 0]
    #[arg(long, value_parser = duration_or_none, value_name = "TIME", allow_hyphen_values = true)]
    spin: Option<Duration>,
    /// Timeout for each of: connect, TLS handshake, authentication, reply
    #[arg(long, default_value = "10s", value_parser = duration, value_name = "TIME", allow_hyphen_values = true)]
    timeout: Duration,
    /// Timeout for each of: connect, TLS handshake [default: the value of --timeout]
    #[arg(long, value_parser = duration, value_name = "TIME", allow_hyphen_values = true)]
    connect_timeout: Option<Duration>,
    #[command(flatten)]
    socket: SocketArgs,
    #[command(flatten)]
    http: HttpArgs,
    #[command(flatten)]
    database: DatabaseArgs,
    #[command(flatten)]
    raw: RawArgs,
    #[command(flatten)]
    own: OwnArgs,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Sockets and TLS")]
struct SocketArgs {
    /// Set TCP_NODELAY
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, value_name = "BOOL")]
    nodelay: bool,
    /// SO_SNDBUF in bytes
    #[arg(long, value_name = "BYTES")]
    send_buffer: Option<u32>,
    /// SO_RCVBUF in bytes
    #[arg(long, value_name = "BYTES")]
    receive_buffer: Option<u32>,
    /// PEM file with the certificate authorities to trust, instead of the system's
    #[arg(long, value_name = "FILE")]
    authority: Option<PathBuf>,
    /// Name that the server's certificate must have, instead of the URL's host
    #[arg(long, value_name = "NAME")]
    server_name: Option<String>,
    /// Accept any certificate, from a server on this machine
    #[arg(long, conflicts_with_all = ["authority", "server_name"])]
    insecure: bool,
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
    /// Header to add (gRPC: metadata), or @FILE with headers
    ///
    /// A file has one per line, so that no other user can see them and no record keeps them; `@-` reads them from standard
    /// input.
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = headers)]
    headers: Vec<Headers>,
    /// Body of the request, or @FILE with it
    ///
    /// `@-` reads it from standard input. With gRPC, field 1 of the message.
    #[arg(long, value_name = "TEXT", value_parser = body)]
    body: Option<Content>,
    /// Expected status [default: 200]
    #[arg(long, value_name = "STATUS")]
    expect_status: Option<u16>,
    /// Speak HTTP/1.0
    #[arg(long = "http1.0", conflicts_with = "http2")]
    http10: bool,
    /// Speak HTTP/2: within TLS, or in plain with prior knowledge (h2c). --pipeline is then how many streams a connection
    /// has at once
    #[arg(long)]
    http2: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Redis, memcached, PostgreSQL and MySQL")]
struct DatabaseArgs {
    /// Redis and memcached: command, the same for every request, for example "GET key" or "mg key v" [default: PING; get
    /// lasthop]
    #[arg(long, value_name = "WORDS", value_parser = words)]
    command: Option<Words>,
    /// PostgreSQL and MySQL: query [default: select 1]
    #[arg(long, value_name = "SQL")]
    query: Option<String>,
    /// PostgreSQL and MySQL: simple queries (the default)
    #[arg(long, group = "mode")]
    simple: bool,
    /// PostgreSQL: parse, bind and execute with every request
    #[arg(long, group = "mode")]
    extended: bool,
    /// PostgreSQL and MySQL: prepare once per connection, execute with every request
    #[arg(long, group = "mode")]
    prepared: bool,
    /// PostgreSQL and MySQL: value of $1, $2, …, or of each ?; may be repeated
    #[arg(long = "parameter", value_name = "TEXT")]
    parameters: Vec<String>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "WebSocket, gRPC, and raw: any protocol of requests and replies")]
struct RawArgs {
    /// Bytes to send with each request; with WebSocket and gRPC, the message. \0, \r, \n, \xff and the other escapes of C stand for what cannot be typed;
    /// `@FILE` takes the bytes of a file as they are, `@-` those of standard input
    #[arg(long, value_name = "BYTES|@FILE", value_parser = bytes, allow_hyphen_values = true)]
    send: Option<Escaped>,
    /// WebSocket: send binary messages. Those that are not UTF-8 always are
    #[arg(long)]
    binary: bool,
    /// Bytes to send once on each connection before, with WebSocket a message, none ('') where the server speaks first, and
    /// await a reply. May be repeated
    #[arg(long, value_name = "BYTES|@FILE", value_parser = bytes, allow_hyphen_values = true)]
    greet: Vec<Escaped>,
    /// Replies to `--greet` end with these bytes, not as others do; '' awaits none. May be repeated, for each `--greet` one;
    /// the last is for all others
    #[arg(long, value_name = "BYTES", requires = "greet", value_parser = escaped, allow_hyphen_values = true)]
    greet_until: Vec<Escaped>,
    /// Replies to `--greet` have so many bytes; 0 awaits none. May be repeated in the same way
    #[arg(long, value_name = "N", requires = "greet", conflicts_with = "greet_until")]
    greet_bytes: Vec<u64>,
    /// A reply ends with these bytes, the first time that they come
    #[arg(long, value_name = "BYTES", group = "end", value_parser = escaped, allow_hyphen_values = true)]
    until: Option<Escaped>,
    /// With `--until`: so many bytes follow them, whatever they are, before the reply ends
    #[arg(long, value_name = "N", requires = "until")]
    then: Option<u64>,
    /// A reply has so many bytes
    #[arg(long, value_name = "N", group = "end")]
    bytes: Option<u64>,
    /// A reply tells its length, in WIDTH bytes behind OFFSET others, most significant first, or least with `le`. It has
    /// REST bytes more than that [default: WIDTH + OFFSET]. 4@0 counts what follows it, 4@0+0 also itself
    #[arg(long, value_name = "WIDTH@OFFSET[le][+REST]", group = "end")]
    length_prefix: Option<LengthPrefix>,
    /// A reply ends when the peer closes the connection
    #[arg(long, group = "end")]
    until_close: bool,
}

impl RawArgs {
    fn end(&self) -> Option<End> {
        let until = self.until.clone().map(|text| match self.then {
            Some(then) => End::UntilThen { text, then },
            None => End::Until(text),
        });
        until
            .or(self.bytes.map(End::Bytes))
            .or(self.length_prefix.map(End::LengthPrefix))
            .or(self.until_close.then_some(End::Close))
    }
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Expected replies, and lasthop's own server")]
struct OwnArgs {
    /// echo and WebSocket: bytes per message; stream: bytes per transfer [default: 64]; gRPC: bytes of the message's field 1 [default: 0]
    #[arg(long, value_name = "BYTES")]
    size: Option<u32>,
    /// Expected reply
    ///
    /// HTTP: the body; Redis and memcached: the value; gRPC: field 1 of the message; PostgreSQL and MySQL: the first column of the first row; WebSocket: the message, in place of an echo; raw: all of it, with the escapes of --send
    #[arg(long, value_name = "TEXT")]
    expect: Option<String>,
    /// Check only the form and status of replies; do not compare them with the first ones
    ///
    /// Otherwise 32 replies are taken, over 1.3 s and of at most 64 MiB: what they have in common is expected of every
    /// reply, and what of it is not checked is said.
    #[arg(long, conflicts_with = "expect")]
    no_reference: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ReuseArg {
    /// Keep it open for the next request
    KeepAlive,
    /// Close it; each request opens a new one
    PerRequest,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum OrderArg {
    /// As in the file, over and over
    Given,
    /// Drawn by their weights
    Random,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum EngineArg {
    /// Blocking if there is one connection per thread, otherwise epoll
    Auto,
    Blocking,
    Epoll,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LoadFormat {
    Terminal,
    Json,
    /// One row, below its header
    Csv,
}

/// The words of a command. A newtype, so that clap takes them as one value.
#[derive(Clone, Debug)]
struct Words(Vec<String>);

fn words(text: &str) -> Result<Words, String> {
    match shlex::split(text) {
        Some(words) if !words.is_empty() => Ok(Words(words)),
        Some(_) => Err("the command is empty".to_owned()),
        None => Err("a quotation mark is not closed".to_owned()),
    }
}

/// The headers of one option. A type of their own, so that clap takes them as one value.
#[derive(Clone, Debug)]
struct Headers {
    headers: Vec<(String, String)>,
    /// Whether the headers came from a file, so that nobody sees them.
    are_hidden: bool,
}

fn headers(text: &str) -> Result<Headers, String> {
    let Some(name) = text.strip_prefix('@') else {
        let one = header(text).ok_or_else(|| "expected `Name: value`".to_owned())?;
        return Ok(Headers {
            headers: vec![one],
            are_hidden: false,
        });
    };
    let text = text_in(name).map_err(|error| format!("cannot read the headers: {error}"))?;
    let mut all = Vec::new();
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        // The content of the line may be a secret.
        all.push(header(line).ok_or_else(|| format!("line {number} of the file: expected `Name: value`"))?);
    }
    Ok(Headers {
        headers: all,
        are_hidden: true,
    })
}

/// The content of a file; `-` is standard input. The limit is the longest request.
fn file_or_input(name: &str) -> io::Result<Vec<u8>> {
    if name == "-" {
        files::whole(io::stdin(), BODY_MAX)
    } else {
        files::named(Path::new(name), BODY_MAX)
    }
}

/// The text of a file.
fn text_in(name: &str) -> io::Result<String> {
    text_of(file_or_input(name)?)
}

/// Text of a file, without the byte order mark that some editors prepend.
fn text_of(bytes: Vec<u8>) -> io::Result<String> {
    let text = String::from_utf8(bytes).map_err(|_| io::Error::other("it is not UTF-8"))?;
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

fn body(text: &str) -> Result<Content, String> {
    let Some(name) = text.strip_prefix('@') else {
        return Ok(text.into());
    };
    let bytes = file_or_input(name).map_err(|error| format!("cannot read the body: {error}"))?;
    Ok(Content(bytes))
}

fn escaped(text: &str) -> Result<Escaped, String> {
    text.try_into()
}

fn bytes(text: &str) -> Result<Escaped, String> {
    let Some(name) = text.strip_prefix('@') else {
        return escaped(text);
    };
    let bytes = file_or_input(name).map_err(|error| format!("cannot read the bytes to send: {error}"))?;
    Ok(Escaped(bytes))
}

fn header(text: &str) -> Option<(String, String)> {
    let (name, value) = text.split_once(':')?;
    (!name.is_empty()).then(|| (name.to_owned(), value.trim().to_owned()))
}

pub fn load(arguments: &LoadArgs) -> Exit {
    let requests = &arguments.requests;
    let warm_up = arguments.number.map_or(arguments.warm_up, |_| Duration::ZERO);
    let job = Job {
        spec: match &arguments.file {
            None => requests.spec(&arguments.url, arguments.seed)?,
            Some(file) => arguments.several(file)?,
        },
        url: url::redacted(&arguments.url),
        phases: TrialPhases {
            warm_up_ns: nanoseconds(warm_up),
            measure_ns: nanoseconds(arguments.duration),
        },
        requests: arguments.number,
        learn: requests.learns(),
        headroom: arguments.headroom,
    };
    writable(arguments.output.as_deref())?;
    watch_signals()?;
    let mut progress = Progress::new(&job, arguments.quiet);
    let done = load::execute(&job, |load| {
        progress.show(load);
        !interrupt::heard()
    });
    progress.end();
    let figures = match done {
        Ok(outcome) => Figures::new(&job, &outcome),
        Err(error) if error.stage == Stage::Spec => return Err(CliError::usage(format!("{}: {error}", job.url))),
        Err(error) => {
            let early = CaseError::new(error.stage, "interrupted before the load began; nothing was measured");
            let error = if interrupt::heard() { early } else { error };
            match arguments.format {
                LoadFormat::Json | LoadFormat::Csv => Figures {
                    cut_short: interrupt::heard(),
                    ..Figures::failed(&job, &error)
                },
                LoadFormat::Terminal if interrupt::heard() => {
                    return Err(CliError::interrupted(format!("{}: {error}", job.url)));
                }
                LoadFormat::Terminal => return Err(failed(&job, &error)),
            }
        }
    };
    deliver_bytes(arguments.output.as_deref(), false, |options| match arguments.format {
        LoadFormat::Terminal => load::render(&figures, options),
        LoadFormat::Json => figures.json(),
        LoadFormat::Csv => load::csv(&figures),
    })?;
    Ok(exit_code(interrupt::heard(), !figures.is_clean()))
}

impl LoadArgs {
    /// The load of a file of requests.
    fn several(&self, file: &Path) -> Result<Spec, CliError> {
        let wrong = |cause: String| CliError::usage(format!("{}: {cause}", file.display()));
        let text = files::named(file, BODY_MAX).and_then(text_of);
        let text = text.map_err(|error| wrong(error.to_string()))?;
        let folder = file.parent().unwrap_or(Path::new(""));
        let body = |name: &str, most| {
            files::named(&folder.join(name), most).map_err(|error| format!("cannot read the body {name}: {error}"))
        };
        let asked = requests::parse(&text, self.seed, body).map_err(wrong)?;
        let (endpoint, server) = self.requests.server(&self.url)?;
        let mut all = Vec::new();
        for one in asked {
            let target = path_at(&self.url, &one.target).map_err(|cause| wrong(requests::at(one.line, &cause)))?;
            let name = format!("{} {}", one.method, without_secrets(&target));
            let mut options = self.requests.protocol_options();
            options.method = Some(one.method);
            options.target = Some(target);
            options.headers.extend(one.headers);
            options.body = Some(one.body);
            options.expect_status = one.status.or(options.expect_status);
            all.push(Weighted {
                name,
                protocol: self.requests.asking(&self.url, server.clone(), options)?,
                weight: one.weight,
            });
        }
        let order = match self.order {
            OrderArg::Given => Order::Given,
            OrderArg::Random => Order::Random { seed: self.seed },
        };
        let several = Several { requests: all, order };
        Ok(self.requests.spec_of(endpoint, several.into(), self.seed))
    }
}

/// The path of a request to the server of `url`.
fn path_at(url: &str, target: &str) -> Result<String, String> {
    if target.starts_with('/') {
        return Ok(target.to_owned());
    }
    let authority = url.find("://").map_or(0, |at| at + 3);
    let origin = &url[..url[authority..].find(['/', '?']).map_or(url.len(), |at| authority + at)];
    let split = target.split_at_checked(origin.len());
    match split
        .filter(|(own, _)| own.eq_ignore_ascii_case(origin))
        .map(|(_, path)| path)
    {
        Some("") => Ok("/".to_owned()),
        Some(path) if path.starts_with('/') => Ok(path.to_owned()),
        Some(path) if path.starts_with('?') => Ok(format!("/{path}")),
        _ => Err(format!(
            "{target} is not on the server of {}: write its path alone",
            url::redacted(url)
        )),
    }
}

/// Shown while samples of replies are taken.
const LEARNING: &str = "learning from the first replies, for 1.3 s or longer; press Ctrl-C to stop";

/// The display of a load in progress: on a terminal a block that is rewritten, elsewhere a line per second.
struct Progress {
    talk: Talk,
    bar: ProgressBar,
    length: Duration,
    /// Whether lasthop learns the expected reply from the first replies.
    learns: bool,
    /// When the load was first seen.
    began: Option<Instant>,
    /// Number of questions to the threads, and whether one is unanswered.
    asked: u32,
    is_asked: bool,
    before: Live,
}

impl Progress {
    /// The interval of looks: on a terminal, and elsewhere.
    const EVERY: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(1)];

    fn new(job: &Job, quiet: bool) -> Self {
        let length = Duration::from_nanos(job.phases.warm_up_ns.saturating_add(job.phases.measure_ns));
        let talk = Talk::choose(quiet, false);
        Self {
            talk,
            bar: block(talk == Talk::Line, length),
            length,
            learns: job.learn,
            began: None,
            asked: 0,
            is_asked: false,
            before: Live::default(),
        }
    }

    fn show(&mut self, load: Option<&Onlooker>) {
        let Some(load) = load else {
            let what = match self.began {
                None if self.learns => LEARNING,
                None => "waiting for the first replies; press Ctrl-C to stop",
                Some(_) => "measuring the headroom",
            };
            return self.bar.set_message(what);
        };
        let elapsed = self.began.get_or_insert_with(Instant::now).elapsed().min(self.length);
        self.bar.set_position(elapsed.as_millis() as u64);
        self.bar.set_message(format!(
            "{:.1} of {:.1} s; press Ctrl-C to stop and see the figures so far",
            elapsed.as_secs_f64(),
            self.length.as_secs_f64()
        ));
        self.look(load, elapsed);
    }

    /// Asks the threads when due, and shows their answers at the next look.
    fn look(&mut self, load: &Onlooker, elapsed: Duration) {
        if self.talk == Talk::Warnings {
            return;
        }
        let every = Self::EVERY[usize::from(self.talk != Talk::Line)];
        if std::mem::take(&mut self.is_asked) {
            let now = load.answer();
            let text = interval(&self.before, &now);
            self.before = now;
            match self.talk {
                // The first answer only begins the first interval.
                _ if self.asked == 1 => {}
                Talk::Line => self.bar.set_prefix(text),
                _ => talk(&format!("{:.0} s: {text}", elapsed.as_secs_f64())),
            }
        } else if elapsed >= every * self.asked {
            load.ask();
            self.is_asked = true;
            self.asked += 1;
        }
    }

    fn end(&self) {
        self.bar.finish_and_clear();
    }
}

/// The figures between two looks.
fn interval(before: &Live, now: &Live) -> String {
    if before.at == 0 || now.at <= before.at {
        return "no reply".to_owned();
    }
    let rate = (now.requests - before.requests) as f64 * 1e9 / (now.at - before.at) as f64;
    let errors = counted((now.errors - before.errors) as usize, "error");
    let times = now.times.since(&before.times);
    let of = |quantile| Micros(times.quantile(quantile) as f64 / 1e3);
    let times = if times.is_empty() {
        "warming up".to_owned()
    } else {
        format!("p50 {}, p99 {}, max {}", of(0.5), of(0.99), of(1.0))
    };
    format!("{} requests/s, {times}, {errors}", Significant(rate))
}

fn failed(job: &Job, error: &CaseError) -> CliError {
    let url = &job.url;
    let address = &job.spec.endpoint.address;
    let refused = || format!("nothing listens at {address}: start the server or correct the URL");
    let advice = |class| match class {
        ErrorClass::Refused => Some(refused()),
        _ => advice(class, &error.cause, &job.spec).map(str::to_owned),
    };
    match error.class.and_then(advice) {
        Some(advice) => CliError::failed(format!("{url}: {error}\n  {advice}")),
        None => CliError::failed(format!("{url}: {error}")),
    }
}

/// Advice on an error before the load began, if one cause is likely.
fn advice(class: ErrorClass, cause: &str, spec: &Spec) -> Option<&'static str> {
    /// The system's error before any byte of a reply.
    const RESET: &str = "reply: Connection reset";
    let is_http = spec.protocol.get::<Http>().is_some();
    let is_raw = spec.protocol.get::<Raw>().is_some();
    let is_mysql = spec.protocol.get::<Mysql>().is_some();
    let has_none = cause.contains(RESET) || cause.contains(" after 0 bytes");
    match class {
        ErrorClass::Tls => hint::tls(cause),
        ErrorClass::WrongStatus if cause.contains(", a redirect to ") => {
            Some("load the URL that it leads to, or expect the redirect itself with `--expect-status`")
        }
        ErrorClass::WrongStatus if cause.starts_with("status 401") => {
            Some("say who asks, with `-H 'Authorization: …'` or `-H @FILE`")
        }
        ErrorClass::WrongStatus if cause.starts_with("status 421") => {
            Some("name a host that the server serves (`-H 'Host: NAME'`)")
        }
        ErrorClass::BacklogFull => Some("its accept queue is full: give it a longer backlog or use fewer connections"),
        // Linux keeps the port of a closed connection for a minute (TIME-WAIT).
        ErrorClass::NoPort => Some("all local ports are in use: wait a minute or widen `net.ipv4.ip_local_port_range`"),
        ErrorClass::Timeout if cause.contains(ENDLESS) => Some(
            "a stream of events has no end that could be timed; any other reply needs `Content-Length`, chunks or a close",
        ),
        ErrorClass::Timeout if cause.contains("the end of the reply") && is_raw => {
            Some("raise `--timeout`, or correct where a reply ends (`--until`, `--bytes`, `--length-prefix`)")
        }
        ErrorClass::Protocol if cause.contains("follow the reply") && is_raw => Some(
            "if they are a part of it, correct where a reply ends (`--until` with `--then`, `--bytes`, `--length-prefix`)",
        ),
        ErrorClass::Protocol if cause.contains("follow the reply") && is_http => Some(
            "a reply to HEAD, and one with status 204 or 304, has no body, and none is longer than `Content-Length`: correct \
             the server",
        ),
        ErrorClass::Timeout if cause.starts_with("authentication") && is_mysql => Some(
            "a MySQL or MariaDB server speaks first: correct the URL if another server is there, or raise `--timeout`",
        ),
        ErrorClass::Timeout if cause.starts_with("greeting") => {
            Some("raise `--timeout`, or correct what `--greet` sends and where the replies to it end (`--greet-until`)")
        }
        ErrorClass::Timeout if cause.contains("TLS handshake") => Some(
            "raise `--timeout` or `--connect-timeout`, or use a URL without TLS if the server does not speak it there",
        ),
        ErrorClass::Timeout => Some("raise `--timeout` or `--connect-timeout`"),
        ErrorClass::Reset if cause.contains(NO_REPLY) || (is_http && cause.contains(RESET)) => Some(hint::NO_REPLY),
        ErrorClass::Reset if is_raw && !spec.protocol.greets() && has_none => {
            Some("if the server expects something first on each connection, say it with `--greet`")
        }
        ErrorClass::WrongContent
            if spec
                .protocol
                .get::<Websocket>()
                .is_some_and(|own| own.greeting.is_empty()) =>
        {
            Some("if the server says or expects something first on each connection, say it with `--greet`")
        }
        // A server that announces the close, or closes at once, has been detected before.
        ErrorClass::Reset if spec.pipeline > 1 && spec.reuse == Reuse::KeepAlive => {
            Some("if the server closes the connection after each reply, use `--reuse per-request` without `--pipeline`")
        }
        ErrorClass::Protocol if cause.contains(TOO_LONG) => Some("`--no-reference` loads it all the same"),
        _ => None,
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    duration.as_nanos() as u64
}

impl RequestArgs {
    /// Whether the first replies define the expected one.
    pub fn learns(&self) -> bool {
        !self.own.no_reference && self.own.expect.is_none()
    }

    /// The reason for unchecked content, if requested by an option.
    pub fn unchecked(&self) -> Option<String> {
        let text = "only form and status of replies are checked (--no-reference)";
        self.own.no_reference.then(|| text.to_owned())
    }

    /// The load on an endpoint; `seed` is for random arrivals.
    pub fn spec(&self, url: &str, seed: u64) -> Result<Spec, CliError> {
        let (endpoint, protocol) = self.server(url)?;
        let protocol = self.asking(url, protocol, self.protocol_options())?;
        Ok(self.spec_of(endpoint, protocol, seed))
    }

    fn spec_of(&self, endpoint: Endpoint, protocol: Protocol, seed: u64) -> Spec {
        let connect = self.connect_timeout.unwrap_or(self.timeout);
        let socket = &self.socket;
        let arrivals = self.arrivals.into();
        Spec {
            endpoint,
            protocol,
            socket: SocketOptions {
                nodelay: socket.nodelay,
                send_buffer: socket.send_buffer,
                receive_buffer: socket.receive_buffer,
            },
            reuse: match self.reuse {
                ReuseArg::KeepAlive => Reuse::KeepAlive,
                ReuseArg::PerRequest => Reuse::PerRequest,
            },
            model: self
                .rate
                .map_or(Model::Closed, |rate| Model::Open(OpenLoop { rate, arrivals, seed })),
            engine: match self.engine {
                EngineArg::Auto => Engine::Auto,
                EngineArg::Blocking => Engine::Blocking,
                EngineArg::Epoll => Engine::Epoll,
            },
            connections: self.connections,
            threads: self.threads,
            pipeline: self.pipeline,
            requests_per_connection: self.requests_per_connection,
            timeouts: Timeouts {
                connect_ns: nanoseconds(connect),
                request_ns: nanoseconds(self.timeout),
            },
            spin_ns: self.spin.map(nanoseconds),
        }
    }

    /// The endpoint of a URL, and its protocol without options.
    fn server(&self, url: &str) -> Result<(Endpoint, Protocol), CliError> {
        let defaults = UrlOptions::default();
        let url_options = UrlOptions {
            size: self.own.size.unwrap_or(defaults.size),
            authority: self.socket.authority.clone(),
            server_name: self.socket.server_name.clone(),
            insecure: self.socket.insecure,
            choose: endpoint::choose,
            ..defaults
        };
        let (endpoint, protocol) = url::parse(url, &url_options).or_usage()?;
        let mut endpoint = endpoint::settled(endpoint)?;
        if let Some(tls) = &mut endpoint.tls {
            tls.resumption = self.socket.resumption;
        }
        match foreign(&endpoint.address).filter(|_| self.socket.insecure) {
            None => Ok((endpoint, protocol)),
            Some(ip) => Err(CliError::usage(format!(
                "--insecure is for servers on this machine, and {ip} is not one of its addresses: use --authority"
            ))),
        }
    }

    /// A protocol with options.
    fn asking(&self, url: &str, mut protocol: Protocol, mut options: LoadOptions) -> Result<Protocol, CliError> {
        protocol.apply(&mut options).or_usage()?;
        let pointless = self.own.no_reference && protocol.kind().own;
        if let Some(option) = options
            .left()
            .or_else(|| pointless.then(|| "--no-reference".to_owned()))
        {
            return Err(CliError::usage(format!(
                "{option} cannot be used with {}",
                url::redacted(url)
            )));
        }
        fill_password(&mut protocol)?;
        Ok(protocol)
    }

    /// Values of headers, which may be secret.
    pub fn header_values(&self) -> impl Iterator<Item = &str> {
        self.http
            .headers
            .iter()
            .flat_map(|given| &given.headers)
            .map(|(_, value)| value.as_str())
    }
}

/// Takes a missing password from the variable of the protocol's usual client.
pub fn fill_password(protocol: &mut Protocol) -> Result<(), CliError> {
    let variable = protocol.kind().password_variable;
    let (Some(variable), Some(given @ None)) = (variable, protocol.password()) else {
        return Ok(());
    };
    if let Some(value) = std::env::var_os(variable).filter(|value| !value.is_empty()) {
        let text = value.into_string().map_err(|_| format!("{variable} is not UTF-8"));
        *given = Some(text.or_usage()?);
    }
    Ok(())
}

impl RequestArgs {
    /// The options of particular protocols.
    fn protocol_options(&self) -> LoadOptions {
        let http = &self.http;
        let database = &self.database;
        let own = &self.own;
        let hidden = http
            .headers
            .iter()
            .filter(|given| given.are_hidden)
            .flat_map(|given| &given.headers);
        let modes = [
            ("simple", database.simple),
            ("extended", database.extended),
            ("prepared", database.prepared),
        ];
        let greet_until = self.raw.greet_until.iter().map(|text| match text.0.is_empty() {
            true => raw::NO_REPLY,
            false => End::Until(text.clone()),
        });
        LoadOptions {
            method: http.method.clone(),
            target: None,
            headers: http.headers.iter().flat_map(|given| given.headers.clone()).collect(),
            hidden: hidden.map(|(name, _)| name.clone()).collect(),
            body: http.body.clone(),
            expect_status: http.expect_status,
            http_version: [(http.http10, HttpVersion::V10), (http.http2, HttpVersion::V2)]
                .into_iter()
                .find_map(|(is_given, version)| is_given.then_some(version)),
            command: database.command.clone().map(|Words(words)| words),
            query: database.query.clone(),
            parameters: database.parameters.clone(),
            mode: modes.into_iter().find_map(|(mode, given)| given.then_some(mode)),
            size: own.size,
            expect: own.expect.clone(),
            send: self.raw.send.clone(),
            binary: self.raw.binary,
            greet: self.raw.greet.clone(),
            end: self.raw.end(),
            greet_ends: greet_until
                .chain(self.raw.greet_bytes.iter().copied().map(End::Bytes))
                .collect(),
        }
    }
}

/// Serves the conversation in the first line of the input repeatedly, until killed.
pub fn null() -> Result<(), CliError> {
    let mut line = String::new();
    io::stdin().read_line(&mut line).or_failed()?;
    let spec: NullSpec = serde_json::from_str(&line).or_usage()?;
    let server = NullServer::bind(spec).or_failed()?;
    print(format!("{LISTENING}\n").as_bytes())?;
    server.run().or_failed()
}
