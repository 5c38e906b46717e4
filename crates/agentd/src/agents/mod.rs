//! The `agents` domain.
