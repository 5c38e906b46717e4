//! `/api/memory`, and its settings.

mod clusters;
mod data;
mod episodes;
mod graph;
mod jobs;
mod search;
mod statistics;
mod stream;
mod views;

use agentd_web::{ApiError, ApiRouter, Routes, routes};
use axum::Router;
use axum::extract::State;
use axum::routing::post;

use super::check::MemoryCheck;
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
