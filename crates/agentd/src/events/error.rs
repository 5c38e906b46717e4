//! What can go wrong with following events.

use std::time::Duration;

use agentd_base::{DomainError, ErrorKind};
use agentd_store::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum EventsError {
    #[error("Too many streams of events are open; close some, or try again shortly")]
    TooManyStreams,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl DomainError for EventsError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::TooManyStreams => ErrorKind::TooMany(Duration::from_secs(5)),
            Self::Store(error) => error.kind(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::TooManyStreams => "too_many_streams",
            Self::Store(error) => error.code(),
        }
    }
}
