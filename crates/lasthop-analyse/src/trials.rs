//! The trials of a record, indexed by case, round and block.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::OnceLock,
};

use lasthop_model::record::{CasePlan, CaseProof, Failure, GivenEndpoint, LoadSummary, MeasuredTrial, Stopped};
use lasthop_record::data::RunData;
use lasthop_stats::{
    CONFIDENCE, Grouped, Resampling,
    grouped::BlockValue,
    quantile::Histogram as Bins,
    random,
    stopping::{LOOKS_CONFIDENCE, after_reports},
    totals::Totals,
};
use lasthop_trial::{
    Histogram,
    result::{ErrorClass, ErrorCount},
};

use super::{
    steady,
    summary::{Comparison, Metric},
};

/// Round and block.
pub type BlockId = (u32, u32);

/// Trials of one case that have a result, in order.
pub type CaseTrials<'a> = BTreeMap<BlockId, &'a MeasuredTrial>;

/// The role of the load generator, as an end of the link and as a user of CPU time.
pub const DRIVER: &str = "driver";

/// Resamples for percentiles, each of which merges histograms.
const QUANTILE_RESAMPLES: u32 = 1_000;

/// An index over a record.
pub struct Trials<'a> {
    pub data: &'a RunData,
    usable: HashMap<&'a str, CaseTrials<'a>>,
    /// Cases whose latencies cannot be shown, computed on first use.
    unsteady: OnceLock<HashSet<String>>,
    /// Rounds of the trials without a single correct reply, by case.
    empty: HashMap<&'a str, Vec<u32>>,
    /// Whether only ratios are wanted. Then figures of a case have no intervals, and ratios no materiality.
    pub ratios_only: bool,
}

/// The least CPU time per request of a server that answers, in nanoseconds.
const LEAST_CPU_NS: f64 = 1_000.0;

impl<'a> Trials<'a> {
    pub fn new(data: &'a RunData) -> Self {
        let mut trials = Self {
            data,
            usable: HashMap::new(),
            unsteady: OnceLock::new(),
            empty: HashMap::new(),
            ratios_only: false,
        };
        let asked = |trial: &MeasuredTrial| trial.asked_ns(&data.header.settings);
        // Trials from before the lengthening were too short.
        let mut longest: HashMap<&str, u64> = HashMap::new();
        for trial in data.trials() {
            let known = longest.entry(&trial.case).or_default();
            *known = asked(trial).max(*known);
        }
        for trial in data.trials() {
            if asked(trial) != longest[trial.case.as_str()] {
                continue;
            }
            if trial.result.requests > 0 && trial.result.elapsed_ns > 0 {
                let of_case = trials.usable.entry(&trial.case).or_default();
                of_case.insert((trial.round, trial.block), trial);
            } else {
                trials.empty.entry(&trial.case).or_default().push(trial.round);
            }
        }
        trials
    }

    /// An index for reading many records, without the resampling that takes most of the time.
    pub fn of_ratios(data: &'a RunData) -> Self {
        Self {
            ratios_only: true,
            ..Self::new(data)
        }
    }

    /// Whether the driver is an end of the link under test.
    pub fn is_direct(&self) -> bool {
        self.data.header.experiment.from == DRIVER
    }

