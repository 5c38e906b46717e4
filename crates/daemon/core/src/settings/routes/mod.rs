//! HTTP routes under `/api/settings`.

mod avatar;
mod categories;
mod transfer;

use agentd_web::{ApiRouter, Routes, limits, routes};

pub(in crate::settings) use categories::SettingsRoutes;

#[must_use]
pub(super) fn routes() -> Routes<SettingsRoutes> {
    let protected = ApiRouter::new()
        .routes(routes!(categories::list_settings))
        .routes(routes!(categories::get_profile_settings, categories::update_profile_settings))
        .routes(routes!(categories::get_interface_settings, categories::update_interface_settings))
        .routes(routes!(categories::get_security_settings))
        .routes(routes!(categories::update_security_settings).require_recent_password())
        .routes(routes!(categories::get_agent_settings, categories::update_agent_settings))
        .routes(routes!(categories::get_strategy_settings, categories::update_strategy_settings))
        .routes(routes!(categories::get_proactive_settings, categories::update_proactive_settings))
        .routes(routes!(categories::get_email_settings, categories::update_email_settings))
        .routes(routes!(categories::reset_settings))
        .routes(routes!(categories::reset_security_settings).require_recent_password())
        .routes(routes!(transfer::export_settings).accept_tickets())
        .routes(routes!(avatar::show_avatar));
    Routes::new()
        .protected(protected)
        .protected_up_to(
            limits::UPLOAD + avatar::MULTIPART_OVERHEAD,
            ApiRouter::new().routes(routes!(avatar::upload_avatar)),
        )
        .protected_up_to(limits::IMPORT, ApiRouter::new().routes(routes!(transfer::import_settings)))
}
