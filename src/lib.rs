//! lasthop: how two processes on one machine should talk.
//!
//! The modules are the stages of a run, in order:
//!
//! | stage | module | yields |
//! |---|---|---|
//! | plan | [`experiment`] | a valid [`experiment::model::Experiment`], its cases and schedule |
//! | start | [`service`] | running servers behind guards |
//! | drive | `lasthop_load` | one result a trial |
//! | observe | [`observe`] | CPU, switches, run delay, steal per trial; the environment per run |
//! | keep | [`record`] | a directory that every report is made from |
//! | analyse | [`analyse`] | estimates, comparisons, checks, verdicts |
//! | report | [`report`] | bytes |
//!
//! [`run`] ties plan to record; [`load`] drives a single endpoint, without the others; [`cli`] parses, dispatches and is the only module that prints.

pub mod analyse;
pub mod cli;
pub mod experiment;
pub mod export;
pub mod load;
pub mod observe;
pub mod record;
pub mod report;
pub mod repro;
pub mod run;
pub mod service;
pub mod study;
pub mod tool;
