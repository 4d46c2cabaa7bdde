//! CockroachDB, as far as it goes without the program, which no package manager has; and the rest where it is there.

use crate::common;

use std::{fs, path::Path};

use common::{BRIEF, Lasthop, have};
use lasthop_model::{
    selection::{Choice, Selection},
    service::{ReadyCheck, RenderedService},
};
use lasthop_plan::{catalog::Catalog, plan::Plan};
use lasthop_stack::sandbox::{Sandbox, Wanted};

/// The only service of each stack, rendered for a real sandbox; the first has the name of its case's transport and way
/// to authenticate.
fn rendered() -> Vec<(String, RenderedService)> {
    let experiment = Catalog::default().load("cockroachdb").unwrap();
    let every = "auth=trust,password-scram,password-cleartext"
        .parse::<Choice>()
        .unwrap();
    let plan = Plan::new(
        experiment,
        &Selection {
            set: vec![every],
            ..Selection::default()
        },
    )
    .unwrap();
    assert_eq!(plan.differences, [], "cases differ in more than the link");
    let sandbox = Sandbox::create().unwrap();
    let record = tempfile::tempdir().unwrap();
    let render = |stack: &lasthop_plan::plan::Stack| {
        let recipe = &plan.experiment.recipes["cockroachdb"];
        let mut wanted = Wanted::new("cockroachdb", stack.transport, "/usr/local/bin/cockroach");
        wanted.authority.clone_from(&recipe.listen[&stack.transport].authority);
        let bindings = sandbox.bind(record.path(), 0, stack.number, &[wanted]).unwrap();
        let mut services = plan.services(stack, &bindings).unwrap();
        (stack.transport.name().to_owned(), services.remove(0))
    };
    plan.stacks.iter().map(render).collect()
}

fn file(service: &RenderedService, name: &str) -> String {
    let (_, content) = service.files.iter().find(|(path, _)| path == Path::new(name)).unwrap();
    String::from_utf8(content.clone()).unwrap()
}

/// The rules within the statement that sets them.
fn rules(service: &RenderedService) -> String {
    let text = file(service, "setup.sql");
    let (_, rest) = text
        .split_once("server.host_based_authentication.configuration = '")
        .unwrap();
    rest.split_once("';").unwrap().0.trim_start().to_owned()
}

#[test]
fn what_would_be_run_is_secure_and_stays_in_the_sandbox() {
    let all = rendered();
    // Two transports; SCRAM (also of queries and rows), trust and clear text.
    assert_eq!(all.len(), 6);
    for (transport, service) in &all {
        let command = service.command.join(" ");
        assert!(
            command.starts_with("/usr/local/bin/cockroach start-single-node --certs-dir=/"),
            "{command}"
        );
        assert!(command.contains("--store=type=mem,size=1GiB"), "{command}");
        assert!(!command.contains("insecure"), "{command}");
        assert_eq!(command.contains("--socket-dir=/"), transport == "unix", "{command}");
        assert!(command.contains("--sql-addr=127.0.0.1:"), "{command}");
        let certificates = file(service, "certificates.sh");
        for kind in ["create-ca", "create-node localhost 127.0.0.1", "create-client root"] {
            assert!(
                certificates.contains(&format!("/cockroach\" cert {kind} --certs-dir=")),
                "{certificates}"
            );
        }
        let tls = service.endpoint.tls.as_ref();
        assert_eq!(tls.is_some(), transport == "tls");
        if let Some(authority) = tls.and_then(|tls| tls.authority.as_ref()) {
            // A copy that the server cannot change.
            assert_eq!(
                authority.parent().unwrap().file_name().unwrap(),
                "tls",
                "{}",
                authority.display()
            );
        }
        let ReadyCheck::Command(ready) = &service.ready.check else {
            panic!("{:?}", service.ready)
        };
        assert!(ready[1].ends_with("/ready.sh") && command.contains(&format!("--sql-addr=127.0.0.1:{}", ready[2])));
        assert_eq!(
            ready.len() == 4 && ready[3].ends_with("/socket"),
            transport == "unix",
            "{ready:?}"
        );
        let diagnostics = (
            "COCKROACH_SKIP_ENABLING_DIAGNOSTIC_REPORTING".to_owned(),
            "true".to_owned(),
        );
        assert!(service.environment.contains(&diagnostics));
        let setup = file(service, "setup.sql");
        let (_, secret) = setup
            .split_once("CREATE USER IF NOT EXISTS lasthop WITH PASSWORD '")
            .unwrap();
        let secret = secret.split_once("';").unwrap().0;
        assert!(
            secret.len() == 32 && !command.contains(secret) && !ready.join(" ").contains(secret),
            "{secret}"
        );
    }
    let methods: Vec<String> = all
        .iter()
        .map(|(_, service)| rules(service).split_whitespace().nth(3).unwrap().into())
        .collect();
    assert_eq!(
        methods,
        [
            "scram-sha-256",
            "trust",
            "password",
            "scram-sha-256",
            "trust",
            "password"
        ]
    );
}

