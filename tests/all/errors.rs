//! Bad input and bad circumstances: what is wrong, where, and what to do about it.

use crate::common;

use std::{
    ffi::OsStr,
    fs,
    io::Write as _,
    net::TcpListener,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use common::{Lasthop, Ran, copy, have, have_python, have_setup, list, needs, one_line, script, shows};

#[test]
fn an_experiment_of_ones_own_runs_as_it_is() {
    let lasthop = Lasthop::new();
    lasthop.run(["new", "mine"]).ok();
    let ran = lasthop.run([
        "run", "./mine", "--budget", "2s", "--trial", "10ms", "--blocks", "2", "--format", "json",
    ]);
    let summary = ran.ok().json();
    assert_eq!(summary["experiment"], "mine");
    assert_eq!(list(&summary["failures"]).len(), 0);
}

/// Programs that print one line and exit, alone on the PATH.
fn stubs(lasthop: &Lasthop, programs: &[(&str, &str)]) -> PathBuf {
    let folder = lasthop.home().join("bin");
    fs::create_dir(&folder).unwrap();
    for (name, does) in programs {
        script(&folder.join(name), does);
    }
    folder
}

#[test]
fn the_doctor_fails_only_for_what_it_was_asked_about() {
    let lasthop = Lasthop::new();
    let broken = "echo 'Cannot connect to the Docker daemon.' >&2; exit 1";
    let path = stubs(
        &lasthop,
        &[("podman", "echo '4.3.1 false netavark'"), ("docker", broken)],
    );
    let doctor = |arguments: &[&str]| Ran::from(lasthop.command(arguments).env("PATH", &path).output().unwrap());
    let all = doctor(&["doctor"]).ok().stdout;
    for line in [
        " experiments are ready; not ",
        "→ lasthop setup --all",
        "note    1 of 2 container engines are ready; not docker",
    ] {
        assert!(all.contains(line), "`{line}` is not in:\n{all}");
    }
    assert!(all.trim_end().lines().count() <= 12, "{all}");
    let ran = doctor(&["doctor", "nginx-thin"]);
    let one = &ran.stdout;
    assert!(
        ran.code == Some(1) && one.contains("MISSING `thin` was not found"),
        "{ran:?}"
    );
    assert!(one.contains("ok      podman 4.3.1"), "{one}");
    shows(one, ["note    docker does not work: ", "→ start the daemon"]);
    assert!(!one.contains("no container engine") && !one.contains("\\n"), "{one}");
    assert_eq!(
        one.matches(path.to_str().unwrap()).count(),
        1,
        "where it looked is said once: {one}"
    );
    doctor(&["doctor", "sockets", "--program", "python-sockets=/usr/bin/python3"]).ok();
}

#[test]
fn doctor_and_setup_agree_on_what_is_missing() {
    let lasthop = Lasthop::new();
    lasthop.run(["new", "mine"]).ok();
    let recipe = lasthop.home().join("mine/services/python-app/recipe.toml");
    let text = fs::read_to_string(&recipe).unwrap();
    let with = |from: &str, to: &str, packages: &str| {
        let other = text
            .replace(from, to)
            .replace("packages = { apt = [\"python3\"] }", packages);
        assert!(!other.contains("apt") && other.contains(to), "{other}");
        fs::write(&recipe, other).unwrap();
    };
    let said = |words: &[&str], code: i32| {
        let ran = lasthop.run(words);
        assert_eq!(ran.code, Some(code), "{ran:?}");
        one_line(&(ran.stdout + &ran.stderr))
    };
    with("names = [\"python3\"]", "names = [\"python39x\"]", "");
    let by_hand = "`python39x` was not found; no package of it is known: install it yourself, or name its file with \
                   --program python-app=PATH";
    for words in [&["doctor", "./mine"][..], &["setup", "./mine", "--dry-run"]] {
        let said = said(words, 1);
        assert!(said.contains(by_hand) && !said.contains("nothing to install"), "{said}");
    }
    // A program that is there, and lacks a module.
    with(
        "\"--version\"",
        "\"-c\", \"import nonesuch\"",
        "packages = { python = [\"nonesuch==1.0\"] }",
    );
    let doctor = said(&["doctor", "./mine"], 1);
    assert!(
        doctor.contains("ModuleNotFoundError: No module named 'nonesuch' → lasthop setup ./mine"),
        "{doctor}"
    );
    assert!(!doctor.contains("Traceback"), "{doctor}");
    assert!(said(&["setup", "./mine", "--dry-run"], 0).contains("nonesuch==1.0"));
}

#[test]
fn a_record_by_its_path_needs_no_home_and_ascii_is_all_that_c_has() {
    let lasthop = Lasthop::new();
    let run = "run sockets --only transport=unix,tcp --set pattern=echo --budget 3s -q";
    lasthop
        .run(run.split(' ').chain(["--trial", "10ms", "--blocks", "2"]))
        .ok();
    let record = lasthop.runs().remove(0);
    let mut report = Command::new(env!("CARGO_BIN_EXE_lasthop"));
    report.env_clear().args(["report", "--verbose"]).arg(&record);
    let shown = Ran::from(report.env("LC_ALL", "C").output().unwrap()).ok().stdout;
    assert!(shown.is_ascii() && shown.contains("driver -> server"), "{shown}");
    shows(
        &Ran::from(report.env("LC_ALL", "C.UTF-8").output().unwrap()).ok().stdout,
        ["driver → server"],
    );
}

/// An experiment with a real server in front of nothing, its configuration rendered for each transport.
fn with_server(lasthop: &Lasthop, recipe: &str, file: &str, configuration: &str) {
    let folder = lasthop.home().join("mine");
    fs::create_dir(&folder).unwrap();
    let experiment = format!(
        "title = \"t\"\nquestion = \"q?\"\n[link]\nfrom = \"driver\"\nto = \"server\"\n[factors.transport]\n\
         help = \"h\"\nlevels = [\"unix\", \"tcp\"]\nreference = \"unix\"\n[services.server]\nrecipe = \"{recipe}\"\n\
         config = {{ \"{file}\" = \"configuration.j2\" }}\n[load]\ntarget = \"server\"\nprotocol = \"http\"\n\
         connections = 1\nreuse = \"keep-alive\"\n[load.http]\npath = \"/\"\n[load.http.expect]\nstatus = 200\nbody = \"Hello!\"\n"
    );
    fs::write(folder.join("experiment.toml"), experiment).unwrap();
    fs::write(folder.join("configuration.j2"), configuration).unwrap();
}

const NGINX: &str = "worker_processes 1; pid {{ runtime }}/pid; error_log stderr; events {}\nhttp { access_log off;
    client_body_temp_path {{ runtime }}/a; proxy_temp_path {{ runtime }}/b; fastcgi_temp_path {{ runtime }}/c;
    uwsgi_temp_path {{ runtime }}/d; scgi_temp_path {{ runtime }}/e;
    server { {{ listen }} location / { ANSWER } } }\n";

