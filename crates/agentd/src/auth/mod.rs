//! The `auth` domain.
