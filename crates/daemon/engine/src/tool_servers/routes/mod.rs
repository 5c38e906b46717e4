//! `/api/settings/skills/mcp`.

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

/// Every tool server, oldest first
#[utoipa::path(get, path = "/api/settings/skills/mcp", operation_id = "list_tool_servers", tag = "skills",
    responses((status = 200, body = ToolServerList)))]
async fn list_tool_servers(State(state): State<ToolServerRoutes>, caller: Caller) -> ApiResult<Json<ToolServerList>> {
    let servers = state.servers.list().await?.into_iter().map(|server| ToolServerView::from(server).shown_to(&caller));
    let servers: Vec<ToolServerView> = servers.collect();
    Ok(Json(ToolServerList { total: servers.len(), servers }))
}

/// Register a tool server
///
/// One that is enabled is connected to in the background; once it has said what it offers, agents
/// are offered that from their next turn on.
#[utoipa::path(post, path = "/api/settings/skills/mcp", operation_id = "create_tool_server", tag = "skills",
    request_body = ToolServerFields,
    params(IdempotencyKey),
    responses((status = 201, body = ToolServerView), (status = 409, body = ErrorBody, description = "The name is taken")))]
async fn create_tool_server(
    State(state): State<ToolServerRoutes>,
    once: IdempotencyKey,
    Json(fields): Json<ToolServerFields>,
) -> ApiResult<(StatusCode, Json<ToolServerView>)> {
    let recorder = record_once(&once, StatusCode::CREATED, created);
    let server = state.servers.create(fields.into(), None, recorder).await?;
    Ok((StatusCode::CREATED, Json(server.into())))
}

/// One tool server
#[utoipa::path(get, path = "/api/settings/skills/mcp/{id}", operation_id = "get_tool_server", tag = "skills",
    params(("id" = String, Path, description = "The server's id")),
    responses((status = 200, body = ToolServerView)))]
async fn get_tool_server(
    State(state): State<ToolServerRoutes>,
    caller: Caller,
    Path(id): Path<String>,
) -> ApiResult<Json<ToolServerView>> {
    Ok(Json(ToolServerView::from(state.servers.get(&id).await?).shown_to(&caller)))
}

/// Change a tool server
///
/// What is left out stays, and what GET shows may be sent back whole. Where the server is reached otherwise now, it is connected to anew.
/// Values of `env` go to no other `command` or `args`, and those of `headers` to no other host: with
/// such a change they must be entered again, or cleared.
#[utoipa::path(put, path = "/api/settings/skills/mcp/{id}", operation_id = "update_tool_server", tag = "skills",
    params(("id" = String, Path, description = "The server's id")), request_body = ToolServerPatch,
    responses((status = 200, body = ToolServerView), (status = 409, body = ErrorBody, description = "The name is taken")))]
async fn update_tool_server(
    State(state): State<ToolServerRoutes>,
    Path(id): Path<String>,
    Json(fields): Json<ToolServerPatch>,
) -> ApiResult<Json<ToolServerView>> {
    let change = fields.of(&id)?;
    Ok(Json(state.servers.update(&id, change.into()).await?.into()))
}

/// Delete a tool server
///
/// With its secrets and the folder that was its home. What runs of it is ended first.
#[utoipa::path(delete, path = "/api/settings/skills/mcp/{id}", operation_id = "delete_tool_server", tag = "skills",
    params(("id" = String, Path, description = "The server's id")),
    responses((status = 200, body = ToolServerDeleted)))]
async fn delete_tool_server(
    State(state): State<ToolServerRoutes>,
    Path(id): Path<String>,
) -> ApiResult<Json<ToolServerDeleted>> {
    state.servers.delete(&id).await?;
    Ok(Json(ToolServerDeleted { deleted: true }))
}

/// Try a tool server
///
/// 200 whenever it could be tried; `ok` says what came of it. Connects beside any session that
/// stands, asks for the tools, and disconnects again; nothing is changed.
#[utoipa::path(post, path = "/api/settings/skills/mcp/{id}/test", operation_id = "test_tool_server", tag = "skills",
    params(("id" = String, Path, description = "The server's id")),
    responses((status = 200, body = ToolServerTestView),
        (status = 429, body = ErrorBody, description = "Too many are tried at once")))]
async fn test_tool_server(
    State(state): State<ToolServerRoutes>,
    Path(id): Path<String>,
) -> ApiResult<Json<ToolServerTestView>> {
    Ok(Json(state.servers.test(&id).await?.into()))
}

/// Ask a tool server what it offers
///
/// Connects if need be. What it says is kept, and is what agents are offered from now on.
#[utoipa::path(post, path = "/api/settings/skills/mcp/{id}/discover", operation_id = "discover_tool_server",
    tag = "skills", params(("id" = String, Path, description = "The server's id")),
    responses((status = 200, body = DiscoveredTools),
        (status = 502, body = ErrorBody, description = "The server cannot be asked"),
        (status = 503, body = ErrorBody, description = "Something is missing here, such as a sandbox")))]
async fn discover_tool_server(
    State(state): State<ToolServerRoutes>,
    Path(id): Path<String>,
) -> ApiResult<Json<DiscoveredTools>> {
    Ok(Json(state.servers.discover(&id).await?.into()))
}

/// Connect to a tool server now
///
/// Not needed for its tools to work: a call connects by itself. Waits until the session stands.
#[utoipa::path(post, path = "/api/settings/skills/mcp/{id}/connect", operation_id = "connect_tool_server",
    tag = "skills", params(("id" = String, Path, description = "The server's id")),
    responses((status = 200, body = ToolServerView),
        (status = 409, body = ErrorBody, description = "The server is switched off"),
        (status = 502, body = ErrorBody, description = "The server cannot be connected to"),
        (status = 503, body = ErrorBody, description = "Something is missing here, such as a sandbox")))]
async fn connect_tool_server(
    State(state): State<ToolServerRoutes>,
    Path(id): Path<String>,
) -> ApiResult<Json<ToolServerView>> {
    Ok(Json(state.servers.connect(&id).await?.into()))
}

/// Disconnect from a tool server
///
/// Ends its program, if it is one. Its tools are still offered, and the next call connects again;
/// `enabled` switches it off.
#[utoipa::path(post, path = "/api/settings/skills/mcp/{id}/disconnect", operation_id = "disconnect_tool_server",
    tag = "skills", params(("id" = String, Path, description = "The server's id")),
    responses((status = 200, body = ToolServerView)))]
async fn disconnect_tool_server(
    State(state): State<ToolServerRoutes>,
    Path(id): Path<String>,
) -> ApiResult<Json<ToolServerView>> {
    Ok(Json(state.servers.disconnect(&id).await?.into()))
}

/// How it stands with a tool server
///
/// On the daemon that answers: each has programs of its own.
#[utoipa::path(get, path = "/api/settings/skills/mcp/{id}/status", operation_id = "get_tool_server_status",
    tag = "skills", params(("id" = String, Path, description = "The server's id")),
    responses((status = 200, body = ToolServerStatusView)))]
async fn get_tool_server_status(
    State(state): State<ToolServerRoutes>,
    Path(id): Path<String>,
) -> ApiResult<Json<ToolServerStatusView>> {
    Ok(Json(state.servers.get(&id).await?.into()))
}
