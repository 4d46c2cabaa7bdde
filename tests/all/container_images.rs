//! The image of a run from the experiment's own Containerfile: built from local files, and cached by content.

use crate::common;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use common::{
    Ran,
    engines::{World, have_engine},
    have, needs, shows, words,
};
use serde_json::Value;

const EXPERIMENT: &str = "redis-published-port";

/// The experiment in the world's home, with the test's own Containerfile or none.
fn with_containerfile(world: &World, containerfile: Option<&str>) -> PathBuf {
    let folder = world.lasthop.own_copy(EXPERIMENT);
    let file = folder.join("Containerfile");
    match containerfile {
        Some(text) => fs::write(file, text).unwrap(),
        None => drop(fs::remove_file(file)),
    }
    folder
}

fn run(world: &World, paths: &str) -> Ran {
    let which = format!(
        "run {EXPERIMENT} --engine {} --only path={paths} --set connections=1",
        world.engine
    );
    let short = words("--budget 2s --trial 20ms --blocks 2 --rounds 1 --format json");
    world.run(&[words(&which), short].concat())
}

fn programs(ran: &Ran) -> BTreeMap<String, Value> {
    let summary = ran.json();
    let programs = summary["environment"]["programs"].as_object().unwrap();
    programs
        .iter()
        .map(|(name, program)| (name.clone(), program.clone()))
        .collect()
}

fn lasthops_images(world: &World) -> Vec<String> {
    let text = world.ask(&["images", "--format", "{{.Repository}}:{{.Tag}}"]);
    let mut names: Vec<String> = text
        .lines()
        .filter(|name| name.starts_with("localhost/lasthop:"))
        .map(str::to_owned)
        .collect();
    names.sort();
    names
}

/// Without any registry, the error names the remedy, and cases without an image are measured.
fn a_base_that_is_not_here(world: &World) {
    with_containerfile(world, Some("FROM debian:of-nobody\n"));
    let ran = run(world, "bridge,no-container-tcp").fails(1, "debian:of-nobody");
    let failures = ran.json()["failures"].clone();
    assert_eq!(failures.as_array().unwrap().len(), 1, "{failures}");
    let text = failures[0]["cause"].as_str().unwrap();
    for part in [
        "is not on this machine and cannot be pulled",
        "load it here from a machine that can",
    ] {
        assert!(text.contains(part), "`{part}` is not in {text}");
    }
}

/// Builds the built-in Containerfile. Its image is the base of the next test.
fn as_it_is(world: &World) -> String {
    world.lasthop.own_copy(EXPERIMENT);
    let ran = run(world, "bridge,shared-volume").ok();
    programs(&ran)["image"]["path"].as_str().unwrap().to_owned()
}

fn a_local_base(world: &World, base: &str) {
    let containerfile = format!("FROM {base} AS first\nFROM first\nRUN ln -s redis-server /usr/bin/here-only\n");
    let folder = with_containerfile(world, Some(&containerfile));
    // A program that this machine lacks comes with the image.
    let recipe = folder.join("services/redis");
    fs::create_dir_all(&recipe).unwrap();
    let built_in = Path::new(env!("CARGO_MANIFEST_DIR")).join("services/redis");
    let text = fs::read_to_string(built_in.join("recipe.toml")).unwrap();
    fs::write(
        recipe.join("recipe.toml"),
        text.replace("\"redis-server\"]\nversion", "\"here-only\"]\nversion")
            .replace("{{ program_folder }}/redis-cli", "/usr/bin/redis-cli"),
    )
    .unwrap();
    for file in ["redis.conf.j2", "set.sh.j2"] {
        fs::copy(built_in.join(file), recipe.join(file)).unwrap();
    }
    let ran = run(world, "bridge,shared-volume").ok();
    assert_eq!(ran.json()["failures"], serde_json::json!([]));
    let programs = programs(&ran);
    assert_eq!(programs["image"]["version"], "from the experiment's Containerfile");
    assert_eq!(programs["redis, in the image"]["path"], "/usr/bin/here-only");
    let images = lasthops_images(world);
    assert_eq!(images.len(), 2, "{images:?}");
    run(world, "bridge").ok();
    assert_eq!(lasthops_images(world), images, "the same content is the same image");
    fs::remove_dir_all(folder.join("services")).unwrap();
}

