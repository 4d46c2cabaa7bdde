//! Runs a fleet in a cluster: creates Jobs, follows their logs, and removes everything, as a user would by hand.
//!
//! `kubectl get` reads the run's Pods once a second, less often for many nodes, and `kubectl logs` follows each Pod. A
//! watch would be faster, but silent after its connection breaks.

mod cluster;
mod member;
mod object;
mod reason;

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use cluster::Cluster;
use lasthop_system::interrupt;
use member::Member;

use crate::{
    layout::{Layout, Layouts},
    manifest::{Fleet, NodeAffinity},
    wire::Received,
};

/// The interval of reading logs, and of asking the cluster, which replies with all nodes and Pods.
const TICK: Duration = Duration::from_millis(200);
const LOOK: Duration = Duration::from_secs(1);
/// Added to the interval for each node, so that a thousand nodes ask the cluster no more per second than fifty.
const LOOK_PER_NODE: Duration = Duration::from_millis(20);
/// The time after which a cluster without a reply has failed.
const SILENCE: Duration = Duration::from_secs(60);

/// The cluster to use.
#[derive(Clone, Debug, Default)]
pub struct Where {
    /// A context of the kubeconfig; `None` for the current one.
    pub context: Option<String>,
    /// `None` for the context's namespace.
    pub namespace: Option<String>,
    /// A folder that no other account can enter, for kubectl's cache and output.
    pub folder: PathBuf,
}

/// The nodes, and the runs on each.
#[derive(Clone, Debug, Default)]
pub struct Nodes {
    /// Label selector.
    pub selector: Option<String>,
    /// Names of nodes, instead of the selector.
    pub names: Vec<String>,
    /// Runs on each node, one after the other.
    pub per_node: u32,
    /// Labels for the records: a node's own labels, and labels with the same value for all.
    pub labels: Vec<(String, Option<String>)>,
    /// Insist on the requested CPUs, even if a small node has fewer.
    pub exact_cpus: bool,
}

/// An event of a fleet run.
#[derive(Debug)]
pub enum Event<'a> {
    /// These nodes were chosen.
    Chosen { namespace: &'a str, nodes: usize },
    /// A node's present phase.
    Phase { node: &'a str, phase: &'a str },
    /// A line printed by the run on a node.
    Says { node: &'a str, line: &'a str },
    /// A record has come back and is verified.
    Received {
        node: &'a str,
        folder: &'a Path,
        done: usize,
        of: usize,
    },
    /// A run on a node has failed.
    Failed { node: &'a str, why: &'a str },
    /// All objects are being removed.
    Removing,
}

/// The result of a fleet run.
#[derive(Debug, Default)]
pub struct Outcome {
    pub received: Vec<Received>,
    /// Nodes without a record, with the reason and any partial record.
    pub failures: Vec<Failure>,
    pub interrupted: bool,
    /// Objects that could not be removed.
    pub left: Vec<String>,
}

/// A node without a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub node: String,
    pub why: String,
    pub part: Option<PathBuf>,
}

/// Runs on every node, and returns once nothing is left in the cluster. Records go to `runs`. The first interrupt ends
/// the run. The second ends the wait for the cluster, which has then been asked to remove everything.
pub fn run(
    place: &Where,
    nodes: &Nodes,
    fleet: &Fleet,
    layouts: Option<&Layouts>,
    runs: &Path,
    tell: &mut dyn FnMut(&Event<'_>),
) -> Result<Outcome, String> {
    let cluster = Cluster::reach(place)?;
    let members = cluster.choose(nodes, fleet, runs)?;
    tell(&Event::Chosen {
        namespace: &cluster.namespace,
        nodes: members.len(),
    });
    let mut going = Going {
        cluster,
        fleet,
        layouts,
        members,
        numbers: 0,
        answered: Instant::now(),
    };
    going.until_done(nodes.per_node, tell);
    tell(&Event::Removing);
    Ok(going.end())
}

/// A fleet run in progress.
struct Going<'a> {
    cluster: Cluster<'a>,
    fleet: &'a Fleet,
    layouts: Option<&'a Layouts>,
    members: Vec<Member>,
    /// Number of Jobs so far.
    numbers: usize,
    /// When the cluster last answered.
    answered: Instant,
}

