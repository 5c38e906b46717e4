//! Error of the composition.

use std::error::Error;

/// A domain failed to start. The message has the reason and the remedy.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ComposeError(String);

impl ComposeError {
    /// Joins the messages of a domain's error and its sources.
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
