//! Counted kernel events, each with the process in whose context it happens.

use std::{fs::File, io, os::fd::OwnedFd};

use lasthop_system::files;
use perf_event_open_sys::bindings::{
    PERF_COUNT_SW_CONTEXT_SWITCHES, PERF_COUNT_SW_CPU_MIGRATIONS, PERF_COUNT_SW_PAGE_FAULTS, PERF_TYPE_SOFTWARE,
    PERF_TYPE_TRACEPOINT, perf_event_attr,
};
use rustix::{
    fs::{CWD, Mode, OFlags, openat},
    mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen},
};

use crate::{
    missing::Missing,
    record::{PLAIN, Sample, WITH_FIELDS},
    system_calls,
};

/// Usual mount points of tracefs.
const MOUNTED: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// Maximum bytes of an event's description.
const LONGEST: u64 = 64 << 10;

/// An event that is counted each time it happens.
#[derive(Clone, Debug)]
pub(crate) struct Counter {
    name: &'static str,
    kind: u32,
    config: u64,
    /// The field by whose value occurrences are counted separately.
    field: Option<(Field, Called)>,
}

/// Names a field's value.
type Called = fn(u32) -> String;

/// The place of a field in the raw data of a tracepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    offset: usize,
}

/// Name, folder of the tracepoint, the field that distinguishes its occurrences, and the naming of that field's values.
type Row = (&'static str, &'static str, Option<(&'static str, Called)>);

const TRACEPOINTS: &[Row] = &[
    ("syscalls", "raw_syscalls/sys_enter", Some(("id", system_calls::name))),
    ("wakeups", "sched/sched_waking", None),
    ("softirq", "irq/softirq_entry", Some(("vec", softirq))),
    ("packets", "net/net_dev_queue", None),
    ("retransmits", "tcp/tcp_retransmit_skb", None),
];

const SOFTWARE: &[(&str, u32)] = &[
    ("switches", PERF_COUNT_SW_CONTEXT_SWITCHES),
    ("migrations", PERF_COUNT_SW_CPU_MIGRATIONS),
    ("page-faults", PERF_COUNT_SW_PAGE_FAULTS),
];

impl Counter {
    /// All counters that this kernel supports.
    pub(crate) fn all() -> Result<Vec<Self>, Missing> {
        let unreadable = |error: io::Error| Missing::Tracepoints {
            cause: error.to_string(),
        };
        let folder = tracefs().map_err(unreadable)?;
        let mut counters: Vec<Self> = SOFTWARE
            .iter()
            .map(|(name, config)| Self {
                name,
                kind: PERF_TYPE_SOFTWARE,
                config: u64::from(*config),
                field: None,
            })
            .collect();
        for row in TRACEPOINTS {
            // A kernel may be built without some of them.
            counters.extend(Self::tracepoint(&folder, row).map_err(unreadable)?);
        }
        Ok(counters)
    }

    fn tracepoint(folder: &OwnedFd, (name, path, field): &Row) -> io::Result<Option<Self>> {
        let Some((config, format)) = tracepoint(folder, path)? else {
            return Ok(None);
        };
        let field = field.and_then(|(name, called)| Some((Field::parse(&format, name)?, called)));
        Ok(Some(Self {
            name,
            kind: PERF_TYPE_TRACEPOINT,
            config,
            field,
        }))
    }

    /// The perf event of this counter, with a record for each occurrence.
    pub(crate) fn attr(&self) -> perf_event_attr {
        let mut attr = perf_event_attr {
            type_: self.kind,
            config: self.config,
            ..perf_event_attr::default()
        };
        attr.sample_type = if self.field.is_some() { WITH_FIELDS } else { PLAIN }.into();
        attr.sample_period = 1;
        attr
    }

    /// The key of a sample, by which it is counted; 0 without a field.
    pub(crate) fn key(&self, sample: &Sample<'_>) -> u32 {
        let Some((field, _)) = self.field else { return 0 };
        // Numbers of calls and of softirqs are small: the lower half suffices, on the machines that lasthop runs on.
        field.first_bytes(sample.raw()).map_or(u32::MAX, u32::from_le_bytes)
    }

    /// Name in reports.
    pub(crate) fn name(&self, key: u32) -> String {
        match self.field {
            Some((_, called)) => format!("{}:{}", self.name, called(key)),
            None => self.name.to_owned(),
        }
    }
}

impl Field {
    /// The field's first bytes in the raw data of a sample.
    pub(crate) fn first_bytes<const BYTES: usize>(self, raw: &[u8]) -> Option<[u8; BYTES]> {
        raw.get(self.offset..)?.first_chunk().copied()
    }

    /// Reads a line of a format: `field:long id; offset:8; size:8; signed:1;` with tabs.
    pub(crate) fn parse(format: &str, name: &str) -> Option<Self> {
        let field = |line: &str| {
            let (declared, rest) = line.trim().strip_prefix("field:")?.split_once(';')?;
            declared.ends_with(&format!(" {name}")).then_some(())?;
            let offset = rest.trim().strip_prefix("offset:")?.split(';').next()?;
            Some(Self {
                offset: offset.parse().ok()?,
            })
        };
        format.lines().find_map(field)
    }
}

/// Number and format of a tracepoint; `None` if the kernel was built without it.
pub(crate) fn tracepoint(folder: &OwnedFd, path: &str) -> io::Result<Option<(u64, String)>> {
    let Some(id) = read(folder, &format!("events/{path}/id"))? else {
        return Ok(None);
    };
    let format = read(folder, &format!("events/{path}/format"))?.unwrap_or_default();
    Ok(Some((id.trim().parse().map_err(io::Error::other)?, format)))
}

/// The folder of tracefs. An unmounted tracefs is mounted without a path: the mount ends with the descriptor.
pub(crate) fn tracefs() -> io::Result<OwnedFd> {
    let folder = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let is_tracefs = |place: &OwnedFd| read(place, "events/sched/sched_waking/id").is_ok_and(|id| id.is_some());
    let opened = |place| openat(CWD, place, folder, Mode::empty()).ok().filter(is_tracefs);
    if let Some(place) = MOUNTED.into_iter().find_map(opened) {
        return Ok(place);
    }
    let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    let only_read = MountAttrFlags::MOUNT_ATTR_RDONLY | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    Ok(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, only_read)?)
}

/// `None` if there is no such file.
fn read(folder: &OwnedFd, path: &str) -> io::Result<Option<String>> {
    let file = match openat(folder, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let text = files::first(file, LONGEST)?;
    Ok(Some(String::from_utf8_lossy(&text).into_owned()))
}

/// Name of a softirq by its vector (`include/linux/interrupt.h`).
fn softirq(vector: u32) -> String {
    const NAMES: [&str; 10] = [
        "high", "timer", "net-tx", "net-rx", "block", "irq-poll", "tasklet", "sched", "hrtimer", "rcu",
    ];
    let name = NAMES.get(vector as usize).copied();
    name.map_or_else(|| vector.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_a_field_is_read() {
        let format = "name: sys_enter\nID: 348\nformat:\n\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
                      \tfield:long id;\toffset:8;\tsize:8;\tsigned:1;\n";
        assert_eq!(Field::parse(format, "id"), Some(Field { offset: 8 }));
        assert_eq!(Field::parse(format, "pid"), None);
    }

    #[test]
    fn softirqs_have_names() {
        assert_eq!((softirq(3), softirq(10)), ("net-rx".to_owned(), "10".to_owned()));
    }
}
