//! The `monitoring` domain.