#[test]
fn the_shell_can_read_the_scripts() {
    for (_, service) in rendered() {
        for script in ["certificates.sh", "ready.sh"] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join(script);
            fs::write(&path, file(&service, script)).unwrap();
            let checked = std::process::Command::new("/bin/sh")
                .arg("-n")
                .arg(&path)
                .output()
                .unwrap();
            assert!(
                checked.status.success(),
                "{script}: {}",
                String::from_utf8_lossy(&checked.stderr)
            );
        }
    }
}

/// The rules have the same form in both databases: a real PostgreSQL lets the role in by them, and nobody by others.
#[test]
fn postgresql_takes_the_rules() {
    if !have("postgres") {
        return;
    }
    let lasthop = Lasthop::new();
    let (_, service) = rendered()
        .into_iter()
        .find(|(_, service)| rules(service).contains("scram"))
        .unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = lasthop.home().join("rules");
    let recipe = folder.join("services/postgres");
    fs::create_dir_all(&recipe).unwrap();
    fs::copy(
        root.join("experiments/postgres/experiment.toml"),
        folder.join("experiment.toml"),
    )
    .unwrap();
    for entry in fs::read_dir(root.join("services/postgres")).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), recipe.join(entry.file_name())).unwrap();
    }
    fs::write(recipe.join("pg_hba.conf.j2"), rules(&service)).unwrap();
    let mut arguments = vec![
        "run",
        "./rules",
        "--only",
        "work=connect",
        "--only",
        "auth=password-scram",
    ];
    arguments.extend(BRIEF);
    let summary = lasthop.run(arguments).ok().json();
    assert!(
        summary["failures"].as_array().unwrap().is_empty(),
        "{}",
        summary["failures"]
    );
    assert_eq!(summary["cases"].as_array().unwrap().len(), 3);
    lasthop.assert_nothing_left();
}

/// The statements of a file, comments left out. None of ours has a semicolon within quotes.
fn statements(text: &str) -> Vec<String> {
    let plain: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("--"))
        .collect();
    let plain = plain.join("\n");
    plain
        .split(';')
        .map(|one| one.trim().to_owned())
        .filter(|one| !one.is_empty())
        .collect()
}

/// What PostgreSQL has in another form or not at all, and why it is left out.
fn left_out(statement: &str) -> Option<&'static str> {
    [
        ("SET CLUSTER SETTING", "a setting of CockroachDB's cluster"),
        ("CREATE DATABASE IF NOT EXISTS", "PostgreSQL has no IF NOT EXISTS there"),
    ]
    .into_iter()
    .find_map(|(words, why)| statement.starts_with(words).then_some(why))
}

