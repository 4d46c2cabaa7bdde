//! What no other tool is compared with: the lag of the open loop, and many held connections.

use std::{fmt::Write as _, process::Command};

use serde_json::Value;

use crate::{Settings, scenario::Server, server::Servers, table, tool};

/// Most that the 99th percentile of the lag may be, in microseconds.
const LAG_TARGET_US: f64 = 100.0;
const HELD: u32 = 10_000;
/// Most bytes of a held connection.
const HELD_TARGET: f64 = 4096.0;

fn load(settings: &Settings, url: &str, options: &[&str]) -> Result<(Value, tool::Ran), String> {
    let mut command = Command::new(&settings.lasthop);
    command.args(["load", url, "--format", "json"]).args(options);
    let ran = tool::run(&mut command, 1)?;
    // It fails where a rate was not reached; there are figures all the same.
    match serde_json::from_str(&ran.output) {
        Ok(figures) => Ok((figures, ran)),
        Err(error) => Err(ran.ended.err().unwrap_or_else(|| error.to_string())),
    }
}

fn urls(servers: &Servers) -> [(&'static str, String); 2] {
    let socket = servers.socket(Server::Http);
    [
        ("unix", format!("http+unix:{}:/", socket.display())),
        ("tcp", format!("http://127.0.0.1:{}/", servers.port(Server::Http))),
    ]
}

/// At half of the closed loop's throughput, on nginx, ten connections.
pub fn open_loop(settings: &Settings, servers: &Servers) -> Result<String, String> {
    let mut text = "| open loop at half of the closed loop's throughput | rate | lag p50 | lag p99: median (least) | rate not reached | target | |\n\
                    |---|---|---|---|---|---|---|\n"
        .to_owned();
    for (transport, url) in urls(servers) {
        let (closed, _) = load(settings, &url, &["-c", "10", "-d", "1s"])?;
        let rate = (closed["throughput"].as_f64().unwrap_or(0.0) / 2.0).round();
        for arrivals in ["constant", "poisson"] {
            let (mut p50, mut p99, mut missed) = (Vec::new(), Vec::new(), 0);
            for _ in 0..settings.rounds {
                let rate = rate.to_string();
                let options = ["-c", "10", "-d", "1s", "--rate", rate.as_str(), "--arrivals", arrivals];
                let (figures, _) = load(settings, &url, &options)?;
                let lag = |key: &str| figures["lag_ns"][key].as_f64().unwrap_or(f64::INFINITY) / 1e3;
                p50.push(lag("p50"));
                p99.push(lag("p99"));
                missed += u32::from(figures["offered"]["reached"] != true);
            }
            let least = p99.iter().copied().fold(f64::INFINITY, f64::min);
            let (p50, p99) = (table::median(&p50).unwrap_or(0.0), table::median(&p99).unwrap_or(f64::INFINITY));
            let mark = if p99 <= LAG_TARGET_US { "reached" } else { "**missed**" };
            let _ = writeln!(
                text,
                "| HTTP, {transport}, 10 connections, {arrivals} | {rate} /s | {p50:.1} µs | {p99:.1} µs ({least:.1} µs) | \
                 {missed} of {} runs | ≤ {LAG_TARGET_US:.0} µs | {mark} |",
                settings.rounds
            );
        }
    }
    Ok(text)
}

/// Ten thousand connections in one process: what each costs it, and whether one fails.
pub fn held(settings: &Settings, servers: &Servers) -> Result<String, String> {
    let mut text = "| connections held by one process | errors | resident for each | target | |\n\
                    |---|---|---|---|---|\n"
        .to_owned();
    for (transport, url) in urls(servers) {
        let many = HELD.to_string();
        let (_, few) = load(settings, &url, &["-c", "2", "-d", "1s"])?;
        let (figures, ran) = load(settings, &url, &["-c", many.as_str(), "-d", "2s"])?;
        let errors: f64 = figures["errors"]
            .as_object()
            .map_or(0.0, |map| map.values().filter_map(Value::as_f64).fold(0.0, |sum, count| sum + count));
        let each = (ran.resident - few.resident) as f64 * 1024.0 / f64::from(HELD - 2);
        let mark = if errors == 0.0 && each <= HELD_TARGET { "reached" } else { "**missed**" };
        let _ = writeln!(
            text,
            "| {HELD} on nginx, {transport} | {errors:.0} | {each:.0} B | ≤ {HELD_TARGET:.0} B, no error | {mark} |"
        );
    }
    Ok(text)
}
