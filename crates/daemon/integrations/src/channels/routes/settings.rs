//! Handlers for channel settings.

use std::sync::Arc;

use agentd_core::settings::PartialObject;
use agentd_web::{Answer, Json};
use axum::extract::State;

use crate::channels::model::{ChannelPatch, ChannelSettings};
use crate::channels::service::Channels;

/// Get channel settings
///
/// Secrets are returned as `{"set": true}`.
#[utoipa::path(
    get, path = "/api/channels/settings", tag = "channels",
    responses((status = 200, body = ChannelSettings)),
)]
pub(super) async fn get_channel_settings(State(channels): State<Channels>) -> Answer<Arc<ChannelSettings>> {
    Ok(Json(channels.dependencies().settings.get().await?))
}

/// Update channel settings
///
/// Accepts any subset of the fields of any platforms and returns all settings. Changes apply immediately. `null` clears
/// optional fields. Unknown platforms and fields are rejected.
#[utoipa::path(
    put, path = "/api/channels/settings", tag = "channels", request_body = ChannelPatch,
    responses((status = 200, body = ChannelSettings)),
)]
pub(super) async fn update_channel_settings(
    State(channels): State<Channels>,
    Json(change): Json<PartialObject>,
) -> Answer<Arc<ChannelSettings>> {
    Ok(Json(channels.dependencies().settings.update(change).await?))
}
