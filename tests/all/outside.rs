//! Text of foreign servers, drivers, hosts, records and files reaches terminals, pages and spreadsheets only as text,
//! and passwords reach none of them.

use crate::common;

use std::{
    fs,
    io::{Read, Write},
    os::unix::net::UnixListener,
    path::Path,
    sync::mpsc,
    thread,
};

use common::{Lasthop, Ran, edit, executable, have, lacks, needs};
use lasthop_page::text::is_hidden;

/// Retitles a terminal, clears it, reverses text, forges a line, and is a mention, a reference and a formula.
const HOSTILE: &str = "=PWNED\u{1b}]0;title\u{7}\u{1b}[2J\u{9b}2J\u{202e}\u{200b}\rover\nerror: forged @me #1 <b>";
/// Like [`HOSTILE`], for messages that end at a line break or a byte of more than seven bits.
const IN_A_LINE: &str = "PWNED\x1b]0;title\x07\x1b[2J\rover";

/// Checks that foreign text is shown, but has no effect.
#[track_caller]
fn assert_harmless(ran: &Ran) {
    for text in [&ran.stdout, &ran.stderr] {
        // CSV ends its lines with both.
        let text = text.replace("\r\n", "\n");
        let hidden = text
            .chars()
            .find(|character| is_hidden(*character) && !"\n\t".contains(*character));
        assert_eq!(hidden, None, "{text:?}");
        let forged = |line: &str| line.starts_with("error: forged");
        assert!(!outside_of_code(&text).lines().any(forged), "{text}");
    }
}

/// Markdown without its code blocks.
fn outside_of_code(text: &str) -> String {
    text.split("```").step_by(2).collect()
}

#[track_caller]
fn assert_shown(ran: &Ran) {
    assert!(format!("{}{}", ran.stdout, ran.stderr).contains("PWNED"), "{ran:?}");
    assert_harmless(ran);
}

/// Replies to each piece received. Returns a channel of the pieces.
fn server(path: &Path, answer: impl Fn(&[u8]) -> Vec<u8> + Send + Sync + 'static) -> mpsc::Receiver<Vec<u8>> {
    let listener = UnixListener::bind(path).unwrap();
    let (sender, received) = mpsc::channel();
    let answer = std::sync::Arc::new(answer);
    thread::spawn(move || {
        for connection in listener.incoming() {
            let (mut connection, sender, answer) = (connection.unwrap(), sender.clone(), answer.clone());
            thread::spawn(move || {
                let mut bytes = [0; 4_096];
                while let Ok(length @ 1..) = connection.read(&mut bytes) {
                    let _ = sender.send(bytes[..length].to_vec());
                    if connection.write_all(&answer(&bytes[..length])).is_err() {
                        break;
                    }
                }
            });
        }
    });
    received
}

/// A message of PostgreSQL's protocol.
fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
    [&[kind], &length[..], body].concat()
}

fn is_startup(bytes: &[u8]) -> bool {
    bytes.first() == Some(&0)
}

/// Admits everybody, and replies to each query with a row and a tag of its own.
fn postgres_answer(bytes: &[u8]) -> Vec<u8> {
    let ready = message(b'Z', b"I");
    if is_startup(bytes) {
        return [message(b'R', &[0; 4]), ready].concat();
    }
    let columns = [
        &[0, 1][..],
        b"x\0",
        &[0; 6],
        &25u32.to_be_bytes(),
        &[0xff, 0xff],
        &[0xff; 4],
        &[0; 2],
    ]
    .concat();
    let value = u32::try_from(HOSTILE.len()).unwrap().to_be_bytes();
    let row = [&[0, 1][..], &value, HOSTILE.as_bytes()].concat();
    let tag = format!("SELECT 1 {HOSTILE}\0");
    [
        message(b'T', &columns),
        message(b'D', &row),
        message(b'C', tag.as_bytes()),
        ready,
    ]
    .concat()
}

