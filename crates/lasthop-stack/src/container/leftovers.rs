//! Removes a run's containers, networks and volumes when it ends, however it ends. They are found by the label of its
//! sandbox, never by name or age.

use std::{
    cell::Cell,
    collections::BTreeSet,
    env, fs, io,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use lasthop_system::{command, files, interrupt};
use serde::{Deserialize, Serialize};

use super::{OWNER_LABEL, RUN_LABEL, SANDBOX_LABEL, dialect::DIALECTS, engine::Engine, owner};

/// Name of the file in a sandbox that records which engine the run uses.
const RECORD: &str = "engine.json";
/// The longest that one removal may take. An engine that hangs longer is not asked again.
const TIMEOUT: Duration = Duration::from_secs(25);
/// How long a daemon may take to finish what a killed client asked for.
const TRIES: usize = 20;
const PAUSE: Duration = Duration::from_millis(50);

/// What was removed from an engine, and what could not be removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    pub containers: usize,
    pub networks: usize,
    pub volumes: usize,
    /// What is still there, in words, as far as the engine lists it.
    pub left: Vec<String>,
}

impl Removed {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn add(&mut self, other: Self) {
        self.containers += other.containers;
        self.networks += other.networks;
        self.volumes += other.volumes;
        self.left.extend(other.left);
    }
}

/// The engine of a run, recorded in its sandbox for whoever must clean up.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    engine: Engine,
    variables: Vec<(String, String)>,
}

/// One who clears up.
struct Remover<'a> {
    record: &'a Record,
    hangs: Cell<bool>,
}

/// Records in the sandbox which engine is used. Call this before creating anything.
/// Errors: the file cannot be written.
pub fn announce(engine: &Engine, sandbox: &Path) -> io::Result<()> {
    // Of all engines, because `docker` may be podman by another name.
    let names = ["PATH", "HOME"]
        .iter()
        .chain(DIALECTS.iter().flat_map(|dialect| dialect.variables));
    let variables = names
        .filter_map(|name| Some(((*name).to_owned(), env::var(name).ok()?)))
        .collect();
    let record = Record {
        engine: engine.clone(),
        variables,
    };
    let hidden = sandbox.join(format!(".{RECORD}"));
    files::write_private(&hidden, &serde_json::to_vec(&record)?)?;
    fs::rename(hidden, sandbox.join(RECORD))
}

/// Removes containers, networks and volumes of the run with this sandbox. Does nothing if the run used no engine.
pub fn remove(sandbox: &Path) -> Removed {
    let _shield = interrupt::shield();
    let Some(record) = read(sandbox) else {
        return Removed::default();
    };
    let Some(run) = sandbox.file_name().and_then(|name| name.to_str()) else {
        return Removed::default();
    };
    let remover = Remover::new(&record);
    let removed = remover.remove_labelled(&format!("label={RUN_LABEL}={run}"));
    if !record.engine.rootless {
        remover.remove_chains(run);
    }
    removed
}

/// The client of the engine that the run with this sandbox uses.
pub fn client(sandbox: &Path) -> Option<PathBuf> {
    read(sandbox).map(|record| record.engine.program)
}

/// Removes what runs left behind whose sandbox is gone. Nothing else would remove it.
pub fn remove_orphans(engine: &Engine) -> Removed {
    let record = Record {
        engine: engine.clone(),
        variables: Vec::new(),
    };
    let mut removed = Removed::default();
    for sandbox in Remover::new(&record).orphans() {
        removed.add(Remover::new(&record).remove_labelled(&format!("label={SANDBOX_LABEL}={sandbox}")));
    }
    removed
}

fn read(sandbox: &Path) -> Option<Record> {
    serde_json::from_slice(&files::read(&sandbox.join(RECORD), files::SHORT).ok()?).ok()
}

impl<'a> Remover<'a> {
    fn new(record: &'a Record) -> Self {
        Self {
            record,
            hangs: Cell::new(false),
        }
    }

