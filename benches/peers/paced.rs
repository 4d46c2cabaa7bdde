//! The open loop: lasthop's lag at half of the closed loop's throughput, and the latencies that other tools report at
//! that rate.

use lasthop_stats::random::Draws;
use serde_json::Value;

use crate::{
    Settings,
    disturbance::Watch,
    page,
    scenario::Server,
    server::Servers,
    special, table,
    tool::{self, command, find, time_after},
};

/// Seconds of a run. A stall of the machine hits one run, so most short runs see none.
const RUN_SECONDS: f64 = 0.2;

/// The largest share of an undisturbed run for which its two CPUs were taken from generator and server. After a pause
/// of `g` at half the capacity, requests due within `2 g` are late. Pauses of 0.5 % thus make 1 % of the requests late,
/// and the 99th percentile no longer shows the generator.
const UNDISTURBED: f64 = 0.005;

/// A way to keep the schedule.
#[derive(Clone, Copy)]
enum Way {
    /// `lasthop load` with these options.
    Lasthop(&'static [&'static str]),
    /// `benches/floor/paced.h` with this many connections: sends, receives and reads the clock.
    Floor(&'static str),
}

/// lasthop's default wait, asleep until the last moment, and enough connections that one is always free: with ten, a
/// server that pauses for ten requests delays the next one.
const WAYS: [(&str, Way); 4] = [
    ("10 connections, awake before due", Way::Lasthop(&["-c", "10"])),
    (
        "10 connections, asleep (`--spin 1us`)",
        Way::Lasthop(&["-c", "10", "--spin", "1us"]),
    ),
    ("1,000 connections, awake before due", Way::Lasthop(&["-c", "1000"])),
    ("the floor, 10 connections, always awake", Way::Floor("connections=10")),
];

/// The result of a run, in microseconds.
#[derive(Clone, Copy)]
struct Lag {
    p50: f64,
    p99: f64,
    /// How long generator and server were kept from their CPUs.
    disturbed: f64,
}

impl Lag {
    fn is_undisturbed(&self) -> bool {
        self.disturbed <= UNDISTURBED * RUN_SECONDS * 1e6
    }
}

/// A schedule on a server.
struct Schedule<'a> {
    settings: &'a Settings,
    url: String,
    /// The address in the floor's format.
    address: String,
    watch: Watch,
    rate: f64,
    arrivals: &'static str,
}

impl Schedule<'_> {
    fn run(&self, way: Way) -> Result<Lag, String> {
        let before = self.watch.read();
        let figures = match way {
            Way::Lasthop(options) => self.lasthop(options)?,
            Way::Floor(connections) => self.floor(connections)?,
        };
        let elsewhere = self.watch.read() - before;
        let of = |value: &Value| value.as_f64().unwrap_or(f64::INFINITY);
        let own = of(&figures["driver_run_delay_seconds"]) * 1e6;
        let lag = &figures["lag_ns"];
        Ok(Lag {
            p50: of(&lag["p50"]) / 1e3,
            p99: of(&lag["p99"]) / 1e3,
            disturbed: own + elsewhere,
        })
    }

    fn lasthop(&self, options: &[&str]) -> Result<Value, String> {
        let (rate, duration) = (self.rate.to_string(), format!("{RUN_SECONDS}s"));
        let common = [
            "--duration",
            &duration,
            "--warm-up",
            "50ms",
            "--rate",
            &rate,
            "--arrivals",
            self.arrivals,
        ];
        Ok(special::load(self.settings, &self.url, &[&common, options].concat())?.0)
    }

    fn floor(&self, connections: &str) -> Result<Value, String> {
        let (address, rate, arrivals) = (&self.address, self.rate, self.arrivals);
        let line = format!("http {address} {connections} seconds={RUN_SECONDS} rate={rate} arrivals={arrivals}");
        let ran = tool::run(&mut command(&self.settings.floor, &line), 1)?;
        ran.ended?;
        serde_json::from_str(&ran.output).map_err(|error| error.to_string())
    }

    /// Runs all ways in turns, in random order, until each has an undisturbed run per round, or ten times as many runs
    /// in all.
    fn measure(&self, draws: &mut Draws) -> Result<[Vec<Lag>; WAYS.len()], String> {
        let mut all = WAYS.map(|_| Vec::new());
        let enough = |lags: &Vec<Lag>| lags.iter().filter(|lag| lag.is_undisturbed()).count() >= self.settings.rounds;
        for _ in 0..10 * self.settings.rounds {
            let mut order: Vec<usize> = (0..WAYS.len()).collect();
            draws.shuffle(&mut order);
            for way in order {
                all[way].push(self.run(WAYS[way].1)?);
            }
            if all.iter().all(enough) {
                break;
            }
        }
        Ok(all)
    }
}

