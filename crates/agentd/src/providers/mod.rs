//! The `providers` domain.
