//! Creating and restoring backups.

mod interrupted;
mod threads;

use std::collections::HashSet;
use std::io::{self, Seek};
use std::path::Path;
use std::sync::Arc;

use agentd_base::id::IdGenerator;
use agentd_base::{Clock, Entropy, Secret, Timestamp};
use agentd_core::runtime::{AppContext, DataDir, FileLock, ValidateRestored};
use agentd_core::vault::Vault;
use agentd_store::{Db, StoreError, Tx};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{Stream, StreamExt};
use tokio::io::AsyncSeekExt;

use super::archive::{self, Source, Unpacked, pipe};
use super::error::BackupError;
use super::journal::{Leftover, PreparedRestore, SealedSecret, find_leftover, has_traces};
use super::kept::BackupFolder;
use super::model::{DATABASE, FORMAT, FORMAT_VERSION, Manifest, OmittedFiles, RestoreReport, SecretName, StoredSecret};
use super::sealing;
pub use interrupted::WhileBusy;
pub(super) use threads::{STALL_TIMEOUT, blocking};
use threads::{unpack, write};

/// Table that is excluded from dumps; its rows are encrypted with the key of the data directory.
const SECRETS_TABLE: &str = "secrets";
/// Vault scope and name used to encrypt the mark of the daemon's own archives.
const MARK: (&str, &str) = ("backup", "database");

/// Backup lock, shared by all daemons of the data directory.
pub(super) type Turn = Arc<FileLock>;

/// Handling of unreadable files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unreadable {
    Refuse,
    LeaveOut,
}

/// Backup in progress.
#[derive(Debug)]
pub struct NewArchive<S> {
    pub left_out: OmittedFiles,
    /// Archive as a stream. It ends with an error if the backup fails.
    pub stream: S,
}

/// Quiesces the daemon.
pub trait Quiesce: Send + Sync {
    /// Makes the daemon unready and waits until nothing accesses the data. The daemon is ready again when the returned
    /// guard is dropped.
    fn quiesce(&self) -> BoxFuture<'_, Result<Box<dyn Send + Sync>, String>>;
}

/// Service that creates and restores archives. Cheap to clone.
#[derive(Clone)]
pub struct Backup {
    db: Db,
    clock: Clock,
    ids: IdGenerator,
    entropy: Entropy,
    data_dir: Arc<DataDir>,
    vault: Vault,
    quiesce: Arc<dyn Quiesce>,
    validators: RestoreValidators,
}

/// Validators that a restored database must pass before it is committed.
pub type RestoreValidators = Arc<[Box<dyn ValidateRestored>]>;

impl std::fmt::Debug for Backup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Backup").finish_non_exhaustive()
    }
}

impl Backup {
    #[must_use]
    pub fn new(context: &AppContext, vault: Vault, quiesce: Arc<dyn Quiesce>, validators: RestoreValidators) -> Self {
        Self {
            db: context.db.clone(),
            clock: context.clock.clone(),
            ids: context.ids.clone(),
            entropy: context.entropy.clone(),
            data_dir: Arc::clone(&context.data_dir),
            vault,
            quiesce,
            validators,
        }
    }

    /// Starts a backup and returns the archive as a stream; an error in it invalidates the archive. The daemon keeps
    /// running: the database is a snapshot of this moment, files are read later.
    ///
    /// # Errors
    /// Another operation is running, the passphrase is too short, the database cannot be read, or a file cannot be read
    /// and may not be omitted.
    pub async fn create(
        &self,
        passphrase: Option<Secret>,
        unreadable: Unreadable,
    ) -> Result<NewArchive<impl Stream<Item = io::Result<Bytes>> + Send + use<>>, BackupError> {
        sealing::check_passphrase(passphrase.as_ref())?;
        self.create_in_turn(Arc::new(self.begin()?), passphrase, unreadable).await
    }

