//! What the cluster says of Pods, Jobs and nodes, in its own words.

use super::object::{ContainerStatus, Job, Node, Pod, PodStatus};

/// Where a Pod has got to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It has not started, and why.
    Waits(String),
    /// It will not start.
    Failed(String),
    Runs,
    /// It has ended, with this code.
    Ended(i32),
}

/// Reasons of a waiting container that do not pass: nobody repairs them while the run waits.
const FINAL: [&str; 8] = [
    "CrashLoopBackOff",
    "ImagePullBackOff",
    "ErrImageNeverPull",
    "InvalidImageName",
    "ImageInspectError",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
];

/// `Reason: message`
fn joined(reason: Option<&str>, message: Option<&str>) -> String {
    let parts = [reason, message].into_iter().flatten().map(str::trim).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join(": ")
}

/// Where a Pod has got to.
#[must_use]
pub fn of_pod(pod: &Pod) -> Phase {
    let Some(status) = &pod.status else { return Phase::Waits("waits for a node".to_owned()) };
    let containers = || status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    if status.phase.as_deref() == Some("Failed") && status.reason.is_some() {
        return Phase::Failed(joined(status.reason.as_deref(), status.message.as_deref()));
    }
    if let Some(why) = containers().find_map(killed) {
        return Phase::Failed(why);
    }
    if let Some(phase) = containers().find_map(waits) {
        return phase;
    }
    if let Some(why) = unscheduled(status) {
        return Phase::Waits(why);
    }
    let main = status.container_statuses.iter().flatten();
    let ended = main.filter_map(|container| Some(container.state.as_ref()?.terminated.as_ref()?.exit_code)).next();
    match (status.phase.as_deref(), ended) {
        (_, Some(code)) => Phase::Ended(code),
        (Some("Running"), None) => Phase::Runs,
        _ => Phase::Waits("waits for its container".to_owned()),
    }
}

/// A container that the system ended.
fn killed(container: &ContainerStatus) -> Option<String> {
    let ended = container.state.as_ref()?.terminated.as_ref()?;
    let usual = ["Completed", "Error"];
    let reason = ended.reason.as_deref().filter(|reason| !usual.contains(reason))?;
    let code = format!("container {} ended with {}", container.name, ended.exit_code);
    Some(joined(Some(reason), Some(ended.message.as_deref().unwrap_or(&code))))
}

fn waits(container: &ContainerStatus) -> Option<Phase> {
    let waiting = container.state.as_ref()?.waiting.as_ref()?;
    let reason = waiting.reason.as_deref()?;
    let said = joined(Some(reason), waiting.message.as_deref());
    Some(if FINAL.contains(&reason) { Phase::Failed(said) } else { Phase::Waits(said) })
}

fn unscheduled(status: &PodStatus) -> Option<String> {
    let conditions = status.conditions.as_ref()?;
    let refused = conditions.iter().find(|one| one.type_ == "PodScheduled" && one.status == "False")?;
    Some(joined(refused.reason.as_deref(), refused.message.as_deref()))
}

/// Why a Job has failed.
#[must_use]
pub fn of_job(job: &Job) -> Option<String> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    let failed = conditions.iter().find(|one| one.type_ == "Failed" && one.status == "True")?;
    Some(joined(failed.reason.as_deref(), failed.message.as_deref()))
}

/// Name of the node that a Pod is on.
#[must_use]
pub fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

/// Why a node does not answer.
#[must_use]
pub fn lost(node: &Node) -> Option<String> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions.iter().find(|one| one.type_ == "Ready" && one.status != "True")?;
    Some(format!("the node was lost: {}", joined(ready.reason.as_deref(), ready.message.as_deref())))
}

/// Whether a node is ready, and takes ordinary Pods.
#[must_use]
pub fn takes_pods(node: &Node) -> bool {
    let spec = node.spec.as_ref();
    let closed = spec.is_some_and(|spec| spec.unschedulable == Some(true));
    let taints = spec.and_then(|spec| spec.taints.as_ref()).into_iter().flatten();
    lost(node).is_none() && !closed && taints.filter(|taint| taint.effect != "PreferNoSchedule").count() == 0
}

/// Whole CPUs that Pods may have on a node.
#[must_use]
pub fn cpus(node: &Node) -> Option<u32> {
    let quantity = &node.status.as_ref()?.allocatable.as_ref()?.get("cpu")?;
    match quantity.strip_suffix('m') {
        Some(thousandths) => thousandths.parse::<u32>().ok().map(|thousandths| thousandths / 1000),
        None => quantity.parse::<f64>().ok().map(|cpus| cpus as u32),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(status: Value) -> Phase {
        of_pod(&serde_json::from_value(json!({ "status": status })).unwrap())
    }

    fn container(state: Value) -> Value {
        json!({ "phase": "Pending", "containerStatuses": [
            { "name": "lasthop", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": state }] })
    }

    #[test]
    fn a_pod_that_cannot_start_says_why() {
        let pulls = |reason: &str| container(json!({ "waiting": { "reason": reason, "message": "no such image" } }));
        assert_eq!(pod(pulls("ErrImagePull")), Phase::Waits("ErrImagePull: no such image".to_owned()));
        assert_eq!(pod(pulls("ImagePullBackOff")), Phase::Failed("ImagePullBackOff: no such image".to_owned()));
        let refused =
            json!({ "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes" });
        let waits = pod(json!({ "phase": "Pending", "conditions": [refused] }));
        assert_eq!(waits, Phase::Waits("Unschedulable: 0/2 nodes".to_owned()));
    }

    #[test]
    fn a_pod_that_was_ended_says_by_what() {
        let killed = container(json!({ "terminated": { "reason": "OOMKilled", "exitCode": 137 } }));
        assert_eq!(pod(killed), Phase::Failed("OOMKilled: container lasthop ended with 137".to_owned()));
        let evicted = json!({ "phase": "Failed", "reason": "Evicted", "message": "low on resource: memory" });
        assert_eq!(pod(evicted), Phase::Failed("Evicted: low on resource: memory".to_owned()));
        let failed = container(json!({ "terminated": { "reason": "Error", "exitCode": 2 } }));
        assert_eq!(pod(failed), Phase::Ended(2));
        assert_eq!(pod(json!({ "phase": "Running" })), Phase::Runs);
    }

    #[test]
    fn a_node_that_takes_no_pods_is_not_chosen() {
        let node = |spec: Value, ready: &str| -> Node {
            let ready = json!({ "type": "Ready", "status": ready, "reason": "NodeStatusUnknown", "message": "Kubelet stopped" });
            let status = json!({ "conditions": [ready], "allocatable": { "cpu": "1930m" } });
            serde_json::from_value(json!({ "spec": spec, "status": status })).unwrap()
        };
        assert!(takes_pods(&node(json!({}), "True")) && lost(&node(json!({}), "True")).is_none());
        assert!(!takes_pods(&node(json!({ "unschedulable": true }), "True")));
        assert!(!takes_pods(&node(json!({ "taints": [{ "key": "x", "effect": "NoSchedule" }] }), "True")));
        assert_eq!(lost(&node(json!({}), "Unknown")).unwrap(), "the node was lost: NodeStatusUnknown: Kubelet stopped");
        assert_eq!(cpus(&node(json!({}), "True")), Some(1));
    }
}
