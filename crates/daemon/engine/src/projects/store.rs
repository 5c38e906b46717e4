//! Rows of projects.

use std::collections::HashMap;

use agentd_base::{Page, Timestamp};
use agentd_store::{Args, Read, Row, StoreError, Tx, args, in_list};

use super::model::{Project, ProjectId, ProjectStatus};

const COLUMNS: &str = "id, name, description, status, created_at, updated_at";

fn project(row: &Row) -> Result<Project, StoreError> {
    Ok(Project {
        id: row.get("id")?,
        name: row.get("name")?,
        description: row.get("description")?,
        status: ProjectStatus::from_stored(&row.get::<String>("status")?),
        created_at: row.get("created_at")?,
        updated_at: row.get("updated_at")?,
    })
}

/// Returns the SQL expression for the project in `column`, or NULL if that project was deleted, for queries of
/// referencing rows.
#[must_use]
pub fn live_project_sql(column: &str) -> String {
    format!("(SELECT projects.id FROM projects WHERE projects.id = {column} AND projects.deleted_at IS NULL)")
}

pub(super) async fn insert_project(tx: &mut Tx, project: &Project) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO projects (id, name, description, status, created_at, updated_at) VALUES ($1, $2, $3, $4, $5, $6)",
        args![
            &project.id,
            &project.name,
            project.description.as_deref(),
            project.status.as_str(),
            project.created_at,
            project.updated_at
        ],
    )
    .await
    .map(|_| ())
}

pub(super) async fn update_project(tx: &mut Tx, project: &Project) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE projects SET name = $2, description = $3, status = $4, updated_at = $5 WHERE id = $1",
        args![&project.id, &project.name, project.description.as_deref(), project.status.as_str(), project.updated_at],
    )
    .await
    .map(|_| ())
}

pub(super) async fn find_project(read: &mut Read, id: &str) -> Result<Option<Project>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM projects WHERE id = $1 AND deleted_at IS NULL");
    read.fetch_optional(sql, args![id]).await?.as_ref().map(project).transpose()
}

/// Returns ids and names of the projects that exist.
pub(super) async fn list_names(read: &mut Read, ids: &[&str]) -> Result<HashMap<String, String>, StoreError> {
    let mut names = HashMap::new();
    for ids in ids.chunks(64) {
        let mut args = args![];
        let sql =
            format!("SELECT id, name FROM projects WHERE deleted_at IS NULL AND id IN ({})", in_list(&mut args, ids));
        for row in read.fetch_all(sql, args).await? {
            names.insert(row.get("id")?, row.get("name")?);
        }
    }
    Ok(names)
}

pub(super) async fn count_projects(read: &mut Read) -> Result<u64, StoreError> {
    read.fetch_one("SELECT COUNT(*) FROM projects WHERE deleted_at IS NULL", args![]).await?.first()
}

/// Returns a page, newest first, and the total number.
pub(super) async fn list_projects(
    read: &mut Read,
    status: Option<ProjectStatus>,
    page: Page,
) -> Result<(Vec<Project>, u64), StoreError> {
    let mut args = Args::new();
    let of_status = match status {
        None => String::new(),
        Some(status) => format!("AND status = ${}", args.push(status.as_str())),
    };
    let sql = format!("SELECT COUNT(*) FROM projects WHERE deleted_at IS NULL {of_status}");
    let total = read.fetch_one(sql, args.clone()).await?.first()?;
    let (limit, offset) = (args.push(page.limit), args.push(page.offset));
    let sql = format!(
        "SELECT {COLUMNS} FROM projects WHERE deleted_at IS NULL {of_status} \
         ORDER BY created_at DESC, id DESC LIMIT ${limit} OFFSET ${offset}"
    );
    let rows = read.fetch_all(sql, args).await?;
    Ok((rows.iter().map(project).collect::<Result<_, _>>()?, total))
}

pub(super) async fn hide_project(tx: &mut Tx, id: &ProjectId, now: Timestamp) -> Result<(), StoreError> {
    tx.execute("UPDATE projects SET deleted_at = $2 WHERE id = $1", args![id, now]).await.map(|_| ())
}

/// Returns a deleted project whose row still exists.
pub(super) async fn find_hidden(read: &mut Read) -> Result<Option<ProjectId>, StoreError> {
    let sql = "SELECT id FROM projects WHERE deleted_at IS NOT NULL ORDER BY deleted_at, id LIMIT 1";
    read.fetch_optional(sql, args![]).await?.map(|row| row.get("id")).transpose()
}

pub(super) async fn delete_hidden(tx: &mut Tx, id: &ProjectId) -> Result<(), StoreError> {
    tx.execute("DELETE FROM projects WHERE id = $1 AND deleted_at IS NOT NULL", args![id]).await.map(|_| ())
}
