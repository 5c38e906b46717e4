//! `GET /api/settings/skills`: every tool at a glance.

use agentd_web::{ApiResult, Json};
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::state::ToolServerRoutes;
use crate::tool_servers::{ServerStatus, ToolServerState};
use crate::tools::{BuiltinTool, ListedTool, MAX_TOOLS};

/// A tool at a glance.
#[derive(Debug, Serialize, ToSchema)]
struct SkillEntry {
    /// What models call it.
    name: String,
    enabled: bool,
    /// Whether it can work now.
    available: bool,
    /// Where to change it.
    url: String,
}

/// A tool server at a glance.
#[derive(Debug, Serialize, ToSchema)]
struct ToolServerEntry {
    name: String,
    status: ServerStatus,
    /// How many tools it offers.
    tools: usize,
    /// Where to change it.
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

/// What agents can do, at a glance.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SkillsView {
    builtin: Vec<SkillEntry>,
    custom: Vec<SkillEntry>,
    servers: Vec<ToolServerEntry>,
    /// How many tools are switched on, can work and are offered: 128 at most.
    usable: usize,
    total: usize,
}

/// What agents can do, at a glance
///
/// Built-in tools, then custom ones and tool servers, oldest first. Each list with all details is below this
/// path.
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
