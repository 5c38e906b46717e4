//! `/api/notifications/push`: push devices.

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

/// Public key for push subscriptions.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct PushKey {
    /// Public key, a P-256 point in base64url: the `applicationServerKey` of `PushManager.subscribe`.
    public_key: String,
}

/// Keys of a push subscription.
#[derive(Debug, Deserialize, ToSchema)]
struct PushKeys {
    /// Public key of the browser, a P-256 point of 65 bytes in base64url.
    #[schema(min_length = 1, max_length = 128)]
    p256dh: String,
    /// Authentication secret of the browser, 16 bytes in base64url.
    #[schema(value_type = String, min_length = 1, max_length = 64, write_only)]
    auth: Secret,
}

/// Subscription as returned by `PushSubscription.toJSON()` in a browser.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct NewPushSubscription {
    /// URL at the browser's push service, at most 2,048 characters. Must use HTTPS, except on the local machine.
    #[schema(value_type = String, min_length = 1, max_length = 2_048, write_only)]
    endpoint: Secret,
    /// Keys of the browser that encrypt the messages.
    #[schema(inline)]
    keys: PushKeys,
}

/// A push device. Its address and keys are never shown.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PushSubscription)]
pub(super) struct SubscriptionView {
    id: PushSubscriptionId,
    /// SHA-256 of the address in hex, by which a browser identifies its own subscription.
    endpoint_sha256: String,
    /// Scheme and host of the push service, such as `https://fcm.googleapis.com`.
    service: String,
    /// `User-Agent` of the browser at registration, truncated to 300 characters.
    user_agent: String,
    /// Time of the last registration of the device.
    created_at: Timestamp,
    /// Time at which the push service last accepted a message; null if it never did.
    last_success_at: Option<Timestamp>,
    /// Time of the last failed request to the push service; null if none failed.
    last_failure_at: Option<Timestamp>,
    /// Error of the last request; null if it succeeded or none was sent.
    last_error: Option<String>,
}

impl From<&PushSubscription> for SubscriptionView {
    fn from(stored: &PushSubscription) -> Self {
        Self {
            id: stored.id.clone(),
            endpoint_sha256: stored.endpoint_sha256.clone(),
            service: stored.service.clone(),
            user_agent: stored.user_agent.clone(),
            created_at: stored.created_at,
            last_success_at: stored.last_success_at,
            last_failure_at: stored.last_failure_at,
            last_error: stored.last_error.clone(),
        }
    }
}

/// List of all push devices.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct PushSubscriptionList {
    /// Push devices, newest first.
    subscriptions: Vec<SubscriptionView>,
    /// Number of push devices, at most 50.
    total: usize,
}

/// Result of removing a push device.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct PushSubscriptionDeleted {
    /// Always true.
    deleted: bool,
}

/// Result of a push test.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct PushTested {
    /// Always true.
    sent: bool,
}

/// Get the push public key
///
/// Returns the public key that browsers subscribe with. The daemon uses the key pair to sign requests to push services
/// (RFC 8292). The key pair is created once.
#[utoipa::path(
    get, path = "/api/notifications/push/key", tag = "notifications",
    responses((status = 200, body = PushKey)),
)]
pub(super) async fn get_push_key(State(notify): State<Notify>) -> Answer<PushKey> {
    Ok(Json(PushKey { public_key: notify.push().public_key().await? }))
}

/// List push devices
#[utoipa::path(
    get, path = "/api/notifications/push/subscriptions", tag = "notifications",
    responses((status = 200, body = PushSubscriptionList)),
)]
pub(super) async fn list_push_subscriptions(State(notify): State<Notify>) -> Answer<PushSubscriptionList> {
    let subscriptions: Vec<_> = notify.push().list().await?.iter().map(SubscriptionView::from).collect();
    Ok(Json(PushSubscriptionList { total: subscriptions.len(), subscriptions }))
}

/// Register a push device
///
/// The device receives Web Push messages (RFC 8030) for approval requests, alerts, and messages with the target
/// `push:`, depending on the proactive settings. At most 50 devices can be registered. A subscription with a known
/// address replaces the previous one.
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
    let recorder = record_once(&once, StatusCode::CREATED, |stored: &PushSubscription| SubscriptionView::from(stored));
    let stored = notify.push().subscribe(new, recorder).await?;
    Ok((StatusCode::CREATED, Json(SubscriptionView::from(&stored))))
}

/// Remove a push device
#[utoipa::path(
    delete, path = "/api/notifications/push/subscriptions/{id}", tag = "notifications",
    params(("id" = String, Path, description = "Push device id")),
    responses((status = 200, body = PushSubscriptionDeleted)),
)]
pub(super) async fn delete_push_subscription(
    State(notify): State<Notify>,
    Path(id): Path<PushSubscriptionId>,
) -> Answer<PushSubscriptionDeleted> {
    notify.push().remove(&id).await?;
    Ok(Json(PushSubscriptionDeleted { deleted: true }))
}

/// Test a push device
///
/// Responds once the push service has accepted the message, or with its error. A device whose subscription has expired
/// at the push service is removed.
#[utoipa::path(
    post, path = "/api/notifications/push/subscriptions/{id}/test", tag = "notifications",
    params(("id" = String, Path, description = "Push device id"), IdempotencyKey),
    responses(
        (status = 200, body = PushTested),
        (status = 502, body = ErrorBody, description = "`push_refused`: the push service rejected the message"),
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
