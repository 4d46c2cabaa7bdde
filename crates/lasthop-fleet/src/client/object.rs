//! The cluster's objects, with the fields that lasthop reads.

use std::collections::BTreeMap;

use serde::Deserialize;

#[derive(Debug, Deserialize)]
pub struct List {
    pub items: Vec<Object>,
}

/// An object of any kind; fields of other kinds are empty.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Object {
    pub kind: String,
    pub metadata: Metadata,
    pub spec: Spec,
    pub status: Status,
    /// Text of an event.
    pub message: String,
}

pub type Pod = Object;
pub type Node = Object;

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Metadata {
    pub name: String,
    pub uid: String,
    pub labels: BTreeMap<String, String>,
    pub owner_references: Vec<Owner>,
}

/// The owner of an object, which ends with it.
#[derive(Debug, Deserialize)]
pub struct Owner {
    pub uid: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Spec {
    /// Name of a Pod's node.
    pub node_name: String,
    /// Address of a Service.
    #[serde(rename = "clusterIP")]
    pub cluster_ip: String,
    /// Whether a node accepts no new Pods, and the node's taints.
    pub unschedulable: bool,
    pub taints: Vec<Taint>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Taint {
    pub effect: String,
}

/// Status of a Pod, a Job or a node.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Status {
    pub phase: String,
    pub reason: String,
    pub message: String,
    #[serde(rename = "podIP")]
    pub pod_ip: String,
    pub conditions: Vec<Condition>,
    pub init_container_statuses: Vec<ContainerStatus>,
    pub container_statuses: Vec<ContainerStatus>,
    /// Resources of a node that Pods can request.
    pub allocatable: BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ContainerStatus {
    pub name: String,
    pub state: ContainerState,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ContainerState {
    pub waiting: Option<Stopped>,
    pub terminated: Option<Stopped>,
}

/// Why a container does not run.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Stopped {
    pub exit_code: i32,
    pub reason: String,
    pub message: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Condition {
    #[serde(rename = "type")]
    pub type_: String,
    pub status: String,
    pub reason: String,
    pub message: String,
}