/// What a denied server says is at the end of a long line. Without the reference there is nothing to measure for.
#[test]
fn a_server_that_may_not_enter_says_so_and_soon() {
    needs!(have("nginx"));
    let lasthop = Lasthop::new();
    let closed = lasthop.home().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    let proxy = format!("proxy_pass http://unix:{}/app.sock;", closed.display());
    let answer = format!("{{% if transport == 'unix' %}}{proxy}{{% else %}}return 200 \"Hello!\";{{% endif %}}");
    with_server(&lasthop, "nginx", "nginx.conf", &NGINX.replace("ANSWER", &answer));
    let run = ["run", "./mine", "--budget=60s", "--trial=20ms", "--blocks=1000"];
    let ran = lasthop.run(run);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let shown = one_line(&ran.stdout.replace('│', " "));
    assert!(shown.contains("failed (13: Permission denied)"), "{}", ran.stdout);
    let account = if rustix::process::geteuid().is_root() {
        "nobody".to_owned()
    } else {
        whoami()
    };
    shows(
        &shown,
        [&format!("hint: the server runs as `{account}`, who was not allowed to")],
    );
    shows(&shown, ["No answer.", "Unix socket, the reference, failed at verify"]);
    let log = lasthop.runs()[0].join("services/1/0/server/log");
    shows(
        &ran.stdout.replace(['\n', ' '], ""),
        [&format!("wholelog:{}", log.display())],
    );
    assert!(fs::read_to_string(log).unwrap().contains("Permission denied"));
    let report = lasthop.run(["report", "last", "--format=json"]).ok().json();
    assert_eq!(
        (&report["stopped"], &report["rounds"]),
        (&"failed".into(), &2.into()),
        "{report}"
    );
    assert_eq!(report["blocks"], 2, "one in each round");
    assert_eq!(report["failures"][1]["log_file"], "services/1/0/server/log");
    // Perhaps the folder is open now; it is not.
    let resumed = lasthop.run(["resume", "last", "--format=json"]);
    assert_eq!(resumed.code, Some(1), "{resumed:?}");
    let report = resumed.json();
    assert_eq!(
        (&report["stopped"], &report["rounds"]),
        (&"failed".into(), &4.into()),
        "{report}"
    );
}

