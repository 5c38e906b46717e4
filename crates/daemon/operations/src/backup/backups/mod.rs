//! The backups that the daemon keeps itself: made, uploaded, listed, restored, deleted. What takes long goes on after
//! the request that began it; how far it is stands beside the archives.

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
use crate::backup::kept::{KeptArchive, KeptFolder, Partial, Work, WorkKind, WorkState, remove_abandoned_parts};
use crate::backup::model::SecretName;
use crate::backup::sealing;
use crate::backup::service::{Backup, NewArchive, Turn, Unreadable, blocking};
use crate::backup::settings::BackupSettings;

/// More than these are a mistake of some script.
pub(crate) const MOST_ARCHIVES: usize = 50;

/// Cheap to clone.
#[derive(Debug, Clone)]
pub struct Backups {
    backup: Backup,
    settings: Settings,
    context: AppContext,
    /// What is being done here, until the lock is free again: who is told that it is done may begin the next.
    under_way: Arc<Mutex<Option<Work>>>,
    /// What was written of the archive that is being made here.
    written: Arc<AtomicU64>,
    /// One upload at a time: each may take all the room that is left.
    uploads: Arc<Semaphore>,
    /// An archive gets its name after a last look at what is kept by then.
    keeping: Arc<tokio::sync::Mutex<()>>,
}

/// What is being done or was done last, as of now.
#[derive(Debug, Clone)]
pub struct WorkReport {
    pub work: Work,
    /// How much of the archive was written, while this daemon writes one.
    pub written_bytes: Option<u64>,
    /// After a restore: what must be entered again, as of now.
    pub secrets_missing: Vec<SecretName>,
}

/// What a backup is to be.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) passphrase: Option<Secret>,
    pub(crate) unreadable: Unreadable,
    /// The schedule wants it, unless one of its own was made since.
    pub(crate) unless_since: Option<Timestamp>,
}

impl Backups {
    pub fn new(context: &AppContext, backup: Backup, settings: Settings) -> Detached<Self> {
        Detached::new(Self {
            backup,
            settings,
            context: context.clone(),
            under_way: Arc::default(),
            written: Arc::default(),
            uploads: Arc::new(Semaphore::new(1)),
            keeping: Arc::default(),
        })
    }

    pub(crate) fn all_settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn context(&self) -> &AppContext {
        &self.context
    }

    /// How much all archives may take together.
    ///
    /// # Errors
    /// The settings cannot be read.
    pub async fn limit_bytes(&self) -> Result<u64, BackupError> {
        Ok(self.settings.get::<BackupSettings>().await?.limit_bytes())
    }

