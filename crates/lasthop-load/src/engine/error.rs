//! Why a case cannot be driven.

use lasthop_protocol::wire::Stage;
use lasthop_trial::{failure::Failure, result::ErrorClass};

/// The error of a case that cannot be driven, or not to its end.
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

    /// The error of a failed connection or reply.
    pub fn failed(stage: Stage, failure: &Failure) -> Self {
        Self {
            stage,
            cause: failure.to_string(),
            class: Some(failure.class),
        }
    }
}
