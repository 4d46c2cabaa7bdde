//! Containers that cannot start or die: the report names the error, the place, and the last lines of the container's
//! log.

use crate::common;

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
    process::Command,
};

use common::{
    BRIEF, Lasthop, Ran,
    engines::{World, have_engine},
    have, have_python, list, needs, output, shows,
};
use serde_json::Value;

const EXPERIMENT: &str = "redis-published-port";

fn built_in(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// A changed experiment in the world's home.
fn changed(lasthop: &Lasthop, change: impl Fn(String) -> String) -> PathBuf {
    let folder = lasthop.own_copy(EXPERIMENT);
    let file = folder.join("experiment.toml");
    fs::write(&file, change(fs::read_to_string(&file).unwrap())).unwrap();
    folder
}

/// Adds a recipe to the experiment's folder.
fn with_recipe(lasthop: &Lasthop, recipe: &str, text: &str) {
    let folder = lasthop
        .home()
        .join("experiments")
        .join(EXPERIMENT)
        .join("services")
        .join(recipe);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("recipe.toml"), text).unwrap();
}

fn short<'a>(engine: &'a str, paths: &'a str) -> Vec<&'a str> {
    short_of(EXPERIMENT, engine, paths)
}

fn short_of<'a>(experiment: &'a str, engine: &'a str, paths: &'a str) -> Vec<&'a str> {
    let which = ["run", experiment, "--engine", engine, "--only", paths];
    [&which[..], &["--set", "connections=1"], &BRIEF].concat()
}

/// Stage, cause and log of the failures, by case.
fn failures(ran: &Ran) -> BTreeMap<String, String> {
    let summary = ran.json();
    let text = |failure: &Value| {
        let part = |key: &str| failure[key].as_str().unwrap_or_default().to_owned();
        format!("{}: {}\n{}", part("stage"), part("cause"), part("log"))
    };
    let failures = list(&summary["failures"]).iter();
    failures
        .map(|failure| (failure["case"].as_str().unwrap().to_owned(), text(failure)))
        .collect()
}

/// A server on the host that holds the port at which the container's port is to be published.
const SQUATTER: &str = r#"
summary = "holds the port of another"
[program]
names = ["python3"]
version = { arguments = ["--version"], pattern = 'Python ([0-9.]+)' }
[listen.unix]
[settings.port]
help = "the port"
[start]
arguments = ["-c", """
import socket, sys
held = socket.socket()
held.bind(('127.0.0.1', int(sys.argv[1])))
own = socket.socket(socket.AF_UNIX)
own.bind(sys.argv[2])
own.listen()
while True: own.accept()
""", "{{ port }}", "{{ listen.path }}"]
[ready]
check = "connect"
"#;

fn a_taken_port(engine: &'static str, reason: &str) {
    needs!(have("redis-server"), have("python3"), have_engine(engine));
    let world = World::new(engine);
    changed(&world.lasthop, |text| {
        let squatter = "[services.squatter]\nrecipe = \"squatter\"\nlisten = \"unix\"\nsettings = { port = \"{{ redis.port }}\" }\n";
        text.replace(
            "[services.redis]\n",
            &format!("{squatter}\n[services.redis]\nneeds = [\"squatter\"]\n"),
        )
    });
    with_recipe(&world.lasthop, "squatter", SQUATTER);
    let ran = world.run(&short(engine, "path=published-port"));
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let failures = failures(&ran);
    let text = &failures["published-port"];
    shows(
        text,
        [
            "127.0.0.1:",
            "where its port was to be published, was taken meanwhile",
            reason,
        ],
    );

    // A server that also listened would be measured instead of the container's server.
    with_recipe(
        &world.lasthop,
        "squatter",
        &SQUATTER.replace("own = ", "held.listen()\nown = "),
    );
    let ran = world.run(&short(engine, "path=published-port"));
    let text = &self::failures(&ran)["published-port"];
    shows(
        text,
        ["is already answered by process ", "(`python3`); refusing to measure it"],
    );
    world.lasthop.assert_nothing_left();
}

