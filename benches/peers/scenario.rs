//! Scenarios: a server, a transport, connections, and the targets.

use crate::tool::Tool;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    Echo,
    Grpc,
    Http,
    /// nginx, listening for HTTP/2 without TLS.
    Http2,
    Mariadb,
    Memcached,
    /// Echo over two pipes that are handed over through a Unix socket.
    Pipe,
    Postgres,
    Redis,
    /// lasthop's own server on a Unix datagram socket; its port reports the received datagrams.
    Statsd,
    WebSocket,
}

#[derive(Clone, Debug)]
pub struct Scenario {
    pub name: String,
    pub server: Server,
    pub unix: bool,
    pub connections: u32,
    pub pipeline: u32,
    /// Run the client on the server's CPU.
    pub same_core: bool,
    pub tools: Vec<Tool>,
    /// Least ratio of lasthop's requests per CPU second to each tool's.
    pub targets: Vec<(Tool, f64)>,
}

/// Every scenario with a target.
pub fn scenarios() -> Vec<Scenario> {
    let mut all = Vec::new();
    for same_core in [false, true] {
        for unix in [true, false] {
            let place = if same_core { "same core" } else { "two cores" };
            let name = format!("echo 64 B, {}, 1 connection, {place}", transport(unix));
            all.push(Scenario {
                same_core,
                ..scenario(name, Server::Echo, unix, 1, 1, &[(Tool::Floor, 1.0 / 1.03)])
            });
        }
        let name = format!(
            "echo 64 B, pipe, 1 connection, {}",
            if same_core { "same core" } else { "two cores" }
        );
        all.push(Scenario {
            same_core,
            ..scenario(name, Server::Pipe, true, 1, 1, &[(Tool::Floor, 1.0 / 1.03)])
        });
    }
    for unix in [true, false] {
        for connections in [1, 10, 100] {
            let name = format!("HTTP, {}, {}", transport(unix), count(connections));
            let targets: &[(Tool, f64)] = match (unix, connections) {
                (false, 1) => &[(Tool::Floor, 0.95), (Tool::Wrk, 1.4)],
                (false, _) => &[(Tool::Floor, 0.95), (Tool::Wrk, 1.1)],
                (true, _) => &[(Tool::Floor, 0.95), (Tool::H2load, 1.35), (Tool::Oha, 1.0)],
            };
            if connections == 1 {
                let name = format!("{name}, same core");
                all.push(Scenario {
                    same_core: true,
                    ..scenario(name, Server::Http, unix, 1, 1, targets)
                });
            }
            all.push(scenario(name, Server::Http, unix, connections, 1, targets));
        }
    }
    for unix in [true, false] {
        for connections in [1, 10] {
            let name = format!("PostgreSQL select 1, {}, {}", transport(unix), count(connections));
            let targets = [(Tool::Floor, 0.95), (Tool::Pgbench, 1.05)];
            all.push(scenario(name, Server::Postgres, unix, connections, 1, &targets));
        }
    }
    for unix in [true, false] {
        for connections in [1, 10] {
            let name = format!("MariaDB select 1, {}, {}", transport(unix), count(connections));
            let targets = [(Tool::Floor, 0.95), (Tool::Mysqlslap, 1.05)];
            all.push(scenario(name, Server::Mariadb, unix, connections, 1, &targets));
        }
    }
    let name = "StatsD, one metric in a datagram, unixgram, 1 sender".to_owned();
    all.push(scenario(name, Server::Statsd, true, 1, 1, &[(Tool::Floor, 0.9)]));
    for unix in [true, false] {
        for (connections, pipeline) in [(1, 1), (50, 1), (1, 16), (50, 16)] {
            let depth = if pipeline > 1 {
                format!(", pipeline {pipeline}")
            } else {
                String::new()
            };
            let name = format!("Redis GET, {}, {}{depth}", transport(unix), count(connections));
            let least = if unix && connections == 50 && pipeline == 1 {
                2.0
            } else {
                1.3
            };
            let targets = [(Tool::Floor, 0.95), (Tool::RedisBenchmark, least)];
            if (connections, pipeline) == (1, 1) {
                let name = format!("{name}, same core");
                all.push(Scenario {
                    same_core: true,
                    ..scenario(name, Server::Redis, unix, 1, 1, &targets)
                });
            }
            all.push(scenario(name, Server::Redis, unix, connections, pipeline, &targets));
        }
    }
    for unix in [true, false] {
        for connections in [1, 50] {
            let name = format!("memcached get, {}, {}", transport(unix), count(connections));
            // memcaslap cannot use a path.
            let targets = [(Tool::Floor, 0.95), (Tool::Memcaslap, 1.0)];
            all.push(scenario(
                name,
                Server::Memcached,
                unix,
                connections,
                1,
                &targets[..2 - usize::from(unix)],
            ));
        }
    }
    for unix in [true, false] {
        for connections in [1, 10] {
            let name = format!("gRPC 64 B, {}, {}", transport(unix), count(connections));
            all.push(scenario(
                name,
                Server::Grpc,
                unix,
                connections,
                1,
                &[(Tool::H2load, 1.0), (Tool::Ghz, 1.0)],
            ));
        }
    }
    for unix in [true, false] {
        for connections in [1, 10] {
            let place = format!("{}, {}", transport(unix), count(connections));
            let name = format!("HTTP/2, {place}");
            all.push(scenario(
                name,
                Server::Http2,
                unix,
                connections,
                1,
                &[(Tool::H2load, 1.0)],
            ));
            let name = format!("WebSocket 64 B, {place}");
            let targets = [(Tool::GoWebSocket, 1.0)];
            all.push(scenario(name, Server::WebSocket, unix, connections, 1, &targets));
        }
    }
    all
}

/// Scenarios in which io_uring could pay: few and many connections, over each transport, on the cheapest server and on
/// a real one.
pub fn ring_scenarios() -> Vec<Scenario> {
    let mut all = Vec::new();
    for (server, what) in [(Server::Echo, "echo 64 B"), (Server::Http, "HTTP")] {
        for unix in [true, false] {
            for connections in [1, 10, 100] {
                let name = format!("{what}, {}, {}", transport(unix), count(connections));
                let tools = vec![Tool::Floor, Tool::Uring];
                all.push(Scenario {
                    tools,
                    ..scenario(name, server, unix, connections, 1, &[])
                });
            }
        }
    }
    all
}

fn scenario(
    name: String,
    server: Server,
    unix: bool,
    connections: u32,
    pipeline: u32,
    targets: &[(Tool, f64)],
) -> Scenario {
    let tools = std::iter::once(Tool::Lasthop)
        .chain(targets.iter().map(|(tool, _)| *tool))
        .collect();
    Scenario {
        name,
        server,
        unix,
        connections,
        pipeline,
        same_core: false,
        tools,
        targets: targets.to_vec(),
    }
}

fn transport(unix: bool) -> &'static str {
    if unix { "unix" } else { "tcp" }
}

fn count(connections: u32) -> String {
    if connections == 1 {
        "1 connection".to_owned()
    } else {
        format!("{connections} connections")
    }
}
