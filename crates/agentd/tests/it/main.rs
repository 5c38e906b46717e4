//! Everything that the daemon promises over HTTP, in one binary: a file a domain.
//!
//! Tests run on SQLite, or on PostgreSQL when `AGENTD_TEST_DATABASE_URL` names a server.

mod support;

mod auth;
mod backup;
mod coverage;
mod doors;
mod kill;
mod openapi;
mod secrets;
mod setup;
mod tidy;
