//! Counts the outcomes of requests of a load in stages.

use std::collections::BTreeMap;

use lasthop_trial::{
    failure::Failure,
    histogram::Histogram,
    options::LoadStage,
    result::{Slot, StageResult, Wrong, WrongKind},
};

/// Counts the outcomes of one worker's requests.
#[derive(Debug, Default)]
pub struct StageRecorder {
    /// Stages with the times when they begin.
    stages: Vec<(u64, LoadStage)>,
    results: Vec<StageResult>,
    wrong: Vec<BTreeMap<WrongKind, Wrong>>,
}

impl StageRecorder {
    pub fn start(begin: u64, stages: &[LoadStage]) -> Self {
        let mut at = begin;
        let empty = |stage: &LoadStage| StageResult {
            rate: stage.rate,
            counted_ns: stage.length_ns.saturating_sub(stage.fill_ns),
            slots: vec![Slot::default(); stage.length_ns.checked_div(stage.slot_ns).unwrap_or(0) as usize],
            ..StageResult::default()
        };
        Self {
            stages: stages
                .iter()
                .map(|stage| {
                    let begins = at;
                    at += stage.length_ns;
                    (begins, *stage)
                })
                .collect(),
            results: stages.iter().map(empty).collect(),
            wrong: stages.iter().map(|_| BTreeMap::new()).collect(),
        }
    }

    /// The stage that counts an event at `now`.
    fn counting(&self, now: u64) -> Option<usize> {
        self.stages
            .iter()
            .position(|(begins, stage)| (begins + stage.fill_ns..begins + stage.length_ns).contains(&now))
    }

    fn slot(&mut self, due: u64) -> Option<&mut Slot> {
        let at = self
            .stages
            .iter()
            .position(|(begins, stage): &(u64, LoadStage)| (*begins..begins + stage.length_ns).contains(&due))?;
        let (begins, stage) = self.stages[at];
        self.results[at]
            .slots
            .get_mut((due - begins).checked_div(stage.slot_ns)? as usize)
    }

    pub fn due(&mut self, due: u64, sent: bool) {
        if let Some(slot) = self.slot(due) {
            slot.due += 1;
        }
        if let Some(stage) = self.counting(due).map(|at| &mut self.results[at]) {
            stage.due += 1;
            stage.not_sent += u64::from(!sent);
        }
    }

    pub fn right(&mut self, due: u64, now: u64) {
        // A slot shows the outcomes of the requests due in it; a stage counts the replies that arrived in it, its
        // goodput.
        let took = now.saturating_sub(due);
        if let Some(slot) = self.slot(due) {
            slot.right.record(took);
        }
        if let Some(stage) = self.counting(now).map(|at| &mut self.results[at]) {
            stage.right += 1;
            stage.times.record(took);
        }
    }

    pub fn wrong(&mut self, due: u64, now: u64, failure: &Failure, count: u64) {
        let Some(at) = self.counting(now) else { return };
        let class = failure.class;
        let status = failure.status;
        let wrong = self.wrong[at].entry((class, status)).or_insert_with(|| Wrong {
            class,
            status,
            count: 0,
            first: failure.message.clone(),
            times: Histogram::new(),
        });
        wrong.count += count;
        wrong.times.record_n(now.saturating_sub(due), count);
    }

    pub fn finish(self) -> Vec<StageResult> {
        let all = self.results.into_iter().zip(self.wrong);
        all.map(|(result, wrong)| StageResult {
            wrong: wrong.into_values().collect(),
            ..result
        })
        .collect()
    }
}

/// Adds the counts of another worker in the same stages.
pub fn merge(into: &mut Vec<StageResult>, other: Vec<StageResult>) {
    if into.is_empty() {
        *into = other;
        return;
    }
    for (own, other) in into.iter_mut().zip(other) {
        own.due += other.due;
        own.not_sent += other.not_sent;
        own.right += other.right;
        own.times.merge(&other.times);
        own.slots
            .iter_mut()
            .zip(&other.slots)
            .for_each(|(own, other)| own.add(other));
        other.wrong.into_iter().for_each(|wrong| own.add_wrong(wrong));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAGES: [LoadStage; 2] = [
        LoadStage {
            rate: 10.0,
            length_ns: 1000,
            fill_ns: 400,
            slot_ns: 0,
        },
        LoadStage {
            rate: 5.0,
            length_ns: 1000,
            fill_ns: 0,
            slot_ns: 500,
        },
    ];

    fn bad_gateway() -> Failure {
        Failure {
            status: Some(502),
            ..Failure::refused("status 502")
        }
    }

    #[test]
    fn what_happens_counts_when_it_happens() {
        let mut recorder = StageRecorder::start(100, &STAGES);
        // Due while queues fill, while counted, and after the end of both stages.
        for due in [200, 600, 700, 2200] {
            recorder.due(due, due != 700);
        }
        recorder.right(200, 600);
        recorder.wrong(600, 650, &bad_gateway(), 1);
        recorder.wrong(600, 660, &bad_gateway(), 1);
        recorder.wrong(600, 2600, &bad_gateway(), 1);
        // Due in one stage and answered in the next: the slot is in the first stage.
        recorder.right(1000, 1200);
        recorder.due(1700, true);
        recorder.right(1700, 3000);
        let [over, after] = &recorder.finish()[..] else {
            panic!()
        };
        assert_eq!((over.counted_ns, over.due, over.not_sent, over.right), (600, 2, 1, 1));
        assert_eq!(
            (over.wrong[0].count, over.wrong[0].status, over.wrong[0].times.max()),
            (2, Some(502), 60)
        );
        assert_eq!((after.right, after.due, after.wrong.len()), (1, 1, 0));
        let slots: Vec<_> = after.slots.iter().map(|slot| (slot.due, slot.right.count())).collect();
        assert_eq!(slots, [(0, 0), (1, 1)]);
    }

    #[test]
    fn workers_add_up() {
        let one = || {
            let mut recorder = StageRecorder::start(0, &STAGES);
            recorder.due(500, true);
            recorder.wrong(500, 510, &bad_gateway(), 1);
            recorder.due(600, true);
            recorder.finish()
        };
        let mut all = Vec::new();
        (0..3).for_each(|_| merge(&mut all, one()));
        assert_eq!(
            (
                all[0].due,
                all[0].wrong.len(),
                all[0].wrong[0].count,
                all[0].unanswered()
            ),
            (6, 1, 3, 3)
        );
    }
}
