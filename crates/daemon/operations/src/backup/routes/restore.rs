//! Handlers to restore a backup and to report the current operation.

use agentd_base::Secret;
use agentd_web::{Answer, ApiResult, ErrorBody, Json, Path};
use axum::extract::State;
use http::StatusCode;
use serde::Deserialize;
use utoipa::ToSchema;

use super::views::{WorkAnswer, WorkView};
use crate::backup::backups::Backups;

/// Confirmation of a restore.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct RestoreBackup {
    /// Name of the backup, repeated as confirmation.
    #[schema(max_length = 200)]
    confirm: String,
    /// Passphrase of the secrets in the backup, at most 1,024 characters. Without it the secrets must be entered again,
    /// unless this daemon created the archive.
    #[serde(default)]
    #[schema(value_type = Option<String>, format = Password, max_length = 1024, write_only)]
    passphrase: Option<Secret>,
}

/// Restore a backup
///
/// Replaces all data of the daemon, or nothing. The archive is verified first; then the daemon rejects requests (503
/// `restoring`) until the restore is done. Sessions and keys are replaced as well, so the caller's credential may
/// become invalid. `GET /api/backups/work` reports the result.
#[utoipa::path(
    post, path = "/api/backups/{name}/restore", tag = "backups",
    params(("name" = String, Path, description = "Name of the backup")),
    request_body = RestoreBackup,
    responses((status = 202, description = "The operation has started", body = WorkView)),
)]
pub(super) async fn restore_backup(
    State(backups): State<Backups>,
    Path(name): Path<String>,
    Json(request): Json<RestoreBackup>,
) -> ApiResult<(StatusCode, Json<WorkView>)> {
    let started = backups.restore(name, &request.confirm, request.passphrase).await?;
    Ok((StatusCode::ACCEPTED, Json(started.into())))
}

/// Get the current backup operation
///
/// Returns the running or the last operation.
#[utoipa::path(
    get, path = "/api/backups/work", tag = "backups",
    responses(
        (status = 200, body = WorkAnswer),
        (status = 403, body = ErrorBody, description = "`insufficient_scope`: the API key is read-only"),
    ),
)]
pub(super) async fn get_backup_work(State(backups): State<Backups>) -> Answer<WorkAnswer> {
    Ok(Json(WorkAnswer { work: backups.work().await?.map(WorkView::from) }))
}
