//! How a turn goes about its work.

use agentd_base::Problems;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::settings::patch::section_patch;
use crate::settings::section::{ResetGroup, Section};

/// Whether a turn makes a plan before it acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Planning {
    Off,
    /// Where the request looks as if it took several steps.
    #[default]
    Auto,
    Always,
}

/// Planning, reflection, tools at once, and when a conversation is compacted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct StrategySettings {
    pub planning: Planning,
    /// Whether a turn for which tools were used looks over its answer, at the price of one more call.
    pub reflection: bool,
    /// How many tools of one round run at the same time; the others wait.
    #[schema(minimum = 1, maximum = 32)]
    pub max_parallel_tools: u32,
    /// The share of the model's context window that a conversation may fill before its oldest turns
    /// become a summary.
    #[schema(minimum = 0.3, maximum = 0.95)]
    pub compaction_threshold: f64,
}

section_patch!(
    /// Any fields of the strategy settings; those left out stay as they are.
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

    // The schema says it all.
    fn validate(&self, _problems: &mut Problems) {}
}
