//! `/api/monitoring/alerts/*`.

mod bodies;
mod handlers;
mod views;

use agentd_web::{ApiRouter, Routes, routes};

use super::service::Alerts;

/// Returns all routes of the domain.
#[must_use]
pub(super) fn routes() -> Routes<Alerts> {
    Routes::new().protected(
        ApiRouter::new()
            .routes(routes!(handlers::list_alerts, handlers::create_alert))
            .routes(routes!(handlers::preview_alert))
            .routes(routes!(handlers::get_alert, handlers::update_alert, handlers::delete_alert))
            .routes(routes!(handlers::acknowledge_alert))
            .routes(routes!(handlers::resolve_alert))
            .routes(routes!(handlers::snooze_alert))
            .routes(routes!(handlers::list_alert_history)),
    )
}
