//! `/api/monitoring/performance`.

use agentd_web::{ApiResult, Json, Query};
use axum::extract::State;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::monitoring::model::{Granularity, HistoryPeriod, PerformanceHistory, PerformanceView};
use crate::monitoring::service::Monitoring;

/// Get performance statistics
///
/// Covers the last five minutes of all daemons that share the database. Latencies are at most 3.2 % above the measured
/// values.
#[utoipa::path(
    get, path = "/api/monitoring/performance", tag = "monitoring",
    responses((status = 200, body = PerformanceView)),
)]
pub(super) async fn get_performance(State(monitoring): State<Monitoring>) -> ApiResult<Json<PerformanceView>> {
    Ok(Json(monitoring.performance().await?))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct PerformanceQuery {
    /// Period up to now: `hour`, `day` (24 hours), `week` (7 days) or `month` (30 days). Default: `day`.
    #[param(inline)]
    period: Option<HistoryPeriod>,
    /// Length of the intervals. Default: `minute` for an hour, `hour` for a day or week, `day` for a month. More than
    /// 1,500 intervals are rejected.
    #[param(inline)]
    granularity: Option<Granularity>,
}

/// Get performance history
///
/// Percentiles are computed from all measurements of an interval, never averaged.
#[utoipa::path(
    get, path = "/api/monitoring/performance/history", tag = "monitoring", params(PerformanceQuery),
    responses((status = 200, body = PerformanceHistory)),
)]
pub(super) async fn get_performance_history(
    State(monitoring): State<Monitoring>,
    Query(query): Query<PerformanceQuery>,
) -> ApiResult<Json<PerformanceHistory>> {
    let period = query.period.unwrap_or_default();
    Ok(Json(monitoring.performance_history(period, query.granularity).await?))
}
