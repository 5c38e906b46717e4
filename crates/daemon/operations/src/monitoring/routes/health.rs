//! `/api/monitoring/health`.

use agentd_web::{ApiResult, ErrorBody, Json, Path};
use axum::extract::State;

use crate::monitoring::model::{ComponentView, ComponentsView};
use crate::monitoring::service::Monitoring;

/// How the components are
///
/// Found out at most once a second. `workers` names those that are late or keep failing; `ai` goes by the calls of the last
/// five minutes, and is `unknown` without any.
#[utoipa::path(get, path = "/api/monitoring/health", tag = "monitoring", responses((status = 200, body = ComponentsView)))]
pub(super) async fn get_component_health(State(monitoring): State<Monitoring>) -> axum::Json<ComponentsView> {
    axum::Json(monitoring.components().await)
}

/// How one component is
#[utoipa::path(
    get, path = "/api/monitoring/health/components/{id}", tag = "monitoring",
    params(("id" = String, Path, description = "`api`, `db`, `workers`, `memory` or `ai`")),
    responses((status = 200, body = ComponentView), (status = 404, body = ErrorBody)),
)]
pub(super) async fn get_component(
    State(monitoring): State<Monitoring>,
    Path(id): Path<String>,
) -> ApiResult<Json<ComponentView>> {
    Ok(Json(monitoring.component(&id).await?))
}

/// Ask all components now
///
/// The default provider, too, for something that costs nothing: a vendor for its models, the model inside for its
/// state. What it says stands for `ai` as long as no model was called, for five minutes.
#[utoipa::path(post, path = "/api/monitoring/health/check", tag = "monitoring", responses((status = 200, body = ComponentsView)))]
pub(super) async fn check_components(State(monitoring): State<Monitoring>) -> ApiResult<Json<ComponentsView>> {
    Ok(Json(monitoring.check_components().await?))
}
