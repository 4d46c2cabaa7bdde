//! The CPU time of a request by layer, case and role, and the difference of each layer from the reference.
//!
//! All figures are per correct reply of the whole profile trial, which the samples and the kernel's account also cover.
//! Nothing is scaled: if samples and account differ, a check says so. The savings of all layers, listed or not, add up
//! to that of all samples, because each is a difference of quotients with equal denominators.

use std::collections::{BTreeMap, BTreeSet};

use indexmap::IndexMap;
use lasthop_model::{
    profile::{FoldedStack, KERNEL, RoleProfile},
    record::{CasePlan, ProfileTrial},
};
use lasthop_stats::{
    Interval,
    totals::{self, Totals},
};

use super::{
    cases,
    summary::{Explained, LayerDifference, LayerSaving, Measured, ProfiledCase, ProfiledRole, Stack, ThreadTime},
    trials::{DRIVER, Trials, grouped},
};

/// The layer for samples without a layer.
pub const NOT_ATTRIBUTED: &str = "not-attributed";

/// Share of the whole difference from which a layer is listed, even if it may not differ.
const LARGE: f64 = 0.1;
/// Events are listed if they differ by this many per request, and by this share.
const EVENTS: (f64, f64) = (0.05, 0.05);
/// The most functions named as evidence of a layer.
const FUNCTIONS: usize = 3;
/// The most stacks listed for a role.
const STACKS: usize = 300;

/// The explanation of a run; `None` for a run without profile trials.
pub fn summarise(trials: &Trials) -> Option<Explained> {
    let data = trials.data;
    if data.profiles.is_empty() || trials.ratios_only {
        return None;
    }
    let plans = || trials.cases().iter();
    Some(Explained {
        missing: data.not_observed().map(str::to_owned),
        layers: data.layers(),
        cases: plans()
            .filter_map(|plan| Some((plan.case.clone(), of_case(trials, plan)?)))
            .collect(),
        differences: plans().filter_map(|plan| difference(trials, plan)).collect(),
    })
}

/// Trials of a case with sampled CPU time.
pub fn sampled_trials<'a>(trials: &Trials<'a>, case: &str) -> Vec<&'a ProfileTrial> {
    profiles(trials, case, |trial| trial.profile.samples > 0)
}

/// Trials of a case with counted events. They are separate trials, because samples would show the counting.
fn counted_trials<'a>(trials: &Trials<'a>, case: &str) -> Vec<&'a ProfileTrial> {
    profiles(trials, case, |trial| {
        trial.profile.roles.values().any(|role| !role.counts.is_empty())
    })
}

/// Wanted profile trials with replies.
fn profiles<'a>(trials: &Trials<'a>, case: &str, is_wanted: fn(&ProfileTrial) -> bool) -> Vec<&'a ProfileTrial> {
    let all = trials.data.profile_trials();
    all.filter(|trial| trial.case == case && trial.requests_total > 0 && is_wanted(trial))
        .collect()
}

fn of_case(trials: &Trials, plan: &CasePlan) -> Option<ProfiledCase> {
    let all = sampled_trials(trials, &plan.case);
    let counted = counted_trials(trials, &plan.case);
    let names: BTreeSet<&String> = all.iter().flat_map(|trial| trial.profile.roles.keys()).collect();
    // The driver first and the kernel last; services in the order of their names.
    let mut names: Vec<&String> = names.into_iter().collect();
    names.sort_by_key(|name| (*name != DRIVER, *name == KERNEL));
    (!all.is_empty()).then(|| ProfiledCase {
        trials: u32::try_from(all.len()).unwrap_or(u32::MAX),
        samples: all
            .iter()
            .map(|trial| trial.profile.samples)
            .fold(0, u64::saturating_add),
        speed: speed(trials, plan, &all),
        roles: names
            .into_iter()
            .map(|name| (name.clone(), of_role(&all, &counted, name)))
            .collect(),
    })
}

