//! Handlers for episodes.

use agentd_base::{FieldProblem, Page, PageLimits, Problems};
use agentd_core::runtime::record_once;
use agentd_web::{Answer, ApiError, ApiResult, ErrorBody, IdempotencyKey, Json, Path, Query, Validate, Validated};
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::views::EpisodeView;
use crate::memory::model::{CreateEpisode, Episode, NewEpisode};
use crate::memory::service::{EpisodeFilter, Memory, Related};

const LIMITS: PageLimits = PageLimits { default: 20, maximum: 100 };
const RELATED_LIMITS: PageLimits = PageLimits { default: 10, maximum: 100 };

/// Content of a new episode.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct EpisodeFields {
    /// Text to remember, 1 to 50,000 characters; it is searched as a whole.
    #[schema(min_length = 1, max_length = 50_000)]
    content: String,
    /// Short form for display, up to 4,000 characters. Default: none.
    #[serde(default)]
    #[schema(max_length = 4_000)]
    summary: Option<String>,
    /// Origin of the episode, up to 64 characters without control characters. Default: `manual`.
    #[serde(default)]
    #[schema(max_length = 64)]
    source: Option<String>,
    /// Importance from 0 to 1. Default: estimated from the text.
    #[serde(default)]
    #[schema(minimum = 0.0, maximum = 1.0)]
    importance: Option<f64>,
    /// Valence from -1 (negative) to 1 (positive). Default: estimated from the text.
    #[serde(default)]
    #[schema(minimum = -1.0, maximum = 1.0)]
    valence: Option<f64>,
    /// Up to 32 topics of at most 100 characters each; blank topics and duplicates are removed. Default: none.
    #[serde(default)]
    #[schema(max_items = 32)]
    topics: Option<Vec<String>>,
    /// Id or svc_name of the agent that the episode belongs to. Default: none, which makes it visible to all agents.
    #[serde(default)]
    agent_id: Option<String>,
    /// ISO 8601 date or time of the event; UTC unless it has an offset. Default: the current time.
    #[serde(default)]
    #[schema(max_length = 64, example = "2026-01-31T09:30:00Z")]
    occurred_at: Option<String>,
}

impl From<EpisodeFields> for CreateEpisode {
    fn from(fields: EpisodeFields) -> Self {
        let episode = NewEpisode {
            content: fields.content,
            summary: fields.summary,
            source: fields.source,
            topics: fields.topics.unwrap_or_default(),
            importance: fields.importance,
            valence: fields.valence,
            ..NewEpisode::default()
        };
        Self { agent: fields.agent_id, episode, occurred_at: fields.occurred_at }
    }
}

impl Validate<Memory> for EpisodeFields {
    async fn validate(self, _: &Memory) -> Vec<FieldProblem> {
        CreateEpisode::from(self).checked().err().unwrap_or_default()
    }
}

/// Page of episodes.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct EpisodeList {
    /// Episodes of this page, newest first.
    episodes: Vec<EpisodeView>,
    /// Number of matching episodes on all pages.
    total: u64,
    /// Page size that was applied.
    limit: u32,
    /// Number of skipped episodes.
    offset: u64,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct EpisodeQuery {
    /// Only episodes of this agent (id or svc_name).
    agent_id: Option<String>,
    /// Only episodes of this cluster: an `id` from `GET /api/memory/clusters`.
    cluster_id: Option<String>,
    /// Maximum number of episodes to return.
    #[param(minimum = 1, maximum = 100, default = json!(LIMITS.default))]
    limit: Option<i64>,
    /// Number of episodes to skip, counted from the newest.
    #[param(minimum = 0, default = 0)]
    offset: Option<i64>,
}

/// List episodes
#[utoipa::path(
    get, path = "/api/memory/episodes", tag = "memory", params(EpisodeQuery),
    responses(
        (status = 200, body = EpisodeList),
        (status = 404, body = ErrorBody, description = "Agent or cluster not found"),
    ),
)]
pub(super) async fn list_episodes(
    State(memory): State<Memory>,
    Query(query): Query<EpisodeQuery>,
) -> Answer<EpisodeList> {
    let mut problems = Problems::new();
    let page = Page::checked(query.limit, query.offset, LIMITS, &mut problems);
    problems.into_result().map_err(ApiError::invalid)?;
    let filter = EpisodeFilter { agent: query.agent_id, cluster: query.cluster_id };
    let (episodes, total) = memory.list(filter, page).await?;
    Ok(Json(EpisodeList {
        episodes: episodes.iter().map(EpisodeView::from).collect(),
        total,
        limit: page.limit,
        offset: page.offset,
    }))
}

