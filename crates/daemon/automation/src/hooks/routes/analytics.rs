//! Delivery analytics for hooks.

use std::collections::BTreeMap;

use agentd_base::{Edge, FieldProblem, Problems, Timestamp};
use agentd_web::{Answer, ApiError, ErrorBody, Json, Path, Query, Validate, Validated};
use axum::extract::State;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::hooks::model::HookId;
use crate::hooks::service::{Hooks, Period, Totals};

/// Totals of completed work: deliveries that succeeded or were dead-lettered, and executions.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = HookFigures)]
pub(super) struct FiguresView {
    /// Number of completed deliveries and executions: the sum of `succeeded` and `failed`.
    deliveries: u64,
    /// Number of deliveries and executions that succeeded.
    succeeded: u64,
    /// Number of dead-lettered deliveries and of executions that failed or timed out.
    failed: u64,
    /// Share of successful deliveries, from 0 to 1; 0 when nothing completed.
    success_rate: f64,
    /// Average duration in milliseconds; 0 when nothing completed.
    avg_latency_ms: f64,
}

impl From<Totals> for FiguresView {
    fn from(totals: Totals) -> Self {
        let Totals { deliveries, succeeded, failed, success_rate, avg_latency_ms } = totals;
        Self { deliveries, succeeded, failed, success_rate, avg_latency_ms }
    }
}

/// Totals of one hour or one day.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = HookFiguresBucket)]
pub(super) struct BucketView {
    /// Start of the bucket: a full hour or midnight in the profile's time zone.
    start: Timestamp,
    #[serde(flatten)]
    figures: FiguresView,
}

/// Delivery analytics of one hook.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct HookAnalytics {
    /// Id of the hook.
    hook_id: HookId,
    /// Length of each bucket.
    period: Period,
    /// Start of the range. If individual records near it were already deleted, it is moved to the start of its
    /// 15-minute period.
    start: Timestamp,
    /// End of the range, exclusive. If individual records near it were already deleted, it is moved to the end of its
    /// 15-minute period.
    end: Timestamp,
    /// Totals of the whole range.
    totals: FiguresView,
    /// Buckets, oldest first, including empty ones. The first and last bucket count only work between `start` and
    /// `end`.
    buckets: Vec<BucketView>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct AnalyticsQuery {
    /// Length of a bucket: `hourly` or `daily`. Default: `hourly`.
    #[param(inline)]
    period: Option<Period>,
    /// Date or time in the profile's time zone unless it has an offset. Default: one day before `end`, or 30 days with
    /// `daily`. Statistics are retained for 35 days. A range of more than 1,000 buckets is rejected.
    #[param(example = "2026-01-31T09:30:00Z")]
    start: Option<String>,
    /// Date or time in the same format as `start`; a date includes the whole day. Default: now.
    #[param(example = "2026-02-01T09:30:00Z")]
    end: Option<String>,
}

type Span = (Option<Timestamp>, Option<Timestamp>);

impl AnalyticsQuery {
    fn span(&self, zone: &TimeZone) -> Result<Span, Vec<FieldProblem>> {
        let mut problems = Problems::new();
        let mut bound = |field: &str, text: Option<&str>, edge: Edge| {
            let time = Timestamp::read(text?, zone, edge);
            if time.is_none() {
                problems
                    .add(field, "must be an ISO 8601 date such as 2026-01-31, or a time such as 2026-01-31T09:00:00Z");
            }
            time
        };
        let start = bound("start", self.start.as_deref(), Edge::First);
        let end = bound("end", self.end.as_deref(), Edge::Last);
        problems.into_result().map(|()| (start, end))
    }
}

impl Validate<Hooks> for AnalyticsQuery {
    async fn validate(self, hooks: &Hooks) -> Vec<FieldProblem> {
        self.span(&hooks.dependencies().settings.timezone()).err().unwrap_or_default()
    }
}

/// Get hook analytics
///
/// Returns totals and hourly or daily buckets. The response holds at most 1,000 buckets, which is 41 days by the hour.
#[utoipa::path(
    get, path = "/api/hooks/{id}/analytics", tag = "hooks", params(("id" = String, Path, description = "Hook id"), AnalyticsQuery),
    responses((status = 200, body = HookAnalytics), (status = 404, body = ErrorBody, description = "Hook not found")),
)]
pub(super) async fn get_hook_analytics(
    State(hooks): State<Hooks>,
    Path(id): Path<HookId>,
    Validated(Query(query)): Validated<Query<AnalyticsQuery>>,
) -> Answer<HookAnalytics> {
    let (start, end) = query.span(&hooks.dependencies().settings.timezone()).map_err(ApiError::invalid)?;
    let period = query.period.unwrap_or_default();
    let found = hooks.analytics(&id, period, start, end).await?;
    let buckets = found.buckets.into_iter().map(|(start, totals)| BucketView { start, figures: totals.into() });
    Ok(Json(HookAnalytics {
        hook_id: id,
        period,
        start: found.start,
        end: found.end,
        totals: found.totals.into(),
        buckets: buckets.collect(),
    }))
}

/// Totals of one event type.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct EventFigures {
    /// Number of completed deliveries and executions.
    deliveries: u64,
    /// Share of successful deliveries, from 0 to 1; 0 when nothing completed.
    success_rate: f64,
}

/// Delivery analytics of all hooks in the last 35 days.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct GlobalHookAnalytics {
    /// Number of succeeded and dead-lettered deliveries and of executions in the last 35 days.
    total_deliveries: u64,
    /// Share of successful deliveries, from 0 to 1; 0 when nothing completed.
    success_rate: f64,
    /// Average duration in milliseconds; 0 when nothing completed.
    avg_latency_ms: f64,
    /// Totals by event type.
    by_event: BTreeMap<String, EventFigures>,
    /// Current number of dead letters of all hooks.
    dead_letter_count: u64,
}

/// Get global hook analytics
///
/// Returns the totals of all hooks in the last 35 days, overall and by event type.
#[utoipa::path(
    get, path = "/api/hooks/analytics/global", tag = "hooks", responses((status = 200, body = GlobalHookAnalytics)),
)]
pub(super) async fn get_global_hook_analytics(State(hooks): State<Hooks>) -> Answer<GlobalHookAnalytics> {
    let (totals, by_event) = hooks.global_analytics().await?;
    let figures = |(event, totals): (String, Totals)| {
        (event, EventFigures { deliveries: totals.deliveries, success_rate: totals.success_rate })
    };
    Ok(Json(GlobalHookAnalytics {
        total_deliveries: totals.deliveries,
        success_rate: totals.success_rate,
        avg_latency_ms: totals.avg_latency_ms,
        by_event: by_event.into_iter().map(figures).collect(),
        dead_letter_count: hooks.queue_stats().await?.dead_letter,
    }))
}
