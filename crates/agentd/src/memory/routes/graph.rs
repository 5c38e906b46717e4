//! The knowledge graph.

use agentd_base::{Page, PageLimits, Problems};
use agentd_web::{ApiError, Json, Query};
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{Answer, EntityView};
use crate::memory::model::EntityId;
use crate::memory::service::Memory;

const LIMITS: PageLimits = PageLimits { default: 1_000, maximum: 10_000 };

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct GraphQuery {
    /// How many entities to show, the most mentioned first. Of relations, four times as many are shown, the
    /// heaviest first.
    #[param(minimum = 1, maximum = 10_000, default = json!(LIMITS.default))]
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

/// What is known, and how it hangs together
#[utoipa::path(
    get, path = "/api/memory/graph", tag = "memory", params(GraphQuery),
    responses((status = 200, body = MemoryGraph)),
)]
pub(super) async fn get_memory_graph(
    State(memory): State<Memory>,
    Query(query): Query<GraphQuery>,
) -> Answer<MemoryGraph> {
    let mut problems = Problems::new();
    let page = Page::checked(query.limit, None, LIMITS, &mut problems);
    problems.into_result().map_err(ApiError::invalid)?;
    let graph = memory.graph(page.limit).await?;
    #[allow(clippy::cast_precision_loss, reason = "a weight, not a count")]
    let weight = |thousandths: i64| thousandths as f64 / 1e3;
    Ok(Json(MemoryGraph {
        entities: graph.entities.iter().map(EntityView::from).collect(),
        relationships: graph
            .relations
            .into_iter()
            .map(|relation| RelationView {
                source: relation.source,
                target: relation.target,
                relation_type: relation.relation_type,
                weight: weight(relation.weight),
            })
            .collect(),
        total_entities: graph.total_entities,
        total_relationships: graph.total_relations,
    }))
}
