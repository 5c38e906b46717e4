//! Handlers for stored backups.

use agentd_base::Secret;
use agentd_core::runtime::record_once;
use agentd_web::{Answer, ApiError, ApiResult, Caller, ErrorBody, IdempotencyKey, Json, OptionalJson, Path};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_TYPE};
use serde::{Deserialize, Serialize};
use tokio_util::io::ReaderStream;
use utoipa::ToSchema;

use super::views::{BackupListView, BackupView, WorkView};
use crate::backup::backups::{BackupRequest, Backups};
use crate::backup::error::BackupError;
use crate::backup::kept::Work;
use crate::backup::service::Unreadable;

/// List backups
///
/// Returns all archives in the folder `backups/` of the data directory, newest first. Not paginated.
#[utoipa::path(
    get, path = "/api/backups", tag = "backups",
    responses(
        (status = 200, body = BackupListView),
        (status = 403, body = ErrorBody, description = "`insufficient_scope`: the API key is read-only"),
    ),
)]
pub(super) async fn list_backups(State(backups): State<Backups>) -> Answer<BackupListView> {
    let (kept, limit_bytes) = (backups.list().await?, backups.limit_bytes().await?);
    let total_bytes = kept.iter().map(|kept| kept.size_bytes).sum();
    let backups: Vec<_> = kept.into_iter().map(BackupView::from).collect();
    Ok(Json(BackupListView { total: backups.len(), backups, total_bytes, limit_bytes }))
}

/// Options of a new backup.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub(super) struct CreateBackup {
    /// Passphrase, 8 to 1,024 characters, with which the stored secrets are encrypted and included. It is not stored;
    /// without it the secrets cannot be recovered. Default: secrets are not included.
    #[serde(default)]
    #[schema(value_type = Option<String>, format = Password, min_length = 8, max_length = 1024, write_only)]
    passphrase: Option<Secret>,
    /// Whether to omit and count unreadable files; otherwise the backup fails. Default: false.
    #[serde(default)]
    #[schema(required = false)]
    allow_incomplete: bool,
}

/// Create a backup
///
/// The backup runs in the background; follow it with `GET /api/backups/work`. Only one operation runs at a time. Up to
/// 50 backups are stored, and a setting limits their total size. With a `passphrase`, a browser session needs a
/// recently entered password.
#[utoipa::path(
    post, path = "/api/backups", tag = "backups",
    request_body = Option<CreateBackup>,
    params(IdempotencyKey),
    responses(
        (status = 202, description = "The operation has started", body = WorkView),
        (status = 403, body = ErrorBody, description = "`insufficient_scope`, `reauthentication_required`"),
    ),
)]
pub(super) async fn create_backup(
    State(backups): State<Backups>,
    caller: Caller,
    once: IdempotencyKey,
    OptionalJson(request): OptionalJson<CreateBackup>,
) -> ApiResult<(StatusCode, Json<WorkView>)> {
    if request.passphrase.is_some() {
        caller.require_recent_password()?;
    }
    let unreadable = if request.allow_incomplete { Unreadable::LeaveOut } else { Unreadable::Refuse };
    let wanted = BackupRequest { passphrase: request.passphrase, unreadable, unless_since: None };
    let recorder = record_once(&once, StatusCode::ACCEPTED, |work: &Work| WorkView::from(work.clone()));
    let started = backups.make(wanted, recorder).await?.ok_or(BackupError::Busy)?;
    Ok((StatusCode::ACCEPTED, Json(started.into())))
}

/// Upload a backup
///
/// The request body is the archive. It is stored after it was read completely and all hashes matched. One percent of
/// the disk, at most 1 GiB, is kept free. Only one upload runs at a time; uploading the same archive again returns the
/// existing backup.
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
/// If the backup contains secrets, a browser session needs a recently entered password.
#[utoipa::path(
    get, path = "/api/backups/{name}/download", tag = "backups",
    params(("name" = String, Path, description = "Name of the backup")),
    responses(
        (
            status = 200,
            description = "The archive",
            content((Vec<u8> = "application/gzip")),
            headers(("Content-Disposition" = String, description = "File name")),
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
        // Archive names contain no characters that need escaping.
        (CONTENT_DISPOSITION, format!("attachment; filename=\"{}\"", kept.name)),
    ];
    Ok((headers, body).into_response())
}

/// Confirmation that a backup was deleted.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct BackupDeleted {
    /// Always true.
    deleted: bool,
}

/// Delete a backup
///
/// Permanently deletes the archive.
#[utoipa::path(
    delete, path = "/api/backups/{name}", tag = "backups",
    params(("name" = String, Path, description = "Name of the backup")),
    responses((status = 200, body = BackupDeleted)),
)]
pub(super) async fn delete_backup(State(backups): State<Backups>, Path(name): Path<String>) -> Answer<BackupDeleted> {
    backups.delete(name).await?;
    Ok(Json(BackupDeleted { deleted: true }))
}
