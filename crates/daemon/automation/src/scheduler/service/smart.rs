//! Activity heatmap, schedule suggestions and calendar.

use std::time::Duration;

use agentd_base::Timestamp;
use agentd_engine::agents::AgentId;
use agentd_schedule::{Language, Zone};

use super::Scheduler;
use crate::scheduler::activity::Activity;
use crate::scheduler::error::SchedulerError;
use crate::scheduler::model::{
    HABIT_DAYS, HEATMAP_DAYS, HourOfWeek, JobId, RunId, RunStatus, Suggestion, hour_of_week, suggestions,
};
use crate::scheduler::store::calendar;

/// Maximum number of jobs in a calendar, earliest due first.
const MAX_CALENDAR_JOBS: u32 = 1_000;
/// Maximum number of slots per job in a calendar.
const MAX_SLOTS_PER_JOB: usize = 200;
/// Maximum number of entries in a calendar.
const MAX_ENTRIES: usize = 2_000;

/// Activity of the owner by hour of the week.
#[derive(Debug, Clone)]
pub struct Heatmap {
    pub counts: HourOfWeek,
    pub zone: Zone,
    pub since: Timestamp,
}

/// A past run or a future slot.
#[derive(Debug, Clone)]
pub struct CalendarEntry {
    pub job_id: JobId,
    pub agent_id: AgentId,
    pub name: String,
    pub at: Timestamp,
    /// `None` for a future slot.
    pub run: Option<(RunId, RunStatus)>,
}

/// Calendar entries within a time range.
#[derive(Debug, Clone)]
pub struct Calendar {
    /// Entries, earliest first.
    pub entries: Vec<CalendarEntry>,
    /// Whether entries were omitted because of a limit.
    pub truncated: bool,
    pub zone: Zone,
}

impl Scheduler {
    async fn activity(&self, days: i64) -> Result<(Vec<Activity>, Timestamp), SchedulerError> {
        let since = self.0.context.clock.now() - Duration::from_secs(days.unsigned_abs() * 86_400);
        let mut found = calendar::activity_since(&mut self.0.context.db.read().await?, since).await?;
        found.extend(self.0.activity.activity_since(since).await?);
        Ok((found, since))
    }

    /// Returns the owner's activity by hour of the week over the last 90 days: written messages and manually started
    /// runs.
    ///
    /// # Errors
    /// A store error.
    pub async fn heatmap(&self) -> Result<Heatmap, SchedulerError> {
        let (activity, since) = self.activity(HEATMAP_DAYS).await?;
        let zone = self.zone();
        Ok(Heatmap { counts: hour_of_week(&activity, &zone), zone, since })
    }

    /// Returns schedule suggestions derived from the owner's activity.
    ///
    /// # Errors
    /// A store error.
    pub async fn suggestions(&self, language: Language) -> Result<Vec<Suggestion>, SchedulerError> {
        let (activity, _) = self.activity(HABIT_DAYS).await?;
        Ok(suggestions(&activity, self.0.context.clock.now(), &self.zone(), language))
    }

    /// Returns the past runs and the future slots of active jobs within a range.
    ///
    /// # Errors
    /// A store error.
    pub async fn calendar(&self, from: Timestamp, until: Timestamp) -> Result<Calendar, SchedulerError> {
        let now = self.0.context.clock.now();
        let mut read = self.0.context.db.read().await?;
        let limit = u32::try_from(MAX_ENTRIES + 1).unwrap_or(u32::MAX);
        let runs = calendar::list_runs(&mut read, from, until, limit).await?;
        let jobs = if until > now {
            calendar::list_due_before(&mut read, until, MAX_CALENDAR_JOBS + 1).await?
        } else {
            Vec::new()
        };
        drop(read);
        let mut truncated = jobs.len() > MAX_CALENDAR_JOBS as usize;
        let mut entries: Vec<CalendarEntry> = runs
            .into_iter()
            .map(|run| CalendarEntry {
                job_id: run.job_id,
                agent_id: run.agent_id,
                name: run.name,
                at: run.at,
                run: Some((run.run_id, run.status)),
            })
            .collect();
        for job in jobs.into_iter().take(MAX_CALENDAR_JOBS as usize) {
            let Some(next) = job.next_run_at else { continue };
            // A due slot without a run counts as a future slot.
            let first = std::iter::once(next).filter(|slot| *slot >= from);
            let start = next.max(Timestamp::from_micros(from.as_micros().saturating_sub(1)));
            let later = job.schedule.occurrences(start, job.counted_from).take_while(|slot| *slot < until);
            let slots: Vec<Timestamp> = first.chain(later).take(MAX_SLOTS_PER_JOB + 1).collect();
            truncated |= slots.len() > MAX_SLOTS_PER_JOB;
            entries.extend(slots.into_iter().take(MAX_SLOTS_PER_JOB).map(|at| CalendarEntry {
                job_id: job.id.clone(),
                agent_id: job.agent_id.clone(),
                name: job.name.clone(),
                at,
                run: None,
            }));
        }
        entries.sort_by(|a, b| (a.at, &a.name, a.job_id.as_str()).cmp(&(b.at, &b.name, b.job_id.as_str())));
        truncated |= entries.len() > MAX_ENTRIES;
        entries.truncate(MAX_ENTRIES);
        Ok(Calendar { entries, truncated, zone: self.zone() })
    }
}
