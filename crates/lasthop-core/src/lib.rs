//! lasthop: how two processes on one machine should talk.
//!
//! The modules are the stages of a run, in order:
//!
//! | stage | module | yields |
//! |---|---|---|
//! | plan | [`experiment`] | a valid [`experiment::model::Experiment`], its cases and schedule |
//! | start | [`service`] | running servers, started by a guard |
//! | drive | `lasthop_load` | one result per trial |
//! | observe | [`observe`] | CPU, switches, run delay, steal per trial; the environment per run |
//! | keep | [`record`] | a directory; every report is made from it |
//! | analyse | [`analyse`] | estimates, comparisons, checks, verdicts |
//! | report | [`report`] | bytes |
//!
//! [`run`] leads from plan to record. [`load`] drives a single endpoint without the other stages. Nothing here prints.

pub mod analyse;
pub mod doctor;
pub mod experiment;
pub mod export;
pub mod load;
pub mod observe;
pub mod record;
pub mod report;
pub mod run;
pub mod service;
pub mod system;
pub mod text;
