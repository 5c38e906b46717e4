//! The probes, the index and the metrics, which are public; the figures, and what the machine does.

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
use super::readiness::{Admitted, Readiness};
use super::service::{Monitoring, health_of};
use super::system::SystemView;

/// A client that was told to come back should do so after this long.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// So is one that came in a flood of events.
const FLOODED_RETRY_AFTER: Duration = Duration::from_secs(5);

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

/// The probes of a daemon that is not composed yet.
pub fn starting_routes(readiness: Readiness) -> axum::Router {
    use axum::routing::get;
    let health = readiness.clone();
    axum::Router::new()
        .route("/health/live", get(async || Json(LivenessView { status: "alive" })))
        .route("/health", get(async move || Json(health_of(&health, true))))
        .route(
            "/health/ready",
            get(async move || unready(NotReady::from_phase(readiness.phase()).unwrap_or(NotReady::Starting))),
        )
}

/// What decides whether a request is taken at all.
#[derive(Debug, Clone)]
pub struct Gate {
    pub readiness: Readiness,
    pub backlog: EventBacklog,
}

/// Before everything that works on the data: while a restore replaces it, requests are told to come
/// back, and the restore waits for those that came before it. Probes and metrics stay. While too
/// many events wait to be read, what would add to them is told to come back as well.
impl agentd_web::Gate for Gate {
    type Pass = Option<Admitted>;

    fn admit(&self, method: &Method, path: &str) -> Result<Self::Pass, ApiError> {
        if path.starts_with("/health") || path == "/api/metrics/prometheus" {
            return Ok(None);
        }
        let Some(admitted) = self.readiness.admit() else {
            return Err(unready(NotReady::from_phase(self.readiness.phase()).unwrap_or(NotReady::Starting)));
        };
        if self.backlog.is_full() && adds_events(method, path) {
            return Err(flooded());
        }
        Ok(Some(admitted))
    }
}

/// The same as a middleware.
pub async fn refuse_unless_ready(State(gate): State<Gate>, request: Request, next: Next) -> Response {
    match agentd_web::Gate::admit(&gate, request.method(), request.uri().path()) {
        Ok(_pass) => next.run(request).await,
        Err(refused) => refused.into_response(),
    }
}

/// Whether a request is none of those by which one looks, stops something, or puts an end to a flood.
fn adds_events(method: &Method, path: &str) -> bool {
    const STILL_ALLOWED: [&str; 3] = ["/api/auth/", "/api/hooks", "/api/settings"];
    const STOPS: [&str; 2] = ["/cancel", "/pause"];
    matches!(*method, Method::POST | Method::PUT | Method::PATCH)
        && !STILL_ALLOWED.iter().any(|prefix| path.starts_with(prefix))
        && !STOPS.iter().any(|end| path.ends_with(end))
}

fn flooded() -> ApiError {
    ApiError::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "event_backlog",
        "Too many events wait for the hooks that hear them; try again shortly, or look at /api/hooks/deliveries/queue-stats for what holds them up",
    )
    .with_retry_after(FLOODED_RETRY_AFTER)
}

fn unready(reason: NotReady) -> ApiError {
    ApiError::from(reason).with_retry_after(RETRY_AFTER)
}

/// How the daemon is
///
/// Answers 200 as long as the process can answer at all, and asks nobody for it.
#[utoipa::path(get, path = "/health", tag = "health", responses((status = 200, body = HealthView)))]
async fn get_health(State(monitoring): State<Monitoring>) -> Json<HealthView> {
    Json(monitoring.health())
}

/// Whether the process is alive
///
/// Never touches the database: a daemon whose database is away must not be restarted for it.
#[utoipa::path(get, path = "/health/live", tag = "health", responses((status = 200, body = LivenessView)))]
async fn get_health_live(State(monitoring): State<Monitoring>) -> Json<LivenessView> {
    Json(monitoring.live())
}

/// Whether the daemon takes work
///
/// 503 says in `code` what it waits for: `starting`, `draining`, `restoring`,
/// `database_unavailable` (away, or its disk is full). It comes back by itself.
#[utoipa::path(
    get, path = "/health/ready", tag = "health",
    responses((status = 200, body = ReadinessView), (status = 503, body = ErrorBody)),
)]
async fn get_health_ready(State(monitoring): State<Monitoring>) -> Result<Json<ReadinessView>, ApiError> {
    monitoring.ready().await.map(Json).map_err(unready)
}

/// How the daemon is, and whether it still waits for its first API key
#[utoipa::path(
    get, path = "/api/health", tag = "health",
    responses((status = 200, body = PublicHealthView), (status = 503, body = ErrorBody)),
)]
async fn get_api_health(State(monitoring): State<Monitoring>) -> Result<Json<PublicHealthView>, ApiError> {
    monitoring.public_health().await.map(Json).map_err(unready)
}

/// What is here
#[utoipa::path(get, path = "/api/", tag = "health", responses((status = 200, body = ApiIndex)))]
async fn get_api_index(State(monitoring): State<Monitoring>) -> Json<ApiIndex> {
    Json(monitoring.index())
}

/// The figures in Prometheus' text format, at most a second old
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

/// What the machine does, as far as the daemon may use it
///
/// A container's own limits count. What cannot be read is `null`.
#[utoipa::path(
    get, path = "/api/monitoring/system", tag = "monitoring",
    responses((status = 200, body = SystemView)),
)]
async fn get_system(State(monitoring): State<Monitoring>) -> Json<SystemView> {
    Json(monitoring.system().await)
}
