//! What hooks came to over time.

use std::collections::BTreeMap;

use agentd_base::{Edge, FieldProblem, Problems, Timestamp};
use agentd_web::{Answer, ApiError, ErrorBody, Json, Path, Query, Validate, Validated};
use axum::extract::State;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::hooks::model::HookId;
use crate::hooks::service::{Hooks, Period, Totals};

/// What ended within some time: deliveries that succeeded or were given up, and executions.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = HookFigures)]
pub(super) struct FiguresView {
    deliveries: u64,
    succeeded: u64,
    failed: u64,
    /// 0 to 1; 0 when nothing ended.
    success_rate: f64,
    avg_latency_ms: f64,
}

impl From<Totals> for FiguresView {
    fn from(totals: Totals) -> Self {
        let Totals { deliveries, succeeded, failed, success_rate, avg_latency_ms } = totals;
        Self { deliveries, succeeded, failed, success_rate, avg_latency_ms }
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = HookFiguresBucket)]
pub(super) struct BucketView {
    /// When it begins: an hour or a midnight of the profile's time zone.
    start: Timestamp,
    #[serde(flatten)]
    figures: FiguresView,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct HookAnalytics {
    hook_id: HookId,
    period: Period,
    /// As asked for. Where what ended near it is not kept one by one any more, the quarter of an hour around it counts
    /// as a whole, and this says so; the same holds for `end`.
    start: Timestamp,
    end: Timestamp,
    totals: FiguresView,
    /// The oldest first, empty ones included. The first and the last one count only what lies between `start` and `end`.
    buckets: Vec<BucketView>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct AnalyticsQuery {
    #[param(inline)]
    period: Option<Period>,
    /// A day or a time, of the profile's time zone unless it has an offset. Default: a day before `end`, or 30 days
    /// with `daily`. Figures are kept for 35 days, and at most 1,000 buckets are
    /// answered: an earlier `start` is refused.
    #[param(example = "2026-01-31T09:30:00Z")]
    start: Option<String>,
    /// As `start`; a day is counted as a whole. Default: now.
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

/// What a hook came to, by the hour or the day
///
/// In at most 1,000 buckets, which is 41 days by the hour.
#[utoipa::path(
    get, path = "/api/hooks/{id}/analytics", tag = "hooks", params(("id" = String, Path, description = "The hook"), AnalyticsQuery),
    responses((status = 200, body = HookAnalytics), (status = 404, body = ErrorBody)),
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

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct EventFigures {
    deliveries: u64,
    /// 0 to 1.
    success_rate: f64,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct GlobalHookAnalytics {
    /// Deliveries that succeeded or were given up, and executions, of the last 35 days.
    total_deliveries: u64,
    /// 0 to 1; 0 when nothing ended.
    success_rate: f64,
    avg_latency_ms: f64,
    /// By the type of the event.
    by_event: BTreeMap<String, EventFigures>,
    /// How many dead letters there are now.
    dead_letter_count: u64,
}

/// What all hooks came to
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