/// The speed of profile trials relative to measured trials. Each round has both, and so is a pair.
fn speed(trials: &Trials, plan: &CasePlan, profiles: &[&ProfileTrial]) -> Option<Measured> {
    let mut rounds: BTreeMap<u32, [Totals; 2]> = BTreeMap::new();
    let mut add = |round, which: usize, requests: u64, elapsed_ns: u64| {
        let sum = &mut rounds.entry(round).or_default()[which];
        sum.numerator += requests as f64;
        sum.denominator += elapsed_ns as f64;
    };
    for trial in profiles {
        add(trial.round, 0, trial.requests, trial.elapsed_ns);
    }
    for trial in trials.of_case(&plan.case) {
        add(trial.round, 1, trial.result.requests, trial.result.elapsed_ns);
    }
    let is_known = |totals: &Totals| totals.denominator > 0.0 && totals.numerator > 0.0;
    let pairs = rounds
        .into_iter()
        .filter(|(_, pair)| !plan.load.is_open() && pair.iter().all(is_known));
    let ratio = totals::log_ratio(&grouped(pairs)?, trials.resampling(&plan.case, "profile speed"))?;
    Some(Measured::of("ratio", ratio.exponential(trials.confidence())))
}

/// Sums over the trials of a role, per correct reply.
struct Sums<'a> {
    roles: Vec<&'a RoleProfile>,
    requests: f64,
}

