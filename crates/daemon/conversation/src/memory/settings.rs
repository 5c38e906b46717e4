//! What is remembered, for how long, and how.

use agentd_base::Problems;
use agentd_core::settings::{ResetGroup, Section, section_patch};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How entities are found in what is remembered. The tagger needs the default embedding model: without its weights,
/// choose `llm` or `off`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EntityExtraction {
    /// By the tagger and the word lists that come with the daemon.
    #[default]
    Rules,
    /// By the agent's model, for episodes of agents; by the tagger where it does not answer.
    Llm,
    Off,
}

/// Memory: what agents recall and store by themselves, and what is forgotten.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct MemorySettings {
    /// Off: nothing new is remembered and agents recall nothing. What is there can be read and deleted.
    pub enabled: bool,
    /// Whether what is said in conversations is remembered by itself.
    pub auto_store: bool,
    /// Whether agents recall before they answer.
    pub auto_recall: bool,
    /// How many episodes are recalled before an answer, at most.
    #[schema(minimum = 1, maximum = 20)]
    pub recall_limit: u32,
    /// What is remembered by itself and estimated to be less important than this is not stored; what was stored
    /// that way, before this was raised, is forgotten.
    #[schema(minimum = 0.0, maximum = 1.0)]
    pub min_importance: f64,
    /// Episodes that were not stored, recalled or changed for so many days are forgotten; 0 keeps them
    /// for ever.
    #[schema(minimum = 0, maximum = 36_500)]
    pub retention_days: u32,
    pub entity_extraction: EntityExtraction,
    /// How often conversations are gone through for what is worth remembering; 0: only when asked to.
    #[schema(minimum = 0, maximum = 10_080)]
    pub consolidate_interval_minutes: u32,
}

section_patch!(
    /// Any fields of the memory settings; those left out stay as they are.
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

    // The schema says it all.
    fn validate(&self, _problems: &mut Problems) {}
}
