//! A network namespace for the run alone, if cases set conditions for TCP on loopback.
//!
//! lasthop enters the namespace before it starts any process, so all of them are inside. The namespace has no name: it
//! ends with its last process, so no rule outlives a run.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use indexmap::IndexMap;
use lasthop_model::record::Conditions;
use lasthop_plan::plan::Plan;
use lasthop_system::{
    command, files,
    namespace::{go_into, ip, leave},
};

/// MTU of a new loopback interface, in bytes.
const MTU: u32 = 65_536;
/// The longest time to load rules.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The namespace of this thread. Dropping it returns the thread to the previous namespace.
#[derive(Debug)]
pub struct OwnNetwork {
    before: File,
    /// The file that rules are loaded from.
    rules: PathBuf,
    /// The initial values of settings.
    usual: IndexMap<String, String>,
    /// The current conditions; `None` before the first case, and after a case that failed half-way.
    met: Option<Conditions>,
    has_rules: bool,
}

impl OwnNetwork {
    /// Enters a new namespace; `None` if no case sets conditions.
    pub fn enter(plan: &Plan, sandbox: &Path) -> Result<Option<Self>, String> {
        let mut all = plan.cases.iter().filter(|case| case.conditions.is_some());
        let reference = all.clone().find(|case| case.reference.is_none()).or_else(|| all.next());
        let Some(first) = reference.and_then(|case| case.conditions.as_ref()) else {
            return Ok(None);
        };
        let refused = |cause| {
            format!(
                "cannot create a network namespace for the run: {cause}; you need root, or CAP_SYS_ADMIN and CAP_NET_ADMIN"
            )
        };
        let mut made = Self {
            before: leave().map_err(refused)?,
            rules: sandbox.join("rules.nft"),
            usual: IndexMap::new(),
            met: None,
            has_rules: false,
        };
        // The values of a new namespace.
        for name in first.sysctls.keys() {
            let value = files::text(file_of(name))
                .map_err(|error| format!("there is no kernel setting {name} in a network namespace: {error}"))?;
            made.usual.insert(name.clone(), value.trim().to_owned());
        }
        // The record's environment is then that of the reference. A failure here recurs in each case, which reports it.
        let _ = made.meet(first);
        Ok(Some(made))
    }

    /// Applies conditions to TCP on loopback. Returns whether they changed.
    pub fn meet(&mut self, wanted: &Conditions) -> Result<bool, String> {
        if self.met.as_ref() == Some(wanted) {
            return Ok(false);
        }
        self.met = None;
        if self.has_rules || !wanted.rules.is_empty() {
            self.has_rules = true;
            self.load(&wanted.rules)?;
        }
        let mtu = wanted.mtu.unwrap_or(MTU).to_string();
        ip(None, &["link", "set", "lo", "mtu", &mtu])?;
        for (name, value) in &wanted.sysctls {
            let value = if value.is_empty() { &self.usual[name] } else { value };
            fs::write(file_of(name), value).map_err(|error| {
                // A namespace may use only congestion controls that the machine allows to everybody.
                let allowed = if name.ends_with("tcp_congestion_control") {
                    format!("; first add {value} to the machine's net.ipv4.tcp_allowed_congestion_control")
                } else {
                    String::new()
                };
                format!("cannot set {name} to {value}: {error}{allowed}")
            })?;
        }
        self.met = Some(wanted.clone());
        Ok(true)
    }

    fn load(&self, rules: &str) -> Result<(), String> {
        let failed = |cause: &str| format!("cannot load the rules of the packet filter: {cause}");
        files::write_private(&self.rules, format!("flush ruleset\n{rules}\n").as_bytes())
            .map_err(|error| failed(&error.to_string()))?;
        let mut nft = Command::new("nft");
        nft.arg("-f").arg(&self.rules);
        match command::run(nft, TIMEOUT, command::Life::Bound) {
            Ok(ended) if ended.status.success() => Ok(()),
            Ok(ended) => Err(failed(ended.text().trim())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(failed("`nft` is missing; install nftables")),
            Err(error) => Err(failed(&error.to_string())),
        }
    }
}

impl Drop for OwnNetwork {
    fn drop(&mut self) {
        // After a failure, only the report is left to do, which needs no network.
        let _ = go_into(&self.before);
    }
}

fn file_of(sysctl: &str) -> PathBuf {
    Path::new("/proc/sys").join(sysctl.replace('.', "/"))
}
