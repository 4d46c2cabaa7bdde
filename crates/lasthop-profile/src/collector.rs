//! One thread that empties the rings of all CPUs while a trial runs, and only counts: names come later.

use std::{
    collections::{HashMap, HashSet},
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use crate::{
    fold::Samples,
    record::{Record, Sample, records},
    ring::Ring,
    roles::Fork,
    tracepoints::Counter,
};

/// How often the rings are emptied.
const PAUSE: Duration = Duration::from_millis(20);

/// What the kernel handed over.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    pub samples: Samples,
    /// Threads that were met by a sample: process and thread.
    pub threads: HashSet<(i32, i32)>,
    /// By process, counter and what it counts by.
    pub counts: HashMap<(i32, usize, u32), u64>,
    pub forks: Vec<Fork>,
    pub lost: u64,
}

/// What the events of all CPUs mean, by their numbers.
pub(crate) type Meanings = HashMap<u64, Meaning>;

/// What an event's samples mean.
#[derive(Clone, Debug)]
pub(crate) enum Meaning {
    /// Where the CPU was.
    Clock,
    /// That something happened, by the number of its counter.
    Count(usize, Arc<Counter>),
}

/// The thread, which ends with this value.
#[derive(Debug)]
pub(crate) struct Collector {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Collected>>,
}

impl Collector {
    pub(crate) fn start(mut rings: Vec<Ring>, meanings: Meanings) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let work = move || {
            let mut collected = Collected::default();
            let mut bytes = Vec::new();
            loop {
                // Asked before the last look, so that nothing stays in the rings.
                let last = stopped.load(Ordering::Acquire);
                for ring in &mut rings {
                    bytes.clear();
                    ring.drain(&mut bytes);
                    collected.add(&bytes, &meanings);
                }
                if last {
                    return collected;
                }
                thread::park_timeout(PAUSE);
            }
        };
        let thread = thread::Builder::new().name("profile".to_owned()).spawn(work)?;
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }

    /// What was collected. The events are disabled by now.
    pub(crate) fn end(mut self) -> Collected {
        self.join().unwrap_or_default()
    }

    fn join(&mut self) -> Option<Collected> {
        self.stop.store(true, Ordering::Release);
        let thread = self.thread.take()?;
        thread.thread().unpark();
        thread.join().ok()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.join();
    }
}

impl Collected {
    fn add(&mut self, bytes: &[u8], meanings: &Meanings) {
        for record in records(bytes) {
            match record {
                Record::Sample(sample) => self.add_sample(&sample, meanings),
                Record::Fork { time, parent, child } => self.forks.push(Fork { time, parent, child }),
                Record::Lost(records) => self.lost += records,
            }
        }
    }

    fn add_sample(&mut self, sample: &Sample<'_>, meanings: &Meanings) {
        match meanings.get(&sample.event) {
            Some(Meaning::Clock) => {
                self.threads.insert((sample.pid, sample.tid));
                *self.samples.entry((sample.pid, sample.stack())).or_default() += 1;
            }
            Some(Meaning::Count(number, counter)) => {
                let key = (sample.pid, *number, counter.key(sample));
                *self.counts.entry(key).or_default() += 1;
            }
            None => {}
        }
    }
}
