//! Failures in a container during a run: a server killed inside a container that it shares with another, and a
//! preparation that hangs.

use crate::common;

use std::{fs, path::Path, process::Stdio};

use common::{
    Ran,
    engines::{World, have_engine},
    eventually, have, have_python, lacks, list, needs, shows, words,
};

const EXPERIMENT: &str = "containers";

/// The number of a case's successful trials in the newest record.
fn trials(world: &World, case: &str) -> usize {
    let trials = world.lasthop.recorded("trial").into_iter();
    trials.filter(|trial| trial["case"] == case).count()
}

/// Waits for the first trial of a case in a newer run than the known ones.
#[track_caller]
fn wait_for_trial(world: &World, known: usize, case: &str) {
    eventually(&format!("a trial of {case}"), || {
        world.lasthop.runs().len() > known && trials(world, case) > 0
    });
}

/// Kills a program of the supervisor, inside its container.
fn kill_inside(world: &World, program: &str) {
    let names = world.ask(&["ps", "--format", "{{.Names}}"]);
    let name = names
        .split_whitespace()
        .find(|name| name.ends_with("-supervisor"))
        .expect("the container runs");
    let script = format!("kill -9 $(supervisorctl -c supervisord.conf pid {program})");
    world.ask(&["exec", name, "sh", "-c", &script]);
}

/// gunicorn's worker outlives its master and still replies; nothing replaces nginx. Either is a failure.
#[test]
fn a_server_killed_inside_a_combined_container_is_a_failure_and_said() {
    needs!(have("nginx"), have_python(EXPERIMENT), have_engine("podman"));
    let world = World::new("podman");
    let which = words("--engine podman --only path=combined-unix,no-container-tcp");
    let how = words("--rounds 1 --blocks 30 --trial 50ms --budget 60s --format json");
    for (program, other) in [("gunicorn", "nginx"), ("nginx", "gunicorn")] {
        let known = world.lasthop.runs().len();
        let mut command = world.lasthop(&[&["run", EXPERIMENT], &which[..], &how].concat());
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        wait_for_trial(&world, known, "combined-unix");
        kill_inside(&world, program);
        let ran = Ran::from(child.wait_with_output().unwrap());
        let summary = ran.json();
        let counts = ["combined-unix", "no-container-tcp"].map(|case| trials(&world, case));
        assert_eq!(ran.code, Some(1), "{counts:?} {ran:?}");
        let failures = list(&summary["failures"]);
        assert_eq!(failures.len(), 1, "{failures:?}");
        assert_eq!(
            (&failures[0]["case"], &failures[0]["stage"]),
            (&"combined-unix".into(), &"trial".into())
        );
        let cause = failures[0]["cause"].as_str().unwrap();
        shows(cause, [program, "SIGKILL"]);
        lacks(cause, [other]);
        let case = |name: &str| {
            list(&summary["cases"])
                .iter()
                .find(|case| case["case"] == name)
                .unwrap()
        };
        assert_eq!(case("combined-unix")["failed_trials"], 1);
        assert_eq!(case("no-container-tcp")["failed_trials"], 0);
        assert!(counts[0] < counts[1], "what is broken is measured no more: {counts:?}");
        let report = world.run(&["report", "last"]).ok().stdout;
        assert!(report.contains(program) && report.contains("SIGKILL"), "{report}");
        world.lasthop.assert_nothing_left();
    }
}

/// Killing only the engine's client would leave the container until the end of the run.
#[test]
fn the_container_of_a_preparation_that_hangs_is_gone_while_the_run_goes_on() {
    needs!(have("redis-server"), have_engine("podman"));
    let world = World::new("podman");
    let own = world.lasthop.own_copy("redis-published-port");
    let recipe = own.join("services/hanging");
    fs::create_dir_all(&recipe).unwrap();
    let built_in = |path: &str| {
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap_or_else(|error| panic!("{error}"))
    };
    let experiment = built_in("experiments/redis-published-port/experiment.toml");
    let chosen = "recipe = \"{{ 'redis' if path == 'no-container-tcp' else 'hanging' }}\"";
    fs::write(
        own.join("experiment.toml"),
        experiment.replace("recipe = \"redis\"", chosen),
    )
    .unwrap();
    for file in ["redis.conf.j2", "set.sh.j2"] {
        fs::write(recipe.join(file), built_in(&format!("services/redis/{file}"))).unwrap();
    }
    // A server, which never ends; a preparation has its own network.
    let hang = "[start]\nprepare = [[\"{{ program }}\", \"--bind\", \"127.0.0.1\"]]\nprepare_timeout = \"3s\"\n";
    fs::write(
        recipe.join("recipe.toml"),
        built_in("services/redis/recipe.toml").replace("[start]\n", hang),
    )
    .unwrap();
    let which = ["run", "redis-published-port", "--engine", "podman"];
    let cases = ["--only", "path=host-network,no-container-tcp", "--set", "connections=1"];
    let how = [
        "--rounds", "1", "--blocks", "10", "--trial", "50ms", "--budget", "60s", "--format", "json",
    ];
    let mut command = world.lasthop(&[&which[..], &cases, &how].concat());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for_trial(&world, 0, "no-container-tcp");
    let left = world.ask(&["ps", "--all", "--format", "{{.Names}} {{.Command}}"]);
    let ran = Ran::from(child.wait_with_output().unwrap());
    assert_eq!(left.trim(), "", "the run went on beside it");
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let failure = &ran.json()["failures"][0];
    assert_eq!(
        (&failure["case"], &failure["stage"]),
        (&"host-network".into(), &"prepare".into()),
        "{failure}"
    );
    let cause = failure["cause"].as_str().unwrap();
    assert!(
        cause.contains(" --bind 127.0.0.1` did not end within 3s (start.prepare_timeout of its recipe)"),
        "{cause}"
    );
    world.lasthop.assert_nothing_left();
}
