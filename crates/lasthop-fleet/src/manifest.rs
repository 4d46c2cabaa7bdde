//! The objects that a run makes in a cluster. Plain values: the client sends them, `lasthop fleet export` prints them.

use std::time::Duration;

use lasthop_system::digest;
use serde_json::{Value, json};

use crate::files::Files;

/// Label of everything that lasthop makes in a cluster; its value is the fleet run.
pub const LABEL: &str = "lasthop/fleet";
/// The container that runs lasthop.
pub const DRIVER: &str = "lasthop";
/// Folder of the experiments that a Pod is given.
pub const EXPERIMENT: &str = "experiment";
/// How long a worker waits for its reader before it ends by itself.
pub const LINGER: Duration = Duration::from_secs(120);
/// What a run takes besides its budget, at most as a rule: calibration, the last round, the report.
const BESIDE_BUDGET: Duration = Duration::from_secs(120);
/// User and group of every process: `nobody`.
pub(crate) const NOBODY: u32 = 65_534;
/// The data folder of lasthop in a Pod, where any user may write.
const HOME: &str = "/tmp/lasthop";

/// What the Pods of a fleet run have in common.
#[derive(Clone, Debug)]
pub struct Fleet {
    /// A word that no other run in the cluster has.
    pub id: String,
    pub image: String,
    /// Arguments of lasthop in the Pod, from `run` on.
    pub arguments: Vec<String>,
    /// An experiment that is not built in, below [`EXPERIMENT`].
    pub files: Files,
    /// CPUs and memory for each container; without CPUs neither is requested.
    pub cpus: u32,
    pub memory: String,
    pub budget: Duration,
    /// How long a Pod may take to start.
    pub wait: Duration,
    /// How long a Job that has ended stays.
    pub keep: Duration,
    /// Whether the experiment asks for root. Then Pods run as the user of their image.
    pub root: bool,
}

/// Where a Pod runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// On the node of this name.
    Node(String),
    /// On any node but that of this name.
    NotOn(String),
    /// On any node.
    Any,
}

/// A word for a new fleet run.
pub fn new_id() -> String {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    digest::of_bytes(format!("{} {}", now.as_nanos(), std::process::id()).as_bytes())[..10].to_owned()
}

impl Fleet {
    /// The longest that a Job may take. The cluster ends it then, whoever has forgotten it.
    pub fn deadline(&self) -> Duration {
        self.wait + self.budget + self.budget / 2 + BESIDE_BUDGET + LINGER
    }

    /// Job number `number`, whose record has these labels.
    pub fn job(&self, number: usize, place: &Place, labels: &[(String, String)]) -> Value {
        let of_fleet = json!({ LABEL: self.id });
        let mut spec = json!({
            "restartPolicy": "Never",
            // Nothing in the Pod asks the cluster for anything.
            "automountServiceAccountToken": false,
            // Otherwise there are variables for each Service of the namespace.
            "enableServiceLinks": false,
            // More than the worker gives its run to end in order.
            "terminationGracePeriodSeconds": 15,
            "containers": [self.driver(labels)],
            "volumes": [{ "name": "tmp", "emptyDir": {} }],
        });
        if !self.root {
            spec["securityContext"] = of_nobody();
        }
        if let Some(affinity) = affinity(place) {
            spec["affinity"] = affinity;
        }
        let mut template = json!({ "metadata": { "labels": of_fleet }, "spec": spec });
        if !self.files.is_empty() {
            self.files.give(&mut template);
        }
        json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": { "name": self.name(number), "labels": of_fleet },
            "spec": {
                // By default, Kubernetes starts another Pod up to six times.
                "backoffLimit": 0,
                "activeDeadlineSeconds": self.deadline().as_secs(),
                "ttlSecondsAfterFinished": self.keep.as_secs(),
                "template": template,
            },
        })
    }

    /// Name of the Job with this number.
    pub fn name(&self, number: usize) -> String {
        format!("lasthop-{}-{number}", self.id)
    }

    fn driver(&self, labels: &[(String, String)]) -> Value {
        let linger = format!("{}s", LINGER.as_secs());
        let words = ["fleet", "worker", "--linger", &linger, "--"].map(str::to_owned);
        let labels = labels
            .iter()
            .flat_map(|(name, value)| ["--label".to_owned(), format!("{name}={value}")]);
        let arguments: Vec<String> = words
            .into_iter()
            .chain(self.arguments.iter().cloned())
            .chain(labels)
            .chain(["--no-progress".to_owned()])
            .collect();
        let mut container = json!({
            "name": DRIVER,
            "image": self.image,
            "imagePullPolicy": "IfNotPresent",
            "args": arguments,
            "env": [{ "name": "LASTHOP_HOME", "value": HOME }],
            "volumeMounts": [{ "name": "tmp", "mountPath": "/tmp" }],
        });
        if let (false, Value::Array(mounts)) = (self.files.is_empty(), &mut container["volumeMounts"]) {
            mounts.push(Files::mount_of(EXPERIMENT));
        }
        if !self.root {
            container["securityContext"] = without_privileges();
        }
        self.request(&mut container);
        container
    }

    /// Whole CPUs, requests equal to limits: a kubelet whose CPU manager is static gives them to no other Pod.
    pub(crate) fn request(&self, container: &mut Value) {
        if self.cpus > 0 {
            let all = json!({ "cpu": self.cpus.to_string(), "memory": self.memory });
            container["resources"] = json!({ "requests": all, "limits": all });
        }
    }
}

