//! The load generator of lasthop: a specification in, a result out.
//!
//! One engine drives any protocol over any local transport. Load model, reuse, transport and protocol are values
//! that combine. The crate knows no experiment, no recipe and no report.
//!
//! # Layout
//! - [`spec`]: what to do. Serialisable, validated before anything is opened.
//! - [`result`]: what happened in one trial, with mergeable histograms.
//! - [`wire`]: the JSON-lines protocol of `lasthop drive`.

pub mod histogram;
pub mod result;
pub mod spec;
pub mod wire;

pub use histogram::Histogram;
pub use result::TrialResult;
pub use spec::Spec;