/// Create an episode
///
/// When the request returns, every search mode finds the episode.
#[utoipa::path(
    post, path = "/api/memory/episodes", tag = "memory", request_body = EpisodeFields,
    params(IdempotencyKey),
    responses(
        (status = 201, body = EpisodeView),
        (status = 404, body = ErrorBody, description = "Agent not found"),
        (status = 503, body = ErrorBody, description = "Memory is disabled"),
    ),
)]
pub(super) async fn create_episode(
    State(memory): State<Memory>,
    once: IdempotencyKey,
    Validated(Json(fields)): Validated<Json<EpisodeFields>>,
) -> ApiResult<(StatusCode, Json<EpisodeView>)> {
    let recorder = record_once(&once, StatusCode::CREATED, |episode: &Episode| EpisodeView::from(episode));
    let episode = memory.create(fields.into(), recorder).await?;
    Ok((StatusCode::CREATED, Json(EpisodeView::from(&episode))))
}

/// Get an episode
#[utoipa::path(
    get, path = "/api/memory/episodes/{id}", tag = "memory",
    params(("id" = String, Path, description = "Id of the episode")),
    responses((status = 200, body = EpisodeView), (status = 404, body = ErrorBody, description = "Episode not found")),
)]
pub(super) async fn get_episode(State(memory): State<Memory>, Path(id): Path<String>) -> Answer<EpisodeView> {
    Ok(Json(EpisodeView::from(&memory.get(&id).await?)))
}

/// Confirmation of a deleted episode.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct EpisodeDeleted {
    /// Always true.
    deleted: bool,
}

/// Delete an episode
///
/// Permanently deletes the episode with its vectors, its index entries and its part of the graph.
#[utoipa::path(
    delete, path = "/api/memory/episodes/{id}", tag = "memory",
    params(("id" = String, Path, description = "Id of the episode")),
    responses((status = 200, body = EpisodeDeleted), (status = 404, body = ErrorBody, description = "Episode not found")),
)]
pub(super) async fn delete_episode(State(memory): State<Memory>, Path(id): Path<String>) -> Answer<EpisodeDeleted> {
    memory.delete(&id).await?;
    Ok(Json(EpisodeDeleted { deleted: true }))
}

/// Episode that is related to another one.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RelatedEpisode {
    episode: EpisodeView,
    /// Relevance from 0 to 1: similarity of meaning and share of common entities.
    score: f64,
    /// Names of the entities that both episodes mention.
    shared_entities: Vec<String>,
}

/// Episodes related to an episode.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RelatedList {
    /// Related episodes, most related first.
    related: Vec<RelatedEpisode>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct RelatedQuery {
    /// Maximum number of related episodes to return.
    #[param(minimum = 1, maximum = 100, default = json!(RELATED_LIMITS.default))]
    limit: Option<i64>,
}

/// List related episodes
///
/// Returns episodes of the same agent that have a similar meaning or mention the same entities, most related first.
#[utoipa::path(
    get, path = "/api/memory/episodes/{id}/related", tag = "memory",
    params(("id" = String, Path, description = "Id of the episode"), RelatedQuery),
    responses((status = 200, body = RelatedList), (status = 404, body = ErrorBody, description = "Episode not found")),
)]
pub(super) async fn list_related_episodes(
    State(memory): State<Memory>,
    Path(id): Path<String>,
    Query(query): Query<RelatedQuery>,
) -> Answer<RelatedList> {
    let mut problems = Problems::new();
    let page = Page::checked(query.limit, None, RELATED_LIMITS, &mut problems);
    problems.into_result().map_err(ApiError::invalid)?;
    let related = memory.related(&id, page.limit).await?;
    let view = |related: Related| RelatedEpisode {
        episode: EpisodeView::from(&related.episode),
        score: related.score,
        shared_entities: related.shared_entities,
    };
    Ok(Json(RelatedList { related: related.into_iter().map(view).collect() }))
}
