//! What the handlers need.

use crate::tool_servers::ToolServers;
use crate::tools::{BuiltinTools, CustomTools};

/// The state of the handlers.
#[derive(Debug, Clone)]
pub struct ToolServerRoutes {
    pub servers: ToolServers,
    pub builtin: BuiltinTools,
    pub custom: CustomTools,
}
