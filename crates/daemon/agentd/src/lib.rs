//! agentd: a self-hosted daemon that hosts AI agents.
//!
//! `compose` wires the domains, `lifecycle` runs the daemon, `cli` is the command line. ARCHITECTURE.md describes the
//! crates and their allowed dependencies.

pub mod cli;
pub mod compose;
pub mod config;
pub mod lifecycle;