#[test]
fn a_published_port_that_is_taken_is_named_with_its_owner_and_podmans_words() {
    a_taken_port("podman", "address already in use");
}

#[test]
fn a_published_port_that_is_taken_is_named_with_its_owner_and_dockers_words() {
    a_taken_port("docker", "address already in use");
}

fn an_end_at_once(engine: &'static str) {
    needs!(have("redis-server"), have_engine(engine));
    let world = World::new(engine);
    changed(&world.lasthop, |text| text);
    let recipe = fs::read_to_string(built_in("services/redis/recipe.toml")).unwrap();
    with_recipe(
        &world.lasthop,
        "redis",
        &recipe.replace(
            "redis.conf\", \"{{ listen }}\"",
            "redis.conf\", \"--no-such-thing\", \"1\"",
        ),
    );
    for file in ["redis.conf.j2", "set.sh.j2"] {
        let own = world
            .lasthop
            .home()
            .join("experiments")
            .join(EXPERIMENT)
            .join("services/redis");
        fs::copy(built_in("services/redis").join(file), own.join(file)).unwrap();
    }
    let ran = world.run(&short(engine, "path=published-port,shared-volume,no-container-tcp"));
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let failures = failures(&ran);
    for path in ["published-port", "shared-volume"] {
        shows(
            &failures[path],
            [
                "its container ended with status 1 before it was ready",
                "no-such-thing",
                "Bad directive",
            ],
        );
    }
    shows(&failures["no-container-tcp"], ["Bad directive"]);
    world.lasthop.assert_nothing_left();
}

#[test]
fn a_container_that_ends_at_once_shows_its_last_lines_with_podman() {
    an_end_at_once("podman");
}

#[test]
fn a_container_that_ends_at_once_shows_its_last_lines_with_docker() {
    an_end_at_once("docker");
}

/// No room for the image: the file system has little more space than the base image takes.
#[test]
fn an_image_that_cannot_be_stored_says_what_the_engine_said_and_leaves_nothing() {
    needs!(have("redis-server"), have_engine("podman"));
    let world = World::empty("podman");
    let graph = world.root().join("graph");
    fs::create_dir_all(&graph).unwrap();
    let size = ["-t", "tmpfs", "-o", "size=256m", "tmpfs"];
    output(world.inside("mount").args(size).arg(&graph));
    world.import_base();
    let folder = changed(&world.lasthop, |text| text);
    let large = "FROM debian:bookworm-slim\nRUN head --bytes=512M /dev/zero >/large\n";
    fs::write(folder.join("Containerfile"), large).unwrap();
    let ran = world.run(&short("podman", "path=bridge,no-container-tcp"));
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let failures = failures(&ran);
    shows(
        &failures["bridge"],
        ["locate: ", "cannot build the Containerfile", "No space left on device"],
    );
    assert!(!failures.contains_key("no-container-tcp"), "{failures:?}");
    world.lasthop.assert_nothing_left();
}

/// A user whom the engine refuses.
const NOBODY: u32 = 65_534;

