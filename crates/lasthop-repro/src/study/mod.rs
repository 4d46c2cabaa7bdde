//! The studies as data: their measurements, methods, and the experiments that repeat them.
//!
//! Their files are in `studies/`; [`catalog`] reads them, [`model`] holds the valid values. Figures are copied from a
//! publication, sentences are not.

pub mod catalog;
pub mod figures;
pub mod model;
