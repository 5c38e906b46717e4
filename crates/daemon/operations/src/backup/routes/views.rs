//! API representations of backups.

use agentd_base::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use crate::backup::backups::WorkReport;
use crate::backup::kept::{KeptArchive, Work, WorkFailure, WorkKind, WorkState};
use crate::backup::model::SecretName;

/// Stored backup, as described by its manifest.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Backup)]
pub(super) struct BackupView {
    /// Name of the backup, used in paths.
    name: String,
    size_bytes: u64,
    created_at: Timestamp,
    /// Version of the program that created it.
    version: String,
    /// Database it was made from: `sqlite` or `postgres`. It can be restored into both.
    database: String,
    /// Whether it contains the stored secrets, encrypted with a passphrase.
    has_secrets: bool,
    /// Number of secrets of the daemon that created it.
    secret_count: usize,
    /// Number of files and folders that could not be read and are missing.
    left_out_count: u64,
    /// Whether it was created by the schedule; old scheduled backups are deleted automatically.
    daily: bool,
}

impl From<KeptArchive> for BackupView {
    fn from(kept: KeptArchive) -> Self {
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

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BackupList)]
pub(super) struct BackupListView {
    pub(super) backups: Vec<BackupView>,
    pub(super) total: usize,
    /// Total size of all backups in bytes.
    pub(super) total_bytes: u64,
    /// Maximum total size in bytes, as configured.
    pub(super) limit_bytes: u64,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BackupWorkKind)]
#[serde(rename_all = "snake_case")]
pub(super) enum KindView {
    Backup,
    Restore,
}

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

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BackupFailure)]
pub(super) struct FailureView {
    code: String,
    message: String,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BackupSecret)]
pub(super) struct SecretView {
    /// Owner of the secret, such as `providers`.
    scope: String,
    name: String,
}

/// Backup or restore operation.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BackupWork)]
pub(super) struct WorkView {
    kind: KindView,
    state: StateView,
    /// Name of the archive.
    name: String,
    started_at: Timestamp,
    #[schema(required = true)]
    ended_at: Option<Timestamp>,
    /// Number of bytes written so far, while the responding daemon writes an archive.
    #[schema(required = true)]
    written_bytes: Option<u64>,
    /// Reason of a failure.
    #[schema(required = true)]
    failure: Option<FailureView>,
    /// After a restore: secrets that must still be entered again.
    secrets_missing: Vec<SecretView>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BackupWorkAnswer)]
pub(super) struct WorkAnswer {
    /// Operation; null if there was none.
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
