//! One node of a fleet run: its Job, its Pod's log, and the records that came back.

use std::{
    collections::VecDeque,
    net::IpAddr,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use futures_util::{AsyncBufReadExt as _, TryStreamExt as _};
use kube::{Api, api::LogParams};
use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender, error::TryRecvError, unbounded_channel},
    task::JoinHandle,
};

use super::{
    Event, Nodes,
    cluster::Cluster,
    object::{Node, Pod},
    reason::{self, Phase},
};
use crate::{
    layout::{Addresses, Layout},
    manifest::{DRIVER, Fleet},
    wire::{Heard, Received, Receiver, WireError},
};

/// How long a Pod that has ended has for the rest of its log.
const TAIL: Duration = Duration::from_secs(10);
/// How long a node may be lost to the cluster, which has waited already: a busy one comes back.
const LOST: Duration = Duration::from_secs(15);
/// How long until a log is read again.
const AGAIN: Duration = Duration::from_secs(1);
/// Last lines of a log that a failure shows.
const SHOWN: usize = 4;

/// One node of a fleet run.
pub(super) struct Member {
    pub(super) node: String,
    pub(super) labels: Vec<(String, String)>,
    pub(super) cpus: u32,
    /// Its name, and since when.
    pub(super) job: Option<(String, Instant)>,
    pub(super) received: Vec<Received>,
    pub(super) failure: Option<String>,
    done: bool,
    phase: Option<Phase>,
    runs: PathBuf,
    receiver: Receiver,
    log: Option<Log>,
    /// When its Pod was seen to have ended.
    ended: Option<Instant>,
    lost: Option<Instant>,
    last: VecDeque<String>,
    companions: Option<Vec<Companion>>,
}

/// A Pod beside the driver's, by its Job.
struct Companion {
    layout: Layout,
    job: String,
    since: Instant,
    /// That of its Service, or its own once it runs.
    address: Option<IpAddr>,
    runs: bool,
}

/// A Pod's log as it is read.
struct Log {
    lines: UnboundedReceiver<String>,
    task: JoinHandle<()>,
    /// Lines before this one have been said.
    said: usize,
    at: usize,
    /// When it broke.
    broken: Option<Instant>,
}

impl Drop for Log {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Sends the lines of a Pod's log until it ends or breaks.
async fn follow(pods: Api<Pod>, name: String, lines: UnboundedSender<String>) {
    let wanted = LogParams { follow: true, container: Some(DRIVER.to_owned()), ..LogParams::default() };
    let Ok(stream) = pods.log_stream(&name, &wanted).await else { return };
    let mut stream = std::pin::pin!(stream.lines());
    while let Ok(Some(line)) = stream.try_next().await {
        if lines.send(line).is_err() {
            return;
        }
    }
}

impl Log {
    fn open(pods: Api<Pod>, name: String, said: usize) -> Self {
        let (sender, lines) = unbounded_channel();
        Self { lines, task: tokio::spawn(follow(pods, name, sender)), said, at: 0, broken: None }
    }
}

/// Whether a Pod is of a Job.
fn is_of(pod: &Pod, job: &str) -> bool {
    pod.metadata.owner_references.iter().flatten().any(|owner| owner.name == job)
}

/// The last part of a label's name: `zone` of `topology.kubernetes.io/zone`.
fn short(label: &str) -> &str {
    label.rsplit('/').next().unwrap_or(label)
}

impl Member {
    pub(super) fn new(name: &str, node: Option<&Node>, wanted: &Nodes, cpus: u32, runs: &Path) -> Self {
        let of_node = |label: &str| node?.metadata.labels.as_ref()?.get(label).cloned();
        let labels = wanted.labels.iter().filter_map(|(label, value)| match value {
            Some(value) => Some((label.clone(), value.clone())),
            None => Some((short(label).to_owned(), of_node(label)?)),
        });
        let there = node.and_then(reason::cpus).filter(|_| !wanted.exact_cpus);
        Self {
            node: name.to_owned(),
            labels: std::iter::once(("machine".to_owned(), name.to_owned())).chain(labels).collect(),
            cpus: there.map_or(cpus, |there| there.min(cpus)),
            job: None,
            received: Vec::new(),
            failure: None,
            done: false,
            phase: None,
            runs: runs.to_owned(),
            receiver: Receiver::new(runs),
            log: None,
            ended: None,
            lost: None,
            last: VecDeque::new(),
            companions: None,
        }
    }