/// lasthop as that user, who can reach the program and an own home.
fn as_nobody(world: &World, arguments: &[&str]) -> Ran {
    let place = tempfile::Builder::new().prefix("lhn").tempdir_in("/tmp").unwrap();
    let program = place.path().join("lasthop");
    fs::copy(env!("CARGO_BIN_EXE_lasthop"), &program).unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o711)).unwrap();
    for name in ["home", "sandboxes"] {
        fs::create_dir(place.path().join(name)).unwrap();
        chown(place.path().join(name), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let user = NOBODY.to_string();
    let mut command = world.inside("setpriv");
    command
        .args(["--reuid", &user, "--regid", &user, "--clear-groups"])
        .arg(&program)
        .args(arguments);
    command
        .env("LASTHOP_HOME", place.path().join("home"))
        .env("LASTHOP_SANDBOX", place.path().join("sandboxes"));
    command
        .env("HOME", place.path().join("home"))
        .env_remove("XDG_RUNTIME_DIR")
        .env_remove("XDG_DATA_HOME");
    let ran = Ran::from(command.stdin(std::process::Stdio::null()).output().unwrap());
    let left = fs::read_dir(place.path().join("sandboxes")).unwrap().count();
    assert_eq!(left, 0, "a sandbox is left");
    ran
}

#[test]
fn docker_whose_socket_may_not_be_opened_says_which_group_to_join() {
    needs!(have("redis-server"), have("setpriv"), have_engine("docker"));
    let world = World::new("docker");
    fs::set_permissions(world.root(), fs::Permissions::from_mode(0o711)).unwrap();
    let ran = as_nobody(&world, &short("docker", "path=bridge,no-container-tcp"));
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let failures = failures(&ran);
    shows(&failures["bridge"], ["permission denied", "join the group `docker`"]);
    assert!(
        !failures.contains_key("no-container-tcp"),
        "what needs no engine is measured: {failures:?}"
    );
}

/// A run with its sandbox on the test's own file system.
fn in_folder(world: &World, folder: &Path, arguments: &[&str]) -> Ran {
    let mut command = world.lasthop(arguments);
    Ran::from(command.env("LASTHOP_SANDBOX", folder).output().unwrap())
}

#[test]
fn a_shared_folder_that_cannot_hold_a_socket_is_named_before_a_container_starts() {
    needs!(
        have("redis-server"),
        have("nginx"),
        have_python("nginx-gunicorn-containers"),
        have("fusefat"),
        have("mkfs.vfat"),
        have_engine("podman")
    );
    let world = World::new("podman");
    let volume = short("podman", "path=shared-folder,bridge");

    // Too long for a socket's address, which has 107 bytes.
    let deep = world
        .lasthop
        .sandboxes()
        .join("a-folder-with-a-name-that-is-too-long-for-a-socket".repeat(2));
    fs::create_dir(&deep).unwrap();
    let ran = in_folder(&world, &deep, &volume);
    let long = failures(&ran);
    shows(&long["shared-folder"], ["the kernel allows 107", "LASTHOP_SANDBOX"]);
    assert!(!long.contains_key("bridge"), "a path over TCP does not mind: {long:?}");
    fs::remove_dir(&deep).unwrap();

    // A read-only file system.
    let read_only = world.root().join("read-only");
    fs::create_dir(&read_only).unwrap();
    let is_read_only = ["-t", "tmpfs", "-o", "ro", "tmpfs"];
    output(world.inside("mount").args(is_read_only).arg(&read_only));
    let ran = in_folder(&world, &read_only, &volume).fails(1, "Read-only file system");
    shows(
        &ran.stderr,
        [
            "cannot create a private directory in",
            "set LASTHOP_SANDBOX to a writable directory",
        ],
    );

    // A file system without sockets: FAT, as on a memory stick.
    let fat = world.root().join("fat");
    fs::create_dir(&fat).unwrap();
    let image = world.root().join("fat.image");
    fs::File::create(&image).unwrap().set_len(256 << 20).unwrap();
    output(Command::new("mkfs.vfat").arg(&image));
    output(world.inside("fusefat").args(["-o", "rw+"]).args([&image, &fat]));
    let paths = "path=shared-folder,no-container-unix,no-container-tcp";
    let ran = in_folder(&world, &fat, &short("podman", paths));
    for (path, unable) in failures(&ran) {
        // FAT has no owners either, and Redis does not run as root.
        shows(&unable, ["to the account that a server runs as", "set LASTHOP_SANDBOX"]);
        assert!(
            ["shared-folder", "no-container-unix", "no-container-tcp"].contains(&&path[..]),
            "{path}"
        );
    }
    let ran = in_folder(&world, &fat, &short_of("nginx-gunicorn-containers", "podman", paths));
    let unable = failures(&ran);
    shows(
        &unable["shared-folder"],
        ["cannot hold a Unix socket", "fuse", "LASTHOP_SANDBOX"],
    );
    for path in ["no-container-unix", "no-container-tcp"] {
        shows(
            &unable[path],
            ["to the account that a server runs as", "set LASTHOP_SANDBOX"],
        );
    }
    output(world.inside("umount").arg(&fat));
    world.lasthop.assert_nothing_left();
}
