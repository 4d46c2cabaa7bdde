//! A real MariaDB in a private directory, over a Unix socket, TCP and TLS: counts agree on both sides. Without MariaDB
//! the tests are skipped.

use crate::{
    common,
    real_servers::{check_auth, command, free_port, hand_over, program, said, tcp, unprivileged},
};

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    process::Child,
    time::{Duration, Instant},
};

use common::{Certificates, SHORT, With, certificates, for_ms, parameters, run, spec};
use lasthop_load::engine::Case;
use lasthop_protocol::{
    mysql::{Mysql, MysqlExpect, MysqlMode},
    wire::TrialPhases,
};
use lasthop_trial::{
    address::{Address, Endpoint, Tls},
    options::{Engine, Reuse},
    result::ErrorClass,
};

/// 32 bytes: lasthop answers ed25519 with no other length of password.
const PASSWORD: &str = "0123456789abcdef0123456789abcdef";

struct Mariadb {
    child: Child,
    folder: tempfile::TempDir,
    files: Certificates,
    port: u16,
}

impl Drop for Mariadb {
    fn drop(&mut self) {
        // SAFETY: signals the process that this test started and has not waited for yet.
        unsafe { libc::kill(self.child.id().cast_signed(), libc::SIGTERM) };
        let _ = self.child.wait();
    }
}

/// An account for each method. The kernel vouches for this user's account, which may do anything.
fn accounts() -> String {
    let me = said(&mut command("id -un"));
    format!(
        "CREATE DATABASE lasthop;\n\
         CREATE OR REPLACE USER '{me}'@'localhost' IDENTIFIED VIA unix_socket;\n\
         GRANT ALL ON *.* TO '{me}'@'localhost';\n\
         CREATE USER native@'%' IDENTIFIED VIA mysql_native_password USING PASSWORD('{PASSWORD}');\n\
         CREATE USER signed@'%' IDENTIFIED VIA ed25519 USING PASSWORD('{PASSWORD}');\n\
         CREATE USER open@'%';\n\
         GRANT SELECT ON lasthop.* TO native@'%';\n"
    )
}

fn mariadb() -> Option<Mariadb> {
    program(&["/usr/sbin/mariadbd"])?;
    let folder = tempfile::tempdir().unwrap();
    let files = certificates(folder.path());
    let data = folder.path().join("data");
    fs::create_dir(&data).unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    hand_over(&[folder.path(), &data, &files.key]);
    let at = folder.path().display();
    // At its start a server removes all temporary tables that it finds, even those of other servers.
    let options =
        format!("--no-defaults --skip-name-resolve --innodb-log-file-size=4M --tmpdir={at} --datadir={at}/data");
    let mut init = command(&format!("mariadb-install-db {options} --skip-test-db"));
    said(unprivileged(&mut init).current_dir(folder.path()));
    fs::write(folder.path().join("accounts.sql"), accounts()).unwrap();
    let port = free_port();
    let mut server = command(&format!(
        "/usr/sbin/mariadbd {options} --bind-address=127.0.0.1 --port={port} --socket={at}/s --max-allowed-packet=64M \
         --plugin-load-add=auth_ed25519 --innodb-use-native-aio=OFF --init-file={at}/accounts.sql \
         --ssl-cert={at}/cert.pem --ssl-key={at}/key.pem"
    ));
    let log = fs::File::create(folder.path().join("log")).unwrap();
    let child = unprivileged(server.stderr(log).current_dir(folder.path()))
        .spawn()
        .unwrap();
    let mut server = Mariadb {
        child,
        folder,
        files,
        port,
    };
    server.wait();
    Some(server)
}

