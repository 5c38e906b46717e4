//! State of the handlers.

use crate::tool_servers::ToolServers;
use crate::tools::{BuiltinTools, CustomTools};

/// State of the handlers.
#[derive(Debug, Clone)]
pub struct ToolServerRoutes {
    pub servers: ToolServers,
    pub builtin: BuiltinTools,
    pub custom: CustomTools,
}
