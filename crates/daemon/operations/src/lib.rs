//! Monitoring, alerts, backups, setup, the web UI and the API documentation.

pub mod alerts;
pub mod backup;
pub mod monitoring;
pub mod setup;
pub mod web_ui;
