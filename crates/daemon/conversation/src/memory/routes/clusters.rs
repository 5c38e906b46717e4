//! Groups of episodes.

use agentd_base::Problems;
use agentd_entities::cluster::{MAX_CLUSTERS, MIN_CLUSTERS};
use agentd_web::{ApiError, ErrorBody, Query};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::stream::{self, Pieces, Written};
use crate::memory::model::EpisodeId;
use crate::memory::service::{Cluster, Memory};

const DEFAULT_CLUSTERS: usize = 4;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ClusterQuery {
    /// Into how many clusters, at most.
    #[param(minimum = 2, maximum = 8, default = json!(DEFAULT_CLUSTERS))]
    n: Option<i64>,
    /// Only episodes of this agent (id or svc_name).
    agent_id: Option<String>,
}

/// Episodes that mean something alike.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ClusterView {
    /// The same until memory changes; `GET /api/memory/episodes?cluster_id=` takes it.
    id: String,
    /// The first keywords in one line.
    label: String,
    /// How many episodes it has.
    #[schema(minimum = 1)]
    size: u64,
    /// The words that tell it from the others, the most telling first.
    #[schema(max_items = 8)]
    keywords: Vec<String>,
    /// All of them: the 100 nearest to its centre first, then the others, the oldest first.
    episode_ids: Vec<EpisodeId>,
}

#[derive(Debug, Serialize, ToSchema)]
#[allow(dead_code, reason = "written piece by piece; this is its schema")]
pub(super) struct ClusterList {
    /// The largest first. Fewer than asked for where there are not so many different meanings.
    clusters: Vec<ClusterView>,
    /// How many episodes are in clusters: all that have a meaning to go by, which those that were stored without
    /// an embedding model get later.
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

/// Groups of episodes that mean something alike
///
/// The same memory always falls into the same clusters. Streamed: they name every episode.
#[utoipa::path(
    get, path = "/api/memory/clusters", tag = "memory", params(ClusterQuery),
    responses(
        (status = 200, body = ClusterList),
        (status = 404, body = ErrorBody, description = "There is no such agent"),
    ),
)]
pub(super) async fn list_memory_clusters(
    State(memory): State<Memory>,
    Query(query): Query<ClusterQuery>,
) -> Result<Response, ApiError> {
    let (clusters, total) = memory.clusters(query.count()?, query.agent_id.as_deref()).await?;
    let mut pieces: Vec<Pieces> = Vec::new();
    for (place, cluster) in clusters.iter().enumerate() {
        // The list of its episodes comes last, and is written as it is read.
        let view = serde_json::to_string(&ClusterView::from(cluster)).unwrap_or_default();
        let opening = view.trim_end_matches("]}").to_owned();
        let comma = if place > 0 { "," } else { "" };
        pieces.push(stream::text(move || format!("{comma}{opening}")));
        pieces.push(stream::entries(memory.members(cluster), EpisodeId::clone, &Written::default()));
        pieces.push(stream::text(|| "]}".to_owned()));
    }
    pieces.push(stream::text(move || format!("],\"total\":{total}}}")));
    let body = stream::body("{\"clusters\":[".to_owned(), futures_util::stream::iter(pieces).flatten().boxed()).await?;
    Ok(([stream::JSON], body).into_response())
}
