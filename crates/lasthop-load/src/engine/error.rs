//! Why a case cannot be driven.

use lasthop_protocol::{failure::Failure, result::ErrorClass, wire::Stage};

/// A case cannot be driven, or no further.
#[derive(Debug, thiserror::Error)]
#[error("{cause}")]
pub struct CaseError {
    pub stage: Stage,
    /// What happened, as a lower-case fragment.
    pub cause: String,
    /// The class of the error, if a connection or a reply failed.
    pub class: Option<ErrorClass>,
}

impl CaseError {
    /// An error without a class.
    pub fn new(stage: Stage, cause: impl ToString) -> Self {
        Self {
            stage,
            cause: cause.to_string(),
            class: None,
        }
    }

    /// A connection or a reply failed.
    pub fn failed(stage: Stage, failure: &Failure) -> Self {
        Self {
            stage,
            cause: failure.to_string(),
            class: Some(failure.class),
        }
    }
}
