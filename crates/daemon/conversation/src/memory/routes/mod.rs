//! `/api/memory`, and its settings.

mod clusters;
mod data;
mod episodes;
mod graph;
mod jobs;
mod search;
mod statistics;
mod stream;

use agentd_base::Timestamp;
use agentd_engine::agents::AgentId;
use agentd_web::{ApiError, ApiRouter, Json, Routes, routes};
use axum::Router;
use axum::extract::State;
use axum::routing::post;
use serde::Serialize;
use utoipa::ToSchema;

use super::check::MemoryCheck;
use super::model::{Entity, EntityId, Episode, EpisodeId};
use super::service::Memory;

#[must_use]
pub(super) fn routes() -> Routes<Memory> {
    Routes::new().protected(
        ApiRouter::new()
            .routes(routes!(episodes::list_episodes, episodes::create_episode))
            .routes(routes!(episodes::get_episode, episodes::delete_episode))
            .routes(routes!(episodes::list_related_episodes))
            .routes(routes!(search::search_memory))
            .routes(routes!(clusters::list_memory_clusters))
            .routes(routes!(graph::get_memory_graph))
            .routes(routes!(statistics::get_memory_stats))
            .routes(routes!(jobs::consolidate_conversations))
            .routes(routes!(jobs::generate_episodes))
            .routes(routes!(jobs::backfill_entities))
            .routes(routes!(jobs::list_memory_jobs))
            .routes(routes!(data::get_memory_settings, data::update_memory_settings))
            .routes(routes!(data::export_memory).accept_tickets())
            .routes(routes!(data::clear_memory)),
    )
}

/// Routes of the private socket, for the `doctor` command. The network cannot reach them. `POST /local/memory/check`
/// compares the index and the counters with the rows.
pub fn local_routes(memory: Memory) -> Router {
    Router::new().route("/local/memory/check", post(check_memory)).with_state(memory)
}

async fn check_memory(State(memory): State<Memory>) -> Result<axum::Json<MemoryCheck>, ApiError> {
    Ok(axum::Json(memory.check().await?))
}

type Answer<T> = Result<Json<T>, ApiError>;

/// A thing, person, place or idea.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct EntityView {
    id: EntityId,
    name: String,
    /// `language`, `framework`, `tool`, `concept`, `person`, `organization`, `place`, `date`.
    #[serde(rename = "type")]
    entity_type: String,
    /// In all episodes.
    mentions: u64,
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
    id: EpisodeId,
    content: String,
    summary: Option<String>,
    /// Where it comes from: `manual`, `conversation`, `insight`, `task`, or what its maker said.
    source: String,
    /// -1 (bad) to 1 (good).
    valence: f64,
    /// 0 to 1.
    importance: f64,
    /// How often it was recalled.
    access_count: u64,
    topics: Vec<String>,
    /// The most mentioned in it first.
    entities: Vec<EntityView>,
    agent_id: Option<AgentId>,
    /// The newer episode that says otherwise.
    superseded_by: Option<EpisodeId>,
    /// Whether it was made from text that others wrote, such as a web page: agents read it as untrusted.
    is_untrusted: bool,
    /// When it happened; searches filter by it.
    occurred_at: Timestamp,
    created_at: Timestamp,
    updated_at: Timestamp,
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
