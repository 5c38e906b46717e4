//! `/api/settings/skills/builtin`.

use agentd_core::runtime::record_once;
use agentd_web::{ApiResult, IdempotencyKey, Json, JsonOrNothing, Path};
use axum::extract::State;
use http::StatusCode;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::state::{ToggleTool, ToolRoutes};
use crate::tools::builtin::BuiltinTool;
use crate::tools::tool::Effect;

/// What a tool does to the world.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum EffectView {
    /// Looks at what is the agent's own already; never asks for approval by itself.
    Reads,
    /// Changes something, runs code, or reaches outside.
    Acts,
}

/// A tool that comes with the daemon.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct BuiltinToolView {
    name: String,
    description: String,
    /// The JSON Schema of the tool's input.
    #[schema(value_type = Object)]
    input_schema: Value,
    effect: EffectView,
    enabled: bool,
    /// Whether it can work now; agents are offered only what can.
    available: bool,
    /// Why it cannot, and what would change that.
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

/// Every built-in tool, always in this order.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct BuiltinToolList {
    tools: Vec<BuiltinToolView>,
    total: usize,
}

/// The tools that come with the daemon
#[utoipa::path(get, path = "/api/settings/skills/builtin", operation_id = "list_builtin_tools", tag = "skills",
    responses((status = 200, body = BuiltinToolList)))]
pub(super) async fn list_builtin_tools(State(state): State<ToolRoutes>) -> ApiResult<Json<BuiltinToolList>> {
    let tools: Vec<BuiltinToolView> = state.builtin.list().await?.into_iter().map(BuiltinToolView::from).collect();
    Ok(Json(BuiltinToolList { total: tools.len(), tools }))
}

/// Switch a built-in tool off, or on again
///
/// To what the body says; without one, to what it is not.
#[utoipa::path(post, path = "/api/settings/skills/builtin/{name}/toggle", operation_id = "toggle_builtin_tool",
    tag = "skills", params(("name" = String, Path, description = "Such as `shell`"), IdempotencyKey),
    request_body = ToggleTool,
    responses((status = 200, body = BuiltinToolView)))]
pub(super) async fn toggle_builtin_tool(
    State(state): State<ToolRoutes>,
    once: IdempotencyKey,
    Path(name): Path<String>,
    JsonOrNothing(toggle): JsonOrNothing<ToggleTool>,
) -> ApiResult<Json<BuiltinToolView>> {
    let recorder = record_once(&once, StatusCode::OK, |tool: &BuiltinTool| BuiltinToolView::from(tool.clone()));
    Ok(Json(state.builtin.toggle(&name, toggle.enabled, recorder).await?.into()))
}
