//! Processes of the account that servers run as, which exchange what they can write for links to root's files, while root
//! starts servers.

use std::{
    collections::BTreeSet,
    fs,
    io::Write as _,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use tempfile::TempDir;

use super::NOBODY;

/// How many try at once.
const RACERS: usize = 2;

/// A race that goes on until it is judged.
pub struct Race {
    victims: TempDir,
    before: BTreeSet<String>,
    racers: Vec<Child>,
    over: Arc<AtomicBool>,
    telling: Option<thread::JoinHandle<()>>,
}

/// What was tried, and what came of it.
#[derive(Debug)]
pub struct Raced {
    /// Links that were made, and folders that were exchanged.
    pub tried: [u64; 2],
    /// What is otherwise than before, outside of the sandboxes.
    pub harm: Vec<String>,
}

impl Race {
    /// `command`: a program where the run is. Sandboxes are below `sandboxes`, victims will be below `outside`.
    pub fn start(sandboxes: &Path, outside: &Path, command: impl Fn(&str) -> Command) -> Self {
        let victims = tempfile::Builder::new().prefix("victims").tempdir_in(outside).unwrap();
        fs::set_permissions(victims.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let (folder, file) = (victims.path().join("folder"), victims.path().join("file"));
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        for path in [&file, &folder.join("file"), &folder.join("key.pem")] {
            fs::write(path, "root's own").unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
        }
        let before = state(victims.path());
        let user = NOBODY.to_string();
        let racer = |_| {
            let mut command = command("setpriv");
            command.args([
                "--reuid",
                &user,
                "--regid",
                &user,
                "--clear-groups",
                "/usr/bin/python3",
                "-c",
            ]);
            command
                .arg(include_str!("race.py"))
                .args([&folder, &file])
                .args(rendered());
            command
                .current_dir("/")
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap()
        };
        let mut racers: Vec<Child> = (0..RACERS).map(racer).collect();
        let mut inputs: Vec<_> = racers.iter_mut().map(|racer| racer.stdin.take().unwrap()).collect();
        let (over, sandboxes) = (Arc::new(AtomicBool::new(false)), sandboxes.to_owned());
        let is_over = Arc::clone(&over);
        let telling = thread::spawn(move || {
            let mut told = BTreeSet::new();
            while !is_over.load(Ordering::Relaxed) {
                let new: Vec<String> = places(&sandboxes).difference(&told).cloned().collect();
                for input in &mut inputs {
                    input.write_all(new.concat().as_bytes()).unwrap();
                }
                told.extend(new);
                thread::sleep(Duration::from_millis(5));
            }
        });
        Self {
            victims,
            before,
            racers,
            over,
            telling: Some(telling),
        }
    }

    /// Ends it.
    pub fn judge(mut self) -> Raced {
        self.over.store(true, Ordering::Relaxed);
        self.telling.take().unwrap().join().unwrap();
        let mut tried = [0; 2];
        for racer in std::mem::take(&mut self.racers) {
            let output = racer.wait_with_output().unwrap();
            let said = String::from_utf8(output.stdout).unwrap();
            for (sum, number) in tried.iter_mut().zip(said.split_whitespace()) {
                *sum += number.parse::<u64>().unwrap();
            }
        }
        let after = state(self.victims.path());
        let harm = self.before.symmetric_difference(&after).cloned().collect();
        Raced { tried, harm }
    }
}

impl Drop for Race {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for racer in &mut self.racers {
            let _ = racer.kill();
            let _ = racer.wait();
        }
    }
}

/// Names of files that recipes and experiments render.
fn rendered() -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders =
        ["services", "experiments"].map(|kind| names(&root.join(kind)).map(move |name| root.join(kind).join(name)));
    let files = folders
        .into_iter()
        .flatten()
        .flat_map(|folder| names(&folder).collect::<Vec<_>>());
    files.map(|name| name.trim_end_matches(".j2").to_owned()).collect()
}

/// What the racers are told of, as root sees it; the account itself would learn it from its own processes.
fn places(sandboxes: &Path) -> BTreeSet<String> {
    let mut places = BTreeSet::new();
    for sandbox in names(sandboxes).map(|name| sandboxes.join(name)) {
        let told = |place: String, folder: PathBuf| -> Vec<String> {
            names(&folder)
                .map(|name| format!("{} {place} {name}\n", sandbox.display()))
                .collect()
        };
        for part in names(&sandbox) {
            match part.split_once('.') {
                Some((round, stack)) if round.parse::<u32>().is_ok() => {
                    places.extend(told(format!("{round} {stack}"), sandbox.join(&part)));
                }
                _ if part == "cache" => places.extend(told(". .".to_owned(), sandbox.join(&part))),
                _ => {}
            }
        }
    }
    places
}

fn names(folder: &Path) -> impl Iterator<Item = String> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned())
}

/// Each file and folder with all that can be told of it, but when it was read.
fn state(folder: &Path) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for path in names(&folder).map(|name| folder.join(name)).chain([folder.clone()]) {
            let found = path.symlink_metadata().unwrap();
            let text = if found.is_file() {
                fs::read_to_string(&path).unwrap()
            } else {
                String::new()
            };
            let (mode, user, changed) = (found.mode(), found.uid(), (found.ctime(), found.ctime_nsec()));
            all.insert(format!(
                "{}: mode {mode:o}, user {user}, changed {changed:?}, `{text}`",
                path.display()
            ));
            if found.is_dir() && path != folder {
                folders.push(path);
            }
        }
    }
    all
}
