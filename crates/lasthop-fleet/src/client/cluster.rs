//! What the cluster is asked.

use std::{
    collections::BTreeMap,
    error::Error as _,
    net::IpAddr,
    path::Path,
    time::{Duration, Instant},
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{
    Api, Client, Config, Error, Resource as _,
    api::{DeleteParams, ListParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::Value;

use super::{
    FleetError, Nodes, Where,
    member::Member,
    object::{Event, Job, Node, Pod, Service},
    reason,
};
use crate::manifest::{Fleet, LABEL};

/// How long Pods have to end by themselves, and how long the cluster has to forget those that could not.
const GENTLY: Duration = Duration::from_secs(30);
const FORCED: Duration = Duration::from_secs(30);
/// How long a Job may be without a Pod before its events are read.
const PODLESS: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(300);
/// How long the cluster may take to answer.
const ANSWER: Duration = Duration::from_secs(20);

/// A namespace of a cluster.
pub(super) struct Cluster {
    namespace: String,
    jobs: Api<Job>,
    pods: Api<Pod>,
    /// By a client that waits for them without end: a server may be silent for long.
    logs: Api<Pod>,
    services: Api<Service>,
    events: Api<Event>,
    nodes: Api<Node>,
}

/// In the cluster's own words, where it has any.
pub(super) fn said(error: &Error) -> String {
    if let Error::Api(status) = error {
        return status.message.clone();
    }
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let further = next.to_string();
        if !text.contains(&further) {
            text = format!("{text}: {further}");
        }
        cause = next.source();
    }
    text
}

fn of(id: Option<&str>) -> ListParams {
    ListParams::default().labels(&id.map_or(LABEL.to_owned(), |id| format!("{LABEL}={id}")))
}

impl Cluster {
    pub(super) async fn reach(place: &Where) -> Result<Self, FleetError> {
        let mut config = match &place.context {
            None => Config::infer().await.map_err(|error| FleetError::Config(error.to_string()))?,
            Some(context) => {
                let file = Kubeconfig::read().map_err(|error| FleetError::Config(error.to_string()))?;
                let options = KubeConfigOptions { context: Some(context.clone()), ..KubeConfigOptions::default() };
                let config = Config::from_custom_kubeconfig(file, &options).await;
                config.map_err(|error| FleetError::Config(error.to_string()))?
            }
        };
        let namespace = place.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let client = |config| Client::try_from(config).map_err(|error| FleetError::Cluster(said(&error)));
        let patient = client(config.clone())?;
        config.read_timeout = Some(ANSWER);
        config.reset_reader_on_write = true;
        let client = client(config)?;
        Ok(Self {
            logs: Api::namespaced(patient, &namespace),
            jobs: Api::namespaced(client.clone(), &namespace),
            pods: Api::namespaced(client.clone(), &namespace),
            services: Api::namespaced(client.clone(), &namespace),
            events: Api::namespaced(client.clone(), &namespace),
            nodes: Api::all(client),
            namespace,
        })
    }

    pub(super) fn namespace(&self) -> &str {
        &self.namespace
    }

    pub(super) fn logs(&self) -> Api<Pod> {
        self.logs.clone()
    }

    /// The nodes that run the experiment, by name.
    pub(super) async fn choose(&self, wanted: &Nodes, fleet: &Fleet, runs: &Path) -> Result<Vec<Member>, FleetError> {
        let member = |name: &str, node: Option<&Node>| Member::new(name, node, wanted, fleet.cpus, runs);
        if !wanted.names.is_empty() {
            let mut members = Vec::new();
            for name in &wanted.names {
                // Without the right to look at nodes their labels are missing, and nothing else.
                members.push(member(name, self.nodes.get_opt(name).await.ok().flatten().as_ref()));
            }
            return Ok(members);
        }
        let selector = ListParams { label_selector: wanted.selector.clone(), ..ListParams::default() };
        let nodes = self.nodes.list(&selector).await.map_err(|error| FleetError::Nodes(said(&error)))?;
        let ready = nodes.iter().filter(|node| reason::takes_pods(node));
        let mut members: Vec<Member> =
            ready.filter_map(|node| Some(member(node.metadata.name.as_deref()?, Some(node)))).collect();
        members.sort_by(|one, other| one.node.cmp(&other.node));
        if members.is_empty() { Err(FleetError::NoNodes(wanted.selector.clone())) } else { Ok(members) }
    }

    /// Makes a Job, which may own other objects: they end with it.
    pub(super) async fn create(&self, job: Value) -> Result<OwnerReference, String> {
        let job: Job = serde_json::from_value(job).map_err(|error| error.to_string())?;
        let made = self.jobs.create(&PostParams::default(), &job).await.map_err(|error| said(&error))?;
        Ok(made.owner_ref(&()).unwrap_or_default())
    }

    /// Makes a Service, and returns its address.
    pub(super) async fn create_service(&self, service: Value, owner: &OwnerReference) -> Result<IpAddr, String> {
        let mut service: Service = serde_json::from_value(service).map_err(|error| error.to_string())?;
        service.metadata.owner_references = Some(vec![owner.clone()]);
        let made = self.services.create(&PostParams::default(), &service).await.map_err(|error| said(&error))?;
        let address = made.spec.and_then(|spec| spec["clusterIP"].as_str()?.parse().ok());
        address.ok_or_else(|| "its Service has no address".to_owned())
    }

    pub(super) async fn pods(&self, id: Option<&str>) -> Result<Vec<Pod>, String> {
        self.pods.list(&of(id)).await.map(|list| list.items).map_err(|error| said(&error))
    }

    /// Names of the Jobs of one run, or of all.
    pub(super) async fn jobs(&self, id: Option<&str>) -> Result<Vec<String>, FleetError> {
        let jobs = self.jobs.list(&of(id)).await.map_err(|error| FleetError::Cluster(said(&error)))?;
        Ok(jobs.items.into_iter().filter_map(|job| job.metadata.name).collect())
    }

    /// Nodes that no longer answer, and what the cluster says of them; none without the right to look.
    pub(super) async fn lost_nodes(&self) -> BTreeMap<String, String> {
        let Ok(nodes) = self.nodes.list(&ListParams::default()).await else { return BTreeMap::new() };
        nodes.items.iter().filter_map(|node| Some((node.metadata.name.clone()?, reason::lost(node)?))).collect()
    }

    /// Why a Job has no Pod: it has ended, or cannot make one, of which only its events tell.
    pub(super) async fn without_pod(&self, member: &Member) -> reason::Phase {
        let Some(made) = &member.job else { return reason::Phase::Waits(String::new()) };
        if made.since.elapsed() < PODLESS {
            return reason::Phase::Waits("waits for its Pod".to_owned());
        }
        match self.jobs.get_opt(&made.name).await {
            Ok(None) => return reason::Phase::Failed("its Job was deleted by somebody else".to_owned()),
            Ok(Some(job)) => {
                if let Some(why) = reason::of_job(&job) {
                    return reason::Phase::Failed(why);
                }
            }
            Err(_) => {}
        }
        let events = ListParams::default().fields(&format!("involvedObject.name={},type=Warning", made.name));
        let events = self.events.list(&events).await.map(|list| list.items).unwrap_or_default();
        let last = events.into_iter().filter_map(|event| event.message).next_back();
        if member.had_pod() {
            return reason::Phase::Failed(last.unwrap_or_else(|| "its Pod was deleted".to_owned()));
        }
        reason::Phase::Waits(last.unwrap_or_else(|| "waits for its Pod".to_owned()))
    }

    /// Removes a Job that has done its work.
    pub(super) async fn remove_job(&self, name: &str) {
        // What is refused now is tried again in the end.
        let _ = self.jobs.delete(name, &DeleteParams::background()).await;
    }

    /// Removes everything of one run, or of all, and waits until it is gone, unless there is a hurry: then the cluster has
    /// been asked. Returns what is left, and why.
    pub(super) async fn remove(&self, id: Option<&str>, in_hurry: &dyn Fn() -> bool) -> Vec<String> {
        let mut refused = None;
        let begin = Instant::now();
        let mut forced = None::<Instant>;
        loop {
            // Again each time: a Job may have been on its way to the cluster when the first of these arrived.
            match self.jobs.delete_collection(&DeleteParams::background(), &of(id)).await {
                Err(Error::Api(status)) if status.is_forbidden() => {
                    return vec![format!("what has the label {LABEL}: {}", status.message)];
                }
                Err(error) => refused = Some(said(&error)),
                Ok(_) => {}
            }
            // Their Jobs own them; who may not touch Services has none.
            let _ = self.services.delete_collection(&DeleteParams::background(), &of(id)).await;
            let (jobs, pods) = (self.jobs(id).await, self.pods(id).await);
            let (Ok(jobs), Ok(pods)) = (&jobs, &pods) else {
                if begin.elapsed() < GENTLY {
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
                let why = jobs.err().map(|error| error.to_string()).or(pods.err()).or(refused).unwrap_or_default();
                return vec![format!("what has the label {LABEL}: {why}")];
            };
            let lost = self.lost_nodes().await;
            let on_lost = |pod: &Pod| reason::node_of(pod).is_some_and(|node| lost.contains_key(node));
            let late = begin.elapsed() > GENTLY;
            // Nobody is there to end a Pod of a lost node.
            for pod in pods.iter().filter(|pod| late || on_lost(pod)) {
                forced.get_or_insert_with(Instant::now);
                self.forget(pod).await;
            }
            if jobs.is_empty() && pods.is_empty() {
                return Vec::new();
            }
            let patient = begin.elapsed() < GENTLY || forced.is_some_and(|since| since.elapsed() < FORCED);
            if !patient || in_hurry() {
                let why = refused.map(|why| format!(" ({why})")).unwrap_or_default();
                let jobs = jobs.iter().map(|job| format!("Job {job}{why}"));
                let pods = pods.iter().filter_map(|pod| Some(format!("Pod {}{why}", pod.metadata.name.as_ref()?)));
                return jobs.chain(pods).collect();
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn forget(&self, pod: &Pod) {
        let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::background() };
        if let Some(name) = &pod.metadata.name {
            let _ = self.pods.delete(name, &now).await;
        }
    }
}
