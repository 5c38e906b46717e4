//! Route `GET /api/settings/skills`: overview of all tools.

use agentd_web::{ApiResult, Json};
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::state::ToolServerRoutes;
use crate::tool_servers::{ServerStatus, ToolServerState};
use crate::tools::{BuiltinTool, ListedTool, MAX_TOOLS};

/// Summary of a tool.
#[derive(Debug, Serialize, ToSchema)]
struct SkillEntry {
    /// Name of the tool for models.
    name: String,
    /// Whether the tool is enabled.
    enabled: bool,
    /// Whether the tool can run now; false if a requirement, such as the sandbox, is missing.
    available: bool,
    /// API path of the operations that change it.
    url: String,
}

/// Summary of a tool server.
#[derive(Debug, Serialize, ToSchema)]
struct ToolServerEntry {
    /// Name of the server.
    name: String,
    status: ServerStatus,
    /// Number of tools that the server offers.
    tools: usize,
    /// API path of the server.
    url: String,
}

impl From<BuiltinTool> for SkillEntry {
    fn from(tool: BuiltinTool) -> Self {
        Self {
            url: format!("/api/settings/skills/builtin/{}/toggle", tool.description.name),
            name: tool.description.name,
            enabled: tool.enabled,
            available: tool.problem.is_none(),
        }
    }
}

impl From<ListedTool> for SkillEntry {
    fn from(listed: ListedTool) -> Self {
        Self {
            url: format!("/api/settings/skills/custom/{}", listed.tool.id),
            name: listed.tool.name.clone(),
            enabled: listed.tool.enabled,
            available: listed.problem.is_none(),
        }
    }
}

impl From<ToolServerState> for ToolServerEntry {
    fn from(listed: ToolServerState) -> Self {
        Self {
            url: format!("/api/settings/skills/mcp/{}", listed.server.id),
            name: listed.server.name.clone(),
            status: listed.status,
            tools: listed.tools.len(),
        }
    }
}

/// Overview of the tools of agents.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SkillsView {
    /// Built-in tools, in a fixed order.
    builtin: Vec<SkillEntry>,
    /// Custom tools.
    custom: Vec<SkillEntry>,
    /// Tool servers, oldest first.
    servers: Vec<ToolServerEntry>,
    /// Number of tools that agents are offered: enabled and available ones, at most 128.
    usable: usize,
    /// Number of all tools, including disabled and unavailable ones.
    total: usize,
}

/// Get an overview of all tools
///
/// Returns built-in tools, custom tools and tool servers, the latter oldest first. Details are available under the
/// paths of each list.
#[utoipa::path(get, path = "/api/settings/skills", operation_id = "get_skills", tag = "skills",
    responses((status = 200, body = SkillsView)))]
pub(super) async fn get_skills(State(state): State<ToolServerRoutes>) -> ApiResult<Json<SkillsView>> {
    let builtin: Vec<SkillEntry> = state.builtin.list().await?.into_iter().map(SkillEntry::from).collect();
    let custom: Vec<SkillEntry> = state.custom.list().await?.into_iter().map(SkillEntry::from).collect();
    let servers: Vec<ToolServerEntry> = state.servers.list().await?.into_iter().map(ToolServerEntry::from).collect();
    let offered = servers.iter().filter(|server| server.status != ServerStatus::Disabled);
    let of_servers: usize = offered.map(|server| server.tools).sum();
    let usable = builtin.iter().chain(&custom).filter(|entry| entry.enabled && entry.available).count() + of_servers;
    let usable = usable.min(MAX_TOOLS);
    let total = builtin.len() + custom.len() + servers.iter().map(|server| server.tools).sum::<usize>();
    Ok(Json(SkillsView { builtin, custom, servers, usable, total }))
}
