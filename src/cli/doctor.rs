//! Checks what this machine can run, and what makes its measurements noisy. Findings are data; `cli` prints them.

use lasthop_classic::Tool;
use lasthop_model::{
    engine::EngineKind,
    manager::unnamed,
    program::{Packages, Program},
};
use lasthop_observe::{
    cgroup::path_of,
    environment::{governor, virtualization},
    machine,
};
use lasthop_stack::{
    account,
    container::{
        dialect,
        engine::{Engine, EngineError},
    },
    home::Home,
    locate::{LocateError, Locator},
    setup,
};
use lasthop_system::facts::Facts;

use self::Severity::{Good, Missing, Note, Warning};

/// The importance of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// In order.
    Good,
    /// Affects how to read the numbers.
    Note,
    /// Degrades measurements.
    Warning,
    /// Prevents something from running.
    Missing,
}

/// A finding with its remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub severity: Severity,
    pub text: String,
    /// The remedy: a command, if there is one.
    pub remedy: Option<String>,
}

impl Severity {
    pub fn finding(self, text: impl Into<String>) -> Finding {
        Finding {
            severity: self,
            text: text.into(),
            remedy: None,
        }
    }
}

impl Finding {
    fn with(self, remedy: &str) -> Self {
        let remedy = Some(remedy.to_owned());
        Self { remedy, ..self }
    }
}

/// The program of a recipe, as an experiment would find it.
pub fn program(recipe: &str, program: &Program, locator: &Locator) -> Finding {
    match locator.locate(recipe, program) {
        Ok(located) => Good.finding(format!("{} {} ({})", recipe, located.version, located.path.display())),
        Err(error @ LocateError::NotFound { .. }) => {
            let remedy = install_command(&program.packages);
            Finding {
                remedy,
                ..Missing.finding(error.brief())
            }
        }
        // Python is there, but lacks a module.
        Err(error @ LocateError::Version { .. }) if !program.packages.is_empty() => {
            Missing.finding(error.brief()).with(&locator.setup())
        }
        Err(error) => Missing.finding(error.brief()),
    }
}

/// The packages of a service, if an experiment would not find them.
pub fn packages(service: &str, packages: &Packages, locator: &Locator) -> Option<Finding> {
    let why = locator.lacks(packages)?;
    Some(Missing.finding(format!("{service}: {why}")).with(&locator.setup()))
}

/// A classic tool, which no experiment needs.
pub fn tool(tool: &Tool, locator: &Locator) -> Finding {
    let found = program(tool.name, &tool.program, locator);
    let severity = if found.severity == Missing {
        Note
    } else {
        found.severity
    };
    Finding { severity, ..found }
}

/// The command that installs system packages. Python and Ruby packages belong in lasthop's own environments.
fn install_command(packages: &Packages) -> Option<String> {
    let manager = setup::manager();
    let named = manager
        .map(|manager| (manager, packages.names_for(manager.name)))
        .filter(|(_, names)| !names.is_empty());
    let command = named.map(|(manager, names)| format!("{} {}", manager.by_hand, names.join(" ")));
    command.or_else(|| unnamed(packages, manager))
}

