//! Handlers for settings, export and deletion of all memory.

use std::sync::Arc;

use agentd_core::settings::PartialObject;
use agentd_web::{Answer, ApiError, Json};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_DISPOSITION};
use serde::Serialize;
use utoipa::ToSchema;

use super::stream::{self, EntryCount, entries, text, written_count};
use super::views::EpisodeView;
use crate::memory::model::Episode;
use crate::memory::service::Memory;
use crate::memory::settings::{MemoryPatch, MemorySettings};

/// Get memory settings
#[utoipa::path(get, path = "/api/settings/memory", tag = "settings", responses((status = 200, body = MemorySettings)))]
pub(super) async fn get_memory_settings(State(memory): State<Memory>) -> Answer<Arc<MemorySettings>> {
    Ok(Json(memory.settings().get().await?))
}

/// Update memory settings
///
/// Accepts any subset of the fields and returns all settings. Changes apply immediately. Unknown fields are rejected.
#[utoipa::path(
    put, path = "/api/settings/memory", tag = "settings", request_body = MemoryPatch,
    responses((status = 200, body = MemorySettings)),
)]
pub(super) async fn update_memory_settings(
    State(memory): State<Memory>,
    Json(change): Json<PartialObject>,
) -> Answer<Arc<MemorySettings>> {
    Ok(Json(memory.settings().update(change).await?))
}

/// Content of a memory export.
#[derive(Debug, Serialize, ToSchema)]
#[allow(dead_code, reason = "written piece by piece; this is its schema")]
pub(super) struct MemoryExport {
    /// Format version, currently `1`.
    format: u32,
    exported_at: agentd_base::Timestamp,
    /// All episodes, oldest first.
    episodes: Vec<EpisodeView>,
    /// Number of episodes.
    total: u64,
}

/// Export memory
///
/// Returns all episodes as one JSON file. The response is streamed.
#[utoipa::path(
    get, path = "/api/settings/memory/export", tag = "settings",
    responses((status = 200, body = MemoryExport, headers(
        ("Content-Disposition" = String, description = "File name, `agentd-memory.json`"),
    ))),
)]
pub(super) async fn export_memory(State(memory): State<Memory>) -> Result<Response, ApiError> {
    let now = memory.context().clock.now();
    let head = format!("{{\"format\":1,\"exported_at\":\"{now}\",\"episodes\":[");
    let written = EntryCount::default();
    let episodes = entries(memory.export(), |episode: &Episode| EpisodeView::from(episode), &written);
    let tail = text(move || format!("],\"total\":{}}}\n", written_count(&written)));
    let body = stream::body(head, episodes.chain(tail).boxed()).await?;
    let headers = [
        stream::JSON,
        (CONTENT_DISPOSITION, HeaderValue::from_static("attachment; filename=\"agentd-memory.json\"")),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    Ok((headers, body).into_response())
}

/// Result of clearing memory.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct MemoryCleared {
    /// Number of deleted episodes.
    cleared: u64,
}

/// Clear all memory
///
/// Permanently deletes all episodes, their vectors and the knowledge graph.
#[utoipa::path(
    delete, path = "/api/settings/memory/data", tag = "settings", responses((status = 200, body = MemoryCleared)),
)]
pub(super) async fn clear_memory(State(memory): State<Memory>) -> Answer<MemoryCleared> {
    Ok(Json(MemoryCleared { cleared: memory.clear().await? }))
}
