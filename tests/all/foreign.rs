//! Records that others made or changed, or that only resemble the user's own: they are shown, and nothing in them is
//! executed, followed or trusted without the user's consent.

use crate::common;

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    thread::JoinHandle,
};

use common::{Lasthop, Ran, lacks, needs, shows, signal};
use lasthop_fleet::wire::Sender;
use lasthop_load::serve::{Pattern, ServeSpec, Server, Stopper};
use lasthop_plan::plan::Plan;
use lasthop_trial::address::Address;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Two echo servers in this process, to be compared.
struct Echoes {
    folder: TempDir,
    servers: Vec<(Stopper, Option<JoinHandle<()>>)>,
}

impl Echoes {
    fn start() -> Self {
        let folder = tempfile::Builder::new().prefix("lhf").tempdir_in("/tmp").unwrap();
        let start = |name: &str| {
            let spec = ServeSpec {
                backlog: 64,
                ..ServeSpec::new(Pattern::Echo, Address::Unix(folder.path().join(name)))
            };
            let server = Server::bind(&spec).unwrap();
            (
                server.stopper().unwrap(),
                Some(std::thread::spawn(move || server.run().unwrap())),
            )
        };
        let servers = ["a", "b", "c"].map(start).into();
        Self { folder, servers }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn url(&self, name: &str) -> String {
        format!("echo+unix:{}", self.path(name))
    }
}

impl Drop for Echoes {
    fn drop(&mut self) {
        for (stopper, thread) in &mut self.servers {
            stopper.stop();
            thread.take().unwrap().join().unwrap();
        }
    }
}

/// The record of an interrupted comparison.
fn interrupted(lasthop: &Lasthop, echoes: &Echoes) -> PathBuf {
    let (a, b) = (echoes.url("a"), echoes.url("b"));
    let mut child = lasthop.start([
        "compare",
        &a,
        &b,
        "--restart",
        "true",
        "--trial=20ms",
        "--budget=60s",
        // So narrow that the run never completes.
        "--precision=0.01%",
        "-q",
    ]);
    lasthop.wait_for_lines(3);
    signal(&child, libc::SIGINT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    lasthop.wait_until_gone();
    lasthop.runs().pop().unwrap()
}

fn name(record: &Path) -> &str {
    record.file_name().unwrap().to_str().unwrap()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    fs::set_permissions(to, fs::Permissions::from_mode(0o700)).unwrap();
    common::copy(from, to);
}

fn altered(record: &Path, file: &str, alter: impl Fn(&mut Value)) {
    let path = record.join(file);
    let mut value: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    alter(&mut value);
    fs::write(&path, value.to_string()).unwrap();
}

/// Adds a command to a record that a stranger would want executed.
fn armed(record: &Path, mark: &Path) {
    let command = format!("touch {}", mark.display());
    altered(record, "run.json", |header| {
        header["given"]["restart"] = command.clone().into()
    });
}

/// A home with its own record, and a place for foreign records.
struct World {
    lasthop: Lasthop,
    echoes: Echoes,
    own: PathBuf,
    mark: PathBuf,
}

impl World {
    fn new() -> Self {
        let (lasthop, echoes) = (Lasthop::new(), Echoes::start());
        let own = interrupted(&lasthop, &echoes);
        let mark = lasthop.home().join("executed");
        Self {
            lasthop,
            echoes,
            own,
            mark,
        }
    }

    fn resume(&self, run: &str, more: &[&str]) -> Ran {
        self.lasthop
            .run(["resume", run, "--budget=2s", "-q"].iter().chain(more))
    }

    /// A copy of the user's record in the store, armed by a stranger under this name.
    fn stored(&self, name: &str) -> PathBuf {
        let record = self.lasthop.home().join("runs").join(name);
        copy(&self.own, &record);
        altered(&record, "run.json", |header| header["run"] = name.into());
        armed(&record, &self.mark);
        record
    }

    /// Asks to resume the record, and checks that it is shown and that nothing is executed.
    #[track_caller]
    fn is_asked(&self, run: &str, because: &str) {
        let ran = self.resume(run, &[]).fails(2, "may be somebody else's: ");
        for said in [because, "the command touch ", "--trust-record"] {
            assert!(ran.stderr.contains(said), "{run}: {said}: {}", ran.stderr);
        }
        assert!(!self.mark.exists(), "{run} was executed");
    }
}

#[test]
fn no_foreign_record_is_executed_unasked() {
    let world = World::new();
    let World { lasthop, own, mark, .. } = &world;
    let runs = lasthop.home().join("runs");
    let mut asked = 0;
    let mut is_asked = |run: &str, because: &str| {
        world.is_asked(run, because);
        asked += 1;
    };
    let not_as_now = "its run.json was not written here as it is now, or not under this name";

    // From a folder with an equal or another name, and through links.
    let folder = lasthop.home().join("given");
    copy(own, &folder);
    armed(&folder, mark);
    is_asked(folder.to_str().unwrap(), "it is not in your own store");
    is_asked("./given", "it is not in your own store");
    symlink(&folder, runs.join("20991231T235959-link-1")).unwrap();
    is_asked("20991231T235959-link-1", "it is not in your own store");
    fs::remove_file(runs.join("20991231T235959-link-1")).unwrap();
    // A folder named `last` is not the last run.
    let last = lasthop.home().join("last");
    copy(&folder, &last);
    is_asked("./last", "it is not in your own store");

    // Copies in the store: with a seal for another name, without a seal, with a seal by another key, and with garbage.
    let stored = world.stored("20261122T000000-sockets-7");
    is_asked(name(&stored), not_as_now);
    fs::remove_file(stored.join("seal")).unwrap();
    is_asked(
        name(&stored),
        "it has no seal: it was copied into your store, or made by an older lasthop",
    );
    for garbage in ["", "\n", "zz\n", &format!("{}\n", "0".repeat(64)), &"00\n".repeat(1000)] {
        fs::write(stored.join("seal"), garbage).unwrap();
        is_asked(name(&stored), not_as_now);
    }
    fs::write(stored.join("seal"), "0".repeat(1 << 20)).unwrap();
    is_asked(name(&stored), "its seal cannot be read: it is longer than");
    fs::remove_dir_all(&stored).unwrap();
    let theirs = World::new();
    armed(&theirs.own, mark);
    let taken = runs.join(name(&theirs.own));
    copy(&theirs.own, &taken);
    is_asked(name(&taken), not_as_now);
    // A name that sorts after all others, or contains no time, is never the last run.
    for late in ["20991231T235959-sockets-n1-7", "zzz"] {
        is_asked(name(&world.stored(late)), not_as_now);
    }

    // A Pod's log.
    let mut log = Vec::new();
    let sent = lasthop.home().join("sent/20261122T000001-sockets-n1-7");
    copy(own, &sent);
    altered(&sent, "run.json", |header| header["run"] = name(&sent).into());
    armed(&sent, mark);
    fs::remove_file(sent.join("environment.json")).unwrap();
    let sender = Sender::begin(name(&sent), &sent, &mut log);
    sender.unwrap().end(0).unwrap();
    fs::write(lasthop.home().join("log"), log).unwrap();
    lasthop.run(["fleet", "collect", "log"]).ok();
    is_asked(name(&sent), "it has no seal");

    // An own record is not trusted if others can write it, if it was changed, or if its key is lost or known.
    fs::set_permissions(own, fs::Permissions::from_mode(0o720)).unwrap();
    let mode = |ran: Ran| assert!(ran.stderr.contains("others can write to"), "{ran:?}");
    mode(world.resume(name(own), &[]).fails(2, "may be somebody else's: "));
    fs::set_permissions(own, fs::Permissions::from_mode(0o700)).unwrap();
    let [header, environment] = ["run.json", "environment.json"].map(|file| fs::read(own.join(file)).unwrap());
    let untouched = world.resume(name(own), &[]).ok();
    assert!(!untouched.stderr.contains("somebody else"), "{untouched:?}");
    armed(own, mark);
    is_asked(name(own), not_as_now);
    fs::write(own.join("run.json"), &header).unwrap();
    let foreign = |because: &str| drop(world.resume(name(own), &[]).fails(2, because));
    altered(own, "environment.json", |environment| {
        environment["kernel"] = "2.4".into()
    });
    foreign("its environment.json was not written here as it is now");
    fs::write(own.join("environment.json"), &environment).unwrap();
    let key = lasthop.home().join("key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    foreign("key cannot be used: it is not yours alone");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    fs::rename(&key, lasthop.home().join("kept")).unwrap();
    foreign("key cannot be used: No such file");
    fs::rename(lasthop.home().join("kept"), &key).unwrap();
    assert!(!mark.exists() && asked + 4 >= 20, "{asked}");

    // `last` is the user's own record despite all of these, which are listed as foreign.
    let last = lasthop.run(["report", "last", "--format", "json"]).ok().json();
    assert_eq!(last["run"], name(own));
    let listed = lasthop.run(["runs"]).ok().stdout;
    let lines = |run: &str| listed.lines().filter(|line| line.contains(run)).collect::<String>();
    assert!(lines(name(&sent)).contains("foreign"), "{listed}");
    assert!(!lines(name(own)).contains("foreign"), "{listed}");
    fs::remove_dir_all(own).unwrap();
    lasthop.run(["resume"]).fails(2, "no run in ");
}

/// The user can still decide to trust a record.
#[test]
fn a_record_that_is_trusted_is_executed_and_stays_foreign() {
    let world = World::new();
    let stored = world.stored("20261122T000000-sockets-7");
    world.resume(name(&stored), &["--trust-record"]).ok();
    assert!(world.mark.exists(), "the command is what was shown");
    fs::remove_file(&world.mark).unwrap();
    world.is_asked(name(&stored), "its run.json was not written here as it is now");
}

#[test]
fn the_question_shows_what_is_done_and_not_what_a_record_says() {
    let world = World::new();
    let stored = world.stored("20261122T000000-sockets-7");
    let told = |alter: &dyn Fn(&mut Value)| {
        altered(&stored, "run.json", |header| {
            let endpoints = header["given"]["endpoints"].as_object_mut().unwrap();
            alter(endpoints.values_mut().next().unwrap());
            // A consistent forgery, with the cases of the changed plan.
            let plan = Plan::of_given(serde_json::from_value(header["given"].clone()).unwrap()).unwrap();
            header["cases"] = serde_json::to_value(&plan.cases).unwrap();
            header["factors"] = serde_json::to_value(&plan.factors).unwrap();
        });
        let ran = world.resume(name(&stored), &[]);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        ran.stderr
    };
    let elsewhere = json!({ "unix": world.echoes.path("c") });
    let shown = told(&|endpoint| endpoint["spec"]["endpoint"]["address"] = elsewhere.clone());
    assert!(
        shown.contains(&format!(
            "load on unix:{}, which the record calls",
            world.echoes.path("c")
        )),
        "{shown}"
    );
    let http = |endpoint: &mut Value| {
        endpoint["spec"]["protocol"] = json!({ "http": {
            "path": "/containers/create?name=evil", "method": "POST", "host": "docker", "body": "{\"Privileged\":true}",
            "headers": [["X-Evil", "1"]], "expect": { "status": 200 },
        } });
        endpoint["spec"]["connections"] = 77.into();
    };
    let shown = told(&http);
    for part in [
        "/containers/create?name=evil",
        "\"POST\"",
        "docker",
        "Privileged",
        "X-Evil",
        "connections 77",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let postgres = |endpoint: &mut Value| {
        endpoint["url"] = "postgres://me@127.0.0.1/db".into();
        endpoint["secret"] = false.into();
        endpoint["spec"]["protocol"] = json!({ "postgres": {
            "user": "evil", "database": "theirs", "query": "select pg_read_file('/etc/passwd')",
        } });
        endpoint["spec"]["endpoint"]["tls"] = json!({ "server_name": "their.host", "authority": "/etc/shadow" });
    };
    let shown = told(&postgres);
    shows(&shown, ["evil", "theirs", "pg_read_file", "their.host", "/etc/shadow"]);
    // Another machine needs its own consent, as in `compare`, even for a trusted record.
    told(&|endpoint| endpoint["spec"]["endpoint"] = json!({ "address": { "tcp": "192.0.2.1:80" } }));
    world
        .resume(name(&stored), &["--trust-record"])
        .fails(2, "192.0.2.1 is not an address of this machine");
    let shown = world
        .resume(name(&stored), &["--remote"])
        .fails(2, "may be somebody else's")
        .stderr;
    assert!(shown.contains("load on 192.0.2.1:80"), "{shown}");
    assert!(!world.mark.exists());
}

#[test]
fn a_name_that_is_none_goes_nowhere() {
    let world = World::new();
    let World { lasthop, own, .. } = &world;
    let before = fs::read(own.join("environment.json")).unwrap();
    let evil = lasthop.home().join("evil");
    let hostile = [
        "99991231T000000-$(touch${IFS}tmp-PWNED)",
        "20991231T235959-sockets-n1-7",
        "a/b",
        "..",
        "-rf",
        ".hidden",
        "a b",
        "a\u{1b}[2J",
        "é",
        &format!("{}/environment.json", name(own)),
        &"x".repeat(250),
    ];
    for bad in hostile {
        let mut log = Vec::new();
        Sender::begin(bad, own, &mut log).unwrap().end(0).unwrap();
        fs::write(lasthop.home().join("log"), log).unwrap();
        lasthop
            .run(["fleet", "collect", "log"])
            .fails(1, "cannot be the name of a run");
        if bad != "20991231T235959-sockets-n1-7" {
            copy(own, &evil);
            altered(&evil, "run.json", |header| header["run"] = bad.into());
            lasthop.run(["report", "./evil"]).fails(1, "is not the name of a run");
        }
        if !bad.contains('/') && bad != ".." {
            let stored = lasthop.home().join("runs").join(bad);
            copy(own, &stored);
        }
    }
    assert_eq!(fs::read(own.join("environment.json")).unwrap(), before);
    let listed = lasthop.run(["runs"]).ok().stdout;
    lacks(&listed, ["PWNED", "-rf", ".hidden", "a b", "é"]);
    // No run is later than tomorrow: this name is listed before all others, and `diff` compares with the user's own
    // run.
    let places = ["20991231T235959-sockets-n1-7", name(own)].map(|run| listed.find(run).unwrap());
    assert!(places[0] < places[1], "{listed}");
    altered(
        &lasthop.home().join("runs/20991231T235959-sockets-n1-7"),
        "run.json",
        |header| header["run"] = "x".into(),
    );
    let compared = lasthop
        .run(["diff", "20991231T235959-sockets-n1-7", "--format", "json"])
        .ok()
        .json();
    assert_eq!(compared["new"]["run"], name(own), "{compared}");
    assert_eq!(
        lasthop.run(["report", "last", "--format", "json"]).ok().json()["run"],
        name(own)
    );
    // A record elsewhere is named by its folder, because the store may have another record of that name.
    let elsewhere = lasthop.home().join("it's mine");
    copy(own, &elsewhere);
    let text = lasthop.run(["report", "./it's mine"]).ok().stdout;
    shows(&text, ["lasthop report \"/", "it's mine\" "]);
}

/// The record of a run whose services left files.
fn with_files(lasthop: &Lasthop) -> PathBuf {
    lasthop.run(["new", "mine"]).ok();
    lasthop.run("run ./mine --rounds=1 --blocks=4 --trial=20ms --budget=30s -q".split(' '));
    let run = lasthop.runs().pop().unwrap();
    let folder = lasthop.home().join("given");
    copy(&run, &folder);
    folder
}

#[test]
fn no_link_or_pipe_of_a_record_is_followed_or_waited_for() {
    needs!(common::have("python3"));
    let lasthop = Lasthop::new();
    let record = with_files(&lasthop);
    let secret = lasthop.home().join("secret");
    fs::write(&secret, "root:*:SECRET").unwrap();
    let service = record.join("services/0/0");
    let service = fs::read_dir(service)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.is_dir())
        .unwrap();
    altered(&service, "place.json", |place| {
        place["files"] = json!(["evil.conf", "folder/secret"]);
    });
    let outputs = || {
        let page = lasthop.run(["report", "./given", "--format", "html"]).ok().stdout;
        let shown = lasthop.run(["show", "./given"]);
        (shown.stderr.clone(), [page, shown.stdout, shown.stderr].concat())
    };
    let evil = service.join("evil.conf");
    fs::write(&evil, "harmless").unwrap();
    fs::create_dir(service.join("folder")).unwrap();
    fs::write(service.join("folder/secret"), "harmless, too").unwrap();
    assert!(outputs().1.contains("harmless, too"), "regular files are shown");

    let make_pipe = |path: &Path| {
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    };
    for target in [
        secret.to_str().unwrap(),
        "/dev/zero",
        "../../../../run.json",
        "/proc/self/environ",
        "evil",
    ] {
        fs::remove_file(&evil).unwrap();
        symlink(target, &evil).unwrap();
        let (error, all) = outputs();
        assert!(
            error.contains("evil.conf is missing or cannot be read (a part of its path is a link"),
            "{target}: {error}"
        );
        assert!(!all.contains("SECRET") && !all.contains("LASTHOP_HOME="), "{target}");
    }
    fs::remove_file(&evil).unwrap();
    make_pipe(&evil);
    assert!(outputs().0.contains("it is not a regular file"));
    fs::remove_file(&evil).unwrap();
    fs::write(&evil, "a").unwrap();
    fs::File::options()
        .write(true)
        .open(&evil)
        .unwrap()
        .set_len(8 << 40)
        .unwrap();
    assert!(outputs().0.contains("it is longer than 1 MiB"));
    fs::write(&evil, "harmless").unwrap();
    fs::remove_dir_all(service.join("folder")).unwrap();
    symlink(lasthop.home(), service.join("folder")).unwrap();
    let (error, all) = outputs();
    assert!(
        error.contains("a part of its path is a link") && !all.contains("SECRET"),
        "{error}"
    );

    // The files of the record itself.
    for file in [
        "run.json",
        "environment.json",
        "trials.jsonl",
        "end.json",
        "headline.txt",
        "seal",
        "lock",
    ] {
        let path = record.join(file);
        let kept = fs::read(&path).unwrap();
        for kind in ["link", "pipe"] {
            fs::remove_file(&path).unwrap();
            if kind == "link" {
                symlink("/dev/zero", &path).unwrap()
            } else {
                make_pipe(&path)
            }
            let report = lasthop.run(["report", "./given"]);
            let read = !["headline.txt", "seal", "lock"].contains(&file);
            assert_eq!(report.code == Some(0), !read, "{file} is a {kind}: {report:?}");
        }
        fs::remove_file(&path).unwrap();
        fs::write(&path, kept).unwrap();
    }
}

#[test]
fn what_cannot_be_written_or_shown_is_said() {
    let world = World::new();
    let World { lasthop, own, .. } = &world;
    let mut shell = lasthop.command(["report", "last"]);
    shell = {
        let mut closed = std::process::Command::new("/bin/sh");
        closed
            .args(["-c", "exec \"$0\" report last >&-"])
            .arg(shell.get_program());
        closed
            .envs(shell.get_envs().filter_map(|(name, value)| Some((name, value?))))
            .current_dir(lasthop.home());
        closed
    };
    Ran::from(shell.output().unwrap()).fails(1, "cannot write the result: standard output is closed");

    // A round number that no run reaches would wrap around to 0.
    fs::create_dir_all(own.join("services/4294967295")).unwrap();
    world
        .resume(name(own), &[])
        .fails(2, "has a round number 4294967295, which no run reaches");
    fs::remove_dir(own.join("services/4294967295")).unwrap();

    // A stranger's command is quoted where users may copy it.
    let stored = world.stored("20261122T000000-sockets-7");
    altered(&stored, "run.json", |header| {
        header["command"] = json!(["lasthop", "compare", "a; touch x", "$(y)\nerror: z"]);
    });
    altered(&stored, "environment.json", |environment| {
        environment["kernel"] = "2.4".into()
    });
    let refused = world
        .resume(name(&stored), &["--trust-record"])
        .fails(2, "Start a new run instead")
        .stderr;
    shows(&refused, ["Start a new run instead: `lasthop compare 'a; touch x' "]);
    // Notes about other users' leftovers in /tmp may come first.
    let errors = refused.lines().filter(|line| line.starts_with("error:"));
    assert_eq!(errors.count(), 1, "{refused}");
}

/// Adds a text to the names of cases, everywhere in a record.
fn rename_cases(value: &mut Value, evil: &str) {
    match value {
        Value::Array(all) => all.iter_mut().for_each(|one| rename_cases(one, evil)),
        Value::Object(fields) => {
            for (key, field) in fields.iter_mut() {
                match field {
                    Value::String(name) if key == "case" || key == "reference" => name.push_str(evil),
                    Value::Object(by_case) if key == "cases" || key == "endpoints" || key == "headroom" => {
                        *by_case = by_case
                            .iter()
                            .map(|(name, one)| (format!("{name}{evil}"), one.clone()))
                            .collect();
                    }
                    field => rename_cases(field, evil),
                }
            }
        }
        _ => {}
    }
}

/// Every free text of a record: none affects the terminal.
#[test]
fn no_text_of_a_foreign_record_reaches_the_terminal_raw() {
    let world = World::new();
    let World { lasthop, own, .. } = &world;
    world.resume(name(own), &[]).ok();
    let evil = "x\u{1b}[2J\u{1b}]0;t\u{7}\u{9b}31m\r\u{202e}\u{8}error: y";
    let folders = ["one", "two"].map(|folder| lasthop.home().join(folder));
    for folder in &folders {
        copy(own, folder);
        altered(folder, "run.json", |header| {
            for text in ["name", "title", "question", "source", "from", "to"] {
                header["experiment"][text] = evil.into();
            }
            header["run"] = name(folder).into();
            header["lasthop"] = evil.into();
            header["command"] = json!(["lasthop", evil]);
            header["labels"] = json!({ "machine": format!("{evil}{}", name(folder)), evil: evil });
            header["differences"] = json!([]);
        });
        altered(folder, "environment.json", |environment| {
            for text in [
                "host",
                "cpu_model",
                "kernel",
                "architecture",
                "distribution",
                "virtualization",
            ] {
                environment[text] = format!("{evil}{}", name(folder)).into();
            }
            environment["sysctl"] = json!({ evil: format!("{evil}{}", name(folder)) });
            environment["programs"] = json!({ evil: { "path": evil, "version": format!("{evil}{}", name(folder)) } });
        });
        fs::write(folder.join("headline.txt"), evil).unwrap();
        altered(folder, "run.json", |header| rename_cases(header, evil));
        let trials = fs::read_to_string(folder.join("trials.jsonl")).unwrap();
        let rename = |line: &str| {
            let mut line: Value = serde_json::from_str(line).unwrap();
            rename_cases(&mut line, evil);
            format!("{line}\n")
        };
        fs::write(
            folder.join("trials.jsonl"),
            trials.lines().map(rename).collect::<String>(),
        )
        .unwrap();
    }
    let limit = ["--fail-if", "unix slower > 1%"];
    let commands: [&[&str]; 6] = [
        &["diff", "./one", "./two"],
        &["diff", "./one", "./two", "--verbose"],
        &["report", "./one", "./two"],
        &["report", "./one", "./two", "--by", "kernel"],
        &["report", "./one", "--verbose"],
        &["runs"],
    ];
    for command in commands {
        for more in [&[][..], &limit[..]] {
            let ran = lasthop.run(command.iter().chain(more));
            assert!(!more.is_empty() || ran.code == Some(0), "{command:?}: {ran:?}");
            for text in [&ran.stdout, &ran.stderr] {
                let raw = |letter: char| (letter.is_control() && letter != '\n') || letter == '\u{202e}';
                assert!(!text.contains(raw), "{command:?}: {text:?}");
                let forged = text.lines().skip(1).any(|line| line.starts_with("error: y"));
                assert!(!forged, "{command:?}: {text}");
            }
        }
    }
}
