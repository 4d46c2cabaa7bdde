//! CPUs that are near each other.

use std::collections::BTreeMap;

use crate::{cpus::listed, facts::Facts};

const CPUS: &str = "/sys/devices/system/cpu";
const NODES: &str = "/sys/devices/system/node";

/// A CPU with its core, last-level cache and NUMA node, each named by its lowest CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cpu {
    number: u32,
    core: u32,
    cache: u32,
    node: u32,
}

/// The CPUs that a process may use.
#[derive(Clone, Debug)]
pub struct Topology(Vec<Cpu>);

impl Topology {
    /// The kernel's description of these CPUs. A cache or node that it leaves out counts as shared by all, a core as
    /// unshared.
    #[must_use]
    pub fn of(facts: &Facts, allowed: &[u32]) -> Self {
        let nodes: Vec<Vec<u32>> = nodes(facts).iter().filter_map(|cpus| listed(cpus)).collect();
        let lowest = |cpus: String| listed(&cpus)?.into_iter().min();
        let of = |&number: &u32| Cpu {
            number,
            core: core(facts, number).and_then(lowest).unwrap_or(number),
            cache: last_cache(facts, number)
                .and_then(|cache| lowest(cache.cpus))
                .unwrap_or(0),
            node: nodes
                .iter()
                .find(|cpus| cpus.contains(&number))
                .map_or(0, |cpus| cpus[0]),
        };
        Self(allowed.iter().map(of).collect())
    }

    /// Groups of `count` CPUs as near each other as possible: in one cache if it has enough, else in one node, else
    /// anywhere. No two CPUs of a group share a core if there are enough cores. Groups overlap. `None` if there are
    /// fewer CPUs.
    #[must_use]
    pub fn groups(&self, count: usize) -> Option<Groups> {
        let mut cores: BTreeMap<u32, Cpu> = BTreeMap::new();
        for cpu in &self.0 {
            cores.entry(cpu.core).or_insert(*cpu);
        }
        let cores: Vec<Cpu> = cores.into_values().collect();
        let near = |all: &[Cpu]| {
            [Share::Cache, Share::Node, Share::Machine]
                .into_iter()
                .find_map(|share| {
                    let cpus = within(all, count, |cpu| match share {
                        Share::Cache => cpu.cache,
                        Share::Node => cpu.node,
                        Share::Machine => 0,
                    });
                    (!cpus.is_empty()).then_some(Groups { share, cpus })
                })
        };
        near(&cores).or_else(|| near(&self.0))
    }
}

/// Groups of CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Groups {
    pub share: Share,
    pub cpus: Vec<Vec<u32>>,
}

/// What the CPUs of a group have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    Cache,
    Node,
    Machine,
}

/// Neighbouring CPUs within each domain.
fn within(cpus: &[Cpu], count: usize, domain: impl Fn(&Cpu) -> u32) -> Vec<Vec<u32>> {
    let mut domains: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for cpu in cpus {
        domains.entry(domain(cpu)).or_default().push(cpu.number);
    }
    let windows = domains.values().flat_map(|cpus| cpus.windows(count.max(1)));
    windows.map(<[u32]>::to_vec).collect()
}

/// A cache.
pub struct Cache {
    pub level: u32,
    /// CPUs that share the cache, in the kernel's format: `0-3,8`.
    pub cpus: String,
    /// Size in the kernel's format: `32768K`.
    pub size: String,
}

/// The last-level cache of a CPU.
#[must_use]
pub fn last_cache(facts: &Facts, cpu: u32) -> Option<Cache> {
    let caches = format!("{CPUS}/cpu{cpu}/cache");
    let levels = facts.names(&caches).into_iter().filter_map(|index| {
        let of = |name| facts.text(&format!("{caches}/{index}/{name}"));
        Some(Cache {
            level: of("level")?.parse().ok()?,
            cpus: of("shared_cpu_list")?,
            size: of("size").unwrap_or_default(),
        })
    });
    levels.max_by_key(|cache| cache.level)
}

/// All CPUs of the machine that the kernel describes.
#[must_use]
pub fn cpus(facts: &Facts) -> Vec<u32> {
    numbered(facts, CPUS, "cpu")
}

/// The CPUs of this CPU's core, in the kernel's format. An offline CPU has none.
#[must_use]
pub fn core(facts: &Facts, cpu: u32) -> Option<String> {
    facts.text(&format!("{CPUS}/cpu{cpu}/topology/thread_siblings_list"))
}

/// The CPUs of this CPU's socket, in the kernel's format. An offline CPU has none.
#[must_use]
pub fn socket(facts: &Facts, cpu: u32) -> Option<String> {
    facts.text(&format!("{CPUS}/cpu{cpu}/topology/core_siblings_list"))
}