fn whoami() -> String {
    String::from_utf8(Command::new("id").arg("-un").output().unwrap().stdout)
        .unwrap()
        .trim()
        .to_owned()
}

#[test]
fn a_configuration_that_is_refused_is_explained_by_the_log() {
    needs!(have("nginx"), have("haproxy"));
    for (recipe, file, configuration, said) in [
        (
            "haproxy",
            "haproxy.cfg",
            "defaults\n    mode htpp\n",
            "unknown proxy mode 'htpp'",
        ),
        (
            "nginx",
            "nginx.conf",
            "events {}\nhttpp {}\n",
            "unknown directive \"httpp\"",
        ),
    ] {
        let lasthop = Lasthop::new();
        with_server(&lasthop, recipe, file, configuration);
        let ran = lasthop.run(["run", "./mine", "--budget=20s"]);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        let shown = one_line(&ran.stdout.replace('│', " "));
        shows(&shown, [said, "failed at prepare"]);
    }
}

#[test]
fn a_socket_path_of_a_server_that_is_too_long_gets_a_hint() {
    needs!(have("nginx"));
    let lasthop = Lasthop::new();
    let proxy = format!("proxy_pass http://unix:/tmp/{}.sock;", "x".repeat(110));
    with_server(&lasthop, "nginx", "nginx.conf", &NGINX.replace("ANSWER", &proxy));
    let ran = lasthop.run(["run", "./mine", "--budget=20s"]);
    let shown = one_line(&ran.stdout);
    shows(&shown, ["hint: the path of a Unix socket may have 107 bytes"]);
}

#[test]
fn a_wrong_body_is_shown_beside_the_right_one() {
    needs!(have("nginx"));
    let lasthop = Lasthop::new();
    with_server(
        &lasthop,
        "nginx",
        "nginx.conf",
        &NGINX.replace("ANSWER", "return 200 \"Hell\x1bo!\";"),
    );
    let ran = lasthop.run(["run", "./mine", "--budget=20s"]);
    let shown = one_line(&ran.stdout);
    let beside = "differs from the expected one at byte 4: expected \"Hello!\", received \"Hell\\x1bo!\"";
    assert!(shown.contains(beside), "{}", ran.stdout);
}

#[test]
fn a_socket_path_that_is_too_long_is_measured() {
    let lasthop = Lasthop::new();
    let deep = lasthop
        .sandboxes()
        .join("a-directory-with-a-name-that-is-much-too-long".repeat(2));
    fs::create_dir_all(&deep).unwrap();
    fs::set_permissions(&deep, fs::Permissions::from_mode(0o700)).unwrap();
    let output = lasthop
        .command(["run", "sockets", "--only", "transport=unix", "--budget", "1s"])
        .env("LASTHOP_SANDBOX", &deep)
        .output()
        .unwrap();
    let ran = common::Ran::from(output).fails(1, "107");
    assert!(ran.stderr.contains("LASTHOP_SANDBOX"), "{}", ran.stderr);
    fs::remove_dir_all(deep).unwrap();
}

