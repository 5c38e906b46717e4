//! Registering tool servers, changing and deleting registrations, one at a time or with an import of settings.

use std::collections::BTreeSet;
use std::path::Path;

use agentd_base::Problems;
use agentd_store::{Read, Recorder, StoreError, Tx};

use super::change::{ToolServerChange, ToolServerId};
use super::error::ToolServerError;
use super::link::Command;
use super::model::ToolServer;
use super::reach::Reach;
use super::service::{ToolServers, not_found};
use super::state::ToolServerState;
use super::{names, secrets, store};

/// Each may take a place among the sandbox's runs, of which there are more.
const MAX_SERVERS: usize = 50;

impl ToolServers {
    /// Registers a server. One that is enabled is connected to in the background.
    ///
    /// # Errors
    /// `Invalid` with every bad field, `NameTaken`, `TooMany`, or the database is away.
    pub async fn create(
        &self,
        change: ToolServerChange,
        catalog_entry: Option<&str>,
        recorder: Recorder<ToolServer>,
    ) -> Result<ToolServerState, ToolServerError> {
        let mut server = ToolServer::blank(ToolServerId::generate(&self.0.ids), self.0.clock.now());
        server.catalog_entry = catalog_entry.map(str::to_owned);
        let writes = server.change(change).map_err(|problems| ToolServerError::Invalid { problems })?;
        self.refuse_own_data(&server.reach, None)?;
        let (vault, id) = (self.0.vault.clone(), server.id.clone());
        self.0
            .db
            .write(async move |tx: &mut Tx| {
                if store::count_tool_servers(tx).await? >= MAX_SERVERS {
                    return Err(ToolServerError::TooMany { limit: MAX_SERVERS });
                }
                if !store::insert_tool_server(tx, &server).await? {
                    return Err(ToolServerError::NameTaken { prefix: server.prefix.clone() });
                }
                secrets::write(tx, &vault, &server.id, &writes).await?;
                recorder.record(tx, &server).await?;
                Ok(())
            })
            .await?;
        self.begin_connecting(id.as_str()).await?;
        self.get(id.as_str()).await
    }

    /// Changes a registration; what the change leaves out stays. Where it is reached otherwise now,
    /// what was known of its tools is forgotten, and it is connected to anew.
    ///
    /// # Errors
    /// `NotFound`, `Invalid` with every bad field, `NameTaken`, or the database is away.
    pub async fn update(&self, id: &str, change: ToolServerChange) -> Result<ToolServerState, ToolServerError> {
        let (vault, wanted, now) = (self.0.vault.clone(), ToolServerId::from(id), self.0.clock.now());
        let here = self.clone();
        self.0
            .db
            .write(async move |tx: &mut Tx| {
                let found = store::find_tool_server(tx, &wanted).await?;
                let mut server = found.ok_or_else(|| not_found(wanted.as_str()))?;
                let (before, reach) = (server.revision, server.reach.clone());
                let writes = server.change(change.clone()).map_err(|problems| ToolServerError::Invalid { problems })?;
                here.refuse_own_data(&server.reach, Some(&reach))?;
                if store::is_prefix_taken(tx, &server.prefix, &server.id).await? {
                    return Err(ToolServerError::NameTaken { prefix: server.prefix });
                }
                server.updated_at = now;
                store::update_tool_server(tx, &server).await?;
                if server.revision != before {
                    store::delete_listing(tx, &server.id).await?;
                }
                secrets::write(tx, &vault, &server.id, &writes).await?;
                Ok(())
            })
            .await?;
        self.look_after().await?;
        self.begin_connecting(id).await?;
        self.get(id).await
    }

