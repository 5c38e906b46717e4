//! Routes under `/api/agents/{name}/files`.

mod content;
mod entry;

use agentd_web::{ApiResult, ApiRouter, ErrorBody, Json, Path, Query, Routes, routes};
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::model::MAX_FILE_BYTES;
use super::service::{Files, Folder};
use crate::workspaces::Usage;
use entry::{AgentFile, PathQuery};

/// Default page size of a folder.
const DEFAULT_ENTRIES: u32 = 200;

#[must_use]
pub(super) fn routes() -> Routes<Files> {
    let changing = ApiRouter::new()
        .routes(routes!(list_agent_files, move_agent_file, delete_agent_file))
        .routes(routes!(get_agent_file))
        .routes(routes!(create_agent_directory))
        .routes(routes!(content::read_agent_file).accept_tickets());
    Routes::new()
        .protected(changing)
        .protected_up_to(MAX_FILE_BYTES, ApiRouter::new().routes(routes!(content::write_agent_file)))
}

/// Size and limits of a workspace.
#[derive(Debug, Serialize, ToSchema)]
struct WorkspaceUsage {
    /// Number of files and directories.
    files: u64,
    /// Total size in bytes. Each file counts with its length or its disk usage, whichever is larger.
    bytes: u64,
    /// Maximum number of files and directories: `workspace_max_files` of the sandbox settings.
    max_files: u64,
    /// Maximum total size in bytes: `workspace_limit_mb` of the sandbox settings.
    max_bytes: u64,
}

impl From<Usage> for WorkspaceUsage {
    fn from(usage: Usage) -> Self {
        let Usage { held, bounds } = usage;
        Self { files: held.files, bytes: held.bytes, max_files: bounds.files, max_bytes: bounds.bytes }
    }
}

/// Page of a directory.
#[derive(Debug, Serialize, ToSchema)]
struct AgentFileList {
    /// Path of the directory; empty for the workspace itself.
    path: String,
    /// Entries of this page: directories first, then by name.
    files: Vec<AgentFile>,
    /// Total number of entries in the directory.
    total: usize,
    /// Number of entries that cannot be listed: entries beyond 10,000, and names with control characters or invalid
    /// text.
    left_out: usize,
    /// Size and limits of the whole workspace.
    usage: WorkspaceUsage,
}

impl From<Folder> for AgentFileList {
    fn from(folder: Folder) -> Self {
        Self {
            path: folder.path,
            files: folder.entries.into_iter().map(AgentFile::from).collect(),
            total: folder.total,
            left_out: folder.left_out,
            usage: folder.usage.into(),
        }
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct ListQuery {
    /// Path of the directory, up to 4,096 characters. Default: the workspace itself.
    #[serde(default)]
    #[param(max_length = 4096)]
    path: String,
    /// Maximum number of entries to return, 1 to 1,000. Default: 200.
    #[param(minimum = 1, maximum = 1000, default = 200)]
    limit: Option<u32>,
    /// Number of entries to skip, up to 1,000,000. Default: 0.
    #[param(minimum = 0, maximum = 1_000_000, default = 0)]
    offset: Option<u32>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct DeleteQuery {
    /// Path in the workspace, 1 to 4,096 characters.
    #[param(min_length = 1, max_length = 4096)]
    path: String,
    /// Whether to delete a directory with its content. Default: false.
    #[serde(default)]
    #[param(default = false)]
    recursive: bool,
}

/// New location of a file or directory.
#[derive(Debug, Deserialize, ToSchema)]
struct AgentFileMove {
    /// New path, 1 to 4,096 characters. Its directory must exist, and the path itself must not.
    #[schema(min_length = 1, max_length = 4096, example = "reports/2026/june.md")]
    path: String,
}

/// Confirmation that a file or directory was deleted.
#[derive(Debug, Serialize, ToSchema)]
struct AgentFileDeleted {
    /// Always `true`.
    deleted: bool,
}

/// List workspace files
///
/// Lists one directory: directories first, then by name. `usage` covers the whole workspace; external changes appear
/// after 30 seconds at the latest.
#[utoipa::path(get, path = "/api/agents/{name}/files", operation_id = "list_agent_files", tag = "agents",
    params(("name" = String, Path, description = "`svc_name` or id of the agent"), ListQuery),
    responses((status = 200, body = AgentFileList),
        (status = 404, body = ErrorBody, description = "`agent_not_found`; `file_not_found`"),
        (status = 409, body = ErrorBody, description = "`not_a_directory`; `is_link`: links are not followed")))]
async fn list_agent_files(
    State(files): State<Files>,
    Path(name): Path<String>,
    Query(query): Query<ListQuery>,
) -> ApiResult<Json<AgentFileList>> {
    let (limit, offset) = (query.limit.unwrap_or(DEFAULT_ENTRIES), query.offset.unwrap_or(0));
    let folder = files.list(&name, &query.path, limit as usize, offset as usize).await?;
    Ok(Json(folder.into()))
}

/// Get a workspace entry
#[utoipa::path(get, path = "/api/agents/{name}/files/entry", operation_id = "get_agent_file", tag = "agents",
    params(("name" = String, Path, description = "`svc_name` or id of the agent"), PathQuery),
    responses((status = 200, body = AgentFile),
        (status = 404, body = ErrorBody, description = "`agent_not_found`; `file_not_found`"),
        (status = 409, body = ErrorBody, description = "`not_a_directory`; `is_link`: links are not followed")))]
