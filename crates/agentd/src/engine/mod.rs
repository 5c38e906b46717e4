//! The `engine` domain.
