//! What the owner's habits say, and what a calendar shows.

use agentd_base::{Edge, FieldProblem, Problems, Timestamp};
use agentd_engine::agents::AgentId;
use agentd_schedule::{ScheduleSpec, Zone};
use agentd_web::{Answer, ApiError, Json, Query};
use axum::extract::State;
use jiff::ToSpan;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::scheduler::model::{JobId, RunId};
use crate::scheduler::service::{CalendarEntry, Scheduler};

/// The longest range of a calendar, in days.
const MOST_DAYS: u64 = 92;
const DEFAULT_DAYS: i64 = 31;

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SuggestionView {
    /// `HH:MM` in the profile's time zone.
    #[schema(example = "09:00")]
    time: String,
    /// `monday` to `sunday`.
    days: Vec<String>,
    /// In the interface's language.
    reason: String,
    /// As a job takes it.
    schedule: ScheduleSpec,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SuggestionList {
    suggestions: Vec<SuggestionView>,
}

/// Times at which something could be planned
///
/// From what the owner did in the last 28 days: hours at which it is usual to be there, the firmest first, and a
/// quiet time for long work last. Empty without enough to go by.
#[utoipa::path(
    get, path = "/api/scheduler/smart/suggestions", tag = "scheduler",
    responses((status = 200, body = SuggestionList)),
)]
pub(super) async fn list_suggestions(State(scheduler): State<Scheduler>) -> Answer<SuggestionList> {
    let found = scheduler.suggestions(scheduler.language()).await?;
    let suggestions = found.into_iter().map(|suggestion| SuggestionView {
        time: suggestion.time,
        days: suggestion.days.into_iter().map(str::to_owned).collect(),
        reason: suggestion.reason,
        schedule: suggestion.schedule,
    });
    Ok(Json(SuggestionList { suggestions: suggestions.collect() }))
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct HeatmapView {
    /// 24 rows, one for each hour of the day, of 7 columns, Monday first: 0 to 1, where 1 is the busiest hour of
    /// the week.
    heatmap: Vec<Vec<f64>>,
    /// The same as numbers: messages that were written and runs that were started by hand.
    counts: Vec<Vec<u64>>,
    /// Whose hours these are.
    timezone: String,
    since: Timestamp,
    total: u64,
}

/// At which hours of the week the owner is there
///
/// Over the last 90 days, in the profile's time zone.
#[utoipa::path(
    get, path = "/api/scheduler/smart/heatmap", tag = "scheduler",
    responses((status = 200, body = HeatmapView)),
)]
pub(super) async fn get_activity_heatmap(State(scheduler): State<Scheduler>) -> Answer<HeatmapView> {
    let found = scheduler.heatmap().await?;
    let busiest = found.counts.iter().flatten().copied().max().unwrap_or(0);
    #[allow(clippy::cast_precision_loss, reason = "a share, rounded to a hundredth")]
    let level = |count: u64| if busiest == 0 { 0.0 } else { (count as f64 / busiest as f64 * 100.0).round() / 100.0 };
    Ok(Json(HeatmapView {
        heatmap: found.counts.iter().map(|hour| hour.iter().map(|count| level(*count)).collect()).collect(),
        counts: found.counts.iter().map(|hour| hour.to_vec()).collect(),
        timezone: found.zone.name().to_owned(),
        since: found.since,
        total: found.counts.iter().flatten().sum(),
    }))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct CalendarQuery {
    /// A date or an ISO 8601 time, in the profile's zone where it names none. Default: the first of this month.
    #[param(max_length = 64, example = "2026-03-01")]
    start: Option<String>,
    /// The first instant that is not shown any more; 92 days after `start` at most. Default: 31 days after it.
    #[param(max_length = 64, example = "2026-04-01")]
    end: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct CalendarEntryView {
    job_id: JobId,
    agent_id: AgentId,
    /// The job's.
    name: String,
    /// When it was or will be due; of a run that was started otherwise, when that was.
    at: Timestamp,
    /// `scheduled` for what is to come, else the run's.
    status: String,
    /// `null` for what is to come.
    run_id: Option<RunId>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct CalendarView {
    start: Timestamp,
    end: Timestamp,
    /// The profile's.
    timezone: String,
    /// The earliest first.
    entries: Vec<CalendarEntryView>,
    /// There is more: 2,000 entries are shown at most, and 200 to come of one job.
    truncated: bool,
}

impl CalendarQuery {
    fn range(&self, scheduler: &Scheduler) -> Result<(Timestamp, Timestamp), Vec<FieldProblem>> {
        let zone = scheduler.zone();
        let mut problems = Problems::new();
        let start = bound("start", self.start.as_deref(), &zone, &mut problems).or_else(|| scheduler.first_of_month());
        let mut end = bound("end", self.end.as_deref(), &zone, &mut problems);
        if self.end.is_none() {
            end = start.and_then(|start| zone.instant(zone.wall(start).checked_add(DEFAULT_DAYS.days()).ok()?));
            problems.require(
                start.is_none() || end.is_some(),
                "end",
                "is required where 31 days later no year has four digits",
            );
        }
        if let (Some(start), Some(end)) = (start, end) {
            problems.require(start < end, "end", "must lie after start");
            problems.require(
                end.since(start).as_secs() <= (MOST_DAYS + 1) * 86_400,
                "end",
                "lies 92 days after start at most",
            );
        }
        problems.into_result()?;
        Ok((start.unwrap_or_default(), end.unwrap_or_default()))
    }
}

impl From<CalendarEntry> for CalendarEntryView {
    fn from(entry: CalendarEntry) -> Self {
        Self {
            job_id: entry.job_id,
            agent_id: entry.agent_id,
            name: entry.name,
            at: entry.at,
            status: entry.run.as_ref().map_or("scheduled", |(_, status)| status.as_str()).to_owned(),
            run_id: entry.run.map(|(id, _)| id),
        }
    }
}

/// What ran and what will run in a range
#[utoipa::path(
    get, path = "/api/scheduler/calendar-data", tag = "scheduler", params(CalendarQuery),
    responses((status = 200, body = CalendarView)),
)]
pub(super) async fn get_calendar_data(
    State(scheduler): State<Scheduler>,
    Query(query): Query<CalendarQuery>,
) -> Answer<CalendarView> {
    let (start, end) = query.range(&scheduler).map_err(ApiError::invalid)?;
    let calendar = scheduler.calendar(start, end).await?;
    Ok(Json(CalendarView {
        start,
        end,
        timezone: calendar.zone.name().to_owned(),
        entries: calendar.entries.into_iter().map(CalendarEntryView::from).collect(),
        truncated: calendar.truncated,
    }))
}

/// A date is its first instant in the zone.
fn bound(field: &str, text: Option<&str>, zone: &Zone, problems: &mut Problems) -> Option<Timestamp> {
    let zone = TimeZone::get(zone.name()).unwrap_or(TimeZone::UTC);
    let time = Timestamp::read(text?, &zone, Edge::First);
    if time.is_none() {
        problems.add(field, "must be a date such as 2026-03-01 or an ISO 8601 time such as 2026-03-01T09:00:00Z");
    }
    time
}
