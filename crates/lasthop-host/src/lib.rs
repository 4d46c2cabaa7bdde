//! What a run does to the machine: [`service`] starts the servers of an experiment and ends them, [`observe`] watches
//! what they cost, [`doctor`] says what is missing.
//!
//! The guard of [`service`] starts everything, so that nothing outlives a run.

pub mod doctor;
pub mod observe;
pub mod service;
