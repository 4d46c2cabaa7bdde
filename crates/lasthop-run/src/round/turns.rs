//! The trials of a round, one after the other.
//!
//! Between two trials of one stack, one snapshot of processes and counters ends the first and begins the second.
//! Between trials of two stacks, each stack gets a snapshot. The driver's report of a trial is read and written while
//! the next one warms up.

use std::{
    rc::Rc,
    time::{Duration, Instant},
};

use lasthop_model::{
    quantity::written,
    record::{MeasuredTrial, Stage, Stopped, TrialRecord},
};
use lasthop_observe::observer::Snapshot;
use lasthop_protocol::wire::TrialPhases;
use lasthop_trial::TrialResult;

use super::{Ready, Round, Trouble};
use crate::{
    Runner,
    driver::{Answer, DriverError, Pending},
    driver_place::DriverPlace,
    event::Event,
    job::{RunError, nanoseconds},
    pause::Pause,
};

/// A trial's place in the round.
#[derive(Clone, Copy)]
struct Turn {
    block: u32,
    position: u32,
    /// Index of the case.
    case: usize,
    /// The lengths of the trial, if they differ from the settings.
    phases: Option<TrialPhases>,
}

/// A trial that the driver was asked for and has yet to report.
struct TrialRequest {
    turn: Turn,
    driver: String,
    at: Duration,
    watch: Pause,
    before: Rc<Snapshot>,
    pending: Result<Pending, DriverError>,
}

/// A trial that has ended.
struct TrialReply {
    turn: Turn,
    driver: String,
    at: Duration,
    /// Whether a pause interrupted the trial.
    paused: bool,
    before: Rc<Snapshot>,
    after: Rc<Snapshot>,
}

/// The driver's report of a trial, not yet parsed.
type TrialAnswer = Result<Answer, DriverError>;

/// Why a trial has no result.
enum Unusable {
    Driver(DriverError),
    /// Too few correct replies.
    Replies(String, Box<TrialResult>),
}

fn read(answer: TrialAnswer) -> Result<TrialResult, Unusable> {
    let result = answer.and_then(Answer::read).map_err(Unusable::Driver)?;
    match failure(&result) {
        None => Ok(result),
        Some(cause) => Err(Unusable::Replies(cause, Box::new(result))),
    }
}

impl Round {
    /// Drives blocks until the round is over; `Some` if the whole run must end. Also returns how long that took.
    pub fn blocks(&mut self, runner: &mut Runner<'_>) -> (Result<Option<Stopped>, RunError>, Duration) {
        let begun = Instant::now();
        let mut last = None;
        let stopped = self.turns(runner, &mut last);
        let took = begun.elapsed();
        let written = last.map_or(Ok(()), |(reply, answer)| self.settle(runner, reply, read(answer)));
        (written.and(stopped), took)
    }

    /// Runs the trials of all blocks in turn. `last` is the trial that is not yet written.
    fn turns(
        &mut self,
        runner: &mut Runner<'_>,
        last: &mut Option<(TrialReply, TrialAnswer)>,
    ) -> Result<Option<Stopped>, RunError> {
        // A start that was cut short has planned no blocks.
        if runner.is_cut_short() {
            return Ok(Some(Stopped::Interrupted));
        }
        let mut longest = Duration::ZERO;
        let mut block = 0;
        while block < self.planned {
            let begun = Instant::now();
            for (position, case) in (0..).zip(runner.schedule.order(self.number, block)) {
                if runner.is_cut_short() {
                    return Ok(Some(Stopped::Interrupted));
                }
                self.turn(
                    runner,
                    last,
                    Turn {
                        block,
                        position,
                        case,
                        phases: runner.lengths.unusual(case),
                    },
                )?;
            }
            block += 1;
            longest = longest.max(begun.elapsed());
            runner.pace.block(begun.elapsed());
            if self.lengthen(runner) {
                // The blocks so far had shorter trials.
                longest = self.block_length(runner);
                self.planned = block + self.blocks_to_come(runner);
            }
            if runner.job.whole_round && self.number == 0 {
                continue;
            }
            if runner.compares_nothing(|case| self.ready[case].is_some()) {
                break;
            }
            if !runner.time_for(longest + self.profiling(runner)) {
                return Ok((block < self.planned).then_some(Stopped::Budget));
            }
        }
        Ok(None)
    }