/// The folders where programs are looked for.
pub fn folders() -> Finding {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<String> = Vec::new();
    for folder in std::env::split_paths(&path).map(|folder| folder.display().to_string()) {
        if !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    let text = format!(
        "programs are looked for in what `lasthop setup` installed, then in {}, then where their recipes say",
        folders.join(", ")
    );
    Good.finding(text)
}

/// The data folder, where runs are recorded.
pub fn home(home: &Home) -> Finding {
    match home.writable("") {
        Ok(path) => Good.finding(format!("the data folder is {}", path.display())),
        Err(error) => Missing.finding(error.to_string()),
    }
}

/// Working container engines, and their components.
pub fn engines() -> Vec<Finding> {
    EngineKind::ALL.into_iter().map(engine).collect()
}

pub fn engine(kind: EngineKind) -> Finding {
    match Engine::find(Some(kind)) {
        Ok(engine) => {
            let rights = if engine.rootless {
                "rootless: containers can be reached through published ports on loopback and through sockets, not at bridge addresses"
            } else {
                "as root"
            };
            let text = format!("{} {}: {} ({rights})", kind.name(), engine.version, engine.parts);
            Good.finding(text)
        }
        Err(EngineError::Missing(_)) => {
            let remedy = install_command(&dialect::of_engine(kind).packages());
            let text = format!(
                "{} is not installed; only experiments with containers need an engine",
                kind.name()
            );
            Finding {
                remedy,
                ..Note.finding(text)
            }
        }
        Err(EngineError::Unusable(reasons)) => {
            let reason: String = reasons.into_iter().map(|(_, reason)| reason).collect();
            unusable(kind, &reason)
        }
        Err(error) => Note.finding(error.to_string()),
    }
}

/// A finding about an engine. The last line of the reason is the remedy.
fn unusable(kind: EngineKind, reason: &str) -> Finding {
    let (why, remedy) = reason.rsplit_once('\n').unwrap_or((reason, ""));
    let why: Vec<&str> = why.split_whitespace().collect();
    let remedy = Some(remedy.trim().to_owned()).filter(|remedy| !remedy.is_empty());
    Finding {
        remedy,
        ..Note.finding(format!("{} does not work: {}", kind.name(), why.join(" ")))
    }
}

/// The rights of this user.
pub fn privileges() -> Vec<Finding> {
    let root = rustix::process::geteuid().is_root();
    let user = match (root, account::unprivileged()) {
        (false, _) => Good.finding("lasthop runs as an ordinary user, which is enough"),
        (true, Ok(account)) => {
            let user = account.user;
            Note.finding(format!(
                "lasthop runs as root; servers run as `{user}`, unless their recipe says otherwise or they run in containers"
            ))
        }
        (true, Err(error)) => Missing.finding(error.to_string()),
    };
    let observing = match lasthop_profile::Profiler::available() {
        Ok(()) => Good.finding("the kernel lets lasthop sample processes (`run --explain`)"),
        Err(missing) => Note.finding(format!("`run --explain` would see no layers: {missing}")),
    };
    vec![user, observing]
}

/// Properties of this machine that make measurements noisy or special.
pub fn noise(facts: &Facts) -> Vec<Finding> {
    let checks = [
        cpus,
        smt,
        frequency,
        turbo,
        battery,
        load,
        steal,
        quota,
        virtual_machine,
        swap,
        backlog,
        conntrack,
        ipv6,
    ];
    checks.iter().filter_map(|check| check(facts)).collect()
}

fn cpus(facts: &Facts) -> Option<Finding> {
    match facts.cpus() {
        1 => Some(Warning.finding("there is only one CPU, so client and server take turns on it")),
        count @ 2..=3 => Some(Note.finding(format!(
            "there are {count} CPUs, which three busy processes (client, proxy, application) must share"
        ))),
        _ => None,
    }
}

fn smt(facts: &Facts) -> Option<Finding> {
    (facts.text("/sys/devices/system/cpu/smt/active")? == "1").then(|| {
        let text = "two hardware threads share a core (SMT), and which processes share one changes from run to run";
        Note.finding(text)
            .with("echo off > /sys/devices/system/cpu/smt/control")
    })
}

fn frequency(facts: &Facts) -> Option<Finding> {
    let governor = governor(facts)?;
    (governor != "performance").then(|| {
        let text = format!("the CPU frequency governor is `{governor}`, so a CPU that often waits runs slower");
        Warning
            .finding(text)
            .with("cpupower frequency-set --governor performance")
    })
}

fn turbo(facts: &Facts) -> Option<Finding> {
    let intel = facts
        .text("/sys/devices/system/cpu/intel_pstate/no_turbo")
        .map(|off| off == "0");
    let other = facts.text("/sys/devices/system/cpu/cpufreq/boost").map(|on| on == "1");
    intel.or(other)?.then(|| {
        let text = "turbo is on, so the frequency depends on the temperature and on how many cores are busy";
        Note.finding(text)
    })
}

fn battery(facts: &Facts) -> Option<Finding> {
    let supply = |name: &String, file: &str| facts.text(&format!("/sys/class/power_supply/{name}/{file}"));
    let supplies = facts.names("/sys/class/power_supply");
    let mains: Vec<_> = supplies
        .iter()
        .filter(|name| supply(name, "type").as_deref() == Some("Mains"))
        .collect();
    let on_battery = !mains.is_empty() && mains.iter().all(|name| supply(name, "online").as_deref() == Some("0"));
    on_battery.then(|| Warning.finding("the machine runs on battery").with("plug it in"))
}

fn load(facts: &Facts) -> Option<Finding> {
    let [minute, ..] = facts.load_average();
    (minute > 0.25 * f64::from(facts.cpus().max(1))).then(|| {
        let text = format!("other work is running: the load average of the last minute is {minute:.2}");
        Warning.finding(text).with("wait for it to end, or stop it")
    })
}

fn steal(facts: &Facts) -> Option<Finding> {
    let share = machine::steal_share(&facts.text("/proc/stat")?)?;
    (share > 0.005).then(|| {
        let text = format!(
            "the hypervisor gave {:.1} % of the CPU time since boot to others (steal)",
            share * 100.0
        );
        Warning.finding(text)
    })
}

/// A CPU limit stops all processes in the middle of a trial once its quota is used up.
fn quota(facts: &Facts) -> Option<Finding> {
    let own = facts.text("/proc/self/cgroup").unwrap_or_default();
    let group = |controller| path_of(&own, controller).unwrap_or("/");
    let unified = facts.text(&format!("/sys/fs/cgroup{}/cpu.max", group("")));
    let limit = unified.filter(|limit| !limit.starts_with("max")).and_then(|limit| {
        let (quota, period) = limit.split_once(' ')?;
        Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?)
    });
    let legacy = || {
        let at = |name: &str| facts.number(&format!("/sys/fs/cgroup/cpu{}/cpu.cfs_{name}_us", group("cpu")));
        let quota = at("quota")?;
        let period = at("period")?;
        // A quota of −1 is no limit.
        (quota > 0 && period > 0).then(|| quota as f64 / period as f64)
    };
    let cpus = limit.or_else(legacy)?;
    let text = format!(
        "a control group limits lasthop to {cpus:.2} CPUs, and beyond that everything stops until the next period"
    );
    Some(
        Warning
            .finding(text)
            .with("raise the limit (docker: --cpus, systemd: CPUQuota=)"),
    )
}

