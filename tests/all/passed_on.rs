//! A record is made to be passed on. No file of it says whose machine it was made on, or where the user's home folder is.

use crate::common;

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, chown},
    path::{Path, PathBuf},
    process::Command,
};

use common::{Ran, have, needs, skip, words};
use serde_json::Value;
use tempfile::TempDir;

const HOST: &str = "host-that-no-record-names";
const HOME: &str = "home-that-no-record-names";
/// User and group of `nobody`.
const NOBODY: u32 = 65_534;

/// A home folder of a user on a machine of this name.
struct Place {
    folder: TempDir,
    user: u32,
}

impl Place {
    fn new(user: u32) -> Self {
        let folder = tempfile::Builder::new().prefix("lhp").tempdir_in("/tmp").unwrap();
        let place = Self { folder, user };
        fs::create_dir(place.home()).unwrap();
        for path in [place.folder.path(), &place.home()] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
            chown(path, Some(user), Some(user)).unwrap();
        }
        // The user may not be able to enter the folder of the build.
        fs::copy(env!("CARGO_BIN_EXE_lasthop"), place.program()).unwrap();
        place
    }

    fn home(&self) -> PathBuf {
        self.folder.path().join(HOME)
    }

    fn program(&self) -> PathBuf {
        self.home().join("lasthop")
    }

    fn run(&self, folder: &str, arguments: &[&str]) -> Ran {
        let script = format!(
            "hostname {HOST} && cd {folder:?} && exec setpriv --reuid={0} --regid={0} --clear-groups \"$@\"",
            self.user
        );
        let mut command = Command::new("unshare");
        command
            .args(["--uts", "sh", "-c", &script, "sh"])
            .arg(self.program())
            .args(arguments);
        command
            .env("HOME", self.home())
            .env_remove("LASTHOP_HOME")
            .env_remove("XDG_DATA_HOME");
        Ran::from(command.env("NO_COLOR", "1").env("LC_ALL", "C.UTF-8").output().unwrap())
    }

    fn record(&self) -> PathBuf {
        let runs = fs::read_dir(self.home().join(".local/share/lasthop/runs")).unwrap();
        runs.map(|entry| entry.unwrap().path()).max().unwrap()
    }
}

/// Each file of a record, and whether it has a text.
fn files_with(folder: &Path, text: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            found.extend(files_with(&entry, text));
        } else if fs::read(&entry)
            .unwrap()
            .windows(text.len())
            .any(|part| part == text.as_bytes())
        {
            found.push(entry);
        }
    }
    found
}

#[track_caller]
fn has_no_names(record: &Path) {
    for name in [HOME, HOST] {
        let found = files_with(record, name);
        let shown = found
            .first()
            .map(|file| String::from_utf8_lossy(&fs::read(file).unwrap()).into_owned());
        assert!(found.is_empty(), "{name}: {found:?}: {shown:?}");
    }
}

fn json(record: &Path, file: &str) -> Value {
    serde_json::from_slice(&fs::read(record.join(file)).unwrap()).unwrap()
}

#[test]
fn no_file_of_a_record_names_the_home_folder_or_the_host() {
    needs!(
        ["unshare", "setpriv", "hostname", "python3"].into_iter().all(have),
        rustix::process::geteuid().is_root() || skip("a name of the host needs root")
    );
    for user in [0, NOBODY] {
        let place = Place::new(user);
        let home = place.home().display().to_string();
        place.run(&home, &["new", "mine"]).ok();
        // The application says where and on what it runs.
        let app = place.home().join("mine/app/server.py");
        let says =
            "import sys\nprint(os.environ['HOME'], socket.gethostname(), file=sys.stderr, flush=True)\n\n\nclass Hello";
        let text = fs::read_to_string(&app).unwrap();
        fs::write(&app, text.replacen("class Hello", says, 1)).unwrap();
        let run = ["run", "./mine", "--trial=20ms", "--blocks=2", "--budget=3s", "-q"];
        let ran = place.run(&home, &run).ok();
        let record = place.record();
        has_no_names(&record);
        assert!(
            !files_with(&record, "~ (host)").is_empty(),
            "the log has what was said: {ran:?}"
        );
        let header = json(&record, "run.json");
        assert_eq!(header["origin"]["experiment"], "~/mine", "{header}");
        assert_eq!(header["command"][0], "~/lasthop");
        let environment = json(&record, "environment.json");
        assert!(
            environment["host"].as_str().unwrap().starts_with("machine-"),
            "{environment}"
        );

        // It is still the user's own, wherever lasthop is started, and what it names is found.
        let resumed = place.run("/", &["resume", "last", "--budget=3s", "-q"]).ok();
        assert!(!resumed.stderr.contains("somebody else"), "{resumed:?}");
        has_no_names(&record);
        let shown = place.run(&home, &["show", "last"]).ok().stdout;
        assert!(shown.contains(": command\n"), "{shown}");
        let report = place.run(&home, &["report", "last", "--format", "html"]).ok();
        assert!(!report.stdout.contains(HOST), "the page is passed on, too");

        let labelled = words("run sockets --only pattern=echo --trial=20ms --rounds=1 --blocks=2 -q");
        place
            .run(&home, &[&labelled[..], &["--label", "machine=blue"]].concat())
            .ok();
        assert_eq!(
            json(&place.record(), "environment.json")["host"],
            "blue",
            "a label is shown"
        );
        has_no_names(&place.record());
    }
}
