//! Handlers for clusters of episodes.

use agentd_base::Problems;
use agentd_entities::cluster::{MAX_CLUSTERS, MIN_CLUSTERS};
use agentd_web::{ApiError, ErrorBody, Query};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::stream::{self, EntryCount, Pieces};
use crate::memory::model::EpisodeId;
use crate::memory::service::{Cluster, Memory};

const DEFAULT_CLUSTERS: usize = 4;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ClusterQuery {
    /// Maximum number of clusters.
    #[param(minimum = 2, maximum = 8, default = json!(DEFAULT_CLUSTERS))]
    n: Option<i64>,
    /// Only episodes of this agent (id or svc_name).
    agent_id: Option<String>,
}

/// Cluster of episodes with similar meanings.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ClusterView {
    /// Id of the cluster, valid until memory changes. Use it as `cluster_id` in `GET /api/memory/episodes`.
    id: String,
    /// Display name, built from the leading keywords.
    label: String,
    /// Number of episodes in the cluster.
    #[schema(minimum = 1)]
    size: u64,
    /// Words that distinguish the cluster from the others, most distinctive first.
    #[schema(max_items = 8)]
    keywords: Vec<String>,
    /// Ids of all its episodes: the 100 nearest to its center first, then the others, oldest first.
    episode_ids: Vec<EpisodeId>,
}

/// Clusters of similar episodes.
#[derive(Debug, Serialize, ToSchema)]
#[allow(dead_code, reason = "written piece by piece; this is its schema")]
pub(super) struct ClusterList {
    /// Clusters, the largest first. Fewer than requested if the episodes do not differ enough.
    clusters: Vec<ClusterView>,
    /// Number of episodes in all clusters. Episodes without vectors are excluded.
    total: u64,
}

impl From<&Cluster> for ClusterView {
    fn from(cluster: &Cluster) -> Self {
        Self {
            id: cluster.id.clone(),
            label: cluster.label.label.clone(),
            size: cluster.size,
            keywords: cluster.label.keywords.clone(),
            episode_ids: Vec::new(),
        }
    }
}

impl ClusterQuery {
    fn count(&self) -> Result<usize, ApiError> {
        let mut problems = Problems::new();
        let wanted = self.n.map_or(Some(DEFAULT_CLUSTERS), |n| usize::try_from(n).ok());
        let count = wanted.filter(|count| (MIN_CLUSTERS..=MAX_CLUSTERS).contains(count));
        problems.require(count.is_some(), "n", format!("must be between {MIN_CLUSTERS} and {MAX_CLUSTERS}"));
        problems.into_result().map_err(ApiError::invalid)?;
        Ok(count.unwrap_or(DEFAULT_CLUSTERS))
    }
}

/// List episode clusters
///
/// Groups episodes by meaning. The result is deterministic and changes only when memory changes. The response is
/// streamed because it lists every episode id.
#[utoipa::path(
    get, path = "/api/memory/clusters", tag = "memory", params(ClusterQuery),
    responses(
        (status = 200, body = ClusterList),
        (status = 404, body = ErrorBody, description = "Agent not found"),
    ),
)]
pub(super) async fn list_memory_clusters(
    State(memory): State<Memory>,
    Query(query): Query<ClusterQuery>,
) -> Result<Response, ApiError> {
    let (clusters, total) = memory.clusters(query.count()?, query.agent_id.as_deref()).await?;
    let mut pieces: Vec<Pieces> = Vec::new();
    for (index, cluster) in clusters.iter().enumerate() {
        // `episode_ids` is the last field and is streamed.
        let view = serde_json::to_string(&ClusterView::from(cluster)).unwrap_or_default();
        let opening = view.trim_end_matches("]}").to_owned();
        let comma = if index > 0 { "," } else { "" };
        pieces.push(stream::text(move || format!("{comma}{opening}")));
        pieces.push(stream::entries(memory.members(cluster), EpisodeId::clone, &EntryCount::default()));
        pieces.push(stream::text(|| "]}".to_owned()));
    }
    pieces.push(stream::text(move || format!("],\"total\":{total}}}")));
    let body = stream::body("{\"clusters\":[".to_owned(), futures_util::stream::iter(pieces).flatten().boxed()).await?;
    Ok(([stream::JSON], body).into_response())
}
