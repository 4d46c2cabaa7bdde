//! The packages of a release, each in a root that contains only the package.
//!
//! They are made from the static executable of script/test (`script/static`), or found in the folder that
//! LASTHOP_RELEASE names, where script/release has put those of a release.

use crate::common;

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
};

use common::{
    Lasthop, Ran,
    engines::{World, have_engine, take_environment},
    have, lacks, needs, output, shows, skip, slow,
};
use lasthop_model::manager::MANAGERS;
use tempfile::TempDir;

/// The default experiment, with enough blocks to compare.
const RUN: [&str; 7] = ["run", "--budget", "8s", "--trial", "20ms", "--blocks", "2"];

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn executable() -> PathBuf {
    here().join("target/static/lasthop")
}

#[must_use]
fn ready() -> bool {
    let there = env::var_os("LASTHOP_RELEASE").is_some() || executable().is_file();
    (there || skip("there is no static executable; script/static builds it"))
        && ["unshare", "chroot", "ip", "dpkg-deb", "python3"].into_iter().all(have)
        && (rustix::process::geteuid().is_root() || skip("a root of the test's own needs root"))
}

fn package(kinds: &[&str], into: &Path) -> Command {
    let mut command = Command::new(here().join("script/package"));
    command
        .arg(executable())
        .arg("x86_64-linux-static")
        .args(kinds)
        .env("LASTHOP_PACKAGES", into)
        // The executable of the tests is much larger than that of a release.
        .env("DPKG_DEB_COMPRESSOR_LEVEL", "1");
    command
}

/// The folder of packages, made once.
fn packages() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        if let Some(folder) = env::var_os("LASTHOP_RELEASE") {
            return folder.into();
        }
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("packages");
        let _ = fs::remove_dir_all(&folder);
        output(&mut package(&["tarball", "wheel", "deb"], &folder));
        folder
    })
}

/// Packages with this ending that this machine can run.
fn named(end: &str) -> Vec<PathBuf> {
    let files = fs::read_dir(packages()).unwrap().map(|entry| entry.unwrap().path());
    let found: Vec<PathBuf> = files
        .filter(|path| {
            let name = path.file_name().unwrap().to_str().unwrap();
            name.ends_with(end) && (name.contains("x86_64") || name.contains("amd64"))
        })
        .collect();
    assert!(!found.is_empty(), "no {end} in {}", packages().display());
    found
}

