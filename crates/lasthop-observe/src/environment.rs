//! Describes the machine: the part of a record that tells machines apart.

use indexmap::{IndexMap, IndexSet};
use lasthop_model::record::{CpuTopology, Environment, PacketFilter, ProgramVersion};

use lasthop_system::{digest, facts::Facts, loopback, topology};

/// Kernel settings that affect the cost of a local connection or limit what may be observed.
pub const SYSCTLS: [&str; 20] = [
    "kernel.perf_event_paranoid",
    "kernel.sched_autogroup_enabled",
    "net.core.busy_poll",
    "net.core.busy_read",
    "net.core.default_qdisc",
    "net.core.rmem_default",
    "net.core.somaxconn",
    "net.core.wmem_default",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_abort_on_overflow",
    "net.ipv4.tcp_autocorking",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_max_tw_buckets",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_tw_reuse",
    "net.ipv4.tcp_wmem",
    "net.netfilter.nf_conntrack_max",
    "net.unix.max_dgram_qlen",
    "vm.swappiness",
];

/// Reads the environment; `programs` lists the started programs by recipe.
pub fn read(facts: &Facts, programs: IndexMap<String, ProgramVersion>) -> Environment {
    let unknown = || "unknown".to_owned();
    let sysctl = |name: &&str| Some(((*name).to_owned(), facts.sysctl(name)?));
    let machine = machine_digest(facts);
    Environment {
        host: format!("machine-{}", &machine[..8]),
        machine,
        cpu_model: cpu_model(facts).unwrap_or_else(unknown),
        cpus: facts.cpus(),
        memory: facts.memory("MemTotal").unwrap_or(0),
        kernel: facts.sysctl("kernel.osrelease").unwrap_or_else(unknown),
        architecture: std::env::consts::ARCH.to_owned(),
        distribution: distribution(facts).unwrap_or_else(unknown),
        virtualization: virtualization(facts),
        governor: governor(facts),
        load_average: facts.load_average(),
        sysctl: SYSCTLS.iter().filter_map(sysctl).collect(),
        caches: caches(facts),
        topology: Some(topology(facts)),
        mitigations: mitigations(facts),
        loopback_mtu: loopback::mtu().ok().flatten(),
        packet_filter: Some(packet_filter(facts)),
        programs,
        driver: None,
    }
}

/// The size of each last-level cache, by the CPUs that share it.
fn caches(facts: &Facts) -> IndexMap<String, String> {
    let caches = topology::cpus(facts)
        .into_iter()
        .filter_map(|cpu| topology::last_cache(facts, cpu));
    caches
        .map(|cache| (format!("L{} of {}", cache.level, cache.cpus), cache.size))
        .collect()
}

fn topology(facts: &Facts) -> CpuTopology {
    let cpus = topology::cpus(facts);
    let shared = |of: fn(&Facts, u32) -> Option<String>| {
        let lists: IndexSet<String> = cpus.iter().filter_map(|cpu| of(facts, *cpu)).collect();
        Vec::from_iter(lists)
    };
    CpuTopology {
        sockets: shared(topology::socket),
        nodes: topology::nodes(facts),
        cores: shared(topology::core),
    }
}

fn mitigations(facts: &Facts) -> IndexMap<String, String> {
    let folder = "/sys/devices/system/cpu/vulnerabilities";
    let all = facts.names(folder).into_iter().filter_map(|name| {
        let state = facts.text(&format!("{folder}/{name}"))?;
        Some((name, state))
    });
    all.filter(|(_, state)| state != "Not affected").collect()
}

/// The packet filter that packets on loopback pass.
pub fn packet_filter(facts: &Facts) -> PacketFilter {
    let passed = loopback::passed().ok();
    // Only root can read this file and the rules.
    let tables = facts.text("/proc/net/ip_tables_names").unwrap_or_default();
    PacketFilter {
        chains: passed.as_ref().map(|passed| passed.chains),
        rules: passed.as_ref().map(|passed| passed.rules),
        hooks: passed
            .into_iter()
            .flat_map(|passed| passed.hooks)
            .map(|(hook, rules)| (hook.to_owned(), rules))
            .collect(),
        iptables: tables.lines().map(str::to_owned).collect(),
        tracking: loopback::is_tracked(facts),
    }
}

/// Identifies the machine without naming it. Without a machine id, only the host's name does.
fn machine_digest(facts: &Facts) -> String {
    let id = facts.text("/etc/machine-id").unwrap_or_default();
    // machine-id(5) calls the id confidential, so only a digest leaves the machine.
    digest::of_bytes(format!("{id}\n{}", host(facts)).as_bytes())
}

/// The name of the host, which records leave out.
pub fn host(facts: &Facts) -> String {
    facts.sysctl("kernel.hostname").unwrap_or_default()
}

