//! Errors of video encoding.

use std::sync::Arc;

use crate::BrowserError;

#[derive(Debug, thiserror::Error)]
pub enum VideoError {
    #[error("the video has no pictures")]
    Empty,
    #[error("failed to read a picture: {0}")]
    Picture(String),
    #[error("failed to encode a picture: {0}")]
    Encoder(String),
    #[error("the video exceeds {limit} bytes; record for a shorter time")]
    TooLarge { limit: u64 },
    #[error("failed to write the video: {0}")]
    Write(#[from] std::io::Error),
    #[error("this build has no video support; run `make ui`, then rebuild")]
    NotBuilt,
    #[error("the Chromium that encoded the video exited ({0}); retry")]
    Ended(Arc<str>),
    /// Chromium is not installed, does not start or does not answer.
    #[error(transparent)]
    Browser(BrowserError),
}

impl From<BrowserError> for VideoError {
    fn from(error: BrowserError) -> Self {
        match error {
            BrowserError::Ended(reason) => Self::Ended(reason),
            BrowserError::TabCrashed => Self::Ended("its page crashed".into()),
            error => Self::Browser(error),
        }
    }
}
