//! Who acts in the browser.

use crate::agents::AgentId;

/// The owner, through the API, or an agent by its tools. Each has an active tab; the rest of the session is shared.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum Actor {
    #[default]
    Owner,
    Agent(AgentId),
}
