//! Access to the cluster through kubectl, which knows every kind of kubeconfig and every way to log in. Its standard
//! error is the reason for a refusal.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Seek as _, Write as _},
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use lasthop_system::{
    command::{self, Life},
    files, interrupt,
};
use serde::de::DeserializeOwned;

use super::{
    Nodes, Where,
    member::Member,
    object::{List, Node, Object},
    reason,
};
use crate::manifest::{DRIVER, Fleet, LABEL};

/// The timeout for a reply of the cluster, and for kubectl altogether.
const REPLY: &str = "--request-timeout=20s";
const LONGEST: Duration = Duration::from_secs(60);
/// The most bytes read of kubectl's output; 5,000 Pods take a third.
const LIMIT: u64 = 256 << 20;
/// The time for Pods to end by themselves, and for the cluster to drop those that could not.
const GENTLY: Duration = Duration::from_secs(30);
const FORCED: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(300);
const IN_A_POD: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// A namespace of a cluster.
pub struct Cluster<'a> {
    place: &'a Where,
    pub namespace: String,
}

/// The label selector for a run's objects.
fn selector(id: &str) -> String {
    format!("--selector={LABEL}={id}")
}

/// The whole text of a file.
pub fn text(file: &mut File) -> io::Result<String> {
    file.rewind()?;
    Ok(String::from_utf8_lossy(&files::first(file, LIMIT)?).into_owned())
}

fn parsed<T: DeserializeOwned>(json: &str) -> Result<T, String> {
    serde_json::from_str(json).map_err(|error| format!("kubectl did not print the JSON of its objects: {error}"))
}

