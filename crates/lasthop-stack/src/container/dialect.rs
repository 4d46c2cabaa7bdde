//! Differences between container engines, as a table.

use std::path::Path;

use lasthop_model::{engine::EngineKind, program::Packages};

/// Asks an engine, and returns its answer.
type Ask<'a> = &'a dyn Fn(&[&str]) -> Option<String>;

/// Options, formats and quirks of an engine.
#[derive(Debug)]
pub struct Dialect {
    pub kind: EngineKind,
    /// The packages that install the engine, by package manager.
    pub packages: &'static [(&'static str, &'static str)],
    /// Format of `info`: the version, a space, and facts for `is_rootless` and `flaw`.
    pub about: &'static str,
    /// Format of `info`: runtime, storage and network backend.
    pub parts: &'static str,
    /// Why an engine that answers cannot work, from the rest of `about`.
    pub flaw: fn(&str, Ask<'_>) -> Option<&'static str>,
    /// Advice by parts of an error, any of which must occur. The last advice has no parts and covers all other errors.
    pub remedies: &'static [(&'static [&'static str], &'static str)],
    /// Variables that decide which engine the client uses and where it keeps data.
    pub variables: &'static [&'static str],
    /// Whether containers can get the limits of this process. A daemon has limits of its own.
    pub inherits_limits: bool,
    /// Options of `build`.
    pub build: &'static [&'static str],
    /// Options of `rm`.
    pub removal: &'static [&'static str],
    /// Options of `network create`.
    pub network: &'static [&'static str],
    /// Format of `network inspect`: a line for each subnet, with its gateway.
    pub subnets: &'static str,
    /// Whether an address can be requested only in a subnet that was requested too.
    pub requests_subnet: bool,
    /// Chains of the packet filter that removing a network may leave, if the engine has root's rights.
    pub chains: fn(&str) -> Vec<String>,
    /// The part before the container's id in the name of a cgroup that an interrupted start may leave behind.
    pub cgroup: Option<&'static str>,
}

/// The engines in the order of preference.
pub static DIALECTS: [Dialect; EngineKind::ALL.len()] = [
    Dialect {
        kind: EngineKind::Podman,
        packages: &[
            ("apt", "podman"),
            ("dnf", "podman"),
            ("apk", "podman"),
            ("pacman", "podman"),
            ("brew", "podman"),
        ],
        about: "{{.Version.Version}} {{.Host.Security.Rootless}} {{.Host.NetworkBackend}}",
        parts: "{{.Host.OCIRuntime.Name}}, {{.Store.GraphDriverName}}, {{.Host.NetworkBackend}}",
        flaw: podman_flaw,
        remedies: &[
            (
                &["with cni"],
                "install the package `containernetworking-plugins`, or install `netavark` and `aardvark-dns` and set \
                 `network_backend = \"netavark\"` under `[network]` in containers.conf",
            ),
            (
                &["newuidmap", "subuid"],
                "rootless podman needs the package `uidmap` and lines for this user in /etc/subuid and /etc/subgid",
            ),
            (
                &[],
                "see `podman info`; if the runtime does not support this machine's cgroups, choose another one in \
                 containers.conf",
            ),
        ],
        variables: &[
            "CONTAINERS_CONF",
            "CONTAINERS_STORAGE_CONF",
            "CONTAINER_HOST",
            "XDG_RUNTIME_DIR",
            "XDG_DATA_HOME",
        ],
        inherits_limits: true,
        build: &["--pull=missing"],
        // Without --depend, podman does not remove a container whose network namespace another container shares.
        removal: &["--time", "0", "--depend"],
        // Addresses are known, so a name server would be a needless process.
        network: &["--disable-dns"],
        subnets: "{{range .Subnets}}{{.Subnet}} {{.Gateway}}\n{{end}}",
        requests_subnet: false,
        chains: netavark_chains,
        cgroup: Some("libpod-"),
    },
    Dialect {
        kind: EngineKind::Docker,
        packages: &[
            ("apt", "docker.io"),
            ("dnf", "moby-engine"),
            ("apk", "docker"),
            ("pacman", "docker"),
        ],
        about: "{{.ServerVersion}} {{.SecurityOptions}}",
        parts: "{{.DefaultRuntime}}, {{.Driver}}, libnetwork",
        flaw: |_, _| None,
        remedies: &[
            (
                &["permission denied"],
                "this user may not use the daemon: join the group `docker`, or use podman or rootless Docker",
            ),
            (
                &[],
                "start the daemon (`systemctl start docker`), or set DOCKER_HOST to its address",
            ),
        ],
        variables: &[
            "DOCKER_HOST",
            "DOCKER_CONTEXT",
            "DOCKER_CONFIG",
            "DOCKER_CERT_PATH",
            "DOCKER_TLS_VERIFY",
        ],
        inherits_limits: false,
        build: &[],
        removal: &[],
        network: &[],
        subnets: "{{range .IPAM.Config}}{{.Subnet}} {{.Gateway}}\n{{end}}",
        requests_subnet: true,
        chains: |_| Vec::new(),
        cgroup: None,
    },
];

