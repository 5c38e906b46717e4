//! What the owner's habits say, and what a calendar shows.

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

/// Jobs that a calendar looks at, the ones that are due first.
const MOST_JOBS: u32 = 1_000;
/// Slots of one job in a calendar.
const MOST_SLOTS_OF_A_JOB: usize = 200;
/// Entries of a calendar.
const MOST_ENTRIES: usize = 2_000;

/// When the owner was there.
#[derive(Debug, Clone)]
pub struct Heatmap {
    pub counts: HourOfWeek,
    pub zone: Zone,
    pub since: Timestamp,
}

/// A run that was, or a slot to come.
#[derive(Debug, Clone)]
pub struct CalendarEntry {
    pub job_id: JobId,
    pub agent_id: AgentId,
    pub name: String,
    pub at: Timestamp,
    /// `None` for what is to come.
    pub run: Option<(RunId, RunStatus)>,
}

/// What is in a range of a calendar.
#[derive(Debug, Clone)]
pub struct Calendar {
    /// The earliest first.
    pub entries: Vec<CalendarEntry>,
    /// More is in the range than is listed.
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

    /// At which hours of the week the owner was there in the last 90 days: messages written and runs started by
    /// hand.
    ///
    /// # Errors
    /// The store's refusal.
    pub async fn heatmap(&self) -> Result<Heatmap, SchedulerError> {
        let (activity, since) = self.activity(HEATMAP_DAYS).await?;
        let zone = self.zone();
        Ok(Heatmap { counts: hour_of_week(&activity, &zone), zone, since })
    }

    /// What could be planned around the owner's habits.
    ///
    /// # Errors
    /// The store's refusal.
    pub async fn suggestions(&self, language: Language) -> Result<Vec<Suggestion>, SchedulerError> {
        let (activity, _) = self.activity(HABIT_DAYS).await?;
        Ok(suggestions(&activity, self.0.context.clock.now(), &self.zone(), language))
    }

    /// The runs of a range that were, and the slots of active jobs that are to come.
    ///
    /// # Errors
    /// The store's refusal.
    pub async fn calendar(&self, from: Timestamp, until: Timestamp) -> Result<Calendar, SchedulerError> {
        let now = self.0.context.clock.now();
        let mut read = self.0.context.db.read().await?;
        let most = u32::try_from(MOST_ENTRIES + 1).unwrap_or(u32::MAX);
        let runs = calendar::list_runs(&mut read, from, until, most).await?;
        let jobs =
            if until > now { calendar::list_due_before(&mut read, until, MOST_JOBS + 1).await? } else { Vec::new() };
        drop(read);
        let mut truncated = jobs.len() > MOST_JOBS as usize;
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
        for job in jobs.into_iter().take(MOST_JOBS as usize) {
            let Some(next) = job.next_run_at else { continue };
            // What is due and not handed out yet is to come too.
            let first = std::iter::once(next).filter(|slot| *slot >= from);
            let start = next.max(Timestamp::from_micros(from.as_micros().saturating_sub(1)));
            let later = job.schedule.occurrences(start, job.counted_from).take_while(|slot| *slot < until);
            let slots: Vec<Timestamp> = first.chain(later).take(MOST_SLOTS_OF_A_JOB + 1).collect();
            truncated |= slots.len() > MOST_SLOTS_OF_A_JOB;
            entries.extend(slots.into_iter().take(MOST_SLOTS_OF_A_JOB).map(|at| CalendarEntry {
                job_id: job.id.clone(),
                agent_id: job.agent_id.clone(),
                name: job.name.clone(),
                at,
                run: None,
            }));
        }
        entries.sort_by(|a, b| (a.at, &a.name, a.job_id.as_str()).cmp(&(b.at, &b.name, b.job_id.as_str())));
        truncated |= entries.len() > MOST_ENTRIES;
        entries.truncate(MOST_ENTRIES);
        Ok(Calendar { entries, truncated, zone: self.zone() })
    }
}
