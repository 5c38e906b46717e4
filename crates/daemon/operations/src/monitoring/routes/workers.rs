//! `/api/monitoring/workers`.

use agentd_web::{ApiResult, Json};
use axum::extract::State;

use crate::monitoring::model::WorkerList;
use crate::monitoring::service::Monitoring;

/// List background workers
///
/// Returns the workers of the responding daemon with their activity since its start.
#[utoipa::path(
    get, path = "/api/monitoring/workers", operation_id = "list_workers", tag = "monitoring",
    responses((status = 200, body = WorkerList)),
)]
pub(super) async fn list_workers(State(monitoring): State<Monitoring>) -> ApiResult<Json<WorkerList>> {
    Ok(Json(monitoring.list_workers()))
}
