//! Integration tests of the daemon over HTTP, with one module per domain.
//!
//! Tests run on SQLite, or on PostgreSQL when `AGENTD_TEST_DATABASE_URL` names a server.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(unreachable_pub, reason = "all tests are one binary")]

mod support;

mod additions;
mod agent_changes;
mod agents;
mod alerts;
mod answers;
mod auth;
mod backup;
mod backups;
mod browser;
mod budgets;
mod channels;
mod chat;
mod cli;
mod collector;
mod coverage;
mod devices;
mod drain;
mod engine;
mod error_codes;
mod event_stream;
mod events;
mod evolution;
mod examples;
mod fair_turns;
mod faults;
mod figures;
mod file_cycles;
mod files;
mod hooks;
mod idempotency;
mod kill;
mod lifecycle;
mod local_model;
mod log;
mod memory;
mod metrics;
mod middleware;
mod migrations;
mod monitoring;
mod notify;
mod openapi;
mod prices;
mod proactive;
mod projects;
mod prometheus;
mod prose;
mod providers;
mod refusing;
mod repeats;
mod replicas;
mod scheduler;
mod secrecy;
mod secrets;
mod sessions;
mod settings;
mod setup;
mod simulation;
mod skills;
mod steps;
mod terminal;
mod tidy;
mod tool_servers;
mod tools;
mod top;
mod traces;
mod untrusted;
mod webhooks;
mod workers;
mod workspaces;