    pub(super) async fn create_in_turn(
        &self,
        turn: Turn,
        passphrase: Option<Secret>,
        unreadable: Unreadable,
    ) -> Result<NewArchive<impl Stream<Item = io::Result<Bytes>> + Send + use<>>, BackupError> {
        let root = self.data_dir.root().to_path_buf();
        // Checked before anything is written, so that an error can be returned instead.
        let survey_root = root.clone();
        let survey = move || archive::survey(&survey_root).map_err(BackupError::files("the folders"));
        let left_out = blocking(survey).await?;
        if unreadable == Unreadable::Refuse && left_out.unreadable.total > 0 {
            return Err(BackupError::Incomplete { left_out: left_out.unreadable });
        }
        let names = self.secret_names().await?;
        let secrets = match passphrase {
            None => None,
            Some(passphrase) => {
                let (secrets, entropy) = (self.stored_secrets(&names).await?, self.entropy.clone());
                Some(blocking(move || sealing::seal(&secrets, &passphrase, &entropy)).await?)
            }
        };
        let (database, hash) = self.dump(&root).await?;
        let source = Source {
            manifest: Manifest {
                format: FORMAT.to_owned(),
                format_version: FORMAT_VERSION,
                version: env!("CARGO_PKG_VERSION").to_owned(),
                created_at: self.clock.now(),
                database: self.db.dialect().name().to_owned(),
                has_secrets: secrets.is_some(),
                secrets: names,
                left_out: left_out.clone(),
                database_mark: Some(hex::encode(self.vault.seal(MARK.0, MARK.1, &hash))),
            },
            database,
            secrets,
            contents: archive::tempfile_in(&root)?,
            root,
            may_be_incomplete: unreadable == Unreadable::LeaveOut,
        };
        let (sink, chunks) = pipe();
        tokio::task::spawn_blocking(move || write(source, sink));
        let stream = chunks.map(move |chunk| {
            // The lock is released with the stream.
            let _turn = &turn;
            chunk
        });
        Ok(NewArchive { left_out, stream })
    }

    /// Replaces all data by the content of the archive, which is read and verified completely first.
    ///
    /// # Errors
    /// The archive is invalid or of a newer format, or the passphrase is wrong: nothing is changed then. If the disk or
    /// the database fails, the next start decides which state is valid.
    pub async fn restore<S, E>(&self, archive: S, passphrase: Option<Secret>) -> Result<RestoreReport, BackupError>
    where
        S: Stream<Item = Result<Bytes, E>> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>> + Send,
    {
        let this = self.clone();
        // Spawned, so that it completes even if the client disconnects: a partial archive is detected and removed, a
        // complete one is restored.
        let restoring = tokio::spawn(async move {
            // Held until the restore has finished completely.
            let _turn = this.begin()?;
            this.settle_work().await;
            this.restore_in_turn(archive, passphrase).await
        });
        restoring.await.unwrap_or_else(|_| {
            Err(BackupError::QuiesceFailed { reason: "the restore ended unexpectedly; restart the daemon".to_owned() })
        })
    }

    pub(super) async fn restore_in_turn<S, E>(
        &self,
        archive: S,
        passphrase: Option<Secret>,
    ) -> Result<RestoreReport, BackupError>
    where
        S: Stream<Item = Result<Bytes, E>> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>> + Send,
    {
        self.require_no_other_daemons().await?;
        let waiting = PreparedRestore::create(&self.data_dir, &self.ids.next_ulid())?;
        let unpacked = match unpack(archive, &waiting.path()).await {
            Ok(unpacked) => unpacked,
            Err(error) => {
                blocking(move || waiting.remove()).await?;
                return Err(error);
            }
        };
        match self.replace(&waiting, unpacked, passphrase).await {
            Ok(report) => self.finish(waiting).await.map(|()| report),
            Err(error) => self.abort(waiting, error).await,
        }
    }