/// Every statement that PostgreSQL has too is put into the query of the experiment `postgres` and answered by a real one.
/// CockroachDB's `CREATE USER IF NOT EXISTS` differs from PostgreSQL's by three words, which are taken out and said.
#[test]
#[expect(clippy::print_stderr, reason = "what is left out is said")]
fn postgresql_takes_the_statements() {
    if !have("postgres") {
        return;
    }
    let (_, service) = rendered().into_iter().next().unwrap();
    let all = statements(&file(&service, "setup.sql"));
    assert_eq!(all.len(), 6, "{all:?}");
    eprintln!("SKIPPED: its certificates: `cockroach cert` makes them, nothing of them is ours");
    let mut taken = Vec::new();
    for statement in all {
        match left_out(&statement) {
            Some(why) => eprintln!("SKIPPED: {}: {why}", statement.lines().next().unwrap_or_default()),
            None => taken.push(statement.replace("CREATE USER IF NOT EXISTS", "CREATE USER")),
        }
    }
    let [user, grant] = &taken[..] else { panic!("{taken:?}") };
    assert!(
        user.starts_with("CREATE USER lasthop") && grant.starts_with("GRANT ALL ON DATABASE"),
        "{taken:?}"
    );
    // The role is there in the private cluster already: it is made anew within a transaction that is taken back.
    let user = user.replace("USER lasthop ", "USER another ");
    let script = format!("BEGIN; {user}; {grant}; ROLLBACK");
    let lasthop = Lasthop::new();
    let folder = lasthop.home().join("statements");
    fs::create_dir_all(&folder).unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("experiments");
    let ours = fs::read_to_string(root.join("postgres/experiment.toml")).unwrap();
    let theirs = fs::read_to_string(root.join("cockroachdb/experiment.toml")).unwrap();
    // The queries under test, as the experiment on CockroachDB has them, replace those of `postgres`.
    let load = |text: &str| {
        let (_, rest) = text.split_once("[load.postgres]").unwrap();
        rest.split_once("\n\n").unwrap().0.to_owned()
    };
    fs::write(
        folder.join("experiment.toml"),
        ours.replace(&load(&ours), &load(&theirs)),
    )
    .unwrap();
    let run = |place: &str| {
        let mut arguments = vec!["run", place, "--only", "transport=unix", "--set", "auth=trust"];
        arguments.extend(["--set", "rows=50,100", "--set", "queries=5,10"]);
        arguments.extend(BRIEF);
        let summary = lasthop.run(arguments).ok().json();
        assert!(
            summary["failures"].as_array().unwrap().is_empty(),
            "{}",
            summary["failures"]
        );
    };
    run("./statements");
    // Setting up: as the query itself, whose every error is a failure. The role of the cluster may not make roles, so
    // it is given that right in the copy of the recipe.
    let recipe = folder.join("services/postgres");
    fs::create_dir_all(&recipe).unwrap();
    for entry in fs::read_dir(root.join("../services/postgres")).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), recipe.join(entry.file_name())).unwrap();
    }
    let roles = fs::read_to_string(recipe.join("roles.sql.j2")).unwrap();
    fs::write(
        recipe.join("roles.sql.j2"),
        roles.replace("{{ role }} LOGIN", "{{ role }} CREATEROLE LOGIN"),
    )
    .unwrap();
    let query = load(&ours)
        .lines()
        .find(|line| line.starts_with("query = "))
        .unwrap()
        .to_owned();
    let expect = load(&ours)
        .lines()
        .find(|line| line.starts_with("expect = "))
        .unwrap()
        .to_owned();
    let failures = |script: &str| {
        let text = toml_text(&format!("{script}{{{{ '' if rows is defined }}}}"));
        let changed = ours.replace(&query, &format!("query = {text}")).replace(&expect, "");
        fs::write(folder.join("experiment.toml"), changed).unwrap();
        let mut arguments = vec![
            "run",
            "./statements",
            "--only",
            "transport=unix",
            "--only",
            "work=query",
        ];
        arguments.extend(BRIEF);
        lasthop.run(arguments).json()["failures"].clone()
    };
    let none = failures(&script);
    assert_eq!(none.as_array().unwrap().len(), 0, "{none}");
    // The test can fail: a word that PostgreSQL does not have is an error of the run.
    let wrong = failures(&script.replace("GRANT ALL", "GRANT EVERYTHING")).to_string();
    assert!(wrong.contains("SQLSTATE"), "{wrong}");
    lasthop.assert_nothing_left();
}

/// A text as TOML writes it; it has no quotes of the other kind and no escapes.
fn toml_text(text: &str) -> String {
    assert!(!text.contains('"') && !text.contains('\\'), "{text}");
    format!("\"{}\"", text.replace('\n', " "))
}

#[test]
#[expect(clippy::print_stderr, reason = "a skip is said")]
fn it_runs_where_the_program_is_and_says_how_to_get_it_where_it_is_not() {
    let lasthop = Lasthop::new();
    let found = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join("cockroach").is_file()));
    let run = lasthop.run([
        "run",
        "cockroachdb",
        "--budget",
        "40s",
        "--trial",
        "50ms",
        "--format",
        "json",
    ]);
    if found {
        let summary = run.ok().json();
        assert!(
            summary["failures"].as_array().unwrap().is_empty(),
            "{}",
            summary["failures"]
        );
    } else {
        eprintln!("SKIPPED: the run itself; CockroachDB is not on PATH, and no package manager has it");
        let run = run.fails(1, "`cockroach` was not found");
        for part in ["cockroachlabs.com", "/usr/local/bin", "--program cockroach=PATH"] {
            assert!(run.stderr.contains(part), "{}", run.stderr);
        }
        lasthop
            .run(["setup", "cockroachdb", "--yes"])
            .fails(1, "cannot be installed by lasthop");
    }
    lasthop.assert_nothing_left();
}

#[test]
fn nothing_else_passes_for_it() {
    let lasthop = Lasthop::new();
    let other = [
        "run",
        "cockroachdb",
        "--program",
        "cockroach=/bin/true",
        "--budget",
        "5s",
    ];
    let run = lasthop.run(other);
    assert_ne!(run.code, Some(0));
    assert!(
        run.stderr.contains("cannot find out the version of /bin/true"),
        "{}",
        run.stderr
    );
}
