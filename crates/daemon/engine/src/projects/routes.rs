//! Routes under `/api/projects`.

use agentd_base::{Page, PageLimits, Patch, Problems, Timestamp};
use agentd_core::runtime::record_once;
use agentd_web::{ApiError, ApiResult, ApiRouter, IdempotencyKey, Json, Path, Query, Routes, routes};
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::model::{Project, ProjectChange, ProjectId, ProjectStatus};
use super::service::Projects;

#[must_use]
pub(super) fn routes() -> Routes<Projects> {
    Routes::new().protected(ApiRouter::new().routes(routes!(list_projects, create_project)).routes(routes!(
        get_project,
        update_project,
        delete_project
    )))
}

/// Project that groups related resources.
#[derive(Debug, Serialize, ToSchema)]
struct ProjectView {
    id: ProjectId,
    /// Display name; not necessarily unique.
    name: String,
    /// Description; null if there is none.
    description: Option<String>,
    status: ProjectStatus,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl From<&Project> for ProjectView {
    fn from(project: &Project) -> Self {
        Self {
            id: project.id.clone(),
            name: project.name.clone(),
            description: project.description.clone(),
            status: project.status,
            created_at: project.created_at,
            updated_at: project.updated_at,
        }
    }
}

/// Page of projects.
#[derive(Debug, Serialize, ToSchema)]
struct ProjectList {
    /// Projects of this page, newest first.
    projects: Vec<ProjectView>,
    /// Total number of matching projects.
    total: u64,
}

/// Fields of a new project.
#[derive(Debug, Deserialize, ToSchema)]
struct ProjectFields {
    /// Display name, 1 to 200 characters. Consecutive white space is reduced to one space.
    #[schema(min_length = 1, max_length = 200, example = "Garden")]
    name: String,
    /// Description, up to 4,000 characters. Default: none.
    #[serde(default)]
    #[schema(max_length = 4_000)]
    description: Option<String>,
    /// Initial status. Default: `active`.
    #[serde(default)]
    status: Option<ProjectStatus>,
}

/// Changes to a project; absent fields keep their values.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = ProjectUpdate)]
struct ProjectUpdateFields {
    /// Display name, 1 to 200 characters. Consecutive white space is reduced to one space.
    #[serde(default)]
    #[schema(value_type = String, required = false, min_length = 1, max_length = 200)]
    name: Option<String>,
    /// Description, up to 4,000 characters. Null clears it.
    #[serde(default)]
    #[schema(value_type = Option<String>, max_length = 4_000)]
    description: Patch<String>,
    /// New status.
    #[serde(default)]
    #[schema(value_type = ProjectStatus, required = false)]
    status: Option<ProjectStatus>,
}

/// Confirmation that a project was deleted.
#[derive(Debug, Serialize, ToSchema)]
struct ProjectDeleted {
    /// Always `true`.
    deleted: bool,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct ProjectQuery {
    /// Returns only projects with this status.
    #[param(inline)]
    status: Option<ProjectStatus>,
    /// Maximum number of projects to return, 1 to 200. Default: 50.
    #[param(minimum = 1, maximum = 200, default = json!(PageLimits::default().default))]
    limit: Option<i64>,
    /// Number of projects to skip. Default: 0.
    #[param(minimum = 0, default = 0)]
    offset: Option<i64>,
}

/// List projects
///
/// Returns the projects, newest first.
#[utoipa::path(get, path = "/api/projects", operation_id = "list_projects", tag = "projects",
    params(ProjectQuery), responses((status = 200, body = ProjectList)))]
async fn list_projects(
    State(projects): State<Projects>,
    Query(query): Query<ProjectQuery>,
) -> ApiResult<Json<ProjectList>> {
    let mut problems = Problems::new();
    let page = Page::checked(query.limit, query.offset, PageLimits::default(), &mut problems);
    problems.into_result().map_err(ApiError::invalid)?;
    let (found, total) = projects.list(query.status, page).await?;
    Ok(Json(ProjectList { projects: found.iter().map(ProjectView::from).collect(), total }))
}

/// Create a project
#[utoipa::path(post, path = "/api/projects", operation_id = "create_project", tag = "projects",
    request_body = ProjectFields, params(IdempotencyKey), responses((status = 201, body = ProjectView)))]
async fn create_project(
    State(projects): State<Projects>,
    once: IdempotencyKey,
    Json(fields): Json<ProjectFields>,
) -> ApiResult<(StatusCode, Json<ProjectView>)> {
    let wanted = ProjectChange {
        name: Some(fields.name),
        description: fields.description.map_or(Patch::Keep, Patch::Set),
        status: fields.status,
    };
    let recorder = record_once(&once, StatusCode::CREATED, |created: &Project| ProjectView::from(created));
    let created = projects.create(wanted, recorder).await?;
    Ok((StatusCode::CREATED, Json(ProjectView::from(&created))))
}

/// Get a project
#[utoipa::path(get, path = "/api/projects/{id}", operation_id = "get_project", tag = "projects",
    params(("id" = String, Path, description = "Id of the project")), responses((status = 200, body = ProjectView)))]
async fn get_project(State(projects): State<Projects>, Path(id): Path<String>) -> ApiResult<Json<ProjectView>> {
    Ok(Json(ProjectView::from(&projects.get(&id).await?)))
}

/// Update a project
///
/// Each change emits `project.updated`; a change of the status to `completed` also emits `project.completed`.
#[utoipa::path(put, path = "/api/projects/{id}", operation_id = "update_project", tag = "projects",
    params(("id" = String, Path, description = "Id of the project")), request_body = ProjectUpdateFields, responses((status = 200, body = ProjectView)))]
async fn update_project(
    State(projects): State<Projects>,
    Path(id): Path<String>,
    Json(fields): Json<ProjectUpdateFields>,
) -> ApiResult<Json<ProjectView>> {
    let change = ProjectChange { name: fields.name, description: fields.description, status: fields.status };
    Ok(Json(ProjectView::from(&projects.update(&id, change).await?)))
}

/// Delete a project
///
/// Resources of the project are kept without a project.
#[utoipa::path(delete, path = "/api/projects/{id}", operation_id = "delete_project", tag = "projects",
    params(("id" = String, Path, description = "Id of the project")), responses((status = 200, body = ProjectDeleted)))]
async fn delete_project(State(projects): State<Projects>, Path(id): Path<String>) -> ApiResult<Json<ProjectDeleted>> {
    projects.delete(&id).await?;
    Ok(Json(ProjectDeleted { deleted: true }))
}