    /// Removes empty chains of the network, which is named like the run. iptables does not remove a chain in use.
    fn remove_chains(&self, network: &str) {
        for chain in (self.record.engine.dialect().chains)(network) {
            let mut command = Command::new("iptables");
            command.args(["-w", "-t", "nat", "-X", &chain]);
            command.envs(self.record.variables.iter().map(|(name, value)| (name, value)));
            // Usually there is none.
            let _ = command::run(command, TIMEOUT, command::Life::Bound);
        }
    }

    /// This user's sandboxes that labels name but that no longer exist.
    fn orphans(&self) -> Vec<String> {
        let filter = format!("label={OWNER_LABEL}={}", owner());
        let label = |list: &[&str], inspect: &[&str], path: &str| -> Vec<String> {
            let format = format!("{{{{index {path} \"{SANDBOX_LABEL}\"}}}}");
            let found = self
                .listed(&[list, &["--filter", &filter]].concat())
                .unwrap_or_default();
            let ask = |id: String| self.ask(&[inspect, &["--format", &format, &id]].concat());
            found
                .into_iter()
                .filter_map(ask)
                .map(|text| text.trim().to_owned())
                .collect()
        };
        let mut sandboxes = label(&["ps", "--all", "--quiet"], &["container", "inspect"], ".Config.Labels");
        sandboxes.extend(label(&["network", "ls", "--quiet"], &["network", "inspect"], ".Labels"));
        sandboxes.extend(label(&["volume", "ls", "--quiet"], &["volume", "inspect"], ".Labels"));
        sandboxes.sort_unstable();
        sandboxes.dedup();
        let is_gone = |path: &Path| path.is_absolute() && matches!(path.try_exists(), Ok(false));
        sandboxes.retain(|sandbox| is_gone(Path::new(sandbox)));
        sandboxes
    }

    fn remove_labelled(&self, filter: &str) -> Removed {
        let mut removed = Removed::default();
        let mut all = |what, list: &[&str], remove: &[&str]| {
            let (gone, left) = self.remove_all(&[list, &["--quiet", "--filter", filter]].concat(), remove);
            removed.left.extend(left.into_iter().map(|id| format!("{what} {id}")));
            gone
        };
        let containers = all("container", &["ps", "--all"], &self.record.engine.dialect().rm());
        let networks = all("network", &["network", "ls"], &["network", "rm"]);
        let volumes = all("volume", &["volume", "ls"], &["volume", "rm", "--force"]);
        Removed {
            containers,
            networks,
            volumes,
            ..removed
        }
    }

    /// Lists and removes until the list stays empty or the engine hangs. Returns how many were removed, and what
    /// remains.
    fn remove_all(&self, list: &[&str], remove: &[&str]) -> (usize, Vec<String>) {
        let mut seen = BTreeSet::new();
        let mut left = Vec::new();
        for _ in 0..TRIES {
            let Some(found) = self.listed(list) else { break };
            left = found;
            if left.is_empty() {
                break;
            }
            seen.extend(left.iter().cloned());
            // One at a time. podman would remove several in parallel, and netavark then leaves chains behind.
            let gone = |id: &String| self.ask(&[remove, &[id.as_str()]].concat()).is_some();
            if left.iter().filter(|id| !gone(id)).count() > 0 {
                std::thread::sleep(PAUSE);
            }
        }
        if self.hangs.get() && left.is_empty() {
            left.push(format!("that {} does not list", self.record.engine.kind.name()));
        }
        (seen.iter().filter(|id| !left.contains(id)).count(), left)
    }

    /// `None` if the engine does not answer.
    fn listed(&self, words: &[&str]) -> Option<Vec<String>> {
        Some(self.ask(words)?.split_ascii_whitespace().map(str::to_owned).collect())
    }

    fn ask(&self, words: &[&str]) -> Option<String> {
        let Record { engine, variables } = self.record;
        let mut command = Command::new(&engine.program);
        command
            .args(words)
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .current_dir("/");
        if self.hangs.get() {
            return None;
        }
        let ended = command::run(command, TIMEOUT, command::Life::Bound);
        self.hangs.set(
            ended
                .as_ref()
                .is_err_and(|error| error.kind() == io::ErrorKind::TimedOut),
        );
        let ended = ended.ok()?;
        ended.status.success().then_some(ended.output)
    }
}
