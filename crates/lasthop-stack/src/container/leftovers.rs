//! Removes a run's containers, networks and volumes when it ends, however it ends. Each is found by the label of its
//! sandbox, never by name or age.

use std::{
    cell::Cell,
    collections::BTreeSet,
    env, fs, io,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Duration,
};

use lasthop_system::{command, files, interrupt, process::Handle};
use serde::{Deserialize, Serialize};

use super::{IMAGE_LABEL, OWNER_LABEL, RUN_LABEL, SANDBOX_LABEL, dialect::DIALECTS, engine::Engine, owner};

/// Name of the file in a sandbox that records the run's engine.
const RECORD: &str = "engine.json";
/// The longest time for one removal. An engine that hangs longer is not asked again.
const TIMEOUT: Duration = Duration::from_secs(25);
/// Tries until a daemon has finished the work of a killed client.
const TRIES: usize = 20;
const PAUSE: Duration = Duration::from_millis(50);
/// Where the kernel shows cgroups.
const CGROUPS: &str = "/sys/fs/cgroup";

/// What was removed from an engine, and what was not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    pub containers: usize,
    pub networks: usize,
    pub volumes: usize,
    /// Remaining objects, in words, as far as the engine lists them.
    pub left: Vec<String>,
}

impl Removed {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The engine of a run, as recorded in its sandbox.
#[derive(Debug, Serialize, Deserialize)]
struct Remover {
    engine: Engine,
    variables: Vec<(String, String)>,
    #[serde(skip)]
    hangs: Cell<bool>,
}

/// Records the engine in the sandbox. Call this before creating anything.
pub fn announce(engine: &Engine, sandbox: &Path) -> io::Result<()> {
    // The variables of all engines, because `docker` may be podman by another name.
    let names = ["PATH", "HOME"]
        .iter()
        .chain(DIALECTS.iter().flat_map(|dialect| dialect.variables));
    let variables = names
        .filter_map(|name| Some(((*name).to_owned(), env::var(name).ok()?)))
        .collect();
    let record = Remover::new(engine, variables);
    // Renamed into place, so that no sweep reads half of it.
    let hidden = sandbox.join(format!(".{RECORD}"));
    files::write_private(&hidden, &serde_json::to_vec(&record)?)?;
    fs::rename(hidden, sandbox.join(RECORD))
}

/// Removes containers, networks and volumes of the run with this sandbox. Does nothing if the run used no engine.
pub fn remove(sandbox: &Path) -> Removed {
    let _shield = interrupt::shield();
    let run = sandbox.file_name().and_then(|name| name.to_str());
    let (Some(remover), Some(run)) = (read(sandbox), run) else {
        return Removed::default();
    };
    let removed = remover.remove_labelled(&format!("label={RUN_LABEL}={run}"));
    // Chains are needed until the network is gone; rootless podman has them in a namespace of its own.
    if !remover.engine.rootless && removed.left.is_empty() {
        remover.remove_chains(run);
    }
    removed
}

/// The client of the engine that the run with this sandbox uses.
pub fn client(sandbox: &Path) -> Option<PathBuf> {
    read(sandbox).map(|remover| remover.engine.program)
}

/// Removes objects of runs whose sandbox is gone. Nothing else would remove them.
pub fn remove_orphans(engine: &Engine) -> Removed {
    let mut removed = Removed::default();
    for sandbox in Remover::new(engine, Vec::new()).orphans() {
        let one = Remover::new(engine, Vec::new()).remove_labelled(&format!("label={SANDBOX_LABEL}={sandbox}"));
        removed.containers += one.containers;
        removed.networks += one.networks;
        removed.volumes += one.volumes;
        removed.left.extend(one.left);
    }
    removed
}

/// The images that runs made, with their sizes. They are kept for later runs.
pub fn images(engine: &Engine) -> Vec<String> {
    let filter = format!("label={IMAGE_LABEL}");
    let words = [
        "images",
        "--filter",
        &filter,
        "--format",
        "{{.Repository}}:{{.Tag}} ({{.Size}})",
    ];
    let listed = Remover::new(engine, Vec::new()).ask(&words).unwrap_or_default();
    listed.lines().map(str::to_owned).collect()
}

fn read(sandbox: &Path) -> Option<Remover> {
    serde_json::from_slice(&files::read(&sandbox.join(RECORD), files::SHORT).ok()?).ok()
}

impl Remover {
    fn new(engine: &Engine, variables: Vec<(String, String)>) -> Self {
        Self {
            engine: engine.clone(),
            variables,
            hangs: Cell::new(false),
        }
    }

