//! `/api/notifications`, and the test of the mail server.

mod push;

use agentd_base::{PageLimits, Problems, Timestamp};
use agentd_core::runtime::record_once;
use agentd_web::{Answer, ApiError, ApiRouter, ErrorBody, IdempotencyKey, Json, Path, Query, Routes, routes};
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::notify::model::{MessageFormat, NotificationId, NotificationStatus, StoredNotification, shown_channel};
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

#[derive(Debug, Deserialize, ToSchema)]
struct EmailTest {
    /// Who gets the mail; left out: the `email` of the profile.
    #[serde(default)]
    #[schema(min_length = 3, max_length = 254)]
    to: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
struct EmailTested {
    /// Always true.
    sent: bool,
}

/// Sends a mail with the present settings
///
/// Answers when the mail server has taken it, or what failed: the connection, its protection, the
/// authentication, or an address that was refused.
#[utoipa::path(
    post, path = "/api/settings/email/test", tag = "settings", request_body = EmailTest,
    params(IdempotencyKey),
    responses(
        (status = 200, body = EmailTested),
        (status = 502, body = ErrorBody, description = "The mail server could not be reached, or refused"),
        (status = 503, body = ErrorBody, description = "Email is off, or its settings lack something"),
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

/// A message to somebody outside, without its text.
#[derive(Debug, Serialize, ToSchema)]
struct NotificationView {
    id: NotificationId,
    /// `email`, `webhook`, `push`, or a chat platform.
    platform: String,
    /// The address; of a webhook only scheme and host, of `push` the device, or nothing for all of them.
    channel: String,
    subject: String,
    format: MessageFormat,
    status: NotificationStatus,
    /// How often it was tried, since the last retry by hand.
    attempt_count: u32,
    /// When it is tried next; `null` when it is not.
    next_attempt_at: Option<Timestamp>,
    /// What the other side knows it by, such as the `Message-ID` of a mail.
    reference: Option<String>,
    /// What the last failed attempt said.
    error: Option<String>,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl From<&StoredNotification> for NotificationView {
    fn from(stored: &StoredNotification) -> Self {
        Self {
            id: stored.id.clone(),
            platform: stored.platform.clone(),
            channel: shown_channel(&stored.platform, &stored.channel),
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

/// A message to somebody outside.
#[derive(Debug, Serialize, ToSchema)]
struct NotificationWithBody {
    #[serde(flatten)]
    notification: NotificationView,
    body: String,
}

/// The newest first.
#[derive(Debug, Serialize, ToSchema)]
struct NotificationList {
    notifications: Vec<NotificationView>,
    /// How many there are, whatever the page.
    total: u64,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct NotificationQuery {
    /// Only those in this state.
    #[param(inline)]
    status: Option<NotificationStatus>,
    /// Only those through this: `email`, `webhook`, `push`, or a chat platform.
    #[param(max_length = 64)]
    platform: Option<String>,
    #[param(minimum = 1, maximum = 200, default = json!(PageLimits::default().default))]
    limit: Option<i64>,
    #[param(minimum = 0, default = 0)]
    offset: Option<i64>,
}

/// Messages to people and machines outside, the newest first
///
/// What the scheduler, alerts, hooks and agents sent or could not send. What has ended is kept for
/// 30 days.
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

/// One message with its text
#[utoipa::path(
    get, path = "/api/notifications/{id}", tag = "notifications",
    params(("id" = String, Path, description = "As in the list")),
    responses((status = 200, body = NotificationWithBody)),
)]
async fn get_notification(
    State(notify): State<Notify>,
    Path(id): Path<NotificationId>,
) -> Answer<NotificationWithBody> {
    let stored = notify.get(&id).await?;
    Ok(Json(NotificationWithBody { notification: NotificationView::from(&stored), body: stored.body }))
}

/// Tries a dead letter again
///
/// At once, with its attempts allowed anew.
#[utoipa::path(
    post, path = "/api/notifications/{id}/retry", tag = "notifications",
    params(("id" = String, Path, description = "As in the list"), IdempotencyKey),
    responses(
        (status = 200, body = NotificationView),
        (status = 409, body = ErrorBody, description = "It is no dead letter"),
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
