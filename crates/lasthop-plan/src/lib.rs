//! PLAN: turns the files of an experiment into cases and a schedule.
//!
//! | module | holds |
//! |---|---|
//! | `written` | values that may be written in more than one way |
//! | [`schema`] | their JSON schemas, made from the types of `model` |
//! | `templated` | schemas of tables whose values may be templates |
//! | [`document`], [`diagnostics`] | reading a file into its type so that every error has its place |
//! | `files` | folders as they were read |
//! | `validate` | checks what was read |
//! | [`model`] | the types of experiments and recipes |
//! | [`catalog`] | finds and loads experiments and recipes |
//! | [`cases`] | the selected levels, and the cases that follow from them |
//! | `template`, [`render`] | renders services and load |
//! | [`pace`] | closed loop, or open loop at a rate |
//! | [`plan`] | cases, and the stacks that they run on |
//! | `fingerprint` | what differs between two cases besides the transport |
//! | [`settings`] | the settings of a run, from the experiment's defaults and what the run changes |
//! | [`digest`] | digests by which a resumed run checks that nothing has changed |
//! | [`given`] | the plan of endpoints that are there already |
//! | `derive` | the cases that derived quantities follow from |
//! | [`schedule`] | the order of the cases in each block |

pub mod cases;
pub mod catalog;
mod derive;
pub mod diagnostics;
pub mod digest;
pub mod document;
mod files;
mod fingerprint;
pub mod given;
pub mod model;
pub mod pace;
pub mod plan;
pub mod render;
pub mod schedule;
pub mod schema;
pub mod settings;
pub mod template;
mod templated;
mod validate;
mod written;
