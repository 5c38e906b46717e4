//! `/api/agents/{name}/files`.

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

/// Entries of a folder that are shown without a `limit`.
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

/// What a workspace holds and may hold.
#[derive(Debug, Serialize, ToSchema)]
struct WorkspaceUsage {
    /// Directories included.
    files: u64,
    /// Of each file what it says that it is long, or what it takes on the disk, whichever is more.
    bytes: u64,
    /// `workspace_max_files` of the sandbox settings.
    max_files: u64,
    /// `workspace_limit_mb` of the sandbox settings.
    max_bytes: u64,
}

impl From<Usage> for WorkspaceUsage {
    fn from(usage: Usage) -> Self {
        let Usage { held, bounds } = usage;
        Self { files: held.files, bytes: held.bytes, max_files: bounds.files, max_bytes: bounds.bytes }
    }
}

/// A directory, a part of its entries: directories first, then by name.
#[derive(Debug, Serialize, ToSchema)]
struct AgentFileList {
    /// Empty for the workspace itself.
    path: String,
    files: Vec<AgentFile>,
    /// How many entries there are, whatever the part.
    total: usize,
    /// How many are not in the list at all: those whose names hold control characters or are no text, and of a
    /// directory with more than 10,000 entries the rest.
    left_out: usize,
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
    /// Of the directory; left out, the workspace itself.
    #[serde(default)]
    #[param(max_length = 4096)]
    path: String,
    #[param(minimum = 1, maximum = 1000, default = 200)]
    limit: Option<u32>,
    #[param(minimum = 0, maximum = 1_000_000, default = 0)]
    offset: Option<u32>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct DeleteQuery {
    /// In the workspace.
    #[param(min_length = 1, max_length = 4096)]
    path: String,
    /// Whether a directory goes with all that is in it.
    #[serde(default)]
    #[param(default = false)]
    recursive: bool,
}

/// Where a file is to be.
#[derive(Debug, Deserialize, ToSchema)]
struct AgentFileMove {
    /// The new path; the directory that it names is there.
    #[schema(min_length = 1, max_length = 4096, example = "reports/2026/june.md")]
    path: String,
}

#[derive(Debug, Serialize, ToSchema)]
struct AgentFileDeleted {
    /// Always true.
    deleted: bool,
}

/// The files of an agent's workspace, one directory at a time
///
/// Directories first, then by name. `usage` is of the whole workspace; what others write there is seen after half a
/// minute at the latest.
#[utoipa::path(get, path = "/api/agents/{name}/files", operation_id = "list_agent_files", tag = "agents",
    params(("name" = String, Path, description = "svc_name or id"), ListQuery),
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

/// One file or directory, as its directory lists it
#[utoipa::path(get, path = "/api/agents/{name}/files/entry", operation_id = "get_agent_file", tag = "agents",
    params(("name" = String, Path, description = "svc_name or id"), PathQuery),
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

/// Move or rename a file or a directory
///
/// What is at the new path already stays; the directory that it is in must be there.
#[utoipa::path(patch, path = "/api/agents/{name}/files", operation_id = "move_agent_file", tag = "agents",
    params(("name" = String, Path, description = "svc_name or id"), PathQuery), request_body = AgentFileMove,
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

/// Delete a file or a directory
///
/// A link goes, not what it points to.
#[utoipa::path(delete, path = "/api/agents/{name}/files", operation_id = "delete_agent_file", tag = "agents",
    params(("name" = String, Path, description = "svc_name or id"), DeleteQuery),
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

/// Make a directory, and those on the way
///
/// One that is there already is answered as it is.
#[utoipa::path(put, path = "/api/agents/{name}/files/directory", operation_id = "create_agent_directory",
    tag = "agents", params(("name" = String, Path, description = "svc_name or id"), PathQuery),
    responses((status = 200, body = AgentFile),
        (status = 404, body = ErrorBody, description = "`agent_not_found`"),
        (status = 409, body = ErrorBody, description = "`not_a_directory`: a file is in the way; `is_link`; \
            `workspace_full`"),
        (status = 503, body = ErrorBody, description = "`disk_full`: the last of the disk is kept for the daemon")))]
async fn create_agent_directory(
    State(files): State<Files>,
    Path(name): Path<String>,
    Query(query): Query<PathQuery>,
) -> ApiResult<Json<AgentFile>> {
    Ok(Json(files.create_folder(&name, &query.path).await?.into()))
}
