//! Routes under `/api/settings/skills/mcp`.

mod catalog;
mod fields;
mod overview;
mod state;
mod views;

use agentd_core::runtime::record_once;
use agentd_web::{ApiResult, ApiRouter, Caller, ErrorBody, IdempotencyKey, Json, Path, Routes, routes};
use axum::extract::State;
use http::StatusCode;

use fields::{ToolServerFields, ToolServerPatch};
pub use state::ToolServerRoutes;
use views::{
    DiscoveredTools, ToolServerDeleted, ToolServerList, ToolServerStatusView, ToolServerTestView, ToolServerView,
    created,
};

#[must_use]
pub(super) fn routes() -> Routes<ToolServerRoutes> {
    Routes::new().protected(
        ApiRouter::new()
            .routes(routes!(overview::get_skills))
            .routes(routes!(list_tool_servers, create_tool_server))
            .routes(routes!(catalog::list_catalog))
            .routes(routes!(catalog::install_catalog_entry))
            .routes(routes!(get_tool_server, update_tool_server, delete_tool_server))
            .routes(routes!(test_tool_server))
            .routes(routes!(discover_tool_server))
            .routes(routes!(connect_tool_server))
            .routes(routes!(disconnect_tool_server))
            .routes(routes!(get_tool_server_status)),
    )
}

/// List tool servers
///
/// Returns all registered tool servers, oldest first.
#[utoipa::path(get, path = "/api/settings/skills/mcp", operation_id = "list_tool_servers", tag = "skills",
    responses((status = 200, body = ToolServerList)))]
async fn list_tool_servers(State(state): State<ToolServerRoutes>, caller: Caller) -> ApiResult<Json<ToolServerList>> {
    let servers =
        state.servers.list().await?.into_iter().map(|server| ToolServerView::from(server).redacted_for(&caller));
    let servers: Vec<ToolServerView> = servers.collect();
    Ok(Json(ToolServerList { total: servers.len(), servers }))
}

/// Register a tool server
///
/// An enabled server is connected in the background. Agents are offered its tools from their next turn after it has
/// been connected.
#[utoipa::path(post, path = "/api/settings/skills/mcp", operation_id = "create_tool_server", tag = "skills",
    request_body = ToolServerFields,
    params(IdempotencyKey),
    responses((status = 201, body = ToolServerView),
        (status = 409, body = ErrorBody, description = "The name is taken")))]
async fn create_tool_server(
    State(state): State<ToolServerRoutes>,
    once: IdempotencyKey,
    Json(fields): Json<ToolServerFields>,
) -> ApiResult<(StatusCode, Json<ToolServerView>)> {
    let recorder = record_once(&once, StatusCode::CREATED, created);
    let server = state.servers.create(fields.into(), None, recorder).await?;
    Ok((StatusCode::CREATED, Json(server.into())))
}

/// Get a tool server
#[utoipa::path(get, path = "/api/settings/skills/mcp/{id}", operation_id = "get_tool_server", tag = "skills",
    params(("id" = String, Path, description = "Id of the tool server")),
    responses((status = 200, body = ToolServerView)))]
async fn get_tool_server(
    State(state): State<ToolServerRoutes>,
    caller: Caller,
    Path(id): Path<String>,
) -> ApiResult<Json<ToolServerView>> {
    Ok(Json(ToolServerView::from(state.servers.get(&id).await?).redacted_for(&caller)))
}

/// Update a tool server
///
/// Absent fields keep their values; the response of GET may be sent back as a whole. If the transport changes, the
/// server is connected again. If `command` or `args` change, the values of `env` must be entered again or cleared; if
/// the host changes, those of `headers`.
#[utoipa::path(put, path = "/api/settings/skills/mcp/{id}", operation_id = "update_tool_server", tag = "skills",
    params(("id" = String, Path, description = "Id of the tool server")), request_body = ToolServerPatch,
    responses((status = 200, body = ToolServerView),
        (status = 409, body = ErrorBody, description = "The name is taken")))]
async fn update_tool_server(
    State(state): State<ToolServerRoutes>,
    Path(id): Path<String>,
    Json(fields): Json<ToolServerPatch>,
) -> ApiResult<Json<ToolServerView>> {
    let change = fields.for_id(&id)?;
    Ok(Json(state.servers.update(&id, change.into()).await?.into()))
}

