//! `/api/notifications` and `/api/settings/email/test`.

mod push;

use agentd_base::{PageLimits, Problems, Timestamp};
use agentd_core::runtime::record_once;
use agentd_web::{Answer, ApiError, ApiRouter, ErrorBody, IdempotencyKey, Json, Path, Query, Routes, routes};
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::notify::model::{MessageFormat, NotificationId, NotificationStatus, StoredNotification, redact_channel};
use crate::notify::service::Notify;

#[must_use]
pub(super) fn routes() -> Routes<Notify> {
    Routes::new().protected(
        ApiRouter::new()
            .routes(routes!(test_email_settings))
            .routes(routes!(list_notifications))
            .routes(routes!(get_notification))
            .routes(routes!(retry_notification))
            .routes(routes!(push::get_push_key))
            .routes(routes!(push::list_push_subscriptions, push::create_push_subscription))
            .routes(routes!(push::delete_push_subscription))
            .routes(routes!(push::test_push_subscription)),
    )
}

/// Recipient of a test email.
#[derive(Debug, Deserialize, ToSchema)]
struct EmailTest {
    /// Email address of the recipient. Default: the `email` of the profile.
    #[serde(default)]
    #[schema(min_length = 3, max_length = 254)]
    to: Option<String>,
}

/// Result of a test email.
#[derive(Debug, Serialize, ToSchema)]
struct EmailTested {
    /// Always true.
    sent: bool,
}

/// Test the email settings
///
/// Sends an email with the current settings and responds once the mail server has accepted it. An error names the
/// failed step: connection, TLS, authentication, or a rejected address.
#[utoipa::path(
    post, path = "/api/settings/email/test", tag = "settings", request_body = EmailTest,
    params(IdempotencyKey),
    responses(
        (status = 200, body = EmailTested),
        (status = 502, body = ErrorBody, description = "The mail server is unreachable or rejected the email"),
        (status = 503, body = ErrorBody, description = "Email is disabled or its settings are incomplete"),
    ),
)]
async fn test_email_settings(
    State(notify): State<Notify>,
    once: IdempotencyKey,
    Json(test): Json<EmailTest>,
) -> Answer<EmailTested> {
    let recorder = record_once(&once, StatusCode::OK, |(): &()| EmailTested { sent: true });
    notify.send_test_email(test.to.as_deref().map(str::trim), recorder).await?;
    Ok(Json(EmailTested { sent: true }))
}

const UNKNOWN_PLATFORM: &str = "must be `email`, `webhook`, `push`, or a platform of GET /api/channels";

/// A notification without its body.
#[derive(Debug, Serialize, ToSchema)]
struct NotificationView {
    id: NotificationId,
    /// `email`, `webhook`, `push`, or the name of a chat platform.
    platform: String,
    /// Address of the recipient: for a webhook only scheme and host, for `push` the device id, or empty for all
    /// devices.
    channel: String,
    /// Subject of the message: one line of at most 300 characters.
    subject: String,
    /// Format of the body.
    format: MessageFormat,
    /// Status of the notification.
    status: NotificationStatus,
    /// Number of attempts since the last manual retry.
    attempt_count: u32,
    /// Time of the next attempt; null if no attempt is scheduled.
    next_attempt_at: Option<Timestamp>,
    /// Identifier of the message at the recipient, such as the `Message-ID` of an email; null until it is sent.
    reference: Option<String>,
    /// Error of the last failed attempt; null if no attempt failed.
    error: Option<String>,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl From<&StoredNotification> for NotificationView {
    fn from(stored: &StoredNotification) -> Self {
        Self {
            id: stored.id.clone(),
            platform: stored.platform.clone(),
            channel: redact_channel(&stored.platform, &stored.channel),
            subject: stored.subject.clone(),
            format: stored.format,
            status: stored.status,
            attempt_count: stored.attempt_count,
            next_attempt_at: stored.next_attempt_at,
            reference: stored.reference.clone(),
            error: stored.error.clone(),
            created_at: stored.created_at,
            updated_at: stored.updated_at,
        }
    }
}

/// A notification with its body.
#[derive(Debug, Serialize, ToSchema)]
struct NotificationWithBody {
    #[serde(flatten)]
    notification: NotificationView,
    /// Body in the format named by `format`, at most 262,144 bytes.
    body: String,
}

/// Page of notifications, newest first.
#[derive(Debug, Serialize, ToSchema)]
struct NotificationList {
    /// Notifications of this page.
    notifications: Vec<NotificationView>,
    /// Total number of matches on all pages.
    total: u64,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct NotificationQuery {
    /// Returns only notifications in this state.
    #[param(inline)]
    status: Option<NotificationStatus>,
    /// Returns only notifications of this platform: `email`, `webhook`, `push`, or a chat platform.
    #[param(max_length = 64)]
    platform: Option<String>,
    /// Maximum number of notifications to return, 1 to 200. Default: 50.
    #[param(minimum = 1, maximum = 200, default = json!(PageLimits::default().default))]
    limit: Option<i64>,
    /// Number of notifications to skip. Default: 0.
    #[param(minimum = 0, default = 0)]
    offset: Option<i64>,
}

/// List notifications
///
/// Returns messages of the scheduler, alerts, hooks and agents to external recipients, newest first. Completed messages
/// are retained for 30 days.
#[utoipa::path(
    get, path = "/api/notifications", tag = "notifications", params(NotificationQuery),
    responses((status = 200, body = NotificationList)),
)]
async fn list_notifications(
    State(notify): State<Notify>,
    Query(query): Query<NotificationQuery>,
) -> Answer<NotificationList> {
    let mut problems = Problems::new();
    let page = agentd_base::Page::checked(query.limit, query.offset, PageLimits::default(), &mut problems);
    if let Some(platform) = query.platform.as_deref() {
        problems.require(notify.knows_platform(platform), "platform", UNKNOWN_PLATFORM);
    }
    problems.into_result().map_err(ApiError::invalid)?;
    let (notifications, total) = notify.list(query.status, query.platform.as_deref(), page).await?;
    Ok(Json(NotificationList { notifications: notifications.iter().map(NotificationView::from).collect(), total }))
}

/// Get a notification
///
/// Returns the notification with its body.
#[utoipa::path(
    get, path = "/api/notifications/{id}", tag = "notifications",
    params(("id" = String, Path, description = "Notification id")),
    responses((status = 200, body = NotificationWithBody)),
)]
async fn get_notification(
    State(notify): State<Notify>,
    Path(id): Path<NotificationId>,
) -> Answer<NotificationWithBody> {
    let stored = notify.get(&id).await?;
    Ok(Json(NotificationWithBody { notification: NotificationView::from(&stored), body: stored.body }))
}

/// Retry a notification
///
/// Requeues a dead letter for immediate sending, and resets its attempt count.
#[utoipa::path(
    post, path = "/api/notifications/{id}/retry", tag = "notifications",
    params(("id" = String, Path, description = "Notification id"), IdempotencyKey),
    responses(
        (status = 200, body = NotificationView),
        (status = 409, body = ErrorBody, description = "The notification is not a dead letter"),
    ),
)]
async fn retry_notification(
    State(notify): State<Notify>,
    once: IdempotencyKey,
    Path(id): Path<NotificationId>,
) -> Answer<NotificationView> {
    let recorder = record_once(&once, StatusCode::OK, |stored: &StoredNotification| NotificationView::from(stored));
    Ok(Json(NotificationView::from(&notify.retry(id, recorder).await?)))
}