    /// Every archive that is kept, the newest first. What killed daemons left of others is removed.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub async fn list(&self) -> Result<Vec<KeptArchive>, BackupError> {
        let folder = self.folder()?;
        blocking(move || {
            remove_abandoned_parts(&folder);
            folder.list()
        })
        .await
    }

    /// One archive, open at its beginning.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn open(&self, name: String) -> Result<(KeptArchive, File), BackupError> {
        let folder = self.folder()?;
        blocking(move || folder.find(&name)).await
    }

    /// # Errors
    /// `NotFound`, or the file cannot be removed.
    pub async fn delete(&self, name: String) -> Result<(), BackupError> {
        let folder = self.folder()?;
        let removed = name.clone();
        blocking(move || folder.remove(&removed)).await?;
        tracing::info!(name, "a backup was deleted");
        Ok(())
    }

    /// What is being done with backups, or was done last; `None` when nothing ever was.
    ///
    /// # Errors
    /// The folder or the database cannot be read.
    pub async fn work(&self) -> Result<Option<WorkReport>, BackupError> {
        let under_way = self.under_way.lock().clone();
        if let Some(work) = under_way {
            let is_written = work.kind == WorkKind::Backup;
            let written_bytes = is_written.then(|| self.written.load(Ordering::Relaxed));
            return Ok(Some(WorkReport { work, written_bytes, secrets_missing: Vec::new() }));
        }
        let folder = self.folder()?;
        let Some(mut work) = blocking(move || folder.read_work()).await? else { return Ok(None) };
        if work.state == WorkState::Running {
            work = self.settle(work).await?;
        }
        let mut secrets_missing = Vec::new();
        if work.kind == WorkKind::Restore && work.state == WorkState::Done {
            let present = self.backup.secret_names().await?;
            secrets_missing = work.secrets.iter().filter(|name| !present.contains(name)).cloned().collect();
        }
        Ok(Some(WorkReport { work, written_bytes: None, secrets_missing }))
    }

    /// Another daemon does it, or did until it was killed: whoever works holds the lock.
    async fn settle(&self, work: Work) -> Result<Work, BackupError> {
        let turn = match self.backup.begin() {
            Ok(turn) => turn,
            Err(BackupError::Busy) => return Ok(work),
            Err(error) => return Err(error),
        };
        let (folder, now) = (self.folder()?, self.context.clock.now());
        blocking(move || {
            let _turn = turn;
            remove_abandoned_parts(&folder);
            Ok(folder.settle(now)?.unwrap_or(work))
        })
        .await
    }

    /// Begins a backup, which goes on by itself; `None` where the schedule has one already.
    ///
    /// # Errors
    /// `Busy`, `TooMany`, `Full`, `ShortPassphrase`, or the recorder's.
    pub(crate) async fn make(&self, wanted: Wanted, recorder: Recorder<Work>) -> Result<Option<Work>, BackupError> {
        // What has begun is brought to an end, even if the client goes away.
        let this = self.clone();
        let beginning = async move { this.begin_making(wanted, recorder).await };
        tokio::spawn(trace::within(trace::current(), beginning)).await.unwrap_or(Err(BackupError::EndedUnexpectedly))
    }

    async fn begin_making(&self, wanted: Wanted, recorder: Recorder<Work>) -> Result<Option<Work>, BackupError> {
        sealing::check_length(wanted.passphrase.as_ref())?;
        let turn: Turn = Arc::new(self.backup.begin()?);
        let (folder, settings) = (self.folder()?, self.settings.get::<BackupSettings>().await?);
        let kept = self.list().await?;
        let (now, suffix) = (self.context.clock.now(), self.suffix());
        let is_daily = wanted.unless_since.is_some();
        if wanted.unless_since.is_some_and(|since| has_daily(&kept, since, now)) {
            return Ok(None);
        }
        let mut room = room_among(&kept, &settings, is_daily);
        if !is_daily {
            // Nobody waits for the answer of the schedule: what it cannot begin is told as a failure.
            room = Ok(room?);
        }
        let name = if is_daily { KeptArchive::daily_name(now, &suffix) } else { KeptArchive::made_name(now, &suffix) };
        let work = self.begin_work(folder, WorkKind::Backup, name, Vec::new()).await?;
        let recorded = work.clone();
        let record = async move |tx: &mut Tx| recorder.record(tx, &recorded).await;
        let recorded = self.context.db.write::<_, StoreError, _>(record).await;
        if let Err(error) = &recorded
            && !error.is_unavailable()
        {
            let error = error.clone().into();
            self.end_work(work, Err(&error)).await;
            self.under_way.lock().take();
            return Err(error);
        }
        self.written.store(0, Ordering::Relaxed);
        let (this, begun) = (self.clone(), work.clone());
        tokio::spawn(async move {
            let making = {
                let (this, turn, name) = (this.clone(), Arc::clone(&turn), work.name.clone());
                tokio::spawn(async move { this.write_archive(turn, name, wanted, room?).await })
            };
            let outcome = making.await.unwrap_or_else(|_| Err(BackupError::EndedUnexpectedly));
            this.tell_made(&work, is_daily, &outcome).await;
            if outcome.is_ok() && is_daily {
                this.forget_old(settings.keep).await;
            }
            this.end_work(work, outcome.as_ref().map(|_| ())).await;
            let mut under_way = this.under_way.lock();
            drop(turn);
            under_way.take();
        });
        // One that failed may have been recorded all the same, and whoever asks again is told that this is under way.
        recorded?;
        Ok(Some(begun))
    }

    async fn write_archive(
        &self,
        turn: Turn,
        name: String,
        wanted: Wanted,
        room: u64,
    ) -> Result<KeptArchive, BackupError> {
        let (folder, is_daily) = (self.folder()?, wanted.unless_since.is_some());
        let created = self.backup.create_in_turn(turn, wanted.passphrase, wanted.unreadable).await?;
        let NewArchive { stream, .. } = created;
        let mut stream = std::pin::pin!(stream);
        let mut partial = Partial::create(&folder, &self.context.ids.next_ulid(), room)?;
        while let Some(chunk) = stream.next().await {
            let chunk = chunk.map_err(BackupError::files("what goes into the archive"))?;
            partial.write(&chunk).await?;
            self.written.fetch_add(chunk.len() as u64, Ordering::Relaxed);
        }
        self.keep(partial, name, is_daily).await
    }

    /// Gives an archive its name, unless others have taken its place meanwhile.
    async fn keep(&self, partial: Partial, name: String, is_daily: bool) -> Result<KeptArchive, BackupError> {
        let _one_at_a_time = self.keeping.lock().await;
        let (folder, settings) = (self.folder()?, self.settings.get::<BackupSettings>().await?);
        let mut kept = self.list().await?;
        kept.retain(|kept| kept.name != name);
        if partial.written() > room_among(&kept, &settings, is_daily)? {
            return Err(BackupError::Full);
        }
        partial.keep(&name).await?;
        blocking(move || folder.find(&name).map(|(kept, _)| kept)).await
    }

    async fn tell_made(&self, work: &Work, is_daily: bool, outcome: &Result<KeptArchive, BackupError>) {
        match outcome {
            Ok(kept) => {
                tracing::info!(name = kept.name, bytes = kept.size_bytes, "a backup was made");
                let (size, has_secrets) = (kept.size_bytes, kept.manifest.has_secrets);
                let data =
                    json!({"name": kept.name, "size_bytes": size, "has_secrets": has_secrets, "daily": is_daily});
                self.emit("backup.created", data).await;
            }
            Err(error) => {
                tracing::error!(name = work.name, error = error as &dyn std::error::Error, "a backup came to nothing");
                self.emit("backup.failed", failure(work, error)).await;
            }
        }
    }

    async fn emit(&self, event: &'static str, data: Value) {
        let tell = async move |tx: &mut Tx| tx.emit(NewEvent::new(event, data.clone())).await.map(|_| ());
        if let Err(error) = self.context.db.write::<_, StoreError, _>(tell).await {
            tracing::warn!(event, %error, "what became of a backup could not be told");
        }
    }

    /// Deletes daily backups but the newest `keep`.
    async fn forget_old(&self, keep: u32) {
        let forget = async {
            let now = self.context.clock.now();
            let mut old: Vec<_> = self.list().await?.into_iter().filter(KeptArchive::is_daily).collect();
            // What was made while the clock was ahead must not be the newest for years.
            old.sort_by_key(|kept| kept.manifest.created_at > now);
            for kept in old.into_iter().skip(usize::try_from(keep).unwrap_or(usize::MAX)) {
                self.delete(kept.name).await?;
            }
            Ok::<_, BackupError>(())
        };
        if let Err(error) = forget.await {
            tracing::warn!(%error, "old daily backups could not be deleted");
        }
    }

    async fn begin_work(
        &self,
        folder: KeptFolder,
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
        let begun = work.clone();
        blocking(move || folder.write_work(&begun)).await?;
        *self.under_way.lock() = Some(work.clone());
        Ok(work)
    }

    /// For whoever holds the turn.
    async fn end_work(&self, work: Work, outcome: Result<(), &BackupError>) {
        let work = work.ended(self.context.clock.now(), outcome);
        let written = match self.folder() {
            Ok(folder) => blocking(move || folder.write_work(&work)).await,
            Err(error) => Err(error),
        };
        if let Err(error) = written {
            tracing::error!(%error, "what became of a backup could not be written");
        }
    }

    fn folder(&self) -> Result<KeptFolder, BackupError> {
        KeptFolder::open(&self.context.data_dir)
    }

    /// The random end of an id.
    fn suffix(&self) -> String {
        let id = self.context.ids.next_ulid().to_lowercase();
        id.get(id.len().saturating_sub(6)..).unwrap_or_default().to_owned()
    }
}

fn failure(work: &Work, error: &BackupError) -> Value {
    let ended = work.clone().ended(work.started_at, Err(error));
    json!({"name": work.name, "kind": work.kind, "error": ended.failure.map(|failure| failure.message)})
}

/// Whether the schedule made one since then. What seems to come from the future was made while the clock was ahead.
pub(crate) fn has_daily(kept: &[KeptArchive], since: Timestamp, now: Timestamp) -> bool {
    kept.iter().any(|kept| kept.is_daily() && (since..=now).contains(&kept.manifest.created_at))
}

/// How much another archive may become.
fn room_among(kept: &[KeptArchive], settings: &BackupSettings, is_daily: bool) -> Result<u64, BackupError> {
    // A daily one takes the place of another.
    let is_place_made = is_daily && kept.iter().filter(|kept| kept.is_daily()).count() >= settings.keep as usize;
    if kept.len() >= MOST_ARCHIVES + usize::from(is_place_made) {
        return Err(BackupError::TooMany { limit: MOST_ARCHIVES });
    }
    let taken: u64 = kept.iter().map(|kept| kept.size_bytes).sum();
    settings.limit_bytes().checked_sub(taken).filter(|room| *room > 0).ok_or(BackupError::Full)
}
