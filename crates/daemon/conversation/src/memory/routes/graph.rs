//! Handler for the knowledge graph.

use agentd_base::{Page, PageLimits, Problems};
use agentd_web::{ApiError, Json, Query};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::stream::{self, EntryCount, written_count};
use super::views::EntityView;
use crate::memory::model::{Entity, EntityId};
use crate::memory::service::{Memory, Relation};

const LIMITS: PageLimits = PageLimits { default: 10_000, maximum: 10_000 };

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct GraphQuery {
    /// Maximum number of entities, most mentioned first. Default: all. Up to four times as many relations are returned,
    /// the heaviest first.
    #[param(minimum = 1, maximum = 10_000)]
    limit: Option<i64>,
}

/// Relation between two entities.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RelationView {
    /// Id of the entity that the relation starts from, such as the person who uses a tool.
    source: EntityId,
    /// Id of the entity that the relation leads to.
    target: EntityId,
    /// Type of the relation: `uses`, `works_at`, `lives_in`, …; `co_occurs` for entities that are only mentioned
    /// together.
    #[serde(rename = "type")]
    relation_type: String,
    /// Strength of the relation, summed over all episodes; greater than 0, without an upper limit.
    weight: f64,
}

/// Knowledge graph of all episodes.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct MemoryGraph {
    /// Entities: all in order of their first mention, or with `limit` the most mentioned ones, most mentioned first.
    entities: Vec<EntityView>,
    /// Relations among the returned entities.
    relationships: Vec<RelationView>,
    /// Number of all entities, also those beyond `limit`.
    total_entities: u64,
    /// Number of all relations, also those beyond `limit`.
    total_relationships: u64,
}

impl From<&Relation> for RelationView {
    fn from(relation: &Relation) -> Self {
        #[allow(clippy::cast_precision_loss, reason = "a weight, not a count")]
        let weight = relation.weight as f64 / 1e3;
        Self {
            source: relation.source.clone(),
            target: relation.target.clone(),
            relation_type: relation.relation_type.clone(),
            weight,
        }
    }
}

/// Get the knowledge graph
///
/// Streams all entities in order of their first mention, and the relations among them. With `limit`, returns only the
/// most mentioned entities.
#[utoipa::path(
    get, path = "/api/memory/graph", tag = "memory", params(GraphQuery),
    responses((status = 200, body = MemoryGraph)),
)]
pub(super) async fn get_memory_graph(
    State(memory): State<Memory>,
    Query(query): Query<GraphQuery>,
) -> Result<Response, ApiError> {
    let Some(limit) = query.limit else { return whole_graph(&memory).await };
    let mut problems = Problems::new();
    let page = Page::checked(Some(limit), None, LIMITS, &mut problems);
    problems.into_result().map_err(ApiError::invalid)?;
    let graph = memory.graph(page.limit).await?;
    let graph = MemoryGraph {
        entities: graph.entities.iter().map(EntityView::from).collect(),
        relationships: graph.relations.iter().map(RelationView::from).collect(),
        total_entities: graph.total_entities,
        total_relationships: graph.total_relations,
    };
    Ok(Json(graph).into_response())
}

async fn whole_graph(memory: &Memory) -> Result<Response, ApiError> {
    let (entities, relations) = memory.whole_graph();
    let (shown, related) = (EntryCount::default(), EntryCount::default());
    let pieces = stream::entries(entities, |entity: &Entity| EntityView::from(entity), &shown)
        .chain(stream::text(|| "],\"relationships\":[".to_owned()))
        .chain(stream::entries(relations, |relation: &Relation| RelationView::from(relation), &related))
        .chain(stream::text(move || {
            let (entities, relations) = (written_count(&shown), written_count(&related));
            format!("],\"total_entities\":{entities},\"total_relationships\":{relations}}}")
        }));
    let body = stream::body("{\"entities\":[".to_owned(), pieces.boxed()).await?;
    Ok(([stream::JSON], body).into_response())
}
