//! podman and the test's own dockerd, in their own namespaces: networks, rules and mounts end with the namespaces.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use tempfile::TempDir;

use super::{BRIEF, Lasthop, Ran, copy_with, have, marked, output, skip};

/// Private places for podman, and limits for containers that tests start themselves.
const CONTAINERS: &str = r#"
[containers]
default_ulimits = ["nofile=8192:8192", "nproc=8192:8192"]
[engine]
events_logger = "file"
tmp_dir = "ROOT/tmp"
[network]
network_backend = "netavark"
network_config_dir = "ROOT/networks"
"#;
const STORAGE: &str = "[storage]\ndriver = \"overlay\"\ngraphroot = \"ROOT/graph\"\nrunroot = \"ROOT/run\"\n";
/// A further store of images, which podman only reads.
const MORE_IMAGES: &str = "[storage.options]\nadditionalimagestores = [\"IMAGES\"]\n";

/// A script that mounts a sysfs of the network namespace, with the original cgroups. It ends at the end of its input.
const HOLD: &str = r#"set -e
mkdir -p "$1/cgroup"
mount --rbind /sys/fs/cgroup "$1/cgroup"
mount -t sysfs sysfs /sys
mount --rbind "$1/cgroup" /sys/fs/cgroup
mount -t tmpfs tmpfs /dev/shm
ip link set lo up
echo ready
read -r _ || true
"#;

/// The test's own engine, and a lasthop for it.
pub struct World {
    pub engine: &'static str,
    pub lasthop: Lasthop,
    root: TempDir,
    holder: Child,
    daemon: Option<Child>,
    /// Whether the engine's configuration names the private places.
    configured: bool,
    /// Declared last to be dropped last.
    _alone: Option<fs::File>,
}

/// Locked by a world of podman, which keeps the cgroups of all its containers in one place on the machine. Other tests
/// wait, even in another clone. dockerd gets a place for each world.
const PODMAN: &str = "/run/lasthop-test-podman.lock";

/// The base image of the built-in Containerfiles. script/base-image makes it from this machine's packages, because
/// tests cannot pull images.
const BASE: &str = "target/base.tar";

/// The images that worlds begin with, for each engine.
const IMAGES: &str = "target/images";

/// Where an engine keeps images, in the folder of its world.
fn store(engine: &str) -> &'static str {
    if engine == "podman" { "graph" } else { "data" }
}

/// The base image and the images of the built-in experiments, as an engine stores them. They are made once for a base
/// image, because making them takes longer than most tests. An experiment that cannot run here has no image.
fn images(engine: &'static str) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = here.join(IMAGES).join(engine);
    fs::create_dir_all(here.join(IMAGES)).unwrap();
    let making = fs::File::create(folder.with_extension("lock")).unwrap();
    making.lock().unwrap();
    let made = |path: &Path| fs::metadata(path).and_then(|found| found.modified()).ok();
    if made(&folder) < made(&here.join(BASE)) {
        let _ = fs::remove_dir_all(&folder);
        let mut world = World::with_base(engine);
        for experiment in ["containers", "nginx-gunicorn-containers", "redis-published-port"] {
            let which = ["run", experiment, "--engine", engine, "--only", "path=shared-volume"];
            world.run(&[&which[..], &["--no-headroom"], &BRIEF].concat());
        }
        world.end();
        output(Command::new("mv").arg(world.path(store(engine))).arg(&folder));
    }
    folder
}

/// Imports the base image into an engine, under its name in a registry.
fn import_base(mut engine: Command) {
    let input = fs::File::open(Path::new(env!("CARGO_MANIFEST_DIR")).join(BASE)).unwrap();
    let change = "ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    let name = "docker.io/library/debian:bookworm-slim";
    output(engine.args(["import", "--change", change, "-", name]).stdin(input));
}

/// Whether containers can be tested here with this engine.
#[must_use]
pub fn have_engine(engine: &str) -> bool {
    let tools: &[&str] = match engine {
        "podman" => &["podman", "runc", "conmon", "unshare", "nsenter", "ip", "iptables"],
        _ => &["dockerd", "docker", "unshare", "nsenter", "ip", "iptables"],
    };
    // SAFETY: geteuid has no preconditions.
    let root = unsafe { libc::geteuid() } == 0;
    let base = Path::new(env!("CARGO_MANIFEST_DIR")).join(BASE);
    tools.iter().all(|tool| have(tool))
        && (base.is_file() || skip("there is no base image; script/base-image makes it"))
        && (root || skip("namespaces of the test's own need root"))
}

impl World {
    /// A world whose engine has all images.
    pub fn new(engine: &'static str) -> Self {
        let images = images(engine);
        Self::create(engine, Some(&images))
    }

