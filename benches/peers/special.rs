//! Many held connections, and `lasthop load` by itself.

use std::{fmt::Write as _, process::Command};

use serde_json::Value;

use crate::{Settings, scenario::Server, server::Servers, tool};

const HELD: u32 = 10_000;
/// Most bytes of a held connection.
const HELD_TARGET: f64 = 4096.0;

pub fn load(settings: &Settings, url: &str, options: &[&str]) -> Result<(Value, tool::Ran), String> {
    let mut command = Command::new(&settings.lasthop);
    command.args(["load", url, "--format", "json"]).args(options);
    let ran = tool::run(&mut command, 1)?;
    // It fails where a rate was not reached; there are figures all the same.
    match serde_json::from_str(&ran.output) {
        Ok(figures) => Ok((figures, ran)),
        Err(error) => Err(ran.ended.err().unwrap_or_else(|| error.to_string())),
    }
}

/// The median service time of an echo of 64 B over one connection, by a client on this CPU.
pub fn median_us(settings: &Settings, url: &str, cpu: usize) -> Result<f64, String> {
    let mut command = Command::new(&settings.lasthop);
    command.args(["load", url, "--size", "64", "-d", "1s", "--warm-up", "50ms", "--format", "json"]);
    let ran = tool::run(&mut command, cpu)?;
    ran.ended?;
    let figures: Value = serde_json::from_str(&ran.output).map_err(|error| error.to_string())?;
    figures["latency_ns"]["p50"].as_f64().map(|ns| ns / 1e3).ok_or_else(|| "no median".to_owned())
}

pub fn echo_url(servers: &Servers) -> String {
    format!("echo://127.0.0.1:{}", servers.port(Server::Echo))
}

pub fn urls(servers: &Servers) -> [(&'static str, String); 2] {
    let socket = servers.socket(Server::Http);
    [
        ("unix", format!("http+unix:{}:/", socket.display())),
        ("tcp", format!("http://127.0.0.1:{}/", servers.port(Server::Http))),
    ]
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