    /// A case's endpoint that lasthop did not start.
    pub fn given(&self, case: &str) -> Option<&'a GivenEndpoint> {
        self.data.header.given.as_ref()?.endpoints.get(case)
    }

    /// Whether the CPU time of every server was measured.
    pub fn knows_servers(&self) -> bool {
        self.cases().iter().all(|plan| self.knows_server(&plan.case))
    }

    /// Whether the CPU time of a case's server was measured: lasthop started the server, or its process is known and is
    /// the one that answers.
    pub fn knows_server(&self, case: &str) -> bool {
        let Some(given) = &self.data.header.given else {
            return true;
        };
        let ended = given.pids.keys().any(|role| !self.has_always(case, role));
        let named = !given.pids.is_empty() || self.given(case).is_some_and(|one| one.server.is_some());
        let spent: u64 = self
            .of_case(case)
            .map(|trial| trial.observations.services_cpu_ns())
            .sum();
        let requests: f64 = self.of_case(case).map(served).sum();
        !ended && named && spent as f64 >= LEAST_CPU_NS * requests
    }

    /// Whether a role was present in every trial of a case.
    pub fn has_always(&self, case: &str, role: &str) -> bool {
        self.of_case(case)
            .all(|trial| trial.observations.roles.contains_key(role))
    }

    /// Whether the driver's layers are part of the difference between two cases: the driver is an end of the link on
    /// this machine, and does not busy-wait for its schedule. A driver in front of a proxy stands for clients
    /// elsewhere.
    pub fn explains_driver(&self, load: &LoadSummary) -> bool {
        let header = &self.data.header;
        self.is_direct() && header.settings.driver_at.is_none() && !load.is_open()
    }

    /// Whether each round has newly started servers.
    pub fn restarts_servers(&self) -> bool {
        let given = &self.data.header.given;
        given.as_ref().is_none_or(|given| given.restart.is_some())
    }

    pub fn cases(&self) -> &'a [CasePlan] {
        &self.data.header.cases
    }

    /// Whether a comparison is by the primary metric of its load, for which the run was planned.
    pub fn is_primary(&self, one: &Comparison) -> bool {
        let plan = self.plan(&one.case);
        plan.is_some_and(|plan| Metric::primary(&plan.load) == one.metric)
    }

    /// The cases that are compared with a case: its reference, or the cases of a reference.
    pub fn compared_with(&self, plan: &CasePlan) -> impl Iterator<Item = &'a CasePlan> {
        let cases = self.cases().iter();
        cases.filter(move |other| {
            other.reference.as_ref() == Some(&plan.case) || plan.reference.as_ref() == Some(&other.case)
        })
    }

    /// Whether the trials of a case show its latencies.
    pub fn is_steady(&self, case: &str) -> bool {
        let unsteady = || self.cases().iter().filter(|plan| !steady::is_steady(self, plan));
        !self
            .unsteady
            .get_or_init(|| unsteady().map(|plan| plan.case.clone()).collect())
            .contains(case)
    }

    /// The plan of a case.
    pub fn plan(&self, case: &str) -> Option<&'a CasePlan> {
        self.cases().iter().find(|plan| plan.case == case)
    }

    /// Trials of a case with at least one correct reply.
    pub fn of_case(&self, case: &str) -> impl Iterator<Item = &'a MeasuredTrial> + '_ {
        self.usable
            .get(case)
            .into_iter()
            .flat_map(|trials| trials.values().copied())
    }

    /// The sum of a count over the trials of a case with at least one correct reply.
    pub fn sum(&self, case: &str, count: impl Fn(&MeasuredTrial) -> u64) -> u64 {
        self.of_case(case).map(count).sum()
    }

    pub fn count(&self, case: &str) -> usize {
        self.usable.get(case).map_or(0, BTreeMap::len)
    }

    /// All trials, including those without a correct reply.
    pub fn every(&self) -> impl Iterator<Item = &'a MeasuredTrial> + use<'a> {
        self.data.trials()
    }

    /// All trials of a case.
    pub fn every_of(&self, case: &str) -> impl Iterator<Item = &'a MeasuredTrial> {
        self.every().filter(move |trial| trial.case == case)
    }

    /// Blocks in which both cases have a result.
    pub fn pairs(&self, case: &str, reference: &str) -> Vec<(BlockId, &'a MeasuredTrial, &'a MeasuredTrial)> {
        let (Some(ours), Some(theirs)) = (self.usable.get(case), self.usable.get(reference)) else {
            return vec![];
        };
        ours.iter()
            .filter_map(|(place, trial)| Some((*place, *trial, *theirs.get(place)?)))
            .collect()
    }

    /// Failed trials and failed starts of a case, as recorded.
    fn failures(&self, case: &str) -> impl Iterator<Item = &'a Failure> {
        self.data.failures().filter(move |failure| failure.case == case)
    }

    /// The round of each failed trial and failed start of a case.
    pub fn failed(&self, case: &str) -> Vec<u32> {
        let recorded = self.failures(case).map(|failure| failure.round);
        recorded
            .chain(self.empty.get(case).into_iter().flatten().copied())
            .collect()
    }

    /// Errors of a case by class, including those of failed trials.
    pub fn errors(&self, case: &str) -> impl Iterator<Item = (&'a ErrorClass, &'a ErrorCount)> {
        let failed = self.failures(case).flat_map(|failure| &failure.errors);
        self.every_of(case).flat_map(|trial| &trial.result.errors).chain(failed)
    }

    /// Correct replies of a case, including those of failed trials.
    pub fn answers(&self, case: &str) -> f64 {
        let failed = self.failures(case).map(|failure| failure.requests as f64);
        self.every_of(case).map(served).chain(failed).sum()
    }

    /// The proofs of a case, one per round.
    pub fn proofs<'b>(&self, case: &'b str) -> impl Iterator<Item = &'a CaseProof> + use<'a, 'b> {
        self.data
            .rounds()
            .filter_map(move |round| Some(&**round.cases.get(case)?))
    }

    /// Whether any connection of a case may use TCP. None does if the driver reaches a server over a Unix socket, and
    /// there is no other server that could be asked. Behind an endpoint that lasthop did not start, there may be
    /// unknown servers.
    pub fn may_use_tcp(&self, case: &str) -> bool {
        let is_alone =
            self.data.header.given.is_none() && self.of_case(case).all(|trial| trial.observations.roles.len() < 2);
        !is_alone || self.proofs(case).last().is_none_or(|seen| seen.driver.family != "unix")
    }

    pub fn rounds(&self) -> u32 {
        let with_trials = self.every().map(|trial| trial.round);
        let seen: BTreeSet<u32> = self.data.rounds().map(|round| round.round).chain(with_trials).collect();
        u32::try_from(seen.len()).unwrap_or(u32::MAX)
    }

    pub fn blocks(&self) -> u32 {
        let seen: BTreeSet<BlockId> = self.every().map(|trial| (trial.round, trial.block)).collect();
        u32::try_from(seen.len()).unwrap_or(u32::MAX)
    }

    /// Seconds that the run took, or has taken up to its last trial, without pauses.
    pub fn seconds(&self) -> f64 {
        self.data.took_ns() as f64 / 1e9
    }

    /// The confidence level of intervals, chosen so that they cover the truth in 95 % of runs. It is higher for a run
    /// that stopped, or that cases left, because intervals were narrow enough, and for a run that was reported before
    /// it was resumed.
    pub fn confidence(&self) -> f64 {
        let is_by_looks = match &self.data.end {
            Some(end) if end.stopped == Stopped::Precision => true,
            _ => self.data.rounds().any(|round| !round.left.is_empty()),
        };
        let level = if is_by_looks { LOOKS_CONFIDENCE } else { CONFIDENCE };
        after_reports(level, self.data.reports())
    }

    /// The confidence level of intervals that decide whether a run stops.
    pub fn looks_confidence(&self) -> f64 {
        after_reports(LOOKS_CONFIDENCE, self.data.reports())
    }

    /// Separate random draws for each case and quantity.
    pub fn resampling(&self, case: &str, quantity: &str) -> Resampling {
        Resampling::new(random::seed_for(self.data.header.settings.seed, &[case, quantity]))
    }

    pub fn quantile_resampling(&self, case: &str, quantity: &str) -> Resampling {
        Resampling {
            resamples: QUANTILE_RESAMPLES,
            ..self.resampling(case, quantity)
        }
    }
}

