//! Worker that creates the daily backup. It needs no lease, because backups hold the lock of the data directory and
//! check under it whether the slot already has one.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::Timestamp;
use agentd_core::runtime::{NextDue, Worker, WorkerError, WorkerReport};
use agentd_schedule::{Schedule, ScheduleSpec, Zone};
use agentd_store::Recorder;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::backups::{BackupRequest, Backups, has_daily};
use super::error::BackupError;
use super::kept::{WorkKind, WorkState};
use super::service::Unreadable;
use super::settings::{BackupSchedule, BackupSettings};

/// Maximum age of the latest slot; a slot occurs every day.
const MAX_LOOKBACK: Duration = Duration::from_secs(2 * 24 * 60 * 60);
/// Delay before a failed backup is retried.
const RETRY_DELAY: Duration = Duration::from_secs(60 * 60);

#[derive(Debug)]
pub(super) struct DailyBackup {
    backups: Backups,
    next: Arc<NextDue>,
}

impl DailyBackup {
    pub(super) fn new(backups: Backups) -> Self {
        Self { backups, next: Arc::default() }
    }

    async fn run(&self) -> Result<WorkerReport, WorkerError> {
        let settings = self.backups.all_settings().get::<BackupSettings>().await?;
        let now = self.backups.context().clock.now();
        let Some((slot, next)) = self.slots(&settings, now) else {
            self.next.note(None);
            return Ok(WorkerReport::IDLE);
        };
        if has_daily(&self.backups.list().await?, slot, now) {
            self.next.note(Some(next));
            return Ok(WorkerReport::IDLE);
        }
        self.next.note(Some(now + self.interval()));
        if self.has_failed_since(now - RETRY_DELAY, now).await? {
            return Ok(WorkerReport::IDLE);
        }
        let wanted = BackupRequest { passphrase: None, unreadable: Unreadable::LeaveOut, unless_since: Some(slot) };
        match self.backups.make(wanted, Recorder::none()).await {
            // The backup continues in the background.
            Ok(_) | Err(BackupError::Busy) => Ok(WorkerReport::IDLE),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the latest slot and the next one; `None` if the schedule is off.
    fn slots(&self, settings: &BackupSettings, now: Timestamp) -> Option<(Timestamp, Timestamp)> {
        if settings.schedule == BackupSchedule::Off {
            return None;
        }
        let profile = self.backups.all_settings().profile();
        let spec = ScheduleSpec::cron(format!("0 {} * * *", settings.hour), profile.timezone.clone());
        let schedule: Schedule = spec.check(&Zone::UTC).ok()?;
        Some((schedule.latest_between(now - MAX_LOOKBACK, now, now)?, schedule.next_after(now, now)?))
    }

    /// Returns whether a daily backup failed recently. Retrying every minute would not free a full disk, and might kill
    /// the daemon repeatedly.
    async fn has_failed_since(&self, since: Timestamp, now: Timestamp) -> Result<bool, BackupError> {
        let Some(last) = self.backups.work().await? else { return Ok(false) };
        let is_daily = last.work.kind == WorkKind::Backup && last.work.name.starts_with("daily-");
        let has_failed = matches!(last.work.state, WorkState::Failed | WorkState::Interrupted);
        let is_recent = last.work.ended_at.is_some_and(|ended| ended > since && ended <= now);
        Ok(is_daily && has_failed && is_recent)
    }
}

impl Worker for DailyBackup {
    fn name(&self) -> &'static str {
        "backup.daily"
    }

    fn description(&self) -> &'static str {
        "Creates the daily backup."
    }

    fn interval(&self) -> Duration {
        Duration::from_secs(60)
    }

    fn idle_until(&self) -> Option<Timestamp> {
        // Changes to settings wake the worker.
        Some(self.next.at())
    }

    fn run_once(&self) -> BoxFuture<'_, Result<WorkerReport, WorkerError>> {
        self.run().boxed()
    }
}
