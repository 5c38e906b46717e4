//! The `chat` domain.
