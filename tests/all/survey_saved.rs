//! What becomes of a survey: its record, the report of it, what changed from one to another, and runs that it asks for.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Child, Command},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;
use tempfile::TempDir;

use crate::{
    common::{Lasthop, Ran, have, signal},
    compare::folder,
    load_peers::{Server, free_port},
    page::{have_web, node},
};

/// A Redis that listens on both.
struct Redis {
    port: u16,
    folder: TempDir,
    server: Server,
}

impl Redis {
    fn start() -> Self {
        let (port, folder) = (free_port(), folder());
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--save", "", "--port", &port.to_string()]);
        command.arg("--dir").arg(folder.path());
        command.arg("--unixsocket").arg(folder.path().join("redis.sock"));
        let is_ready = || TcpStream::connect(("127.0.0.1", port)).is_ok();
        Self {
            port,
            server: Server::start(&mut command, is_ready),
            folder,
        }
    }

    fn tcp(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    fn unix(&self) -> String {
        format!("redis+unix:{}", self.socket().display())
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("redis.sock")
    }

    /// Commands that it has answered, asked where nobody looks who watches the connections of a URL.
    fn answered(&self, watched: &str) -> u64 {
        if watched == self.unix() {
            commands(TcpStream::connect(("127.0.0.1", self.port)).unwrap())
        } else {
            commands(UnixStream::connect(self.socket()).unwrap())
        }
    }
}

/// Waits until a driver is at work: a server has answered so many requests more. The connections by which the driver tries
/// the server have ended by then.
pub fn is_loaded(answered: impl Fn() -> u64, requests: u64) {
    let (before, deadline) = (answered(), Instant::now() + Duration::from_secs(60));
    while answered() < before + requests {
        assert!(Instant::now() < deadline, "nobody loads the server");
        thread::sleep(Duration::from_millis(50));
    }
}

/// Commands that a Redis has answered, this one included.
pub fn commands(mut connection: impl Read + Write) -> u64 {
    connection.write_all(b"INFO stats\r\nQUIT\r\n").unwrap();
    let mut reply = String::new();
    connection.read_to_string(&mut reply).unwrap();
    let (_, rest) = reply.split_once("total_commands_processed:").unwrap();
    rest.lines().next().unwrap().parse().unwrap()
}

/// What a survey says while a driver loads a URL at a rate.
fn surveyed(lasthop: &Lasthop, redis: &Redis, url: &str, only: &str, options: &[&str]) -> Ran {
    let fixed = ["--command", "PING", "-c", "4", "--rate", "5000", "-d", "5m", "--quiet"];
    let driver: Child = lasthop.start([&["load", url], &fixed[..]].concat());
    is_loaded(|| redis.answered(url), 2_000);
    let survey = ["survey", "--for", "2s", "--quiet", "--only", only];
    let ran = lasthop.run([&survey[..], options].concat());
    signal(&driver, libc::SIGINT);
    Server(driver);
    ran
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// The prediction is that of a run here; the change is that of the driver.
#[test]
fn a_change_is_held_against_what_was_predicted() {
    if !have("redis-server") {
        return;
    }
    let (redis, lasthop) = (Redis::start(), Lasthop::new());
    lasthop.brief("redis", &["--set", "pipeline=1", "--set", "transport=unix,tcp"]);
    let file = |name: &str| -> PathBuf { lasthop.home().join(name) };
    let survey = |name: &str, url: &str, only: &str| {
        let path = file(name);
        surveyed(
            &lasthop,
            &redis,
            url,
            only,
            &["--format", "json", "-o", path.to_str().unwrap()],
        )
        .ok();
        json(&path)
    };
    let before = survey("before.json", &redis.tcp(), &format!(":{}", redis.port));
    let after = survey("after.json", &redis.unix(), redis.folder.path().to_str().unwrap());
    let [old, new] = [&before, &after].map(|survey| {
        assert_eq!(survey["links"].as_array().unwrap().len(), 1, "{survey:#}");
        &survey["links"][0]
    });
    assert_eq!((&old["transport"], &new["transport"]), (&"tcp".into(), &"unix".into()));
    let both = format!("lasthop compare '{}' '{}'", redis.tcp(), redis.unix());
    assert_eq!(old["outlook"]["compare"], both, "{old:#}");

    let report = |format: &str| lasthop.run(["report", "before.json", "--format", format]).ok().stdout;
    assert_eq!(report("json"), fs::read_to_string(file("before.json")).unwrap());
    assert!(
        report("terminal").contains("lasthop → redis-server"),
        "{}",
        report("terminal")
    );
    assert!(report("markdown").contains("lasthop compare"), "{}", report("markdown"));
    assert!(report("csv").contains("lasthop,,redis-server,"), "{}", report("csv"));
    fs::write(file("before.html"), report("html")).unwrap();
    if have_web() {
        node(&["test.mjs", "text", file("before.html").to_str().unwrap()]);
    }

    let diff = |format: &str| {
        lasthop
            .run(["diff", "before.json", "after.json", "--format", format])
            .ok()
    };
    let changed = diff("json").json();
    assert_eq!(changed["schema"], "lasthop-survey-diff/1");
    let link = &changed["links"][0];
    assert_eq!(link["name"], "lasthop → redis-server", "{changed:#}");
    let rate = link["before"]["requests_per_second"].as_f64().unwrap();
    assert!((4_500.0..5_500.0).contains(&rate), "{rate}");
    let moved = &link["moved"];
    let [low, high] = ["low", "high"].map(|end| moved["predicted"]["cpu_us"][end].as_f64().unwrap());
    let saved = moved["saved"]["cpu_us"].as_f64().unwrap();
    let promise = match saved {
        saved if saved < low => "less",
        saved if saved > high => "more",
        _ => "kept",
    };
    assert_eq!(
        (&moved["promise"], &moved["saved"]["same_rate"]),
        (&promise.into(), &true.into())
    );
    let told = diff("terminal").stdout;
    assert!(
        told.contains("were predicted") && told.contains("µs were saved"),
        "{told}"
    );
}

#[test]
fn what_is_no_survey_is_said() {
    let lasthop = Lasthop::new();
    fs::write(lasthop.home().join("other.json"), r#"{"schema": "lasthop-diff/1"}"#).unwrap();
    let survey = [
        "survey", "--for", "100ms", "--quiet", "--format", "json", "-o", "one.json",
    ];
    lasthop.run(survey).ok();
    for (arguments, code, text) in [
        (&["report", "other.json"][..], 1, "other.json: it is `lasthop-diff/1`"),
        (&["report", "one.json", "one.json"], 2, "report each survey by itself"),
        (
            &["report", "one.json", "--format", "svg"],
            2,
            "a survey has no such format",
        ),
        (
            &["report", "one.json", "--fail-if", "unix slower > 5%"],
            2,
            "has limits of its own",
        ),
        (
            &["diff", "one.json"],
            2,
            "one.json is a file, which can only be a survey",
        ),
        (
            &["diff", "one.json", "one.json", "--format", "csv"],
            2,
            "has no such format",
        ),
        (&["survey", "--budget", "5s"], 2, "--measure"),
    ] {
        lasthop.run(arguments).fails(code, text);
    }
    lasthop.run(["diff", "one.json", "one.json"]).ok();
}

/// The run starts a server of its own, and leaves alone what it surveys.
#[test]
fn what_is_not_known_is_measured() {
    if !have("redis-server") {
        return;
    }
    let (mut redis, lasthop) = (Redis::start(), Lasthop::new());
    let only = format!(":{}", redis.port);
    let options = ["--format", "json", "--measure", "--budget", "15s"];
    let ran = surveyed(&lasthop, &redis, &redis.tcp(), &only, &options);
    assert!(
        ran.stderr
            .contains("they share the CPUs with what runs: redis (redis; 15s)"),
        "{}",
        ran.stderr
    );
    assert_eq!(lasthop.runs().len(), 1, "{}", ran.stderr);
    // A busy machine may have no result in that time, and says so.
    let measured = !ran.stderr.contains("redis has no result");
    assert_eq!(ran.code, Some(i32::from(!measured)), "{}", ran.stderr);
    let outlook = &ran.json()["links"][0]["outlook"];
    if measured {
        assert_eq!(outlook["saving"]["here"], true, "{outlook:#}");
        let again = surveyed(&lasthop, &redis, &redis.tcp(), &only, &options).ok();
        assert!(
            again.stderr.contains("there is no experiment to run"),
            "{}",
            again.stderr
        );
    }
    assert!(
        redis.server.0.try_wait().unwrap().is_none(),
        "the server that was surveyed has ended"
    );
    lasthop.assert_nothing_left();
}
