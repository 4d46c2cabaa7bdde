//! States of Pods, Jobs and nodes, with the cluster's reasons.

use super::object::{ContainerStatus, Node, Object, Pod, Status};

/// The phase of a Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The Pod has not started yet, and why.
    Waits(String),
    /// The Pod will not start, and why.
    Failed(String),
    Runs,
    /// The Pod has ended with this code.
    Ended(i32),
}

/// Reasons of a waiting container that are final: nobody repairs them during the run.
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

/// Reason and message as `Reason: message`.
fn joined(reason: &str, message: &str) -> String {
    let parts = [reason, message]
        .map(str::trim)
        .into_iter()
        .filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join(": ")
}

/// kubectl's message on standard error, without log lines of its library such as `E1127 14:02:11.120934 …`.
pub fn of_kubectl(said: &str) -> String {
    let is_logged = |line: &&str| {
        let digits = line.strip_prefix(['I', 'W', 'E', 'F']).and_then(|rest| rest.get(..4));
        digits.is_some_and(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()))
    };
    let lines: Vec<&str> = said.trim().lines().filter(|line| !is_logged(line)).collect();
    lines.join("\n").trim_start_matches("error: ").to_owned()
}

/// Whether the user lacks the right, so that a retry is useless.
pub fn is_forbidden(why: &str) -> bool {
    why.contains("(Forbidden)")
}

/// The phase of a Pod.
pub fn of_pod(pod: &Pod) -> Phase {
    let status = &pod.status;
    let containers = || status.init_container_statuses.iter().chain(&status.container_statuses);
    if status.phase == "Failed" && !status.reason.is_empty() {
        return Phase::Failed(joined(&status.reason, &status.message));
    }
    if let Some(why) = containers().find_map(killed) {
        return Phase::Failed(why);
    }
    if let Some(phase) = containers().find_map(waits) {
        return phase;
    }
    if let Some(why) = condition(status, "PodScheduled", |status| status == "False") {
        return Phase::Waits(why);
    }
    let ended = status
        .container_statuses
        .iter()
        .find_map(|container| container.state.terminated.as_ref());
    match ended {
        Some(ended) => Phase::Ended(ended.exit_code),
        None if status.phase == "Running" => Phase::Runs,
        None => Phase::Waits("waits for its container".to_owned()),
    }
}

/// Why the system ended a container.
fn killed(container: &ContainerStatus) -> Option<String> {
    let ended = container.state.terminated.as_ref()?;
    // With these reasons the program ended by itself; others, such as `OOMKilled` and `StartError`, come from the
    // kubelet and the runtime.
    if ["", "Completed", "Error"].contains(&ended.reason.as_str()) {
        return None;
    }
    let code = format!("container {} ended with {}", container.name, ended.exit_code);
    Some(joined(
        &ended.reason,
        if ended.message.is_empty() {
            &code
        } else {
            &ended.message
        },
    ))
}

fn waits(container: &ContainerStatus) -> Option<Phase> {
    let waiting = container
        .state
        .waiting
        .as_ref()
        .filter(|waiting| !waiting.reason.is_empty())?;
    let said = joined(&waiting.reason, &waiting.message);
    let phase = if FINAL.contains(&waiting.reason.as_str()) {
        Phase::Failed
    } else {
        Phase::Waits
    };
    Some(phase(said))
}

/// Reason and message of a condition of this type, if `is` accepts its status.
fn condition(status: &Status, type_: &str, is: impl Fn(&str) -> bool) -> Option<String> {
    let mut conditions = status.conditions.iter();
    let found = conditions.find(|one| one.type_ == type_ && is(&one.status))?;
    Some(joined(&found.reason, &found.message))
}

/// Why a Job has failed.
pub fn of_job(job: &Object) -> Option<String> {
    condition(&job.status, "Failed", |status| status == "True")
}

/// Why a node does not reply.
pub fn lost(node: &Node) -> Option<String> {
    let why = condition(&node.status, "Ready", |status| status != "True")?;
    Some(format!("the node was lost: {why}"))
}

/// Whether a node is ready and accepts ordinary Pods.
pub fn takes_pods(node: &Node) -> bool {
    let repels = node.spec.taints.iter().any(|taint| taint.effect != "PreferNoSchedule");
    lost(node).is_none() && !node.spec.unschedulable && !repels
}

/// Whole CPUs of a node that Pods can request.
pub fn cpus(node: &Node) -> Option<u32> {
    let quantity = node.status.allocatable.get("cpu")?;
    // As `3920m` or `4`.
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
    fn a_refusal_is_told_in_the_words_of_kubectl() {
        let said =
            "E1127 14:02:11.120934   71 memcache.go:265] \"Unhandled Error\"\nerror: context \"x\" does not exist\n";
        assert_eq!(of_kubectl(said), "context \"x\" does not exist");
        let refused = of_kubectl("Error from server (Forbidden): jobs.batch is forbidden\n");
        assert_eq!(refused, "Error from server (Forbidden): jobs.batch is forbidden");
        assert!(is_forbidden(&refused) && !is_forbidden(&of_kubectl("Every node is busy")));
    }

    #[test]
    fn a_pod_that_cannot_start_says_why() {
        let pulls = |reason: &str| container(json!({ "waiting": { "reason": reason, "message": "no such image" } }));
        assert_eq!(
            pod(pulls("ErrImagePull")),
            Phase::Waits("ErrImagePull: no such image".to_owned())
        );
        assert_eq!(
            pod(pulls("ImagePullBackOff")),
            Phase::Failed("ImagePullBackOff: no such image".to_owned())
        );
        let refused =
            json!({ "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes" });
        let waits = pod(json!({ "phase": "Pending", "conditions": [refused] }));
        assert_eq!(waits, Phase::Waits("Unschedulable: 0/2 nodes".to_owned()));
    }

    #[test]
    fn a_pod_that_was_ended_says_by_what() {
        let killed = container(json!({ "terminated": { "reason": "OOMKilled", "exitCode": 137 } }));
        assert_eq!(
            pod(killed),
            Phase::Failed("OOMKilled: container lasthop ended with 137".to_owned())
        );
        let evicted = json!({ "phase": "Failed", "reason": "Evicted", "message": "low on resource: memory" });
        assert_eq!(
            pod(evicted),
            Phase::Failed("Evicted: low on resource: memory".to_owned())
        );
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
        assert!(!takes_pods(&node(
            json!({ "taints": [{ "key": "x", "effect": "NoSchedule" }] }),
            "True"
        )));
        assert_eq!(
            lost(&node(json!({}), "Unknown")).unwrap(),
            "the node was lost: NodeStatusUnknown: Kubelet stopped"
        );
        assert_eq!(cpus(&node(json!({}), "True")), Some(1));
    }
}
