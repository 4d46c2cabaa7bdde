//! CPU time and throttling of a container, from its cgroup.
//!
//! There are three layouts: version 1 (`cpuacct.usage` in nanoseconds, `cpu.stat` with `throttled_time` in
//! nanoseconds), version 2 (`cpu.stat` with `usage_usec` and `throttled_usec`), and both side by side, with the
//! controllers in version 1. The mount points are read, not assumed.

use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use lasthop_model::observation::CgroupUsage;
use lasthop_system::files;

/// The files of one cgroup, held open.
#[derive(Debug)]
pub struct Cgroup {
    /// CPU time in version 1; version 2 has it in `stat`.
    usage: Option<File>,
    /// Counters of the CPU limit.
    stat: Option<File>,
}

/// The counters of a cgroup since its creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CgroupReading {
    cpu_ns: u64,
    periods: u64,
    throttled: u64,
    throttled_ns: u64,
}

impl Cgroup {
    /// The cgroup that counts the CPU time of a process; `None` if it cannot be read, or is also lasthop's, and so says
    /// nothing about a container.
    pub fn of(pid: i32) -> Option<Self> {
        let mounts = files::text("/proc/self/mountinfo").ok()?;
        let groups = |pid: &str| files::text(format!("/proc/{pid}/cgroup")).ok();
        let theirs = groups(&pid.to_string())?;
        let ours = groups("self")?;
        let folder = |controller: &str| {
            let path = path_of(&theirs, controller).filter(|path| Some(*path) != path_of(&ours, controller))?;
            // A controller may be mounted several times, and some mounts do not show this group.
            folders(&mounts, controller, path)
                .into_iter()
                .find(|folder| folder.is_dir())
        };
        let open = |controller: &str, name: &str| files::open(&folder(controller)?.join(name)).ok();
        // Version 1 first: if both are mounted, it has the active controllers.
        match open("cpuacct", "cpuacct.usage") {
            Some(usage) => Some(Self {
                usage: Some(usage),
                stat: open("cpu", "cpu.stat"),
            }),
            None => Some(Self {
                usage: None,
                stat: Some(open("", "cpu.stat")?),
            }),
        }
    }

    /// The present counters; `None` if the cgroup is gone.
    pub fn read(&self) -> Option<CgroupReading> {
        let stat = self.stat.as_ref().map(text).transpose().ok()?.unwrap_or_default();
        let mut reading = parse(&stat);
        if let Some(usage) = &self.usage {
            reading.cpu_ns = text(usage).ok()?.trim().parse().ok()?;
        }
        Some(reading)
    }
}

impl CgroupReading {
    /// The change until a later reading, with the CPU time of the same processes by their own clocks.
    pub fn until(self, after: Self, by_process_ns: u64) -> CgroupUsage {
        CgroupUsage {
            cpu_ns: after.cpu_ns.saturating_sub(self.cpu_ns),
            by_process_ns,
            periods: after.periods.saturating_sub(self.periods),
            throttled: after.throttled.saturating_sub(self.throttled),
            throttled_ns: after.throttled_ns.saturating_sub(self.throttled_ns),
        }
    }
}

/// Reads a file of a cgroup from its beginning.
fn text(file: &File) -> io::Result<String> {
    let mut buffer = [0; 4096];
    // From offset 0, because the kernel then writes the text anew.
    let read = file.read_at(&mut buffer, 0)?;
    Ok(String::from_utf8_lossy(&buffer[..read]).into_owned())
}

/// Reads `cpu.stat` of either version: two counters differ in name and unit.
fn parse(stat: &str) -> CgroupReading {
    let value = |name: &str| -> Option<u64> {
        let line = stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|value| value.trim().parse().ok())
    };
    let micros = |name: &str| value(name).map(|micros| micros * 1000);
    CgroupReading {
        cpu_ns: micros("usage_usec").unwrap_or(0),
        periods: value("nr_periods").unwrap_or(0),
        throttled: value("nr_throttled").unwrap_or(0),
        throttled_ns: value("throttled_time")
            .or_else(|| micros("throttled_usec"))
            .unwrap_or(0),
    }
}

