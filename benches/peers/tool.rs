//! The clients: each with its best settings for the scenario, on the second CPU, one thread, charged by `wait4`.

use std::{
    env,
    ffi::OsStr,
    io::{self, Read as _},
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Command, Stdio},
    time::Instant,
};

use serde_json::Value;

use crate::{
    Settings,
    scenario::{Scenario, Server},
    server::Servers,
};

/// The gRPC method, and its definition for ghz.
const CALL: &str = "/lasthop.Echo/Call";
const PROTO: &str = "syntax = \"proto3\"; package lasthop;\n\
                     message Text { bytes value = 1; } service Echo { rpc Call (Text) returns (Text); }\n";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    Lasthop,
    Floor,
    /// The floor with io_uring: one system call for all due work.
    Uring,
    Wrk,
    H2load,
    Oha,
    Pgbench,
    Mysqlslap,
    RedisBenchmark,
    Memcaslap,
    Ghz,
    /// The client of golang.org/x/net.
    GoWebSocket,
}

/// A run of a tool.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// Requests of the whole run divided by CPU seconds of the whole process.
    pub per_cpu_second: f64,
    /// Requests per second, as the tool reports it.
    pub throughput: f64,
    /// Median latency in microseconds, where the tool reports one.
    pub median_us: Option<f64>,
    /// Mean latency in microseconds, where the tool reports one.
    pub mean_us: Option<f64>,
}

impl Tool {
    pub fn name(self) -> &'static str {
        match self {
            Self::Lasthop => "lasthop",
            Self::Floor => "floor",
            Self::Uring => "io_uring",
            Self::Wrk => "wrk",
            Self::H2load => "h2load",
            Self::Oha => "oha",
            Self::Pgbench => "pgbench",
            Self::Mysqlslap => "mysqlslap",
            Self::RedisBenchmark => "redis-benchmark",
            Self::Memcaslap => "memcaslap",
            Self::Ghz => "ghz",
            Self::GoWebSocket => "x/net/websocket",
        }
    }

    /// Whether the tool is installed. script/bench builds lasthop and the floor; starting the WebSocket server builds
    /// its client.
    pub fn is_here(self) -> bool {
        matches!(self, Self::Lasthop | Self::Floor | Self::Uring | Self::GoWebSocket) || find(self.name()).is_some()
    }

    pub fn measure(
        self,
        settings: &Settings,
        servers: &Servers,
        scenario: &Scenario,
        rate: f64,
    ) -> Result<Measured, String> {
        let target = Target {
            settings,
            servers,
            scenario,
            rate,
        };
        let ran = run(&mut target.command(self), client_cpu(scenario))?;
        ran.ended?;
        let report = target.report(self, &ran.output, ran.seconds);
        let (requests, throughput, median_us, mean_us) =
            report.ok_or_else(|| format!("{} on {}: cannot read\n{}", self.name(), scenario.name, ran.output))?;
        Ok(Measured {
            per_cpu_second: requests / ran.cpu_seconds,
            throughput,
            median_us,
            mean_us,
        })
    }
}

fn client_cpu(scenario: &Scenario) -> usize {
    usize::from(!scenario.same_core)
}

/// The target of a run, and its length.
struct Target<'a> {
    settings: &'a Settings,
    servers: &'a Servers,
    scenario: &'a Scenario,
    /// Approximate requests per second, for tools that need a count instead of a time.
    rate: f64,
}

