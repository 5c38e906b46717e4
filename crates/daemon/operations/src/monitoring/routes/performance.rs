//! `/api/monitoring/performance`.

use agentd_web::{ApiResult, Json, Query};
use axum::extract::State;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::monitoring::model::{Granularity, HistoryPeriod, PerformanceHistory, PerformanceView};
use crate::monitoring::service::Monitoring;

/// Response times, throughput and failures of the last five minutes
///
/// Of all daemons over one database. Latencies are at most 3.2 % above what was measured.
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
    /// Default: `day`.
    #[param(inline)]
    period: Option<HistoryPeriod>,
    /// Default: minutes of an hour, hours of a day or week, days of a month. More than 1,500 points are refused.
    #[param(inline)]
    granularity: Option<Granularity>,
}

/// The same over time
///
/// Percentiles are those of all that was measured in a bucket, never averages of percentiles.
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
