//! Guarantees of the store, tested on SQLite and, if `AGENTD_TEST_DATABASE_URL` is set, on PostgreSQL.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests, and what they share, fail by panicking"
)]

mod changes;
mod dump;
mod faults;
mod idempotency;
mod lifecycle;
mod outbox;
mod queue;
mod reading;
mod schema;
mod support;
mod values;
mod writing;