/// The CPUs of each NUMA node, in the kernel's format.
#[must_use]
pub fn nodes(facts: &Facts) -> Vec<String> {
    numbered(facts, NODES, "node")
        .into_iter()
        .filter_map(|number| facts.text(&format!("{NODES}/node{number}/cpulist")))
        .filter(|cpus| !cpus.is_empty())
        .collect()
}

/// Numbers of the folders `prefix0`, `prefix1` and so on.
fn numbered(facts: &Facts, folder: &str, prefix: &str) -> Vec<u32> {
    let names = facts.names(folder).into_iter();
    let mut numbers: Vec<u32> = names
        .filter_map(|name| name.strip_prefix(prefix)?.parse().ok())
        .collect();
    numbers.sort_unstable();
    numbers
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;

    /// A machine described by lists of CPUs that share a core, a cache and a node.
    fn machine(cpus: u32, core: impl Fn(u32) -> String, cache: impl Fn(u32) -> String, nodes: &[&str]) -> TempDir {
        let root = tempfile::tempdir().unwrap();
        let write = |path: String, text: &str| {
            let path = root.path().join("sys/devices/system").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        };
        for cpu in 0..cpus {
            write(format!("cpu/cpu{cpu}/topology/thread_siblings_list"), &core(cpu));
            for (index, level, shared) in [(0, "1", core(cpu)), (3, "3", cache(cpu))] {
                write(format!("cpu/cpu{cpu}/cache/index{index}/level"), level);
                write(format!("cpu/cpu{cpu}/cache/index{index}/shared_cpu_list"), &shared);
            }
        }
        for (node, cpus) in nodes.iter().enumerate() {
            write(format!("node/node{node}/cpulist"), cpus);
        }
        root
    }

    fn groups(root: &TempDir, allowed: impl IntoIterator<Item = u32>, count: usize) -> Vec<Vec<u32>> {
        let allowed: Vec<u32> = allowed.into_iter().collect();
        let topology = Topology::of(&Facts::below(root.path()), &allowed);
        topology.groups(count).map(|groups| groups.cpus).unwrap_or_default()
    }

    #[test]
    fn cpus_of_one_cache_are_neighbours() {
        let own = |cpu: u32| cpu.to_string();
        let sixteen = machine(
            16,
            own,
            |cpu| if cpu < 8 { "0-7" } else { "8-15" }.to_owned(),
            &["0-15"],
        );
        let all = groups(&sixteen, 0..16, 3);
        assert_eq!(all.len(), 12, "six in each cache: {all:?}");
        assert!(
            all.iter().all(|group| group.iter().all(|cpu| cpu / 8 == group[0] / 8)),
            "{all:?}"
        );
        // No cache has nine CPUs.
        assert_eq!(groups(&sixteen, 0..16, 9).len(), 8);
        // A CPU mask with holes.
        assert_eq!(groups(&sixteen, [1, 5, 9, 14], 2), [[1, 5], [9, 14]]);
        assert_eq!(groups(&sixteen, [3], 2), Vec::<Vec<u32>>::new());
    }

    #[test]
    fn siblings_of_a_core_are_not_of_one_group_while_there_are_cores() {
        let four = machine(
            4,
            |cpu| format!("{},{}", cpu % 2, cpu % 2 + 2),
            |_| "0-3".to_owned(),
            &["0-3"],
        );
        assert_eq!(groups(&four, 0..4, 2), [[0, 1]]);
        assert_eq!(groups(&four, 0..4, 3), [[0, 1, 2], [1, 2, 3]], "there are two cores");
    }

    #[test]
    fn nodes_are_kept_together_where_caches_are_small() {
        let pair = |cpu: u32| format!("{}-{}", cpu & !1, cpu | 1);
        let two_sockets = machine(64, |cpu| cpu.to_string(), pair, &["0-31", "32-63"]);
        let all = groups(&two_sockets, 0..64, 4);
        assert_eq!(all.len(), 2 * 29);
        assert!(all.iter().all(|group| (group[0] < 32) == (group[3] < 32)));
    }

    #[test]
    fn a_cpu_that_is_offline_is_in_no_group() {
        let four = machine(4, |cpu| cpu.to_string(), |_| "0-3".to_owned(), &["0-3"]);
        let gone = four.path().join("sys/devices/system/cpu/cpu2");
        fs::remove_dir_all(gone.join("topology")).unwrap();
        fs::remove_dir_all(gone.join("cache")).unwrap();
        let facts = Facts::below(four.path());
        assert_eq!((cpus(&facts).len(), core(&facts, 2)), (4, None));
        // The process may not run on CPU 2.
        assert_eq!(groups(&four, [0, 1, 3], 2), [[0, 1], [1, 3]]);
    }

    #[test]
    fn a_machine_that_says_nothing_has_neighbours_by_number() {
        let nothing = tempfile::tempdir().unwrap();
        assert_eq!(groups(&nothing, [0, 1, 2], 2), [[0, 1], [1, 2]]);
    }
}