    /// Deletes a registration with its secrets and its folder, and ends what runs of it.
    ///
    /// # Errors
    /// `NotFound`, or the database is away.
    pub async fn delete(&self, id: &str) -> Result<(), ToolServerError> {
        let (vault, wanted) = (self.0.vault.clone(), ToolServerId::from(id));
        let deleted = wanted.clone();
        self.0
            .db
            .write(async move |tx: &mut Tx| {
                let found = store::find_tool_server(tx, &wanted).await?;
                let server = found.ok_or_else(|| not_found(wanted.as_str()))?;
                secrets::write(tx, &vault, &wanted, &server.reach.clear_secrets()).await?;
                store::delete_tool_server(tx, &wanted).await?;
                Ok::<_, ToolServerError>(())
            })
            .await?;
        if let Some(link) = self.forget(&deleted)
            && link.disconnect().await.is_ok()
        {
            let _ = link.tell(Command::Close);
        }
        let home = self.0.opener.home(&deleted);
        let removed = tokio::task::spawn_blocking(move || agentd_sandbox::folder::remove_path(&home)).await;
        if let Ok(Err(error)) = removed
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(%error, server = %deleted, "the folder of a deleted tool server cannot be removed");
        }
        Ok(())
    }

    /// Refuses what a registration newly gives its program of the daemon's own data.
    fn refuse_own_data(&self, reach: &Reach, before: Option<&Reach>) -> Result<(), ToolServerError> {
        let Reach::Stdio(stdio) = reach else { return Ok(()) };
        let is_known = |path: &String| match before {
            Some(Reach::Stdio(before)) => before.paths().any(|(_, known)| known == path),
            _ => false,
        };
        let mut problems = Problems::new();
        for (field, path) in stdio.paths().filter(|(_, path)| !is_known(path)) {
            let is_own = self.0.opener.is_own_data(Path::new(path));
            problems.require(!is_own, &field, "must not be the daemon's own data, nor hold it or lie in it");
        }
        problems.into_result().map_err(|problems| ToolServerError::Invalid { problems })
    }

    /// Every registration, oldest first.
    pub(crate) async fn registrations(&self, read: &mut Read) -> Result<Vec<ToolServer>, StoreError> {
        store::list_tool_servers(read).await
    }

    /// The registration whose tools would have the names that those of `name` have.
    pub(crate) async fn find_named(&self, read: &mut Read, name: &str) -> Result<Option<ToolServer>, StoreError> {
        let prefix = names::prefix(name.trim());
        Ok(self.registrations(read).await?.into_iter().find(|server| server.prefix == prefix))
    }

    /// Makes or changes a registration beside the caller's own changes. `names` are its variables or headers
    /// afterwards, also those that have no value yet.
    ///
    /// # Errors
    /// As [`Self::create`] and [`Self::update`].
    pub(crate) async fn write(
        &self,
        tx: &mut Tx,
        before: Option<ToolServer>,
        change: ToolServerChange,
        names: BTreeSet<String>,
        catalog_entry: Option<String>,
    ) -> Result<(), ToolServerError> {
        let (is_new, now) = (before.is_none(), self.0.clock.now());
        let mut server = before.unwrap_or_else(|| ToolServer {
            catalog_entry,
            ..ToolServer::blank(ToolServerId::generate(&self.0.ids), now)
        });
        let revision = server.revision;
        let writes = server.change(change).map_err(|problems| ToolServerError::Invalid { problems })?;
        match &mut server.reach {
            Reach::Stdio(stdio) => stdio.env = names,
            Reach::Http(http) => http.headers = names,
        }
        let problems = server.reach.problems();
        if !problems.is_empty() {
            return Err(ToolServerError::Invalid { problems });
        }
        server.updated_at = now;
        if !is_new {
            store::update_tool_server(tx, &server).await?;
            if server.revision != revision {
                store::delete_listing(tx, &server.id).await?;
            }
        } else if store::count_tool_servers(tx).await? >= MAX_SERVERS {
            return Err(ToolServerError::TooMany { limit: MAX_SERVERS });
        } else if !store::insert_tool_server(tx, &server).await? {
            return Err(ToolServerError::NameTaken { prefix: server.prefix });
        }
        secrets::write(tx, &self.0.vault, &server.id, &writes).await
    }

    /// Ends what runs otherwise than it is registered now.
    ///
    /// # Errors
    /// The database is away.
    pub(crate) async fn follow_import(&self) -> Result<(), ToolServerError> {
        self.look_after().await.map(|_| ())
    }
}