impl<'a> Cluster<'a> {
    pub fn reach(place: &'a Where) -> Result<Self, String> {
        let mut cluster = Self {
            place,
            namespace: String::new(),
        };
        let view = ["config", "view", "--minify", "--output=jsonpath={..namespace}"];
        let usual = cluster
            .run(&view, "", Life::Bound)
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => {
                    "`kubectl` was not found: install it; lasthop reaches the cluster through it".into()
                }
                _ => format!("cannot run `kubectl`: {error}"),
            })?;
        // A Pod may have no kubeconfig, and kubectl needs none there.
        let usual = usual.ok().filter(|name| !name.is_empty());
        let named = place.namespace.clone().or(usual).or_else(|| files::text(IN_A_POD).ok());
        cluster.namespace = named.map_or_else(|| "default".to_owned(), |name| name.trim().to_owned());
        Ok(cluster)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut kubectl = Command::new("kubectl");
        kubectl.arg("--cache-dir").arg(self.place.folder.join("kubectl"));
        kubectl.args(self.place.context.iter().flat_map(|context| ["--context", context]));
        kubectl.args(self.place.namespace.iter().flat_map(|name| ["--namespace", name]));
        kubectl.args(arguments);
        kubectl
    }

    /// kubectl's output, or the reason for its refusal.
    fn run(&self, arguments: &[&str], input: &str, life: Life) -> io::Result<Result<String, String>> {
        let file = || tempfile::tempfile_in(&self.place.folder);
        let [mut stdin, mut output, mut errors] = [file()?, file()?, file()?];
        stdin.write_all(input.as_bytes())?;
        stdin.rewind()?;
        let mut kubectl = self.command(arguments);
        kubectl
            .arg(REPLY)
            .stdin(stdin)
            .stdout(output.try_clone()?)
            .stderr(errors.try_clone()?);
        let status = command::run_with_streams(kubectl, LONGEST, life)?;
        if status.success() {
            Ok(Ok(text(&mut output)?))
        } else {
            Ok(Err(reason::of_kubectl(&text(&mut errors)?)))
        }
    }

    fn kubectl(&self, arguments: &[&str], input: &str, life: Life) -> Result<String, String> {
        let ended = self.run(arguments, input, life);
        ended.map_err(|error| format!("the cluster does not answer: {error}"))?
    }

    fn get<T: DeserializeOwned>(&self, what: &[&str]) -> Result<T, String> {
        parsed(&self.kubectl(&[&["get", "--output=json"], what].concat(), "", Life::Bound)?)
    }

    /// Creates an object, and returns it as the cluster has it. Completes even after an interrupt, so that the object
    /// is known.
    pub fn create(&self, manifest: &str) -> Result<Object, String> {
        // Validation would first request the schema of everything.
        let create = ["create", "--validate=false", "--output=json", "--filename=-"];
        parsed(&self.kubectl(&create, manifest, Life::ToItsEnd)?)
    }

    /// Requests the deletion of these objects; objects that they own follow by themselves.
    fn delete(&self, what: &[&str]) -> Result<String, String> {
        self.kubectl(&[&["delete", "--wait=false"], what].concat(), "", Life::Bound)
    }

    /// Follows the log of the driver in a Pod, without a timeout: a server may be silent for long.
    pub fn log(&self, pod: &str) -> io::Result<(Child, File)> {
        let errors = tempfile::tempfile_in(&self.place.folder)?;
        let mut kubectl = self.command(&["logs", "--follow", "--container", DRIVER, pod]);
        kubectl
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(errors.try_clone()?);
        // Ctrl-C in the terminal reaches only lasthop.
        kubectl.process_group(0);
        command::dies_with_us(&mut kubectl);
        Ok((kubectl.spawn()?, errors))
    }

    /// The nodes that run the experiment, by name.
    pub fn choose(&self, wanted: &Nodes, fleet: &Fleet, runs: &Path) -> Result<Vec<Member>, String> {
        let member = |name: &str, node: Option<&Node>| Member::new(name, node, wanted, fleet.cpus, runs);
        if !wanted.names.is_empty() {
            let mut members = Vec::new();
            for name in &wanted.names {
                // Without the right to read nodes, only their labels are missing.
                let node: Option<Node> = self.get(&["nodes", name]).ok();
                members.push(member(name, node.as_ref()));
            }
            return Ok(members);
        }
        let selector = format!("--selector={}", wanted.selector.as_deref().unwrap_or_default());
        let nodes: List = self.get(&["nodes", &selector]).map_err(|why| {
            let forbidden = reason::is_forbidden(&why);
            let hint = if forbidden { "; name them with --node" } else { "" };
            format!("cannot list the nodes: {why}{hint}")
        })?;
        let ready = nodes.items.iter().filter(|node| reason::takes_pods(node));
        let mut members: Vec<Member> = ready.map(|node| member(&node.metadata.name, Some(node))).collect();
        members.sort_by(|one, other| one.node.cmp(&other.node));
        if members.is_empty() {
            let labels = wanted
                .selector
                .iter()
                .map(|selector| format!(" and has the labels `{selector}`"));
            return Err(format!("no node is ready{}", labels.collect::<String>()));
        }
        Ok(members)
    }

    /// The Jobs and Pods of a run.
    pub fn objects(&self, id: &str) -> Result<Vec<Object>, String> {
        self.get(&["jobs,pods", &selector(id)]).map(|list: List| list.items)
    }

    /// Nodes that no longer reply, with the cluster's reason; empty without the right to read nodes.
    pub fn lost_nodes(&self) -> BTreeMap<String, String> {
        let nodes = self
            .get(&["nodes"])
            .map_or_else(|_| Vec::new(), |list: List| list.items);
        nodes
            .iter()
            .filter_map(|node| Some((node.metadata.name.clone(), reason::lost(node)?)))
            .collect()
    }

    /// The last warning about an object.
    pub fn warning(&self, name: &str) -> Option<String> {
        let about = format!("--field-selector=involvedObject.name={name},type=Warning");
        let events: List = self.get(&["events", &about]).ok()?;
        events.items.into_iter().next_back().map(|event| event.message)
    }

    /// Removes a Job that is done.
    pub fn remove_job(&self, name: &str) {
        // A refused deletion is tried again at the end.
        let _ = self.delete(&["jobs", name]);
    }

    /// Removes all objects of a run, and waits until they are gone; a second interrupt ends the wait. Returns remaining
    /// objects, with the reason.
    pub fn remove(&self, id: &str, kinds: &str) -> Vec<String> {
        // Removal must be requested even after an interrupt.
        let _shield = interrupt::shield();
        let begin = Instant::now();
        loop {
            // Repeated, because a Job may have reached the cluster after the first request.
            let asked = self.delete(&[kinds, &selector(id)]);
            let left = self.objects(id);
            if left.as_ref().is_ok_and(Vec::is_empty) {
                return Vec::new();
            }
            let waited = begin.elapsed();
            let refused = asked.as_ref().is_err_and(|why| reason::is_forbidden(why));
            let patience = if left.is_ok() { GENTLY + FORCED } else { GENTLY };
            if refused || waited > patience || interrupt::times() > 1 {
                let why = asked.err().map(|why| format!(" ({why})")).unwrap_or_default();
                let name = |object: Object| format!("{} {}{why}", object.kind, object.metadata.name);
                return match left {
                    Ok(left) => left.into_iter().map(name).collect(),
                    Err(why) => vec![format!("what has the label {LABEL}: {why}")],
                };
            }
            let lost = self.lost_nodes();
            // A Pod of a lost node has no kubelet to end it.
            let is_stuck = |node: &str| waited > GENTLY || lost.contains_key(node);
            let pods = left.iter().flatten().filter(|object| object.kind == "Pod");
            let stuck = pods.filter(|pod| is_stuck(&pod.spec.node_name));
            let stuck: Vec<&str> = stuck.map(|pod| pod.metadata.name.as_str()).collect();
            if !stuck.is_empty() {
                let _ = self.delete(&[&["pods", "--force", "--grace-period=0"], &stuck[..]].concat());
            }
            thread::sleep(PAUSE);
        }
    }
}
