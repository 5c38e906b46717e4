//! `/api/channels`.

use std::sync::Arc;

use agentd_web::{ApiError, ApiRouter, Json, Routes, routes};
use axum::extract::State;

use super::model::{ChannelPatch, ChannelSettings};
use crate::settings::{PartialObject, Settings};

#[must_use]
pub fn routes() -> Routes<Settings> {
    Routes::new().protected(ApiRouter::new().routes(routes!(get_channel_settings, update_channel_settings)))
}

type Answer<T> = Result<Json<T>, ApiError>;

/// What is set for each chat platform
///
/// Secrets are shown as `{"set": true}`.
#[utoipa::path(
    get, path = "/api/channels/settings", tag = "channels",
    responses((status = 200, body = ChannelSettings)),
)]
async fn get_channel_settings(State(settings): State<Settings>) -> Answer<Arc<ChannelSettings>> {
    Ok(Json(settings.get().await?))
}

/// Changes what is set for chat platforms
///
/// Takes any fields of any platforms and answers the whole, in force from now on. `null` clears
/// what may be empty. A platform or a field that is not known is refused.
#[utoipa::path(
    put, path = "/api/channels/settings", tag = "channels", request_body = ChannelPatch,
    responses((status = 200, body = ChannelSettings)),
)]
async fn update_channel_settings(
    State(settings): State<Settings>,
    Json(change): Json<PartialObject>,
) -> Answer<Arc<ChannelSettings>> {
    Ok(Json(settings.update(change).await?))
}
