//! What a domain gives to turns of agents.

use std::sync::Arc;

use super::approvals::DecidesApproval;
use super::turn_sink::{TurnObserver, TurnSink};
use crate::agents::OwnsAgentData;
use crate::projects::NamesProjects;
use crate::tools::{JoinsBuiltin, ToolSource};

/// What one domain gives to turns, and what it keeps of agents and projects. As with
/// [`agentd_core::parts::DomainParts`], there is no `Default`.
pub struct TurnParts {
    /// Data that goes when its agent goes. Of all domains together, the order of the domains is the order of the purge.
    pub agent_data: Vec<Arc<dyn OwnsAgentData>>,
    pub project_names: Vec<Arc<dyn NamesProjects>>,
    pub tools: Vec<Arc<dyn ToolSource>>,
    /// Tools that stand among the built-in ones.
    pub builtin_tools: Vec<Arc<dyn JoinsBuiltin>>,
    pub sinks: Vec<Arc<dyn TurnSink>>,
    pub observers: Vec<Arc<dyn TurnObserver>>,
    pub deciders: Vec<Arc<dyn DecidesApproval>>,
}

impl std::fmt::Debug for TurnParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TurnParts")
    }
}
