//! Shared foundation of all domains: workers, metrics, settings, accounts, events, rate limits, migrations.

pub mod auth;
pub mod events;
pub mod lease;
pub mod migrations;
pub mod parts;
pub mod rate_limit;
pub mod rollups;
pub mod runtime;
pub mod settings;
pub mod vault;
