//! Bad input and bad circumstances: what is wrong, where, and what to do about it.

mod common;

use std::{fs, net::TcpListener, os::unix::fs::PermissionsExt};

use common::{Lasthop, have, have_python};

#[test]
fn an_unknown_experiment_gets_a_suggestion() {
    let lasthop = Lasthop::new();
    lasthop.run(["run", "nginx-gunicron"]).fails(2, "did you mean `nginx-gunicorn`?");
    lasthop.run(["show", "socket"]).fails(2, "did you mean `sockets`?");
}

#[test]
fn unknown_factors_and_levels_get_suggestions() {
    let lasthop = Lasthop::new();
    lasthop.run(["run", "--set", "transprot=unix"]).fails(2, "transport");
    lasthop.run(["run", "--only", "transport=unx"]).fails(2, "unix");
    lasthop.run(["run", "--set", "transport"]).fails(2, "factor=level");
    lasthop.run(["run", "--budget", "60"]).fails(2, "60");
    lasthop.run(["run", "--precision", "2"]).fails(2, "2%");
}

#[test]
fn a_typo_in_an_experiment_file_is_shown_in_its_place_with_all_others() {
    let lasthop = Lasthop::new();
    lasthop.run(["new", "mine"]).ok();
    let path = lasthop.home().join("mine/experiment.toml");
    let text = fs::read_to_string(&path).unwrap();
    let broken = text.replace("question =", "qestion =").replace("[load]", "[load]\nconections = 1");
    assert_ne!(text, broken);
    fs::write(&path, broken).unwrap();
    let ran = lasthop.run(["run", "./mine"]).fails(2, "did you mean `question`?");
    assert!(ran.stderr.contains("did you mean `connections`?"), "{}", ran.stderr);
    assert!(ran.stderr.contains("mine/experiment.toml:"), "{}", ran.stderr);
    assert!(lasthop.runs().is_empty(), "nothing was run");
}

#[test]
fn an_experiment_of_ones_own_runs_as_it_is() {
    let lasthop = Lasthop::new();
    lasthop.run(["new", "mine"]).ok();
    let ran = lasthop.run(["run", "./mine", "--budget", "2s", "--trial", "10ms", "--blocks", "2", "--format", "json"]);
    let summary = ran.ok().json();
    assert_eq!(summary["experiment"], "mine");
    assert_eq!(summary["failures"].as_array().unwrap().len(), 0);
    lasthop.run(["new", "mine"]).fails(2, "is there already");
    lasthop.run(["new", "My Stack"]).fails(2, "cannot be the name");
}

#[test]
fn a_missing_program_says_how_to_install_it() {
    let lasthop = Lasthop::new();
    let empty = tempfile::TempDir::new().unwrap();
    let missing = empty.path().join("nginx").display().to_string();
    let ran = lasthop.run(["run", "nginx-gunicorn", "--program", &format!("nginx={missing}")]).fails(1, &missing);
    assert!(ran.stderr.contains("nginx"), "{}", ran.stderr);
    // Not on PATH: the recipe also knows where distributions put it, so this test gives it a recipe that does not.
    lasthop.run(["new", "mine"]).ok();
    let recipe = lasthop.home().join("mine/services/nginx");
    fs::create_dir_all(&recipe).unwrap();
    let text = include_str!("../services/nginx/recipe.toml")
        .lines()
        .filter(|line| !line.starts_with("folders"))
        .fold(String::new(), |text, line| text + line + "\n");
    fs::write(recipe.join("recipe.toml"), text).unwrap();
    let stack = lasthop.home().join("stack");
    fs::create_dir_all(stack.join("services")).unwrap();
    for name in ["experiment.toml", "nginx.conf.j2"] {
        fs::copy(format!("{}/experiments/nginx-gunicorn/{name}", env!("CARGO_MANIFEST_DIR")), stack.join(name))
            .unwrap();
    }
    fs::create_dir(stack.join("app")).unwrap();
    fs::write(stack.join("app/application.py"), include_str!("../experiments/nginx-gunicorn/app/application.py"))
        .unwrap();
    fs::rename(&recipe, stack.join("services/nginx")).unwrap();
    let ran = lasthop.command(["run", "./stack"]).env("PATH", empty.path()).output().unwrap();
    let ran = common::Ran::from(ran).fails(1, "lasthop setup stack");
    assert!(ran.stderr.contains("nginx"), "{}", ran.stderr);
    lasthop.assert_nothing_left();
}

#[test]
fn a_read_only_data_folder_is_named() {
    let lasthop = Lasthop::new();
    // Root may write into a folder without write permission, but nobody can make a folder below a file.
    let file = lasthop.home().join("file");
    fs::write(&file, "").unwrap();
    let home = file.join("data");
    let output = lasthop.command(["run", "sockets", "--budget", "1s"]).env("LASTHOP_HOME", &home).output().unwrap();
    common::Ran::from(output).fails(1, "LASTHOP_HOME");
    lasthop.assert_nothing_left();
}

#[test]
fn a_socket_path_that_is_too_long_is_measured() {
    let lasthop = Lasthop::new();
    let deep = lasthop.sandboxes().join("a-directory-with-a-name-that-is-much-too-long".repeat(2));
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
    lasthop.assert_nothing_left();
}

#[test]
fn a_server_that_dies_at_start_shows_its_log() {
    if !have("nginx") || !have_python("nginx-gunicorn") {
        return;
    }
    let lasthop = Lasthop::new();
    let stack = lasthop.home().join("stack");
    fs::create_dir_all(stack.join("app")).unwrap();
    for name in ["experiment.toml", "nginx.conf.j2"] {
        fs::copy(format!("{}/experiments/nginx-gunicorn/{name}", env!("CARGO_MANIFEST_DIR")), stack.join(name))
            .unwrap();
    }
    fs::write(stack.join("app/application.py"), "raise RuntimeError('no such luck')\n").unwrap();
    let gunicorn = user_gunicorn();
    let ran = lasthop.run(["run", "./stack", "--budget", "3s", "--program", &format!("gunicorn={gunicorn}")]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stdout.contains("no such luck"), "{}", ran.stdout);
    assert!(ran.stdout.contains("gunicorn"), "{}", ran.stdout);
    lasthop.assert_nothing_left();
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
fn reports_of_unknown_runs_are_refused() {
    let lasthop = Lasthop::new();
    lasthop.run(["report"]).fails(2, "no run is recorded yet");
    lasthop.run(["run", "--budget", "1s", "--trial", "10ms", "--only", "transport=tcp", "--set", "pattern=echo"]).ok();
    lasthop.run(["report", "nonesuch"]).fails(2, "no run `nonesuch`");
    let run = lasthop.runs().pop().unwrap();
    fs::write(run.join("run.json"), "{").unwrap();
    lasthop.run(["report", "last"]).fails(1, "run.json:1: not a lasthop record");
    let runs = lasthop.run(["runs"]).ok();
    assert!(runs.stdout.contains("unreadable"), "{}", runs.stdout);
}
