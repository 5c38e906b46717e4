//! Agents: their profiles, their workspace folders, and their complete deletion.
//!
//! Invariants
//! - A name belongs to one live agent at a time, enforced by a unique index.
//! - The row is authoritative: a row never exists without its folder having been created, and a lost folder is
//!   recreated.
//! - A deletion makes all data of the agent unreachable in one transaction. Its rows and files are then deleted in
//!   leased batches that survive a restart. Its name is free immediately, and a new agent of that name never sees the
//!   old files.
//! - Every change of an agent's instructions is a version, stored in the same transaction; the newest 200 are retained,
//!   and the highest number is the current one.
//! - Every domain that stores data of agents implements [`AgentDataOwner`] and is registered.
//!
//! Out of scope: running turns (engine), tools, and learning (evolution).

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
use agentd_core::settings::ValidateReference;

use routes::routes;
use worker::PurgeAgents;

pub use error::AgentError;
pub use model::{Agent, AgentId, AgentProfile, AgentVersion, CreateAgent, EvolutionChoice, UpdateAgent, VersionSource};
pub use restored::ValidateAgents;
pub use routes::{AgentFields, AgentView};
pub use service::{AgentDataOwner, AgentDataPhase, Agents, ReplaceInstructions};
pub use store::live_agent_condition;

impl Domain for Agents {
    fn parts(&self) -> DomainParts {
        DomainParts {
            routes: routes().with_state(self.clone()),
            workers: vec![Box::new(PurgeWorker(PurgeAgents::new(self.clone())))],
            metrics: MetricList::default(),
            bindings: vec![Binding::new::<dyn ValidateReference>(Arc::new(self.clone()))],
            shutdown: Vec::new(),
        }
    }
}
