//! Every trial, for tools with their own statistics.

use lasthop_model::record::MeasuredTrial;
use lasthop_record::data::RunData;

use super::trials::Trials;

/// All trials of a record that have replies, case by case, in order.
#[must_use]
pub fn rows(data: &RunData) -> Vec<&MeasuredTrial> {
    let trials = Trials::new(data);
    let cases = trials.cases().iter();
    cases.flat_map(|plan| trials.of_case(&plan.case)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn every_trial_with_an_answer_is_a_row_in_the_order_of_cases() {
        let mut data = testing::healthy();
        let mut lost = 0;
        testing::each_trial(&mut data, "tcp", |trial| {
            if trial.block == 1 {
                trial.result.requests = 0;
                lost += 1;
            }
        });
        let rows = rows(&data);
        assert_eq!(rows.len() + lost, data.trials().count());
        let is_row = |trial: &MeasuredTrial| rows.iter().any(|row| std::ptr::eq(*row, trial));
        assert!(data.trials().all(|trial| is_row(trial) == (trial.result.requests > 0)));
        let places = rows.iter().map(|row| {
            let case = data.header.cases.iter().position(|plan| plan.case == row.case);
            (case, row.round, row.block)
        });
        assert!(places.is_sorted());
    }
}
