//! Conversations, the memory of agents, and the evolution of their instructions.

pub mod chat;
pub mod evolution;
pub mod memory;
