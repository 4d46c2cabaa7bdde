//! A round of a run with overload: the capacity of every case in a closed loop, then each load once, in random order,
//! on compared cases right after each other.
//!
//! Loads are multiples of the capacity in the first round, the lowest of the compared cases, so that all are offered
//! the same in every round.

use std::{
    fs::File,
    io::{BufRead as _, BufReader, Read, Seek, SeekFrom},
    time::{Duration, Instant},
};

use indexmap::IndexMap;
use lasthop_model::record::{CasePlan, OverloadSettings, OverloadTrial, Settings, Stopped, TrialRecord, USUAL_LOAD};
use lasthop_plan::schedule;
use lasthop_protocol::wire::TrialPhases;
use lasthop_record::RunData;
use lasthop_stats::random::{Draws, seed_for};
use lasthop_system::files;
use lasthop_trial::{TrialResult, options::LoadStage};

use super::{
    Ready, Round,
    capacity::{CAPACITY_CONNECTIONS, closed_name, with_connections},
};
use crate::{
    Runner,
    driver::DriverError,
    event::Event,
    job::{RunError, nanoseconds},
    pause::Pause,
};

/// Capacity trials per case in a round. The highest result counts, because disturbances lower it.
const CAPACITY_TRIALS: usize = 2;
/// Warm-up of a capacity trial, in nanoseconds.
const CAPACITY_WARM_UP: u64 = 500_000_000;
/// Length of the slots of usual load that show the recovery, in nanoseconds.
const SLOT_NS: u64 = 100_000_000;
/// The most bytes read from a log after each load.
const MOST_OF_A_LOG: u64 = 256 << 20;

/// The load offered to a case.
#[derive(Clone, Copy)]
enum Offer {
    Capacity,
    Load { times: f64, capacity: f64 },
}

impl Offer {
    fn times(self) -> Option<f64> {
        match self {
            Self::Capacity => None,
            Self::Load { times, .. } => Some(times),
        }
    }
}

/// The usual load, the given one, and the usual one again if the given one exceeds the capacity.
fn stages(settings: &Settings, overload: &OverloadSettings, times: f64, capacity: f64) -> Vec<LoadStage> {
    let usual = |length_ns| LoadStage {
        rate: capacity * USUAL_LOAD,
        length_ns,
        fill_ns: 0,
        slot_ns: SLOT_NS,
    };
    let fill_ns = settings.warm_up_ns;
    let rate = capacity * times;
    let load = LoadStage {
        rate,
        length_ns: fill_ns + settings.trial_ns,
        fill_ns,
        slot_ns: 0,
    };
    let mut stages = vec![usual(overload.before_ns), load];
    if times > 1.0 {
        stages.push(usual(overload.after_ns));
    }
    stages
}

/// Capacity by index of the case, in correct replies per second: the lowest of the compared cases in the first round
/// that measured theirs.
fn capacities(data: &RunData, cases: &[CasePlan]) -> Vec<Option<f64>> {
    let mut found = vec![None; cases.len()];
    let measured: Vec<&OverloadTrial> = data.overloads().filter(|trial| trial.times.is_none()).collect();
    for group in schedule::groups(cases) {
        let Some(round) = measured
            .iter()
            .filter(|trial| group.iter().any(|case| cases[*case].case == trial.case))
            .map(|trial| trial.round)
            .min()
        else {
            continue;
        };
        let highest = |case: &usize| {
            measured
                .iter()
                .filter(|trial| trial.round == round && trial.case == cases[*case].case)
                .map(|trial| trial.result.throughput())
                .max_by(f64::total_cmp)
        };
        let lowest = group.iter().filter_map(highest).min_by(f64::total_cmp);
        group
            .iter()
            .for_each(|case| found[*case] = lowest.filter(|rate| *rate > 0.0));
    }
    found
}

impl Round {
    /// Like [`Round::blocks`], with overload.
    pub fn overload(&mut self, runner: &mut Runner<'_>) -> (Result<Option<Stopped>, RunError>, Duration) {
        let begun = Instant::now();
        let settings = runner.job.settings.overload.clone().expect("asked for");
        (self.loads(runner, &settings), begun.elapsed())
    }