/// Values by round; `None` without values, or if a value is invalid.
pub fn grouped<T: BlockValue>(values: impl IntoIterator<Item = (u32, T)>) -> Option<Grouped<T>> {
    let mut rounds: BTreeMap<u32, Vec<T>> = BTreeMap::new();
    for (round, value) in values {
        rounds.entry(round).or_default().push(value);
    }
    Grouped::new(rounds.into_values().collect())
}

/// Correct replies per second.
pub fn rate(trial: &MeasuredTrial) -> Totals {
    Totals::of(trial.result.requests as f64, trial.result.elapsed_ns as f64 / 1e9)
}

/// Correct replies per nanosecond in the two halves of a trial's measure phase; `None` if either half had none, and in
/// an open loop.
pub fn halves(trial: &MeasuredTrial) -> Option<[f64; 2]> {
    let whole = &trial.result;
    let first = whole.first_half?;
    let rate =
        |requests: u64, elapsed_ns: u64| (requests > 0 && elapsed_ns > 0).then(|| requests as f64 / elapsed_ns as f64);
    Some([
        rate(first.requests, first.elapsed_ns)?,
        rate(
            whole.requests.checked_sub(first.requests)?,
            whole.elapsed_ns.checked_sub(first.elapsed_ns)?,
        )?,
    ])
}

/// The quantity by which trials are compared: correct replies per second, or the median response time of an open loop
/// in nanoseconds.
pub fn primary(trial: &MeasuredTrial) -> Option<f64> {
    let result = &trial.result;
    match result.offered {
        None => Some(result.throughput()),
        // At least 1 ns, because ratios are taken as logarithms.
        Some(_) => Some(latency(trial)?.quantile(0.5).max(1) as f64),
    }
}

/// The name of [`primary`].
pub fn primary_name(plan: &CasePlan) -> &'static str {
    if plan.load.is_open() {
        "median response time"
    } else {
        "throughput"
    }
}

/// Requests that the services answered in the whole trial.
pub fn served(trial: &MeasuredTrial) -> f64 {
    trial.result.requests_total.max(trial.result.requests) as f64
}

/// Microseconds of CPU time of the services per request, in the whole trial. The driver's is not included: it stands
/// for the user's clients, whose own work is unknown.
pub fn cpu(trial: &MeasuredTrial) -> Totals {
    Totals::of(cpu_us(trial), served(trial))
}

/// [`cpu`] as a number; `None` without requests.
pub fn cpu_per_request(trial: &MeasuredTrial) -> Option<f64> {
    Some(cpu_us(trial) / served(trial)).filter(|cpu| cpu.is_finite())
}

fn cpu_us(trial: &MeasuredTrial) -> f64 {
    trial.observations.services_cpu_ns() as f64 / 1e3
}

/// The latencies of a trial, in nanoseconds.
#[derive(Clone, Copy)]
pub struct Latencies<'a>(&'a Histogram);

impl Bins for Latencies<'_> {
    /// Latencies and their counts. A latency is at least 1 ns, because the middle of the lowest bin may be 0.
    fn bins(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.bins().map(|(value, count)| (value.max(1), count))
    }
}

/// Response times of an open loop, otherwise service times; `None` if the driver does not report them.
pub fn latency(trial: &MeasuredTrial) -> Option<&Histogram> {
    trial.result.latency().filter(|histogram| !histogram.is_empty())
}

/// [`latency`], in the form for merging.
pub fn latencies(trial: &MeasuredTrial) -> Option<Latencies<'_>> {
    latency(trial).map(Latencies)
}
