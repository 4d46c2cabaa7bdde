//! The results of a run: everything that is made from its record on disk, and from nothing else.
//!
//! | module | holds |
//! |---|---|
//! | [`analyse`] | ANALYSE: estimates, comparisons, checks, verdicts |
//! | [`report`] | REPORT: one document, several renderers |
//! | [`export`] | configurations of the servers that were measured |
//! | [`text`] | the one door for foreign text |

pub mod analyse;
pub mod export;
pub mod report;
pub mod text;
