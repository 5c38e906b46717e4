//! Episodes and entities as they are shown.

use agentd_base::Timestamp;
use agentd_engine::agents::AgentId;
use serde::Serialize;
use utoipa::ToSchema;

use crate::memory::model::{Entity, EntityId, Episode, EpisodeId};

/// A thing, person, place or idea.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct EntityView {
    pub(super) id: EntityId,
    pub(super) name: String,
    /// `language`, `framework`, `tool`, `concept`, `person`, `organization`, `place`, `date`.
    #[serde(rename = "type")]
    pub(super) entity_type: String,
    /// In all episodes.
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

/// Something that was said, done or learned.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct EpisodeView {
    pub(super) id: EpisodeId,
    pub(super) content: String,
    pub(super) summary: Option<String>,
    /// Where it comes from: `manual`, `conversation`, `insight`, `task`, or what its maker said.
    pub(super) source: String,
    /// -1 (bad) to 1 (good).
    pub(super) valence: f64,
    /// 0 to 1.
    pub(super) importance: f64,
    /// How often it was recalled.
    pub(super) access_count: u64,
    pub(super) topics: Vec<String>,
    /// The most mentioned in it first.
    pub(super) entities: Vec<EntityView>,
    pub(super) agent_id: Option<AgentId>,
    /// The newer episode that says otherwise.
    pub(super) superseded_by: Option<EpisodeId>,
    /// Whether it was made from text that others wrote, such as a web page: agents read it as untrusted.
    pub(super) is_untrusted: bool,
    /// When it happened; searches filter by it.
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
