//! lasthop: how two processes on one machine should talk.
//!
//! The stages of a run, in order:
//!
//! | stage | in | yields |
//! |---|---|---|
//! | plan | [`lasthop_plan`] | a valid [`lasthop_plan::model::Experiment`], its cases and schedule |
//! | start | [`lasthop_stack`] | running servers, started by a guard |
//! | drive | [`lasthop_load`] | one [`lasthop_protocol::TrialResult`] per trial |
//! | observe | [`lasthop_observe`] | CPU, switches, run delay, steal per trial; the environment per run |
//! | keep | [`lasthop_results::record`] | a directory; every report is made from it |
//! | analyse | [`lasthop_results::analyse`] | estimates, comparisons, checks, verdicts |
//! | report | [`lasthop_results::report`] | bytes |
//!
//! [`run`] leads from plan to record. [`load`] drives a single endpoint without the other stages. Nothing here prints.

pub mod compare;
pub mod load;
pub mod run;
