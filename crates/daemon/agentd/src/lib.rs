//! agentd: a self-hosted daemon that hosts AI agents.
//!
//! One folder a domain; `compose` wires them, `lifecycle` runs them, `cli` is how people start
//! and mend them. ARCHITECTURE.md has the map and the table of allowed edges.

pub mod cli;
pub mod compose;
pub mod config;
pub mod lifecycle;