/// The processor's model. x86 has a name. ARM has numbers, and a name only for some boards.
fn cpu_model(facts: &Facts) -> Option<String> {
    let field = |name| facts.field("/proc/cpuinfo", name).filter(|value| !value.is_empty());
    if let Some(name) = field("model name").or_else(|| field("Hardware")) {
        return Some(name);
    }
    if let Some(board) = facts.text("/proc/device-tree/model") {
        return Some(board.trim_end_matches('\0').to_owned());
    }
    let implementer = field("CPU implementer")?;
    let part = field("CPU part")?;
    Some(format!("implementer {implementer} part {part}"))
}

fn distribution(facts: &Facts) -> Option<String> {
    let release = ["/etc/os-release", "/usr/lib/os-release"];
    release.iter().find_map(|path| facts.field(path, "PRETTY_NAME"))
}

/// Governor of CPU 0, if the kernel shows one.
pub fn governor(facts: &Facts) -> Option<String> {
    facts.text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
}

/// The virtualisation in words of `systemd-detect-virt`; both for a container inside a virtual machine: `docker in
/// kvm`.
pub fn virtualization(facts: &Facts) -> String {
    match (container(facts), machine(facts)) {
        (Some(container), Some(machine)) => format!("{container} in {machine}"),
        (Some(word), None) | (None, Some(word)) => word,
        (None, None) => "none".to_owned(),
    }
}

fn container(facts: &Facts) -> Option<String> {
    if let Some(name) = facts.text("/run/systemd/container").filter(|name| !name.is_empty()) {
        return Some(name);
    }
    for (file, engine) in [("/run/.containerenv", "podman"), ("/.dockerenv", "docker")] {
        if facts.exists(file) {
            return Some(engine.to_owned());
        }
    }
    // Container managers set `container` for the first process, by a convention of systemd.
    let environment = facts.text("/proc/1/environ")?;
    let mut variables = environment.split('\0');
    variables.find_map(|variable| Some(variable.strip_prefix("container=")?.to_owned()))
}

/// The hypervisor, from the firmware if it names a cloud's, otherwise from the processor, otherwise from the firmware.
fn machine(facts: &Facts) -> Option<String> {
    const FIRMWARE: [(&str, &str); 10] = [
        ("Amazon EC2", "amazon"),
        ("Google", "google"),
        ("Xen", "xen"),
        ("innotek GmbH", "oracle"),
        ("VirtualBox", "oracle"),
        ("VMware", "vmware"),
        ("Microsoft Corporation", "microsoft"),
        ("Parallels", "parallels"),
        ("QEMU", "qemu"),
        ("KVM", "kvm"),
    ];
    let said = ["sys_vendor", "product_name", "board_vendor", "bios_vendor"]
        .iter()
        .filter_map(|name| facts.text(&format!("/sys/class/dmi/id/{name}")))
        .find_map(|text| FIRMWARE.iter().find(|(begin, _)| text.starts_with(begin)));
    let said = said.map(|(_, word)| *word);
    let flags = facts.field("/proc/cpuinfo", "flags").unwrap_or_default();
    match said {
        // Amazon and Google use KVM, and the processor would say only that.
        Some(word @ ("amazon" | "google" | "xen" | "oracle")) => Some(word.to_owned()),
        _ if flags.split_ascii_whitespace().any(|flag| flag == "hypervisor") => {
            Some(hypervisor().or(said).unwrap_or("vm-other").to_owned())
        }
        // Microsoft also makes computers; the others in the list make only virtual machines.
        Some("microsoft") | None => None,
        Some(word) => Some(word.to_owned()),
    }
}

