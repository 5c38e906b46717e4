//! Service for projects.

use std::collections::HashMap;
use std::sync::Arc;

use agentd_base::Page;
use agentd_core::parts::Detached;
use agentd_core::runtime::{AppContext, Slot, Slots};
use agentd_store::{NewEvent, Read, Recorder, StoreError, Tx};
use futures_util::future::LocalBoxFuture;
use serde_json::json;
use tokio::sync::Notify;

use super::error::ProjectError;
use super::model::{MAX_PROJECTS, Project, ProjectChange, ProjectId, ProjectStatus};
use super::store;

/// A domain whose rows may reference a project.
pub trait ProjectReferences: Send + Sync {
    fn name(&self) -> &'static str;

    /// Removes references to a deleted project from up to about `limit` rows; returns whether more may remain.
    fn release<'t>(
        &'t self,
        tx: &'t mut Tx,
        project: &'t ProjectId,
        limit: u32,
    ) -> LocalBoxFuture<'t, Result<bool, StoreError>>;
}

struct Inner {
    context: AppContext,
    /// Domains whose rows may reference a project.
    referrers: Slot<dyn ProjectReferences>,
    purge_wake: Arc<Notify>,
}

/// Service for projects. Cheap to clone.
#[derive(Clone)]
pub struct Projects(Arc<Inner>);

impl std::fmt::Debug for Projects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Projects").finish_non_exhaustive()
    }
}

impl Projects {
    pub fn new(context: AppContext, slots: &mut Slots) -> Detached<Self> {
        Detached::new(Self(Arc::new(Inner { context, referrers: slots.create(), purge_wake: Arc::default() })))
    }

    /// Creates a project.
    ///
    /// # Errors
    /// `Invalid` with all invalid fields, `TooMany`, or a store error.
    pub async fn create(&self, wanted: ProjectChange, recorder: Recorder<Project>) -> Result<Project, ProjectError> {
        let now = self.0.context.clock.now();
        let blank = Project {
            id: ProjectId::generate(&self.0.context.ids),
            name: String::new(),
            description: None,
            status: ProjectStatus::Active,
            created_at: now,
            updated_at: now,
        };
        let project = blank.changed(&wanted, now);
        project.check().map_err(|problems| ProjectError::Invalid { problems })?;
        self.0
            .context
            .db
            .write(async move |tx: &mut Tx| {
                if store::count_projects(tx).await? >= MAX_PROJECTS {
                    return Err(ProjectError::TooMany { limit: MAX_PROJECTS });
                }
                store::insert_project(tx, &project).await?;
                let data = json!({"project_id": project.id, "name": project.name, "status": project.status});
                tx.emit(NewEvent::new("project.created", data)).await?;
                emit_completed(tx, &project, None).await?;
                recorder.record(tx, &project).await?;
                Ok(project.clone())
            })
            .await
    }

    /// Returns a page, newest first, and the total number.
    ///
    /// # Errors
    /// A store error.
    pub async fn list(&self, status: Option<ProjectStatus>, page: Page) -> Result<(Vec<Project>, u64), ProjectError> {
        Ok(store::list_projects(&mut self.0.context.db.read_snapshot().await?, status, page).await?)
    }

    /// Returns a project.
    ///
    /// # Errors
    /// `NotFound`, or a store error.
    pub async fn get(&self, id: &str) -> Result<Project, ProjectError> {
        self.get_in(&mut self.0.context.db.read().await?, id).await
    }

    /// Returns the names of those of these projects that exist.
    ///
    /// # Errors
    /// A store error.
    pub async fn names(&self, ids: &[&str]) -> Result<HashMap<String, String>, StoreError> {
        store::list_names(&mut self.0.context.db.read().await?, ids).await
    }

    /// Variant of [`get`](Self::get) within a transaction. Use it before storing a reference, so that no row references
    /// a deleted project.
    ///
    /// # Errors
    /// `NotFound`, or a store error.
    pub async fn get_in(&self, read: &mut Read, id: &str) -> Result<Project, ProjectError> {
        store::find_project(read, id).await?.ok_or_else(|| ProjectError::not_found(id))
    }

    /// Updates a project.
    ///
    /// # Errors
    /// `NotFound`, `Invalid`, or a store error.
    pub async fn update(&self, id: &str, change: ProjectChange) -> Result<Project, ProjectError> {
        let id = id.to_owned();
        self.0
            .context
            .db
            .write(async move |tx: &mut Tx| {
                let before = store::find_project(tx, &id).await?.ok_or_else(|| ProjectError::not_found(&id))?;
                let now = tx.clock().now();
                let project = before.changed(&change, now);
                if project == before {
                    return Ok(project);
                }
                project.check().map_err(|problems| ProjectError::Invalid { problems })?;
                store::update_project(tx, &project).await?;
                let data = json!({
                    "project_id": project.id,
                    "name": project.name,
                    "status": project.status,
                    "previous_status": before.status,
                });
                tx.emit(NewEvent::new("project.updated", data)).await?;
                emit_completed(tx, &project, Some(&before)).await?;
                Ok(project)
            })
            .await
    }

    /// Deletes a project. References to it are treated as absent from then on.
    ///
    /// # Errors
    /// `NotFound`, or a store error.
    pub async fn delete(&self, id: &str) -> Result<(), ProjectError> {
        let id = id.to_owned();
        self.0
            .context
            .db
            .write(async move |tx: &mut Tx| {
                let project = store::find_project(tx, &id).await?.ok_or_else(|| ProjectError::not_found(&id))?;
                let now = tx.clock().now();
                store::hide_project(tx, &project.id, now).await?;
                let data = json!({"project_id": project.id, "name": project.name});
                tx.emit(NewEvent::new("project.deleted", data)).await?;
                Ok::<_, ProjectError>(())
            })
            .await?;
        self.0.purge_wake.notify_one();
        Ok(())
    }

    pub(super) fn context(&self) -> &AppContext {
        &self.0.context
    }

    pub(super) fn referrers(&self) -> Vec<Arc<dyn ProjectReferences>> {
        self.0.referrers.all().to_vec()
    }

    pub(super) fn purge_wake(&self) -> Arc<Notify> {
        Arc::clone(&self.0.purge_wake)
    }
}

async fn emit_completed(tx: &mut Tx, project: &Project, before: Option<&Project>) -> Result<(), StoreError> {
    if project.has_just_completed(before) {
        let data = json!({"project_id": project.id, "name": project.name});
        tx.emit(NewEvent::new("project.completed", data)).await?;
    }
    Ok(())
}
