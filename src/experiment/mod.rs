//! PLAN: from the files of an experiment to cases and a schedule.
//!
//! | module | holds |
//! |---|---|
//! | `definition` | the files as written |
//! | [`schema`] | their JSON schemas, made from `definition` |
//! | `document`, [`diagnostics`] | reading a file so that every error has its place |
//! | `validate` | from written to valid |
//! | [`model`] | the valid types |
//! | [`catalog`] | which experiments and recipes there are |
//! | [`cases`] | which levels are chosen, and the cases that they make |
//! | `template`, [`render`] | services and load with everything filled in |
//! | [`pace`] | closed loop, or open at which rate |
//! | [`plan`] | cases, the stacks that they run on, and what differs beside the transport |
//! | [`digest`] | how a run that goes on later knows that nothing was changed |
//! | `derive` | from which cases further quantities follow |
//! | [`schedule`] | the order of the cases in each block |

pub mod cases;
pub mod catalog;
pub mod container;
mod definition;
mod derive;
pub mod diagnostics;
pub mod digest;
pub(crate) mod document;
pub mod model;
pub mod pace;
pub mod plan;
pub mod quantity;
pub mod render;
pub mod schedule;
pub mod schema;
pub mod template;
mod validate;