    /// Runs a trial, and writes the previous one meanwhile. A failed one is examined afterwards, because that may take
    /// long.
    fn turn(
        &mut self,
        runner: &mut Runner<'_>,
        last: &mut Option<(TrialReply, TrialAnswer)>,
        turn: Turn,
    ) -> Result<(), RunError> {
        let Some(request) = self.begin(runner, last.as_ref(), turn)? else {
            return Ok(());
        };
        let case = &runner.case(turn.case).case;
        (runner.tell)(&Event::Trial {
            case,
            elapsed: request.at,
        });
        let mut failed = None;
        if let Some((reply, answer)) = last.take() {
            match read(answer) {
                Ok(result) => self.settle(runner, reply, Ok(result))?,
                Err(why) => failed = Some((reply, why)),
            }
        }
        let (reply, answer) = self.end(runner, request);
        if let Some((failed, why)) = failed {
            self.settle(runner, failed, Err(why))?;
        }
        // Only if the reply looks like a result may the next trial begin before it is examined.
        if answer.as_ref().is_ok_and(Answer::is_result) {
            *last = Some((reply, answer));
            return Ok(());
        }
        self.settle(runner, reply, read(answer))
    }

    /// Asks for a trial of a case that works.
    fn begin(
        &mut self,
        runner: &mut Runner<'_>,
        last: Option<&(TrialReply, TrialAnswer)>,
        turn: Turn,
    ) -> Result<Option<TrialRequest>, RunError> {
        let case = runner.case(turn.case);
        let Some(Ready { driver, pid, .. }) = self.ready[turn.case].clone() else {
            return Ok(None);
        };
        let Some(running) = self
            .drivers
            .get_mut(&driver)
            .filter(|running| running.process.pid == pid)
        else {
            // The driver ended during another case, whose row has the reason.
            let trouble = Trouble::at(Stage::Trial, DriverError::Ended);
            self.give_up(runner, turn.case, turn.block, trouble)?;
            return Ok(None);
        };
        let changed = match runner.meet(turn.case) {
            Ok(changed) => changed,
            Err(cause) => {
                self.give_up(runner, turn.case, turn.block, Trouble::at(Stage::Trial, cause))?;
                return Ok(None);
            }
        };
        let is_same = |last: &TrialReply| !changed && runner.case(last.turn.case).stack == case.stack;
        let before = match last.filter(|(last, _)| is_same(last)) {
            Some((last, _)) => Rc::clone(&last.after),
            None => Rc::new(self.observer.snapshot(case.stack)),
        };
        let at = runner.elapsed();
        let watch = Pause::watch();
        let pending = running.driver.begin(&case.case, runner.phases(turn.case));
        Ok(Some(TrialRequest {
            turn,
            driver,
            at,
            watch,
            before,
            pending,
        }))
    }

    /// Waits for the end of a trial.
    fn end(&mut self, runner: &Runner<'_>, request: TrialRequest) -> (TrialReply, TrialAnswer) {
        let answer = request
            .pending
            .and_then(|pending| match self.drivers.get_mut(&request.driver) {
                Some(running) => running.driver.end(&pending),
                None => Err(DriverError::Ended),
            });
        let reply = TrialReply {
            turn: request.turn,
            driver: request.driver,
            at: request.at,
            after: Rc::new(self.observer.snapshot(runner.case(request.turn.case).stack)),
            paused: request.watch.has_seen_one(),
            before: request.before,
        };
        (reply, answer)
    }

