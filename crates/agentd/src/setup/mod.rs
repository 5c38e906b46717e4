//! The `setup` domain.
