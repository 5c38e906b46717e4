//! Errors of video encoding.

use std::sync::Arc;

use crate::BrowserError;

#[derive(Debug, thiserror::Error)]
pub enum VideoError {
    #[error("there is no picture to make a video of")]
    Empty,
    #[error("a picture cannot be read: {0}")]
    Picture(String),
    #[error("a picture cannot be encoded: {0}")]
    Encoder(String),
    #[error("the video would be larger than {limit} bytes; record a shorter time")]
    TooLarge { limit: u64 },
    #[error("the video cannot be written: {0}")]
    Write(#[from] std::io::Error),
    #[error("this program was built without the library that videos need; run `make ui`, then build it again")]
    NotBuilt,
    #[error("the Chromium that encoded the video has ended ({0}); make the video again")]
    Ended(Arc<str>),
    /// Chromium is not installed, does not start or does not answer.
    #[error(transparent)]
    Browser(BrowserError),
}

impl From<BrowserError> for VideoError {
    fn from(error: BrowserError) -> Self {
        match error {
            BrowserError::Ended(reason) => Self::Ended(reason),
            BrowserError::TabCrashed => Self::Ended("its page has crashed".into()),
            error => Self::Browser(error),
        }
    }
}
