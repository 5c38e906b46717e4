//! Schedule suggestions, the activity heatmap and the calendar.

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

/// Maximum range of a calendar, in days.
const MAX_DAYS: u64 = 92;
const DEFAULT_DAYS: i64 = 31;

/// Schedule suggested from the owner's habits.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SuggestionView {
    /// Time of day as `HH:MM` in the profile's time zone.
    #[schema(example = "09:00")]
    time: String,
    /// Weekdays, from `monday` to `sunday`.
    days: Vec<String>,
    /// Reason for the suggestion, in the interface language.
    reason: String,
    /// Schedule in the format of a job.
    schedule: ScheduleSpec,
}

/// List of schedule suggestions.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SuggestionList {
    /// Suggestions, most frequent hours first.
    suggestions: Vec<SuggestionView>,
}

/// List schedule suggestions
///
/// Derives suggestions from the owner's activity in the last 28 days. Habitual hours come first, most frequent first,
/// followed by a quiet period for long tasks. The list is empty without sufficient activity.
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

/// Activity of the owner by hour of the week.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct HeatmapView {
    /// 24 rows, one per hour of the day, with 7 columns, Monday first. Values from 0 to 1, where 1 is the busiest hour
    /// of the week.
    heatmap: Vec<Vec<f64>>,
    /// Number of written messages and manually started runs, in the same layout as `heatmap`.
    counts: Vec<Vec<u64>>,
    /// IANA time zone of the hours: that of the profile.
    timezone: String,
    /// Start of the counted period.
    since: Timestamp,
    /// Sum of `counts`.
    total: u64,
}

/// Get weekly activity heatmap
///
/// Returns the owner's activity by hour of the week over the last 90 days, in the profile's time zone.
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
    /// Start of the range: an ISO 8601 date or time, in the profile's time zone unless it has an offset. Default: the
    /// first of this month.
    #[param(max_length = 64, example = "2026-03-01")]
    start: Option<String>,
    /// End of the range, exclusive: a date or time in the same format, at most 92 days after `start`. Default: 31 days
    /// after `start`.
    #[param(max_length = 64, example = "2026-04-01")]
    end: Option<String>,
}

/// Past run or future slot of a job.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct CalendarEntryView {
    job_id: JobId,
    agent_id: AgentId,
    /// Name of the job.
    name: String,
    /// Due time of the slot; for a run with another cause, its creation time.
    at: Timestamp,
    /// `scheduled` for a future slot, otherwise the status of the run.
    status: String,
    /// Id of the run; null for a future slot.
    run_id: Option<RunId>,
}

/// Calendar entries within a range.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct CalendarView {
    /// Start of the range.
    start: Timestamp,
    /// End of the range, exclusive.
    end: Timestamp,
    /// IANA time zone of the profile.
    timezone: String,
    /// Entries, earliest first.
    entries: Vec<CalendarEntryView>,
    /// Whether entries were omitted. The limits are 2,000 entries, and 200 future slots per job.
    truncated: bool,
}

impl CalendarQuery {
    fn range(&self, scheduler: &Scheduler) -> Result<(Timestamp, Timestamp), Vec<FieldProblem>> {
        let zone = scheduler.zone();
        let mut problems = Problems::new();
        let start =
            parse_bound("start", self.start.as_deref(), &zone, &mut problems).or_else(|| scheduler.first_of_month());
        let mut end = parse_bound("end", self.end.as_deref(), &zone, &mut problems);
        if self.end.is_none() {
            end = start.and_then(|start| zone.instant(zone.wall(start).checked_add(DEFAULT_DAYS.days()).ok()?));
            problems.require(
                start.is_none() || end.is_some(),
                "end",
                "is required, because the default end is after the year 9999",
            );
        }
        if let (Some(start), Some(end)) = (start, end) {
            problems.require(start < end, "end", "must be after start");
            problems.require(
                end.since(start).as_secs() <= (MAX_DAYS + 1) * 86_400,
                "end",
                "must be at most 92 days after start",
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

/// Get calendar entries
///
/// Returns the past runs and the future slots of active jobs within a range.
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

/// Parses a bound of the range. A date is its first instant in the zone.
fn parse_bound(field: &str, text: Option<&str>, zone: &Zone, problems: &mut Problems) -> Option<Timestamp> {
    let zone = TimeZone::get(zone.name()).unwrap_or(TimeZone::UTC);
    let time = Timestamp::read(text?, &zone, Edge::First);
    if time.is_none() {
        problems.add(field, "must be a date such as 2026-03-01 or an ISO 8601 time such as 2026-03-01T09:00:00Z");
    }
    time
}