impl<'a> Sums<'a> {
    fn of(trials: &[&'a ProfileTrial], name: &str) -> Self {
        Self {
            roles: trials
                .iter()
                .filter_map(|trial| trial.profile.roles.get(name))
                .collect(),
            requests: trials.iter().map(|trial| trial.requests_total as f64).sum(),
        }
    }

    fn per_request(&self, amount: impl Fn(&RoleProfile) -> f64) -> f64 {
        self.roles.iter().map(|role| amount(role)).sum::<f64>() / self.requests
    }

    fn micros(&self, amount: impl Fn(&RoleProfile) -> f64) -> f64 {
        self.per_request(amount) / 1e3
    }

    /// Microseconds by key, largest first.
    fn largest<'b, K: Ord>(&'b self, parts: impl Fn(&'b RoleProfile) -> Vec<(K, u64)>) -> Vec<(K, f64)> {
        let mut sums: BTreeMap<K, f64> = BTreeMap::new();
        for (key, ns) in self.roles.iter().flat_map(|role| parts(role)) {
            *sums.entry(key).or_default() += ns as f64 / 1e3 / self.requests;
        }
        let mut sums: Vec<_> = sums.into_iter().collect();
        sums.sort_by(|one, other| other.1.total_cmp(&one.1));
        sums
    }
}

fn of_role(trials: &[&ProfileTrial], counted: &[&ProfileTrial], name: &str) -> ProfiledRole {
    let sums = Sums::of(trials, name);
    let counted = Sums::of(counted, name);
    let owned = |(key, amount): (&String, f64)| (key.clone(), amount);
    let layers = sums.largest(|role| role.layers.iter().map(|(layer, ns)| (layer, *ns)).collect());
    let unassigned = sums.largest(|role| role.unassigned.iter().map(|(function, ns)| (function, *ns)).collect());
    let events: BTreeSet<&String> = counted.roles.iter().flat_map(|role| role.counts.keys()).collect();
    let count = |event: &String| counted.per_request(|role| count(role, event));
    let stacks = sums.largest(|role| {
        let stack = |stack: &'_ FoldedStack| ((folded(&stack.frames), stack.layer.clone()), stack.ns);
        role.stacks.iter().map(stack).collect()
    });
    let others: f64 = stacks.iter().skip(STACKS).map(|(_, us)| us).sum();
    let told = stacks.into_iter().take(STACKS);
    ProfiledRole {
        cpu_us: sums.micros(|role| role.cpu_ns as f64),
        layers: layers.into_iter().map(owned).collect(),
        not_attributed_us: sums.micros(not_attributed),
        unassigned: unassigned.into_iter().take(FUNCTIONS).map(owned).collect(),
        counts: events.into_iter().map(|event| (event.clone(), count(event))).collect(),
        time: thread_time(&sums),
        stacks: told.map(|((stack, layer), us)| Stack { stack, layer, us }).collect(),
        other_stacks_us: others + sums.micros(|role| role.truncated_ns as f64),
    }
}

/// A folded stack, in which a frame with a semicolon must not look like two.
fn folded(frames: &[String]) -> String {
    let frames: Vec<String> = frames.iter().map(|frame| frame.replace(';', ":")).collect();
    frames.join(";")
}

/// The time of threads; `None` unless measured in every trial.
fn thread_time(sums: &Sums<'_>) -> Option<ThreadTime> {
    let all = !sums.roles.is_empty() && sums.roles.iter().all(|role| role.waiting.is_some());
    let micros = |part: fn(&lasthop_model::profile::Waiting) -> u64| {
        sums.micros(|role| role.waiting.as_ref().map_or(0, part) as f64)
    };
    all.then(|| ThreadTime {
        working_us: micros(|time| time.running_ns),
        runnable_us: micros(|time| time.runnable_ns),
        waiting_us: micros(|time| time.sleeping_ns),
    })
}

/// Nanoseconds of CPU time, by samples.
pub fn sampled(role: &RoleProfile) -> f64 {
    role.stacks.iter().map(|stack| stack.ns as f64).sum::<f64>() + role.truncated_ns as f64
}

/// Nanoseconds of sampled CPU time without a layer.
pub fn not_attributed(role: &RoleProfile) -> f64 {
    (sampled(role) - role.layers.values().map(|ns| *ns as f64).sum::<f64>()).max(0.0)
}

fn count(role: &RoleProfile, event: &str) -> f64 {
    role.counts.get(event).copied().unwrap_or(0) as f64
}

/// Nanoseconds of a role in a layer.
fn in_layer(role: &RoleProfile, layer: &str) -> f64 {
    match layer {
        NOT_ATTRIBUTED => not_attributed(role),
        _ => role.layers.get(layer).copied().unwrap_or(0) as f64,
    }
}

/// Profile trials of a case and of its reference from the same rounds.
struct Pairs<'a> {
    case: &'a CasePlan,
    /// Trials by round: the case's, then the reference's.
    trials: Vec<(u32, [&'a ProfileTrial; 2])>,
    /// The roles by which cases are compared.
    roles: BTreeSet<&'a String>,
}

impl<'a> Pairs<'a> {
    fn of(
        trials: &Trials<'a>,
        case: &'a CasePlan,
        reference: &str,
        of_case: fn(&Trials<'a>, &str) -> Vec<&'a ProfileTrial>,
    ) -> Self {
        let [ours, theirs] = [&case.case, reference].map(|name| of_case(trials, name));
        let rounds: BTreeSet<u32> = ours.iter().map(|trial| trial.round).collect();
        let of = |all: &[&'a ProfileTrial], round| -> Vec<&'a ProfileTrial> {
            all.iter().copied().filter(|trial| trial.round == round).collect()
        };
        let pairs = rounds.into_iter().flat_map(|round| {
            let both = of(&ours, round).into_iter().zip(of(&theirs, round));
            both.map(move |(case, reference)| (round, [case, reference]))
        });
        let pairs: Vec<_> = pairs.collect();
        let explains_driver = trials.explains_driver(&case.load);
        let is_compared = |role: &&String| *role != KERNEL && (*role != DRIVER || explains_driver);
        let roles = pairs
            .iter()
            .flat_map(|(_, both)| both)
            .flat_map(|trial| trial.profile.roles.keys());
        Self {
            case,
            roles: roles.filter(is_compared).collect(),
            trials: pairs,
        }
    }

    fn layers(&self) -> BTreeSet<&'a str> {
        let trials = self.trials.iter().flat_map(|(_, both)| both);
        let roles = trials.flat_map(|trial| self.roles.iter().filter_map(|role| trial.profile.roles.get(*role)));
        roles.flat_map(|role| role.layers.keys().map(String::as_str)).collect()
    }

    /// The saving of the case, in microseconds per request.
    fn saved(&self, trials: &Trials, name: &str, amount: impl Fn(&ProfileTrial) -> f64) -> Option<Measured> {
        Some(Measured::of(
            "us",
            self.fewer(trials, name, |trial| amount(trial) / 1e3)?,
        ))
    }

    /// The amount per request by which the case is below the reference.
    fn fewer(&self, trials: &Trials, name: &str, amount: impl Fn(&ProfileTrial) -> f64) -> Option<Interval> {
        let totals = |trial: &ProfileTrial| Totals::of(amount(trial), trial.requests_total as f64);
        // A saving is the reference's amount minus the case's.
        let pairs = self.trials.iter();
        let pairs = pairs.map(|(round, [case, reference])| (*round, [totals(reference), totals(case)]));
        let how = trials.resampling(&self.case.case, &format!("layer {name}"));
        Some(totals::difference(&grouped(pairs)?, how)?.interval(trials.confidence()))
    }

    /// The saving without an interval.
    fn point(&self, amount: impl Fn(&ProfileTrial) -> f64) -> f64 {
        let [case, reference] = [0, 1].map(|which| self.per_request(which, &amount));
        (reference - case) / 1e3
    }

    /// The amount per request, of the case (0) or the reference (1).
    fn per_request(&self, which: usize, amount: impl Fn(&ProfileTrial) -> f64) -> f64 {
        let all = || self.trials.iter().map(|(_, both)| both[which]);
        all().map(amount).sum::<f64>() / all().map(|trial| trial.requests_total as f64).sum::<f64>()
    }

    /// Sum over all compared roles.
    fn over_roles(&self, trial: &ProfileTrial, amount: impl Fn(&RoleProfile) -> f64) -> f64 {
        let roles = self.roles.iter().filter_map(|role| trial.profile.roles.get(*role));
        roles.map(amount).sum()
    }

    fn by_role(&self, amount: impl Fn(&RoleProfile) -> f64) -> IndexMap<String, f64> {
        let of = |role: &String| self.point(|trial| trial.profile.roles.get(role).map_or(0.0, &amount));
        self.roles.iter().map(|role| ((*role).clone(), of(role))).collect()
    }

    fn saving(&self, trials: &Trials, layer: &str) -> Option<LayerSaving> {
        let saved = self.saved(trials, layer, |trial| {
            self.over_roles(trial, |role| in_layer(role, layer))
        })?;
        Some(LayerSaving {
            functions: self.functions(layer, saved.interval.estimate),
            layer: layer.to_owned(),
            roles: self.by_role(|role| in_layer(role, layer)),
            saved,
        })
    }

    /// The functions of a layer that differ most, in the direction of the whole layer.
    fn functions(&self, layer: &str, saved: f64) -> Vec<String> {
        let mut functions: BTreeMap<&str, f64> = BTreeMap::new();
        let requests = [0, 1].map(|which| {
            self.trials
                .iter()
                .map(|(_, both)| both[which].requests_total as f64)
                .sum()
        });
        let requests: [f64; 2] = requests;
        for (trial, which) in self.trials.iter().flat_map(|(_, both)| both.iter().zip([0, 1])) {
            let roles = self.roles.iter().filter_map(|role| trial.profile.roles.get(*role));
            let of_layer = |stack: &&FoldedStack| stack.layer.as_deref().unwrap_or(NOT_ATTRIBUTED) == layer;
            let sign = if which == 0 { -1.0 } else { 1.0 };
            for stack in roles.flat_map(|role| &role.stacks).filter(of_layer) {
                let amount = sign * saved.signum() * stack.ns as f64 / requests[which];
                *functions.entry(telling(&stack.frames)).or_default() += amount;
            }
        }
        let mut functions: Vec<(&str, f64)> = functions.into_iter().filter(|(_, amount)| *amount > 0.0).collect();
        functions.sort_by(|one, other| other.1.total_cmp(&one.1));
        functions
            .into_iter()
            .take(FUNCTIONS)
            .map(|(name, _)| name.to_owned())
            .collect()
    }

    /// Events that differ.
    fn counts(&self) -> IndexMap<String, [f64; 2]> {
        let roles = self
            .trials
            .iter()
            .flat_map(|(_, both)| both)
            .flat_map(|trial| trial.profile.roles.values());
        let events: BTreeSet<&String> = roles.flat_map(|role| role.counts.keys()).collect();
        let of = |event: &String| {
            let amount = |trial: &ProfileTrial| self.over_roles(trial, |role| count(role, event));
            [0, 1].map(|which| self.per_request(which, amount))
        };
        let differ = |[case, reference]: &[f64; 2]| {
            let (least, share) = EVENTS;
            (case - reference).abs() > least.max(share * case.max(*reference))
        };
        let all = events.into_iter().map(|event| (event.clone(), of(event)));
        all.filter(|(_, both)| differ(both)).collect()
    }

    /// For each event, how many fewer the case has per request.
    fn fewer_events<'b>(
        &self,
        trials: &Trials,
        events: impl Iterator<Item = &'b String>,
    ) -> IndexMap<String, Measured> {
        let of = |event: &String| {
            let amount = |trial: &ProfileTrial| self.over_roles(trial, |role| count(role, event));
            Some((event.clone(), Measured::of("1", self.fewer(trials, event, amount)?)))
        };
        events.filter_map(of).collect()
    }
}

/// The function that tells most about a sample. Without non-maskable interrupts, samples end in functions that do no
/// work, so their caller is named.
fn telling(frames: &[String]) -> &str {
    let lands = |frame: &&String| {
        ["_raw_spin", "finish_task_switch", "__local_bh", "asm_", "sysvec_"]
            .iter()
            .any(|word| frame.starts_with(word))
    };
    let last = frames.last().map_or("", String::as_str);
    frames
        .iter()
        .rev()
        .find(|frame| !lands(frame))
        .map_or(last, String::as_str)
}

fn difference(trials: &Trials, plan: &CasePlan) -> Option<LayerDifference> {
    let reference = plan.reference.as_ref()?;
    if !cases::both_arrive(trials, &plan.case, reference) {
        return None;
    }
    let pairs = Pairs::of(trials, plan, reference, sampled_trials);
    let counted = Pairs::of(trials, plan, reference, counted_trials);
    let saved = pairs.saved(trials, "all", |trial| pairs.over_roles(trial, sampled))?;
    let all: Vec<LayerSaving> = pairs
        .layers()
        .into_iter()
        .filter_map(|layer| pairs.saving(trials, layer))
        .collect();
    let is_listed = |saving: &LayerSaving| {
        let interval = saving.saved.interval;
        !interval.contains(0.0) || interval.estimate.abs() >= LARGE * saved.interval.estimate.abs()
    };
    let (mut layers, others): (Vec<_>, Vec<_>) = all.into_iter().partition(is_listed);
    layers.sort_by(|one, other| {
        other
            .saved
            .interval
            .estimate
            .abs()
            .total_cmp(&one.saved.interval.estimate.abs())
    });
    let kernel = |trial: &ProfileTrial| trial.profile.roles.get(KERNEL).map_or(0.0, sampled);
    let counts = counted.counts();
    Some(LayerDifference {
        case: plan.case.clone(),
        reference: reference.clone(),
        roles: pairs.by_role(sampled),
        others_us: others.iter().map(|saving| saving.saved.interval.estimate).sum(),
        not_attributed: pairs.saving(trials, NOT_ATTRIBUTED)?,
        kernel: pairs
            .saved(trials, KERNEL, kernel)
            .filter(|saved| saved.interval.is_known()),
        events: counted.fewer_events(trials, counts.keys()),
        counts,
        layers,
        saved,
    })
}

#[cfg(test)]
mod tests;
