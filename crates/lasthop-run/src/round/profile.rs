//! Profile trials: trials under observation, after the measured trials of a round. They show where CPU time goes, and
//! are in no figure.
//!
//! They come last, so that no measured trial includes the observation or its effects (read symbols, a CPU's caches).
//! Every round has some, so that the intervals of layers include how starts of the servers differ.

use std::{fmt::Display, time::Duration};

use lasthop_model::{
    profile::DRIVER,
    record::{ProfileRecord, ProfileTrial},
};
use lasthop_profile::{Layers, Missing, Profiler, Settings};
use lasthop_protocol::wire::TrialPhases;
use lasthop_system::interrupt;
use lasthop_trial::TrialResult;

use super::{Ready, Round, turns::failure};
use crate::{
    Runner,
    driver_place::DriverPlace,
    event::Event,
    job::{RunError, nanoseconds},
    pause::Pause,
};

/// Events are counted once in this many rounds, because counts hardly vary.
const COUNTED: u32 = 4;
/// The shortest measure phase of a profile trial, in nanoseconds: a few hundred samples.
const LEAST_NS: u64 = 400_000_000;
/// The usual extra time of a profile trial: opening counters, reading symbols.
const BESIDE: Duration = Duration::from_millis(300);

/// What a profile trial records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sees {
    Samples,
    Counts,
}

impl Round {
    /// What the profile trials of each case record in this round, in turn. Counting would show in samples, so it has
    /// trials of its own.
    fn turns_of_profiles(&self) -> &'static [Sees] {
        let all = &[Sees::Samples, Sees::Counts];
        if self.number.is_multiple_of(COUNTED) {
            all
        } else {
            &all[..1]
        }
    }

    /// The usual duration of this round's profile trials.
    pub(super) fn profiling(&self, runner: &Runner<'_>) -> Duration {
        if runner.layers.is_none() {
            return Duration::ZERO;
        }
        let cases = (0..self.ready.len()).filter(|case| self.ready[*case].is_some());
        let once = cases.map(|case| {
            let phases = profile_phases(runner.phases(case));
            BESIDE + Duration::from_nanos(phases.warm_up_ns + phases.measure_ns)
        });
        once.sum::<Duration>() * self.turns_of_profiles().len() as u32
    }

    /// Runs the profile trials of a round.
    ///
    /// # Errors
    /// The record cannot be written. A failed observation is reported once, and fails nothing.
    pub fn profile(&mut self, runner: &mut Runner<'_>) -> Result<(), RunError> {
        // The first pair of blocks without measured trials.
        let first = self.planned + self.planned % 2;
        for (block, sees) in (first..).zip(self.turns_of_profiles()) {
            for case in runner.schedule.order(self.number, block) {
                if runner.is_cut_short() || runner.layers.is_none() {
                    return Ok(());
                }
                match self.profile_trial(runner, case, *sees) {
                    Ok(Some(trial)) => runner.append_profile(ProfileRecord::Profile(Box::new(trial)))?,
                    Ok(None) => {}
                    Err(missing) => runner.cannot_observe(&missing)?,
                }
            }
        }
        Ok(())
    }

    /// Runs a profile trial; `None` if the case has no result or a pause interrupted the trial.
    fn profile_trial(
        &mut self,
        runner: &mut Runner<'_>,
        case: usize,
        sees: Sees,
    ) -> Result<Option<ProfileTrial>, Missing> {
        let Some(Ready { driver, pid, .. }) = self.ready[case].clone() else {
            return Ok(None);
        };
        let Some(layers) = &runner.layers else {
            return Ok(None);
        };
        let settings = Settings {
            samples: sees == Sees::Samples,
            counts: sees == Sees::Counts,
            layers: layers.clone(),
        };
        if runner.meet(case).is_err() {
            return Ok(None);
        }
        let mut profiler = Profiler::open(&self.observed(runner, case, pid), settings)?;
        let plan = runner.case(case);
        let at = runner.elapsed();
        (runner.tell)(&Event::Profiling { case: &plan.case });
        let watch = Pause::watch();
        let phases = profile_phases(runner.phases(case));
        profiler.start()?;
        let said = self
            .drivers
            .get_mut(&driver)
            .map(|running| running.driver.trial(&plan.case, phases));
        let profile = profiler.stop()?;
        // After an interrupt, functions lack names and would have no layer.
        if interrupt::heard() {
            return Ok(None);
        }
        let result = said.and_then(Result::ok).filter(|result| failure(result).is_none());
        Ok(result
            .filter(|_| !watch.has_seen_one())
            .map(|result: TrialResult| ProfileTrial {
                round: self.number,
                case: plan.case.clone(),
                at_ns: nanoseconds(at),
                requests: result.requests,
                elapsed_ns: result.elapsed_ns,
                requests_total: result.requests_total.max(result.requests),
                cost: result.cost,
                profile,
            }))
    }

    /// The first processes of the driver and of each service of a case. A driver on another host is not observed.
    fn observed(&self, runner: &Runner<'_>, case: usize, driver: i32) -> Vec<(String, Vec<i32>)> {
        let stack = runner.case(case).stack;
        let mut roles: Vec<(String, Vec<i32>)> = Vec::new();
        if !runner.driver_place.as_ref().is_some_and(DriverPlace::is_stranger_here) {
            roles.push((DRIVER.to_owned(), vec![driver]));
        }
        for role in self
            .roles(runner.job.plan)
            .into_iter()
            .filter(|role| role.stack == stack)
        {
            match roles.iter_mut().find(|(name, _)| *name == role.name) {
                Some((_, pids)) => pids.push(role.pid),
                None => roles.push((role.name, vec![role.pid])),
            }
        }
        roles
    }
}

fn profile_phases(phases: TrialPhases) -> TrialPhases {
    TrialPhases {
        measure_ns: phases.measure_ns.max(LEAST_NS),
        ..phases
    }
}

impl Runner<'_> {
    /// Begins to observe, if the run is to be explained and the system allows it.
    pub fn begin_to_observe(&mut self) -> Result<(), RunError> {
        let Some(explain) = &self.job.settings.explain else {
            return Ok(());
        };
        let layers = match Layers::with("--layers", &explain.layers) {
            Ok(layers) => layers,
            // The record was changed: a user who typed these layers was told earlier.
            Err(mistake) => return self.cannot_observe(&mistake),
        };
        if let Err(missing) = Profiler::available() {
            return self.cannot_observe(&missing);
        }
        if self.data.profiles.is_empty() {
            let titles = layers.all().iter().map(|layer| (layer.id.clone(), layer.title.clone()));
            self.append_profile(ProfileRecord::Layers(titles.collect()))?;
        }
        self.layers = Some(layers);
        Ok(())
    }

    /// Stops observing, and reports why.
    fn cannot_observe(&mut self, missing: &impl Display) -> Result<(), RunError> {
        self.layers = None;
        let why = format!("there are no layers in this run: {missing}");
        (self.tell)(&Event::NotObserved { why: &why });
        self.append_profile(ProfileRecord::Missing(why))
    }
}