    /// Removes the chains of a removed network, which is named like the run, and the rules that lead to them: they
    /// would still redirect a published port.
    fn remove_chains(&self, network: &str) {
        let nat = |words: &[String]| {
            let mut command = Command::new("iptables");
            // -w waits for the lock of the tables, which the engine may hold for another network.
            command.args(["-w", "-t", "nat"]).args(words);
            command.envs(self.variables.iter().cloned());
            command::run(command, TIMEOUT, command::Life::Bound).map_or_else(|_| String::new(), |ended| ended.output)
        };
        let chains = (self.engine.dialect().chains)(network);
        if chains.is_empty() {
            return;
        }
        let rules = nat(&["-S".to_owned()]);
        for chain in chains.iter().filter(|chain| rules.contains(chain.as_str())) {
            for rule in rules_to(&rules, chain) {
                nat(&rule);
            }
            // iptables deletes only a chain that is empty and that no rule leads to.
            for what in ["-F", "-X"] {
                nat(&[what.to_owned(), chain.clone()]);
            }
        }
    }

    /// Sandboxes of this user that appear in labels but no longer exist.
    fn orphans(&self) -> Vec<String> {
        let filter = format!("label={OWNER_LABEL}={}", owner());
        let label = |list: &[&str], inspect: &[&str], path: &str| -> Vec<String> {
            // `index`, because a Go template reads the dot in the label's name as a field.
            let format = format!("{{{{index {path} \"{SANDBOX_LABEL}\"}}}}");
            let found = self
                .listed(&[list, &["--filter", &filter]].concat())
                .unwrap_or_default();
            found
                .iter()
                .filter_map(|id| self.ask(&[inspect, &["--format", &format, id]].concat()))
                .map(|text| text.trim().to_owned())
                .collect()
        };
        let mut sandboxes = label(&["ps", "--all", "--quiet"], &["container", "inspect"], ".Config.Labels");
        sandboxes.extend(label(&["network", "ls", "--quiet"], &["network", "inspect"], ".Labels"));
        sandboxes.extend(label(&["volume", "ls", "--quiet"], &["volume", "inspect"], ".Labels"));
        sandboxes.sort_unstable();
        sandboxes.dedup();
        // A path that this user may not examine proves nothing: only a clear "no" makes an orphan.
        sandboxes.retain(|sandbox| Path::new(sandbox).is_absolute() && matches!(fs::exists(sandbox), Ok(false)));
        sandboxes
    }

    fn remove_labelled(&self, filter: &str) -> Removed {
        let mut left = Vec::new();
        let mut all = |what, list: &[&str], remove: &[&str]| {
            let (gone, here) = self.remove_all(&[list, &["--quiet", "--filter", filter]].concat(), remove);
            left.extend(here.into_iter().map(|id| format!("{what} {id}")));
            gone
        };
        let dialect = self.engine.dialect();
        // Containers first: an engine does not remove a network or a volume in use.
        let containers = all("container", &["ps", "--all"], &dialect.rm());
        if let Some(cgroup) = dialect.cgroup {
            for id in &containers {
                // CONTROLLER/PARENT/libpod-ID in version 1, one level less in version 2.
                remove_cgroups(Path::new(CGROUPS), 3, &format!("{cgroup}{id}"));
            }
        }
        Removed {
            containers: containers.len(),
            networks: all("network", &["network", "ls"], &["network", "rm"]).len(),
            volumes: all("volume", &["volume", "ls"], &["volume", "rm", "--force"]).len(),
            left,
        }
    }

    /// Lists and removes until the list stays empty or the engine hangs. Returns removed and remaining names.
    fn remove_all(&self, list: &[&str], remove: &[&str]) -> (Vec<String>, Vec<String>) {
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
            let mut all_gone = true;
            for id in &left {
                all_gone &= self.ask(&[remove, &[id.as_str()]].concat()).is_some();
            }
            if !all_gone {
                thread::sleep(PAUSE);
            }
        }
        if self.hangs.get() && left.is_empty() {
            left.push(format!("that {} does not list", self.engine.kind.name()));
        }
        seen.retain(|id| !left.contains(id));
        (seen.into_iter().collect(), left)
    }

    /// The words that a command of the engine prints; `None` if the engine does not answer.
    fn listed(&self, words: &[&str]) -> Option<Vec<String>> {
        Some(self.ask(words)?.split_ascii_whitespace().map(str::to_owned).collect())
    }

    fn ask(&self, words: &[&str]) -> Option<String> {
        if self.hangs.get() {
            return None;
        }
        let mut command = Command::new(&self.engine.program);
        command
            .args(words)
            .envs(self.variables.iter().cloned())
            .current_dir("/");
        match command::run(command, TIMEOUT, command::Life::Bound) {
            Ok(ended) => ended.status.success().then_some(ended.output),
            Err(error) => {
                self.hangs.set(error.kind() == io::ErrorKind::TimedOut);
                None
            }
        }
    }
}

