//! The studies as data: what was measured, how, and which experiments repeat it.
//!
//! Their files are in `studies/`; [`catalog`] reads them, [`model`] holds what is valid. Figures carry over, sentences do not.

pub mod catalog;
mod definition;
pub mod figures;
pub mod model;
