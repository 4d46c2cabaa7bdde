//! How a service runs in a container: the path that its bytes take, and its limits.

use std::fmt::Write as _;

use indexmap::IndexMap;

/// A container's settings, with everything filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderedContainer {
    pub network: Network,
    pub publish: Option<Publish>,
    /// Name of the engine's volume with the Unix socket; `None` if the socket is in a folder of the run.
    pub volume: Option<String>,
    /// CPU limit, in the engine's syntax.
    pub cpus: Option<String>,
    /// Memory limit, in the engine's syntax.
    pub memory: Option<String>,
    /// Kernel settings of the container's network namespace.
    pub sysctls: IndexMap<String, String>,
}

/// The network namespace of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Network {
    /// A namespace of its own, with a veth pair to a bridge of the run.
    Bridge,
    /// The host's namespace.
    Host,
    /// A namespace of its own, with only loopback.
    None,
    /// The namespace of another service's container, as in a Pod.
    Service(String),
    /// The container of a supervisor, which starts the service.
    Inside(String),
}

/// The address where a container's port is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Publish {
    /// 127.0.0.1
    Loopback,
    /// The host's address on the bridge.
    Gateway,
}

impl RenderedContainer {
    /// The limits, which must be equal in a comparison, as text; `None` without limits. Settings of the network namespace
    /// belong to the path, because not every path has its own namespace.
    pub fn limits(&self) -> Option<String> {
        let mut text = String::new();
        for (name, limit) in [("cpus", &self.cpus), ("memory", &self.memory)] {
            if let Some(limit) = limit {
                let _ = writeln!(text, "{name} {limit}");
            }
        }
        (!text.is_empty()).then_some(text)
    }
}