impl Target<'_> {
    fn command(&self, tool: Tool) -> Command {
        match tool {
            Tool::Lasthop => self.lasthop(),
            Tool::Floor => self.floor("plain"),
            Tool::Uring => self.floor("uring"),
            Tool::Wrk => self.wrk(),
            Tool::H2load => self.h2load(),
            Tool::Oha => self.oha(),
            Tool::Pgbench => self.pgbench(),
            Tool::Mysqlslap => self.mysqlslap(),
            Tool::RedisBenchmark => self.redis_benchmark(),
            Tool::Memcaslap => self.memcaslap(),
            Tool::Ghz => self.ghz(),
            Tool::GoWebSocket => self.go_websocket(),
        }
    }

    fn socket(&self) -> String {
        self.servers.socket(self.scenario.server).display().to_string()
    }

    fn port(&self) -> u16 {
        self.servers.port(self.scenario.server)
    }

    fn seconds(&self) -> u32 {
        self.settings.seconds
    }

    fn connections(&self) -> u32 {
        self.scenario.connections
    }

    fn lasthop(&self) -> Command {
        let (url, pipeline) = (self.url(), self.scenario.pipeline);
        let (seconds, connections) = (self.seconds(), self.connections());
        let line =
            format!("load {url} --format json --warm-up 1ms -d {seconds}s -c {connections} --pipeline {pipeline}");
        let mut command = command(&self.settings.lasthop, &line);
        match self.scenario.server {
            Server::Redis => command.args(["--command", "GET key"]),
            Server::Memcached => command.args(["--command", "get key"]),
            Server::Grpc | Server::WebSocket => command.args(["--size", "64"]),
            Server::Http2 => command.arg("--http2"),
            _ => &mut command,
        };
        command
    }

    fn url(&self) -> String {
        let (socket, port) = (self.socket(), self.port());
        match (self.scenario.server, self.scenario.unix) {
            (Server::Http | Server::Http2, true) => format!("http+unix:{socket}:/"),
            (Server::Http | Server::Http2, false) => format!("http://127.0.0.1:{port}/"),
            (Server::WebSocket, true) => format!("ws+unix:{socket}:/"),
            (Server::WebSocket, false) => format!("ws://127.0.0.1:{port}/"),
            (Server::Redis, true) => format!("redis+unix:{socket}"),
            (Server::Redis, false) => format!("redis://127.0.0.1:{port}"),
            (Server::Echo, true) => format!("echo+unix:{socket}"),
            (Server::Echo, false) => format!("echo://127.0.0.1:{port}"),
            (Server::Pipe, _) => format!("echo+pipe:{socket}"),
            (Server::Memcached, true) => format!("memcached+unix:{socket}"),
            (Server::Memcached, false) => format!("memcached://127.0.0.1:{port}"),
            (Server::Grpc, true) => format!("grpc+unix:{socket}:{CALL}"),
            (Server::Grpc, false) => format!("grpc://127.0.0.1:{port}{CALL}"),
            (Server::Statsd, _) => {
                let counter = format!("http://127.0.0.1:{port}/metrics");
                format!(
                    "statsd+unixgram:{socket}?counter={counter}&counts={}",
                    lasthop_load::serve::RECEIVED
                )
            }
            (Server::Mariadb, true) => format!("mysql+unix:{socket}?user=bench&db=bench"),
            (Server::Mariadb, false) => format!("mysql://bench@127.0.0.1:{port}/bench"),
            (Server::Postgres, true) => {
                let folder = self.servers.folder(Server::Postgres).display();
                format!("postgres:///postgres?host={folder}&port={port}&user=postgres")
            }
            (Server::Postgres, false) => format!("postgres://postgres@127.0.0.1:{port}/postgres"),
        }
    }

    fn floor(&self, engine: &str) -> Command {
        let protocol = match self.scenario.server {
            Server::Echo | Server::Pipe => "echo",
            Server::Grpc => "grpc",
            Server::Http => "http",
            Server::Http2 | Server::WebSocket => unreachable!("no floor speaks it"),
            Server::Mariadb => "mysql",
            Server::Memcached => "memcached",
            Server::Postgres => "postgres",
            Server::Redis => "redis",
            Server::Statsd => "statsd",
        };
        let address = match (self.scenario.server, self.scenario.unix) {
            (Server::Pipe, _) => format!("pipe:{}", self.socket()),
            (Server::Statsd, _) => format!("unixgram:{}", self.socket()),
            (_, true) => format!("unix:{}", self.socket()),
            (_, false) => format!("tcp:127.0.0.1:{}", self.port()),
        };
        let (seconds, connections, pipeline) = (self.seconds(), self.connections(), self.scenario.pipeline);
        let line = format!(
            "{protocol} {address} connections={connections} seconds={seconds} pipeline={pipeline} engine={engine}"
        );
        let mut command = command(&self.settings.floor, &line);
        if self.scenario.server == Server::Mariadb {
            command.args(["user=bench", "database=bench"]);
        }
        command
    }

    fn wrk(&self) -> Command {
        let (seconds, connections, url) = (self.seconds(), self.connections(), self.url());
        command("wrk", &format!("-t1 --latency -d {seconds} -c {connections} {url}"))
    }

    fn h2load(&self) -> Command {
        let line = format!("-t1 -m1 -D {} -c {}", self.seconds(), self.connections());
        let mut command = command("h2load", &line);
        let path = if self.scenario.server == Server::Grpc {
            command
                .args(["-H", "content-type: application/grpc", "-H", "te: trailers", "-d"])
                .arg(self.message());
            CALL
        } else {
            if self.scenario.server == Server::Http {
                command.arg("--h1");
            }
            "/"
        };
        if self.scenario.unix {
            command
                .arg("-B")
                .arg(format!("unix:{}", self.socket()))
                .arg(format!("http://localhost{path}"));
        } else {
            command.arg(format!("http://127.0.0.1:{}{path}", self.port()));
        }
        command
    }

    /// A file with the message of a call: a field 1 of 64 bytes, after gRPC's prefix.
    fn message(&self) -> PathBuf {
        let file = self.servers.folder(Server::Grpc).join("message");
        std::fs::write(&file, [b"\0\0\0\0\x42\x0a\x40".as_slice(), &[b'a'; 64]].concat()).expect("the folder is ours");
        file
    }

    /// The same call for ghz, which takes the bytes as base64.
    fn ghz(&self) -> Command {
        let file = self.servers.folder(Server::Grpc).join("echo.proto");
        std::fs::write(&file, PROTO).expect("the folder is ours");
        let (seconds, connections) = (self.seconds(), self.connections());
        let (call, proto) = (CALL.trim_start_matches('/'), file.display());
        let message = format!("{{\"value\":\"{}YQ==\"}}", "YWFh".repeat(21));
        let address = match self.scenario.unix {
            true => format!("unix:{}", self.socket()),
            false => format!("127.0.0.1:{}", self.port()),
        };
        let line = format!(
            "--insecure --cpus=1 -O json -z {seconds}s -c {connections} --connections {connections} --call {call} \
             --proto {proto} -d {message} {address}"
        );
        command(find("ghz").unwrap_or_default(), &line)
    }

    fn go_websocket(&self) -> Command {
        let address = match self.scenario.unix {
            true => format!("unix {}", self.socket()),
            false => format!("tcp 127.0.0.1:{}", self.port()),
        };
        let line = format!("load {address} {} {}", self.connections(), self.seconds());
        command(self.servers.folder(Server::WebSocket).join("server"), &line)
    }

    /// memcaslap, which draws its own keys and first stores values of 100 bytes under them.
    fn memcaslap(&self) -> Command {
        let file = self.servers.folder(Server::Memcached).join("memcaslap");
        std::fs::write(&file, "key\n16 16 1\nvalue\n100 100 1\ncmd\n1 1.0\n").expect("the folder is ours");
        let (seconds, file, port) = (self.seconds(), file.display(), self.port());
        let connections = self.connections();
        let line = format!("-T 1 -t {seconds}s -F {file} -s 127.0.0.1:{port} -c {connections}");
        command("memcaslap", &line)
    }

    fn oha(&self) -> Command {
        let address = match self.scenario.unix {
            true => format!("--unix-socket {} http://localhost/", self.socket()),
            false => self.url(),
        };
        oha(&format!("-z {}s -c {} {address}", self.seconds(), self.connections()))
    }

    fn pgbench(&self) -> Command {
        let script = self.servers.folder(Server::Postgres).join("select.sql");
        // Written each time: the file is so short that a check would cost more.
        std::fs::write(&script, "select 1;\n").expect("the folder is ours");
        let host = match self.scenario.unix {
            true => self.servers.folder(Server::Postgres).display().to_string(),
            false => "127.0.0.1".to_owned(),
        };
        let (port, script) = (self.port(), script.display());
        let (seconds, connections) = (self.seconds(), self.connections());
        let line = format!(
            "-n -M simple -j1 -h {host} -p {port} -U postgres -T {seconds} -c {connections} -f {script} postgres"
        );
        command("/usr/lib/postgresql/15/bin/pgbench", &line)
    }

    /// A count of requests that takes about as long as the time of other tools. The factor allows for slower tools.
    fn count(&self) -> u64 {
        (self.rate * f64::from(self.settings.seconds) * 0.6).max(1000.0) as u64
    }

    /// mysqlslap, which has one thread for each connection and no other way.
    fn mysqlslap(&self) -> Command {
        let address = match self.scenario.unix {
            true => format!("--socket={}", self.socket()),
            false => format!("--protocol=tcp --host=127.0.0.1 --port={}", self.port()),
        };
        let (connections, count) = (self.connections(), self.count());
        let line = format!(
            "--no-defaults --user=bench --create-schema=bench --no-drop {address} --concurrency={connections} \
             --number-of-queries={count}"
        );
        let mut command = command("mysqlslap", &line);
        command.arg("--query=select 1");
        command
    }

    fn redis_benchmark(&self) -> Command {
        let address = match self.scenario.unix {
            true => format!("-s {}", self.socket()),
            false => format!("-h 127.0.0.1 -p {}", self.port()),
        };
        let (count, connections, pipeline) = (self.count(), self.connections(), self.scenario.pipeline);
        let line = format!("{address} --precision 3 -n {count} -c {connections} -P {pipeline} GET key");
        command("redis-benchmark", &line)
    }

    /// Requests, requests per second, median and mean in microseconds.
    fn report(&self, tool: Tool, output: &str, seconds: f64) -> Option<(f64, f64, Option<f64>, Option<f64>)> {
        match tool {
            Tool::Lasthop => {
                let figures: Value = serde_json::from_str(output).ok()?;
                let of = |key: &str| figures["latency_ns"][key].as_f64().map(|ns| ns / 1e3);
                Some((
                    figures["requests_total"].as_f64()?,
                    figures["throughput"].as_f64()?,
                    of("p50"),
                    of("mean"),
                ))
            }
            Tool::Floor | Tool::Uring => {
                let figures: Value = serde_json::from_str(output).ok()?;
                let requests = figures["requests"].as_f64()?;
                Some((requests, requests / figures["seconds"].as_f64()?, None, None))
            }
            Tool::GoWebSocket => {
                let figures: Value = serde_json::from_str(output).ok()?;
                let requests = figures["requests"].as_f64()?;
                let rate = requests / figures["seconds"].as_f64()?;
                Some((requests, rate, figures["median_us"].as_f64(), None))
            }
            Tool::Wrk => {
                let requests = number_before(output, " requests in")?;
                Some((
                    requests,
                    number_after(output, "Requests/sec:")?,
                    time_after(output, "50%"),
                    time_after(output, "Latency"),
                ))
            }
            Tool::H2load => {
                let requests = number_before(output, " succeeded,")?;
                let times = output.split_once("time for request:").map(|(_, rest)| rest);
                // Minimum, maximum, mean.
                let mean = times.and_then(|rest| time_of(rest.split_whitespace().nth(2)?));
                Some((requests, number_before(output, " req/s,")?, None, mean))
            }
            Tool::Oha => {
                let figures: Value = serde_json::from_str(output).ok()?;
                let rate = figures["summary"]["requestsPerSec"].as_f64()?;
                let median = figures["latencyPercentiles"]["p50"]
                    .as_f64()
                    .map(|seconds| seconds * 1e6);
                let mean = figures["summary"]["average"].as_f64().map(|seconds| seconds * 1e6);
                Some((rate * figures["summary"]["total"].as_f64()?, rate, median, mean))
            }
            Tool::Pgbench => {
                let requests = number_after(output, "actually processed:")?;
                let mean = number_after(output, "latency average =").map(|milliseconds| milliseconds * 1e3);
                Some((requests, number_after(output, "tps =")?, None, mean))
            }
            Tool::Mysqlslap => {
                let clients = number_after(output, "Number of clients running queries:")?;
                let requests = clients * number_after(output, "Average number of queries per client:")?;
                Some((
                    requests,
                    requests / number_after(output, "to run all queries:")?,
                    None,
                    None,
                ))
            }
            Tool::Memcaslap => {
                let rate = number_after(output, "TPS:")?;
                Some((number_after(output, "Ops:")?, rate, None, None))
            }
            Tool::Ghz => {
                let figures: Value = serde_json::from_str(output).ok()?;
                let right = figures["statusCodeDistribution"]["OK"].as_f64()?;
                let latencies = figures["latencyDistribution"].as_array()?;
                let median = latencies.iter().find(|entry| entry["percentage"] == 50)?["latency"].as_f64();
                let mean = figures["average"].as_f64();
                Some((
                    right,
                    figures["rps"].as_f64()?,
                    median.map(|ns| ns / 1e3),
                    mean.map(|ns| ns / 1e3),
                ))
            }
            Tool::RedisBenchmark => {
                // The line of the result is rewritten in place.
                let last = output
                    .rsplit(['\r', '\n'])
                    .find(|line| line.contains("requests per second"))?;
                let rate = number_before(last, " requests per second")?;
                // Mean, minimum, median: below their names.
                let summary: Vec<f64> = output
                    .lines()
                    .skip_while(|line| !line.trim_start().starts_with("avg "))
                    .nth(1)
                    .map(|line| line.split_whitespace().filter_map(|word| word.parse().ok()).collect())
                    .unwrap_or_default();
                let of = |index: usize| summary.get(index).map(|milliseconds| milliseconds * 1e3);
                (seconds > 0.0).then_some((self.count() as f64, rate, of(2), of(0)))
            }
        }
    }
}