impl Mariadb {
    fn wait(&mut self) {
        let begin = Instant::now();
        let log = || fs::read_to_string(self.folder.path().join("log")).unwrap();
        while !log().contains("ready for connections") {
            let ended = self.child.try_wait().unwrap();
            assert!(
                ended.is_none() && begin.elapsed() < Duration::from_secs(60),
                "{ended:?}: {}",
                log()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn unix(&self) -> Endpoint {
        Endpoint::plain(Address::Unix(self.folder.path().join("s")))
    }

    fn tcp(&self) -> Endpoint {
        Endpoint::plain(tcp(self.port))
    }

    fn secure(&self, plain: Endpoint) -> Endpoint {
        Endpoint {
            tls: Some(self.files.tls()),
            ..plain
        }
    }

    fn everywhere(&self) -> [Endpoint; 4] {
        [
            self.unix(),
            self.tcp(),
            self.secure(self.tcp()),
            self.secure(self.unix()),
        ]
    }

    /// The server's own counter, read by its own client, which connects once and selects nothing.
    fn counter(&self, name: &str) -> u64 {
        let at = self.folder.path().display();
        let mut client = command(&format!(
            "mariadb --no-defaults --socket={at}/s --batch --skip-column-names --execute"
        ));
        let line = said(client.arg(format!("SHOW GLOBAL STATUS WHERE Variable_name = '{name}'")));
        line.split_whitespace()
            .nth(1)
            .unwrap_or_else(|| panic!("{name}: {line}"))
            .parse()
            .unwrap()
    }
}

fn query(user: &str, query: &str, mode: MysqlMode) -> Mysql {
    Mysql {
        password: (user != "open").then(|| PASSWORD.to_owned()),
        query: query.into(),
        mode,
        ..parameters(&format!("mysql://{user}@127.0.0.1"))
    }
}

fn refused(endpoint: &Endpoint, mysql: Mysql) -> String {
    Case::prepare(&spec(endpoint, mysql)).map(drop).unwrap_err().cause
}

#[test]
fn mariadb_counts_what_was_checked() {
    let Some(server) = mariadb() else { return };
    for endpoint in server.everywhere() {
        for (mode, counter) in [
            (MysqlMode::Simple, "Com_select"),
            (MysqlMode::Prepared, "Com_stmt_execute"),
        ] {
            let base = spec(&endpoint, query("native", "select 1", mode));
            for (reuse, connections, threads, engine, unit) in [
                (Reuse::KeepAlive, 1, 1, Engine::Blocking, 1),
                (Reuse::KeepAlive, 5, 2, Engine::Epoll, 1),
                (Reuse::PerRequest, 1, 1, Engine::Blocking, 1),
                (Reuse::PerRequest, 3, 1, Engine::Epoll, 1),
                (Reuse::PerRequest, 2, 2, Engine::Auto, 5),
            ] {
                let spec = base
                    .clone()
                    .reuse(reuse)
                    .connections(connections)
                    .threads(threads)
                    .engine(engine)
                    .requests_per_connection(unit);
                let (statements, sessions) = (server.counter(counter), server.counter("Connections"));
                let result = run(&spec, SHORT).unwrap_or_else(|error| panic!("{spec:?}: {error}"));
                assert_eq!(result.error_total(), 0, "{:?}", result.errors);
                // Two requests, or units of requests, verify the case before its trial.
                let requests = result.requests_total + 2 * u64::from(unit);
                assert_eq!(server.counter(counter) - statements, requests, "{counter}: {spec:?}");
                if reuse == Reuse::PerRequest {
                    // Reading the counters makes connections, too.
                    let opened = server.counter("Connections") - sessions - 2;
                    assert_eq!(opened, result.connections_opened + 2, "{spec:?}");
                    assert_eq!(
                        result.requests_total,
                        u64::from(unit) * result.connections_opened,
                        "{spec:?}"
                    );
                }
                check_auth(&result, &spec);
            }
        }
    }
}

#[test]
fn mariadb_lets_in_by_every_method() {
    let Some(server) = mariadb() else { return };
    let right = |endpoint: &Endpoint, mysql: &Mysql| {
        for (connections, reuse) in [(1, Reuse::PerRequest), (3, Reuse::KeepAlive)] {
            let spec = spec(endpoint, mysql.clone()).connections(connections).reuse(reuse);
            let result = run(&spec, SHORT).unwrap_or_else(|error| panic!("{endpoint:?} {}: {error}", mysql.user));
            assert_eq!(result.error_total(), 0, "{:?}", result.errors);
        }
    };
    for endpoint in server.everywhere() {
        right(&endpoint, &query("open", "select 1", MysqlMode::Simple));
        for user in ["native", "signed"] {
            let mysql = query(user, "select 1", MysqlMode::Simple);
            right(&endpoint, &mysql);
            right(
                &endpoint,
                &Mysql {
                    database: "lasthop".into(),
                    ..query("native", "select 1", MysqlMode::Prepared)
                },
            );
            let wrong = Some(PASSWORD.replace('0', "x"));
            for password in [wrong, None] {
                let cause = refused(
                    &endpoint,
                    Mysql {
                        password,
                        ..mysql.clone()
                    },
                );
                let denied = "error 1045, SQLSTATE 28000: Access denied for user";
                assert!(
                    cause.contains(denied) || cause.contains("wants a password, none is given"),
                    "{cause}"
                );
            }
        }
        let elsewhere = Mysql {
            database: "nowhere".into(),
            ..query("native", "select 1", MysqlMode::Simple)
        };
        let cause = refused(&endpoint, elsewhere);
        assert!(cause.contains("error 1044") || cause.contains("error 1049"), "{cause}");
    }
    // The kernel tells who this is.
    let me = said(&mut command("id -un"));
    right(
        &server.unix(),
        &Mysql {
            password: None,
            ..query(&me, "select 1", MysqlMode::Simple)
        },
    );
    let stranger = Mysql {
        password: None,
        ..query(&me, "select 1", MysqlMode::Simple)
    };
    let cause = refused(&server.tcp(), stranger);
    // MariaDB does not reveal that the account is missing: it requests some method.
    assert!(cause.starts_with("authentication: "), "{cause}");
}

#[test]
fn mariadb_results_are_checked() {
    let Some(server) = mariadb() else { return };
    let me = said(&mut command("id -un"));
    let endpoint = server.unix();
    let right = |mysql: &Mysql| {
        let result = run(&spec(&endpoint, mysql.clone()), for_ms(100)).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(result.error_total(), 0, "{:?}", result.errors);
        result
    };
    let expect = |columns, rows, first: &str| MysqlExpect {
        columns: Some(columns),
        rows: Some(rows),
        first: Some(first.into()),
        ..MysqlExpect::default()
    };
    for mode in [MysqlMode::Simple, MysqlMode::Prepared] {
        let of = |text: &str, expect| Mysql {
            database: "lasthop".into(),
            expect,
            ..query(&me, text, mode)
        };
        let many = of(
            "select seq, repeat('x', 100) from seq_1_to_20000",
            expect(2, 20_000, "1"),
        );
        let result = right(&many);
        assert!(result.bytes_received > result.requests * 2_000_000);
        assert_eq!(
            refused(
                &endpoint,
                Mysql {
                    expect: expect(2, 1, "1"),
                    ..many.clone()
                }
            ),
            "20000 rows, expected 1"
        );
        assert_eq!(
            refused(
                &endpoint,
                Mysql {
                    expect: expect(3, 1, "1"),
                    ..many
                }
            ),
            "2 columns, expected 3"
        );
        // One value in several packets, and one statement in several.
        let large = of(
            "select repeat('x', 40000000)",
            MysqlExpect {
                first: None,
                ..expect(1, 1, "")
            },
        );
        assert!(right(&large).bytes_received > 40_000_000);
        if mode == MysqlMode::Simple {
            right(&of(&format!("select {} 7", " ".repeat(17 << 20)), expect(1, 1, "7")));
        }
        for (value, text) in [
            ("-5", "-5"),
            ("18446744073709551615", "18446744073709551615"),
            ("1.50", "1.50"),
            ("1e0", "1"),
            ("'é'", "é"),
        ] {
            right(&of(&format!("select {value}"), expect(1, 1, text)));
        }
        assert_eq!(
            refused(&endpoint, of("select null", expect(1, 1, "1"))),
            "the first value is NULL, expected \"1\""
        );
        let unknown = refused(&endpoint, of("select x", expect(1, 1, "1")));
        assert!(
            unknown.contains("error 1054, SQLSTATE 42S22: Unknown column 'x'"),
            "{unknown}"
        );
        right(&of(
            "do 1",
            MysqlExpect {
                columns: Some(0),
                rows: Some(0),
                changed: Some(0),
                ..MysqlExpect::default()
            },
        ));
    }
    let sum = Mysql {
        parameters: vec!["20".into(), "22".into()],
        expect: expect(1, 1, "42"),
        ..query(&me, "select cast(? as signed) + cast(? as signed)", MysqlMode::Prepared)
    };
    right(&sum);
    let cause = refused(
        &endpoint,
        Mysql {
            parameters: vec!["20".into()],
            ..sum
        },
    );
    assert_eq!(cause, "prepare: number of parameters in the statement: 2, given: 1");
}

#[test]
fn mariadb_errors_are_counted_by_class_and_keep_the_connection() {
    let Some(server) = mariadb() else { return };
    let me = said(&mut command("id -un"));
    // Right for the two probes and a few more, then an error. Two rows for one value are an error.
    let sql = "select if((select nextval(counted)) < 9, 1, (select 1 union select 2))";
    let mysql = |text: &str| Mysql {
        database: "lasthop".into(),
        ..query(&me, text, MysqlMode::Simple)
    };
    let create = Mysql {
        expect: MysqlExpect::default(),
        ..mysql("create or replace sequence counted")
    };
    drop(Case::prepare(&spec(&server.unix(), create)).unwrap());
    let base = spec(&server.unix(), mysql(sql));
    let result = run(&base, TrialPhases::without_warm_up(500_000_000)).unwrap();
    assert_eq!((result.requests_total, result.connections_opened), (6, 0));
    let error = &result.errors[&ErrorClass::WrongStatus];
    assert!(
        error.first.contains("error 1242, SQLSTATE 21000") && error.count > 1,
        "{error:?}"
    );
}

#[test]
fn the_certificate_of_another_is_refused() {
    let Some(server) = mariadb() else { return };
    let secure = server.secure(server.tcp());
    let mysql = query("native", "select 1", MysqlMode::Simple);
    // The server's certificate is for another name.
    let tls = Some(Tls {
        server_name: "elsewhere.test".into(),
        ..secure.tls.clone().unwrap()
    });
    let cause = refused(&Endpoint { tls, ..secure }, mysql);
    assert!(
        cause.starts_with("TLS handshake: ") && cause.contains("not valid for name \"elsewhere.test\""),
        "{cause}"
    );
}