/// The signature at CPUID leaf 0x4000_0000, which exists if the flag `hypervisor` is set.
#[cfg(target_arch = "x86_64")]
fn hypervisor() -> Option<&'static str> {
    // SAFETY: every x86-64 processor has CPUID. (It is a safe function in newer releases of Rust.)
    #[allow(unused_unsafe)]
    let leaf = unsafe { std::arch::x86_64::__cpuid(0x4000_0000) };
    let signature = [leaf.ebx, leaf.ecx, leaf.edx].map(u32::to_le_bytes).concat();
    match signature.as_slice() {
        b"KVMKVMKVM\0\0\0" | b"Linux KVM Hv" => Some("kvm"),
        b"Microsoft Hv" => Some("microsoft"),
        b"VMwareVMware" => Some("vmware"),
        b"XenVMMXenVMM" => Some("xen"),
        b"TCGTCGTCGTCG" => Some("qemu"),
        b"bhyve bhyve " => Some("bhyve"),
        b"ACRNACRNACRN" => Some("acrn"),
        _ => None,
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn hypervisor() -> Option<&'static str> {
    None
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Facts) {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path.trim_start_matches('/'));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let facts = Facts::below(root.path());
        (root, facts)
    }

    #[test]
    fn this_machine_is_described() {
        let environment = read(&Facts::here(), IndexMap::new());
        assert!(environment.cpus >= 1 && environment.memory > 1 << 20);
        for text in [
            &environment.host,
            &environment.cpu_model,
            &environment.kernel,
            &environment.distribution,
        ] {
            assert!(!text.is_empty() && text != "unknown", "{environment:?}");
        }
        assert!(environment.sysctl.contains_key("net.core.somaxconn"));
        assert!(environment.loopback_mtu.is_some());
    }

    #[test]
    fn values_come_from_their_files() {
        let (_root, facts) = tree(&[
            (
                "/proc/cpuinfo",
                "processor\t: 0\nmodel name\t: Fast CPU @ 3 GHz\nflags\t\t: fpu sse\n",
            ),
            ("/proc/stat", "cpu 1\ncpu0 1\ncpu1 1\ncpu2 1\nintr 1\n"),
            ("/proc/meminfo", "MemTotal:       1024 kB\n"),
            ("/proc/loadavg", "0.50 0.25 0.10 1/100 5\n"),
            ("/proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n"),
            ("/sys/devices/system/cpu/cpu0/cache/index2/level", "2\n"),
            ("/sys/devices/system/cpu/cpu0/cache/index2/size", "2048K\n"),
            ("/sys/devices/system/cpu/cpu0/cache/index2/shared_cpu_list", "0\n"),
            ("/sys/devices/system/cpu/cpu0/cache/index3/level", "3\n"),
            ("/sys/devices/system/cpu/cpu0/cache/index3/size", "32768K\n"),
            ("/sys/devices/system/cpu/cpu0/cache/index3/shared_cpu_list", "0-2\n"),
            ("/sys/devices/system/cpu/cpu1/cache/index3/level", "3\n"),
            ("/sys/devices/system/cpu/cpu1/cache/index3/size", "32768K\n"),
            ("/sys/devices/system/cpu/cpu1/cache/index3/shared_cpu_list", "0-2\n"),
            ("/sys/devices/system/cpu/cpu0/topology/core_siblings_list", "0-2\n"),
            ("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "0-1\n"),
            ("/sys/devices/system/cpu/cpu1/topology/core_siblings_list", "0-2\n"),
            ("/sys/devices/system/cpu/cpu1/topology/thread_siblings_list", "0-1\n"),
            ("/sys/devices/system/node/node0/cpulist", "0-2\n"),
            ("/sys/devices/system/cpu/vulnerabilities/meltdown", "Mitigation: PTI\n"),
            ("/sys/devices/system/cpu/vulnerabilities/mds", "Not affected\n"),
            ("/proc/net/ip_tables_names", "nat\nfilter\n"),
            ("/etc/os-release", "NAME=x\nPRETTY_NAME=\"Debian GNU/Linux 12\"\n"),
        ]);
        let environment = read(&facts, IndexMap::new());
        assert_eq!(
            (environment.cpu_model.as_str(), environment.cpus),
            ("Fast CPU @ 3 GHz", 3)
        );
        assert_eq!(
            (environment.memory, environment.load_average),
            (1 << 20, [0.5, 0.25, 0.1])
        );
        assert_eq!(environment.distribution, "Debian GNU/Linux 12");
        assert_eq!(environment.sysctl["net.ipv4.ip_local_port_range"], "32768 60999");
        let one = |name: &str, value: &str| IndexMap::from([(name.to_owned(), value.to_owned())]);
        assert_eq!(environment.caches, one("L3 of 0-2", "32768K"));
        let topology = CpuTopology {
            sockets: vec!["0-2".to_owned()],
            nodes: vec!["0-2".to_owned()],
            cores: vec!["0-1".to_owned()],
        };
        assert_eq!(environment.topology, Some(topology));
        assert_eq!(environment.mitigations, one("meltdown", "Mitigation: PTI"));
        assert_eq!(environment.packet_filter.unwrap().iptables, ["nat", "filter"]);
        assert_eq!(
            (environment.virtualization.as_str(), environment.governor),
            ("none", None)
        );
    }

    #[test]
    fn a_machine_is_told_from_others_and_not_named() {
        let told = |id, host| {
            let (_root, facts) = tree(&[("/etc/machine-id", id), ("/proc/sys/kernel/hostname", host)]);
            let environment = read(&facts, IndexMap::new());
            assert_eq!(environment.host, format!("machine-{}", &environment.machine[..8]));
            environment.machine
        };
        let one = told("0123456789abcdef", "secret-host");
        assert_eq!((one.len(), &one), (64, &told("0123456789abcdef", "secret-host")));
        assert!(one != told("0123456789abcdef", "other") && one != told("other", "secret-host"));
    }

    #[test]
    fn clouds_and_containers_have_their_names() {
        let (_root, facts) = tree(&[("/sys/class/dmi/id/sys_vendor", "Amazon EC2\n"), ("/.dockerenv", "")]);
        assert_eq!(virtualization(&facts), "docker in amazon");
        let (_root, facts) = tree(&[("/sys/class/dmi/id/sys_vendor", "Microsoft Corporation\n")]);
        assert_eq!(virtualization(&facts), "none");
        let (_root, facts) = tree(&[("/proc/1/environ", "A=1\0container=lxc\0")]);
        assert_eq!(virtualization(&facts), "lxc");
    }
}