/// An image from scratch, made only of local files.
fn from_scratch(world: &World, base: &str) {
    let folder = with_containerfile(world, Some("FROM scratch\nADD root.tar /\n"));
    let container = world.ask(&["create", "--network=none", base, "true"]).trim().to_owned();
    world.ask(&[
        "export",
        "--output",
        folder.join("root.tar").to_str().unwrap(),
        &container,
    ]);
    world.ask(&["rm", &container]);
    let ran = run(world, "shared-folder").ok();
    let program = programs(&ran)["redis, in the image"].clone();
    assert_eq!(program["version"], programs(&ran)["redis"]["version"], "{program}");
    fs::remove_file(folder.join("root.tar")).unwrap();
}

fn a_failing_build(world: &World, base: &str) {
    let script = "for line in 1 2 3; do echo step $line; done; echo the disk is haunted >&2; exit 7";
    with_containerfile(world, Some(&format!("FROM {base}\nRUN {script}\n")));
    let before = world.inventory();
    let ran = run(world, "bridge,no-container-tcp");
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let failures = ran.json()["failures"].clone();
    let text = failures[0]["cause"].as_str().unwrap();
    for part in [
        "cannot build the Containerfile (exit status: ",
        "the disk is haunted",
        "7",
    ] {
        assert!(text.contains(part), "`{part}` is not in {text}");
    }
    assert_eq!(
        (failures[0]["case"].as_str(), failures.as_array().unwrap().len()),
        (Some("bridge"), 1),
        "{failures}"
    );
    assert_eq!(world.inventory(), before);
}

fn a_program_that_is_not_there(world: &World, base: &str) {
    with_containerfile(
        world,
        Some(&format!(
            "FROM {base}\nRUN rm -f /usr/bin/redis-server /usr/bin/redis-check-rdb\n"
        )),
    );
    let ran = run(world, "bridge");
    let text = ran.json()["failures"][0]["cause"].as_str().unwrap().to_owned();
    assert!(
        text.contains("the image built from the Containerfile lacks `redis`")
            && text.contains("add it to the Containerfile"),
        "{text}"
    );
    with_containerfile(world, None);
    fs::remove_file(
        world
            .lasthop
            .home()
            .join("experiments")
            .join(EXPERIMENT)
            .join("Containerfile"),
    )
    .unwrap_err();
    let none = run(world, "bridge");
    shows(
        none.json()["failures"][0]["cause"].as_str().unwrap(),
        ["no file `Containerfile`"],
    );
}

fn every_way(engine: &'static str) {
    needs!(have("redis-server"), have_engine(engine));
    let world = World::with_base(engine);
    a_base_that_is_not_here(&world);
    let base = as_it_is(&world);
    a_local_base(&world, &base);
    a_failing_build(&world, &base);
    a_program_that_is_not_there(&world, &base);
    from_scratch(&world, &base);
    world.lasthop.assert_nothing_left();
    let left = world.inventory();
    assert!(left["containers"].is_empty() && left["volumes"].is_empty(), "{left:?}");
}

#[test]
fn images_are_made_by_a_containerfile_with_podman() {
    every_way("podman");
}

#[test]
fn images_are_made_by_a_containerfile_with_docker() {
    every_way("docker");
}

/// A built-in Containerfile installs the packages that the experiment and its recipes name.
#[test]
fn built_in_containerfiles_install_what_recipes_name() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (experiment, recipes) in [
        ("containers", &["nginx", "haproxy", "supervisor", "gunicorn"][..]),
        ("nginx-gunicorn-containers", &["gunicorn"]),
        (EXPERIMENT, &["redis"]),
    ] {
        let folder = root.join("experiments").join(experiment);
        let containerfile = fs::read_to_string(folder.join("Containerfile")).unwrap();
        let files = recipes
            .iter()
            .map(|recipe| root.join("services").join(recipe).join("recipe.toml"));
        for file in files.chain([folder.join("experiment.toml")]) {
            let text = fs::read_to_string(file).unwrap();
            let quoted = text
                .split('"')
                .filter(|word| word.contains("==") && !word.contains(' '));
            for pinned in quoted {
                assert!(containerfile.contains(pinned), "{experiment}: {pinned}");
            }
        }
    }
}
