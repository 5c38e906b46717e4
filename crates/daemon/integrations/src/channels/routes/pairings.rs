//! Handlers for pairings, senders and owners.

use agentd_base::{Page, PageLimits, Problems, Timestamp};
use agentd_web::{ApiError, Json, Path, Query};
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::channels::error::platform_of;
use crate::channels::model::{ApprovedSender, ApprovedSenders, Pairing};
use crate::channels::service::Channels;

/// Request of an unknown sender for approval.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct PairingView {
    /// Platform: `discord`, `slack`, `telegram`, `whatsapp`, `teams` or `google_chat`.
    platform: &'static str,
    /// Pairing code: eight capital letters and digits.
    code: String,
    /// Id of the sender on the platform.
    sender_id: String,
    /// Display name reported by the platform; chosen by the sender and not verified.
    sender_name: String,
    /// Time at which the sender asked for approval.
    requested_at: Timestamp,
    /// Time at which the code expires, one hour after the request.
    expires_at: Timestamp,
}

impl From<Pairing> for PairingView {
    fn from(pairing: Pairing) -> Self {
        Self {
            platform: pairing.platform.id(),
            code: pairing.code,
            sender_id: pairing.sender.id,
            sender_name: pairing.sender.name,
            requested_at: pairing.requested_at,
            expires_at: pairing.expires_at,
        }
    }
}

/// Page of open pairing requests.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct PairingList {
    /// Open pairing requests of this page, newest first.
    pairings: Vec<PairingView>,
    /// Number of open pairing requests on all pages.
    total: u64,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct PairingQuery {
    /// Maximum number of pairing requests to return, 1 to 200; default 50.
    #[param(minimum = 1, maximum = 200, default = json!(PageLimits::default().default))]
    limit: Option<i64>,
    /// Number of pairing requests to skip; default 0.
    #[param(minimum = 0, default = 0)]
    offset: Option<i64>,
}

/// List open pairing requests
///
/// Returns unknown senders who asked for approval, newest first.
#[utoipa::path(
    get, path = "/api/channels/pairings", tag = "channels", params(PairingQuery),
    responses((status = 200, body = PairingList)),
)]
pub(super) async fn list_pairings(
    State(channels): State<Channels>,
    Query(query): Query<PairingQuery>,
) -> Result<Json<PairingList>, ApiError> {
    let mut problems = Problems::new();
    let page = Page::checked(query.limit, query.offset, PageLimits::default(), &mut problems);
    problems.into_result().map_err(ApiError::invalid)?;
    let (pairings, total) = channels.pairings(page).await?;
    Ok(Json(PairingList { pairings: pairings.into_iter().map(Into::into).collect(), total }))
}

/// Approved sender.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SenderView {
    /// Platform: `discord`, `slack`, `telegram`, `whatsapp`, `teams` or `google_chat`.
    platform: &'static str,
    /// Id of the sender on the platform.
    id: String,
    /// Display name reported by the platform when the sender was approved.
    name: String,
    /// Time of the approval.
    approved_at: Timestamp,
    /// Whether the sender decides approvals in chats of the platform.
    is_owner: bool,
}

impl From<ApprovedSender> for SenderView {
    fn from(approved: ApprovedSender) -> Self {
        Self {
            platform: approved.platform.id(),
            id: approved.sender.id,
            name: approved.sender.name,
            approved_at: approved.approved_at,
            is_owner: approved.is_owner,
        }
    }
}

/// Approve a pairing code
///
/// The sender is notified, and later messages reach the agent; earlier ones do not. The first approved sender of a
/// platform becomes its owner, who decides approvals in its chats.
#[utoipa::path(
    post, path = "/api/channels/{platform}/pairings/{code}/approve", tag = "channels",
    params(
        ("platform" = String, Path, description = "Id of the platform"),
        ("code" = String, Path, description = "Pairing code, case-insensitive"),
    ),
    responses((status = 200, body = SenderView)),
)]
pub(super) async fn approve_pairing(
    State(channels): State<Channels>,
    Path((platform, code)): Path<(String, String)>,
) -> Result<Json<SenderView>, ApiError> {
    Ok(Json(channels.approve(platform_of(&platform)?, &code).await?.into()))
}

