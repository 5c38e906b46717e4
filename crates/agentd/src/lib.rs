//! agentd: a self-hosted daemon that hosts AI agents.
//!
//! One folder a domain; `compose` wires them, `lifecycle` runs them, `cli` is how people start
//! and mend them. ARCHITECTURE.md has the map and the table of allowed edges.

pub mod admission;
pub mod agents;
pub mod alerts;
pub mod auth;
pub mod backup;
pub mod browser;
pub mod channels;
pub mod chat;
pub mod cli;
pub mod compose;
pub mod config;
pub mod devices;
pub mod engine;
pub mod events;
pub mod evolution;
pub mod files;
pub mod hooks;
pub mod lifecycle;
pub mod memory;
pub mod migrations;
pub mod monitoring;
pub mod notify;
pub mod proactive;
pub mod projects;
pub mod providers;
pub mod rollups;
pub mod runtime;
pub mod scheduler;
pub mod settings;
pub mod setup;
pub mod skills;
pub mod web_ui;
pub mod webhooks;
