//! Handlers of usage and activity statistics.

use agentd_base::{Edge, FieldProblem, Problems, Timestamp};
use agentd_core::rollups::Zoned;
use agentd_web::{ApiError, ApiResult, Json, Query, Validate, Validated};
use axum::extract::State;
use jiff::civil::Date;
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use crate::monitoring::model::{ActivityView, AnalyticsView, TokensPoint, TokensView, UsageView};
use crate::monitoring::service::{Monitoring, TokensPeriod};

/// Get token usage
///
/// Returns usage by model and project, with limits and trend.
#[utoipa::path(get, path = "/api/monitoring/tokens", tag = "monitoring", responses((status = 200, body = TokensView)))]
pub(super) async fn get_tokens(State(monitoring): State<Monitoring>) -> ApiResult<Json<TokensView>> {
    Ok(Json(monitoring.tokens().await?))
}

#[derive(Debug, Clone, Copy, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum HistoryOf {
    #[default]
    Day,
    Week,
    Month,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct TokensQuery {
    /// Period: `day` (24 hours by hour), `week` (7 days) or `month` (30 days). Default: `day`.
    #[param(inline)]
    period: Option<HistoryOf>,
}

/// Get token usage history
///
/// Returns intervals oldest first, including empty ones; the last one is in progress. Hours and days are in the
/// profile's time zone.
#[utoipa::path(
    get, path = "/api/monitoring/tokens/history", tag = "monitoring", params(TokensQuery),
    responses((status = 200, body = Vec<TokensPoint>)),
)]
pub(super) async fn get_tokens_history(
    State(monitoring): State<Monitoring>,
    Query(query): Query<TokensQuery>,
) -> ApiResult<Json<Vec<TokensPoint>>> {
    let period = match query.period.unwrap_or_default() {
        HistoryOf::Day => TokensPeriod::Day,
        HistoryOf::Week => TokensPeriod::Week,
        HistoryOf::Month => TokensPeriod::Month,
    };
    Ok(Json(monitoring.tokens_history(period).await?))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct UsageQuery {
    /// Number of days including today, 1 to 365. Default: 30.
    #[serde(default = "default_days")]
    #[param(minimum = 1, maximum = 365, default = 30)]
    days: u16,
}

fn default_days() -> u16 {
    30
}

/// Get usage by origin
///
/// Returns usage by agent, tool, source and API key.
#[utoipa::path(
    get, path = "/api/monitoring/usage", tag = "monitoring", params(UsageQuery),
    responses((status = 200, body = UsageView)),
)]
pub(super) async fn get_usage(
    State(monitoring): State<Monitoring>,
    Query(query): Query<UsageQuery>,
) -> ApiResult<Json<UsageView>> {
    Ok(Json(monitoring.usage(query.days).await?))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ActivityQuery {
    /// Number of hours up to now, 1 to 168 (events are retained for a week). Default: 24.
    #[serde(default = "default_hours")]
    #[param(minimum = 1, maximum = 168, default = 24)]
    hours: u16,
}

fn default_hours() -> u16 {
    24
}

/// Get activity summary
///
/// Returns recent events by type.
#[utoipa::path(
    get, path = "/api/monitoring/activity-summary", tag = "monitoring", params(ActivityQuery),
    responses((status = 200, body = ActivityView)),
)]
pub(super) async fn get_activity_summary(
    State(monitoring): State<Monitoring>,
    Query(query): Query<ActivityQuery>,
) -> ApiResult<Json<ActivityView>> {
    Ok(Json(monitoring.activity(query.hours).await?))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct AnalyticsQuery {
    /// First day in the time zone of the profile, as an ISO 8601 date or a time on that day. Default: 29 days before
    /// `end`. A range of more than 366 days is rejected.
    #[param(example = "2026-01-01")]
    start: Option<String>,
    /// Last day, inclusive, as an ISO 8601 date or a time on that day. Default: today.
    #[param(example = "2026-01-31")]
    end: Option<String>,
}

impl AnalyticsQuery {
    fn days(&self, zone: &Zoned) -> Result<(Option<Date>, Option<Date>), Vec<FieldProblem>> {
        let mut problems = Problems::new();
        let mut day = |field: &str, text: Option<&str>, edge: Edge| {
            let time = Timestamp::read(text?, &zone.0, edge);
            if time.is_none() {
                problems
                    .add(field, "must be an ISO 8601 date such as 2026-01-31, or a time such as 2026-01-31T09:00:00Z");
            }
            time.map(|time| zone.date(time))
        };
        let days = (day("start", self.start.as_deref(), Edge::First), day("end", self.end.as_deref(), Edge::Last));
        problems.into_result().map(|()| days)
    }
}

impl Validate<Monitoring> for AnalyticsQuery {
    async fn validate(self, monitoring: &Monitoring) -> Vec<FieldProblem> {
        self.days(&monitoring.zone()).err().unwrap_or_default()
    }
}

/// Get daily analytics
#[utoipa::path(
    get, path = "/api/monitoring/analytics", tag = "monitoring", params(AnalyticsQuery),
    responses((status = 200, body = AnalyticsView)),
)]
pub(super) async fn get_analytics(
    State(monitoring): State<Monitoring>,
    Validated(Query(query)): Validated<Query<AnalyticsQuery>>,
) -> ApiResult<Json<AnalyticsView>> {
    let (start, end) = query.days(&monitoring.zone()).map_err(ApiError::invalid)?;
    Ok(Json(monitoring.analytics(start, end).await?))
}