fn virtual_machine(facts: &Facts) -> Option<Finding> {
    let word = virtualization(facts);
    (word != "none").then(|| {
        let text = format!("this is not bare metal ({word}): neighbours disturb measurements, and wake-ups cost more");
        Note.finding(text)
    })
}

fn swap(facts: &Facts) -> Option<Finding> {
    let used = facts.memory("SwapTotal")?.saturating_sub(facts.memory("SwapFree")?);
    (used > 64 << 20).then(|| {
        let text = format!("{} MiB of memory are swapped out", used >> 20);
        Warning.finding(text).with("free memory, then: swapoff -a && swapon -a")
    })
}

fn backlog(facts: &Facts) -> Option<Finding> {
    let limit: u32 = facts.sysctl("net.core.somaxconn")?.parse().ok()?;
    // nginx, Redis and Node.js ask for 511 by default.
    (limit < 511).then(|| {
        let text = format!("net.core.somaxconn is {limit}, so accept queues are shorter than servers ask for");
        Warning.finding(text).with("sysctl net.core.somaxconn=4096")
    })
}

fn conntrack(facts: &Facts) -> Option<Finding> {
    let tracked: u64 = facts.sysctl("net.netfilter.nf_conntrack_count")?.parse().ok()?;
    (tracked > 0).then(|| {
        let text = format!(
            "connection tracking is on ({tracked} entries): it costs TCP time, on loopback too, but not Unix sockets"
        );
        Note.finding(text)
    })
}

