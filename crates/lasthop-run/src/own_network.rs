//! A network namespace that a run has for itself, where what TCP on loopback meets changes from case to case.
//!
//! lasthop goes there before it starts anything, and all that it starts is there, too. The namespace has no name: it ends
//! with the last process in it, so that no rule outlives a run.

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

/// Bytes of the largest packet on a loopback interface that is new.
const MTU: u32 = 65_536;
/// The longest that loading rules may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Dropping it leads the thread back.
#[derive(Debug)]
pub struct OwnNetwork {
    before: File,
    /// The file that rules are loaded from.
    rules: PathBuf,
    /// What settings were before a case has changed them.
    usual: IndexMap<String, String>,
    /// `None` before the first case, and after one that failed half-way.
    met: Option<Conditions>,
    has_rules: bool,
}

impl OwnNetwork {
    /// `None` if no case decides what TCP meets.
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
        // Settings are noted as they are in a new namespace.
        for name in first.sysctls.keys() {
            let value = files::text(file_of(name))
                .map_err(|error| format!("there is no kernel setting {name} in a network namespace: {error}"))?;
            made.usual.insert(name.clone(), value.trim().to_owned());
        }
        // So that the record's environment is that of the reference. What fails fails again in each case, which says so.
        let _ = made.meet(first);
        Ok(Some(made))
    }

    /// Makes TCP on loopback meet this. Returns whether it met something else before.
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
                // The kernel lets a namespace have those that everybody may use.
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
        // Whoever cannot go back has nothing more to do with the network than a report.
        let _ = go_into(&self.before);
    }
}

fn file_of(sysctl: &str) -> PathBuf {
    Path::new("/proc/sys").join(sysctl.replace('.', "/"))
}
