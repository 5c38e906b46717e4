//! The state and the bodies that both groups of handlers use.

use serde::Deserialize;
use utoipa::ToSchema;

use crate::tools::builtin::BuiltinTools;
use crate::tools::custom::CustomTools;

/// The state of the handlers.
#[derive(Debug, Clone)]
pub struct ToolRoutes {
    pub builtin: BuiltinTools,
    pub custom: CustomTools,
}

/// Whether a tool is to be on.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ToggleTool {
    /// Left out: off if it is on, and on if it is off.
    #[schema(value_type = bool, required = false)]
    pub(super) enabled: Option<bool>,
}
