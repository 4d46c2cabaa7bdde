//! What the cluster is asked.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io,
    net::IpAddr,
    os::unix::net::UnixStream,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    Nodes, Where,
    member::Member,
    object::{List, Node, Object, Owner, Pod},
    proxy::{self, Proxy, Refusal},
    reason,
};
use crate::manifest::{DRIVER, Fleet, LABEL};

/// How long Pods have to end by themselves, and how long the cluster has to forget those that could not.
const GENTLY: Duration = Duration::from_secs(30);
const FORCED: Duration = Duration::from_secs(30);
/// How long a Job may be without a Pod before its events are read.
const PODLESS: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(300);
const NODES: &str = "/api/v1/nodes";

/// A namespace of a cluster.
pub struct Cluster<'a> {
    namespace: String,
    proxy: Proxy,
    /// Whether to stop waiting for answers.
    is_given_up: &'a dyn Fn() -> bool,
}

/// Percent-encoded, as a part of a path or a query.
fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => encoded.push(byte.into()),
            _ => write!(encoded, "%{byte:02X}").expect("a text takes all"),
        }
    }
    encoded
}

/// The query for the objects of a run.
fn of(id: &str) -> String {
    format!("labelSelector={}", encoded(&format!("{LABEL}={id}")))
}

impl<'a> Cluster<'a> {
    pub fn reach(place: &Where, is_given_up: &'a dyn Fn() -> bool) -> Result<Self, String> {
        let namespace = place.namespace.clone().unwrap_or_else(|| proxy::namespace(place));
        Ok(Self {
            namespace,
            proxy: Proxy::start(place)?,
            is_given_up,
        })
    }

    /// Whether nobody waits for its answers any more.
    pub fn is_given_up(&self) -> bool {
        (self.is_given_up)()
    }

