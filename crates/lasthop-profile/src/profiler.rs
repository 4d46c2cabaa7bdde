//! A trial under observation.

use std::{collections::BTreeMap, io, sync::Arc, time::Instant};

use lasthop_model::{
    observation::{Role, RoleUsage},
    profile::{KERNEL, Profile, RoleProfile, Waiting},
};
use lasthop_observe::observer::{Observer, Snapshot};
use lasthop_system::{cpus, files};
use perf_event_open_sys::bindings::{
    PERF_COUNT_SW_CPU_CLOCK, PERF_COUNT_SW_DUMMY, PERF_TYPE_SOFTWARE, perf_event_attr,
};

use crate::{
    collector::{Collected, Collector, Meaning, Meanings},
    fold::fold,
    layers::{Layers, layers},
    missing::Missing,
    record::{PLAIN, WITH_STACK},
    ring::{Event, Ring},
    roles::Family,
    symbols,
    tracepoints::Counter,
};

/// Interval between samples of a CPU in nanoseconds: 997 samples a second, so that they do not keep step with events
/// every millisecond.
const PERIOD_NS: u64 = 1_003_009;
/// Bytes of a CPU's ring. A second of samples takes some 300 kB.
const SAMPLES_RING: usize = 1 << 20;
/// Bytes of a CPU's ring with counts, of which there may be a million a second.
const COUNTS_RING: usize = 8 << 20;

/// What to observe.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whether to take samples. Each costs a few µs, a thousand times a second on each CPU.
    pub samples: bool,
    /// Whether to count system calls, wake-ups and similar events. Each costs a fraction of a µs, which samples would
    /// show, so counts are best taken in a trial of their own.
    pub counts: bool,
    pub layers: Layers,
}

impl Default for Settings {
    /// Samples without counts, and the built-in layers.
    fn default() -> Self {
        Self {
            samples: true,
            counts: false,
            layers: layers().clone(),
        }
    }
}

/// Observes all CPUs, and assigns what it sees to roles.
pub struct Profiler {
    first: Vec<(String, Vec<i32>)>,
    settings: Settings,
    counters: Vec<Arc<Counter>>,
    observer: Observer,
    /// All events of all CPUs.
    events: Vec<Event>,
    rings: Vec<Ring>,
    meanings: Meanings,
    running: Option<Running>,
}

struct Running {
    collector: Collector,
    family: Family,
    before: Snapshot,
    begun: Instant,
}

impl Profiler {
    /// Whether this process may observe this machine, counts included.
    pub fn available() -> Result<(), Missing> {
        // Rights first: without them tracefs is also out of reach.
        let open = |counts| {
            let settings = Settings {
                counts,
                ..Settings::default()
            };
            Self::open(&[], settings).map(|_| ())
        };
        open(false).and_then(|()| open(true))
    }

    /// Prepares to observe these roles by their first processes, which must be alive; their descendants belong to the
    /// same role.
    pub fn open(roles: &[(String, Vec<i32>)], settings: Settings) -> Result<Self, Missing> {
        let mut profiler = Self {
            first: roles.to_vec(),
            counters: Vec::new(),
            observer: Observer::new(observed(roles)),
            events: Vec::new(),
            rings: Vec::new(),
            meanings: Meanings::new(),
            running: None,
            settings,
        };
        let cpus = online().map_err(|error| Missing::failed("the CPUs", &error))?;
        // Checked first: who lacks this right also lacks the others, and should learn of the one that matters.
        Event::open(clock(), cpus[0]).map_err(|error| Missing::of_event("a CPU", &error))?;
        if profiler.settings.counts {
            profiler.counters = Counter::all()?.into_iter().map(Arc::new).collect();
        }
        for cpu in cpus {
            profiler.open_cpu(cpu)?;
        }
        if profiler.settings.samples {
            symbols::kernel_is_named()?;
        }
        Ok(profiler)
    }

    fn open_cpu(&mut self, cpu: u32) -> Result<(), Missing> {
        let forks = Event::open(forks(), cpu).map_err(|error| Missing::of_event("processes that begin", &error))?;
        let size = if self.settings.counts {
            COUNTS_RING
        } else {
            SAMPLES_RING
        };
        self.rings
            .push(Ring::of(&forks, size).map_err(|error| Missing::of_event("a CPU", &error))?);
        let mut wanted = Vec::new();
        if self.settings.samples {
            wanted.push((clock(), Meaning::Clock));
        }
        let counters = self.counters.iter().enumerate();
        wanted.extend(counters.map(|(number, counter)| (counter.attr(), Meaning::Count(number, Arc::clone(counter)))));
        for (attr, meaning) in wanted {
            let open = || -> io::Result<(u64, Event)> {
                let event = Event::open(attr, cpu)?;
                event.write_to(&forks)?;
                Ok((event.id()?, event))
            };
            let (id, event) = open().map_err(|error| Missing::of_event("a CPU", &error))?;
            self.meanings.insert(id, meaning);
            self.events.push(event);
        }
        self.events.push(forks);
        Ok(())
    }