impl Going<'_> {
    fn until_done(&mut self, per_node: u32, tell: &mut dyn FnMut(&Event<'_>)) {
        let every = LOOK.max(LOOK_PER_NODE * self.members.len() as u32);
        let mut looked = None::<Instant>;
        while !interrupt::heard() && self.members.iter().any(Member::goes_on) {
            self.begin_jobs(per_node, tell);
            if looked.is_none_or(|looked| looked.elapsed() >= every) {
                self.look(tell);
                looked = Some(Instant::now());
            }
            self.listen(per_node, tell);
            interrupt::pause(TICK);
        }
    }

    /// Makes the Job of every node that has none.
    fn begin_jobs(&mut self, per_node: u32, tell: &mut dyn FnMut(&Event<'_>)) {
        for member in self
            .members
            .iter_mut()
            .filter(|member| member.goes_on() && member.job.is_none())
        {
            if interrupt::heard() {
                return;
            }
            let fleet = Fleet {
                cpus: member.cpus,
                ..self.fleet.clone()
            };
            if let Err(why) = begin(&self.cluster, &fleet, self.layouts, self.numbers, per_node, member) {
                member.fail(why, tell);
            }
            self.numbers += 1;
        }
    }

    /// Reads the Pods and nodes from the cluster.
    fn look(&mut self, tell: &mut dyn FnMut(&Event<'_>)) {
        let objects = match self.cluster.objects(&self.fleet.id) {
            Ok(objects) => objects,
            Err(why) if self.answered.elapsed() > SILENCE => {
                self.members
                    .iter_mut()
                    .filter(|member| member.goes_on())
                    .for_each(|member| member.fail(why.clone(), tell));
                return;
            }
            Err(_) => return,
        };
        self.answered = Instant::now();
        let lost = self.cluster.lost_nodes();
        for member in self.members.iter_mut().filter(|member| member.goes_on()) {
            member.look_beside(&objects, self.fleet.wait, tell);
        }
        for member in self.members.iter_mut().filter(|member| member.goes_on()) {
            if interrupt::heard() {
                return;
            }
            let pod = objects.iter().find(|pod| member.owns(pod));
            let lost = member.is_lost(lost.get(&member.node));
            let phase = match (lost, pod) {
                (Some(why), _) => reason::Phase::Failed(why),
                (None, Some(pod)) => reason::of_pod(pod),
                // The node still waits for its companion Pods.
                (None, None) if member.job.is_none() => continue,
                (None, None) => member.without_pod(&objects, &self.cluster),
            };
            member.enter(phase, pod, &self.cluster, self.fleet, tell);
        }
    }

    /// Reads the Pods' new output.
    fn listen(&mut self, per_node: u32, tell: &mut dyn FnMut(&Event<'_>)) {
        for at in 0..self.members.len() {
            let member = &mut self.members[at];
            if !member.goes_on() || !member.listen(tell) {
                continue;
            }
            if let Some(job) = member.end_run(per_node) {
                self.cluster.remove_job(&job);
            }
            let of = self.members.len() * per_node as usize;
            let done = self.members.iter().map(|member| member.received.len()).sum();
            let member = &self.members[at];
            let Some(received) = member.received.last() else {
                continue;
            };
            tell(&Event::Received {
                node: &member.node,
                folder: &received.folder,
                done,
                of,
            });
        }
    }

    fn end(self) -> Outcome {
        let services = self
            .layouts
            .is_some_and(|layouts| layouts.chosen.contains(&Layout::Service));
        let kinds = if services { "jobs,services" } else { "jobs" };
        let left = self.cluster.remove(&self.fleet.id, kinds);
        // A user who could create nothing may lack the right to remove too.
        let made = self.members.iter().any(Member::made_something);
        let mut outcome = Outcome {
            interrupted: interrupt::times() > 0,
            left: if made { left } else { Vec::new() },
            ..Outcome::default()
        };
        for member in self.members {
            outcome.received.extend(member.received);
            if let Some(why) = member.failure {
                outcome.failures.push(Failure {
                    node: member.node,
                    why,
                    part: member.part,
                });
            }
        }
        outcome
    }
}

/// Creates the Job of a node: at once, or after its companion Pods have addresses.
fn begin(
    cluster: &Cluster<'_>,
    fleet: &Fleet,
    layouts: Option<&Layouts>,
    number: usize,
    per_node: u32,
    member: &mut Member,
) -> Result<(), String> {
    let affinity = NodeAffinity::Node(member.node.clone());
    let Some(layouts) = layouts else {
        member.begin(cluster.create(&fleet.job(number, &affinity, &member.labels))?);
        return Ok(());
    };
    if !member.has_companions() {
        for one in layouts.companions(fleet, number, &member.node, per_node)? {
            let job = cluster.create(&one.job)?;
            let address = match one.service {
                Some(service) => {
                    let made = cluster.create(&service.owned_by(&job.metadata.uid))?;
                    let address = made.spec.cluster_ip.parse();
                    Some(address.map_err(|_| "its Service has no address".to_owned())?)
                }
                None => None,
            };
            member.keep_companion(one.layout, job, address);
        }
    }
    if let Some(addresses) = member.addresses() {
        let job = layouts.job(fleet, number, &affinity, &member.labels, &addresses)?;
        member.begin(cluster.create(&job)?);
    }
    Ok(())
}