/// Of a Pod that the restricted Pod Security Standard admits, if its containers are [`without_privileges`].
fn of_nobody() -> Value {
    json!({
        "runAsNonRoot": true,
        "runAsUser": NOBODY,
        "runAsGroup": NOBODY,
        "seccompProfile": { "type": "RuntimeDefault" },
    })
}

pub(crate) fn without_privileges() -> Value {
    json!({ "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } })
}

/// A Pod on a named node still passes the scheduler, which says why it does not fit.
fn affinity(place: &Place) -> Option<Value> {
    let (operator, name) = match place {
        Place::Any => return None,
        Place::Node(name) => ("In", name),
        Place::NotOn(name) => ("NotIn", name),
    };
    let this = json!([{ "key": "metadata.name", "operator": operator, "values": [name] }]);
    let terms = json!({ "nodeSelectorTerms": [{ "matchFields": this }] });
    Some(json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": terms } }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fleet(cpus: u32) -> Fleet {
        Fleet {
            id: new_id(),
            image: "i".to_owned(),
            arguments: vec!["run".to_owned(), "x".to_owned()],
            files: Files::default(),
            cpus,
            memory: "1Gi".to_owned(),
            budget: Duration::from_secs(60),
            wait: Duration::from_secs(60),
            keep: Duration::from_secs(600),
            root: false,
        }
    }

    #[test]
    fn a_job_ends_by_itself_and_leaves_nothing() {
        let job = fleet(2).job(
            3,
            &Place::Node("n1".to_owned()),
            &[("machine".to_owned(), "n1".to_owned())],
        );
        let spec = &job["spec"];
        let pod = &job["spec"]["template"]["spec"];
        assert_eq!(
            (&spec["backoffLimit"], &pod["restartPolicy"]),
            (&json!(0), &json!("Never"))
        );
        assert_eq!(spec["ttlSecondsAfterFinished"], 600);
        assert!(spec["activeDeadlineSeconds"].as_u64().unwrap() > 60 + 60 + LINGER.as_secs());
        assert_eq!(pod["automountServiceAccountToken"], false);
        let container = &pod["containers"][0];
        assert_eq!(container["resources"]["requests"], container["resources"]["limits"]);
        assert_eq!(container["resources"]["limits"]["cpu"], "2");
        assert!(container["args"].as_array().unwrap().contains(&json!("machine=n1")));
        assert!(fleet(0).job(0, &Place::Any, &[])["spec"]["template"]["spec"]["containers"][0]["resources"].is_null());
    }

    #[test]
    fn a_job_is_one_that_the_restricted_standard_admits_unless_root_is_asked_for() {
        let pod = |root| Fleet { root, ..fleet(0) }.job(0, &Place::Any, &[])["spec"]["template"]["spec"].clone();
        let restricted = pod(false);
        assert_eq!(restricted["securityContext"], of_nobody());
        assert_eq!(restricted["containers"][0]["securityContext"], without_privileges());
        let as_the_image_says = pod(true);
        assert!(as_the_image_says["securityContext"].is_null());
        assert!(as_the_image_says["containers"][0]["securityContext"].is_null());
    }

    #[test]
    fn an_experiment_goes_along_with_the_job() {
        let mut files = Files::default();
        files
            .add(
                std::path::Path::new("experiment/mine/experiment.toml"),
                b"title = \"Mine\"".to_vec(),
            )
            .unwrap();
        let job = Fleet { files, ..fleet(0) }.job(0, &Place::Any, &[]);
        let template = &job["spec"]["template"];
        assert_eq!(
            template["metadata"]["annotations"],
            json!({ "lasthop/file-0": "title = \"Mine\"" })
        );
        let item = &template["spec"]["volumes"][1]["downwardAPI"]["items"][0];
        assert_eq!(item["path"], "experiment/mine/experiment.toml");
        let mount = &template["spec"]["containers"][0]["volumeMounts"][1];
        assert_eq!(
            (&mount["mountPath"], &mount["subPath"]),
            (&json!("/etc/lasthop/experiment"), &json!("experiment"))
        );
    }

    #[test]
    fn names_are_of_their_fleet() {
        let one = fleet(1);
        let other = fleet(1);
        assert_ne!(one.id, other.id);
        assert!(one.name(0).len() <= 63 && one.name(0).starts_with(&format!("lasthop-{}", one.id)));
    }
}
