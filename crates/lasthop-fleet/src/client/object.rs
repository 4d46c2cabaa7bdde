//! The objects of a cluster, as far as lasthop reads them: the types of `k8s-openapi` know every field there is, which
//! is 0.9 MB of code.

use std::collections::BTreeMap;

use k8s_openapi::{
    ClusterResourceScope, Metadata, NamespaceResourceScope, Resource, apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A kind of objects: its group and API version, its name in URLs, where it lives, and its fields beside the usual.
macro_rules! object {
    ($kind:ident, $group:literal, $version:literal, $path:literal, $scope:ident, { $($field:ident: $of:ty),* }) => {
        #[derive(Clone, Debug, Default, Deserialize, Serialize)]
        #[serde(default, rename_all = "camelCase")]
        pub struct $kind {
            api_version: String,
            kind: String,
            pub metadata: ObjectMeta,
            $(#[serde(skip_serializing_if = "Option::is_none")] pub $field: Option<$of>,)*
        }

        impl Resource for $kind {
            const API_VERSION: &'static str = $version;
            const GROUP: &'static str = $group;
            const KIND: &'static str = stringify!($kind);
            const VERSION: &'static str = "v1";
            const URL_PATH_SEGMENT: &'static str = $path;
            type Scope = $scope;
        }

        impl Metadata for $kind {
            type Ty = ObjectMeta;

            fn metadata(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn metadata_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

// What lasthop makes is written as its manifest says; of the rest it reads what is listed here.
object!(Job, "batch", "batch/v1", "jobs", NamespaceResourceScope, { spec: Value, status: JobStatus });
object!(Service, "", "v1", "services", NamespaceResourceScope, { spec: Value });
object!(Pod, "", "v1", "pods", NamespaceResourceScope, { spec: PodSpec, status: PodStatus });
object!(Event, "", "v1", "events", NamespaceResourceScope, { message: String });
object!(Node, "", "v1", "nodes", ClusterResourceScope, { spec: NodeSpec, status: NodeStatus });

impl kube::api::Log for Pod {}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct JobStatus {
    pub conditions: Option<Vec<Condition>>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodSpec {
    pub node_name: Option<String>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodStatus {
    pub phase: Option<String>,
    pub reason: Option<String>,
    pub message: Option<String>,
    #[serde(rename = "podIP")]
    pub pod_ip: Option<String>,
    pub conditions: Option<Vec<Condition>>,
    pub init_container_statuses: Option<Vec<ContainerStatus>>,
    pub container_statuses: Option<Vec<ContainerStatus>>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ContainerStatus {
    pub name: String,
    pub state: Option<ContainerState>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ContainerState {
    pub waiting: Option<ContainerStateWaiting>,
    pub terminated: Option<ContainerStateTerminated>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ContainerStateWaiting {
    pub reason: Option<String>,
    pub message: Option<String>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerStateTerminated {
    pub exit_code: i32,
    pub reason: Option<String>,
    pub message: Option<String>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct NodeSpec {
    pub unschedulable: Option<bool>,
    pub taints: Option<Vec<Taint>>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Taint {
    pub effect: String,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct NodeStatus {
    pub conditions: Option<Vec<Condition>>,
    pub allocatable: Option<BTreeMap<String, String>>,
}

/// Of a Job, a Pod or a node.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Condition {
    #[serde(rename = "type")]
    pub type_: String,
    pub status: String,
    pub reason: Option<String>,
    pub message: Option<String>,
}
