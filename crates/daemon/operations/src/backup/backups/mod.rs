//! Backups stored by the daemon: creating, uploading, listing, restoring and deleting them. Long operations continue
//! after the request; their state is stored next to the archives.

mod restoring;
mod uploading;

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use agentd_base::{Secret, Timestamp, trace};
use agentd_core::parts::Detached;
use agentd_core::runtime::AppContext;
use agentd_core::settings::Settings;
use agentd_store::{NewEvent, Recorder, StoreError, Tx};
use futures_util::StreamExt;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::backup::error::BackupError;
use crate::backup::kept::{BackupFolder, Partial, StoredArchive, Work, WorkKind, WorkState, remove_abandoned_parts};
use crate::backup::model::SecretName;
use crate::backup::sealing;
use crate::backup::service::{Backup, NewArchive, Turn, Unreadable, blocking};
use crate::backup::settings::BackupSettings;

/// Maximum number of stored archives; protects against runaway scripts.
pub(crate) const MAX_ARCHIVES: usize = 50;

/// Service for stored backups. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Backups {
    backup: Backup,
    settings: Settings,
    context: AppContext,
    /// Operation running in this daemon. Cleared only after the lock is released, so that a client that sees it
    /// finished can start the next one.
    current: Arc<Mutex<Option<Work>>>,
    /// Number of bytes written of the archive being created.
    written: Arc<AtomicU64>,
    /// Permit for one upload at a time, because each may use all remaining space.
    uploads: Arc<Semaphore>,
    /// Serializes the final check of the limits and the rename of an archive.
    finalizing: Arc<tokio::sync::Mutex<()>>,
}

/// State of the running or last operation.
#[derive(Debug, Clone)]
pub struct WorkReport {
    pub work: Work,
    /// Number of bytes written so far, while this daemon writes an archive.
    pub written_bytes: Option<u64>,
    /// After a restore: secrets that are still missing and must be entered again.
    pub secrets_missing: Vec<SecretName>,
}

/// Options of a new backup.
#[derive(Debug)]
pub(crate) struct BackupRequest {
    pub(crate) passphrase: Option<Secret>,
    pub(crate) unreadable: Unreadable,
    /// Start of the scheduled slot; no backup is made if the slot already has one. `None` for a requested backup.
    pub(crate) unless_since: Option<Timestamp>,
}

impl Backups {
    pub fn new(context: &AppContext, backup: Backup, settings: Settings) -> Detached<Self> {
        Detached::new(Self {
            backup,
            settings,
            context: context.clone(),
            current: Arc::default(),
            written: Arc::default(),
            uploads: Arc::new(Semaphore::new(1)),
            finalizing: Arc::default(),
        })
    }

    pub(crate) fn all_settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn context(&self) -> &AppContext {
        &self.context
    }

    /// Returns the maximum total size of all archives.
    ///
    /// # Errors
    /// The settings cannot be read.
    pub async fn limit_bytes(&self) -> Result<u64, BackupError> {
        Ok(self.settings.get::<BackupSettings>().await?.limit_bytes())
    }

