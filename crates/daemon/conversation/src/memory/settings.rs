//! Settings of memory.

use agentd_base::Problems;
use agentd_core::settings::{ResetGroup, Section, section_patch};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Method for extracting entities from episodes. `rules` uses the built-in tagger, which requires the default embedding
/// model; without that model, choose `llm` or `off`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EntityExtraction {
    /// The built-in tagger and word lists.
    #[default]
    Rules,
    /// The agent's model for episodes of agents; the tagger if the model does not answer.
    Llm,
    Off,
}

/// Settings for automatically storing, recalling and deleting episodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct MemorySettings {
    /// Whether memory is enabled. If false, nothing is stored or recalled; existing episodes can still be read and
    /// deleted. Default: true.
    pub enabled: bool,
    /// Whether episodes are stored from conversations automatically. Default: true.
    pub auto_store: bool,
    /// Whether agents recall episodes before they answer. Default: true.
    pub auto_recall: bool,
    /// Maximum number of episodes recalled before an answer, 1 to 20. Default: 5.
    #[schema(minimum = 1, maximum = 20)]
    pub recall_limit: u32,
    /// Minimum estimated importance of automatically stored episodes, 0 to 1. Raising it also deletes automatically
    /// stored episodes below it. Default: 0.2.
    #[schema(minimum = 0.0, maximum = 1.0)]
    pub min_importance: f64,
    /// Number of days without a recall or change after which an episode is deleted, up to 36,500; 0 disables deletion.
    /// Default: 0.
    #[schema(minimum = 0, maximum = 36_500)]
    pub retention_days: u32,
    /// Method for extracting entities from episodes. Default: `rules`.
    pub entity_extraction: EntityExtraction,
    /// Interval in minutes at which conversations are reviewed for new episodes, up to 10,080; 0 disables automatic
    /// reviews. Default: 60.
    #[schema(minimum = 0, maximum = 10_080)]
    pub consolidate_interval_minutes: u32,
}

section_patch!(
    /// Any subset of the memory settings; omitted fields keep their values.
    MemoryPatch, MemorySettings
);

impl Default for MemorySettings {
    fn default() -> Self {
        Self {
            enabled: true,
            auto_store: true,
            auto_recall: true,
            recall_limit: 5,
            min_importance: 0.2,
            retention_days: 0,
            entity_extraction: EntityExtraction::default(),
            consolidate_interval_minutes: 60,
        }
    }
}

impl Section for MemorySettings {
    const NAME: &'static str = "memory";
    const RESET: ResetGroup = ResetGroup::General;
    type Patch = MemoryPatch;

    // The schema covers all constraints.
    fn validate(&self, _problems: &mut Problems) {}
}