#[test]
fn what_a_server_says_to_a_load_is_text() {
    let lasthop = Lasthop::new();
    let at = |name: &str| lasthop.home().join(name);
    server(&at("redis"), |_| {
        format!("-ERR {HOSTILE}\r\n").replace("\rover\n", "over ").into_bytes()
    });
    server(&at("http"), |_| {
        format!("HTTP/1.1 500 {IN_A_LINE}\r\nX: y\r\nContent-Length: 0\r\n\r\n").into_bytes()
    });
    server(&at("refuses"), |_| {
        message(b'E', format!("SFATAL\0C28000\0M{HOSTILE}\0\0").as_bytes())
    });
    server(&at(".s.PGSQL.5432"), postgres_answer);
    fs::create_dir(at("refused")).unwrap();
    fs::rename(at("refuses"), at("refused/.s.PGSQL.5432")).unwrap();
    let folder = lasthop.home().display();
    for (url, code, shown) in [
        (format!("redis+unix:{folder}/redis"), 1, true),
        // The reason phrase of the status is not checked.
        (format!("http+unix:{folder}/http:/"), 1, false),
        (format!("postgres:///db?host={folder}/refused&user=me"), 1, true),
        (format!("postgres:///db?host={folder}&user=me"), 0, true),
    ] {
        for format in ["terminal", "json"] {
            let words = [
                "load",
                &url,
                "-d",
                "50ms",
                "--warm-up",
                "1ms",
                "--query",
                "select x",
                "--format",
                format,
            ];
            let query = if url.starts_with("postgres") { 0..10 } else { 0..6 };
            let words = words[query.clone()]
                .iter()
                .chain(words[8..].iter().filter(|_| query.end == 6));
            let ran = lasthop.run(words);
            assert_eq!(ran.code, Some(code), "{url}: {ran:?}");
            if shown {
                assert_shown(&ran)
            } else {
                assert_harmless(&ran)
            }
        }
    }
    // A terminal with colours gets only lasthop's own.
    let url = format!("redis+unix:{folder}/redis");
    let mut coloured = lasthop.command(["load", &url, "-d", "50ms"]);
    let ran = Ran::from(
        coloured
            .env_remove("NO_COLOR")
            .env("CLICOLOR_FORCE", "1")
            .output()
            .unwrap(),
    );
    assert_shown(&ran);
}

/// An experiment whose application is this script, which speaks Redis.
fn experiment(lasthop: &Lasthop, script: &str) {
    lasthop.run(["new", "mine"]).ok();
    let change = |name: &str, from: &str, to: &str| edit(&lasthop.home().join("mine").join(name), from, to);
    change(
        "services/python-app/recipe.toml",
        "check = \"http\"\npath = \"/\"",
        "check = \"connect\"",
    );
    change("experiment.toml", "protocol = \"http\"", "protocol = \"redis\"");
    change(
        "experiment.toml",
        "[load.http]\npath = \"/\"\n",
        "[load.redis]\ncommand = [\"PING\"]\n",
    );
    let expect = "[load.http.expect]\nstatus = 200\nbody = \"Hello there!\"";
    change("experiment.toml", expect, "expect = { simple = \"PONG\" }");
    change("app/server.py", "class Hello(", &format!("{script}\n\n\nclass Unused("));
}

/// Text in the script's Python, with dangerous characters as escapes.
fn python(text: &str) -> String {
    text.chars()
        .map(|character| format!("\\U{:08x}", u32::from(character)))
        .collect()
}

const SHORT: &str = "run ./mine --budget=2s --trial=10ms --blocks=1 --rounds=1";

#[test]
fn what_a_server_says_to_a_run_is_text_in_every_report() {
    needs!(have("python3"));
    let lasthop = Lasthop::new();
    let said = HOSTILE.replace("\rover\n", "over ");
    let script = format!(
        "import sys\nfrom socketserver import BaseRequestHandler\n\n\nclass Hello(BaseRequestHandler):\n    def handle(self):\n        \
         text = '-ERR {}\\r\\n'\n        sys.stderr.write('{}\\n')\n        sys.stderr.flush()\n        \
         while self.request.recv(4096):\n            self.request.sendall(text.encode())",
        python(&said),
        python(HOSTILE)
    );
    experiment(&lasthop, &script);
    let toml = lasthop.home().join("mine/experiment.toml");
    let titled = fs::read_to_string(&toml)
        .unwrap()
        .replace("title = \"mine\"", &format!("title = {}", toml_text()));
    fs::write(&toml, titled).unwrap();
    let ran = lasthop.run(SHORT.split(' ')).fails(1, "PWNED");
    assert!(ran.stderr.contains("warning: "), "{}", ran.stderr);
    assert_shown(&ran);
    for format in ["terminal", "markdown", "csv", "json"] {
        let ran = lasthop.run(["report", "last", "--format", format]).ok();
        assert_harmless(&ran);
        assert_eq!(ran.stdout.contains("PWNED"), format != "csv", "{}", ran.stdout);
        if format == "markdown" {
            let text = outside_of_code(&ran.stdout);
            lacks(&text, ["@me", "#1", "<b>"]);
        }
    }
    // A foreign record may contain any text.
    let header = lasthop.runs()[0].join("run.json");
    let mut record: serde_json::Value = serde_json::from_slice(&fs::read(&header).unwrap()).unwrap();
    record["experiment"]["name"] = HOSTILE.into();
    record["command"][0] = HOSTILE.into();
    fs::write(&header, record.to_string()).unwrap();
    let folder = header.parent().unwrap().to_str().unwrap();
    for format in ["terminal", "markdown", "csv", "json"] {
        let ran = lasthop.run(["report", folder, "--format", format]).ok();
        assert_shown(&ran);
        assert!(
            format != "csv" || ran.stdout.contains("\n'=PWNED") || ran.stdout.contains("\n\"'=PWNED"),
            "{}",
            ran.stdout
        );
    }
    assert_shown(&lasthop.run(["runs"]).ok());
    record[HOSTILE] = 1.into();
    fs::write(&header, record.to_string()).unwrap();
    for words in [vec!["runs"], vec!["report", folder], vec!["show", folder]] {
        assert_harmless(&lasthop.run(words));
    }
}