    async fn replace(
        &self,
        waiting: &PreparedRestore,
        unpacked: Unpacked,
        passphrase: Option<Secret>,
    ) -> Result<RestoreReport, BackupError> {
        let Unpacked { summary, secrets } = unpacked;
        let kept = match (secrets, passphrase) {
            (None, Some(_)) => return Err(BackupError::NoSecrets),
            (Some(sealed), Some(passphrase)) => blocking(move || sealing::open(&sealed, &passphrase)).await?,
            // Secrets that this daemon already knows are retained only for its own archives, whose destinations it has
            // used before.
            (_, None) if self.is_own_archive(&summary.manifest, waiting).await? => {
                self.stored_secrets(&summary.manifest.secrets).await?
            }
            (_, None) => Vec::new(),
        };
        let sealed: Vec<SealedSecret> = kept.iter().map(|stored| self.seal(stored)).collect();
        let present: Vec<SecretName> = kept.into_iter().map(|stored| stored.name).collect();
        self.upgrade_database(waiting).await?;
        let at_rest = self.quiesce.quiesce().await.map_err(|reason| BackupError::QuiesceFailed { reason })?;
        // Another daemon may have started since the first check.
        self.require_no_other_daemons().await?;
        waiting.write_secrets(&sealed)?;
        let (committed, before) = (waiting.clone(), self.db.database_id().await?);
        let database_id = before.clone();
        blocking(move || committed.commit(&database_id)).await?;
        let dump = waiting.path().join(DATABASE);
        let mut dump = tokio::fs::File::open(&dump).await.map_err(BackupError::files("the unpacked database"))?;
        let validators = Arc::clone(&self.validators);
        let load = self.db.load_validated(&mut dump, async move |tx: &mut Tx| validate(&validators, tx).await);
        let loaded = match load.await {
            Ok(loaded) => loaded,
            // The load may have been committed although the connection failed.
            Err(error) if error.is_unavailable() && !self.db.database_id().await.is_ok_and(|now| now == before) => {
                std::mem::forget(at_rest);
                return Err(BackupError::Unfinished { source: Box::new(error.into()) });
            }
            Err(error) => return Err(error.into()),
        };
        if let Err(error) = self.apply_files_and_secrets(waiting).await {
            // A partially restored state must not be used, so the daemon stays unready until the next start.
            std::mem::forget(at_rest);
            return Err(BackupError::Unfinished { source: Box::new(error) });
        }
        drop(at_rest);
        let known: HashSet<&SecretName> = present.iter().collect();
        let missing = summary.manifest.secrets.iter().filter(|name| !known.contains(name)).cloned().collect();
        Ok(RestoreReport {
            created_at: summary.manifest.created_at,
            version: summary.manifest.version,
            database: summary.manifest.database,
            rows: loaded.rows,
            files: summary.files,
            bytes: summary.bytes,
            secrets_present: present,
            secrets_missing: missing,
        })
    }

    /// Upgrades the database of an archive of an older version to the current schema, before anything is changed.
    async fn upgrade_database(&self, waiting: &PreparedRestore) -> Result<(), BackupError> {
        const WHAT: &str = "the database of an older version";
        let folder = waiting.path();
        let (dump, upgraded, scratch) = (folder.join(DATABASE), folder.join("upgraded"), folder.join("scratch"));
        let mut source = tokio::fs::File::open(&dump).await.map_err(BackupError::files("the unpacked database"))?;
        let mut sink = tokio::fs::File::create(&upgraded).await.map_err(BackupError::files(WHAT))?;
        let was_needed = self.db.upgrade_dump(&mut source, &mut sink, &scratch).await;
        if !was_needed.map_err(|error| BackupError::stream(WHAT, error))? {
            return Ok(());
        }
        let replace = move || std::fs::rename(upgraded, dump).and_then(|()| std::fs::remove_dir_all(scratch));
        blocking(move || replace().map_err(BackupError::files(WHAT))).await
    }

    /// Cleans up after a completed restore.
    async fn finish(&self, waiting: PreparedRestore) -> Result<(), BackupError> {
        self.update_work(BackupFolder::mark_restore_finished).await;
        blocking(move || waiting.remove()).await
    }

    /// Marks an operation of another daemon as interrupted, unless a restart is needed to complete it. Requires the
    /// lock.
    async fn settle_work(&self) {
        if !has_traces(&self.data_dir) {
            self.update_work(|folder, now| folder.settle_interrupted(now).map(|_| ())).await;
        }
    }

    /// Updates the stored operation state. A failure, for example on a full disk, only affects what is shown.
    async fn update_work(
        &self,
        note: impl FnOnce(&BackupFolder, Timestamp) -> Result<(), BackupError> + Send + 'static,
    ) {
        let (data_dir, now) = (Arc::clone(&self.data_dir), self.clock.now());
        if let Err(error) = blocking(move || note(&BackupFolder::open(&data_dir)?, now)).await {
            tracing::error!(%error, "failed to store the result of a backup operation");
        }
    }

    /// Cleans up after a failure. If the database was replaced, the journal remains for the next attempt or start.
    async fn abort(&self, waiting: PreparedRestore, error: BackupError) -> Result<RestoreReport, BackupError> {
        let is_untouched = match self.db.database_id().await {
            Ok(now) => !matches!(find_leftover(&self.data_dir, &now)?, Leftover::Finish(_)),
            Err(_) => false,
        };
        if is_untouched {
            blocking(move || waiting.remove()).await?;
        }
        Err(error)
    }

