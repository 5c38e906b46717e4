//! What the store promises, on SQLite always and on PostgreSQL when `AGENTD_TEST_DATABASE_URL` is set.

mod dump;
mod idempotency;
mod lifecycle;
mod outbox;
mod queue;
mod schema;
mod support;
mod values;
mod writing;
