//! What the doctor asks a daemon on its own machine. The network cannot reach it.

use agentd_web::ApiError;
use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};

use crate::memory::check::MemoryCheck;
use crate::memory::service::Memory;

/// `POST /local/memory/check` compares the index and the figures with the rows.
pub fn local_routes(memory: Memory) -> Router {
    Router::new().route("/local/memory/check", post(check_memory)).with_state(memory)
}

async fn check_memory(State(memory): State<Memory>) -> Result<Json<MemoryCheck>, ApiError> {
    Ok(Json(memory.check().await?))
}