/// Result of refusing or removing a sender.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SenderRemoved {
    /// Always true.
    deleted: bool,
}

/// Refuse a pairing code
///
/// The sender is not notified and gets no other code until the code expires.
#[utoipa::path(
    delete, path = "/api/channels/{platform}/pairings/{code}", tag = "channels",
    params(
        ("platform" = String, Path, description = "Id of the platform"),
        ("code" = String, Path, description = "Pairing code, case-insensitive"),
    ),
    responses((status = 200, body = SenderRemoved)),
)]
pub(super) async fn refuse_pairing(
    State(channels): State<Channels>,
    Path((platform, code)): Path<(String, String)>,
) -> Result<Json<SenderRemoved>, ApiError> {
    channels.refuse(platform_of(&platform)?, &code).await?;
    Ok(Json(SenderRemoved { deleted: true }))
}

/// Approved senders of a platform.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SenderList {
    /// Approved senders, without those that are only in `allowed_senders`.
    senders: Vec<SenderView>,
    /// Number of approved senders.
    total: u64,
    /// Id of the owner, who may also be one of `allowed_senders`; `null` if no sender decides approvals in chats.
    #[schema(required)]
    owner_id: Option<String>,
}

/// List approved senders
///
/// Sorted by approval time, oldest first.
#[utoipa::path(
    get, path = "/api/channels/{platform}/senders", tag = "channels",
    params(("platform" = String, Path, description = "Id of the platform")),
    responses((status = 200, body = SenderList)),
)]
pub(super) async fn list_senders(
    State(channels): State<Channels>,
    Path(platform): Path<String>,
) -> Result<Json<SenderList>, ApiError> {
    let ApprovedSenders { senders, owner_id } = channels.senders(platform_of(&platform)?).await?;
    let total = senders.len() as u64;
    Ok(Json(SenderList { senders: senders.into_iter().map(Into::into).collect(), total, owner_id }))
}

/// Owner to set.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct SetOwner {
    /// Id of an approved sender or of one in `allowed_senders`; null removes the owner.
    #[schema(required, min_length = 1, max_length = 512)]
    sender_id: Option<String>,
}

/// Owner of a platform.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct OwnerView {
    /// Platform: `discord`, `slack`, `telegram`, `whatsapp`, `teams` or `google_chat`.
    platform: &'static str,
    /// Id of the owner on the platform; null if there is none.
    #[schema(required)]
    owner_id: Option<String>,
}

/// Set the owner of a platform
///
/// Only the owner can approve or reject actions of agents in chats of the platform.
#[utoipa::path(
    put, path = "/api/channels/{platform}/owner", tag = "channels", request_body = SetOwner,
    params(("platform" = String, Path, description = "Id of the platform")),
    responses((status = 200, body = OwnerView)),
)]
pub(super) async fn set_channel_owner(
    State(channels): State<Channels>,
    Path(platform): Path<String>,
    Json(SetOwner { sender_id }): Json<SetOwner>,
) -> Result<Json<OwnerView>, ApiError> {
    let platform = platform_of(&platform)?;
    channels.set_owner(platform, sender_id.clone()).await?;
    Ok(Json(OwnerView { platform: platform.id(), owner_id: sender_id }))
}

/// Remove an approved sender
///
/// The sender becomes unknown again. If it was the owner, the platform has no owner.
#[utoipa::path(
    delete, path = "/api/channels/{platform}/senders/{id}", tag = "channels",
    params(
        ("platform" = String, Path, description = "Id of the platform"),
        ("id" = String, Path, description = "Id of the sender"),
    ),
    responses((status = 200, body = SenderRemoved)),
)]
pub(super) async fn remove_sender(
    State(channels): State<Channels>,
    Path((platform, id)): Path<(String, String)>,
) -> Result<Json<SenderRemoved>, ApiError> {
    channels.remove_sender(platform_of(&platform)?, &id).await?;
    Ok(Json(SenderRemoved { deleted: true }))
}