/// Commands that delete the rules of a listing (`iptables -S`) that lead to a chain.
fn rules_to(listing: &str, chain: &str) -> Vec<Vec<String>> {
    let rules = listing.lines().filter_map(shlex::split).filter(|words| {
        words.first().is_some_and(|word| word == "-A")
            && words.windows(2).any(|pair| pair[0] == "-j" && pair[1] == chain)
    });
    rules
        .map(|words| {
            std::iter::once("-D".to_owned())
                .chain(words.into_iter().skip(1))
                .collect()
        })
        .collect()
}

/// Removes cgroups whose name starts with `name`, with their children, up to `depth` folders below, and ends what runs
/// in them: a client that is killed while it starts a container may leave a runtime of which the engine does not know.
fn remove_cgroups(folder: &Path, depth: u32, name: &str) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let path = entry.path();
        if entry.file_name().as_encoded_bytes().starts_with(name.as_bytes()) {
            // The kernel removes only a cgroup without children; the files in it need not and cannot be removed.
            remove_cgroups(&path, depth, "");
            end_processes(&path);
            let _ = fs::remove_dir(&path);
        } else if depth > 1 {
            remove_cgroups(&path, depth - 1, name);
        }
    }
}

/// Kills the processes in a cgroup, until there is none or it takes too long.
fn end_processes(cgroup: &Path) {
    let here = || -> Vec<i32> {
        let list = files::lines(cgroup.join("cgroup.procs"));
        list.filter_map(|pid| pid.parse().ok()).collect()
    };
    for _ in 0..TRIES {
        let found = here();
        if found.is_empty() {
            break;
        }
        let opened: Vec<_> = found
            .into_iter()
            .filter_map(|pid| Some((pid, Handle::open(pid)?)))
            .collect();
        // Read again, because a pid that has left may have been a stranger's when it was opened.
        let still = here();
        for (_, handle) in opened.iter().filter(|(pid, _)| still.contains(pid)) {
            handle.kill();
        }
        thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    #[test]
    fn only_rules_that_lead_to_the_chain_are_deleted() {
        let listing = "-N NETAVARK-DN-1\n-A NETAVARK-DN-1 -p tcp -j DNAT --to-destination 10.89.0.16:1\n\
                       -A HOSTPORT -p tcp -m comment --comment \"dnat name: lasthop-x id: y\" -j NETAVARK-DN-1\n\
                       -A HOSTPORT -j NETAVARK-DN-12\n";
        let comment = "dnat name: lasthop-x id: y";
        let wanted = [
            "-D",
            "HOSTPORT",
            "-p",
            "tcp",
            "-m",
            "comment",
            "--comment",
            comment,
            "-j",
            "NETAVARK-DN-1",
        ];
        assert_eq!(rules_to(listing, "NETAVARK-DN-1"), [wanted]);
    }

    #[test]
    fn what_runs_in_the_containers_cgroup_is_ended() {
        let root = tempfile::tempdir().unwrap();
        let mut left = Command::new("sleep").arg("600").spawn().unwrap();
        let mut other = Command::new("sleep").arg("600").spawn().unwrap();
        for (name, child) in [("libpod-abc123", &left), ("libpod-abd", &other)] {
            let cgroup = root.path().join(name);
            fs::create_dir(&cgroup).unwrap();
            fs::write(cgroup.join("cgroup.procs"), format!("{}\n", child.id())).unwrap();
        }
        remove_cgroups(root.path(), 3, "libpod-abc123");
        assert_eq!(left.wait().unwrap().signal(), Some(libc::SIGKILL));
        assert_eq!(other.try_wait().unwrap(), None, "another container's");
        other.kill().unwrap();
        other.wait().unwrap();
    }

    #[test]
    fn only_empty_folders_of_the_container_go() {
        let root = tempfile::tempdir().unwrap();
        let parent = root.path().join("pids/parent");
        fs::create_dir_all(parent.join("libpod-abc123/inner")).unwrap();
        fs::create_dir_all(parent.join("libpod-abd")).unwrap();
        fs::create_dir_all(parent.join("libpod-abc9")).unwrap();
        fs::write(parent.join("libpod-abc9/cgroup.procs"), "1").unwrap();
        remove_cgroups(root.path(), 3, "libpod-abc");
        let mut left: Vec<_> = fs::read_dir(&parent)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        left.sort();
        assert_eq!(left, ["libpod-abc9", "libpod-abd"]);
    }
}
