//! Handlers of alerts.

use agentd_base::{Page, PageLimits, Problems};
use agentd_core::runtime::record_once;
use agentd_web::{Answer, ApiError, Caller, ErrorBody, IdempotencyKey, Json, Path, Query, Validated};
use axum::extract::State;
use http::StatusCode;
use serde::Deserialize;
use utoipa::IntoParams;

use super::bodies::{CreateAlert, PreviewAlert, SnoozeAlert, UpdateAlert};
use super::views::{AlertDeleted, AlertHistory, AlertList, AlertPreview, AlertView};
use crate::alerts::model::AlertId;
use crate::alerts::service::{Action, AlertWithValue, Alerts};

/// List alerts
///
/// Returns all alerts in order of creation. The daemon creates some disabled alerts, whose notices go to the address in
/// the profile.
#[utoipa::path(
    get, path = "/api/monitoring/alerts", tag = "monitoring",
    responses((status = 200, body = AlertList)),
)]
pub(super) async fn list_alerts(State(alerts): State<Alerts>, caller: Caller) -> Answer<AlertList> {
    let alerts = alerts.list().await?;
    Ok(Json(AlertList { alerts: alerts.iter().map(|alert| AlertView::from(alert).redacted_for(&caller)).collect() }))
}

/// Create an alert
///
/// The alert is evaluated immediately and then every few seconds.
#[utoipa::path(
    post, path = "/api/monitoring/alerts", tag = "monitoring", request_body = CreateAlert,
    params(IdempotencyKey),
    responses(
        (status = 201, body = AlertView),
        (status = 409, body = ErrorBody, description = "The limit of 2,000 alerts is reached"),
    ),
)]
pub(super) async fn create_alert(
    State(alerts): State<Alerts>,
    once: IdempotencyKey,
    Validated(Json(body)): Validated<Json<CreateAlert>>,
) -> Result<(StatusCode, Json<AlertView>), ApiError> {
    let recorder = record_once(&once, StatusCode::CREATED, |alert: &AlertWithValue| AlertView::from(alert));
    let alert = alerts.create(body.into(), recorder).await?;
    Ok((StatusCode::CREATED, Json(AlertView::from(&alert))))
}

/// Preview an alert
///
/// Evaluates the condition with current values. Nothing is stored and no notice is sent.
#[utoipa::path(
    post, path = "/api/monitoring/alerts/preview", tag = "monitoring", request_body = PreviewAlert,
    responses((status = 200, body = AlertPreview)),
)]
pub(super) async fn preview_alert(
    State(alerts): State<Alerts>,
    Validated(Json(body)): Validated<Json<PreviewAlert>>,
) -> Answer<AlertPreview> {
    Ok(Json(alerts.preview(body.into()).await?.into()))
}

/// Get an alert
#[utoipa::path(
    get, path = "/api/monitoring/alerts/{id}", tag = "monitoring",
    params(("id" = String, Path, description = "Id of the alert")),
    responses((status = 200, body = AlertView)),
)]
pub(super) async fn get_alert(
    State(alerts): State<Alerts>,
    caller: Caller,
    Path(id): Path<AlertId>,
) -> Answer<AlertView> {
    Ok(Json(AlertView::from(&alerts.get(&id).await?).redacted_for(&caller)))
}

/// Update an alert
///
/// An active firing continues with the new condition.
#[utoipa::path(
    put, path = "/api/monitoring/alerts/{id}", tag = "monitoring", request_body = UpdateAlert,
    params(("id" = String, Path, description = "Id of the alert")),
    responses((status = 200, body = AlertView)),
)]
pub(super) async fn update_alert(
    State(alerts): State<Alerts>,
    Path(id): Path<AlertId>,
    Validated(Json(body)): Validated<Json<UpdateAlert>>,
) -> Answer<AlertView> {
    Ok(Json(AlertView::from(&alerts.update(&id, body.into()).await?)))
}

/// Delete an alert
///
/// Ends an active firing of the alert.
#[utoipa::path(
    delete, path = "/api/monitoring/alerts/{id}", tag = "monitoring",
    params(("id" = String, Path, description = "Id of the alert")),
    responses((status = 200, body = AlertDeleted)),
)]
pub(super) async fn delete_alert(State(alerts): State<Alerts>, Path(id): Path<AlertId>) -> Answer<AlertDeleted> {
    alerts.delete(&id).await?;
    Ok(Json(AlertDeleted { deleted: true }))
}