#[test]
fn a_server_that_dies_at_start_shows_its_log() {
    needs!(have("nginx"), have_python("nginx-gunicorn"));
    let lasthop = Lasthop::new();
    let stack = lasthop.home().join("stack");
    fs::create_dir_all(stack.join("app")).unwrap();
    for name in ["experiment.toml", "nginx.conf.j2"] {
        fs::copy(
            format!("{}/experiments/nginx-gunicorn/{name}", env!("CARGO_MANIFEST_DIR")),
            stack.join(name),
        )
        .unwrap();
    }
    fs::write(stack.join("app/application.py"), "raise RuntimeError('no such luck')\n").unwrap();
    let gunicorn = user_gunicorn();
    let ran = lasthop.run([
        "run",
        "./stack",
        "--budget",
        "3s",
        "--program",
        &format!("gunicorn={gunicorn}"),
    ]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stdout.contains("no such luck"), "{}", ran.stdout);
    assert!(ran.stdout.contains("gunicorn"), "{}", ran.stdout);
}

fn user_gunicorn() -> String {
    let data =
        std::env::var("XDG_DATA_HOME").unwrap_or_else(|_| format!("{}/.local/share", std::env::var("HOME").unwrap()));
    format!("{data}/lasthop/python/nginx-gunicorn/bin/gunicorn")
}

#[test]
fn a_port_in_use_is_refused_before_a_stranger_is_measured() {
    let lasthop = Lasthop::new();
    let stranger = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = stranger.local_addr().unwrap();
    let ran = lasthop.run(["serve", "--pattern", "echo", "--tcp", &address.to_string()]);
    ran.fails(1, &address.to_string());
}

#[test]
fn a_package_manager_gets_names_behind_its_options() {
    let lasthop = Lasthop::new();
    lasthop.run(["new", "mine"]).ok();
    let path = lasthop.home().join("mine/experiment.toml");
    let packages = "apt = [\"libstdc++6\", \"python3.11-venv\"]\npython = [\"uvicorn[standard]==0.30.1\"]\n\
                    gems = [\"thin:2.0.1\"]\n";
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{text}\n[services.app.packages]\n{packages}")).unwrap();
    let asked = lasthop.home().join("asked");
    let write = format!("echo \"$0 $*\" >> '{}'", asked.display());
    let managers = ["apt-get", "apt-cache", "dpkg-query", "gem", "sudo"].map(|name| (name, write.as_str()));
    let search = format!(
        "{}:{}",
        stubs(&lasthop, &managers).display(),
        std::env::var("PATH").unwrap()
    );
    let mut setup = lasthop.command(["setup", "./mine", "--dry-run"]);
    let shown = Ran::from(setup.env("PATH", &search).output().unwrap()).ok().stdout;
    assert!(shown.contains("--no-install-recommends -- libstdc++6"), "{shown}");
    let asked = fs::read_to_string(&asked).unwrap();
    shows(&asked, ["apt-cache policy -- ", " -- libstdc++6"]);
}

#[test]
fn programs_that_are_asked_run_nothing_of_the_working_directory() {
    let lasthop = Lasthop::new();
    for module in ["venv", "ensurepip", "grpc", "google"] {
        let code = "open('executed', 'w')\n";
        fs::write(lasthop.home().join(format!("{module}.py")), code).unwrap();
    }
    for words in ["doctor grpc", "list --versions", "setup nginx-gunicorn --dry-run"] {
        lasthop.run(words.split(' '));
        assert!(!lasthop.home().join("executed").exists(), "{words}");
    }
}

