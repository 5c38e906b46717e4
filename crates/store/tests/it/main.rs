//! What the store promises, on SQLite always and on PostgreSQL when `AGENTD_TEST_DATABASE_URL` is set.

mod idempotency;
mod outbox;
mod queue;
mod support;
mod values;
mod writing;