/// Delete a tool server
///
/// Stops the server's program and deletes its secrets and its home folder as well.
#[utoipa::path(delete, path = "/api/settings/skills/mcp/{id}", operation_id = "delete_tool_server", tag = "skills",
    params(("id" = String, Path, description = "Id of the tool server")),
    responses((status = 200, body = ToolServerDeleted)))]
async fn delete_tool_server(
    State(state): State<ToolServerRoutes>,
    Path(id): Path<String>,
) -> ApiResult<Json<ToolServerDeleted>> {
    state.servers.delete(&id).await?;
    Ok(Json(ToolServerDeleted { deleted: true }))
}

/// Test a tool server
///
/// Opens a separate session, lists the tools and disconnects; nothing is changed. Returns 200 if the test could run;
/// `ok` is its result.
#[utoipa::path(post, path = "/api/settings/skills/mcp/{id}/test", operation_id = "test_tool_server", tag = "skills",
    params(("id" = String, Path, description = "Id of the tool server")),
    responses((status = 200, body = ToolServerTestView),
        (status = 429, body = ErrorBody, description = "Too many tests are running")))]
async fn test_tool_server(
    State(state): State<ToolServerRoutes>,
    Path(id): Path<String>,
) -> ApiResult<Json<ToolServerTestView>> {
    Ok(Json(state.servers.test(&id).await?.into()))
}

/// Discover the tools of a server
///
/// Connects if necessary and stores the tool list. Agents are offered these tools from their next turn on.
#[utoipa::path(post, path = "/api/settings/skills/mcp/{id}/discover", operation_id = "discover_tool_server",
    tag = "skills", params(("id" = String, Path, description = "Id of the tool server")),
    responses((status = 200, body = DiscoveredTools),
        (status = 502, body = ErrorBody, description = "The server did not list its tools"),
        (status = 503, body = ErrorBody, description = "A local requirement, such as the sandbox, is missing")))]
async fn discover_tool_server(
    State(state): State<ToolServerRoutes>,
    Path(id): Path<String>,
) -> ApiResult<Json<DiscoveredTools>> {
    Ok(Json(state.servers.discover(&id).await?.into()))
}

/// Connect a tool server
///
/// Opens a session and waits until it is established. Optional, because a call connects automatically.
#[utoipa::path(post, path = "/api/settings/skills/mcp/{id}/connect", operation_id = "connect_tool_server",
    tag = "skills", params(("id" = String, Path, description = "Id of the tool server")),
    responses((status = 200, body = ToolServerView),
        (status = 409, body = ErrorBody, description = "The server is disabled"),
        (status = 502, body = ErrorBody, description = "The connection to the server failed"),
        (status = 503, body = ErrorBody, description = "A local requirement, such as the sandbox, is missing")))]
async fn connect_tool_server(
    State(state): State<ToolServerRoutes>,
    Path(id): Path<String>,
) -> ApiResult<Json<ToolServerView>> {
    Ok(Json(state.servers.connect(&id).await?.into()))
}

/// Disconnect a tool server
///
/// Stops its program, if any. Its tools are still offered and the next call connects again; use `enabled` to disable
/// the server.
#[utoipa::path(post, path = "/api/settings/skills/mcp/{id}/disconnect", operation_id = "disconnect_tool_server",
    tag = "skills", params(("id" = String, Path, description = "Id of the tool server")),
    responses((status = 200, body = ToolServerView)))]
async fn disconnect_tool_server(
    State(state): State<ToolServerRoutes>,
    Path(id): Path<String>,
) -> ApiResult<Json<ToolServerView>> {
    Ok(Json(state.servers.disconnect(&id).await?.into()))
}

/// Get tool server status
///
/// Returns the status on the daemon that handles the request; each daemon runs its own programs.
#[utoipa::path(get, path = "/api/settings/skills/mcp/{id}/status", operation_id = "get_tool_server_status",
    tag = "skills", params(("id" = String, Path, description = "Id of the tool server")),
    responses((status = 200, body = ToolServerStatusView)))]
async fn get_tool_server_status(
    State(state): State<ToolServerRoutes>,
    Path(id): Path<String>,
) -> ApiResult<Json<ToolServerStatusView>> {
    Ok(Json(state.servers.get(&id).await?.into()))
}
