//! A thread that empties the rings of all CPUs during a trial. It only counts; names come later.

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

/// Interval between two rounds of emptying the rings.
const PAUSE: Duration = Duration::from_millis(20);

/// Data collected from the kernel.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    pub samples: Samples,
    /// Threads seen in samples: process and thread.
    pub threads: HashSet<(i32, i32)>,
    /// Counts by process, counter and key.
    pub counts: HashMap<(i32, usize, u32), u64>,
    pub forks: Vec<Fork>,
    pub lost: u64,
}

/// The meaning of each event of all CPUs, by its number.
pub(crate) type Meanings = HashMap<u64, Meaning>;

/// Meaning of an event's samples.
#[derive(Clone, Debug)]
pub(crate) enum Meaning {
    /// The stack that a CPU was running.
    Clock,
    /// An occurrence, by the number of its counter.
    Count(usize, Arc<Counter>),
}

/// The thread, which ends when this value is dropped.
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
                // Read before the last round, so that nothing stays in the rings.
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

    /// Returns the collected data. The events must already be disabled.
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
