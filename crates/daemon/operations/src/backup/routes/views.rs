//! What is answered about backups.

use agentd_base::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use crate::backup::backups::WorkReport;
use crate::backup::kept::{KeptArchive, Work, WorkFailure, WorkKind, WorkState};
use crate::backup::model::SecretName;

/// An archive that the daemon keeps, as it says of itself.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Backup)]
pub(super) struct BackupView {
    /// Names it in every address.
    name: String,
    size_bytes: u64,
    created_at: Timestamp,
    /// Of the program that made it.
    version: String,
    /// `sqlite` or `postgres`; it can be restored into both.
    database: String,
    /// Whether the stored secrets are in it, sealed under a passphrase.
    has_secrets: bool,
    /// How many secrets its daemon had.
    secret_count: usize,
    /// How many files and folders could not be read and are missing in it.
    left_out_count: u64,
    /// Whether the schedule made it; such ones are deleted in the course of time.
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
    /// What all of them take.
    pub(super) total_bytes: u64,
    /// What they may take, by the settings.
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
    /// The daemon ended meanwhile, and nothing came of it.
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
    /// What it belongs to, such as `providers`.
    scope: String,
    name: String,
}

/// A backup or a restore, from its beginning on.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BackupWork)]
pub(super) struct WorkView {
    kind: KindView,
    state: StateView,
    /// Of the archive.
    name: String,
    started_at: Timestamp,
    #[schema(required = true)]
    ended_at: Option<Timestamp>,
    /// How much of an archive was written, while the daemon that is asked writes one.
    #[schema(required = true)]
    written_bytes: Option<u64>,
    /// Why it came to nothing.
    #[schema(required = true)]
    failure: Option<FailureView>,
    /// After a restore: the secrets that must be entered again, as of now.
    secrets_missing: Vec<SecretView>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BackupWorkAnswer)]
pub(super) struct WorkAnswer {
    /// Null when nothing was ever done.
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
