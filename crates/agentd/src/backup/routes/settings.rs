//! When the daemon makes backups by itself.

use std::sync::Arc;

use agentd_web::Json;
use axum::extract::State;

use super::Answer;
use crate::backup::backups::Backups;
use crate::backup::settings::{BackupPatch, BackupSettings};
use crate::settings::PartialObject;

/// When backups are made by themselves, and how much room they may take
#[utoipa::path(get, path = "/api/settings/backup", tag = "settings", responses((status = 200, body = BackupSettings)))]
pub(super) async fn get_backup_settings(State(backups): State<Backups>) -> Answer<Arc<BackupSettings>> {
    Ok(Json(backups.all_settings().get().await?))
}

/// Changes when backups are made by themselves, and how much room they may take
///
/// Takes any of the fields and answers the whole category, in force from now on. A field that is not known is refused.
#[utoipa::path(put, path = "/api/settings/backup", tag = "settings", request_body = BackupPatch,
    responses((status = 200, body = BackupSettings)))]
pub(super) async fn update_backup_settings(
    State(backups): State<Backups>,
    Json(change): Json<PartialObject>,
) -> Answer<Arc<BackupSettings>> {
    Ok(Json(backups.all_settings().update(change).await?))
}
