//! Restoring a backup that is kept, and how far the work is.

use agentd_base::Secret;
use agentd_web::{Answer, ApiResult, ErrorBody, Json, Path};
use axum::extract::State;
use http::StatusCode;
use serde::Deserialize;
use utoipa::ToSchema;

use super::views::{WorkAnswer, WorkView};
use crate::backup::backups::Backups;

/// What makes sure that it is meant.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct RestoreBackup {
    /// The name of the backup once more.
    #[schema(max_length = 200)]
    confirm: String,
    /// What its secrets were sealed with. Without it they must be entered again, unless the archive is this daemon's
    /// own.
    #[serde(default)]
    #[schema(value_type = Option<String>, format = Password, max_length = 1024, write_only)]
    passphrase: Option<Secret>,
}

/// Restore a backup
///
/// Replaces everything that the daemon holds, or nothing. The whole archive is checked first; then the daemon is
/// unready until it is done (503 `restoring`). Sessions, keys and all else are those of the backup from then on, so the
/// credential that asks may not count any more. `GET /api/backups/work` says what came of it.
#[utoipa::path(
    post, path = "/api/backups/{name}/restore", tag = "backups",
    params(("name" = String, Path, description = "Name of the backup")),
    request_body = RestoreBackup,
    responses((status = 202, description = "It has begun", body = WorkView)),
)]
pub(super) async fn restore_backup(
    State(backups): State<Backups>,
    Path(name): Path<String>,
    Json(request): Json<RestoreBackup>,
) -> ApiResult<(StatusCode, Json<WorkView>)> {
    let begun = backups.restore(name, &request.confirm, request.passphrase).await?;
    Ok((StatusCode::ACCEPTED, Json(begun.into())))
}

/// What is being done with backups, or was done last
#[utoipa::path(
    get, path = "/api/backups/work", tag = "backups",
    responses(
        (status = 200, body = WorkAnswer),
        (status = 403, body = ErrorBody, description = "`insufficient_scope`: the key may only read"),
    ),
)]
pub(super) async fn get_backup_work(State(backups): State<Backups>) -> Answer<WorkAnswer> {
    Ok(Json(WorkAnswer { work: backups.work().await?.map(WorkView::from) }))
}
