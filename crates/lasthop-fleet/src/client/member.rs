//! A node of a fleet run: its Job, its Pod's log, and its records.

use std::{
    collections::VecDeque,
    fs::File,
    io::BufReader,
    net::IpAddr,
    path::{Path, PathBuf},
    process::Child,
    sync::mpsc::{self, sync_channel},
    thread,
    time::{Duration, Instant},
};

use super::{
    Event, Nodes,
    cluster::{self, Cluster},
    object::{Node, Object, Pod},
    reason::{self, Phase},
};
use crate::{
    layout::{Addresses, Layout},
    manifest::Fleet,
    wire::{self, Heard, Received, WireError},
};

/// The time for the rest of the log after a Pod has ended.
const TAIL: Duration = Duration::from_secs(10);
/// How long a node may be lost, after the cluster itself has waited: a busy node comes back.
const LOST: Duration = Duration::from_secs(15);
/// How long a Job may lack a Pod before its events are read.
const PODLESS: Duration = Duration::from_secs(3);
/// The pause before a broken log is read again.
const AGAIN: Duration = Duration::from_secs(1);
/// Last lines of a log in a failure, and the most bytes of each.
const SHOWN: usize = 4;
const SHOWN_BYTES: usize = 2_000;
/// The most unread lines of a log: a Pod that writes faster waits.
const WAITING: usize = 64;

/// A node of a fleet run.
pub struct Member {
    pub node: String,
    pub labels: Vec<(String, String)>,
    pub cpus: u32,
    pub job: Option<Made>,
    pub received: Vec<Received>,
    pub failure: Option<String>,
    done: bool,
    phase: Option<Phase>,
    runs: PathBuf,
    /// An incomplete record.
    pub part: Option<PathBuf>,
    log: Option<Log>,
    /// When the Pod was first seen to have ended.
    ended: Option<Instant>,
    lost: Option<Instant>,
    last: VecDeque<String>,
    /// Why the log could not be read to its end.
    unread: Option<String>,
    companions: Option<Vec<Companion>>,
}

/// A Job that this client created.
pub struct Made {
    pub name: String,
    pub since: Instant,
    pub uid: String,
}

impl Made {
    fn new(job: Object) -> Self {
        Self {
            name: job.metadata.name,
            uid: job.metadata.uid,
            since: Instant::now(),
        }
    }

    /// Whether a Pod belongs to this Job. Any Pod may name an owner, but few know this one's uid.
    fn owns(&self, pod: &Pod) -> bool {
        pod.metadata.owner_references.iter().any(|owner| owner.uid == self.uid)
    }
}

/// A Pod beside the driver's.
struct Companion {
    layout: Layout,
    job: Made,
    /// Address of the Service, or of the Pod once it runs.
    address: Option<IpAddr>,
    runs: bool,
}

/// A message from the thread that reads a log.
enum News {
    Heard(Heard),
    End(Result<Received, WireError>),
}

/// A Pod's log from `kubectl logs --follow`.
struct Log {
    kubectl: Child,
    /// kubectl's standard error.
    errors: File,
    news: mpsc::Receiver<News>,
    /// Lines before this one have already been reported.
    said: usize,
    at: usize,
    /// When the log broke.
    broken: Option<Instant>,
}

impl Log {
    /// Why the log broke, in kubectl's words; `None` if it only ended.
    fn why_broken(&mut self) -> Option<String> {
        let said = cluster::text(&mut self.errors).ok()?;
        Some(reason::of_kubectl(&said)).filter(|why| !why.is_empty())
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let _ = self.kubectl.kill();
        let _ = self.kubectl.wait();
    }
}

/// The last part of a label's name: `zone` of `topology.kubernetes.io/zone`.
fn short(label: &str) -> &str {
    label.rsplit('/').next().unwrap_or(label)
}

impl Member {
    pub fn new(name: &str, node: Option<&Node>, wanted: &Nodes, cpus: u32, runs: &Path) -> Self {
        let of_node = |label: &str| node?.metadata.labels.get(label).cloned();
        let labels = wanted.labels.iter().filter_map(|(label, value)| match value {
            Some(value) => Some((label.clone(), value.clone())),
            None => Some((short(label).to_owned(), of_node(label)?)),
        });
        let there = node.and_then(reason::cpus).filter(|_| !wanted.exact_cpus);
        Self {
            node: name.to_owned(),
            labels: std::iter::once(("machine".to_owned(), name.to_owned()))
                .chain(labels)
                .collect(),
            cpus: there.map_or(cpus, |there| there.min(cpus)),
            job: None,
            received: Vec::new(),
            failure: None,
            done: false,
            phase: None,
            runs: runs.to_owned(),
            part: None,
            log: None,
            ended: None,
            lost: None,
            last: VecDeque::new(),
            unread: None,
            companions: None,
        }
    }

