//! Routes of `/api/backups`, and of the private socket.

mod archives;
mod local;
mod restore;
mod views;

use std::sync::Arc;

use agentd_core::settings::PartialObject;
use agentd_web::{Answer, ApiRouter, Json, Routes, routes};
use axum::extract::State;

use super::backups::Backups;
use super::settings::{BackupPatch, BackupSettings};
pub use local::{ALLOW_INCOMPLETE_HEADER, LEFT_OUT_HEADER, PASSPHRASE_HEADER, local_routes};

/// Returns all routes of the domain. Read-only keys have no access, because a backup contains everything.
#[must_use]
pub(super) fn routes() -> Routes<Backups> {
    let full_scope = ApiRouter::new()
        .routes(routes!(archives::list_backups))
        .routes(routes!(archives::create_backup))
        .routes(routes!(archives::download_backup).accept_tickets())
        .routes(routes!(archives::delete_backup))
        .routes(routes!(restore::restore_backup).require_recent_password())
        .routes(routes!(restore::get_backup_work));
    let settings = ApiRouter::new().routes(routes!(get_backup_settings)).routes(routes!(update_backup_settings));
    let uploads = ApiRouter::new().routes(routes!(archives::upload_backup));
    Routes::new().full_scope(full_scope).full_scope_stream(uploads).protected(settings)
}

/// Get backup settings
#[utoipa::path(get, path = "/api/settings/backup", tag = "settings", responses((status = 200, body = BackupSettings)))]
async fn get_backup_settings(State(backups): State<Backups>) -> Answer<Arc<BackupSettings>> {
    Ok(Json(backups.all_settings().get().await?))
}

/// Update backup settings
///
/// Accepts any subset of the fields and returns all settings. Changes apply immediately. Unknown fields are rejected.
#[utoipa::path(put, path = "/api/settings/backup", tag = "settings", request_body = BackupPatch,
    responses((status = 200, body = BackupSettings)))]
async fn update_backup_settings(
    State(backups): State<Backups>,
    Json(change): Json<PartialObject>,
) -> Answer<Arc<BackupSettings>> {
    Ok(Json(backups.all_settings().update(change).await?))
}
