//! PostgreSQL.
pub(crate) mod codec;