async fn act(alerts: &Alerts, id: &AlertId, action: Action, once: &IdempotencyKey) -> Answer<AlertView> {
    let recorder = record_once(once, StatusCode::OK, |alert: &AlertWithValue| AlertView::from(alert));
    Ok(Json(AlertView::from(&alerts.act(id, action, recorder).await?)))
}

/// Acknowledge an alert
///
/// Stops notices until the alert is resolved.
#[utoipa::path(
    post, path = "/api/monitoring/alerts/{id}/acknowledge", tag = "monitoring",
    params(("id" = String, Path, description = "Id of the alert"), IdempotencyKey),
    responses(
        (status = 200, body = AlertView),
        (status = 409, body = ErrorBody, description = "The alert is neither firing nor snoozed"),
    ),
)]
pub(super) async fn acknowledge_alert(
    State(alerts): State<Alerts>,
    once: IdempotencyKey,
    Path(id): Path<AlertId>,
) -> Answer<AlertView> {
    act(&alerts, &id, Action::Acknowledge, &once).await
}

/// Resolve an alert
///
/// If its condition remains true, the alert fires again after `notify_every_minutes`, or as soon as the condition was
/// false in between.
#[utoipa::path(
    post, path = "/api/monitoring/alerts/{id}/resolve", tag = "monitoring",
    params(("id" = String, Path, description = "Id of the alert"), IdempotencyKey),
    responses(
        (status = 200, body = AlertView),
        (status = 409, body = ErrorBody, description = "The alert is not firing"),
    ),
)]
pub(super) async fn resolve_alert(
    State(alerts): State<Alerts>,
    once: IdempotencyKey,
    Path(id): Path<AlertId>,
) -> Answer<AlertView> {
    act(&alerts, &id, Action::Resolve, &once).await
}

/// Snooze an alert
///
/// Stops notices for the given time. A notice is sent afterwards if the alert still fires.
#[utoipa::path(
    post, path = "/api/monitoring/alerts/{id}/snooze", tag = "monitoring", request_body = SnoozeAlert,
    params(("id" = String, Path, description = "Id of the alert"), IdempotencyKey),
    responses(
        (status = 200, body = AlertView),
        (status = 409, body = ErrorBody, description = "The alert is not firing"),
    ),
)]
pub(super) async fn snooze_alert(
    State(alerts): State<Alerts>,
    once: IdempotencyKey,
    Path(id): Path<AlertId>,
    Json(body): Json<SnoozeAlert>,
) -> Answer<AlertView> {
    act(&alerts, &id, Action::Snooze { minutes: body.minutes }, &once).await
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct HistoryQuery {
    /// Maximum number of firings to return, 1 to 200. Default: 50.
    #[param(minimum = 1, maximum = 200, default = json!(PageLimits::default().default))]
    limit: Option<i64>,
    /// Number of firings to skip. Default: 0.
    #[param(minimum = 0, default = 0)]
    offset: Option<i64>,
}

/// List firings of an alert
///
/// Returns firings with their notices, newest first. Retained are 90 days, up to 1,000 firings per alert and 100
/// notices per firing.
#[utoipa::path(
    get, path = "/api/monitoring/alerts/{id}/history", tag = "monitoring",
    params(("id" = String, Path, description = "Id of the alert"), HistoryQuery),
    responses((status = 200, body = AlertHistory)),
)]
pub(super) async fn list_alert_history(
    State(alerts): State<Alerts>,
    Path(id): Path<AlertId>,
    Query(query): Query<HistoryQuery>,
) -> Answer<AlertHistory> {
    let mut problems = Problems::new();
    let page = Page::checked(query.limit, query.offset, PageLimits::default(), &mut problems);
    problems.into_result().map_err(ApiError::invalid)?;
    let (firings, total) = alerts.history(&id, page).await?;
    Ok(Json(AlertHistory { firings: firings.into_iter().map(Into::into).collect(), total }))
}
