//! What is missing before a machine can be profiled, and how to allow it.

use lasthop_system::facts::Facts;

/// A right or a part of the kernel that profiling lacks. Its text tells how to get it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Missing {
    #[error(
        "observing all CPUs takes root or CAP_PERFMON (kernel.perf_event_paranoid is {paranoid}, and a container may \
         forbid perf_event_open): run as root, or `sysctl kernel.perf_event_paranoid=-1`"
    )]
    Rights { paranoid: String },
    #[error("this kernel has no perf events (CONFIG_PERF_EVENTS)")]
    PerfEvents,
    #[error(
        "the kernel hides where its functions are (kernel.kptr_restrict is {restrict}): run as root, or \
         `sysctl kernel.kptr_restrict=0 kernel.perf_event_paranoid=-1`"
    )]
    KernelSymbols { restrict: String },
    #[error(
        "counts take tracepoints, and tracefs cannot be read: {cause}: run as root, or mount it at /sys/kernel/tracing"
    )]
    Tracepoints { cause: String },
    #[error("cannot observe {what}: {cause}")]
    Failed { what: String, cause: String },
}

impl Missing {
    /// Why an event could not be opened.
    pub(crate) fn of_event(what: &str, error: &std::io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::EACCES | libc::EPERM) => Self::Rights {
                paranoid: setting("perf_event_paranoid"),
            },
            Some(libc::ENOSYS) => Self::PerfEvents,
            _ => Self::failed(what, error),
        }
    }

    pub(crate) fn failed(what: &str, error: &std::io::Error) -> Self {
        Self::Failed {
            what: what.to_owned(),
            cause: error.to_string(),
        }
    }

    pub(crate) fn kernel_symbols() -> Self {
        Self::KernelSymbols {
            restrict: setting("kptr_restrict"),
        }
    }
}

fn setting(name: &str) -> String {
    let value = Facts::here().text(&format!("/proc/sys/kernel/{name}"));
    value.unwrap_or_else(|| "unknown".to_owned())
}