/// Starts a command in a root with its own processes, network, /proc and /dev/null. Fails if a process outlives the
/// command.
const INSIDE: &str = r#"
mount -t proc proc "$0/proc" && mount -t tmpfs dev "$0/dev" && : >"$0/dev/null" || exit 98
mount --bind /dev/null "$0/dev/null" && ip link set lo up || exit 98
chroot "$0" "$@"
code=$?
waits=0
while set -- "$0"/proc/[0-9]*; [ $# -gt 1 ]; do
  [ $waits -lt 300 ] || { echo "left: $*" >&2; exit 99; }
  waits=$((waits + 1))
  sleep 0.1
done
exit $code
"#;

struct Root(TempDir);

impl Root {
    fn new() -> Self {
        let root = tempfile::Builder::new().prefix("lhp").tempdir_in("/tmp").unwrap();
        for folder in ["proc", "dev", "tmp", "home"] {
            fs::create_dir(root.path().join(folder)).unwrap();
        }
        Self(root)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// A root with an executable at `/lasthop`, and the libraries that every Linux has.
    fn with(executable: &Path) -> Self {
        let root = Self::new();
        fs::copy(executable, root.path().join("lasthop")).unwrap();
        root.bring_libraries_of(executable);
        root
    }

    fn bring_libraries_of(&self, executable: &Path) {
        let listed = Command::new("ldd").arg(executable).output().unwrap();
        let listed = String::from_utf8(listed.stdout).unwrap();
        for library in listed.split_whitespace().filter(|word| word.starts_with('/')) {
            let copy = self.path().join(&library[1..]);
            fs::create_dir_all(copy.parent().unwrap()).unwrap();
            fs::copy(library, copy).unwrap();
        }
    }

    fn command(&self, script: &str, words: &[&str]) -> Ran {
        let mut command = Command::new("unshare");
        command.args([
            "--mount",
            "--pid",
            "--net",
            "--fork",
            "--kill-child",
            "sh",
            "-c",
            script,
        ]);
        command
            .arg(self.path())
            .args(words)
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        Ran::from(command.env("HOME", "/home").stdin(Stdio::null()).output().unwrap())
    }

    fn run(&self, words: &[&str]) -> Ran {
        self.command(INSIDE, words)
    }

    /// Runs a command without /proc and /dev.
    fn run_bare(&self, words: &[&str]) -> Ran {
        self.command(r#"exec chroot "$0" "$@""#, words)
    }

    /// Checks that the default experiment runs, and leaves only its record.
    fn answers(&self, lasthop: &str) {
        let before = self.top();
        answered(self.run(&[&[lasthop][..], &RUN].concat()).ok());
        assert_eq!(self.top(), before);
        assert_eq!(
            fs::read_dir(self.path().join("tmp")).unwrap().count(),
            0,
            "a sandbox is left"
        );
    }

    fn top(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path()).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

#[track_caller]
fn answered(ran: Ran) {
    shows(&ran.stdout, ["sockets: Unix socket, TCP and TLS between two processes"]);
    shows(&ran.stdout, ["sure?\n"]);
    lacks(&ran.stdout, ["No answer"]);
}

#[test]
fn a_tarball_is_all_it_takes() {
    needs!(ready());
    for file in named(".tar.gz") {
        let root = Root::new();
        output(
            Command::new("tar")
                .arg("xzf")
                .arg(&file)
                .arg("-C")
                .arg(root.path())
                .arg("--strip-components=1"),
        );
        for wanted in [
            "LICENSE-MIT",
            "LICENSE-APACHE",
            "THIRD-PARTY.txt",
            "man/man1/lasthop.1",
            "completions/lasthop.zsh",
        ] {
            assert!(
                root.path().join(wanted).is_file(),
                "{wanted} is not in {}",
                file.display()
            );
        }
        let notices = fs::read_to_string(root.path().join("THIRD-PARTY.txt")).unwrap();
        shows(&notices, ["\nrustls "]);
        lacks(&notices, ["\nproptest "]);
        root.bring_libraries_of(&root.path().join("lasthop"));
        root.answers("/lasthop");
    }
    output(
        Command::new("sha256sum")
            .args(["--check", "--strict", "SHA256SUMS"])
            .current_dir(packages()),
    );
}

#[test]
fn a_wheel_installs_without_an_index() {
    needs!(ready());
    let folder = tempfile::tempdir().unwrap();
    let tool = |name: &str| folder.path().join("venv/bin").join(name);
    output(
        Command::new("python3")
            .args(["-m", "venv"])
            .arg(folder.path().join("venv")),
    );
    for wheel in named(".whl")
        .iter()
        .filter(|wheel| !wheel.to_str().unwrap().contains("-none-musllinux"))
    {
        output(
            Command::new(tool("pip"))
                .args(["install", "--no-index", "--quiet"])
                .arg(wheel),
        );
        Root::with(&tool("lasthop")).answers("/lasthop");
        output(Command::new(tool("pip")).args(["uninstall", "--yes", "--quiet", "lasthop"]));
        assert!(!tool("lasthop").exists());
    }
}

#[test]
fn uvx_runs_the_wheel() {
    let uvx = here().join("target/tools/bin/uvx");
    needs!(
        ready(),
        uvx.exists() || skip("uvx is missing; script/setup installs it")
    );
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new(uvx);
    command
        .args(["--no-index", "--no-config", "--find-links"])
        .arg(packages())
        .arg("lasthop")
        .args(RUN);
    command
        .env_clear()
        .env("PATH", env::var_os("PATH").unwrap())
        .env("HOME", home.path());
    let places = ["TMPDIR", "UV_CACHE_DIR", "LASTHOP_SANDBOX"];
    for place in places {
        fs::create_dir(home.path().join(place)).unwrap();
        command.env(place, home.path().join(place));
    }
    answered(Ran::from(command.output().unwrap()).ok());
    assert_eq!(
        fs::read_dir(home.path().join("LASTHOP_SANDBOX")).unwrap().count(),
        0,
        "a sandbox is left"
    );
}

#[test]
fn a_deb_installs_and_goes() {
    needs!(ready());
    for file in named(".deb") {
        let root = Root::new();
        let database = root.path().join("var/lib/dpkg");
        ["info", "updates"]
            .iter()
            .for_each(|folder| fs::create_dir_all(database.join(folder)).unwrap());
        fs::write(database.join("status"), "").unwrap();
        fs::create_dir_all(root.path().join("var/log")).unwrap();
        let dpkg = |words: &[&str]| {
            let mut command = Command::new("dpkg");
            command
                .arg(format!("--root={}", root.path().display()))
                .args(["--force-depends"])
                .args(words);
            output(command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"))
        };
        dpkg(&["--install", file.to_str().unwrap()]);
        let installed = dpkg(&["--listfiles", "lasthop"]);
        for wanted in [
            "/usr/share/man/man1/lasthop-run.1.gz",
            "/usr/share/bash-completion/completions/lasthop",
        ] {
            assert!(installed.contains(wanted), "{installed}");
        }
        root.bring_libraries_of(&root.path().join("usr/bin/lasthop"));
        root.answers("/usr/bin/lasthop");
        dpkg(&["--purge", "lasthop"]);
        assert!(!root.path().join("usr/bin/lasthop").exists() && !root.path().join("usr/share/doc/lasthop").exists());
    }
}

#[test]
fn the_image_runs_in_a_container() {
    needs!(ready(), have_engine("podman"));
    let world = World::empty("podman");
    let folder = world.root().join("packages");
    let archive = match env::var_os("LASTHOP_RELEASE") {
        Some(_) => named(".oci.tar").remove(0),
        None => {
            let made = package(&["image"], &folder);
            let mut inside = world.inside(made.get_program());
            output(inside.args(made.get_args()).env("LASTHOP_PACKAGES", &folder));
            assert_eq!(world.ask(&["images", "--quiet"]), "", "making it leaves an image");
            fs::read_dir(&folder)
                .unwrap()
                .map(|entry| entry.unwrap().path())
                .find(|path| path.extension().unwrap() == "tar")
                .unwrap()
        }
    };
    let loaded = world.ask(&["load", "--quiet", "--input", archive.to_str().unwrap()]);
    let image = loaded.trim().rsplit(' ').next().unwrap();
    let output = world.ask(&[&["run", "--rm", "--network=none", image][..], &RUN].concat());
    answered(Ran {
        code: Some(0),
        stdout: output,
        stderr: String::new(),
    });
    assert_eq!(world.ask(&["ps", "--all", "--quiet"]), "");
}

#[test]
fn a_root_with_the_executable_alone_gets_errors_that_say_what_to_do() {
    needs!(ready(), executable().exists() || skip("script/static has not run"));
    let root = Root::with(&executable());
    root.run_bare(&["/lasthop", "--version"]).ok();
    root.run_bare(&["/lasthop", "list"]).ok();
    root.run_bare(&["/lasthop", "run"])
        .fails(1, "mount /proc and /dev: there is no /proc/self, no /dev/null");
    let doctor = root.run(&["/lasthop", "doctor", "redis"]);
    let advice = "no package manager was found (apt, dnf, apk, pacman, brew)";
    assert_eq!(doctor.code, Some(1), "{doctor:?}");
    assert!(doctor.stdout.contains(advice), "{doctor:?}");
    for words in [
        &["/lasthop", "setup", "redis", "--yes"],
        &["/lasthop", "setup", "nginx-gunicorn", "--yes"],
    ] {
        root.run(words).fails(1, "cannot be installed by lasthop: ");
    }
    root.run(&["/lasthop", "setup", "--all", "--yes"]).fails(0, advice);
    root.run(&["/lasthop", "run", "redis"])
        .fails(1, "`redis-server` was not found; ");
    root.run(&["/lasthop", "load", "http://lasthop.test:1/"])
        .fails(2, "cannot find the address of `lasthop.test`");
}

/// For other sources glibc would load libraries of the machine, which a static executable cannot use.
#[test]
fn a_static_executable_finds_hosts_whatever_sources_the_machine_names() {
    needs!(ready(), executable().exists() || skip("script/static has not run"));
    let root = Root::with(&executable());
    fs::create_dir(root.path().join("etc")).unwrap();
    fs::write(
        root.path().join("etc/nsswitch.conf"),
        "hosts: mymachines resolve [!UNAVAIL=return] mdns4\n",
    )
    .unwrap();
    fs::write(root.path().join("etc/hosts"), "127.0.0.1 lasthop.test\n").unwrap();
    root.run(&["/lasthop", "load", "http://lasthop.test:1/"])
        .fails(1, "Connection refused");
}

/// The steps of action.yml on a runner: a report on the page of the job and in a file, and the check of limits.
#[test]
fn the_action_reports_and_holds_limits() {
    needs!(slow());
    let lasthop = Lasthop::new();
    let act = |command: &str, limits: &str| {
        let output = lasthop.home().join("output");
        let _ = fs::remove_file(&output);
        let plain = lasthop.command::<&str>([]);
        let mut action = Command::new(here().join("script/action"));
        take_environment(&mut action, &plain);
        let folders = [Path::new(env!("CARGO_BIN_EXE_lasthop")).parent().unwrap().into()];
        let path = env::join_paths(
            folders
                .into_iter()
                .chain(env::split_paths(&env::var_os("PATH").unwrap())),
        )
        .unwrap();
        action
            .env("PATH", path)
            .env("GITHUB_OUTPUT", &output)
            .env("RUNNER_TEMP", lasthop.home());
        action
            .current_dir(lasthop.home())
            .env("GITHUB_STEP_SUMMARY", lasthop.home().join("summary"));
        action
            .env("COMMAND", command)
            .env("BUDGET", "8s")
            .env("LIMITS", limits)
            .env("SETUP", "false");
        let ran = Ran::from(action.output().unwrap());
        (ran, fs::read_to_string(output).unwrap_or_default())
    };
    let command = "run sockets --only pattern=hello --trial '20ms' --blocks 2";
    let (ran, output) = act(command, "unix slower > 90%\n\ntls slower > 1%\n");
    ran.ok();
    let report = fs::read_to_string(lasthop.home().join("lasthop-report.md")).unwrap();
    shows(&report, ["| tls |", "tls slower > 1%"]);
    shows(&output, ["lasthop-report.md", "exceeded=true"]);
    shows(
        &fs::read_to_string(lasthop.home().join("summary")).unwrap(),
        ["| tls |"],
    );
    let (ran, output) = act(command, "unix slower > 90%");
    assert!(!output.contains("exceeded"), "{ran:?} {output}");
    ran.ok();
    // One block gives no ratio.
    let one = "run sockets --only pattern=hello --trial '20ms' --rounds 1 --blocks 1";
    let (ran, output) = act(one, "unix slower > 90%");
    ran.ok();
    shows(&output, ["not-judged=true", "report="]);
    // The repository's files are foreign: none may be executed because of its name.
    for module in ["shlex", "os", "venv", "ensurepip"] {
        let code = format!("open('executed-{module}', 'w')\n");
        fs::write(lasthop.home().join(format!("{module}.py")), code).unwrap();
    }
    let (ran, output) = act("clean; $(touch executed)\n::add-mask::a", "");
    assert_eq!((ran.code, output.as_str()), (Some(2), ""), "{ran:?}");
    assert!(!ran.stdout.contains("\n::"), "{ran:?}");
    let executed = |entry: io::Result<fs::DirEntry>| {
        let name = entry.unwrap().file_name();
        name.to_string_lossy().starts_with("executed")
    };
    assert!(!fs::read_dir(lasthop.home()).unwrap().any(executed));
    let (ran, _) = act("run sockets --only pattern=nothing", "");
    assert_eq!(ran.code, Some(2), "{ran:?}");
}

/// A `gh` with the functions that the action uses: existing comments, their filter by `jq`, and the posted text.
const GH: &str = r#"#!/bin/sh
case "$*" in
  *--paginate*) for last; do :; done; jq -r "$last" <comments ;;
  *) [ ! -e refused ] || { cat refused >&2; exit 1; } ;;
esac
case "$*" in
  *--paginate*) ;;
  *) echo "$*" >posted ;;
esac
"#;

#[test]
fn the_action_renews_its_own_comment_and_no_other() {
    needs!(have("jq"));
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name);
    common::executable(&at("gh"), GH);
    fs::write(at("report.md"), "Use the Unix socket.").unwrap();
    let post = |comments: &str| {
        fs::write(at("comments"), comments).unwrap();
        let path = env::join_paths(
            [folder.path().to_owned()]
                .into_iter()
                .chain(env::split_paths(&env::var_os("PATH").unwrap())),
        );
        let mut step = Command::new(here().join("script/comment"));
        step.current_dir(folder.path())
            .env("PATH", path.unwrap())
            .env("COMMAND", "run sockets");
        step.env("REPORT", at("report.md"))
            .env("NUMBER", "7")
            .env("GITHUB_REPOSITORY", "me/mine");
        Ran::from(step.output().unwrap())
    };
    let posted = |comments: &str| {
        post(comments).ok();
        fs::read_to_string(at("posted")).unwrap()
    };
    let comment =
        |id: u32, login: &str, body: &str| format!(r#"{{"id":{id},"user":{{"login":"{login}"}},"body":"{body}"}}"#);
    assert!(posted("[]").contains("repos/me/mine/issues/7/comments"));
    let made = fs::read_to_string(at("report.md.comment")).unwrap();
    let mark = made.lines().next().unwrap();
    let stranger = comment(1, "stranger", mark);
    assert!(
        !posted(&format!("[{stranger}]")).contains("PATCH"),
        "a comment of somebody else"
    );
    let own = comment(3, "github-actions[bot]", mark);
    let other = comment(2, "github-actions[bot]", "another");
    assert!(posted(&format!("[{stranger},{other},{own}]")).contains("--method PATCH repos/me/mine/issues/comments/3"));
    fs::write(at("refused"), "gh: Resource not accessible by integration (HTTP 403)").unwrap();
    let ran = post("[]").ok();
    assert!(
        ran.stdout.starts_with("::warning::lasthop: the token may not comment"),
        "{ran:?}"
    );
    fs::write(at("refused"), "gh: Not Found (HTTP 404)").unwrap();
    post("[]").fails(1, "HTTP 404");
}

/// Recipes without a package name for some package managers, and the reason.
const NAMELESS: [(&str, &str, &str); 10] = [
    (
        "apache",
        "dnf apk pacman brew",
        "the recipe knows where Debian keeps the modules",
    ),
    (
        "grpc-go",
        "dnf apk pacman brew",
        "the recipe knows where Debian keeps the packages of Go",
    ),
    ("pgpool", "dnf", "Fedora does not have it any more"),
    ("pgpool", "pacman", "only users of Arch package it"),
    (
        "php-fpm",
        "apk",
        "the version is part of the names of package and program",
    ),
    (
        "postgres",
        "brew",
        "the formulas have versions, and their programs are not on PATH",
    ),
    ("puma", "apk pacman brew", "it is a gem there"),
    ("redis", "pacman", "Arch has Valkey in its place"),
    ("thin", "dnf apk pacman brew", "it is a gem there"),
    ("uwsgi", "pacman brew", "its plugin has another name"),
];

#[test]
fn every_recipe_has_names_for_each_package_manager_or_a_reason() {
    let (mut named, mut wrong) = (0, Vec::new());
    for entry in fs::read_dir(here().join("services"))
        .unwrap()
        .map(Result::unwrap)
        .filter(|it| it.path().is_dir())
    {
        let text = fs::read_to_string(entry.path().join("recipe.toml")).unwrap();
        let recipe: toml::Table = text.parse().unwrap();
        let program = recipe["program"].as_table().unwrap();
        let packages = program.get("packages").and_then(toml::Value::as_table);
        // lasthop itself, programs that no manager has, and packages for pip.
        let Some(packages) = packages.filter(|packages| !packages.contains_key("python")) else {
            continue;
        };
        for manager in MANAGERS {
            let name = entry.file_name().into_string().unwrap();
            let reasons = NAMELESS
                .iter()
                .filter(|(of, managers, _)| *of == name && managers.contains(manager.name));
            let known = packages.contains_key(manager.name);
            named += usize::from(known);
            if usize::from(known) + reasons.count() != 1 {
                wrong.push(format!("{name}: {}", manager.name));
            }
        }
    }
    assert!(named > 70, "{named} names");
    assert!(wrong.is_empty(), "neither or both of a name and a reason: {wrong:?}");
}

/// The packages of the compiler and the machine are 300 MB.
#[test]
#[ignore = "it builds for another architecture and boots a machine, which takes a quarter of an hour; script/test --all"]
fn a_release_for_arm64_runs_in_a_machine_of_its_own() {
    let mut release = Command::new(here().join("script/release"));
    let told = output(release.args(["aarch64-linux-gnu", "aarch64-linux-static"]));
    assert!(told.contains("exit code 0"), "{told}");
    for package in [
        "aarch64-linux-gnu.tar.gz",
        "manylinux2014_aarch64.whl",
        "arm64.deb",
        "aarch64-linux-static.oci.tar",
    ] {
        assert!(told.contains(package), "{package}: {told}");
    }
}
