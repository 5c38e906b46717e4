//! What is set for each platform.

use std::sync::Arc;

use agentd_core::settings::PartialObject;
use agentd_web::{Answer, Json};
use axum::extract::State;

use crate::channels::model::{ChannelPatch, ChannelSettings};
use crate::channels::service::Channels;

/// What is set for each chat platform
///
/// Secrets are shown as `{"set": true}`.
#[utoipa::path(
    get, path = "/api/channels/settings", tag = "channels",
    responses((status = 200, body = ChannelSettings)),
)]
pub(super) async fn get_channel_settings(State(channels): State<Channels>) -> Answer<Arc<ChannelSettings>> {
    Ok(Json(channels.uses().settings.get().await?))
}

/// Changes what is set for chat platforms
///
/// Takes any fields of any platforms and answers the whole, in force from now on. `null` clears
/// what may be empty. A platform or a field that is not known is refused.
#[utoipa::path(
    put, path = "/api/channels/settings", tag = "channels", request_body = ChannelPatch,
    responses((status = 200, body = ChannelSettings)),
)]
pub(super) async fn update_channel_settings(
    State(channels): State<Channels>,
    Json(change): Json<PartialObject>,
) -> Answer<Arc<ChannelSettings>> {
    Ok(Json(channels.uses().settings.update(change).await?))
}
