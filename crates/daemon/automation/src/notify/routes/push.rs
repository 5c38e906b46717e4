//! `/api/notifications/push`: the devices that are woken.

use agentd_base::{Secret, Timestamp};
use agentd_core::runtime::record_once;
use agentd_web::{Answer, ApiError, ErrorBody, IdempotencyKey, Json, Path};
use axum::extract::State;
use http::header::USER_AGENT;
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::notify::push::{NewSubscription, PushSubscription, PushSubscriptionId};
use crate::notify::service::Notify;

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct PushKey {
    /// A point on P-256, in base64url: the `applicationServerKey` of `PushManager.subscribe`.
    public_key: String,
}

#[derive(Debug, Deserialize, ToSchema)]
struct PushKeys {
    /// The browser's public key, a point on P-256 of 65 bytes, in base64url.
    #[schema(min_length = 1, max_length = 128)]
    p256dh: String,
    /// 16 bytes that the browser shares with whoever may send to it, in base64url.
    #[schema(value_type = String, min_length = 1, max_length = 64, write_only)]
    auth: Secret,
}

/// As `PushSubscription.toJSON()` gives it in a browser.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct NewPushSubscription {
    /// The address at the browser's push service, https.
    #[schema(value_type = String, min_length = 1, max_length = 2_048, write_only)]
    endpoint: Secret,
    #[schema(inline)]
    keys: PushKeys,
}

/// A device that is woken; its address and keys are never shown.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PushSubscription)]
pub(super) struct SubscriptionView {
    id: PushSubscriptionId,
    /// SHA-256 of the address, in hex: by it a browser knows which one it is itself.
    endpoint_sha256: String,
    /// Scheme and host of its push service.
    service: String,
    /// What its browser called itself.
    user_agent: String,
    created_at: Timestamp,
    last_success_at: Option<Timestamp>,
    last_failure_at: Option<Timestamp>,
    /// What went wrong last; `null` since the last success.
    last_error: Option<String>,
}

impl From<&PushSubscription> for SubscriptionView {
    fn from(kept: &PushSubscription) -> Self {
        Self {
            id: kept.id.clone(),
            endpoint_sha256: kept.endpoint_sha256.clone(),
            service: kept.service.clone(),
            user_agent: kept.user_agent.clone(),
            created_at: kept.created_at,
            last_success_at: kept.last_success_at,
            last_failure_at: kept.last_failure_at,
            last_error: kept.last_error.clone(),
        }
    }
}

/// The newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct PushSubscriptionList {
    subscriptions: Vec<SubscriptionView>,
    total: usize,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct PushSubscriptionDeleted {
    /// Always true.
    deleted: bool,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct PushTested {
    /// Always true.
    sent: bool,
}

/// The key that browsers subscribe with
///
/// The daemon signs by it what it sends to push services (RFC 8292). It is made once.
#[utoipa::path(
    get, path = "/api/notifications/push/key", tag = "notifications",
    responses((status = 200, body = PushKey)),
)]
pub(super) async fn get_push_key(State(notify): State<Notify>) -> Answer<PushKey> {
    Ok(Json(PushKey { public_key: notify.push().public_key().await? }))
}

/// The devices that are woken
#[utoipa::path(
    get, path = "/api/notifications/push/subscriptions", tag = "notifications",
    responses((status = 200, body = PushSubscriptionList)),
)]
pub(super) async fn list_push_subscriptions(State(notify): State<Notify>) -> Answer<PushSubscriptionList> {
    let subscriptions: Vec<_> = notify.push().list().await?.iter().map(SubscriptionView::from).collect();
    Ok(Json(PushSubscriptionList { total: subscriptions.len(), subscriptions }))
}

/// Wake a device
///
/// By Web Push (RFC 8030), when an approval is asked for, an alert fires, or a message has the target `push:`; see the
/// proactive settings. 50 devices at most; a subscription of the same address takes the place of the one before.
#[utoipa::path(
    post, path = "/api/notifications/push/subscriptions", tag = "notifications", request_body = NewPushSubscription,
    params(IdempotencyKey),
    responses(
        (status = 201, body = SubscriptionView),
        (status = 409, body = ErrorBody, description = "`too_many_devices`"),
    ),
)]
pub(super) async fn create_push_subscription(
    State(notify): State<Notify>,
    once: IdempotencyKey,
    headers: HeaderMap,
    Json(new): Json<NewPushSubscription>,
) -> Result<(StatusCode, Json<SubscriptionView>), ApiError> {
    let user_agent = headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default().to_owned();
    let PushKeys { p256dh, auth } = new.keys;
    let new = NewSubscription { endpoint: new.endpoint, p256dh, auth, user_agent };
    let recorder = record_once(&once, StatusCode::CREATED, |kept: &PushSubscription| SubscriptionView::from(kept));
    let kept = notify.push().subscribe(new, recorder).await?;
    Ok((StatusCode::CREATED, Json(SubscriptionView::from(&kept))))
}

/// Wake a device no more
#[utoipa::path(
    delete, path = "/api/notifications/push/subscriptions/{id}", tag = "notifications",
    params(("id" = String, Path, description = "As in the list")),
    responses((status = 200, body = PushSubscriptionDeleted)),
)]
pub(super) async fn delete_push_subscription(
    State(notify): State<Notify>,
    Path(id): Path<PushSubscriptionId>,
) -> Answer<PushSubscriptionDeleted> {
    notify.push().remove(&id).await?;
    Ok(Json(PushSubscriptionDeleted { deleted: true }))
}

/// Send a test message to a device
///
/// Answers when its push service has taken it, or what that said. A device that its push service has forgotten is
/// removed.
#[utoipa::path(
    post, path = "/api/notifications/push/subscriptions/{id}/test", tag = "notifications",
    params(("id" = String, Path, description = "As in the list"), IdempotencyKey),
    responses(
        (status = 200, body = PushTested),
        (status = 502, body = ErrorBody, description = "`push_refused`: the push service has not taken it"),
    ),
)]
pub(super) async fn test_push_subscription(
    State(notify): State<Notify>,
    once: IdempotencyKey,
    Path(id): Path<PushSubscriptionId>,
) -> Answer<PushTested> {
    let recorder = record_once(&once, StatusCode::OK, |(): &()| PushTested { sent: true });
    notify.push().send_test(&id, recorder).await?;
    Ok(Json(PushTested { sent: true }))
}
