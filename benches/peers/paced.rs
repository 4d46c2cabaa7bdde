//! The open loop: how late lasthop sends at half of the closed loop's throughput, and what others measure at that rate.

use std::{
    fmt::Write as _,
    hint::black_box,
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{
    Settings,
    scenario::Server,
    server::Servers,
    special, table,
    tool::{self, find, time_after},
};

/// Most that the 99th percentile of the lag may be, in microseconds.
const LAG_TARGET_US: f64 = 100.0;

/// Short runs, so that most of them see no stall of the machine: a stall is in one run, not in all.
const RUN: [&str; 4] = ["--duration", "200ms", "--warm-up", "50ms"];

/// What is compared: how lasthop waits by itself, asleep to the last moment, and with so many connections that one is free
/// whatever the server does. With ten a server that pauses for ten requests makes the next one late.
const WAYS: [(&str, &[&str]); 3] = [
    ("10 connections, awake before due", &["-c", "10"]),
    ("10 connections, asleep (`--spin 1us`)", &["-c", "10", "--spin", "1us"]),
    ("1,000 connections, awake before due", &["-c", "1000"]),
];

/// What the machine itself does to a schedule: see [`idle_lag`].
const NOTHING_SENT: &str = "nothing sent, only the clock read";

/// What a run at a fixed rate came to, in microseconds.
#[derive(Default)]
struct Paced {
    p50: Vec<f64>,
    p99: Vec<f64>,
    /// Share of the rate that was reached.
    reached: Vec<f64>,
}

impl Paced {
    fn add(&mut self, p50: f64, p99: f64, reached: f64) {
        self.p50.push(p50);
        self.p99.push(p99);
        self.reached.push(reached);
    }

    fn median(values: &[f64]) -> f64 {
        table::median(values).unwrap_or(f64::INFINITY)
    }
}

pub fn open_loop(settings: &Settings, servers: &Servers) -> Result<String, String> {
    let mut lag = "| open loop at half of the closed loop's throughput | rate | | lag p50 | lag p99: median (least) of runs | runs within | target | |\n\
                   |---|---|---|---|---|---|---|---|\n"
        .to_owned();
    let mut peers =
        "| the same rate, 10 connections, constant | from | p50 | p99 | of the rate reached |\n|---|---|---|---|---|\n"
            .to_owned();
    for (transport, url) in special::urls(servers) {
        let (closed, _) = special::load(settings, &url, &["-c", "10", "-d", "1s"])?;
        let rate = (closed["throughput"].as_f64().unwrap_or(0.0) / 2.0).round();
        for arrivals in ["constant", "poisson"] {
            lag_rows(settings, &url, &format!("HTTP, {transport}, {arrivals}"), rate, arrivals, &mut lag)?;
        }
        peer_rows(settings, servers, transport, &url, rate, &mut peers)?;
    }
    Ok(format!("{lag}\n{peers}"))
}

fn lag_rows(
    settings: &Settings,
    url: &str,
    name: &str,
    rate: f64,
    arrivals: &str,
    text: &mut String,
) -> Result<(), String> {
    let given = rate.to_string();
    let mut all = WAYS.map(|(way, _)| (way, Paced::default()));
    let mut nothing = Paced::default();
    for _ in 0..settings.rounds * 5 {
        for ((_, way), (_, paced)) in WAYS.iter().zip(&mut all) {
            let options = [&RUN, ["--rate", given.as_str(), "--arrivals", arrivals].as_slice(), way].concat();
            let (figures, _) = special::load(settings, url, &options)?;
            let lag = |key: &str| figures["lag_ns"][key].as_f64().unwrap_or(f64::INFINITY) / 1e3;
            paced.add(lag("p50"), lag("p99"), f64::from(u8::from(figures["offered"]["reached"] == true)));
        }
        let (p50, p99) = idle_lag(rate, Duration::from_millis(200))?;
        nothing.add(p50, p99, 1.0);
    }
    for (way, paced) in &all {
        let mark = if Paced::median(&paced.p99) <= LAG_TARGET_US { "reached" } else { "**missed**" };
        let _ = writeln!(text, "| {name} | {given} /s | {way} | {} | ≤ {LAG_TARGET_US:.0} µs | {mark} |", row(paced));
    }
    let _ = writeln!(text, "| {name} | {given} /s | {NOTHING_SENT} | {} | – | |", row(&nothing));
    Ok(())
}

/// Lag at the median and in the tail, and how many runs are within the target.
fn row(paced: &Paced) -> String {
    let least = paced.p99.iter().copied().fold(f64::INFINITY, f64::min);
    let within = paced.p99.iter().filter(|p99| **p99 <= LAG_TARGET_US).count();
    let (p50, p99) = (Paced::median(&paced.p50), Paced::median(&paced.p99));
    format!("{p50:.1} µs | {p99:.1} µs ({least:.1} µs) | {within} of {}", paced.p99.len())
}

/// Median and 99th percentile, in microseconds, of the lag of a schedule at `rate` a second that nothing keeps up but a loop that
/// reads the clock, while the servers' CPU is as busy: whatever is late here, the machine has made late.
fn idle_lag(rate: f64, length: Duration) -> Result<(f64, f64), String> {
    let over = AtomicBool::new(false);
    let lags = thread::scope(|scope| {
        scope.spawn(|| {
            let pinned = tool::pin(0);
            while !over.load(Ordering::Relaxed) {
                black_box(Instant::now());
            }
            pinned
        });
        let lags = scope.spawn(|| tool::pin(1).map(|()| lags_of_the_clock(rate, length))).join();
        over.store(true, Ordering::Relaxed);
        lags
    });
    let mut lags = lags.map_err(|_| "the clock's thread failed")?.map_err(|error| error.to_string())?;
    lags.sort_by(f64::total_cmp);
    let at = |share: f64| lags.get((lags.len() as f64 * share) as usize).copied().unwrap_or(f64::INFINITY);
    Ok((at(0.5), at(0.99)))
}

/// How late each request that is due within `length` is seen to be, in microseconds.
fn lags_of_the_clock(rate: f64, length: Duration) -> Vec<f64> {
    let start = Instant::now();
    let mut lags = Vec::with_capacity((rate * length.as_secs_f64()) as usize + 1);
    loop {
        let now = start.elapsed();
        if now > length {
            return lags;
        }
        while lags.len() as f64 / rate <= now.as_secs_f64() {
            lags.push((now.as_secs_f64() - lags.len() as f64 / rate) * 1e6);
        }
    }
}

/// Response times from the scheduled start where a tool has such a thing: lasthop, wrk2, oha. vegeta has not: its latency
/// counts from the actual send.
fn peer_rows(
    settings: &Settings,
    servers: &Servers,
    transport: &str,
    url: &str,
    rate: f64,
    text: &mut String,
) -> Result<(), String> {
    let all: [(&str, &str, Run); 4] =
        [("lasthop", "due", lasthop), ("wrk2", "due", wrk2), ("oha", "due", oha), ("vegeta", "actual send", vegeta)];
    let here = |(name, ..): &&(&str, &str, Run)| match *name {
        "lasthop" => true,
        "wrk2" => transport == "tcp" && find("wrk2").is_some(),
        other => find(other).is_some(),
    };
    for (name, from, run) in all.iter().filter(here) {
        let mut paced = Paced::default();
        for _ in 0..settings.rounds {
            let (p50, p99, reached) = run(settings, servers, url, transport == "unix", rate)
                .map_err(|error| format!("{name} at {rate} requests/s: {error}"))?;
            paced.add(p50, p99, reached / rate);
        }
        let [p50, p99, reached] = [&paced.p50, &paced.p99, &paced.reached].map(|values| Paced::median(values));
        let _ = writeln!(
            text,
            "| {name}, {transport}, {rate} /s | {from} | {p50:.0} µs | {p99:.0} µs | {:.0} % |",
            100.0 * reached
        );
    }
    Ok(())
}

/// Median and 99th percentile in microseconds, and the rate that was reached.
type Found = Result<(f64, f64, f64), String>;
type Run = fn(&Settings, &Servers, &str, bool, f64) -> Found;

fn lasthop(settings: &Settings, _: &Servers, url: &str, _: bool, rate: f64) -> Found {
    let rate = rate.to_string();
    let (figures, _) = special::load(settings, url, &["-c", "10", "-d", "2s", "--rate", &rate])?;
    let of = |key: &str| figures["response_ns"][key].as_f64().unwrap_or(f64::INFINITY) / 1e3;
    Ok((of("p50"), of("p99"), figures["throughput"].as_f64().unwrap_or(0.0)))
}

fn wrk2(_: &Settings, _: &Servers, url: &str, _: bool, rate: f64) -> Found {
    let mut command = Command::new(find("wrk2").unwrap_or_default());
    command.args(["-t1", "-c10", "-d2s", "-L", &format!("-R{rate}"), url]);
    let ran = tool::run(&mut command, 1)?;
    ran.ended?;
    let line = |mark: &str| time_after(&ran.output, mark).ok_or_else(|| ran.output.clone());
    let reached = tool::number_after(&ran.output, "Requests/sec:").ok_or_else(|| ran.output.clone())?;
    Ok((line("50.000%")?, line("99.000%")?, reached))
}

fn oha(_: &Settings, servers: &Servers, url: &str, unix: bool, rate: f64) -> Found {
    let mut command = Command::new(find("oha").unwrap_or_default());
    command.args(["--no-tui", "--output-format", "json", "-z", "2s", "-c", "10", "--latency-correction"]);
    command.args(["-q", &rate.to_string()]).env("TOKIO_WORKER_THREADS", "1");
    match unix {
        true => command.arg("--unix-socket").arg(servers.socket(Server::Http)).arg("http://localhost/"),
        false => command.arg(url),
    };
    let ran = tool::run(&mut command, 1)?;
    ran.ended?;
    let figures: Value = serde_json::from_str(&ran.output).map_err(|error| error.to_string())?;
    let of = |key: &str| figures["latencyPercentiles"][key].as_f64().unwrap_or(f64::INFINITY) * 1e6;
    Ok((of("p50"), of("p99"), figures["summary"]["requestsPerSec"].as_f64().unwrap_or(0.0)))
}

fn vegeta(_: &Settings, servers: &Servers, url: &str, unix: bool, rate: f64) -> Found {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let (targets, results) = (folder.path().join("targets"), folder.path().join("results"));
    let target = if unix { "http://localhost/" } else { url };
    std::fs::write(&targets, format!("GET {target}\n")).map_err(|error| error.to_string())?;
    let program = find("vegeta").unwrap_or_default();
    let mut command = Command::new(&program);
    command.args(["attack", "-duration", "2s", "-workers", "10", "-max-workers", "10", "-connections", "10"]);
    command.arg(format!("-rate={rate}")).arg(format!("-targets={}", targets.display()));
    command.arg(format!("-output={}", results.display())).env("GOMAXPROCS", "1");
    if unix {
        command.arg(format!("-unix-socket={}", servers.socket(Server::Http).display()));
    }
    tool::run(&mut command, 1)?.ended?;
    let ran = tool::run(Command::new(&program).args(["report", "-type=json"]).arg(&results), 1)?;
    ran.ended?;
    let figures: Value = serde_json::from_str(&ran.output).map_err(|error| error.to_string())?;
    let of = |key: &str| figures["latencies"][key].as_f64().unwrap_or(f64::INFINITY) / 1e3;
    Ok((of("50th"), of("99th"), figures["throughput"].as_f64().unwrap_or(0.0)))
}
