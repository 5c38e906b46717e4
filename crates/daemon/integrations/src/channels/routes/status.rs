//! Handlers for the status of platforms and tests.

use agentd_base::Timestamp;
use agentd_web::{ApiError, ErrorBody, Json, Path};
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::channels::error::platform_of;
use crate::channels::model::ChannelMode;
use crate::channels::service::{ChannelStatus, ChannelSummary, Channels};

/// Chat platform with its status.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ChannelView {
    /// Platform: `discord`, `slack`, `telegram`, `whatsapp`, `teams` or `google_chat`.
    platform: &'static str,
    /// Whether messages are received and sent.
    enabled: bool,
    /// Method of receiving messages.
    mode: ChannelMode,
    /// Id or `svc_name` of the agent that answers; null for the default agent.
    #[schema(required)]
    agent_id: Option<String>,
    /// Current status of the channel.
    status: ChannelStatus,
    /// Webhook URL to configure on the platform.
    webhook_url: String,
    /// Time at which the last message was received; null if there was none.
    #[schema(required)]
    last_received_at: Option<Timestamp>,
    /// Reason why the last message was not sent or the connection failed; null after a success.
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

/// All chat platforms.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ChannelList {
    /// One entry for each of the six platforms.
    channels: Vec<ChannelView>,
}

/// List channels
///
/// Returns all chat platforms with their status.
#[utoipa::path(get, path = "/api/channels", tag = "channels", responses((status = 200, body = ChannelList)))]
pub(super) async fn list_channels(State(channels): State<Channels>) -> Result<Json<ChannelList>, ApiError> {
    Ok(Json(ChannelList { channels: channels.list().await?.into_iter().map(Into::into).collect() }))
}

/// Destination of a test message.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct TestChannel {
    /// Channel id on the platform, 1 to 500 characters: the part of a delivery target after the colon.
    #[schema(min_length = 1, max_length = 500, example = "123456789")]
    channel: String,
}

/// Result of a test message.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ChannelTested {
    /// Always true; failures are returned as errors.
    ok: bool,
    /// Id of the message on the platform.
    message_id: String,
}

/// Test a channel
///
/// Sends a greeting immediately and returns the platform's response.
#[utoipa::path(
    post, path = "/api/channels/{platform}/test", tag = "channels", request_body = TestChannel,
    params(("platform" = String, Path, description = "Id of the platform")),
    responses(
        (status = 200, body = ChannelTested),
        (status = 409, body = ErrorBody, description = "Required settings are missing"),
        (status = 502, body = ErrorBody, description = "The platform rejected the message; `error` contains its reason"),
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

/// Result of a registration.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ChannelRegistered {
    /// Registered webhook URL, or the registered commands.
    registered: String,
}

/// Register with a platform
///
/// Registers the webhook URL with Telegram, or the bot commands with Discord. Other platforms are configured on their
/// own websites.
#[utoipa::path(
    post, path = "/api/channels/{platform}/register", tag = "channels",
    params(("platform" = String, Path, description = "Id of the platform")),
    responses(
        (status = 200, body = ChannelRegistered),
        (status = 409, body = ErrorBody, description = "Required settings are missing"),
        (status = 502, body = ErrorBody, description = "The platform rejected the request; `error` contains its reason"),
    ),
)]
pub(super) async fn register_channel(
    State(channels): State<Channels>,
    Path(platform): Path<String>,
) -> Result<Json<ChannelRegistered>, ApiError> {
    Ok(Json(ChannelRegistered { registered: channels.register(platform_of(&platform)?).await? }))
}

/// Result of a credentials check.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ChannelChecked {
    /// Always true; failures are returned as errors.
    ok: bool,
    /// Id of the bot account on the platform.
    account_id: String,
    /// Display name of the bot account on the platform.
    account_name: String,
    /// Registered webhook URL; null if the platform does not report it.
    #[schema(required)]
    webhook_url: Option<String>,
    /// Last delivery error of the platform; null if the platform does not report one.
    #[schema(required)]
    last_error: Option<String>,
}

/// Check channel credentials
///
/// Verifies the stored credentials with the platform. Sends no message.
#[utoipa::path(
    post, path = "/api/channels/{platform}/check", tag = "channels",
    params(("platform" = String, Path, description = "Id of the platform")),
    responses(
        (status = 200, body = ChannelChecked),
        (status = 409, body = ErrorBody, description = "Required settings are missing"),
        (status = 502, body = ErrorBody, description = "The credentials are invalid or the platform is unavailable; `error` contains its reason"),
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
