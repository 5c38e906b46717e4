//! The `settings` domain.