#[test]
fn setup_without_consent_fails_and_installs_nothing() {
    let lasthop = Lasthop::new();
    lasthop.run(["new", "mine"]).ok();
    let path = lasthop.home().join("mine/experiment.toml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(
        &path,
        text.replace("app = \"app\"", "app = \"app\"\npackages = { gems = [\"thin:2.0.1\"] }"),
    )
    .unwrap();
    let stubs = lasthop.home().join("bin");
    let installed = lasthop.home().join("installed");
    fs::create_dir(&stubs).unwrap();
    let gem = format!("[ \"$1\" != install ] || touch '{}'", installed.display());
    script(&stubs.join("gem"), &gem);
    let search = format!("{}:{}", stubs.display(), std::env::var("PATH").unwrap());

    let mut alone = lasthop.command(["setup", "./mine"]);
    let ran = Ran::from(alone.env("PATH", &search).stdin(Stdio::null()).output().unwrap());
    assert!(ran.stdout.contains("gem install"), "{}", ran.stdout);
    ran.fails(
        1,
        "error: nothing was installed, because there is no terminal to ask on; add --yes",
    );

    // `script` runs it on a terminal, where it asks; an empty answer means no.
    needs!(common::installed("script"));
    for answer in ["n\n", "\n"] {
        let setup = format!("'{}' setup ./mine", env!("CARGO_BIN_EXE_lasthop"));
        let mut script = Command::new("script");
        script
            .args(["--quiet", "--return", "--command", &setup, "/dev/null"])
            .current_dir(lasthop.home());
        script
            .env("LASTHOP_HOME", lasthop.home())
            .env("PATH", &search)
            .env("NO_COLOR", "1");
        script.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = script.spawn().unwrap();
        child.stdin.take().unwrap().write_all(answer.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let shown = String::from_utf8_lossy(&output.stdout);
        assert!(shown.contains("Run these commands? [y/N]"), "{shown}");
        assert!(shown.contains("error: nothing was installed"), "{shown}");
        assert_eq!(output.status.code(), Some(1), "{shown}");
    }
    assert!(!installed.exists());
}

#[test]
fn paths_that_are_no_text_are_taken_or_refused_with_a_reason() {
    let lasthop = Lasthop::new();
    let odd = |folder: &Path| folder.join(OsStr::from_bytes(b"n\xfc"));
    let short = "--only pattern=echo --only transport=unix --rounds=1 --blocks=2 --trial=10ms -q";
    let run = |home: &Path, more: &[&OsStr]| {
        let command = &mut lasthop.command(["run", "sockets"].into_iter().chain(short.split(' ')));
        Ran::from(command.args(more).env("LASTHOP_HOME", home).output().unwrap())
    };
    let report = odd(lasthop.home());
    run(lasthop.home(), &["-o".as_ref(), report.as_ref()]).ok();
    assert!(
        fs::read_to_string(&report).unwrap().contains("echo"),
        "the report is where it was wanted"
    );
    lasthop.run(["resume", "last"]).fails(2, "is finished");

    run(&odd(lasthop.home()), &[]).fails(1, "is not UTF-8, so records cannot hold it; set LASTHOP_HOME");
    run(lasthop.home(), &["--ssh-config".as_ref(), report.as_ref()]).fails(2, "is not UTF-8");
    // Whatever else is typed, nothing panics.
    for arguments in [
        &["repro", "myhro-2017-sockets", "--budget=1s", "--into"][..],
        &["load", "https://127.0.0.1:1/", "--timeout=1s", "--authority"],
        &["load", "http://127.0.0.1:1/", "--timeout=1s", "-o"],
        &["show"],
        &["report", "last", "-o"],
        &["new"],
        &["setup"],
        &["run", "--program"],
        &["run", "--only"],
        &[
            "serve",
            "--pattern=echo",
            "--certificate=x",
            "--tcp=127.0.0.1:0",
            "--key",
        ],
    ] {
        let ran = Ran::from(lasthop.command(arguments).arg(odd(lasthop.home())).output().unwrap());
        assert!(
            matches!(ran.code, Some(0..=2)),
            "{arguments:?}: {:?}\n{}",
            ran.code,
            ran.stderr
        );
        assert!(!ran.stderr.contains("panicked"), "{arguments:?}: {}", ran.stderr);
    }
}

#[test]
fn an_experiment_without_end_or_measure_is_refused() {
    let lasthop = Lasthop::new();
    lasthop.run(["new", "mine"]).ok();
    let path = lasthop.home().join("mine/experiment.toml");
    let text = fs::read_to_string(&path).unwrap();
    let show = |from: &str, to: &str| {
        let with = text.replace(from, to);
        assert_ne!(text, with);
        fs::write(&path, with).unwrap();
        lasthop.run(["show", "./mine"])
    };
    let settings: String = (0..10_000).map(|number| format!("s{number} = 1\n")).collect();
    let ran = show("[load]", &format!("[services.app.settings]\n{settings}\n[load]")).fails(2, "has no setting `s0`");
    assert!(
        ran.stderr.contains("and 9950 more") && ran.stderr.len() < 100_000,
        "{} bytes",
        ran.stderr.len()
    );
    let levels: String = (0..20_000).map(|level| format!("{level},")).collect();
    let factor = |name: &str, levels: &str| format!("[factors.{name}]\nhelp = \"x\"\nlevels = [{levels}]\n\n[load]");
    show("[load]", &factor("z", &levels)).fails(2, "20000 levels, more than the 1000 cases of a run");
    show("[load]", &format!("# {}\n[load]", "x".repeat(300_000))).fails(2, "it is longer than 256 KiB");

    // Everything that combines levels counts before it makes anything, also where an experiment is only listed.
    let ten: Vec<String> = (0..10).map(|level| level.to_string()).collect();
    let names: Vec<String> = (0..12).map(|number| format!("z{number}")).collect();
    let factors: String = names
        .iter()
        .map(|name| factor(name, &ten.join(",")).replace("[load]", ""))
        .collect();
    let used: String = names.iter().map(|name| format!("{{{{ {name} }}}}")).collect();
    let many = text
        .replace("[load]", &format!("{factors}\n[load]"))
        .replace("path = \"/\"", &format!("path = \"/?{used}\""));
    let own = lasthop.home().join("experiments/mine");
    fs::create_dir_all(&own).unwrap();
    copy(&lasthop.home().join("mine"), &own);
    fs::write(own.join("experiment.toml"), &many).unwrap();
    lasthop.run(["show", "mine"]).fails(2, "more than 1000: select fewer");
    assert!(lasthop.run(["list", "--all"]).ok().stdout.contains("mine"));
    let deciding = format!(
        "{many}\n[[exclude]]\nwhen = \"{} > 1000\"\nbecause = \"x\"\n",
        names.join(" + ")
    );
    fs::write(own.join("experiment.toml"), deciding).unwrap();
    lasthop
        .run(["show", "mine"])
        .fails(2, "there are more than 10000 combinations of levels");
    let listed = lasthop.run(["list"]).ok();
    shows(&listed.stderr, ["there are more than 10000 combinations"]);
}

#[test]
fn every_check_is_listed() {
    let lasthop = Lasthop::new();
    let all = lasthop.run(["report", "--check"]).ok().stdout;
    shows(&all, ["  driver-kept-off: ", "  coarse-clock: "]);
}

#[test]
fn the_help_fits_a_screen_and_ends_with_examples() {
    let lasthop = Lasthop::new();
    let short = lasthop.run(["-h"]).ok().stdout;
    assert!((20..=24).contains(&short.lines().count()), "{short}");
    assert!(!short.contains("fleet"), "{short}");
    let long = lasthop.run(["help", "--all"]).ok().stdout;
    assert!(long.contains("LASTHOP_HOME") && long.contains("  fleet "), "{long}");
    assert!(long.trim_end().ends_with("lasthop run ./my-stack"), "{long}");
    let run = lasthop.run(["help", "run"]).ok().stdout;
    assert!(run.contains("--budget") && !run.contains("--ssh-option"), "{run}");
    let all = lasthop.run(["run", "--all", "--help"]).ok().stdout;
    assert!(all.contains("--ssh-option"), "{all}");
    let shown = lasthop.run(["show", "nginx-gunicorn-containers"]).ok().stdout;
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
}

/// Before anything starts, and with what to do.
#[test]
fn missing_packages_are_said() {
    needs!(have_setup("node-redis"));
    let lasthop = Lasthop::new();
    fs::remove_file(lasthop.home().join("npm")).unwrap();
    let why = "node: its npm packages are not installed; `lasthop setup node-redis` installs them";
    lasthop.run(["run", "node-redis"]).fails(1, why);
    let doctor = lasthop.run(["doctor", "node-redis"]);
    assert_eq!(doctor.code, Some(1));
    assert!(one_line(&doctor.stdout).contains(why), "{}", doctor.stdout);
}
