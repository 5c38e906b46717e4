//! The archives that the daemon keeps.

use agentd_base::Secret;
use agentd_core::runtime::record_once;
use agentd_web::{Answer, ApiError, ApiResult, Caller, ErrorBody, IdempotencyKey, Json, JsonOrNothing, Path};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_TYPE};
use serde::{Deserialize, Serialize};
use tokio_util::io::ReaderStream;
use utoipa::ToSchema;

use super::views::{BackupListView, BackupView, WorkView};
use crate::backup::backups::{Backups, Wanted};
use crate::backup::error::BackupError;
use crate::backup::kept::Work;
use crate::backup::service::Unreadable;

/// The backups that the daemon keeps, the newest first
///
/// Those in the folder `backups/` of the data directory, whoever put them there. Not paged.
#[utoipa::path(
    get, path = "/api/backups", tag = "backups",
    responses(
        (status = 200, body = BackupListView),
        (status = 403, body = ErrorBody, description = "`insufficient_scope`: the key may only read"),
    ),
)]
pub(super) async fn list_backups(State(backups): State<Backups>) -> Answer<BackupListView> {
    let (kept, limit_bytes) = (backups.list().await?, backups.limit_bytes().await?);
    let total_bytes = kept.iter().map(|kept| kept.size_bytes).sum();
    let backups: Vec<_> = kept.into_iter().map(BackupView::from).collect();
    Ok(Json(BackupListView { total: backups.len(), backups, total_bytes, limit_bytes }))
}

/// What the backup is to be.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub(super) struct CreateBackup {
    /// Puts the stored secrets into it, sealed under this. Kept nowhere: without it they cannot be had back.
    #[serde(default)]
    #[schema(value_type = Option<String>, format = Password, min_length = 8, max_length = 1024, write_only)]
    passphrase: Option<Secret>,
    /// Leaves out files that the daemon cannot read, and counts them; otherwise the backup fails.
    #[serde(default)]
    #[schema(required = false)]
    allow_incomplete: bool,
}

/// Make a backup
///
/// It goes on after the answer: `GET /api/backups/work` says how far it is. One thing at a time is done with backups;
/// 50 are kept at most, and what they may take together is a setting. With a `passphrase`, a page session needs a
/// recently entered password.
#[utoipa::path(
    post, path = "/api/backups", tag = "backups",
    request_body = CreateBackup,
    params(IdempotencyKey),
    responses(
        (status = 202, description = "It has begun", body = WorkView),
        (status = 403, body = ErrorBody, description = "`insufficient_scope`, `reauthentication_required`"),
    ),
)]
pub(super) async fn create_backup(
    State(backups): State<Backups>,
    caller: Caller,
    once: IdempotencyKey,
    JsonOrNothing(request): JsonOrNothing<CreateBackup>,
) -> ApiResult<(StatusCode, Json<WorkView>)> {
    if request.passphrase.is_some() {
        caller.require_recent_password()?;
    }
    let unreadable = if request.allow_incomplete { Unreadable::LeaveOut } else { Unreadable::Refuse };
    let wanted = Wanted { passphrase: request.passphrase, unreadable, unless_since: None };
    let recorder = record_once(&once, StatusCode::ACCEPTED, |work: &Work| WorkView::from(work.clone()));
    let begun = backups.make(wanted, recorder).await?.ok_or(BackupError::Busy)?;
    Ok((StatusCode::ACCEPTED, Json(begun.into())))
}

/// Upload a backup
///
/// The archive is the body. It is kept once all of it was read and every hash in it agreed. What stays free on the disk
/// is a hundredth of it, 1 GiB at most. One is uploaded at a time; the same one once more is the same backup.
#[utoipa::path(
    post, path = "/api/backups/upload", tag = "backups",
    request_body(content = Vec<u8>, content_type = "application/octet-stream", description = "The archive"),
    responses((status = 201, description = "The backup", body = BackupView)),
)]
pub(super) async fn upload_backup(
    State(backups): State<Backups>,
    request: Request,
) -> ApiResult<(StatusCode, Json<BackupView>)> {
    let kept = backups.upload(request.into_body().into_data_stream()).await?;
    Ok((StatusCode::CREATED, Json(kept.into())))
}

/// Download a backup
///
/// If it has secrets, a page session needs a recently entered password.
#[utoipa::path(
    get, path = "/api/backups/{name}/download", tag = "backups",
    params(("name" = String, Path, description = "Name of the backup")),
    responses(
        (
            status = 200,
            description = "The archive",
            content((Vec<u8> = "application/gzip")),
            headers(("Content-Disposition" = String, description = "Names the file")),
        ),
        (status = 403, body = ErrorBody, description = "`insufficient_scope`, `reauthentication_required`"),
    ),
)]
pub(super) async fn download_backup(
    State(backups): State<Backups>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Response, ApiError> {
    let (kept, file) = backups.open(name).await?;
    if kept.manifest.has_secrets {
        caller.require_recent_password()?;
    }
    let body = Body::from_stream(ReaderStream::with_capacity(tokio::fs::File::from_std(file), 64 * 1024));
    let headers = [
        (CONTENT_TYPE, "application/gzip".to_owned()),
        (CONTENT_LENGTH, kept.size_bytes.to_string()),
        (CACHE_CONTROL, "no-store".to_owned()),
        // A name holds nothing that would have to be escaped.
        (CONTENT_DISPOSITION, format!("attachment; filename=\"{}\"", kept.name)),
    ];
    Ok((headers, body).into_response())
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct BackupDeleted {
    deleted: bool,
}

/// Delete a backup
#[utoipa::path(
    delete, path = "/api/backups/{name}", tag = "backups",
    params(("name" = String, Path, description = "Name of the backup")),
    responses((status = 200, body = BackupDeleted)),
)]
pub(super) async fn delete_backup(State(backups): State<Backups>, Path(name): Path<String>) -> Answer<BackupDeleted> {
    backups.delete(name).await?;
    Ok(Json(BackupDeleted { deleted: true }))
}
