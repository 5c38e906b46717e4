//! Why a daemon could not be composed.

use std::error::Error;

/// A domain could not start; its own sentence says why and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ComposeError(String);

impl ComposeError {
    /// Joins the error of a domain and its sources.
    pub(super) fn new(error: &dyn Error) -> Self {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            text.push_str(": ");
            text.push_str(&cause.to_string());
            source = cause.source();
        }
        Self(text)
    }
}
