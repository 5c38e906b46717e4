//! Handler for memory statistics.

use std::collections::BTreeMap;

use agentd_web::{Answer, Json};
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::memory::service::{Memory, Statistics};

/// Usage of recalled episodes.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RecallFeedback {
    /// Number of episodes recalled before answers, counted each time.
    total_recalls: u64,
    /// Number of recalls that the answer used.
    used_count: u64,
    /// Number of recalls that the answer did not use.
    ignored_count: u64,
    /// Share of used recalls from 0 to 1; 0 before the first recall.
    usage_rate: f64,
}

/// Totals and distributions of memory.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct MemoryStats {
    /// Number of episodes.
    total_episodes: u64,
    /// Number of entities that the episodes mention.
    total_entities: u64,
    /// Number of relations between entities.
    total_relations: u64,
    /// Average importance from 0 to 1; 0 without episodes.
    avg_importance: f64,
    /// Average valence from -1 (negative) to 1 (positive); 0 without episodes.
    avg_valence: f64,
    /// Number of episodes per tenth of importance: 0 to 0.1, 0.1 to 0.2, and so on.
    #[schema(min_items = 10, max_items = 10)]
    importance_distribution: Vec<u64>,
    /// Number of episodes per `source`.
    source_distribution: BTreeMap<String, u64>,
    /// Number of entities per `type`.
    entity_type_distribution: BTreeMap<String, u64>,
    recall_feedback: RecallFeedback,
    /// Reason why no entities are extracted from new episodes; null if they are.
    entity_extraction_problem: Option<String>,
}

impl MemoryStats {
    fn new(statistics: Statistics, entity_extraction_problem: Option<String>) -> Self {
        Self {
            entity_extraction_problem,
            total_episodes: statistics.episodes,
            total_entities: statistics.entities_of_type.values().sum(),
            total_relations: statistics.relations,
            avg_importance: statistics.average_importance,
            avg_valence: statistics.average_valence,
            importance_distribution: statistics.importance.to_vec(),
            source_distribution: statistics.sources,
            entity_type_distribution: statistics.entities_of_type,
            recall_feedback: RecallFeedback {
                total_recalls: statistics.recalled,
                used_count: statistics.used,
                ignored_count: statistics.recalled.saturating_sub(statistics.used),
                usage_rate: ratio(statistics.used, statistics.recalled),
            },
        }
    }
}

#[allow(clippy::cast_precision_loss, reason = "a share")]
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Get memory statistics
///
/// All counts are exact.
#[utoipa::path(get, path = "/api/memory/stats", tag = "memory", responses((status = 200, body = MemoryStats)))]
pub(super) async fn get_memory_stats(State(memory): State<Memory>) -> Answer<MemoryStats> {
    Ok(Json(MemoryStats::new(memory.statistics().await?, memory.entity_extraction_problem().await)))
}
