//! How the platforms are, and trying one out.

use agentd_base::Timestamp;
use agentd_web::{ApiError, ErrorBody, Json, Path};
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::channels::error::platform_of;
use crate::channels::model::ChannelMode;
use crate::channels::service::{ChannelStatus, ChannelSummary, Channels};

/// A chat platform.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ChannelView {
    platform: &'static str,
    enabled: bool,
    mode: ChannelMode,
    #[schema(required)]
    agent_id: Option<String>,
    status: ChannelStatus,
    /// What to enter at the platform.
    webhook_url: String,
    #[schema(required)]
    last_received_at: Option<Timestamp>,
    /// Why the last message did not go out, or why there is no connection.
    #[schema(required)]
    last_error: Option<String>,
}

impl From<ChannelSummary> for ChannelView {
    fn from(channel: ChannelSummary) -> Self {
        Self {
            platform: channel.platform.id(),
            enabled: channel.enabled,
            mode: channel.mode,
            agent_id: channel.agent_id,
            status: channel.status,
            webhook_url: channel.webhook_url,
            last_received_at: channel.last_received_at,
            last_error: channel.last_error,
        }
    }
}

/// Every chat platform.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ChannelList {
    channels: Vec<ChannelView>,
}

/// Every chat platform, and how it is
#[utoipa::path(get, path = "/api/channels", tag = "channels", responses((status = 200, body = ChannelList)))]
pub(super) async fn list_channels(State(channels): State<Channels>) -> Result<Json<ChannelList>, ApiError> {
    Ok(Json(ChannelList { channels: channels.list().await?.into_iter().map(Into::into).collect() }))
}

/// Where a greeting goes.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct TestChannel {
    /// What stands behind the colon of a target.
    #[schema(min_length = 1, max_length = 500, example = "123456789")]
    channel: String,
}

/// What the platform said.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ChannelTested {
    ok: bool,
    /// What the platform knows the greeting by.
    message_id: String,
}

/// Send a greeting
///
/// At once, and answers what the platform says.
#[utoipa::path(
    post, path = "/api/channels/{platform}/test", tag = "channels", request_body = TestChannel,
    params(("platform" = String, Path, description = "As in the list")),
    responses(
        (status = 200, body = ChannelTested),
        (status = 409, body = ErrorBody, description = "What sending takes is not set"),
        (status = 502, body = ErrorBody, description = "The platform did not take it; its words stand in `message`"),
    ),
)]
pub(super) async fn test_channel(
    State(channels): State<Channels>,
    Path(platform): Path<String>,
    Json(body): Json<TestChannel>,
) -> Result<Json<ChannelTested>, ApiError> {
    let sent = channels.test(platform_of(&platform)?, &body.channel).await?;
    Ok(Json(ChannelTested { ok: true, message_id: sent.id }))
}

/// What a platform was told.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ChannelRegistered {
    /// The address of the webhook, or the bot's commands.
    registered: String,
}

/// Tell a platform where this daemon is, or which commands its bot has
///
/// Telegram gets the address of the webhook, Discord the commands of its bot; the other platforms are told on their own
/// pages.
#[utoipa::path(
    post, path = "/api/channels/{platform}/register", tag = "channels",
    params(("platform" = String, Path, description = "As in the list")),
    responses(
        (status = 200, body = ChannelRegistered),
        (status = 409, body = ErrorBody, description = "What that takes is not set"),
        (status = 502, body = ErrorBody, description = "The platform did not take it; its words stand in `message`"),
    ),
)]
pub(super) async fn register_channel(
    State(channels): State<Channels>,
    Path(platform): Path<String>,
) -> Result<Json<ChannelRegistered>, ApiError> {
    Ok(Json(ChannelRegistered { registered: channels.register(platform_of(&platform)?).await? }))
}

/// What a platform says of the credentials.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ChannelChecked {
    ok: bool,
    /// The bot's own id there.
    account_id: String,
    account_name: String,
    /// Where the platform sends messages, where it tells.
    #[schema(required)]
    webhook_url: Option<String>,
    /// What went wrong when the platform last sent, where it tells.
    #[schema(required)]
    last_error: Option<String>,
}

/// Ask a platform whether the credentials hold
#[utoipa::path(
    post, path = "/api/channels/{platform}/check", tag = "channels",
    params(("platform" = String, Path, description = "As in the list")),
    responses(
        (status = 200, body = ChannelChecked),
        (status = 409, body = ErrorBody, description = "What that takes is not set"),
        (status = 502, body = ErrorBody, description = "They do not hold, or the platform is away; its words stand in `message`"),
    ),
)]
pub(super) async fn check_channel(
    State(channels): State<Channels>,
    Path(platform): Path<String>,
) -> Result<Json<ChannelChecked>, ApiError> {
    let account = channels.check(platform_of(&platform)?).await?;
    Ok(Json(ChannelChecked {
        ok: true,
        account_id: account.id,
        account_name: account.name,
        webhook_url: account.webhook_url,
        last_error: account.last_error,
    }))
}