    /// A world with only the base image in the engine.
    pub fn with_base(engine: &'static str) -> Self {
        let world = Self::empty(engine);
        world.import_base();
        world
    }

    pub fn import_base(&self) {
        import_base(self.inside(self.engine));
    }

    pub fn empty(engine: &'static str) -> Self {
        Self::create(engine, None)
    }

    fn create(engine: &'static str, images: Option<&Path>) -> Self {
        let alone = (engine == "podman").then(|| fs::File::create(PODMAN).unwrap());
        if let Some(file) = &alone {
            file.lock().unwrap();
        }
        let root = tempfile::Builder::new().prefix("lhc").tempdir_in("/tmp").unwrap();
        let mut holder = Command::new("unshare")
            .args(["--net", "--mount", "--ipc", "sh", "-c", HOLD, "hold"])
            .arg(root.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(holder.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert_eq!(line, "ready\n", "the namespaces were not made");
        let more = match images {
            Some(folder) => MORE_IMAGES.replace("IMAGES", folder.to_str().unwrap()),
            None => String::new(),
        };
        let storage = STORAGE.to_owned() + &more;
        for (name, text) in [("containers.conf", CONTAINERS), ("storage.conf", &storage)] {
            fs::write(
                root.path().join(name),
                text.replace("ROOT", root.path().to_str().unwrap()),
            )
            .unwrap();
        }
        let mut world = Self {
            engine,
            lasthop: Lasthop::new(),
            root,
            holder,
            daemon: None,
            configured: true,
            _alone: alone,
        };
        if engine == "docker" {
            if let Some(folder) = images {
                copy_with("-aT", folder, &world.path(store(engine)));
            }
            world.start_daemon();
        }
        world
    }

    /// A world of podman without any configuration, with only the base image in its usual places.
    pub fn as_found() -> Self {
        let mut world = Self::empty("podman");
        world.configured = false;
        for place in [
            "/var/lib/containers",
            "/run/containers",
            "/run/libpod",
            "/etc/containers/networks",
        ] {
            let mounted = world
                .inside("sh")
                .args(["-c", "mkdir -p $0 && mount -t tmpfs tmpfs $0", place])
                .status();
            assert!(mounted.unwrap().success(), "{place} was not covered");
        }
        world.import_base();
        world
    }

    fn start_daemon(&mut self) {
        let at = |name: &str| self.path(name).display().to_string();
        let mut command = self.inside("dockerd");
        command.args([
            "--data-root",
            &at(store(self.engine)),
            "--exec-root",
            &at("exec"),
            "--pidfile",
            &at("pid"),
        ]);
        command.args(["--host", &format!("unix://{}", at("sock")), "--bridge=none"]);
        command.arg(format!("--cgroup-parent={}", self.cgroup()));
        let log = fs::File::create(self.path("dockerd.log")).unwrap();
        self.daemon = Some(
            command
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(log)
                .spawn()
                .unwrap(),
        );
        let deadline = Instant::now() + Duration::from_secs(60);
        while !self.inside("docker").arg("info").output().unwrap().status.success() {
            assert!(
                Instant::now() < deadline,
                "{}",
                fs::read_to_string(self.path("dockerd.log")).unwrap()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The folder of the world, for the engine's places and the test's files.
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// Pid of the process that keeps the namespaces.
    pub fn holder(&self) -> u32 {
        self.holder.id()
    }

    /// Ends the daemon and the namespaces.
    fn end(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            // `nsenter` has become dockerd: the pid is the daemon's.
            // SAFETY: the child is ours and not yet waited for, so its pid cannot have been reused.
            unsafe { libc::kill(daemon.id() as i32, libc::SIGTERM) };
            let _ = daemon.wait();
        }
        drop(self.holder.stdin.take());
        let _ = self.holder.wait();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn cgroup(&self) -> String {
        format!("/{}", self.root.path().file_name().unwrap().to_str().unwrap())
    }

    /// The mount namespace of the world.
    pub fn files(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/ns/mnt", self.holder.id()))
    }

    /// A command in the namespaces, with the engine's places in its environment.
    pub fn inside(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command
            .args([
                "--net",
                "--mount",
                "--ipc",
                "--target",
                &self.holder.id().to_string(),
                "--",
            ])
            .arg(program);
        if self.configured {
            command
                .env("CONTAINERS_CONF", self.path("containers.conf"))
                .env("CONTAINERS_STORAGE_CONF", self.path("storage.conf"))
                .env("DOCKER_HOST", format!("unix://{}", self.path("sock").display()));
        }
        command.current_dir("/");
        command
    }

    pub fn lasthop(&self, arguments: &[&str]) -> Command {
        self.lasthop_of(&self.lasthop, arguments)
    }

    /// A lasthop with its own home in this world.
    pub fn lasthop_of(&self, lasthop: &Lasthop, arguments: &[&str]) -> Command {
        let plain = lasthop.command(arguments);
        let mut command = self.inside(plain.get_program());
        command.args(plain.get_args()).stdin(Stdio::null());
        take_environment(&mut command, &plain);
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Ran {
        Ran::from(self.lasthop(arguments).output().unwrap())
    }

    /// Standard output of an engine's command.
    pub fn ask(&self, arguments: &[&str]) -> String {
        output(self.inside(self.engine).args(arguments))
    }

    /// Everything that a run could leave: objects of the engine, links, rules, mounts, cgroup folders.
    pub fn inventory(&self) -> BTreeMap<&'static str, Vec<String>> {
        let lines = |text: String| {
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        let tool = |program: &str, arguments: &[&str]| {
            let output = self.inside(program).args(arguments).output().unwrap();
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        let tables = ["filter", "nat", "mangle", "raw"];
        let chains = ["iptables", "ip6tables"]
            .iter()
            .flat_map(|program| tables.map(|table| (program, table)));
        let rules: String = chains
            .map(|(program, table)| {
                let rules = tool(program, &["-t", table, "-S"]);
                rules
                    .lines()
                    .map(|rule| format!("{program} {table} {rule}\n"))
                    .collect::<String>()
            })
            .collect();
        let links = tool("ip", &["-brief", "link"]);
        let mounts = tool("cat", &["/proc/self/mounts"]);
        let own = self.root.path().to_str().unwrap();
        let names = |text: String| {
            text.lines()
                .filter_map(|l| l.split('@').next()?.split(' ').next())
                .map(|l| format!("{l}\n"))
                .collect()
        };
        BTreeMap::from([
            (
                "containers",
                lines(self.ask(&["ps", "--all", "--format", "{{.ID}} {{.Names}}"])),
            ),
            ("networks", lines(self.ask(&["network", "ls", "--format", "{{.Name}}"]))),
            ("volumes", lines(self.ask(&["volume", "ls", "--format", "{{.Name}}"]))),
            ("links", lines(names(links))),
            ("rules", lines(rules)),
            (
                "mounts",
                lines(
                    mounts
                        .lines()
                        // dockerd keeps the network namespace of its first build.
                        .filter(|l| (l.contains("lasthop") || l.contains(own)) && !l.contains("/netns/default "))
                        .map(|l| format!("{l}\n"))
                        .collect(),
                ),
            ),
            ("cgroups", self.cgroup_folders()),
        ])
    }

    fn cgroup_folders(&self) -> Vec<String> {
        let parent = if self.engine == "podman" {
            "/libpod_parent".to_owned()
        } else {
            self.cgroup()
        };
        let controllers = fs::read_dir("/sys/fs/cgroup")
            .unwrap()
            .flatten()
            .map(|entry| entry.path());
        let roots = controllers.map(|folder| folder.join(&parent[1..]));
        let mut found: Vec<String> = roots
            .flat_map(|root| below(&root))
            .map(|path| path.display().to_string())
            .collect();
        found.sort();
        found
    }
}

/// A user without rights whom only this world knows, with subordinate ids and own places for podman.
pub struct Rootless<'a> {
    world: &'a World,
    /// Files that the user can reach: lasthop, a home, a runtime folder, sandboxes.
    place: TempDir,
}

const USER: &str = "lasthop-test";
/// A uid that is probably unused.
const USER_NUMBER: u32 = 60_123;

impl<'a> Rootless<'a> {
    /// Creates the user. `numbers`: whether the user has subordinate ids, without which podman cannot create
    /// containers.
    pub fn new(world: &'a World, numbers: bool) -> Self {
        fs::set_permissions(world.root(), fs::Permissions::from_mode(0o711)).unwrap();
        let place = tempfile::Builder::new().prefix("lhr").tempdir_in("/tmp").unwrap();
        let made = Self { world, place };
        let program = made.path("lasthop");
        fs::copy(env!("CARGO_BIN_EXE_lasthop"), program).unwrap();
        fs::set_permissions(made.place.path(), fs::Permissions::from_mode(0o711)).unwrap();
        for name in ["home", "sandboxes", "run", "tmp", "graph", "networks"] {
            fs::create_dir(made.path(name)).unwrap();
            std::os::unix::fs::chown(made.path(name), Some(USER_NUMBER), Some(USER_NUMBER)).unwrap();
            fs::set_permissions(made.path(name), fs::Permissions::from_mode(0o700)).unwrap();
        }
        for (name, text) in [("containers.conf", CONTAINERS), ("storage.conf", STORAGE)] {
            fs::write(
                made.path(name),
                text.replace("ROOT", made.place.path().to_str().unwrap()),
            )
            .unwrap();
        }
        let range = if numbers {
            format!("{USER}:2000000:65536\n")
        } else {
            String::new()
        };
        let home = made.path("home").display().to_string();
        made.shadow(
            "/etc/passwd",
            &format!("{USER}:x:{USER_NUMBER}:{USER_NUMBER}::{home}:/bin/sh\n"),
            true,
        );
        made.shadow("/etc/group", &format!("{USER}:x:{USER_NUMBER}:\n"), true);
        made.shadow("/etc/subuid", &range, false);
        made.shadow("/etc/subgid", &range, false);
        // Some machines let only root open the device.
        let tun = made.path("tun");
        made.tool(&["mknod", "--mode=666", tun.to_str().unwrap(), "c", "10", "200"]);
        made.tool(&["mount", "--bind", tun.to_str().unwrap(), "/dev/net/tun"]);
        if numbers {
            import_base(made.command("podman", &[]));
        }
        made
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn tool(&self, words: &[&str]) {
        output(self.world.inside(words[0]).args(&words[1..]));
    }

    /// Replaces a file of this machine by another text, in the world's mounts only.
    fn shadow(&self, file: &str, more: &str, keep: bool) {
        let old = if keep {
            fs::read_to_string(file).unwrap()
        } else {
            String::new()
        };
        let copy = self.path(file.rsplit('/').next().unwrap());
        fs::write(&copy, old + more).unwrap();
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o644)).unwrap();
        self.tool(&["mount", "--bind", copy.to_str().unwrap(), file]);
    }

    /// A command of the user, with the user's own places.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>, arguments: &[&str]) -> Command {
        let mut command = self.world.inside("setpriv");
        let user = USER_NUMBER.to_string();
        command
            .args(["--reuid", &user, "--regid", &user, "--clear-groups"])
            .arg(program)
            .args(arguments);
        command
            .env("LASTHOP_HOME", self.path("home/lasthop"))
            .env("LASTHOP_SANDBOX", self.path("sandboxes"));
        command
            .env("HOME", self.path("home"))
            .env("XDG_RUNTIME_DIR", self.path("run"))
            .env("NO_COLOR", "1");
        command
            .env("USER", USER)
            .env("LOGNAME", USER)
            .env_remove("XDG_DATA_HOME")
            .env_remove("XDG_CONFIG_HOME");
        command.env("CONTAINERS_CONF", self.path("containers.conf"));
        command.env("CONTAINERS_STORAGE_CONF", self.path("storage.conf"));
        command.stdin(Stdio::null());
        command
    }

    /// lasthop as this user.
    pub fn lasthop(&self, arguments: &[&str]) -> Command {
        self.command(self.path("lasthop"), arguments)
    }

    /// The processes of this user's lasthop, except the one that keeps podman's user namespace permanently.
    pub fn processes(&self) -> BTreeSet<String> {
        let mut found = marked(&self.path("sandboxes"));
        found.retain(|process| !process.contains("catatonit -P"));
        found
    }

    pub fn run(&self, arguments: &[&str]) -> Ran {
        let ran = Ran::from(self.lasthop(arguments).output().unwrap());
        let left = fs::read_dir(self.path("sandboxes")).unwrap().count();
        assert_eq!(left, 0, "a sandbox is left: {ran:?}");
        ran
    }

    /// Standard output of podman as this user.
    pub fn ask(&self, arguments: &[&str]) -> String {
        output(&mut self.command("podman", arguments))
    }
}

impl Drop for Rootless<'_> {
    fn drop(&mut self) {
        // Ends the process that keeps the user namespace, and removes files of subordinate ids.
        let _ = self.command("podman", &["system", "reset", "--force"]).output();
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.end();
        remove_empty(Path::new("/sys/fs/cgroup"), &self.cgroup());
    }
}

/// All folders below a folder.
fn below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    let folders = entries.filter(|path| path.is_dir() && !path.is_symlink());
    folders
        .flat_map(|path| std::iter::once(path.clone()).chain(below(&path)))
        .collect()
}

/// Removes the empty parent cgroups that dockerd leaves.
fn remove_empty(controllers: &Path, name: &str) {
    for controller in fs::read_dir(controllers).into_iter().flatten().flatten() {
        let _ = fs::remove_dir(controller.path().join(&name[1..]));
    }
    let _ = fs::remove_dir(controllers.join(&name[1..]));
}

/// Copies the environment changes of another command.
pub fn take_environment(command: &mut Command, other: &Command) {
    for (name, value) in other.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
}