    /// Begins to observe.
    pub fn start(&mut self) -> Result<(), Missing> {
        let failed = |error: io::Error| Missing::failed("all CPUs", &error);
        let rings = std::mem::take(&mut self.rings);
        if rings.is_empty() {
            return Err(failed(io::Error::other("it was observed before")));
        }
        let collector = Collector::start(rings, std::mem::take(&mut self.meanings)).map_err(failed)?;
        for event in &self.events {
            event.enable().map_err(failed)?;
        }
        self.running = Some(Running {
            collector,
            before: self.observer.snapshot(0),
            begun: Instant::now(),
            // Last: processes that start meanwhile are in the rings.
            family: Family::of(&self.first),
        });
        Ok(())
    }

    /// Ends observing, and returns the profile. The processes of the roles must be alive, so that their functions can
    /// be named.
    pub fn stop(mut self) -> Result<Profile, Missing> {
        let failed = |error: io::Error| Missing::failed("all CPUs", &error);
        let running = self
            .running
            .take()
            .ok_or_else(|| failed(io::Error::other("it was not started")))?;
        let wall_ns = running.begun.elapsed().as_nanos() as u64;
        let after = self.observer.snapshot(0);
        for event in &self.events {
            event.disable().map_err(failed)?;
        }
        let mut collected = running.collector.end();
        let mut family = running.family;
        family.grow(std::mem::take(&mut collected.forks));
        let usage = self.observer.between(&running.before, &after, 0).roles;
        let (mut roles, samples) = fold(&collected.samples, &family, &self.settings.layers, PERIOD_NS);
        let counts = self.counts(&collected, &family);
        for (number, (role, counts)) in roles.iter_mut().zip(counts).enumerate() {
            role.counts = counts;
            if let Some(usage) = usage.get(&family.names[number]) {
                role.cpu_ns = usage.cpu_ns;
                role.waiting = self
                    .settings
                    .samples
                    .then(|| waiting(usage, threads(&collected, &family, number), wall_ns));
            }
        }
        Ok(Profile {
            wall_ns,
            period_ns: PERIOD_NS,
            samples,
            lost: collected.lost,
            roles: family
                .names
                .into_iter()
                .zip(roles)
                .filter(|(name, role)| is_worth(name, role))
                .collect(),
        })
    }

    /// Counts by name for each role, in the order of the family's names.
    fn counts(&self, collected: &Collected, family: &Family) -> Vec<BTreeMap<String, u64>> {
        let mut counts = vec![BTreeMap::new(); family.names.len()];
        for ((pid, counter, key), count) in &collected.counts {
            if let Some(role) = family.role_of(*pid) {
                *counts[role].entry(self.counters[*counter].name(*key)).or_default() += count;
            }
        }
        counts
    }
}

/// Whether to report a role: every role, but kernel work only if there was any.
fn is_worth(name: &str, role: &RoleProfile) -> bool {
    name != KERNEL || *role != RoleProfile::default()
}

/// Each first process as a role of its own; results for the same name are added up.
fn observed(roles: &[(String, Vec<i32>)]) -> Vec<Role> {
    let of = |(name, pids): &(String, Vec<i32>)| {
        let role = |pid: &i32| Role {
            name: name.clone(),
            pid: *pid,
            ..Role::default()
        };
        pids.iter().map(role).collect::<Vec<_>>()
    };
    roles.iter().flat_map(of).collect()
}

/// Threads of a role that ran, as far as samples show.
fn threads(collected: &Collected, family: &Family, role: usize) -> u64 {
    let of_role = |(pid, _): &&(i32, i32)| family.role_of(*pid) == Some(role);
    collected.threads.iter().filter(of_role).count() as u64
}

/// Splits the wall time of a role's threads; the rest is sleep.
fn waiting(usage: &RoleUsage, threads: u64, wall_ns: u64) -> Waiting {
    let runnable_ns = usage.run_delay_ns.unwrap_or(0);
    Waiting {
        running_ns: usage.cpu_ns,
        runnable_ns,
        sleeping_ns: (threads * wall_ns).saturating_sub(usage.cpu_ns + runnable_ns),
    }
}

/// The numbers of the online CPUs, as in `0-3,6`.
pub(crate) fn online() -> io::Result<Vec<u32>> {
    let text = files::text("/sys/devices/system/cpu/online")?;
    cpus::listed(&text).ok_or_else(|| io::Error::other(format!("cannot read `{}`", text.trim())))
}

fn software(config: u32, sample_type: u32) -> perf_event_attr {
    let mut attr = perf_event_attr {
        type_: PERF_TYPE_SOFTWARE,
        config: u64::from(config),
        sample_type: u64::from(sample_type),
        ..perf_event_attr::default()
    };
    attr.set_sample_id_all(1);
    attr
}

/// An event that counts nothing but reports new processes.
fn forks() -> perf_event_attr {
    let mut attr = software(PERF_COUNT_SW_DUMMY, PLAIN);
    attr.set_task(1);
    attr
}

/// An event that samples a CPU's stack by a timer.
fn clock() -> perf_event_attr {
    let mut attr = software(PERF_COUNT_SW_CPU_CLOCK, WITH_STACK);
    attr.sample_period = PERIOD_NS;
    attr
}
