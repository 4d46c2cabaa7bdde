//! The closed loop that measures the capacity of a case.

use lasthop_protocol::spec::Spec;
use lasthop_trial::options::Model;

/// Connections of the closed loop that measures the capacity: the first number that does not overload the case counts.
pub const CAPACITY_CONNECTIONS: [u32; 4] = [16, 8, 4, 2];
/// The driver's name for the closed loop of a case.
pub fn closed_name(case: &str) -> String {
    format!("{case} (capacity)")
}

/// The closed loop that warms a case up.
pub fn closed(spec: &Spec) -> Spec {
    // The fewest connections, so that warming up overloads nothing.
    with_connections(spec, CAPACITY_CONNECTIONS[3])
}

/// The closed loop with at most `most` connections.
pub fn with_connections(spec: &Spec, most: u32) -> Spec {
    let connections = spec.connections.min(most);
    Spec {
        model: Model::Closed,
        connections,
        threads: spec.threads.min(connections),
        ..spec.clone()
    }
}
