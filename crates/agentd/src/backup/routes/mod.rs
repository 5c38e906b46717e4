//! `/api/backups`, and what the command line asks over the private socket.

mod archives;
mod local;
mod restore;
mod settings;
mod views;

use agentd_web::{ApiError, ApiRouter, Json, Routes, routes};

use super::backups::Backups;
pub use local::{ALLOW_INCOMPLETE_HEADER, LEFT_OUT_HEADER, PASSPHRASE_HEADER, local_routes};

type Answer<T> = Result<Json<T>, ApiError>;

/// Every route of the domain, with its access rule. Who only reads is not told of backups: one holds everything.
#[must_use]
pub fn routes() -> Routes<Backups> {
    let full_scope = ApiRouter::new()
        .routes(routes!(archives::list_backups))
        .routes(routes!(archives::create_backup))
        .routes(routes!(archives::download_backup).accept_tickets())
        .routes(routes!(archives::delete_backup))
        .routes(routes!(restore::restore_backup).require_recent_password())
        .routes(routes!(restore::get_backup_work));
    let settings = ApiRouter::new()
        .routes(routes!(settings::get_backup_settings))
        .routes(routes!(settings::update_backup_settings));
    let uploads = ApiRouter::new().routes(routes!(archives::upload_backup));
    Routes::new().full_scope(full_scope).full_scope_stream(uploads).protected(settings)
}
