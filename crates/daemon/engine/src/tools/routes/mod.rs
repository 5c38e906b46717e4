//! `/api/settings/skills/builtin` and `/api/settings/skills/custom`.

mod builtin;
mod custom;
mod state;

use agentd_web::{ApiRouter, Routes, routes};

pub use state::ToolRoutes;

#[must_use]
pub(super) fn routes() -> Routes<ToolRoutes> {
    Routes::new().protected(
        ApiRouter::new()
            .routes(routes!(builtin::list_builtin_tools))
            .routes(routes!(builtin::toggle_builtin_tool))
            .routes(routes!(custom::list_custom_tools, custom::create_custom_tool))
            .routes(routes!(custom::get_custom_tool, custom::update_custom_tool, custom::delete_custom_tool))
            .routes(routes!(custom::toggle_custom_tool)),
    )
}
