//! `/api/hooks`.

mod analytics;
mod bundled;
mod deliveries;
mod fields;
mod hooks;

use agentd_web::{ApiRouter, Routes, routes};

use super::service::Hooks;

#[must_use]
pub(super) fn routes() -> Routes<Hooks> {
    Routes::new().protected(
        ApiRouter::new()
            .routes(routes!(hooks::list_hooks, hooks::create_hook))
            .routes(routes!(bundled::list_bundled_hooks))
            .routes(routes!(bundled::install_bundled_hook))
            .routes(routes!(bundled::list_event_types))
            .routes(routes!(analytics::get_global_hook_analytics))
            .routes(routes!(deliveries::get_queue_stats))
            .routes(routes!(deliveries::list_dead_letters, deliveries::delete_dead_letters))
            .routes(routes!(deliveries::retry_dead_letters))
            .routes(routes!(hooks::get_hook, hooks::update_hook, hooks::delete_hook))
            .routes(routes!(hooks::toggle_hook))
            .routes(routes!(hooks::test_hook))
            .routes(routes!(hooks::list_hook_executions))
            .routes(routes!(analytics::get_hook_analytics))
            .routes(routes!(deliveries::list_hook_deliveries))
            .routes(routes!(deliveries::get_hook_delivery))
            .routes(routes!(deliveries::retry_hook_delivery))
            .routes(routes!(deliveries::test_hook_delivery)),
    )
}
