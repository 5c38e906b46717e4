//! HTTP routes under `/api/auth`.

mod account;
mod delivery;
mod keys;
mod sessions;

use agentd_web::{ApiRouter, Routes, routes};

use super::service::Auth;
pub use account::{RegisterRequest, RegisteredUser};
pub use delivery::{SessionDelivery, SetCookies};
pub use keys::CreatedKey;

/// Returns all routes of the domain with their access rules.
#[must_use]
pub(super) fn routes() -> Routes<Auth> {
    Routes::new()
        .public(
            ApiRouter::new()
                .routes(routes!(account::get_bootstrap))
                .routes(routes!(account::login))
                .routes(routes!(account::validate)),
        )
        .open_until_first_key(ApiRouter::new().routes(routes!(account::register)))
        .open_until_first_key(routes!(keys::create_key).require_recent_password())
        .any_scope(ApiRouter::new().routes(routes!(account::logout)).routes(routes!(keys::create_ticket)))
        .protected(
            ApiRouter::new()
                .routes(routes!(keys::list_keys))
                .routes(routes!(keys::rotate_key).require_recent_password())
                .routes(routes!(keys::delete_key))
                .routes(routes!(sessions::list_login_sessions))
                .routes(routes!(sessions::reauthenticate))
                .routes(routes!(sessions::delete_login_session))
                .routes(routes!(sessions::delete_other_login_sessions)),
        )
}
