//! Examples on pages run, and print what the pages show.

use std::{net::TcpStream, path::Path, process::Command};

use crate::{
    common::{Lasthop, have, needs},
    compare::Nginx,
    formats::execute,
    load_peers::{Server, free_port},
    your_own_stack::{fenced, replay},
};

#[test]
fn the_examples_of_your_own_print_what_readme_shows() {
    needs!(have("nginx"), have("openssl"));
    let readme = include_str!("../../README.md");
    let (_, own) = readme.split_once("\n## Your own\n").unwrap();
    let (own, _) = own.split_once("\n## ").unwrap();
    // A survey says what this machine does meanwhile.
    let examples = fenced(own)
        .into_iter()
        .filter(|block| !block.text.contains("lasthop survey"));
    let page: String = examples
        .map(|block| format!("```{}\n{}```\n", block.language, block.text))
        .collect();
    let nginx = Nginx::start();
    let page = page
        .replace("http://127.0.0.1:8000", &nginx.tcp(""))
        .replace("/run/app.sock", &nginx.socket().display().to_string());
    let lasthop = Lasthop::new();
    assert_eq!(replay(&page, &lasthop), 4, "commands");
}

#[test]
fn the_lines_of_the_page_of_surveys_run() {
    needs!(have("jq"));
    let page = include_str!("../../docs/survey.md");
    let lasthop = Lasthop::new();
    let lines: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("$ sudo ")).collect();
    assert_eq!(lines.len(), 2);
    for line in lines {
        let line = line.replace("--for 1m --only nginx", "");
        let line = line.replace("lasthop survey", "lasthop survey --for 1s");
        let output = execute(&lasthop, "bash", &["-o", "pipefail", "-c", &line]);
        assert!(output.status.success(), "$ {line}\n{output:?}");
    }
}

/// Timers never end early, so these latencies are the least, and these rates the most.
#[test]
fn servers_of_known_latencies_show_them() {
    needs!(have("node"));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/methodology/slow.js");
    for (case, connections, p50_ms, most_per_second) in
        [("one-worker", "10", 200.0, 50.0), ("four-workers", "16", 400.0, 40.0)]
    {
        let lasthop = Lasthop::new();
        let port = free_port();
        let socket = lasthop.home().join("slow.sock");
        let mut node = Command::new("node");
        node.arg(&script).args([case, &port.to_string()]).arg(&socket);
        let server = Server::start(&mut node, || {
            TcpStream::connect(("127.0.0.1", port)).is_ok() && socket.exists()
        });
        let url = format!("http://127.0.0.1:{port}/");
        let load = format!("load {url} -c {connections} -d 3s --warm-up 1s --format json");
        let figures = lasthop.run(load.split(' ')).ok().json();
        let found = figures["latency_ns"]["p50"].as_f64().unwrap() / 1e6;
        let rate = figures["throughput"].as_f64().unwrap();
        // A reply that was due just before the measured time counts in it.
        assert!(
            found > p50_ms * 0.95 && rate < most_per_second * 1.1,
            "{case}: {found} ms, {rate}/s"
        );
        drop(server);
    }
}
