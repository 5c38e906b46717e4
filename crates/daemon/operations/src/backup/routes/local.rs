//! Routes for the command line. They are only available on the private socket, which the network cannot reach.

use agentd_base::Secret;
use agentd_web::ApiError;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName};

use crate::backup::error::BackupError;
use crate::backup::model::RestoreReport;
use crate::backup::service::{Backup, NewArchive, Unreadable};

/// Passphrase in base64. It is marked as sensitive and never logged.
pub const PASSPHRASE_HEADER: HeaderName = HeaderName::from_static("x-agentd-passphrase");

/// If `true`, unreadable files are omitted; otherwise they fail the backup.
pub const ALLOW_INCOMPLETE_HEADER: HeaderName = HeaderName::from_static("x-agentd-allow-incomplete");
/// Response header with the omitted files, as JSON in base64.
pub const LEFT_OUT_HEADER: HeaderName = HeaderName::from_static("x-agentd-left-out");

/// Returns the routes: `POST /local/backup` returns an archive, `POST /local/restore` accepts one.
pub fn local_routes(backup: Backup) -> Router {
    Router::new()
        .route("/local/backup", post(create_backup))
        .route("/local/restore", post(restore_backup).layer(DefaultBodyLimit::disable()))
        .with_state(backup)
}

async fn create_backup(State(backup): State<Backup>, headers: HeaderMap) -> Result<Response, ApiError> {
    let is_allowed = headers.get(ALLOW_INCOMPLETE_HEADER).is_some_and(|value| value == "true");
    let unreadable = if is_allowed { Unreadable::LeaveOut } else { Unreadable::Refuse };
    let NewArchive { left_out, stream } = backup.create(passphrase(&headers)?, unreadable).await?;
    let left_out = BASE64.encode(serde_json::to_vec(&left_out).unwrap_or_default());
    let headers = [(CONTENT_TYPE, "application/gzip".to_owned()), (LEFT_OUT_HEADER, left_out)];
    Ok((headers, Body::from_stream(stream)).into_response())
}

async fn restore_backup(
    State(backup): State<Backup>,
    headers: HeaderMap,
    request: Request,
) -> Result<Json<RestoreReport>, ApiError> {
    let passphrase = passphrase(&headers)?;
    Ok(Json(backup.restore(request.into_body().into_data_stream(), passphrase).await?))
}

fn passphrase(headers: &HeaderMap) -> Result<Option<Secret>, BackupError> {
    let Some(value) = headers.get(PASSPHRASE_HEADER) else { return Ok(None) };
    let bytes = BASE64.decode(value.as_bytes()).map_err(|_| BackupError::MalformedPassphrase)?;
    let text = String::from_utf8(bytes).map_err(|_| BackupError::MalformedPassphrase)?;
    Ok(Some(Secret::new(text)))
}
