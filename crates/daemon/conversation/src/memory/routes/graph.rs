//! The knowledge graph.

use agentd_base::{Page, PageLimits, Problems};
use agentd_web::{ApiError, Json, Query};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::stream::{self, Written, so_far};
use super::views::EntityView;
use crate::memory::model::{Entity, EntityId};
use crate::memory::service::{Memory, Relation};

const LIMITS: PageLimits = PageLimits { default: 10_000, maximum: 10_000 };

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct GraphQuery {
    /// How many entities to show, the most mentioned first; left out: all. Of relations, four times as
    /// many are shown, the heaviest first.
    #[param(minimum = 1, maximum = 10_000)]
    limit: Option<i64>,
}

/// How two entities belong together.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RelationView {
    /// The id of an entity.
    source: EntityId,
    target: EntityId,
    /// `uses`, `works_at`, `lives_in`, …; `co_occurs` when they were only mentioned together.
    #[serde(rename = "type")]
    relation_type: String,
    /// How much speaks for it, over all episodes.
    weight: f64,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct MemoryGraph {
    entities: Vec<EntityView>,
    relationships: Vec<RelationView>,
    /// How many there are in all.
    total_entities: u64,
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

/// What is known, and how it hangs together
///
/// All of it, streamed: the entities in the order in which they were first mentioned, and the relations among them.
/// With a `limit` the part that matters most.
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
    let (shown, related) = (Written::default(), Written::default());
    let pieces = stream::entries(entities, |entity: &Entity| EntityView::from(entity), &shown)
        .chain(stream::text(|| "],\"relationships\":[".to_owned()))
        .chain(stream::entries(relations, |relation: &Relation| RelationView::from(relation), &related))
        .chain(stream::text(move || {
            let (entities, relations) = (so_far(&shown), so_far(&related));
            format!("],\"total_entities\":{entities},\"total_relationships\":{relations}}}")
        }));
    let body = stream::body("{\"entities\":[".to_owned(), pieces.boxed()).await?;
    Ok(([stream::JSON], body).into_response())
}