/// [`HOSTILE`] as a string of TOML.
fn toml_text() -> String {
    let text: String = HOSTILE
        .chars()
        .map(|character| format!("\\U{:08x}", u32::from(character)))
        .collect();
    format!("\"{text}\"")
}

#[test]
fn what_an_experiment_says_is_text() {
    let lasthop = Lasthop::new();
    lasthop.run(["new", "mine"]).ok();
    let (toml, hostile) = (lasthop.home().join("mine/experiment.toml"), toml_text());
    let plain = fs::read_to_string(&toml).unwrap();
    let question = plain.lines().find(|line| line.starts_with("question = ")).unwrap();
    let talking = plain.replace("title = \"mine\"", &format!("title = {hostile}"));
    let talking = talking.replace(question, &format!("question = {hostile}"));
    let talking = talking.replace("\"how clients reach the application\"", &hostile);
    assert_eq!(talking.matches(&hostile).count(), 3);
    fs::write(&toml, &talking).unwrap();
    assert_shown(&lasthop.run(["show", "./mine"]).ok());
    fs::create_dir(lasthop.home().join("experiments")).unwrap();
    fs::rename(lasthop.home().join("mine"), lasthop.home().join("experiments/mine")).unwrap();
    assert_shown(&lasthop.run(["list"]).ok());
    assert_harmless(&lasthop.run(["doctor", "mine"]));
    let toml = lasthop.home().join("experiments/mine/experiment.toml");
    for broken in [
        format!("{hostile} = 1\n{plain}"),
        plain.replace("\"{{ connections }}\"", &hostile),
        plain.replace("levels = [1, 4]", &format!("levels = [{hostile}]")),
        plain.replace("recipe = \"python-app\"", &format!("recipe = {hostile}")),
        plain.replace("title", "title\u{1b}[2J\u{202e}"),
    ] {
        assert_ne!(broken, plain);
        fs::write(&toml, broken).unwrap();
        for words in [vec!["run", "mine"], vec!["show", "mine"]] {
            let ran = lasthop.run(words).fails(2, "error: ");
            assert_harmless(&ran);
        }
        assert_harmless(&lasthop.run(["list"]));
    }
}

#[test]
fn what_a_driver_and_a_host_say_is_text() {
    needs!(have("python3"));
    let lasthop = Lasthop::new();
    lasthop.run(["new", "mine"]).ok();
    let driver = lasthop.home().join("driver.py");
    let text = format!(
        "import json, sys\ntext = '{}'\n\n\ndef say(what):\n    print(json.dumps(what), flush=True)\n\n\n\
         say({{'hello': {{'protocol': PROTOCOL, 'driver': text, 'version': text}}}})\nfor line in sys.stdin:\n    \
         case = next(iter(json.loads(line).values()))['case']\n    \
         say({{'failed': {{'case': case, 'stage': 'verify', 'cause': text}}}})\n",
        python(HOSTILE)
    );
    let toml = lasthop.home().join("mine/experiment.toml");
    let own = fs::read_to_string(&toml).unwrap().replace(
        "[load]\n",
        &format!("[load]\ndriver = [\"python3\", {:?}]\n", driver.display().to_string()),
    );
    fs::write(&toml, own).unwrap();
    for protocol in [lasthop_protocol::wire::VERSION, 99] {
        fs::write(&driver, text.replace("PROTOCOL", &protocol.to_string())).unwrap();
        let ran = lasthop.run(SHORT.split(' '));
        assert_eq!(ran.code, Some(1), "{ran:?}");
        // No other text is taken from a driver that speaks another version of the protocol.
        if protocol == 99 {
            assert_harmless(&ran)
        } else {
            assert_shown(&ran)
        }
    }
    let bin = lasthop.home().join("bin");
    fs::create_dir(&bin).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let hostile = python(HOSTILE).replace("\\U0000000a", "\\U0000000aversion ");
    for script in [
        format!("import sys\nsys.stderr.write('{hostile}')\nsys.exit(255)"),
        format!("import sys\nprint('folder /x\\nversion {hostile}\\nready', flush=True)\nsys.stdin.read()"),
    ] {
        let script = format!("#!/usr/bin/env -S python3 -X utf8\n{script}\n");
        executable(&bin.join("ssh"), &script);
        let ran = lasthop
            .command(["run", "sockets", "--driver-at=ssh:x"])
            .env("PATH", &path)
            .output()
            .unwrap();
        let ran = Ran::from(ran);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert_harmless(&ran);
        assert!(
            ran.stderr.contains("forged") || ran.stderr.contains("PWNED"),
            "{}",
            ran.stderr
        );
    }
}

