//! PLAN: turns the files of an experiment into cases and a schedule.
//!
//! | module | holds |
//! |---|---|
//! | `written` | values that can be written in several ways |
//! | [`schema`] | JSON schemas of the files, generated from the types of `model` |
//! | `templated` | schemas of tables whose values may be templates |
//! | [`document`], [`diagnostics`] | reading a file into a type, with a place for every error |
//! | `files` | files of a folder, in memory |
//! | `validate` | checks of the files |
//! | [`model`] | the types of experiments and recipes |
//! | [`catalog`] | finds and loads experiments and recipes |
//! | [`cases`] | the selected levels, and the cases that they make |
//! | `template`, [`render`] | renders services and load |
//! | [`pace`] | the pace of requests: a closed loop, or an open loop at a rate |
//! | [`plan`] | cases, and the stacks that they run on |
//! | `fingerprint` | differences between two cases other than the link |
//! | [`settings`] | the settings of a run: the experiment's defaults, and options of the run |
//! | [`digest`] | digests by which a resumed run checks that nothing has changed |
//! | [`given`] | the plan of a comparison of existing endpoints |
//! | `derive` | the cases for derived quantities |
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