/// The dialect of an engine.
pub fn of_engine(kind: EngineKind) -> &'static Dialect {
    DIALECTS
        .iter()
        .find(|dialect| dialect.kind == kind)
        .expect("every kind has an entry")
}

impl Dialect {
    /// The packages that install the engine.
    pub fn packages(&self) -> Packages {
        Packages::named(self.packages.iter().copied())
    }

    /// A reason with advice.
    pub(super) fn advised(&self, reason: &str) -> String {
        let mut remedies = self.remedies.iter();
        let fitting = remedies.find(|(signs, _)| signs.is_empty() || signs.iter().any(|sign| reason.contains(sign)));
        let what = fitting.map_or("", |(_, what)| what);
        format!("{reason}\n    {what}")
    }

    /// The first words of a command that removes a container in any state.
    pub(super) fn rm(&self) -> Vec<&'static str> {
        [&["rm", "--force", "--volumes"], self.removal].concat()
    }
}

/// Whether containers run in a user namespace of this user, by the engine's description of itself.
pub(super) fn is_rootless(about: &str) -> bool {
    // podman answers `true` or `false` first; Docker has `name=rootless` among its security options.
    about.starts_with("true") || about.contains("rootless")
}

fn podman_flaw(about: &str, ask: Ask<'_>) -> Option<&'static str> {
    if about.ends_with("cni") && !has_cni() {
        return Some("it creates networks with cni, whose plugins are not installed");
    }
    if !is_rootless(about) {
        return None;
    }
    // Images contain files of several users.
    let answer = ask(&["info", "--format", "{{json .Host.IDMappings.UIDMap}}"])?;
    let ranges: Vec<serde_json::Value> = serde_json::from_str(answer.trim()).ok()?;
    let users: Option<u64> = ranges.iter().map(|range| range["size"].as_u64()).sum();
    (users == Some(1))
        .then_some("this user has no subordinate ids (/etc/subuid), so a container can have only one user")
}

/// Folders where podman looks for CNI plugins.
const CNI: [&str; 5] = [
    "/usr/local/libexec/cni",
    "/usr/libexec/cni",
    "/usr/local/lib/cni",
    "/usr/lib/cni",
    "/opt/cni/bin",
];

/// Whether podman uses CNI. An engine first used without netavark keeps CNI, even if only netavark is installed now.
fn has_cni() -> bool {
    CNI.iter().any(|folder| Path::new(folder).join("bridge").is_file())
}

/// Chains of a network with several published ports that netavark (seen with 1.4) sometimes leaves empty. Their name
/// contains the SHA-512 of the network's name.
fn netavark_chains(network: &str) -> Vec<String> {
    let digest = ring::digest::digest(&ring::digest::SHA512, network.as_bytes());
    let hash: String = digest.as_ref().iter().map(|byte| format!("{byte:02X}")).collect();
    vec![
        // netavark uses 13 digits of the hash: the name of a chain has at most 28 bytes.
        format!("NETAVARK-DN-{}", &hash[..13]),
        format!("NETAVARK-{}", &hash[..13]),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_engine_has_an_entry_in_the_order_of_its_kind() {
        assert_eq!(DIALECTS.each_ref().map(|dialect| dialect.kind), EngineKind::ALL);
    }

    #[test]
    fn reasons_name_what_to_do() {
        let denied =
            of_engine(EngineKind::Docker).advised("dial unix /var/run/docker.sock: connect: permission denied");
        assert!(denied.contains("join the group `docker`"), "{denied}");
        for dialect in &DIALECTS {
            assert!(
                dialect.remedies.last().is_some_and(|(signs, _)| signs.is_empty()),
                "{dialect:?}"
            );
        }
    }

    #[test]
    fn what_engines_say_about_themselves_is_understood() {
        assert!(is_rootless("true netavark") && is_rootless("[name=seccomp,profile=builtin name=rootless]"));
        assert!(!is_rootless("false netavark") && !is_rootless("[name=seccomp,profile=builtin]"));
        let one = |_: &[&str]| Some("[{\"container_id\":0,\"host_id\":1000,\"size\":1}]".to_owned());
        let flaw = of_engine(EngineKind::Podman).flaw;
        assert!(flaw("true netavark", &one).unwrap().contains("/etc/subuid"));
        assert_eq!(flaw("false netavark", &one), None);
        assert_eq!(flaw("true netavark", &|_| None), None);
    }
}
