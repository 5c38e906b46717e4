//! API representations of episodes and entities.

use agentd_base::Timestamp;
use agentd_engine::agents::AgentId;
use serde::Serialize;
use utoipa::ToSchema;

use crate::memory::model::{Entity, EntityId, Episode, EpisodeId};

/// Thing, person, place or concept.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct EntityView {
    pub(super) id: EntityId,
    /// Display name, such as `Rust` or `Ada Lovelace`.
    pub(super) name: String,
    /// Type of the entity: `language`, `framework`, `tool`, `concept`, `person`, `organization` or `place`.
    #[serde(rename = "type")]
    pub(super) entity_type: String,
    /// Total number of mentions in all episodes.
    pub(super) mentions: u64,
}

impl From<&Entity> for EntityView {
    fn from(entity: &Entity) -> Self {
        Self {
            id: entity.id.clone(),
            name: entity.name.clone(),
            entity_type: entity.entity_type.clone(),
            mentions: entity.mentions,
        }
    }
}

/// Statement, event or insight stored in memory.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct EpisodeView {
    pub(super) id: EpisodeId,
    /// Remembered text, up to 50,000 characters.
    pub(super) content: String,
    /// Short form for display, up to 4,000 characters; null if none was given.
    pub(super) summary: Option<String>,
    /// Origin of the episode: `manual`, `conversation`, `insight`, `agent`, `hook`, or a custom value.
    pub(super) source: String,
    /// Valence from -1 (negative) to 1 (positive).
    pub(super) valence: f64,
    /// Importance from 0 to 1.
    pub(super) importance: f64,
    /// Number of times the episode was recalled or its text was repeated.
    pub(super) access_count: u64,
    /// Topics given at creation, up to 32.
    pub(super) topics: Vec<String>,
    /// Entities mentioned in the episode, most frequent first.
    pub(super) entities: Vec<EntityView>,
    /// Agent that the episode belongs to; null if it belongs to none.
    pub(super) agent_id: Option<AgentId>,
    /// Id of the newer episode that contradicts this one; null if the episode is current.
    pub(super) superseded_by: Option<EpisodeId>,
    /// Whether the episode was derived from untrusted text, such as a web page; agents treat it accordingly.
    pub(super) is_untrusted: bool,
    /// Time of the event; searches filter by it.
    pub(super) occurred_at: Timestamp,
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
}

impl From<&Episode> for EpisodeView {
    fn from(episode: &Episode) -> Self {
        Self {
            id: episode.id.clone(),
            content: episode.content.clone(),
            summary: episode.summary.clone(),
            source: episode.source.clone(),
            valence: episode.valence.as_f64(),
            importance: episode.importance.as_f64(),
            access_count: episode.access_count,
            topics: episode.topics.clone(),
            entities: episode.entities.iter().map(EntityView::from).collect(),
            agent_id: episode.agent_id.clone(),
            superseded_by: episode.superseded_by.clone(),
            is_untrusted: episode.is_untrusted,
            occurred_at: episode.occurred_at,
            created_at: episode.created_at,
            updated_at: episode.updated_at,
        }
    }
}
