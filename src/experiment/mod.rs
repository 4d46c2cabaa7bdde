//! PLAN: from the files of an experiment to cases and a schedule.

pub mod model;
