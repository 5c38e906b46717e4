//! Routes under `/api/settings/skills/builtin`.

use agentd_core::runtime::record_once;
use agentd_web::{ApiResult, IdempotencyKey, Json, OptionalJson, Path};
use axum::extract::State;
use http::StatusCode;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::state::{ToggleTool, ToolRoutes};
use crate::tools::builtin::BuiltinTool;
use crate::tools::tool::Effect;

/// Side effects of a tool.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum EffectView {
    /// Reads the agent's own data; requires no approval by default.
    Reads,
    /// Changes data, runs code, or accesses external systems.
    Acts,
}

/// Built-in tool.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct BuiltinToolView {
    /// Name of the tool for models.
    name: String,
    /// Description of the tool for models.
    description: String,
    /// JSON Schema of the tool's input.
    #[schema(value_type = Object)]
    input_schema: Value,
    /// Side effects of the tool.
    effect: EffectView,
    /// Whether the tool is enabled.
    enabled: bool,
    /// Whether the tool can run now; agents are offered only available tools.
    available: bool,
    /// Reason why the tool is unavailable, with a remedy; null if available.
    #[schema(required)]
    problem: Option<String>,
}

impl From<BuiltinTool> for BuiltinToolView {
    fn from(tool: BuiltinTool) -> Self {
        Self {
            input_schema: tool.description.input_schema.value().clone(),
            name: tool.description.name,
            description: tool.description.description,
            effect: match tool.description.effect {
                Effect::Reads => EffectView::Reads,
                Effect::Acts => EffectView::Acts,
            },
            enabled: tool.enabled,
            available: tool.problem.is_none(),
            problem: tool.problem,
        }
    }
}

/// List of built-in tools.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct BuiltinToolList {
    /// All built-in tools, in a fixed order.
    tools: Vec<BuiltinToolView>,
    /// Number of tools.
    total: usize,
}

/// List built-in tools
#[utoipa::path(get, path = "/api/settings/skills/builtin", operation_id = "list_builtin_tools", tag = "skills",
    responses((status = 200, body = BuiltinToolList)))]
pub(super) async fn list_builtin_tools(State(state): State<ToolRoutes>) -> ApiResult<Json<BuiltinToolList>> {
    let tools: Vec<BuiltinToolView> = state.builtin.list().await?.into_iter().map(BuiltinToolView::from).collect();
    Ok(Json(BuiltinToolList { total: tools.len(), tools }))
}

/// Enable or disable a built-in tool
///
/// Sets the state given in the body; without a body, toggles the current state.
#[utoipa::path(post, path = "/api/settings/skills/builtin/{name}/toggle", operation_id = "toggle_builtin_tool",
    tag = "skills", params(("name" = String, Path, description = "Name of the tool, for example `shell`"), IdempotencyKey),
    request_body = Option<ToggleTool>,
    responses((status = 200, body = BuiltinToolView)))]
pub(super) async fn toggle_builtin_tool(
    State(state): State<ToolRoutes>,
    once: IdempotencyKey,
    Path(name): Path<String>,
    OptionalJson(toggle): OptionalJson<ToggleTool>,
) -> ApiResult<Json<BuiltinToolView>> {
    let recorder = record_once(&once, StatusCode::OK, |tool: &BuiltinTool| BuiltinToolView::from(tool.clone()));
    Ok(Json(state.builtin.toggle(&name, toggle.enabled, recorder).await?.into()))
}
