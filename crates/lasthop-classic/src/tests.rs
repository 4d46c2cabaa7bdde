//! The command line of every tool in a case, the parsing of its real outputs, and the names in its file.

use std::{
    collections::{BTreeSet, HashSet},
    fmt::Write as _,
    fs,
    path::Path,
};

use lasthop_protocol::{
    kind,
    spec::Spec,
    url::{UrlOptions, parse},
};
use regex::Regex;
use serde_json::{Value, json};

use super::{Order, Reading, TOOLS, Tool, output::unit, template::ENVIRONMENT};

/// A case by its URL, with changes to its specification.
pub fn spec(url: &str, special: &Value) -> Spec {
    fn merge(into: &mut Value, from: &Value) {
        match from {
            Value::Object(from) if into.is_object() => {
                from.iter().for_each(|(key, value)| merge(&mut into[key], value))
            }
            _ => *into = from.clone(),
        }
    }
    let (endpoint, protocol) = parse(url, &UrlOptions::default()).unwrap();
    let mut spec = serde_json::to_value(Spec::new(endpoint, protocol)).unwrap();
    merge(&mut spec, special);
    serde_json::from_value(spec).unwrap()
}

/// An order for three requests or two seconds of a case.
fn ordered<T>(spec: &Spec, flags: &str, test: impl FnOnce(&Order<'_>) -> T) -> T {
    let scratch = tempfile::tempdir().unwrap();
    test(&Order {
        spec,
        seconds: 2,
        count: 3,
        flags: &shlex::split(flags).unwrap(),
        scratch: scratch.path(),
    })
}

/// The command line of a tool, its environment, its number of runs, and its files.
fn described(tool: &Tool, order: &Order<'_>) -> String {
    let arguments = match tool.arguments(order) {
        Ok(arguments) => arguments,
        Err(why) => return format!("  {why}\n"),
    };
    let mut text = format!("  {}", tool.name);
    for argument in &arguments {
        write!(text, " {}", shlex::try_quote(argument).unwrap()).unwrap();
    }
    text = text.replace(order.scratch.to_str().unwrap(), "FOLDER") + "\n";
    let environment = tool.environment(order).unwrap();
    let (runs, shown) = (tool.runs(order).unwrap(), tool.shows_password(order.spec));
    if (environment.len(), runs, shown) != (0, 1, false) {
        writeln!(text, "    {environment:?}, {runs} runs, shows password: {shown}").unwrap();
    }
    let files = fs::read_dir(order.scratch).unwrap().map(|file| file.unwrap().path());
    for file in files.collect::<BTreeSet<_>>() {
        let content = String::from_utf8(fs::read(&file).unwrap()).unwrap();
        writeln!(text, "    {}: {content:?}", file.file_name().unwrap().display()).unwrap();
    }
    text
}

#[test]
fn command_lines() {
    let mut text = String::new();
    for case in include_str!("cases.jsonl").lines() {
        let (url, flags, special): (String, String, Value) = serde_json::from_str(case).unwrap();
        writeln!(text, "{case}").unwrap();
        let spec = spec(&url, &special);
        for tool in TOOLS.iter().filter(|tool| tool.speaks(&spec.protocol)) {
            text += &ordered(&spec, &flags, |order| described(tool, order));
        }
    }
    insta::assert_snapshot!(text);
}

/// The output in a file whose name begins with that of a tool.
fn printed(file: &str) -> String {
    fs::read_to_string(Path::new(OUTPUTS).join(file)).unwrap()
}

/// Parses the output in a tool's file, with two connections; gRPC calls have 71 bytes.
fn read(file: &str, output: &str) -> Result<Reading, String> {
    let tool = TOOLS.iter().find(|tool| file.starts_with(tool.name)).unwrap();
    let (url, special) = match tool.speaks[0].as_str() {
        _ if file.contains("grpc") => (
            "grpc://127.0.0.1:1/a.B/C",
            json!({"grpc": {"size": 64, "expect": "echo"}}),
        ),
        "http" => ("http://127.0.0.1:1/", json!({})),
        "mysql" => ("mysql://u@127.0.0.1/d", json!({})),
        "postgres" => ("postgres://u@127.0.0.1/d", json!({})),
        _ => ("redis://127.0.0.1:1", json!({})),
    };
    let spec = spec(url, &json!({"connections": 2, "protocol": special}));
    ordered(&spec, "", |order| tool.read(output, order, 3_000_000))
}

const OUTPUTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/outputs");

/// Outputs against nginx 1.22.1: ab 2.3, h2load of nghttp2 1.52.0, httperf 0.9.0, wrk 4.1.0. Against grpcio 1.85.1:
/// calls, also of a method that does not exist. pgbench 15.18, sysbench 1.0.20, redis-benchmark 7.0.15.
#[test]
fn real_outputs() {
    let files = fs::read_dir(OUTPUTS)
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut text = String::new();
    for file in files.collect::<BTreeSet<_>>() {
        writeln!(text, "{file} {:?}", read(&file, &printed(&file)).unwrap()).unwrap();
    }
    insta::assert_snapshot!(text);
}

#[test]
fn another_output_is_no_result() {
    for [file, from, to, wanted] in [
        [
            "ab.txt",
            "Failed",
            "Faulty",
            "unknown line: `Faulty requests:        0`",
        ],
        [
            "h2load.txt",
            "http/1.1",
            "h2",
            "unknown line: `Application protocol: h2`",
        ],
        [
            "h2load-grpc.txt",
            "h2c",
            "http/1.1",
            "unknown line: `Application protocol: http/1.1`",
        ],
        [
            "httperf.txt",
            "CPU",
            "*** buffer overflow detected ***",
            "unknown line: `*** buffer",
        ],
        [
            "pgbench.txt",
            "tps",
            "pgbench: error: client 0 aborted",
            "unknown line: `pgbench: error",
        ],
        [
            "psql.txt",
            "",
            "psql:x.sql:1: ERROR:  division by zero",
            "division by zero",
        ],
        ["redis-benchmark.txt", "\"test\"", "Error from server: NOAUTH", "NOAUTH"],
        [
            "sysbench.txt",
            "SQL",
            "FATAL: error 1049: Unknown database",
            "Unknown database",
        ],
        ["wrk.txt", "Requests/sec:  58650.74\n", "", "its output lacks `rate`"],
        [
            "wrk.txt",
            "58650.74",
            "58650.7.4",
            "`rate * correct / [requests, 1] | max` is not a number",
        ],
    ] {
        let error = read(file, &printed(file).replace(from, to)).unwrap_err();
        assert!(error.contains(wanted), "{file}: {error}");
    }
    let doubt = "ERROR: The median and mean for the initial connection time are more than twice the standard\n       \
                 deviation apart. These results are NOT reliable.\nPercentage of";
    let doubted = printed("ab.txt").replace("Percentage of", doubt);
    assert_eq!(read("ab.txt", &doubted), read("ab.txt", &printed("ab.txt")));
}

#[test]
fn files_name_only_what_there_is() {
    let figures = [
        "rate",
        "bytes",
        "connections",
        "mean",
        "deviation",
        "median",
        "p99",
        "max",
        "resolution",
    ];
    let spec = spec("http://127.0.0.1:1/", &json!({}));
    let case: BTreeSet<String> = ordered(&spec, "", |order| order.names().into_keys().collect());
    let group = Regex::new(r"\(\?P<(\w+)>").unwrap();
    for tool in TOOLS.iter() {
        let Tool {
            name, output, result, ..
        } = tool;
        assert!(tool.speaks.iter().all(|name| kind(name).is_some()), "{name}");
        assert!(output.unit.as_deref().is_none_or(|name| unit(name).is_some()), "{name}");
        let groups = output.lines.iter().flat_map(|line| group.captures_iter(line));
        let groups: BTreeSet<String> = groups.map(|group| group[1].to_owned()).collect();
        assert!(output.may_lack.iter().all(|group| groups.contains(group)), "{name}");
        assert!(groups.contains("rate") || result.figures.contains_key("rate"), "{name}");
        assert!(
            result.figures.keys().all(|figure| figures.contains(&figure.as_str())),
            "{name}"
        );
        let mut known: BTreeSet<String> = case.iter().chain(&tool.speaks).cloned().collect();
        let check = |text: &str, used: Result<HashSet<String>, minijinja::Error>, known: &BTreeSet<String>| {
            assert!(used.unwrap().iter().all(|name| known.contains(name)), "{name}: {text}");
        };
        let what = tool.cannot.iter().map(|limit| &limit.what);
        let templates = what.chain(tool.environment.values()).chain(tool.files.values());
        for text in templates.chain(&output.lines).chain([&tool.arguments]) {
            let template = ENVIRONMENT.template_from_str(text);
            check(text, template.map(|read| read.undeclared_variables(false)), &known);
        }
        known.extend(groups.into_iter().chain(["correct", "elapsed"].map(str::to_owned)));
        let when = tool.cannot.iter().map(|limit| &limit.when);
        let counts = result.errors.iter().map(|error| &error.count);
        let expressions = when.chain(&tool.runs).chain(counts).chain([&result.correct]);
        for text in expressions.chain(result.figures.values()) {
            let expression = ENVIRONMENT.compile_expression(text);
            check(text, expression.map(|read| read.undeclared_variables(false)), &known);
        }
    }
}
