//! `/api/settings/skills/builtin` and `/api/settings/skills/custom`.

mod builtin;
mod custom;

use agentd_web::{ApiRouter, Routes, routes};
use serde::Deserialize;
use utoipa::ToSchema;

use super::builtin::BuiltinTools;
use super::custom::CustomTools;

/// The state of the handlers.
#[derive(Debug, Clone)]
pub struct ToolRoutes {
    pub(super) builtin: BuiltinTools,
    pub(super) custom: CustomTools,
}

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

/// Whether a tool is to be on.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
struct ToggleTool {
    /// Left out: off if it is on, and on if it is off.
    #[schema(value_type = bool, required = false)]
    enabled: Option<bool>,
}