    /// Returns all archives, newest first. Removes partial archives of killed daemons.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub async fn list(&self) -> Result<Vec<StoredArchive>, BackupError> {
        let folder = self.folder()?;
        blocking(move || {
            remove_abandoned_parts(&folder);
            folder.list()
        })
        .await
    }

    /// Returns one archive, opened at its beginning.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn open(&self, name: String) -> Result<(StoredArchive, File), BackupError> {
        let folder = self.folder()?;
        blocking(move || folder.find(&name)).await
    }

    /// Deletes a stored backup.
    ///
    /// # Errors
    /// `NotFound`, or the file cannot be deleted.
    pub async fn delete(&self, name: String) -> Result<(), BackupError> {
        let folder = self.folder()?;
        let removed = name.clone();
        blocking(move || folder.remove(&removed)).await?;
        tracing::info!(name, "backup deleted");
        Ok(())
    }

    /// Returns the running or last operation; `None` if there was none.
    ///
    /// # Errors
    /// The folder or the database cannot be read.
    pub async fn work(&self) -> Result<Option<WorkReport>, BackupError> {
        let current = self.current.lock().clone();
        if let Some(work) = current {
            let is_written = work.kind == WorkKind::Backup;
            let written_bytes = is_written.then(|| self.written.load(Ordering::Relaxed));
            return Ok(Some(WorkReport { work, written_bytes, secrets_missing: Vec::new() }));
        }
        let folder = self.folder()?;
        let Some(mut work) = blocking(move || folder.read_work()).await? else { return Ok(None) };
        if work.state == WorkState::Running {
            work = self.settle_interrupted(work).await?;
        }
        let mut secrets_missing = Vec::new();
        if work.kind == WorkKind::Restore && work.state == WorkState::Done {
            let present = self.backup.secret_names().await?;
            secrets_missing = work.secrets.iter().filter(|name| !present.contains(name)).cloned().collect();
        }
        Ok(Some(WorkReport { work, written_bytes: None, secrets_missing }))
    }

    /// Marks a running operation as interrupted if no daemon holds the lock anymore.
    async fn settle_interrupted(&self, work: Work) -> Result<Work, BackupError> {
        let turn = match self.backup.begin() {
            Ok(turn) => turn,
            Err(BackupError::Busy) => return Ok(work),
            Err(error) => return Err(error),
        };
        let (folder, now) = (self.folder()?, self.context.clock.now());
        blocking(move || {
            let _turn = turn;
            remove_abandoned_parts(&folder);
            Ok(folder.settle_interrupted(now)?.unwrap_or(work))
        })
        .await
    }

    /// Starts a backup in the background; returns `None` if the scheduled slot already has one.
    ///
    /// # Errors
    /// `Busy`, `TooMany`, `Full`, `ShortPassphrase`, or the recorder fails.
    pub(crate) async fn make(
        &self,
        wanted: BackupRequest,
        recorder: Recorder<Work>,
    ) -> Result<Option<Work>, BackupError> {
        // Spawned, so that the operation completes even if the client disconnects.
        let this = self.clone();
        let beginning = async move { this.start_backup(wanted, recorder).await };
        tokio::spawn(trace::with_context(trace::current(), beginning))
            .await
            .unwrap_or(Err(BackupError::EndedUnexpectedly))
    }

    async fn start_backup(&self, wanted: BackupRequest, recorder: Recorder<Work>) -> Result<Option<Work>, BackupError> {
        sealing::check_passphrase(wanted.passphrase.as_ref())?;
        let turn: Turn = Arc::new(self.backup.begin()?);
        let (folder, settings) = (self.folder()?, self.settings.get::<BackupSettings>().await?);
        let kept = self.list().await?;
        let (now, suffix) = (self.context.clock.now(), self.suffix());
        let is_daily = wanted.unless_since.is_some();
        if wanted.unless_since.is_some_and(|since| has_daily(&kept, since, now)) {
            return Ok(None);
        }
        let mut space = remaining_space(&kept, &settings, is_daily);
        if !is_daily {
            // The scheduler does not wait for the result, so errors are reported as a failed backup.
            space = Ok(space?);
        }
        let name =
            if is_daily { StoredArchive::daily_name(now, &suffix) } else { StoredArchive::manual_name(now, &suffix) };
        let work = self.start_work(folder, WorkKind::Backup, name, Vec::new()).await?;
        let recorded = work.clone();
        let record = async move |tx: &mut Tx| recorder.record(tx, &recorded).await;
        let recorded = self.context.db.write::<_, StoreError, _>(record).await;
        if let Err(error) = &recorded
            && !error.is_unavailable()
        {
            let error = error.clone().into();
            self.end_work(work, Err(&error)).await;
            self.current.lock().take();
            return Err(error);
        }
        self.written.store(0, Ordering::Relaxed);
        let (this, started) = (self.clone(), work.clone());
        tokio::spawn(async move {
            let creation = {
                let (this, turn, name) = (this.clone(), Arc::clone(&turn), work.name.clone());
                tokio::spawn(async move { this.write_archive(turn, name, wanted, space?).await })
            };
            let outcome = creation.await.unwrap_or_else(|_| Err(BackupError::EndedUnexpectedly));
            this.report_created(&work, is_daily, &outcome).await;
            if outcome.is_ok() && is_daily {
                this.delete_old(settings.keep).await;
            }
            this.end_work(work, outcome.as_ref().map(|_| ())).await;
            let mut current = this.current.lock();
            drop(turn);
            current.take();
        });
        // The recording may have succeeded despite the error; a repeated request then reports the running operation.
        recorded?;
        Ok(Some(started))
    }

    async fn write_archive(
        &self,
        turn: Turn,
        name: String,
        wanted: BackupRequest,
        space: u64,
    ) -> Result<StoredArchive, BackupError> {
        let (folder, is_daily) = (self.folder()?, wanted.unless_since.is_some());
        let created = self.backup.create_in_turn(turn, wanted.passphrase, wanted.unreadable).await?;
        let NewArchive { stream, .. } = created;
        let mut stream = std::pin::pin!(stream);
        let mut partial = Partial::create(&folder, &self.context.ids.next_ulid(), space)?;
        while let Some(chunk) = stream.next().await {
            let chunk = chunk.map_err(BackupError::files("the content of the archive"))?;
            partial.write(&chunk).await?;
            self.written.fetch_add(chunk.len() as u64, Ordering::Relaxed);
        }
        self.keep(partial, name, is_daily).await
    }

    /// Renames a partial archive to its final name, unless other archives used up the space meanwhile.
    async fn keep(&self, partial: Partial, name: String, is_daily: bool) -> Result<StoredArchive, BackupError> {
        let _one_at_a_time = self.finalizing.lock().await;
        let (folder, settings) = (self.folder()?, self.settings.get::<BackupSettings>().await?);
        let mut kept = self.list().await?;
        kept.retain(|kept| kept.name != name);
        if partial.written() > remaining_space(&kept, &settings, is_daily)? {
            return Err(BackupError::Full);
        }
        partial.keep(&name).await?;
        blocking(move || folder.find(&name).map(|(kept, _)| kept)).await
    }

    async fn report_created(&self, work: &Work, is_daily: bool, outcome: &Result<StoredArchive, BackupError>) {
        match outcome {
            Ok(kept) => {
                tracing::info!(name = kept.name, bytes = kept.size_bytes, "backup created");
                let (size, has_secrets) = (kept.size_bytes, kept.manifest.has_secrets);
                let data =
                    json!({"name": kept.name, "size_bytes": size, "has_secrets": has_secrets, "daily": is_daily});
                self.emit("backup.created", data).await;
            }
            Err(error) => {
                tracing::error!(name = work.name, error = error as &dyn std::error::Error, "backup failed");
                self.emit("backup.failed", failure(work, error)).await;
            }
        }
    }

    async fn emit(&self, event: &'static str, data: Value) {
        let emit_event = async move |tx: &mut Tx| tx.emit(NewEvent::new(event, data.clone())).await.map(|_| ());
        if let Err(error) = self.context.db.write::<_, StoreError, _>(emit_event).await {
            tracing::warn!(event, %error, "failed to emit backup event");
        }
    }

    /// Deletes all but the newest `keep` daily backups.
    async fn delete_old(&self, keep: u32) {
        let forget = async {
            let now = self.context.clock.now();
            let mut old: Vec<_> = self.list().await?.into_iter().filter(StoredArchive::is_daily).collect();
            // A backup made while the clock was ahead must not count as the newest for years.
            old.sort_by_key(|kept| kept.manifest.created_at > now);
            for kept in old.into_iter().skip(usize::try_from(keep).unwrap_or(usize::MAX)) {
                self.delete(kept.name).await?;
            }
            Ok::<_, BackupError>(())
        };
        if let Err(error) = forget.await {
            tracing::warn!(%error, "failed to delete old daily backups");
        }
    }

    async fn start_work(
        &self,
        folder: BackupFolder,
        kind: WorkKind,
        name: String,
        secrets: Vec<SecretName>,
    ) -> Result<Work, BackupError> {
        let work = Work {
            kind,
            state: WorkState::Running,
            name,
            instance: self.context.instance.to_string(),
            started_at: self.context.clock.now(),
            ended_at: None,
            failure: None,
            secrets,
        };
        let started = work.clone();
        blocking(move || folder.write_work(&started)).await?;
        *self.current.lock() = Some(work.clone());
        Ok(work)
    }

    /// Requires the backup lock.
    async fn end_work(&self, work: Work, outcome: Result<(), &BackupError>) {
        let work = work.ended(self.context.clock.now(), outcome);
        let written = match self.folder() {
            Ok(folder) => blocking(move || folder.write_work(&work)).await,
            Err(error) => Err(error),
        };
        if let Err(error) = written {
            tracing::error!(%error, "failed to store the result of a backup operation");
        }
    }

    fn folder(&self) -> Result<BackupFolder, BackupError> {
        BackupFolder::open(&self.context.data_dir)
    }

    /// Returns a random suffix for names.
    fn suffix(&self) -> String {
        let id = self.context.ids.next_ulid().to_lowercase();
        id.get(id.len().saturating_sub(6)..).unwrap_or_default().to_owned()
    }
}