pub fn number_after(text: &str, mark: &str) -> Option<f64> {
    let rest = text.split_once(mark)?.1.trim_start();
    let digits = rest
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(rest.len());
    rest[..digits].parse().ok()
}

pub fn number_before(text: &str, mark: &str) -> Option<f64> {
    let head = text.split_once(mark)?.0;
    head[head
        .rfind(|c: char| !c.is_ascii_digit() && c != '.')
        .map_or(0, |at| at + 1)..]
        .parse()
        .ok()
}

/// The time after a text, with its unit attached, as in wrk.
pub fn time_after(text: &str, mark: &str) -> Option<f64> {
    time_of(text.split_once(mark)?.1.split_whitespace().next()?)
}

/// Microseconds of a word such as `61.3us`.
fn time_of(word: &str) -> Option<f64> {
    let number = number_after(word, "")?;
    let scale = [("us", 1.0), ("ms", 1e3), ("s", 1e6)]
        .into_iter()
        .find(|(unit, _)| word.ends_with(unit))?
        .1;
    Some(number * scale)
}

pub fn find(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let home = env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo/bin"));
    // Folder of the tools that Debian lacks, installed by `script/setup --bench`.
    let own = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/target/peers/bin"));
    env::split_paths(&path)
        .chain(home)
        .chain([own])
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

/// A program with arguments, none of which has a space.
pub fn command(program: impl AsRef<OsStr>, arguments: &str) -> Command {
    let mut command = Command::new(program);
    command.args(arguments.split_whitespace());
    command
}

/// oha, on one thread.
pub fn oha(arguments: &str) -> Command {
    let line = format!("--no-tui --output-format json {arguments}");
    let mut command = command(find("oha").unwrap_or_default(), &line);
    command.env("TOKIO_WORKER_THREADS", "1");
    command
}

/// The output and the costs of a client.
pub struct Ran {
    /// Standard error, if the exit code is not 0.
    pub ended: Result<(), String>,
    pub output: String,
    pub seconds: f64,
    pub cpu_seconds: f64,
    /// Largest resident size, in KiB.
    pub resident: i64,
}

/// Runs a client on one CPU until it ends.
pub fn run(command: &mut Command, cpu: usize) -> Result<Ran, String> {
    let described = format!("{command:?}");
    // SAFETY: between fork and exec only system calls are made.
    unsafe { command.pre_exec(move || pin(cpu)) };
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let begin = Instant::now();
    let mut child = command.spawn().map_err(|error| format!("{described}: {error}"))?;
    let mut output = String::new();
    let mut pipe = child.stdout.take().expect("asked for");
    pipe.read_to_string(&mut output)
        .map_err(|error| format!("{described}: {error}"))?;
    let mut errors = String::new();
    let _ = child.stderr.take().expect("asked for").read_to_string(&mut errors);
    let (status, usage) = wait(child.id().cast_signed()).map_err(|error| format!("{described}: {error}"))?;
    let complaint = || format!("{described} ended with wait status {status}:\n{output}\n{errors}");
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    let ended = if status == 0 { Ok(()) } else { Err(complaint()) };
    Ok(Ran {
        ended,
        output,
        seconds: begin.elapsed().as_secs_f64(),
        cpu_seconds: seconds(usage.ru_utime) + seconds(usage.ru_stime),
        resident: usage.ru_maxrss,
    })
}

fn wait(pid: libc::pid_t) -> io::Result<(i32, libc::rusage)> {
    let mut status = 0;
    // SAFETY: all-zero is a valid rusage.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are valid for the call to fill; the child has not been waited for.
    let waited = unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut usage) };
    if waited == pid {
        Ok((status, usage))
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Pins the calling thread to this CPU.
pub fn pin(cpu: usize) -> io::Result<()> {
    // SAFETY: an all-zero set is valid, and so is an index below CPU_SETSIZE.
    let pinned = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)
    };
    if pinned == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