/// The path in a line `3:cpu,cpuacct:/path`; version 2 has the empty name: `0::/path`.
pub fn path_of<'a>(groups: &'a str, controller: &str) -> Option<&'a str> {
    groups.lines().find_map(|line| {
        let (names, path) = line.split_once(':')?.1.split_once(':')?;
        names.split(',').any(|name| name == controller).then_some(path)
    })
}

/// Mounted folders of a controller's cgroup. A line of mountinfo has the mounted part and the mount point, then after `
/// - ` the type and, in version 1, the controllers among the options.
fn folders(mounts: &str, controller: &str, path: &str) -> Vec<PathBuf> {
    let folder = |line: &str| {
        let (mount, kind) = line.split_once(" - ")?;
        let kind: Vec<&str> = kind.split(' ').collect();
        let matches = match *kind.first()? {
            "cgroup2" => controller.is_empty(),
            "cgroup" => !controller.is_empty() && kind.last()?.split(',').any(|option| option == controller),
            _ => false,
        };
        let fields: Vec<&str> = mount.split(' ').collect();
        let root = fields.get(3)?;
        let place = fields.get(4)?;
        let below = Path::new(path).strip_prefix(root).ok()?;
        matches.then(|| Path::new(place).join(below))
    };
    mounts.lines().filter_map(folder).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
33 31 0:30 / /sys/fs/cgroup/cpuacct rw,relatime shared:5 - cgroup cgroup rw,cpuacct
41 31 0:37 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";

    #[test]
    fn every_layout_has_its_folder() {
        let groups = "2:cpuacct:/pod/a\n1:cpu:/pod/a\n0::/pod/b\n";
        assert_eq!(
            (path_of(groups, "cpu"), path_of(groups, "")),
            (Some("/pod/a"), Some("/pod/b"))
        );
        assert_eq!(path_of("4:cpu,cpuacct:/x", "cpuacct"), Some("/x"));
        assert_eq!(
            folders(HYBRID, "cpuacct", "/pod/a"),
            [Path::new("/sys/fs/cgroup/cpuacct/pod/a")]
        );
        assert_eq!(
            folders(HYBRID, "", "/pod/b"),
            [Path::new("/sys/fs/cgroup/unified/pod/b")]
        );
        let joined = "9 8 0:1 /docker/x /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n";
        assert_eq!(
            folders(joined, "cpu", "/docker/x/y"),
            [Path::new("/sys/fs/cgroup/cpu,cpuacct/y")]
        );
        assert!(folders(joined, "cpu", "/elsewhere").is_empty());
    }

    #[test]
    fn both_versions_count_in_nanoseconds() {
        let one = parse("nr_periods 10\nnr_throttled 3\nthrottled_time 250000000\nnr_bursts 0\n");
        let two = parse("usage_usec 7\nuser_usec 6\nnr_periods 10\nnr_throttled 3\nthrottled_usec 250000\n");
        assert_eq!(
            one,
            CgroupReading {
                cpu_ns: 0,
                periods: 10,
                throttled: 3,
                throttled_ns: 250_000_000
            }
        );
        assert_eq!(two, CgroupReading { cpu_ns: 7_000, ..one });
        let usage = two.until(
            CgroupReading {
                cpu_ns: 9_000,
                periods: 12,
                throttled: 4,
                throttled_ns: 300_000_000,
            },
            1,
        );
        let wanted = CgroupUsage {
            cpu_ns: 2_000,
            by_process_ns: 1,
            periods: 2,
            throttled: 1,
            throttled_ns: 50_000_000,
        };
        assert_eq!(usage, wanted);
        assert_eq!(parse(""), CgroupReading::default());
    }

    #[test]
    fn a_process_beside_lasthop_has_no_cgroup_of_its_own() {
        assert!(Cgroup::of(std::process::id() as i32).is_none());
    }
}
