//! Settings of the turn strategy.

use agentd_base::Problems;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::settings::patch::section_patch;
use crate::settings::section::{ResetGroup, Section};

/// Whether a turn creates a plan before it acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Planning {
    /// Never.
    Off,
    /// Only if the request appears to need several steps.
    #[default]
    Auto,
    /// Before every turn.
    Always,
}

/// Planning, reflection, parallel tools and compaction of conversations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct StrategySettings {
    /// Whether a turn creates a plan before it acts. Default: `auto`.
    pub planning: Planning,
    /// Whether a turn that used tools reviews its answer with an additional model call. Default: false.
    pub reflection: bool,
    /// Maximum number of concurrent tool calls in one round, 1 to 32. Default: 8.
    #[schema(minimum = 1, maximum = 32)]
    pub max_parallel_tools: u32,
    /// Fraction of the model's context window that a conversation may fill before its oldest turns are summarized, 0.3
    /// to 0.95. Default: 0.8.
    #[schema(minimum = 0.3, maximum = 0.95)]
    pub compaction_threshold: f64,
}

section_patch!(
    /// Fields of the strategy settings to change; omitted fields are unchanged.
    StrategyPatch, StrategySettings
);

impl Default for StrategySettings {
    fn default() -> Self {
        Self { planning: Planning::default(), reflection: false, max_parallel_tools: 8, compaction_threshold: 0.8 }
    }
}

impl Section for StrategySettings {
    const NAME: &'static str = "strategy";
    const RESET: ResetGroup = ResetGroup::General;
    type Patch = StrategyPatch;

    // The schema covers all rules.
    fn validate(&self, _problems: &mut Problems) {}
}