fn failure(work: &Work, error: &BackupError) -> Value {
    let ended = work.clone().ended(work.started_at, Err(error));
    json!({"name": work.name, "kind": work.kind, "error": ended.failure.map(|failure| failure.message)})
}

/// Returns whether a daily backup was made since `since`. Backups with future timestamps were made while the clock was
/// ahead and do not count.
pub(crate) fn has_daily(kept: &[StoredArchive], since: Timestamp, now: Timestamp) -> bool {
    kept.iter().any(|kept| kept.is_daily() && (since..=now).contains(&kept.manifest.created_at))
}

/// Returns the maximum size of another archive.
fn remaining_space(kept: &[StoredArchive], settings: &BackupSettings, is_daily: bool) -> Result<u64, BackupError> {
    // A daily backup replaces an older one.
    let replaces_older = is_daily && kept.iter().filter(|kept| kept.is_daily()).count() >= settings.keep as usize;
    if kept.len() >= MAX_ARCHIVES + usize::from(replaces_older) {
        return Err(BackupError::TooMany { limit: MAX_ARCHIVES });
    }
    let taken: u64 = kept.iter().map(|kept| kept.size_bytes).sum();
    settings.limit_bytes().checked_sub(taken).filter(|space| *space > 0).ok_or(BackupError::Full)
}