const SECRET: &str = "s3cret";

#[track_caller]
fn assert_no_secret(ran: &Ran) {
    assert!(!ran.stdout.contains(SECRET) && !ran.stderr.contains(SECRET), "{ran:?}");
}

#[test]
fn a_password_in_a_url_is_not_shown() {
    let lasthop = Lasthop::new();
    let sent = server(&lasthop.home().join("redis"), |_| b"+OK\r\n".to_vec());
    let url = format!("redis+unix:{}/redis?password={SECRET}", lasthop.home().display());
    for format in ["terminal", "json"] {
        let ran = lasthop
            .run(["load", &url, "-d", "10ms", "--command", "PING", "--format", format])
            .ok();
        assert!(ran.stdout.contains("password=***"), "{}", ran.stdout);
        assert_no_secret(&ran);
    }
    assert!(
        String::from_utf8(sent.iter().next().unwrap()).unwrap().contains(SECRET),
        "it was used"
    );
    for (url, shown) in [
        (
            "postgres://me:s3cret@127.0.0.1:1/db",
            "postgres://me:***@127.0.0.1:1/db: ",
        ),
        ("redis://:s3cret@127.0.0.1:1", "redis://:***@127.0.0.1:1: "),
        ("postgres://me:s3cret@127.0.0.1:0/db", "not a port"),
        ("postgres://me:s3cret/db", "not a port"),
    ] {
        for more in [&["--format=terminal"][..], &["--format=json"], &["--method=GET"]] {
            let ran = lasthop.run([&["load", url, "-d", "10ms"], more].concat());
            assert_ne!(ran.code, Some(0));
            assert!(more != ["--format=terminal"] || ran.stderr.contains(shown), "{ran:?}");
            assert_no_secret(&ran);
        }
    }
    // Records contain the command line.
    fs::create_dir(lasthop.home().join("postgres:")).unwrap();
    let output = format!("--output={}/postgres://me:{SECRET}@x", lasthop.home().display());
    lasthop.run([
        "run",
        "sockets",
        "--only=pattern=echo",
        "--budget=1s",
        "--rounds=1",
        "-q",
        &output,
    ]);
    let record = fs::read_to_string(lasthop.runs()[0].join("run.json")).unwrap();
    assert!(record.contains("me:***@x") && !record.contains(SECRET), "{record}");
}

#[test]
fn a_password_may_come_by_the_environment() {
    let lasthop = Lasthop::new();
    let folder = lasthop.home().display().to_string();
    let asks_for_it = |bytes: &[u8]| match is_startup(bytes) {
        // The request for a password in clear text.
        true => message(b'R', &3u32.to_be_bytes()),
        false if bytes.first() == Some(&b'p') => [message(b'R', &[0; 4]), message(b'Z', b"I")].concat(),
        false => postgres_answer(bytes),
    };
    let postgres = server(&lasthop.home().join(".s.PGSQL.5432"), asks_for_it);
    let redis = server(&lasthop.home().join("redis"), |_| b"+OK\r\n".to_vec());
    for (received, variable, words) in [
        (
            postgres,
            "PGPASSWORD",
            vec![
                format!("postgres:///db?host={folder}&user=me"),
                "--query=select x".to_owned(),
            ],
        ),
        (
            redis,
            "REDISCLI_AUTH",
            vec![format!("redis+unix:{folder}/redis"), "--command=PING".to_owned()],
        ),
    ] {
        let mut command = lasthop.command(["load", "-d", "10ms"]);
        let ran = Ran::from(command.args(words).env(variable, SECRET).output().unwrap()).ok();
        assert_no_secret(&ran);
        let sent: Vec<u8> = received.try_iter().flatten().collect();
        assert!(String::from_utf8_lossy(&sent).contains(SECRET), "{variable}");
    }
}