    /// The same, with another reason to stop waiting.
    pub fn until(self, is_given_up: &dyn Fn() -> bool) -> Cluster<'_> {
        Cluster {
            namespace: self.namespace,
            proxy: self.proxy,
            is_given_up,
        }
    }

    fn path(&self, group: &str, kind: &str) -> String {
        format!("{group}/namespaces/{}/{kind}", encoded(&self.namespace))
    }

    fn jobs_path(&self) -> String {
        self.path("/apis/batch/v1", "jobs")
    }

    fn core_path(&self, kind: &str) -> String {
        self.path("/api/v1", kind)
    }

    fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Refusal> {
        let answer = self.proxy.ask("GET", path, b"", self.is_given_up)?;
        Ok(serde_json::from_slice(&answer).map_err(io::Error::from)?)
    }

    /// What is being made is waited for, so that it is known.
    fn create(&self, path: &str, object: &Value) -> Result<Object, String> {
        let answer = self.proxy.ask("POST", path, object.to_string().as_bytes(), || false);
        let answer = answer.map_err(|refusal| refusal.message)?;
        serde_json::from_slice(&answer).map_err(|error| error.to_string())
    }

    /// What it owns goes later, by itself.
    fn delete(&self, path: &str, query: &str) -> Result<(), Refusal> {
        // Without a policy, the API server leaves the Pods of a `batch/v1` Job behind as orphans.
        let path = format!("{path}?propagationPolicy=Background&{query}");
        self.proxy.ask("DELETE", &path, b"", self.is_given_up).map(drop)
    }

    /// The log of the driver in a Pod, without an end: a server may be silent for long.
    pub fn log(&self, pod: &str) -> io::Result<UnixStream> {
        let pods = self.core_path("pods");
        self.proxy.send(
            "GET",
            &format!("{pods}/{}/log?container={DRIVER}&follow=true", encoded(pod)),
            b"",
        )
    }

    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The nodes that run the experiment, by name.
    pub fn choose(&self, wanted: &Nodes, fleet: &Fleet, runs: &Path) -> Result<Vec<Member>, String> {
        let member = |name: &str, node: Option<&Node>| Member::new(name, node, wanted, fleet.cpus, runs);
        if !wanted.names.is_empty() {
            let mut members = Vec::new();
            for name in &wanted.names {
                // Without the right to look at nodes their labels are missing, and nothing else.
                let node: Option<Node> = self.get(&format!("{NODES}/{}", encoded(name))).ok();
                members.push(member(name, node.as_ref()));
            }
            return Ok(members);
        }
        let selector = encoded(wanted.selector.as_deref().unwrap_or_default());
        let nodes: List = self
            .get(&format!("{NODES}?labelSelector={selector}"))
            .map_err(|refusal| format!("cannot list the nodes: {}; name them with --node", refusal.message))?;
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

    /// Makes a Job, which may own other objects: they end with it.
    pub fn create_job(&self, job: &Value) -> Result<Owner, String> {
        let Object { metadata, .. } = self.create(&self.jobs_path(), job)?;
        Ok(Owner {
            api_version: "batch/v1".into(),
            kind: "Job".into(),
            name: metadata.name,
            uid: metadata.uid,
        })
    }

    /// Makes a Service, and returns its address.
    pub fn create_service(&self, mut service: Value, owner: &Owner) -> Result<IpAddr, String> {
        service["metadata"]["ownerReferences"] = serde_json::json!([owner]);
        let made = self.create(&self.core_path("services"), &service)?;
        made.spec
            .cluster_ip
            .parse()
            .map_err(|_| "its Service has no address".to_owned())
    }

    pub fn pods(&self, id: &str) -> Result<Vec<Pod>, String> {
        let pods: Result<List, Refusal> = self.get(&format!("{}?{}", self.core_path("pods"), of(id)));
        pods.map(|list| list.items).map_err(|refusal| refusal.message)
    }

    /// Names of the Jobs of a run.
    fn jobs(&self, id: &str) -> Result<Vec<String>, String> {
        let jobs: Result<List, Refusal> = self.get(&format!("{}?{}", self.jobs_path(), of(id)));
        let jobs = jobs.map_err(|refusal| refusal.message)?;
        Ok(jobs.items.into_iter().map(|job| job.metadata.name).collect())
    }

    /// Nodes that no longer answer, and what the cluster says of them; none without the right to look.
    pub fn lost_nodes(&self) -> BTreeMap<String, String> {
        let Ok(nodes) = self.get::<List>(NODES) else {
            return BTreeMap::new();
        };
        nodes
            .items
            .iter()
            .filter_map(|node| Some((node.metadata.name.clone(), reason::lost(node)?)))
            .collect()
    }

    /// Why a Job has no Pod: it has ended, or cannot make one, of which only its events tell.
    pub fn without_pod(&self, member: &Member) -> reason::Phase {
        let Some(made) = &member.job else {
            return reason::Phase::Waits(String::new());
        };
        if made.since.elapsed() < PODLESS {
            return reason::Phase::Waits("waits for its Pod".to_owned());
        }
        match self.get::<Object>(&format!("{}/{}", self.jobs_path(), encoded(&made.name))) {
            Err(refusal) if refusal.code == 404 => {
                return reason::Phase::Failed("its Job was deleted by somebody else".to_owned());
            }
            Err(_) => {}
            Ok(job) => {
                if let Some(why) = reason::of_job(&job) {
                    return reason::Phase::Failed(why);
                }
            }
        }
        let about = encoded(&format!("involvedObject.name={},type=Warning", made.name));
        let events = self.get::<List>(&format!("{}?fieldSelector={about}", self.core_path("events")));
        let last = events
            .ok()
            .and_then(|events| events.items.into_iter().next_back())
            .map(|event| event.message);
        if member.had_pod() {
            return reason::Phase::Failed(last.unwrap_or_else(|| "its Pod was deleted".to_owned()));
        }
        reason::Phase::Waits(last.unwrap_or_else(|| "waits for its Pod".to_owned()))
    }

    /// Removes a Job that has done its work.
    pub fn remove_job(&self, name: &str) {
        // What is refused now is tried again in the end.
        let _ = self.delete(&format!("{}/{}", self.jobs_path(), encoded(name)), "");
    }

    /// Removes everything of a run, and waits until it is gone, unless there is a hurry: then the cluster
    /// has been asked. Returns what is left, and why.
    pub fn remove(&self, id: &str, in_hurry: &dyn Fn() -> bool) -> Vec<String> {
        let mut refused = None;
        let begin = Instant::now();
        let mut forced = None::<Instant>;
        loop {
            // Again each time: a Job may have been on its way to the cluster when the first of these arrived.
            match self.delete(&self.jobs_path(), &of(id)) {
                Err(refusal) if refusal.code == 403 => {
                    return vec![format!("what has the label {LABEL}: {}", refusal.message)];
                }
                Err(refusal) => refused = Some(refusal.message),
                Ok(()) => {}
            }
            // Their Jobs own them; who may not touch Services has none.
            let _ = self.delete(&self.core_path("services"), &of(id));
            let jobs = self.jobs(id);
            let pods = self.pods(id);
            let (Ok(jobs), Ok(pods)) = (&jobs, &pods) else {
                if begin.elapsed() < GENTLY {
                    thread::sleep(PAUSE);
                    continue;
                }
                let why = jobs.err().or(pods.err()).or(refused).unwrap_or_default();
                return vec![format!("what has the label {LABEL}: {why}")];
            };
            let lost = self.lost_nodes();
            let on_lost = |pod: &Pod| lost.contains_key(&pod.spec.node_name);
            let late = begin.elapsed() > GENTLY;
            // Nobody is there to end a Pod of a lost node.
            for pod in pods.iter().filter(|pod| late || on_lost(pod)) {
                forced.get_or_insert_with(Instant::now);
                self.forget(pod);
            }
            if jobs.is_empty() && pods.is_empty() {
                return Vec::new();
            }
            let patient = begin.elapsed() < GENTLY || forced.is_some_and(|since| since.elapsed() < FORCED);
            if !patient || in_hurry() {
                let why = refused.map(|why| format!(" ({why})")).unwrap_or_default();
                let jobs = jobs.iter().map(|job| format!("Job {job}{why}"));
                let pods = pods.iter().map(|pod| format!("Pod {}{why}", pod.metadata.name));
                return jobs.chain(pods).collect();
            }
            thread::sleep(PAUSE);
        }
    }

    fn forget(&self, pod: &Pod) {
        let path = format!("{}/{}", self.core_path("pods"), encoded(&pod.metadata.name));
        let _ = self.delete(&path, "gracePeriodSeconds=0");
    }
}