fn ipv6(facts: &Facts) -> Option<Finding> {
    let addresses = facts.text("/proc/net/if_inet6").unwrap_or_default();
    let has_loopback = addresses
        .lines()
        // `::1`
        .any(|line| line.starts_with("00000000000000000000000000000001 "));
    (!has_loopback).then(|| Note.finding("there is no IPv6 loopback, so the transports `tcp6` and `udp6` cannot run"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn noise_of(files: &[(&str, &str)]) -> Vec<Finding> {
        let quiet = [
            (
                "/proc/stat",
                "cpu 100 0 100 800 0 0 0 0\ncpu0 1\ncpu1 1\ncpu2 1\ncpu3 1\n",
            ),
            ("/proc/loadavg", "0.10 0 0 1/1 1"),
            (
                "/proc/net/if_inet6",
                "00000000000000000000000000000001 01 80 10 80       lo",
            ),
        ];
        let known = |path: &str| files.iter().any(|(given, _)| *given == path);
        let all: Vec<_> = quiet
            .into_iter()
            .filter(|(path, _)| !known(path))
            .chain(files.iter().copied())
            .collect();
        let root = tempfile::tempdir().unwrap();
        for (path, text) in all {
            let path = root.path().join(path.trim_start_matches('/'));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        noise(&Facts::below(root.path()))
    }

    #[test]
    fn a_quiet_machine_has_no_finding() {
        assert_eq!(noise_of(&[]), []);
    }

    #[test]
    fn each_kind_of_noise_is_found() {
        let cases: [(&str, &[(&str, &str)]); 14] = [
            ("CPUs", &[("/proc/stat", "cpu 1 0 1 8 0 0 0 0\ncpu0 1\ncpu1 1\n")]),
            ("SMT", &[("/sys/devices/system/cpu/smt/active", "1\n")]),
            (
                "governor",
                &[("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n")],
            ),
            ("turbo", &[("/sys/devices/system/cpu/intel_pstate/no_turbo", "0\n")]),
            (
                "battery",
                &[
                    ("/sys/class/power_supply/AC/type", "Mains"),
                    ("/sys/class/power_supply/AC/online", "0"),
                ],
            ),
            ("load average", &[("/proc/loadavg", "1.20 0 0 1/1 1")]),
            (
                "steal",
                &[(
                    "/proc/stat",
                    "cpu 100 0 100 700 0 0 0 100\ncpu0 1\ncpu1 1\ncpu2 1\ncpu3 1\n",
                )],
            ),
            (
                "control group",
                &[
                    ("/proc/self/cgroup", "0::/box\n"),
                    ("/sys/fs/cgroup/box/cpu.max", "25000 100000\n"),
                ],
            ),
            (
                "control group",
                &[
                    ("/proc/self/cgroup", "4:cpu,cpuacct:/box\n"),
                    ("/sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "25000"),
                    ("/sys/fs/cgroup/cpu/box/cpu.cfs_period_us", "100000"),
                ],
            ),
            ("bare metal", &[("/.dockerenv", "")]),
            (
                "swapped out",
                &[("/proc/meminfo", "SwapTotal: 1000000 kB\nSwapFree: 1000 kB\n")],
            ),
            ("somaxconn", &[("/proc/sys/net/core/somaxconn", "128")]),
            (
                "connection tracking",
                &[("/proc/sys/net/netfilter/nf_conntrack_count", "7")],
            ),
            ("IPv6", &[("/proc/net/if_inet6", "")]),
        ];
        for (word, files) in cases {
            let found = noise_of(files);
            assert!(found.len() == 1 && found[0].text.contains(word), "{word}: {found:?}");
        }
    }

    #[test]
    fn what_is_as_it_should_be_is_no_finding() {
        let files = [
            ("/sys/devices/system/cpu/smt/active", "0"),
            ("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance"),
            ("/sys/devices/system/cpu/cpufreq/boost", "0"),
            ("/sys/class/power_supply/AC/type", "Mains"),
            ("/sys/class/power_supply/AC/online", "1"),
            ("/proc/self/cgroup", "0::/box\n"),
            ("/sys/fs/cgroup/box/cpu.max", "max 100000"),
            ("/proc/meminfo", "SwapTotal: 0 kB\nSwapFree: 0 kB\n"),
            ("/proc/sys/net/core/somaxconn", "4096"),
        ];
        assert_eq!(noise_of(&files), []);
    }

    #[test]
    fn this_machine_can_be_asked() {
        let user = privileges().remove(0);
        let servers_run_as = if account::current().is_root {
            "servers run as `nobody`"
        } else {
            "an ordinary user"
        };
        assert!(user.text.contains(servers_run_as), "{}", user.text);
        for finding in noise(&Facts::here()) {
            assert!(!finding.text.is_empty());
        }
    }

    #[test]
    fn a_data_folder_that_cannot_be_written_is_missing() {
        let found = home(&Home::at("/proc/lasthop"));
        assert_eq!(found.severity, Severity::Missing);
        assert!(found.text.contains("LASTHOP_HOME"));
    }
}