    /// Writes a trial, or why it failed.
    fn settle(
        &mut self,
        runner: &mut Runner<'_>,
        reply: TrialReply,
        outcome: Result<TrialResult, Unusable>,
    ) -> Result<(), RunError> {
        let turn = reply.turn;
        let case = runner.case(turn.case);
        let result = match outcome {
            Ok(result) => match self.alive(case) {
                Ok(()) => Ok(result),
                Err(trouble) => Err(trouble.after(Box::new(result))),
            },
            Err(Unusable::Replies(cause, result)) => Err(self.examine(case, Stage::Trial, cause).after(result)),
            Err(Unusable::Driver(error)) => Err(self.examine_driver(runner, &reply.driver, case, &error)),
        };
        match result {
            Ok(_) if reply.paused => {
                (runner.tell)(&Event::Paused { case: &case.case });
                Ok(())
            }
            Ok(result) => {
                let mut observations = self.observer.between(&reply.before, &reply.after, case.stack);
                if runner.driver_place.as_ref().is_some_and(DriverPlace::is_stranger_here) {
                    // The driver descends from sshd, but is not foreign load.
                    let machine = &mut observations.machine;
                    machine.foreign_ns -= result.cost.cpu_ns().cast_signed();
                    machine.others_ns = machine.others_ns.saturating_sub(result.cost.cpu_ns());
                }
                let trial = MeasuredTrial {
                    round: self.number,
                    block: turn.block,
                    position: turn.position,
                    case: case.case.clone(),
                    at_ns: nanoseconds(reply.at),
                    phases: turn.phases,
                    result,
                    observations,
                };
                runner.lengths.see(turn.case, &trial);
                runner.append(TrialRecord::Trial(Box::new(trial)))
            }
            Err(trouble) => self.give_up(runner, turn.case, turn.block, trouble),
        }
    }

    /// Writes why a trial failed, and ends the case for this round.
    pub(super) fn give_up(
        &mut self,
        runner: &mut Runner<'_>,
        case: usize,
        block: u32,
        trouble: Trouble,
    ) -> Result<(), RunError> {
        // The case may have failed before, while its next trial was in progress.
        if runner.was_cut_off() || self.ready[case].take().is_none() {
            return Ok(());
        }
        runner.fail(trouble.into_failure(self.number, Some(block), runner.case(case)))
    }
}

/// Why a trial has no result: no correct reply, or at least one error for ten correct replies.
pub(super) fn failure(result: &TrialResult) -> Option<String> {
    let errors = result.error_total();
    if result.requests > 0 && errors * 10 < result.requests_total {
        return None;
    }
    let Some(first) = result.errors.values().next().map(|error| &error.first) else {
        let time = written(Duration::from_millis(result.elapsed_ns / 1_000_000));
        return Some(format!(
            "no reply came within the {time} of the trial: longer trials (--trial) may have some"
        ));
    };
    Some(format!(
        "{errors} errors and {} correct replies; the first error: {first}",
        result.requests_total
    ))
}

#[cfg(test)]
mod tests {
    use lasthop_trial::{
        options::Engine,
        result::{ErrorClass, ErrorCount},
    };

    use super::*;

    #[test]
    fn a_failed_trial_keeps_what_it_counted() {
        let errors = |count| {
            let first = "status 502".to_owned();
            let errors = ErrorCount {
                count,
                first,
                ..ErrorCount::default()
            };
            [(ErrorClass::WrongStatus, errors)].into()
        };
        let result = |count| TrialResult {
            requests: 900,
            requests_total: 1_000,
            errors: errors(count),
            ..TrialResult::empty(Engine::Blocking, 50_000_000)
        };
        assert_eq!(failure(&result(99)), None);
        let cause = failure(&result(100)).unwrap();
        assert_eq!(
            cause,
            "100 errors and 1000 correct replies; the first error: status 502"
        );
        let trouble = Trouble::at(Stage::Trial, cause).after(Box::new(result(100)));
        let kept = trouble.result.unwrap();
        assert_eq!((kept.requests_total, kept.errors), (1_000, errors(100)));
    }
}
