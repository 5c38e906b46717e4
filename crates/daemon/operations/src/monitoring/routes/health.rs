//! `/api/monitoring/health`.

use agentd_web::{ApiResult, ErrorBody, Json, Path};
use axum::extract::State;

use crate::monitoring::model::{ComponentView, ComponentsView};
use crate::monitoring::service::Monitoring;

/// Get component health
///
/// Components are checked at most once a second. `workers` lists workers that are late or keep failing. `ai` reflects
/// the model calls of the last five minutes and is `unknown` without any.
#[utoipa::path(get, path = "/api/monitoring/health", tag = "monitoring", responses((status = 200, body = ComponentsView)))]
pub(super) async fn get_component_health(State(monitoring): State<Monitoring>) -> axum::Json<ComponentsView> {
    axum::Json(monitoring.components().await)
}

/// Get health of a component
#[utoipa::path(
    get, path = "/api/monitoring/health/components/{id}", tag = "monitoring",
    params(("id" = String, Path, description = "`api`, `db`, `workers`, `memory` or `ai`")),
    responses((status = 200, body = ComponentView), (status = 404, body = ErrorBody, description = "Component not found")),
)]
pub(super) async fn get_component(
    State(monitoring): State<Monitoring>,
    Path(id): Path<String>,
) -> ApiResult<Json<ComponentView>> {
    Ok(Json(monitoring.component(&id).await?))
}

/// Check all components
///
/// Also checks the default provider without cost: a vendor lists its models, the local model reports its state. The
/// result is used for `ai` for up to five minutes while no model is called.
#[utoipa::path(post, path = "/api/monitoring/health/check", tag = "monitoring", responses((status = 200, body = ComponentsView)))]
pub(super) async fn check_components(State(monitoring): State<Monitoring>) -> ApiResult<Json<ComponentsView>> {
    Ok(Json(monitoring.check_components().await?))
}
