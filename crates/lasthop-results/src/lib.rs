//! The results of a run: its record on disk, and everything that is made from the record and from nothing else.
//!
//! | module | holds |
//! |---|---|
//! | [`mod@record`] | KEEP: writes and reads a run record |
//! | [`analyse`] | ANALYSE: estimates, comparisons, checks, verdicts |
//! | [`report`] | REPORT: one document, several renderers |
//! | [`export`] | configurations of the servers that were measured |
//! | [`text`] | the one door for foreign text |

pub mod analyse;
pub mod export;
pub mod record;
pub mod report;
pub mod text;