    /// Performs the steps after the database was replaced. Idempotent.
    async fn apply_files_and_secrets(&self, waiting: &PreparedRestore) -> Result<(), BackupError> {
        let mut secrets = Vec::new();
        for SealedSecret { name: SecretName { scope, name }, sealed } in waiting.read_secrets()? {
            let secret = self.vault.unseal(&scope, &name, &sealed)?;
            secrets.push((scope, name, secret));
        }
        let vault = self.vault.clone();
        let keep = async move |tx: &mut Tx| {
            for (scope, name, secret) in &secrets {
                vault.put(tx, scope, name, secret).await?;
            }
            Ok(())
        };
        self.db.write::<_, StoreError, _>(keep).await?;
        waiting.move_into_place()
    }

    pub(crate) async fn secret_names(&self) -> Result<Vec<SecretName>, BackupError> {
        let names = self.vault.names(&mut self.db.read().await?).await?;
        Ok(names.into_iter().map(|(scope, name)| SecretName { scope, name }).collect())
    }

    /// Returns those of the named secrets that are stored here.
    async fn stored_secrets(&self, names: &[SecretName]) -> Result<Vec<StoredSecret>, BackupError> {
        let mut read = self.db.read().await?;
        let mut found = Vec::new();
        for name in names {
            let secret = self.vault.get_in(&mut read, &name.scope, &name.name).await?;
            found.extend(secret.map(|secret| StoredSecret { name: name.clone(), secret }));
        }
        Ok(found)
    }

    fn seal(&self, StoredSecret { name, secret }: &StoredSecret) -> SealedSecret {
        SealedSecret { name: name.clone(), sealed: self.vault.seal(&name.scope, &name.name, secret) }
    }

    /// Returns whether the database of an unpacked archive was written by a daemon with this key and is unmodified.
    async fn is_own_archive(&self, manifest: &Manifest, waiting: &PreparedRestore) -> Result<bool, BackupError> {
        let sealed = manifest.database_mark.as_deref().and_then(|mark| hex::decode(mark).ok());
        let marked = sealed.and_then(|sealed| self.vault.unseal(MARK.0, MARK.1, &sealed).ok());
        let Some(marked) = marked else { return Ok(false) };
        let dump = waiting.path().join(DATABASE);
        let hashing = move || archive::sha256_of(std::fs::File::open(dump)?);
        let hash = blocking(move || hashing().map_err(BackupError::files("the unpacked database"))).await?;
        Ok(hash == marked.expose())
    }

    /// Fails if other daemons use the database: they are not quiesced, so their changes would be lost without notice to
    /// their clients.
    pub(super) async fn require_no_other_daemons(&self) -> Result<(), BackupError> {
        match self.db.count_other_daemons().await? {
            0 => Ok(()),
            count => Err(BackupError::OtherDaemons { count }),
        }
    }

    /// Acquires the backup lock of the data directory.
    pub(super) fn begin(&self) -> Result<FileLock, BackupError> {
        let taken = FileLock::try_acquire(&self.data_dir.backup_lock());
        taken.map_err(BackupError::files("the backup lock"))?.ok_or(BackupError::Busy)
    }

    /// Dumps the database into an anonymous file; returns it, rewound, with its hash.
    async fn dump(&self, folder: &Path) -> Result<(std::fs::File, Secret), BackupError> {
        let failed = || BackupError::files("the dump of the database");
        let mut file = tokio::fs::File::from_std(archive::tempfile_in(folder)?);
        let dumped = self.db.dump(&mut file, &[SECRETS_TABLE]).await;
        dumped.map_err(|error| BackupError::stream("the dump of the database", error))?;
        file.rewind().await.map_err(failed())?;
        let mut file = file.into_std().await;
        let hashing = move || {
            let hash = archive::sha256_of(&file)?;
            file.rewind()?;
            Ok((file, Secret::new(hash)))
        };
        blocking(move || hashing().map_err(BackupError::files("the dump of the database"))).await
    }
}

/// Runs the validators of all domains, because the database accepts rows that this program would not have written.
async fn validate(validators: &RestoreValidators, tx: &mut Tx) -> Result<(), StoreError> {
    for validate in validators.iter() {
        let fault = match validate.validate(tx).await {
            Err(error @ StoreError::Column { .. }) => Some(error.to_string()),
            answer => answer?,
        };
        if let Some(fault) = fault {
            return Err(StoreError::Dump { reason: format!("{fault}; nothing was changed") });
        }
    }
    Ok(())
}
