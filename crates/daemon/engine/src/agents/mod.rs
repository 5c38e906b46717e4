//! Agents: who they are, the folder each works in, and how one goes away without a trace.
//!
//! Invariants
//! - A name belongs to one living agent at a time, whoever asks first (a unique index decides).
//! - The row is the truth, the folder follows: a row never stands without its folder having been
//!   made, and a folder is made again where it was lost.
//! - A deletion makes everything of the agent unreachable in one transaction. Its rows and files
//!   then go in leased batches that survive a restart. Its name is free at once, and what takes the
//!   name never sees the old files.
//! - Every change of an agent's instructions, whoever makes it, is a version in the same transaction;
//!   the newest 200 are kept, and the highest number is what is in force.
//! - Whatever else keeps data of an agent implements [`OwnsAgentData`] and is registered.
//!
//! Deliberately absent: running turns (the engine does), tools, and what an agent learns (evolution).

mod error;
mod model;
mod prompt;
mod restored;
mod routes;
mod service;
mod store;
mod worker;

use std::sync::Arc;

use agentd_core::parts::{Domain, DomainParts};
use agentd_core::runtime::{Binding, MetricList, PurgeWorker};
use agentd_core::settings::FindsNamed;

use routes::routes;
use worker::PurgeAgents;

pub use error::AgentError;
pub use model::{Agent, AgentId, AgentProfile, AgentVersion, CreateAgent, EvolutionChoice, UpdateAgent, VersionSource};
pub use restored::ValidateAgents;
pub use routes::{AgentFields, AgentView};
pub use service::{AgentDataPhase, Agents, OwnsAgentData, ReplaceInstructions};
pub use store::is_living;

impl Domain for Agents {
    fn parts(&self) -> DomainParts {
        DomainParts {
            routes: routes().with_state(self.clone()),
            workers: vec![Box::new(PurgeWorker(PurgeAgents::new(self.clone())))],
            metrics: MetricList::default(),
            bindings: vec![Binding::new::<dyn FindsNamed>(Arc::new(self.clone()))],
            shutdown: Vec::new(),
        }
    }
}
