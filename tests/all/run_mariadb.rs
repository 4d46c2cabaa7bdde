//! The real MariaDB over a Unix socket, TCP and TLS, with every way to authenticate; and endpoints that lasthop did not start.

use crate::{
    common,
    load_peers::{Server, free_port},
};

use std::{
    fs,
    os::unix::{fs::chown, net::UnixStream, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use common::{BRIEF, Lasthop, NOBODY, have, is_right};
use rustix::process::geteuid;
use serde_json::Value;
use tempfile::TempDir;

#[test]
fn queries_connections_and_rows_over_every_transport() {
    if !have("mariadbd") {
        return;
    }
    let lasthop = Lasthop::new();
    let set = [
        "--set",
        "auth=none",
        "--set",
        "rows=5000,10000",
        "--set",
        "queries=50,100",
        "--set",
        "mode=as-text,prepared-once",
    ];
    let summary = lasthop.brief("mariadb", &set);
    is_right(&summary, 21);
    for case in summary["cases"].as_array().unwrap() {
        let tls = case["transport"] == "tls";
        assert_eq!(
            case["proof"]["tls_version"].as_str(),
            tls.then_some("TLSv1.3"),
            "{case}"
        );
        let kept = case["levels"]["work"] != "connect" && case["levels"]["work"] != "queries";
        assert_eq!(case["proof"]["reused"], kept, "{case}");
        assert!(
            case["metrics"]["cpu_per_request"]["roles"]["mariadb"].as_f64().unwrap() > 0.0,
            "{case}"
        );
    }
    lasthop.assert_nothing_left();
}

#[test]
fn every_way_to_authenticate() {
    if !have("mariadbd") {
        return;
    }
    let lasthop = Lasthop::new();
    let all = ["--only", "work=connect", "--only", "auth=none,native-password,ed25519"];
    let summary = lasthop.brief("mariadb", &all);
    is_right(&summary, 9);
    let derived = summary["derived"].as_array().unwrap();
    let authentication = derived
        .iter()
        .filter(|derived| derived["quantity"] == "authentication")
        .count();
    assert_eq!(
        authentication, 6,
        "every way but none, over each transport: {derived:?}"
    );
    // A report says who lets anybody in, and nobody else.
    let open = summary["checks"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|check| check["id"] == "open-to-everybody");
    let mut open: Vec<&str> = open.map(|check| check["case"].as_str().unwrap()).collect();
    open.sort_unstable();
    assert_eq!(open.len(), 2, "{open:?}");
    assert!(
        open.iter()
            .all(|case| case.contains("auth=none") && !case.contains("unix")),
        "{open:?}"
    );
    lasthop.assert_nothing_left();
}

#[test]
fn a_wrong_password_fails_and_the_rest_goes_on() {
    if !have("mariadbd") {
        return;
    }
    let lasthop = Lasthop::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("experiments/mariadb");
    let text = fs::read_to_string(folder.join("experiment.toml")).unwrap();
    let (old, copy) = ("else secret }}", lasthop.home().join("changed"));
    assert!(text.contains(old));
    fs::create_dir(&copy).unwrap();
    fs::write(copy.join("experiment.toml"), text.replace(old, "else 'wrong' }}")).unwrap();
    let choices = [
        "run",
        "./changed",
        "--only",
        "work=connect",
        "--only",
        "transport=unix,tcp",
    ];
    let summary = lasthop.run(choices.iter().chain(&BRIEF)).json();
    let failures = summary["failures"].as_array().unwrap();
    assert!(!failures.is_empty());
    for failure in failures {
        assert!(
            failure["case"].as_str().unwrap().contains("native-password"),
            "{failure}"
        );
        let cause = failure["cause"].as_str().unwrap();
        assert!(
            cause.contains("error 1045, SQLSTATE 28000: Access denied for user 'lasthop'"),
            "{cause}"
        );
    }
    let trials = |case: &Value| case["trials"].as_u64().unwrap();
    let cases = summary["cases"].as_array().unwrap().iter();
    assert!(
        cases
            .filter(|case| case["levels"]["auth"] == "none")
            .all(|case| trials(case) > 0),
        "{summary}"
    );
    lasthop.assert_nothing_left();
}

/// MariaDB of another user where this one is root, whom it refuses.
struct Mariadb {
    folder: TempDir,
    port: u16,
    _server: Server,
}

impl Mariadb {
    fn start() -> Self {
        let folder = tempfile::Builder::new().prefix("lhm").tempdir_in("/tmp").unwrap();
        let (data, port) = (folder.path().join("data"), free_port());
        fs::create_dir(&data).unwrap();
        if geteuid().is_root() {
            for path in [folder.path(), &data] {
                chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
            }
        }
        let mut init = command("mariadb-install-db", folder.path());
        init.args(["--skip-test-db", "--skip-name-resolve", "--innodb-log-file-size=4M"]);
        let made = init
            .arg(format!("--datadir={}", data.display()))
            .stdout(Stdio::null())
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let accounts = "CREATE DATABASE numbers;\nCREATE USER me@'%' IDENTIFIED BY 'secret';\nGRANT SELECT ON numbers.* TO me@'%';\n";
        fs::write(folder.path().join("accounts.sql"), accounts).unwrap();
        let mut server = command("mariadbd", folder.path());
        server.args([
            "--bind-address=127.0.0.1",
            "--skip-name-resolve",
            "--innodb-use-native-aio=OFF",
        ]);
        server.arg("--innodb-log-file-size=4M").arg(format!("--port={port}"));
        for (option, name) in [
            ("datadir", "data"),
            ("socket", "s"),
            ("init-file", "accounts.sql"),
            ("pid-file", "pid"),
        ] {
            server.arg(format!("--{option}={}", folder.path().join(name).display()));
        }
        let socket = folder.path().join("s");
        let server = Server::start(&mut server, || UnixStream::connect(&socket).is_ok());
        Self {
            folder,
            port,
            _server: server,
        }
    }

    fn by_socket(&self, parameters: &str) -> String {
        format!("mysql+unix:{}?{parameters}", self.folder.path().join("s").display())
    }
}

/// A program of MariaDB, as its user.
fn command(program: &str, folder: &Path) -> Command {
    let path = ["/usr/sbin", "/usr/bin"].map(|place| PathBuf::from(place).join(program));
    let mut command = Command::new(path.iter().find(|path| path.exists()).unwrap());
    command.arg("--no-defaults").current_dir(folder);
    if geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

#[test]
fn a_server_that_is_up_is_loaded_and_compared() {
    if !have("mariadbd") {
        return;
    }
    let server = Mariadb::start();
    let lasthop = Lasthop::new();
    let (unix, tcp) = (
        server.by_socket("user=me&db=numbers"),
        format!("mysql://me@127.0.0.1:{}/numbers", server.port),
    );
    let with = |password: &str, arguments: &[&str]| {
        let output = lasthop.command(arguments).env("MYSQL_PWD", password).output().unwrap();
        common::Ran::from(output)
    };
    for url in [&unix, &tcp] {
        for query in [
            &["--simple"][..],
            &[
                "--query",
                "select seq from seq_1_to_50 where seq > ?",
                "--prepared",
                "--parameter",
                "7",
            ],
        ] {
            let loaded = with(
                "secret",
                &[&["load", url, "-d", "50ms", "--format", "json"], query].concat(),
            )
            .ok()
            .json();
            assert!(loaded["requests"].as_u64().unwrap() > 0, "{loaded}");
        }
        with("wrong", &["load", url, "-d", "50ms"]).fails(1, "error 1045, SQLSTATE 28000: Access denied for user 'me'");
        with("secret", &["load", url, "-d", "50ms", "--query", "selekt"]).fails(1, "error 1064, SQLSTATE 42000");
        with("secret", &["load", url, "-d", "50ms", "--extended"]).fails(2, "use `--prepared`");
        with("secret", &["load", url, "-d", "50ms", "--pipeline", "4"]).fails(2, "after it has answered the last");
    }
    let nowhere = server.by_socket("user=me&db=nowhere");
    with("secret", &["load", &nowhere, "-d", "50ms"])
        .fails(1, "error 1044, SQLSTATE 42000: Access denied for user 'me'");
    let secure = tcp.replace("mysql:", "mysql+tls:");
    with("secret", &["load", &secure, "-d", "50ms"]).fails(1, "the server does not offer TLS on this socket");
    let compared = with(
        "secret",
        &[
            "compare", &unix, &tcp, "--budget", "3s", "--trial", "20ms", "--format", "json",
        ],
    );
    let compared = compared.ok().json();
    assert!(compared["failures"].as_array().unwrap().is_empty(), "{compared}");
    assert_eq!(compared["cases"].as_array().unwrap().len(), 2, "{compared}");
    lasthop.assert_nothing_left();
}
