//! The tools of one turn.

use std::sync::Arc;

use super::tool::{Effect, Tool, ToolDescription};

/// What an agent is offered in one turn, each name once. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Offer {
    tools: Arc<[Arc<dyn Tool>]>,
}

impl Offer {
    pub(super) fn new(tools: Vec<Arc<dyn Tool>>) -> Self {
        Self { tools: tools.into() }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Tool>> {
        self.tools.iter()
    }

    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.iter().find(|tool| tool.description().name == name)
    }

    /// The part that changes nothing.
    #[must_use]
    pub fn reading_only(self) -> Self {
        self.filtered(|tool| tool.effect == Effect::Reads)
    }

    /// The part that `keep` wants.
    #[must_use]
    pub fn filtered(self, keep: impl Fn(&ToolDescription) -> bool) -> Self {
        Self { tools: self.tools.iter().filter(|tool| keep(tool.description())).cloned().collect() }
    }
}
