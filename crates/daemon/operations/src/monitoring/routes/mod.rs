//! Routes of monitoring: public probes, index and metrics, and protected statistics.

mod figures;
mod health;
mod performance;
mod workers;

use std::time::Duration;

use agentd_core::runtime::EventBacklog;
use agentd_web::{ApiError, ApiRouter, ErrorBody, Routes, routes};
use axum::Json;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Method, StatusCode};

use super::error::NotReady;
use super::model::{ApiIndex, HealthView, LivenessView, PublicHealthView, ReadinessView};
use super::readiness::{AdmissionPermit, Readiness};
use super::service::{Monitoring, health_view};
use super::system::SystemView;

/// `Retry-After` of a daemon that is not ready.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// `Retry-After` while the event backlog is full.
const BACKLOG_RETRY_AFTER: Duration = Duration::from_secs(5);

#[must_use]
pub(super) fn routes() -> Routes<Monitoring> {
    let router = ApiRouter::new()
        .routes(routes!(get_health))
        .routes(routes!(get_health_live))
        .routes(routes!(get_health_ready))
        .routes(routes!(get_api_health))
        .routes(routes!(get_api_index))
        .routes(routes!(get_metrics));
    let figures = ApiRouter::new()
        .routes(routes!(health::get_component_health))
        .routes(routes!(health::get_component))
        .routes(routes!(health::check_components))
        .routes(routes!(figures::get_tokens))
        .routes(routes!(figures::get_tokens_history))
        .routes(routes!(figures::get_usage))
        .routes(routes!(figures::get_activity_summary))
        .routes(routes!(figures::get_analytics))
        .routes(routes!(get_system))
        .routes(routes!(performance::get_performance))
        .routes(routes!(performance::get_performance_history))
        .routes(routes!(workers::list_workers));
    Routes::new().public(router).protected(figures)
}

/// Returns the probes of a daemon that is still starting.
pub fn starting_routes(readiness: Readiness) -> axum::Router {
    use axum::routing::get;
    let health = readiness.clone();
    axum::Router::new()
        .route("/health/live", get(async || Json(LivenessView { status: "alive" })))
        .route("/health", get(async move || Json(health_view(&health, true))))
        .route(
            "/health/ready",
            get(async move || unready(NotReady::from_phase(readiness.phase()).unwrap_or(NotReady::Starting))),
        )
}

/// Admission control of requests.
#[derive(Debug, Clone)]
pub struct Gate {
    pub readiness: Readiness,
    pub backlog: EventBacklog,
}

/// Runs before everything that accesses data. During a restore, requests are rejected with `Retry-After`, and the
/// restore waits for admitted ones; probes and metrics still work. While the event backlog is full, requests that
/// create events are rejected as well.
impl agentd_web::Gate for Gate {
    type Permit = Option<AdmissionPermit>;

    fn admit(&self, method: &Method, path: &str) -> Result<Self::Permit, ApiError> {
        if path.starts_with("/health") || path == "/api/metrics/prometheus" {
            return Ok(None);
        }
        let Some(admitted) = self.readiness.admit() else {
            return Err(unready(NotReady::from_phase(self.readiness.phase()).unwrap_or(NotReady::Starting)));
        };
        if self.backlog.is_full() && adds_events(method, path) {
            return Err(backlog_full());
        }
        Ok(Some(admitted))
    }
}

/// Admission control as a middleware.
pub async fn reject_unless_ready(State(gate): State<Gate>, request: Request, next: Next) -> Response {
    match agentd_web::Gate::admit(&gate, request.method(), request.uri().path()) {
        Ok(_pass) => next.run(request).await,
        Err(rejection) => rejection.into_response(),
    }
}

/// Returns whether a request may create events. Reads, cancellations and requests that reduce the backlog do not count.
fn adds_events(method: &Method, path: &str) -> bool {
    const ALLOWED_PREFIXES: [&str; 3] = ["/api/auth/", "/api/hooks", "/api/settings"];
    const STOP_ACTIONS: [&str; 2] = ["/cancel", "/pause"];
    matches!(*method, Method::POST | Method::PUT | Method::PATCH)
        && !ALLOWED_PREFIXES.iter().any(|prefix| path.starts_with(prefix))
        && !STOP_ACTIONS.iter().any(|end| path.ends_with(end))
}

fn backlog_full() -> ApiError {
    ApiError::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "event_backlog",
        "The event backlog is full because hooks process events too slowly; retry shortly, or see GET /api/hooks/deliveries/queue-stats",
    )
    .with_retry_after(BACKLOG_RETRY_AFTER)
}

fn unready(reason: NotReady) -> ApiError {
    ApiError::from(reason).with_retry_after(RETRY_AFTER)
}

/// Get daemon health
///
/// Returns 200 as long as the process responds. Nothing is checked.
#[utoipa::path(get, path = "/health", tag = "health", responses((status = 200, body = HealthView)))]
async fn get_health(State(monitoring): State<Monitoring>) -> Json<HealthView> {
    Json(monitoring.health())
}

/// Check liveness
///
/// Never accesses the database, because a daemon must not be restarted when its database is unavailable.
#[utoipa::path(get, path = "/health/live", tag = "health", responses((status = 200, body = LivenessView)))]
async fn get_health_live(State(monitoring): State<Monitoring>) -> Json<LivenessView> {
    Json(monitoring.live())
}

/// Check readiness
///
/// A 503 response names the reason in `code`: `starting`, `draining`, `restoring` or `database_unavailable`
/// (unreachable, or its disk is full). The daemon recovers without intervention.
#[utoipa::path(
    get, path = "/health/ready", tag = "health",
    responses((status = 200, body = ReadinessView), (status = 503, body = ErrorBody)),
)]
async fn get_health_ready(State(monitoring): State<Monitoring>) -> Result<Json<ReadinessView>, ApiError> {
    monitoring.ready().await.map(Json).map_err(unready)
}

/// Get public health
///
/// Also reports whether the daemon still waits for its first API key.
#[utoipa::path(
    get, path = "/api/health", tag = "health",
    responses((status = 200, body = PublicHealthView), (status = 503, body = ErrorBody)),
)]
async fn get_api_health(State(monitoring): State<Monitoring>) -> Result<Json<PublicHealthView>, ApiError> {
    monitoring.public_health().await.map(Json).map_err(unready)
}

/// Get the API index
#[utoipa::path(get, path = "/api/", tag = "health", responses((status = 200, body = ApiIndex)))]
async fn get_api_index(State(monitoring): State<Monitoring>) -> Json<ApiIndex> {
    Json(monitoring.index())
}

/// Get Prometheus metrics
///
/// Returns metrics in the Prometheus text format, at most one second old.
#[utoipa::path(
    get, path = "/api/metrics/prometheus", tag = "health",
    responses((status = 200, body = String, content_type = "text/plain; version=0.0.4; charset=utf-8")),
)]
async fn get_metrics(State(monitoring): State<Monitoring>) -> Response {
    let mut response = (StatusCode::OK, monitoring.scrape().await).into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Get system resources
///
/// Reports what the daemon may use: limits of a container apply. Values that cannot be read are `null`.
#[utoipa::path(
    get, path = "/api/monitoring/system", tag = "monitoring",
    responses((status = 200, body = SystemView)),
)]
async fn get_system(State(monitoring): State<Monitoring>) -> Json<SystemView> {
    Json(monitoring.system().await)
}