    pub fn goes_on(&self) -> bool {
        !self.done && self.failure.is_none()
    }

    /// Whether a Pod belongs to the node's Job.
    pub fn owns(&self, pod: &Pod) -> bool {
        self.job.as_ref().is_some_and(|job| job.owns(pod))
    }

    pub fn has_companions(&self) -> bool {
        self.companions.is_some()
    }

    pub fn keep_companion(&mut self, layout: Layout, job: Object, address: Option<IpAddr>) {
        let companion = Companion {
            layout,
            job: Made::new(job),
            address,
            runs: false,
        };
        self.companions.get_or_insert_default().push(companion);
    }

    /// Addresses of the companion Pods, once all of them run.
    pub fn addresses(&self) -> Option<Addresses> {
        let companions = self.companions.iter().flatten();
        companions
            .map(|one| Some((one.layout, one.address.filter(|_| one.runs)?)))
            .collect()
    }

    /// Updates the companion Pods from the cluster's objects.
    pub fn look_beside(&mut self, pods: &[Pod], wait: Duration, tell: &mut dyn FnMut(&Event<'_>)) {
        let mut failed = None;
        for one in self.companions.iter_mut().flatten() {
            let Some(pod) = pods.iter().find(|pod| one.job.owns(pod)) else {
                continue;
            };
            match reason::of_pod(pod) {
                Phase::Runs => {
                    one.address = one.address.or_else(|| pod.status.pod_ip.parse().ok());
                    one.runs = true;
                }
                Phase::Failed(why) => failed = Some((one.layout, why)),
                Phase::Waits(why) if one.job.since.elapsed() > wait => failed = Some((one.layout, why)),
                Phase::Waits(_) => {}
                Phase::Ended(code) => failed = Some((one.layout, format!("its server ended with {code}"))),
            }
        }
        if let Some((layout, why)) = failed {
            self.fail(format!("the Pod for the layout {}: {why}", layout.name()), tell);
        }
    }

    /// Whether the cluster has objects of this node, as far as this client knows.
    pub fn made_something(&self) -> bool {
        self.job.is_some() || self.has_companions() || !self.received.is_empty()
    }

    /// Why the node counts as lost, after a delay.
    pub fn is_lost(&mut self, why: Option<&String>) -> Option<String> {
        let since = why.map(|_| self.lost.unwrap_or_else(Instant::now));
        self.lost = since;
        why.filter(|_| since.is_some_and(|since| since.elapsed() > LOST))
            .cloned()
    }

    /// Why the node has no Pod: its Job has ended, or cannot create one, which only its events explain.
    pub fn without_pod(&self, objects: &[Object], cluster: &Cluster<'_>) -> Phase {
        let waits = || "waits for its Pod".to_owned();
        let Some(made) = self.job.as_ref().filter(|made| made.since.elapsed() > PODLESS) else {
            return Phase::Waits(waits());
        };
        let Some(job) = objects.iter().find(|object| object.metadata.uid == made.uid) else {
            return Phase::Failed("its Job was deleted by somebody else".to_owned());
        };
        if let Some(why) = reason::of_job(job) {
            return Phase::Failed(why);
        }
        match cluster.warning(&made.name) {
            why if self.log.is_some() => Phase::Failed(why.unwrap_or_else(|| "its Pod was deleted".to_owned())),
            why => Phase::Waits(why.unwrap_or_else(waits)),
        }
    }

    pub fn begin(&mut self, job: Object) {
        self.job = Some(Made::new(job));
    }

    pub fn fail(&mut self, why: String, tell: &mut dyn FnMut(&Event<'_>)) {
        tell(&Event::Failed {
            node: &self.node,
            why: &why,
        });
        self.failure = Some(why);
        self.log = None;
    }

    /// Ends a run with a complete record. Returns its Job.
    pub fn end_run(&mut self, per_node: u32) -> Option<String> {
        self.done = self.received.len() >= per_node as usize;
        (self.log, self.phase, self.ended, self.part) = (None, None, None, None);
        self.job.take().map(|job| job.name)
    }

    /// Handles the phase of the node's Pod.
    pub fn enter(
        &mut self,
        phase: Phase,
        pod: Option<&Pod>,
        cluster: &Cluster<'_>,
        fleet: &Fleet,
        tell: &mut dyn FnMut(&Event<'_>),
    ) {
        let took = self.job.as_ref().map_or(Duration::ZERO, |job| job.since.elapsed());
        let waited = took > fleet.wait;
        let late = took > fleet.deadline();
        match &phase {
            Phase::Runs | Phase::Ended(_) if late => {
                let why = self.unread.iter().map(|why| format!(": {why}"));
                let why: String = why.collect();
                return self.fail(format!("no complete record within {} s{why}", took.as_secs()), tell);
            }
            Phase::Failed(why) => return self.fail(why.clone(), tell),
            Phase::Waits(why) if waited => return self.fail(why.clone(), tell),
            Phase::Waits(why) if self.phase.as_ref() != Some(&phase) => {
                tell(&Event::Phase {
                    node: &self.node,
                    phase: why,
                });
            }
            Phase::Waits(_) => {}
            Phase::Runs | Phase::Ended(_) => {
                if let Err(why) = self.read_log(pod, cluster) {
                    return self.fail(why, tell);
                }
            }
        }
        if let Phase::Ended(code) = phase
            && self.ended.get_or_insert_with(Instant::now).elapsed() > TAIL
        {
            return self.fail(self.ended_early(code), tell);
        }
        self.phase = Some(phase);
    }

    /// Follows the log of the Pod, or starts again after a break. Returns the reason if that is forbidden.
    fn read_log(&mut self, pod: Option<&Pod>, cluster: &Cluster<'_>) -> Result<(), String> {
        let Some(pod) = pod else { return Ok(()) };
        let said = match &mut self.log {
            None => 0,
            Some(log) if log.broken.is_some_and(|since| since.elapsed() > AGAIN) => {
                match log.why_broken() {
                    Some(why) if reason::is_forbidden(&why) => return Err(why),
                    why => self.unread = why,
                }
                log.said.max(log.at)
            }
            Some(_) => return Ok(()),
        };
        let followed = cluster.log(&pod.metadata.name);
        let (mut kubectl, errors) =
            followed.map_err(|error| format!("cannot run kubectl, which reads its log: {error}"))?;
        let (sender, news) = sync_channel(WAITING);
        let (output, runs, part) = (kubectl.stdout.take(), self.runs.clone(), self.part.clone());
        thread::spawn(move || {
            let log = BufReader::new(output?);
            let mut hear = |heard| drop(sender.send(News::Heard(heard)));
            let end = wire::receive(log, &runs, part.as_deref(), &mut hear);
            sender.send(News::End(end)).ok()
        });
        self.log = Some(Log {
            kubectl,
            errors,
            news,
            said,
            at: 0,
            broken: None,
        });
        Ok(())
    }

    /// Why there is no complete record although the Pod has ended.
    fn ended_early(&self, code: i32) -> String {
        let said: Vec<&str> = self.last.iter().map(String::as_str).collect();
        if said.is_empty() {
            format!("its container ended with {code} before the record was complete")
        } else {
            format!(
                "its container ended with {code} before the record was complete: {}",
                said.join("\n")
            )
        }
    }

    /// Reads new messages of the log; true if the record is complete.
    pub fn listen(&mut self, tell: &mut dyn FnMut(&Event<'_>)) -> bool {
        while let Some(log) = &mut self.log {
            match log.news.try_recv() {
                Err(_) => return false,
                Ok(News::Heard(Heard::Line(line))) => self.say(&line, tell),
                Ok(News::Heard(Heard::Begun(folder))) => self.part = Some(folder),
                Ok(News::End(Ok(received))) => {
                    self.received.push(received);
                    return true;
                }
                // The log is read again from its beginning.
                Ok(News::End(Err(WireError::Ended | WireError::Gap(_)))) => log.broken = Some(Instant::now()),
                Ok(News::End(Err(error))) => self.fail(error.to_string(), tell),
            }
        }
        false
    }

    fn say(&mut self, line: &[u8], tell: &mut dyn FnMut(&Event<'_>)) {
        let Some(log) = &mut self.log else { return };
        let line = String::from_utf8_lossy(&line[..line.len().min(SHOWN_BYTES)]).into_owned();
        log.at += 1;
        if log.at <= log.said || line.trim().is_empty() {
            return;
        }
        tell(&Event::Says {
            node: &self.node,
            line: &line,
        });
        self.last.push_back(line);
        if self.last.len() > SHOWN {
            self.last.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_that_only_names_a_job_is_not_of_it() {
        let owner = |uid: &str| json!({ "kind": "Job", "name": "lasthop-1-0", "uid": uid });
        let made = Made::new(serde_json::from_value(json!({ "metadata": { "uid": "a" } })).unwrap());
        let pod = |uid: &str| -> Pod {
            serde_json::from_value(json!({ "metadata": { "ownerReferences": [owner(uid)] } })).unwrap()
        };
        assert!(made.owns(&pod("a")));
        assert!(!made.owns(&pod("b")));
    }
}
