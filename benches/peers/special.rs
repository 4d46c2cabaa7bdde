//! Many held connections, and runs of `lasthop load` alone.

use serde_json::Value;

use crate::{Settings, page::Held, scenario::Server, server::Servers, tool};

const HELD: u32 = 10_000;

pub fn load(settings: &Settings, url: &str, options: &[&str]) -> Result<(Value, tool::Ran), String> {
    let mut command = tool::command(&settings.lasthop, &format!("load {url} --format json"));
    let ran = tool::run(command.args(options), 1)?;
    // `lasthop load` fails if the rate was not reached, but still prints figures.
    match serde_json::from_str(&ran.output) {
        Ok(figures) => Ok((figures, ran)),
        Err(error) => Err(ran.ended.err().unwrap_or_else(|| error.to_string())),
    }
}

/// The median service time of an echo of 64 B over one connection, by a client on this CPU.
pub fn median_us(settings: &Settings, url: &str, cpu: usize) -> Result<f64, String> {
    let line = format!("load {url} --size 64 -d 1s --warm-up 50ms --format json");
    let ran = tool::run(&mut tool::command(&settings.lasthop, &line), cpu)?;
    ran.ended?;
    let figures: Value = serde_json::from_str(&ran.output).map_err(|error| error.to_string())?;
    figures["latency_ns"]["p50"]
        .as_f64()
        .map(|ns| ns / 1e3)
        .ok_or_else(|| "no median".to_owned())
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

/// Ten thousand connections in one process: bytes per connection, and failures.
pub fn held(settings: &Settings, servers: &Servers) -> Result<Vec<Held>, String> {
    let mut rows = Vec::new();
    for (transport, url) in urls(servers) {
        let many = HELD.to_string();
        let (_, few) = load(settings, &url, &["-c", "2", "-d", "1s"])?;
        let (figures, ran) = load(settings, &url, &["-c", many.as_str(), "-d", "2s"])?;
        let errors = figures["errors"]
            .as_object()
            .map_or(0, |map| map.values().filter_map(Value::as_u64).sum());
        let bytes = (ran.resident - few.resident) as f64 * 1024.0 / f64::from(HELD - 2);
        rows.push(Held {
            transport: transport.to_owned(),
            connections: HELD,
            errors,
            bytes,
        });
    }
    Ok(rows)
}