pub fn open_loop(
    settings: &Settings,
    servers: &Servers,
    draws: &mut Draws,
) -> Result<(Vec<page::Lag>, Vec<page::AtRate>), String> {
    let (mut lags, mut peers) = (Vec::new(), Vec::new());
    for (transport, url) in special::urls(servers) {
        let (closed, _) = special::load(settings, &url, &["-c", "10", "-d", "1s"])?;
        let rate = (closed["throughput"].as_f64().unwrap_or(0.0) / 2.0).round();
        for arrivals in ["constant", "poisson"] {
            let address = match transport {
                "unix" => format!("unix:{}", servers.socket(Server::Http).display()),
                _ => format!("tcp:127.0.0.1:{}", servers.port(Server::Http)),
            };
            let watch = Watch::over(servers.pid(Server::Http));
            let schedule = Schedule {
                settings,
                url: url.clone(),
                address,
                watch,
                rate,
                arrivals,
            };
            for ((way, _), measured) in WAYS.iter().zip(schedule.measure(draws)?) {
                lags.push(row((transport, arrivals, rate, way), &measured));
            }
        }
        peers.extend(at_rate(settings, servers, transport, &url, rate)?);
    }
    Ok((lags, peers))
}

/// Median and tail of the lag, over all runs and over undisturbed runs.
fn row((transport, arrivals, rate, way): (&str, &str, f64, &str), lags: &[Lag]) -> page::Lag {
    let quiet: Vec<f64> = lags
        .iter()
        .filter(|lag| lag.is_undisturbed())
        .map(|lag| lag.p99)
        .collect();
    page::Lag {
        transport: transport.to_owned(),
        arrivals: arrivals.to_owned(),
        rate,
        way: way.to_owned(),
        p50: median(lags.iter().map(|lag| lag.p50)),
        p99: median(lags.iter().map(|lag| lag.p99)),
        runs: lags.len(),
        undisturbed: quiet.len(),
        undisturbed_p99: table::median(&quiet),
        undisturbed_p99_most: quiet.iter().copied().max_by(f64::total_cmp),
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    table::median(&values.collect::<Vec<_>>()).unwrap_or(f64::INFINITY)
}

/// Response times from the scheduled start, for tools that have them: lasthop, wrk2, oha. vegeta's latency counts from
/// the actual send.
fn at_rate(
    settings: &Settings,
    servers: &Servers,
    transport: &str,
    url: &str,
    rate: f64,
) -> Result<Vec<page::AtRate>, String> {
    let all: [(&str, &str, Run); 4] = [
        ("lasthop", "schedule", lasthop),
        ("wrk2", "schedule", wrk2),
        ("oha", "schedule", oha),
        ("vegeta", "actual send", vegeta),
    ];
    let here = |(name, ..): &&(&str, &str, Run)| match *name {
        "lasthop" => true,
        "wrk2" => transport == "tcp" && find("wrk2").is_some(),
        other => find(other).is_some(),
    };
    let mut rows = Vec::new();
    for (name, from, run) in all.iter().filter(here) {
        let mut found = Vec::new();
        for _ in 0..settings.rounds {
            let measured = run(settings, servers, url, transport == "unix", rate)
                .map_err(|error| format!("{name} at {rate} requests/s: {error}"))?;
            found.push(measured);
        }
        let median = |of: fn(&(f64, f64, f64)) -> f64| median(found.iter().map(of));
        rows.push(page::AtRate {
            tool: (*name).to_owned(),
            transport: transport.to_owned(),
            rate,
            from: (*from).to_owned(),
            p50: median(|all| all.0),
            p99: median(|all| all.1),
            reached: median(|all| all.2) / rate,
        });
    }
    Ok(rows)
}

/// Median and 99th percentile in microseconds, and the achieved rate.
type Found = Result<(f64, f64, f64), String>;
type Run = fn(&Settings, &Servers, &str, bool, f64) -> Found;

fn lasthop(settings: &Settings, _: &Servers, url: &str, _: bool, rate: f64) -> Found {
    let rate = rate.to_string();
    let (figures, _) = special::load(settings, url, &["-c", "10", "-d", "2s", "--rate", &rate])?;
    let of = |key: &str| figures["response_ns"][key].as_f64().unwrap_or(f64::INFINITY) / 1e3;
    Ok((of("p50"), of("p99"), figures["throughput"].as_f64().unwrap_or(0.0)))
}

fn wrk2(_: &Settings, _: &Servers, url: &str, _: bool, rate: f64) -> Found {
    let line = format!("-t1 -c10 -d2s -L -R{rate} {url}");
    let ran = tool::run(&mut command(find("wrk2").unwrap_or_default(), &line), 1)?;
    ran.ended?;
    let line = |mark: &str| time_after(&ran.output, mark).ok_or_else(|| ran.output.clone());
    let reached = tool::number_after(&ran.output, "Requests/sec:").ok_or_else(|| ran.output.clone())?;
    Ok((line("50.000%")?, line("99.000%")?, reached))
}

fn oha(_: &Settings, servers: &Servers, url: &str, unix: bool, rate: f64) -> Found {
    let address = match unix {
        true => format!(
            "--unix-socket {} http://localhost/",
            servers.socket(Server::Http).display()
        ),
        false => url.to_owned(),
    };
    let line = format!("-z 2s -c 10 --latency-correction -q {rate} {address}");
    let ran = tool::run(&mut tool::oha(&line), 1)?;
    ran.ended?;
    let figures: Value = serde_json::from_str(&ran.output).map_err(|error| error.to_string())?;
    let of = |key: &str| figures["latencyPercentiles"][key].as_f64().unwrap_or(f64::INFINITY) * 1e6;
    Ok((
        of("p50"),
        of("p99"),
        figures["summary"]["requestsPerSec"].as_f64().unwrap_or(0.0),
    ))
}

fn vegeta(_: &Settings, servers: &Servers, url: &str, unix: bool, rate: f64) -> Found {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let at = folder.path().display();
    let target = if unix { "http://localhost/" } else { url };
    std::fs::write(folder.path().join("targets"), format!("GET {target}\n")).map_err(|error| error.to_string())?;
    let program = find("vegeta").unwrap_or_default();
    let line = format!(
        "attack -duration 2s -workers 10 -max-workers 10 -connections 10 -rate={rate} -targets={at}/targets \
         -output={at}/results"
    );
    let mut attack = command(&program, &line);
    if unix {
        attack.arg(format!("-unix-socket={}", servers.socket(Server::Http).display()));
    }
    tool::run(attack.env("GOMAXPROCS", "1"), 1)?.ended?;
    let ran = tool::run(&mut command(&program, &format!("report -type=json {at}/results")), 1)?;
    ran.ended?;
    let figures: Value = serde_json::from_str(&ran.output).map_err(|error| error.to_string())?;
    let of = |key: &str| figures["latencies"][key].as_f64().unwrap_or(f64::INFINITY) / 1e3;
    Ok((of("50th"), of("99th"), figures["throughput"].as_f64().unwrap_or(0.0)))
}
