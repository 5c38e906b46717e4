//! API representations of backups.

use agentd_base::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use crate::backup::backups::WorkReport;
use crate::backup::kept::{StoredArchive, Work, WorkFailure, WorkKind, WorkState};
use crate::backup::model::SecretName;

/// Stored backup, as described by its manifest.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Backup)]
pub(super) struct BackupView {
    /// Name of the backup, used in paths.
    name: String,
    /// Size of the archive in bytes.
    size_bytes: u64,
    /// Time of creation, from the manifest.
    created_at: Timestamp,
    /// Version of the daemon that created it.
    version: String,
    /// Database of the daemon that created it: `sqlite` or `postgres`. It can be restored into both.
    database: String,
    /// Whether the backup contains the stored secrets, encrypted with a passphrase.
    has_secrets: bool,
    /// Number of secrets of the daemon that created it, whether or not the archive contains them.
    secret_count: usize,
    /// Number of files and folders that could not be read and are missing.
    left_out_count: u64,
    /// Whether the backup was created by the schedule; old scheduled backups are deleted automatically.
    daily: bool,
}

impl From<StoredArchive> for BackupView {
    fn from(kept: StoredArchive) -> Self {
        let daily = kept.is_daily();
        let manifest = kept.manifest;
        Self {
            name: kept.name,
            size_bytes: kept.size_bytes,
            created_at: manifest.created_at,
            version: manifest.version,
            database: manifest.database,
            has_secrets: manifest.has_secrets,
            secret_count: manifest.secrets.len(),
            left_out_count: manifest.left_out.unreadable.total,
            daily,
        }
    }
}

/// All stored backups.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BackupList)]
pub(super) struct BackupListView {
    /// Backups, newest first.
    pub(super) backups: Vec<BackupView>,
    /// Number of backups.
    pub(super) total: usize,
    /// Total size of all backups in bytes.
    pub(super) total_bytes: u64,
    /// Maximum total size in bytes: the setting `backup.limit_mb`.
    pub(super) limit_bytes: u64,
}

/// Kind of a backup operation.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BackupWorkKind)]
#[serde(rename_all = "snake_case")]
pub(super) enum KindView {
    /// An archive is created.
    Backup,
    /// The data of the daemon is replaced by that of an archive.
    Restore,
}

/// State of a backup operation.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BackupWorkState)]
#[serde(rename_all = "snake_case")]
pub(super) enum StateView {
    Running,
    Done,
    Failed,
    /// The daemon stopped before the operation completed, so it had no effect.
    Interrupted,
}

/// Reason why a backup operation failed.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BackupFailure)]
pub(super) struct FailureView {
    /// Stable error code in `snake_case`, such as `disk_full`.
    code: String,
    /// Human-readable message with the problem and the next step.
    message: String,
}

/// Name of a stored secret.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BackupSecret)]
pub(super) struct SecretView {
    /// Owner of the secret, such as `providers`.
    scope: String,
    /// Name of the secret within its scope, such as the id of a provider.
    name: String,
}

/// Backup or restore operation.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BackupWork)]
pub(super) struct WorkView {
    /// Whether an archive is created or restored.
    kind: KindView,
    state: StateView,
    /// Name of the archive.
    name: String,
    started_at: Timestamp,
    /// Time when the operation ended; `null` while it runs.
    #[schema(required = true)]
    ended_at: Option<Timestamp>,
    /// Number of bytes written so far; `null` unless the responding daemon is writing an archive.
    #[schema(required = true)]
    written_bytes: Option<u64>,
    /// Reason for the failure; `null` unless `state` is `failed`.
    #[schema(required = true)]
    failure: Option<FailureView>,
    /// Secrets that must be entered again after a restore.
    secrets_missing: Vec<SecretView>,
}

/// Current or last backup operation.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BackupWorkAnswer)]
pub(super) struct WorkAnswer {
    /// Running or last operation; `null` if none was started yet.
    #[schema(required = true)]
    pub(super) work: Option<WorkView>,
}

impl From<WorkReport> for WorkView {
    fn from(report: WorkReport) -> Self {
        let WorkReport { work, written_bytes, secrets_missing } = report;
        let secrets_missing = secrets_missing.into_iter().map(|SecretName { scope, name }| SecretView { scope, name });
        Self { written_bytes, secrets_missing: secrets_missing.collect(), ..Self::from(work) }
    }
}

impl From<Work> for WorkView {
    fn from(work: Work) -> Self {
        let kind = match work.kind {
            WorkKind::Backup => KindView::Backup,
            WorkKind::Restore => KindView::Restore,
        };
        let state = match work.state {
            WorkState::Running => StateView::Running,
            WorkState::Done => StateView::Done,
            WorkState::Failed => StateView::Failed,
            WorkState::Interrupted => StateView::Interrupted,
        };
        let failure = work.failure.map(|WorkFailure { code, message }| FailureView { code, message });
        Self {
            kind,
            state,
            name: work.name,
            started_at: work.started_at,
            ended_at: work.ended_at,
            written_bytes: None,
            failure,
            secrets_missing: Vec::new(),
        }
    }
}