    pub(super) fn goes_on(&self) -> bool {
        !self.done && self.failure.is_none()
    }

    /// Whether a Pod is of its Job.
    pub(super) fn owns(&self, pod: &Pod) -> bool {
        self.job.as_ref().is_some_and(|(job, _)| is_of(pod, job))
    }

    pub(super) fn has_companions(&self) -> bool {
        self.companions.is_some()
    }

    pub(super) fn keep_companion(&mut self, layout: Layout, job: String, address: Option<IpAddr>) {
        let companion = Companion { layout, job, since: Instant::now(), address, runs: false };
        self.companions.get_or_insert_default().push(companion);
    }

    /// Where the other Pods are reached, once all of them run.
    pub(super) fn addresses(&self) -> Option<Addresses> {
        let companions = self.companions.iter().flatten();
        companions.map(|one| Some((one.layout, one.address.filter(|_| one.runs)?))).collect()
    }

    /// Takes what the cluster says of the other Pods.
    pub(super) fn look_beside(&mut self, pods: &[Pod], wait: Duration, tell: &mut dyn FnMut(&Event<'_>)) {
        let mut failed = None;
        for one in self.companions.iter_mut().flatten() {
            let Some(pod) = pods.iter().find(|pod| is_of(pod, &one.job)) else { continue };
            match reason::of_pod(pod) {
                Phase::Runs => {
                    let address = pod.status.as_ref().and_then(|status| status.pod_ip.as_ref()?.parse().ok());
                    one.address = one.address.or(address);
                    one.runs = true;
                }
                Phase::Failed(why) => failed = Some((one.layout, why)),
                Phase::Waits(why) if one.since.elapsed() > wait => failed = Some((one.layout, why)),
                Phase::Waits(_) => {}
                Phase::Ended(code) => failed = Some((one.layout, format!("its server ended with {code}"))),
            }
        }
        if let Some((layout, why)) = failed {
            self.fail(format!("the Pod for the layout {}: {why}", layout.name()), tell);
        }
    }

    /// Whether there is anything of it in the cluster, as far as this client knows.
    pub(super) fn made_something(&self) -> bool {
        self.job.is_some() || self.has_companions() || !self.received.is_empty()
    }

    /// Why its node counts as lost, once it has been so for a while.
    pub(super) fn is_lost(&mut self, why: Option<&String>) -> Option<String> {
        let since = why.map(|_| self.lost.unwrap_or_else(Instant::now));
        self.lost = since;
        why.filter(|_| since.is_some_and(|since| since.elapsed() > LOST)).cloned()
    }

    pub(super) fn had_pod(&self) -> bool {
        self.log.is_some()
    }

    pub(super) fn begin(&mut self, job: String) {
        self.job = Some((job, Instant::now()));
    }

    pub(super) fn fail(&mut self, why: String, tell: &mut dyn FnMut(&Event<'_>)) {
        tell(&Event::Failed { node: &self.node, why: &why });
        self.failure = Some(why);
        self.log = None;
    }

    /// A record that was not completed.
    pub(super) fn part(&self) -> Option<PathBuf> {
        self.receiver.folder().filter(|_| self.receiver.received().is_none()).map(Path::to_owned)
    }

    /// Ends a run whose record is there. Returns its Job.
    pub(super) fn end_run(&mut self, per_node: u32) -> Option<String> {
        let whole = std::mem::replace(&mut self.receiver, Receiver::new(&self.runs));
        self.received.extend(whole.received());
        self.done = self.received.len() >= per_node as usize;
        (self.log, self.phase, self.ended) = (None, None, None);
        self.job.take().map(|(job, _)| job)
    }

    /// Takes what the cluster says of its Pod.
    pub(super) fn enter(
        &mut self,
        phase: Phase,
        pod: Option<&Pod>,
        cluster: &Cluster,
        fleet: &Fleet,
        tell: &mut dyn FnMut(&Event<'_>),
    ) {
        let took = self.job.as_ref().map_or(Duration::ZERO, |(_, since)| since.elapsed());
        let (waited, late) = (took > fleet.wait, took > fleet.deadline());
        match &phase {
            Phase::Runs | Phase::Ended(_) if late => {
                return self.fail(format!("no complete record within {} s", took.as_secs()), tell);
            }
            Phase::Failed(why) => return self.fail(why.clone(), tell),
            Phase::Waits(why) if waited => return self.fail(why.clone(), tell),
            Phase::Waits(why) if self.phase.as_ref() != Some(&phase) => {
                tell(&Event::Phase { node: &self.node, phase: why });
            }
            Phase::Waits(_) => {}
            Phase::Runs | Phase::Ended(_) => self.read_log(pod, cluster),
        }
        if let Phase::Ended(code) = phase
            && self.ended.get_or_insert_with(Instant::now).elapsed() > TAIL
        {
            return self.fail(self.ended_early(code), tell);
        }
        self.phase = Some(phase);
    }

    fn read_log(&mut self, pod: Option<&Pod>, cluster: &Cluster) {
        let Some(name) = pod.and_then(|pod| pod.metadata.name.clone()) else { return };
        match &self.log {
            None => self.log = Some(Log::open(cluster.logs(), name, 0)),
            Some(log) if log.broken.is_some_and(|since| since.elapsed() > AGAIN) => {
                self.log = Some(Log::open(cluster.logs(), name, log.said.max(log.at)));
            }
            Some(_) => {}
        }
    }

    /// Why there is no record, though the Pod has ended.
    fn ended_early(&self, code: i32) -> String {
        let said: Vec<&str> = self.last.iter().map(String::as_str).collect();
        match said.is_empty() {
            true => format!("its container ended with {code} before the record was complete"),
            false => format!("its container ended with {code} before the record was complete: {}", said.join("\n")),
        }
    }

    /// Reads what has come of the log; true if the record is complete.
    pub(super) fn listen(&mut self, tell: &mut dyn FnMut(&Event<'_>)) -> bool {
        loop {
            let Some(log) = &mut self.log else { return false };
            let line = match log.lines.try_recv() {
                Ok(line) => line,
                Err(TryRecvError::Empty) => return false,
                Err(TryRecvError::Disconnected) => {
                    log.broken.get_or_insert_with(Instant::now);
                    return false;
                }
            };
            match self.receiver.line(&line) {
                Ok(Heard::End) => return true,
                Ok(Heard::Part) => {}
                Ok(Heard::Other) => self.say(line, tell),
                // The beginning is read again.
                Err(WireError::Gap(_)) => {
                    log.broken.get_or_insert_with(Instant::now);
                    log.lines.close();
                }
                Err(error) => {
                    self.fail(error.to_string(), tell);
                    return false;
                }
            }
        }
    }

    fn say(&mut self, line: String, tell: &mut dyn FnMut(&Event<'_>)) {
        let Some(log) = &mut self.log else { return };
        log.at += 1;
        if log.at <= log.said || line.trim().is_empty() {
            return;
        }
        tell(&Event::Says { node: &self.node, line: &line });
        self.last.push_back(line);
        if self.last.len() > SHOWN {
            self.last.pop_front();
        }
    }
}
