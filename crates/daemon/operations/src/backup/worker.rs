//! A backup every day, where the owner wants it. Needs no lease of its own: who works on backups holds the lock of the
//! data directory, and looks under it whether the day's backup is there.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::Timestamp;
use agentd_core::runtime::{NextDue, Worker, WorkerError, WorkerReport};
use agentd_schedule::{Schedule, ScheduleSpec, Zone};
use agentd_store::Recorder;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::backups::{Backups, Wanted, has_daily};
use super::error::BackupError;
use super::kept::{WorkKind, WorkState};
use super::service::Unreadable;
use super::settings::{BackupSchedule, BackupSettings};

/// A slot further back than this is not looked for; there is one every day.
const LOOKED_BACK: Duration = Duration::from_secs(2 * 24 * 60 * 60);
/// How soon one that came to nothing is tried again.
const TRIED_AGAIN_AFTER: Duration = Duration::from_secs(60 * 60);

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
        if self.came_to_nothing_since(now - TRIED_AGAIN_AFTER, now).await? {
            return Ok(WorkerReport::IDLE);
        }
        let wanted = Wanted { passphrase: None, unreadable: Unreadable::LeaveOut, unless_since: Some(slot) };
        match self.backups.make(wanted, Recorder::none()).await {
            // It goes on by itself.
            Ok(_) | Err(BackupError::Busy) => Ok(WorkerReport::IDLE),
            Err(error) => Err(error.into()),
        }
    }

    /// The slot that is due and the one after it; `None` where no backup is to be made.
    fn slots(&self, settings: &BackupSettings, now: Timestamp) -> Option<(Timestamp, Timestamp)> {
        if settings.schedule == BackupSchedule::Off {
            return None;
        }
        let profile = self.backups.all_settings().profile();
        let spec = ScheduleSpec::cron(format!("0 {} * * *", settings.hour), profile.timezone.clone());
        let schedule: Schedule = spec.check(&Zone::UTC).ok()?;
        Some((schedule.latest_between(now - LOOKED_BACK, now, now)?, schedule.next_after(now, now)?))
    }

    /// Whether a daily backup failed a moment ago: a full disk is not emptied by trying every minute, and what kills
    /// the daemon must not do so every minute.
    async fn came_to_nothing_since(&self, since: Timestamp, now: Timestamp) -> Result<bool, BackupError> {
        let Some(last) = self.backups.work().await? else { return Ok(false) };
        let is_daily = last.work.kind == WorkKind::Backup && last.work.name.starts_with("daily-");
        let came_to_nothing = matches!(last.work.state, WorkState::Failed | WorkState::Interrupted);
        let is_recent = last.work.ended_at.is_some_and(|ended| ended > since && ended <= now);
        Ok(is_daily && came_to_nothing && is_recent)
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
        // Settings are written.
        Some(self.next.at())
    }

    fn run_once(&self) -> BoxFuture<'_, Result<WorkerReport, WorkerError>> {
        self.run().boxed()
    }
}