async fn get_agent_file(
    State(files): State<Files>,
    Path(name): Path<String>,
    Query(query): Query<PathQuery>,
) -> ApiResult<Json<AgentFile>> {
    Ok(Json(files.entry(&name, &query.path).await?.into()))
}

/// Move a file or directory
///
/// Fails if the new path exists or its directory does not.
#[utoipa::path(patch, path = "/api/agents/{name}/files", operation_id = "move_agent_file", tag = "agents",
    params(("name" = String, Path, description = "`svc_name` or id of the agent"), PathQuery),
    request_body = AgentFileMove,
    responses((status = 200, body = AgentFile),
        (status = 404, body = ErrorBody, description = "`agent_not_found`; `file_not_found`"),
        (status = 409, body = ErrorBody, description = "`file_exists`: the new path is taken; `not_a_file`; \
            `not_a_directory`; `is_link`")))]
async fn move_agent_file(
    State(files): State<Files>,
    Path(name): Path<String>,
    Query(query): Query<PathQuery>,
    Json(to): Json<AgentFileMove>,
) -> ApiResult<Json<AgentFile>> {
    Ok(Json(files.rename(&name, &query.path, &to.path).await?.into()))
}

/// Delete a file or directory
///
/// Deletes a link itself, not its target.
#[utoipa::path(delete, path = "/api/agents/{name}/files", operation_id = "delete_agent_file", tag = "agents",
    params(("name" = String, Path, description = "`svc_name` or id of the agent"), DeleteQuery),
    responses((status = 200, body = AgentFileDeleted),
        (status = 404, body = ErrorBody, description = "`agent_not_found`; `file_not_found`"),
        (status = 409, body = ErrorBody, description = "`directory_not_empty`: without `recursive`")))]
async fn delete_agent_file(
    State(files): State<Files>,
    Path(name): Path<String>,
    Query(query): Query<DeleteQuery>,
) -> ApiResult<Json<AgentFileDeleted>> {
    files.remove(&name, &query.path, query.recursive).await?;
    Ok(Json(AgentFileDeleted { deleted: true }))
}

/// Create a directory
///
/// Creates missing parents. An existing directory is returned unchanged.
#[utoipa::path(put, path = "/api/agents/{name}/files/directory", operation_id = "create_agent_directory",
    tag = "agents", params(("name" = String, Path, description = "`svc_name` or id of the agent"), PathQuery),
    responses((status = 200, body = AgentFile),
        (status = 404, body = ErrorBody, description = "`agent_not_found`"),
        (status = 409, body = ErrorBody, description = "`not_a_directory`: a parent is a file; `is_link`; \
            `workspace_full`"),
        (status = 503, body = ErrorBody, description = "`disk_full`: the reserve of the disk is reached")))]
async fn create_agent_directory(
    State(files): State<Files>,
    Path(name): Path<String>,
    Query(query): Query<PathQuery>,
) -> ApiResult<Json<AgentFile>> {
    Ok(Json(files.create_folder(&name, &query.path).await?.into()))
}
