//! Providers, agents, projects, tools, files, and the engine that runs turns.

pub mod agents;
pub mod code_runner;
pub mod engine;
pub mod files;
pub mod projects;
pub mod providers;
pub mod tool_servers;
pub mod tools;
pub mod workspaces;
