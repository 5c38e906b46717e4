//! State and bodies shared by both groups of handlers.

use serde::Deserialize;
use utoipa::ToSchema;

use crate::tools::builtin::BuiltinTools;
use crate::tools::custom::CustomTools;

/// State of the handlers.
#[derive(Debug, Clone)]
pub struct ToolRoutes {
    pub builtin: BuiltinTools,
    pub custom: CustomTools,
}

/// New state of a tool.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ToggleTool {
    /// Whether the tool is enabled. Default: the opposite of the current state.
    #[schema(value_type = bool, required = false)]
    pub(super) enabled: Option<bool>,
}
