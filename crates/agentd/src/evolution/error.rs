//! Why an agent could not be asked what it learned. Nobody waits for it, so this is only logged.

use agentd_store::StoreError;

use crate::agents::AgentError;
use crate::engine::{EngineError, NoAnswer};

#[derive(Debug, thiserror::Error)]
pub enum EvolutionError {
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    NoAnswer(#[from] NoAnswer),
    #[error("what an agent learned cannot be read or stored now")]
    Store(#[from] StoreError),
}

impl EvolutionError {
    /// Another daemon has taken the work over.
    pub(super) fn is_lost_lease(&self) -> bool {
        matches!(self, Self::Store(StoreError::LostLease { .. }))
    }
}
