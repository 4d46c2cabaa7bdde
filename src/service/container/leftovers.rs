//! What is removed when a run ends, however it ends: found by the label of its sandbox, never by name or age.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::{
    RUN_LABEL, SANDBOX_LABEL,
    engine::{Engine, Kind},
};
use crate::service::brief;

/// Name of the file in a sandbox that says which engine its run uses.
const RECORD: &str = "engine.json";
/// The longest that one removal may take.
const TIMEOUT: Duration = Duration::from_secs(60);
/// A daemon may still finish what a killed client had asked for.
const TRIES: usize = 20;
const PAUSE: Duration = Duration::from_millis(50);
/// Variables that decide which engine a client talks to, and where podman keeps things.
const VARIABLES: [&str; 12] = [
    "PATH",
    "HOME",
    "DOCKER_HOST",
    "DOCKER_CONTEXT",
    "DOCKER_CONFIG",
    "DOCKER_CERT_PATH",
    "DOCKER_TLS_VERIFY",
    "CONTAINERS_CONF",
    "CONTAINERS_STORAGE_CONF",
    "CONTAINER_HOST",
    "XDG_RUNTIME_DIR",
    "XDG_DATA_HOME",
];

/// What is left of a run in one engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    pub containers: usize,
    pub networks: usize,
    pub volumes: usize,
}

impl Removed {
    #[must_use]
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }
}

/// The engine of a run as its sandbox keeps it, for whoever must clean up after it.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    engine: Engine,
    variables: Vec<(String, String)>,
}

/// Says in the sandbox which engine is used: before the first thing is made.
///
/// # Errors
/// The file cannot be written.
pub fn announce(engine: &Engine, sandbox: &Path) -> io::Result<()> {
    let variables = VARIABLES.iter().filter_map(|name| Some(((*name).to_owned(), env::var(name).ok()?))).collect();
    let record = Record { engine: engine.clone(), variables };
    let hidden = sandbox.join(format!(".{RECORD}"));
    fs::write(&hidden, serde_json::to_vec(&record)?)?;
    fs::rename(hidden, sandbox.join(RECORD))
}

/// Removes containers, networks and volumes of the run with this sandbox. Where it used no engine nothing is asked.
pub fn remove(sandbox: &Path) -> Removed {
    let Some(record) = read(sandbox) else { return Removed::default() };
    let Some(run) = sandbox.file_name().and_then(|name| name.to_str()) else { return Removed::default() };
    let removed = remove_labelled(&record, &format!("label={RUN_LABEL}={run}"));
    if record.engine.kind == Kind::Podman && !record.engine.rootless {
        remove_chains(&record, run);
    }
    removed
}

/// netavark (seen with 1.4) now and then leaves the chains of a network with several published ports, empty. They are named by
/// the SHA-512 of the network's name, which is the run's; and iptables removes no chain that is used.
fn remove_chains(record: &Record, network: &str) {
    let digest = ring::digest::digest(&ring::digest::SHA512, network.as_bytes());
    let hash: String = digest.as_ref().iter().map(|byte| format!("{byte:02X}")).collect();
    for chain in [format!("NETAVARK-DN-{}", &hash[..13]), format!("NETAVARK-{}", &hash[..13])] {
        let mut command = Command::new("iptables");
        command.args(["-w", "-t", "nat", "-X", &chain]);
        command.envs(record.variables.iter().map(|(name, value)| (name, value)));
        // There is none, as a rule.
        let _ = brief::run(command, TIMEOUT);
    }
}

/// The client of the engine that the run with this sandbox uses.
#[must_use]
pub fn client(sandbox: &Path) -> Option<PathBuf> {
    read(sandbox).map(|record| record.engine.program)
}

/// Removes what runs have left whose sandbox is gone: nobody else will.
pub fn remove_orphans(engine: &Engine) -> Removed {
    let record = Record { engine: engine.clone(), variables: Vec::new() };
    let mut removed = Removed::default();
    for sandbox in orphans(&record) {
        let one = remove_labelled(&record, &format!("label={SANDBOX_LABEL}={sandbox}"));
        removed.containers += one.containers;
        removed.networks += one.networks;
        removed.volumes += one.volumes;
    }
    removed
}

/// Sandboxes that labels name and that do not exist.
fn orphans(record: &Record) -> Vec<String> {
    let filter = format!("label={SANDBOX_LABEL}");
    let label = |list: &[&str], inspect: &[&str], path: &str| -> Vec<String> {
        let format = format!("{{{{index {path} \"{SANDBOX_LABEL}\"}}}}");
        let found = listed(record, &[list, &["--filter", &filter]].concat());
        let ask = |id: String| ask(record, &[inspect, &["--format", &format, &id]].concat());
        found.into_iter().filter_map(ask).map(|text| text.trim().to_owned()).collect()
    };
    let mut sandboxes = label(&["ps", "--all", "--quiet"], &["container", "inspect"], ".Config.Labels");
    sandboxes.extend(label(&["network", "ls", "--quiet"], &["network", "inspect"], ".Labels"));
    sandboxes.extend(label(&["volume", "ls", "--quiet"], &["volume", "inspect"], ".Labels"));
    sandboxes.sort_unstable();
    sandboxes.dedup();
    sandboxes.retain(|sandbox| Path::new(sandbox).is_absolute() && !Path::new(sandbox).exists());
    sandboxes
}

fn read(sandbox: &Path) -> Option<Record> {
    serde_json::from_slice(&fs::read(sandbox.join(RECORD)).ok()?).ok()
}

fn remove_labelled(record: &Record, filter: &str) -> Removed {
    let mut rm = vec!["rm", "--force", "--volumes"];
    if record.engine.kind == Kind::Podman {
        // Without --depend podman refuses to remove one whose network namespace another one shares.
        rm.extend(["--time", "0", "--depend"]);
    }
    Removed {
        containers: remove_all(record, &["ps", "--all", "--quiet", "--filter", filter], &rm),
        networks: remove_all(record, &["network", "ls", "--quiet", "--filter", filter], &["network", "rm"]),
        volumes: remove_all(record, &["volume", "ls", "--quiet", "--filter", filter], &["volume", "rm", "--force"]),
    }
}

/// Lists and removes until the list stays empty.
fn remove_all(record: &Record, list: &[&str], remove: &[&str]) -> usize {
    let mut seen = Vec::new();
    for _ in 0..TRIES {
        let found = listed(record, list);
        if found.is_empty() {
            break;
        }
        // One at a time: podman would work on several at once, and netavark then leaves chains of a network behind.
        let gone = |id: &String| ask(record, &[remove, &[id.as_str()]].concat()).is_some();
        if found.iter().filter(|id| !gone(id)).count() > 0 {
            std::thread::sleep(PAUSE);
        }
        seen.extend(found);
    }
    seen.sort_unstable();
    seen.dedup();
    seen.len()
}

fn listed(record: &Record, words: &[&str]) -> Vec<String> {
    ask(record, words).unwrap_or_default().split_ascii_whitespace().map(str::to_owned).collect()
}

fn ask(record: &Record, words: &[&str]) -> Option<String> {
    let mut command = Command::new(&record.engine.program);
    command.args(words).envs(record.variables.iter().map(|(name, value)| (name, value))).current_dir("/");
    let ended = brief::run_apart(command, TIMEOUT).ok()?;
    ended.status.success().then_some(ended.output)
}
