//! Conversations of projects that were deleted.

use agentd_store::{StoreError, Tx};
use futures_util::future::LocalBoxFuture;

use super::service::Chat;
use super::store;
use crate::projects::{NamesProjects, ProjectId};

impl NamesProjects for Chat {
    fn name(&self) -> &'static str {
        "conversations"
    }

    fn release<'t>(
        &'t self,
        tx: &'t mut Tx,
        project: &'t ProjectId,
        limit: u32,
    ) -> LocalBoxFuture<'t, Result<bool, StoreError>> {
        Box::pin(async move { Ok(store::release_project(tx, project, limit).await? > 0) })
    }
}