    fn loads(&mut self, runner: &mut Runner<'_>, settings: &OverloadSettings) -> Result<Option<Stopped>, RunError> {
        if runner.is_cut_short() {
            return Ok(Some(Stopped::Interrupted));
        }
        let mut longest = Duration::ZERO;
        let mut order = settings.times.clone();
        Draws::new(seed_for(runner.job.settings.seed, &["loads", &self.number.to_string()])).shuffle(&mut order);
        // The capacity first, because the loads are multiples of it.
        let offers = [None; CAPACITY_TRIALS].into_iter().chain(order.into_iter().map(Some));
        for (block, times) in (0..).zip(offers) {
            let begun = Instant::now();
            let capacities = capacities(&runner.data, &runner.job.plan.cases);
            for case in runner.schedule.order(self.number, block) {
                if runner.is_cut_short() {
                    return Ok(Some(Stopped::Interrupted));
                }
                let offer = times.map_or(Some(Offer::Capacity), |times| {
                    Some(Offer::Load {
                        times,
                        capacity: capacities[case]?,
                    })
                });
                if let Some(offer) = offer {
                    self.offer(runner, block, case, offer)?;
                }
            }
            longest = longest.max(begun.elapsed());
            if !runner.time_for(longest) {
                return Ok((block + 1 < self.planned + CAPACITY_TRIALS as u32).then_some(Stopped::Budget));
            }
        }
        Ok(None)
    }

    /// Runs a trial and writes it.
    fn offer(&mut self, runner: &mut Runner<'_>, block: u32, index: usize, offer: Offer) -> Result<(), RunError> {
        let case = runner.case(index);
        let Some(ready) = self.ready[index].clone() else {
            return Ok(());
        };
        let at = runner.elapsed();
        (runner.tell)(&Event::Trial {
            case: &case.case,
            elapsed: at,
        });
        let watch = Pause::watch();
        let logs = self.logs(runner, case);
        let before = self.observer.snapshot(case.stack);
        let answered = self.drive(runner, &ready, case, offer);
        let after = self.observer.snapshot(case.stack);
        let result = match answered {
            Ok(result) => self.alive(case).map(|()| result),
            Err(error) => Err(self.examine_driver(runner, &ready.driver, case, &error)),
        };
        match result {
            Ok(_) if watch.has_seen_one() => (runner.tell)(&Event::Paused { case: &case.case }),
            Ok(result) => {
                let observations = self.observer.between(&before, &after, case.stack);
                let trial = OverloadTrial {
                    round: self.number,
                    case: case.case.clone(),
                    at_ns: nanoseconds(at),
                    times: offer.times(),
                    result,
                    observations,
                    logged: counted(&logs),
                };
                runner.append(TrialRecord::Overload(Box::new(trial)))?;
            }
            Err(trouble) => self.give_up(runner, index, block, trouble)?,
        }
        Ok(())
    }

    fn drive(
        &mut self,
        runner: &Runner<'_>,
        ready: &Ready,
        case: &CasePlan,
        offer: Offer,
    ) -> Result<TrialResult, DriverError> {
        let settings = &runner.job.settings;
        let running = self.drivers.get_mut(&ready.driver).ok_or(DriverError::Ended)?;
        if let (Offer::Load { times, capacity }, Some(overload)) = (offer, &settings.overload) {
            let asked = running
                .driver
                .begin_stages(&case.case, stages(settings, overload, times, capacity))?;
            return running.driver.end(&asked)?.read();
        }
        let name = closed_name(&case.case);
        let place = runner.driver_place.as_ref();
        let phases = TrialPhases {
            warm_up_ns: CAPACITY_WARM_UP,
            measure_ns: settings.trial_ns,
        };
        let mut last = Err(DriverError::Ended);
        for connections in CAPACITY_CONNECTIONS {
            running.prepare(place, &name, &with_connections(&ready.spec, connections))?;
            last = running.driver.trial(&name, phases);
            if last.as_ref().is_ok_and(|result| result.errors.is_empty()) {
                break;
            }
        }
        last
    }

    /// The logs whose lines are counted, from their present end on.
    fn logs(&self, runner: &Runner<'_>, case: &CasePlan) -> Vec<Watched> {
        let wanted = &runner.job.plan.experiment.overload.log;
        let Some(up) = &self.stacks[case.stack] else {
            return Vec::new();
        };
        let watched = wanted.iter().filter_map(|(service, texts)| {
            let mut file = files::log(&up.stack.instance(service)?.log).ok()?;
            file.seek(SeekFrom::End(0)).ok()?;
            Some(Watched {
                file,
                texts: texts.clone(),
            })
        });
        watched.collect()
    }
}

/// An open log, and by meaning the texts whose lines are counted.
struct Watched {
    file: File,
    texts: IndexMap<String, String>,
}

fn counted(logs: &[Watched]) -> IndexMap<String, u64> {
    let mut all = IndexMap::new();
    for Watched { file, texts } in logs {
        for meaning in texts.keys() {
            all.entry(meaning.clone()).or_insert(0);
        }
        // A server may write faster than this reads. Unreadable lines do not count.
        for line in BufReader::new(file.take(MOST_OF_A_LOG))
            .split(b'\n')
            .map_while(Result::ok)
        {
            let line = String::from_utf8_lossy(&line);
            for (meaning, part) in texts {
                all[meaning] += u64::from(line.contains(part));
            }
        }
    }
    all
}
