//! Runs the driver on another host, over ssh.
//!
//! There are two kinds of ssh sessions, all children of the guard. The *keeper* creates a private folder on the host,
//! stores this lasthop in it, and removes it when its input closes: at the end of the run, when lasthop is killed, or
//! when the connection is lost. A *driver* session runs `lasthop drive`, which also ends when its input closes. So
//! nothing stays behind, however the run ends.

use std::{
    collections::HashMap,
    fs::{self, File},
    io::{self, Read},
    net::IpAddr,
    path::{Path, PathBuf},
    process::Command,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use lasthop_model::driver::{Login, Remote};
use lasthop_protocol::spec::Spec;
use lasthop_system::{
    command, files, interrupt,
    lines::{LineError, Lines},
    shell::quoted,
};

use lasthop_stack::{
    guard::{Guard, GuardError, GuardedChild, SpawnRequest},
    locate,
};

/// The longest time for a command on the host.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The longest line in bytes, and the most lines, before the keeper is ready. A shell's start-up files may print too.
const LINE: usize = 64 << 10;
const LINES: usize = 200;
/// ssh options that never ask the user anything and that detect a dead connection. They come after the user's own,
/// because ssh uses the first value.
const OPTIONS: [&str; 4] = [
    "BatchMode=yes",
    "ConnectTimeout=10",
    "ServerAliveInterval=5",
    "ServerAliveCountMax=3",
];
/// The keeper's script. `SIZE` is the size of the executable, or 0 if none is stored.
const KEEPER: &str = r#"umask 077
d=$(mktemp -d "${TMPDIR:-/tmp}/lasthop-drive.XXXXXXXX") || exit 1
trap 'rm -rf "$d"' EXIT
trap 'exit 1' HUP INT TERM PIPE
echo "folder $d"
echo "boot $(cat /proc/sys/kernel/random/boot_id)"
echo "network $(readlink /proc/self/ns/net)"
echo "files $(readlink /proc/self/ns/mnt)"
echo "client ${SSH_CONNECTION%% *}"
echo "name $(uname -n)"
echo "kernel $(uname -srm)"
if [ SIZE -gt 0 ]; then head -c SIZE >"$d/lasthop" && chmod 700 "$d/lasthop"; fi
v=$("PROGRAM" --version 2>&1) || v="failed: $v"
echo "version $v"
echo ready
read -r _
exit 0
"#;

/// A host with lasthop in a private folder, which is removed on drop.
#[derive(Debug)]
pub struct Host {
    ssh: Vec<String>,
    facts: HashMap<String, String>,
    program: String,
    destination: String,
    listen: Option<IpAddr>,
    same_network: bool,
    /// Paths on the host of copied files, by path on this machine.
    copied: Mutex<HashMap<PathBuf, String>>,
    lines: Lines,
    keeper: GuardedChild,
}

impl Host {
    /// Logs in, stores lasthop and checks that it runs.
    pub fn open(login: &Login, remote: &Remote, guard: &Guard, own: &str, sandbox: &Path) -> Result<Self, String> {
        let ssh = ssh_command(login, remote)?;
        let unreadable = |error: io::Error| format!("cannot read lasthop's own executable: {error}");
        let executable = files::open_linked(Path::new(own)).map_err(unreadable)?;
        let size = files::facts_of(&executable).map_err(unreadable)?.len();
        let size = if remote.program.is_some() { 0 } else { size };
        let program = remote.program.clone().unwrap_or_else(|| "$d/lasthop".to_owned());
        let script = KEEPER.replace("SIZE", &size.to_string()).replace("PROGRAM", &program);
        let log = sandbox.join("ssh.log");
        let errors = files::create_private(&log).map_err(unreadable)?;
        // ssh hands the command to the user's login shell, which may be no POSIX shell.
        let words = ssh.iter().cloned().chain(["sh -c ".to_owned() + &quoted(&script)]);
        let (keeper, mut lines) = guard.spawn_with_lines(SpawnRequest::of(words), Some(errors), LINE)?;
        let destination = login.destination.clone();
        let mut facts = HashMap::new();
        match converse(&mut lines, executable.take(size), &mut facts) {
            Ok(()) | Err(LineError::Ended) => {}
            Err(LineError::Interrupted) => return Err(GuardError::Interrupted.to_string()),
            Err(cause) => {
                return Err(format!(
                    "ssh to {destination} did not end: {cause}; try `ssh -o BatchMode=yes {destination} true`, which \
                     must print nothing"
                ));
            }
        }
        if !facts.contains_key("ready") {
            // The keeper's end completes ssh's messages in the log.
            let _ = keeper.wait(Duration::from_secs(2));
            let said = files::end_of_log(&log);
            return Err(explain(&destination, facts.contains_key("folder"), &said));
        }
        let is = |key: &str, path: &str| facts.get(key).is_some_and(|there| *there == fact_here(path));
        // Inode numbers of namespaces repeat across machines, so the boot must match too.
        let same_network = is("boot", "/proc/sys/kernel/random/boot_id") && is("network", "/proc/self/ns/net");
        let program = program.replace("$d", facts.get("folder").map_or("", String::as_str));
        let host = Self {
            ssh,
            facts,
            program,
            destination,
            listen: remote.listen,
            same_network,
            copied: Mutex::default(),
            lines,
            keeper,
        };
        host.check_version()?;
        host.check_reach()?;
        Ok(host)
    }

    fn fact(&self, key: &str) -> &str {
        self.facts.get(key).map_or("", String::as_str)
    }

    fn check_version(&self) -> Result<(), String> {
        let own = concat!("lasthop ", env!("CARGO_PKG_VERSION"));
        let host = &self.destination;
        let found = self.fact("version");
        match found.strip_prefix("failed:") {
            Some(said) => Err(format!(
                "lasthop does not run on {host} ({}): if the architecture differs, install the same version there and \
                 pass its path with --driver-program",
                said.trim()
            )),
            None if found != own => Err(format!(
                "{host} has {found}, but this is {own}: the versions must match"
            )),
            None => Ok(()),
        }
    }

    fn check_reach(&self) -> Result<(), String> {
        if self.same_network || self.listen.is_some() {
            return Ok(());
        }
        Err(format!(
            "the driver on {host} cannot reach services on loopback: choose an address of this machine that {host} can \
             reach, for instance --listen {}; during the run, everybody who can reach that address can reach the services",
            self.fact("client"),
            host = self.destination
        ))
    }

    pub fn name(&self) -> &str {
        &self.destination
    }

    /// The host, in words.
    pub fn place(&self) -> String {
        let here = if self.is_this_machine() {
            ", which is this machine"
        } else {
            ""
        };
        format!(
            "on host {} ({}{here}), over ssh",
            self.fact("name"),
            self.fact("kernel")
        )
    }

    pub fn reaches(&self) -> String {
        self.listen
            .map_or_else(|| "loopback".to_owned(), |address| address.to_string())
    }

    pub fn reached(&self, own: IpAddr) -> Result<IpAddr, String> {
        match self.listen {
            None => Ok(own),
            Some(listen) if listen.is_ipv4() == own.is_ipv4() => Ok(listen),
            Some(listen) => Err(format!(
                "services listen on {listen} (--listen), but this case needs the other IP version"
            )),
        }
    }

    pub fn is_this_machine(&self) -> bool {
        self.fact("boot") == fact_here("/proc/sys/kernel/random/boot_id")
    }

    /// Whether a path names the same file on the host as here.
    pub fn shares_files(&self) -> bool {
        self.is_this_machine() && self.fact("files") == fact_here("/proc/self/ns/mnt")
    }

    pub fn shares_network(&self) -> bool {
        self.same_network
    }

    /// The command line that starts a driver on the host.
    pub fn drive(&self) -> Result<Vec<String>, String> {
        if self.keeper.exited().is_some() {
            return Err(format!(
                "the ssh connection to {} was lost; start the run again",
                self.destination
            ));
        }
        let mut words = self.ssh.clone();
        words.push(format!("exec {} drive --hang-up", quoted(&self.program)));
        Ok(words)
    }

    pub fn explain_end(&self) -> String {
        let host = &self.destination;
        // If the host is lost, both connections end, but not at the same moment.
        match self.keeper.wait(Duration::from_secs(1)) {
            Ok(None) => format!(" on {host}: it was killed there, or its own connection was cut"),
            _ => format!(": the ssh connection to {host} was lost"),
        }
    }

    /// The load, with the trusted certificate copied to the host.
    pub fn localise(&self, spec: &Spec) -> Result<Spec, String> {
        let mut spec = spec.clone();
        if let Some(authority) = spec.endpoint.tls.as_mut().and_then(|tls| tls.authority.as_mut()) {
            *authority = self.copy(authority)?.into();
        }
        Ok(spec)
    }

    /// Copies a small text file to the host, once, and returns its path there.
    fn copy(&self, path: &Path) -> Result<String, String> {
        let mut copied = self.copied.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(there) = copied.get(path) {
            return Ok(there.clone());
        }
        let failed = |cause: String| format!("cannot copy {} to {}: {cause}", path.display(), self.destination);
        let bytes = files::read(path, files::SHORT).map_err(|error| failed(error.to_string()))?;
        let text = String::from_utf8(bytes).map_err(|error| failed(error.to_string()))?;
        let there = format!("{}/file-{}", self.fact("folder"), copied.len());
        let mut command = Command::new(&self.ssh[0]);
        command
            .args(&self.ssh[1..])
            .arg(format!("umask 077; printf %s {} >{}", quoted(&text), quoted(&there)));
        let ended = command::run(command, TIMEOUT, command::Life::Bound).map_err(|error| failed(error.to_string()))?;
        if !ended.status.success() {
            return Err(failed(ended.text().trim().to_owned()));
        }
        copied.insert(path.to_owned(), there.clone());
        Ok(there)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _shield = interrupt::shield();
        // The keeper waits for its input to close and then removes its folder.
        self.lines.hang_up();
        let _ = self.keeper.wait(Duration::from_secs(10));
    }
}

fn ssh_command(login: &Login, remote: &Remote) -> Result<Vec<String>, String> {
    let program = locate::on_path("ssh").ok_or("`ssh` is missing; install openssh-client")?;
    // `-T`, because the user's configuration may request a terminal, which would alter the bytes of the executable.
    let mut words = vec![program.display().to_string(), "-T".to_owned()];
    if let Some(config) = &remote.config {
        words.extend(["-F".to_owned(), config.display().to_string()]);
    }
    for option in remote.options.iter().map(String::as_str).chain(OPTIONS) {
        words.extend(["-o".to_owned(), option.to_owned()]);
    }
    if let Some(port) = login.port {
        words.extend(["-p".to_owned(), port.to_string()]);
    }
    // `--` keeps ssh from reading the destination as an option.
    words.extend(["--".to_owned(), login.destination.clone()]);
    Ok(words)
}

/// Reads what the keeper prints up to `ready`, by key. Sends lasthop when the keeper expects it.
fn converse(
    lines: &mut Lines,
    mut executable: io::Take<File>,
    facts: &mut HashMap<String, String>,
) -> Result<(), LineError> {
    for _ in 0..LINES {
        let line = lines.hear(TIMEOUT)?;
        let line = String::from_utf8_lossy(&line);
        let (key, value) = line.split_once(' ').unwrap_or((&line, ""));
        facts.insert(key.to_owned(), value.to_owned());
        match key {
            // The last line that the script prints before it reads the executable.
            "kernel" => send(lines, &mut executable)?,
            "ready" => return Ok(()),
            _ => {}
        }
    }
    Err(LineError::Io(io::Error::other(format!(
        "it printed more than {LINES} lines"
    ))))
}

/// Sends in parts. Each part has a deadline; the whole has none.
fn send(lines: &mut Lines, executable: &mut io::Take<File>) -> Result<(), LineError> {
    let mut part = vec![0; 64 << 10];
    loop {
        match executable.read(&mut part).map_err(LineError::Io)? {
            0 => return Ok(()),
            read => lines.say(&part[..read], TIMEOUT)?,
        }
    }
}

/// The content of a file on this machine, or the target of a link.
fn fact_here(path: &str) -> String {
    let linked = || fs::read_link(path).map(|to| to.display().to_string());
    let text = linked().or_else(|_| files::text(path)).unwrap_or_default();
    text.trim().to_owned()
}

/// Translates ssh's messages into advice.
fn explain(host: &str, logged_in: bool, log: &str) -> String {
    let mut lines = log.lines().map(str::trim).filter(|line| !line.is_empty());
    let said = lines.next_back().unwrap_or("it printed nothing");
    if logged_in {
        format!("cannot create a folder or store lasthop on {host}: {said}")
    } else if log.contains("Host key verification failed") {
        format!(
            "the host key of {host} is unknown or has changed ({said}): connect once with `ssh {host}` and compare the \
             fingerprint"
        )
    } else if log.contains("Permission denied") {
        format!(
            "{host} refuses the login: {said}; lasthop cannot enter a password, so set up a key (ssh-agent, or \
             IdentityFile in --ssh-option or in ssh's configuration) and check it with `ssh -o BatchMode=yes {host} true`"
        )
    } else {
        format!("ssh to {host} failed: {said}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_ssh_are_understood() {
        let said = |log: &str| explain("h", false, log);
        assert!(said("me@h: Permission denied (publickey).\n").starts_with("h refuses the login"));
        let unknown = said("No ED25519 host key is known for h.\nHost key verification failed.\n");
        assert!(unknown.starts_with("the host key of h is unknown"), "{unknown}");
        let error = said("ssh: connect to host h port 1: Connection refused\n");
        assert_eq!(
            error,
            "ssh to h failed: ssh: connect to host h port 1: Connection refused"
        );
        assert!(explain("h", true, "mktemp: No space left\n").contains("No space left"));
    }
}
