//! Creates, updates and deletes registrations of tool servers, individually or as part of an import.

use std::collections::BTreeSet;
use std::path::Path;

use agentd_base::Problems;
use agentd_store::{Read, Recorder, StoreError, Tx};

use super::change::{ToolServerChange, ToolServerId};
use super::error::ToolServerError;
use super::link::Command;
use super::model::ToolServer;
use super::service::{ToolServers, not_found};
use super::state::ToolServerState;
use super::transport::Transport;
use super::{names, secrets, store};

/// Maximum number of tool servers; below the maximum number of sandbox runs, since each may occupy one.
const MAX_SERVERS: usize = 50;

impl ToolServers {
    /// Registers a server. An enabled server is connected in the background.
    ///
    /// # Errors
    /// `Invalid` with all invalid fields, `NameTaken`, `TooMany`, or a store error.
    pub async fn create(
        &self,
        change: ToolServerChange,
        catalog_entry: Option<&str>,
        recorder: Recorder<ToolServer>,
    ) -> Result<ToolServerState, ToolServerError> {
        let mut server = ToolServer::blank(ToolServerId::generate(&self.0.ids), self.0.clock.now());
        server.catalog_entry = catalog_entry.map(str::to_owned);
        let writes = server.change(change).map_err(|problems| ToolServerError::Invalid { problems })?;
        self.reject_own_data(&server.transport, None)?;
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
        self.start_connecting(id.as_str()).await?;
        self.get(id.as_str()).await
    }

    /// Updates a registration; absent fields keep their values. If the transport changes, the stored tool list is
    /// deleted and the server is connected again.
    ///
    /// # Errors
    /// `NotFound`, `Invalid` with all invalid fields, `NameTaken`, or a store error.
    pub async fn update(&self, id: &str, change: ToolServerChange) -> Result<ToolServerState, ToolServerError> {
        let (vault, wanted, now) = (self.0.vault.clone(), ToolServerId::from(id), self.0.clock.now());
        let servers = self.clone();
        self.0
            .db
            .write(async move |tx: &mut Tx| {
                let found = store::find_tool_server(tx, &wanted).await?;
                let mut server = found.ok_or_else(|| not_found(wanted.as_str()))?;
                let (before, transport) = (server.revision, server.transport.clone());
                let writes = server.change(change.clone()).map_err(|problems| ToolServerError::Invalid { problems })?;
                servers.reject_own_data(&server.transport, Some(&transport))?;
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
        self.reconcile().await?;
        self.start_connecting(id).await?;
        self.get(id).await
    }

    /// Deletes a registration with its secrets and its folder, and stops its program.
    ///
    /// # Errors
    /// `NotFound`, or a store error.
    pub async fn delete(&self, id: &str) -> Result<(), ToolServerError> {
        let (vault, wanted) = (self.0.vault.clone(), ToolServerId::from(id));
        let deleted = wanted.clone();
        self.0
            .db
            .write(async move |tx: &mut Tx| {
                let found = store::find_tool_server(tx, &wanted).await?;
                let server = found.ok_or_else(|| not_found(wanted.as_str()))?;
                secrets::write(tx, &vault, &wanted, &server.transport.clear_secrets()).await?;
                store::delete_tool_server(tx, &wanted).await?;
                Ok::<_, ToolServerError>(())
            })
            .await?;
        if let Some(link) = self.remove_link(&deleted)
            && link.disconnect().await.is_ok()
        {
            let _ = link.send(Command::Close);
        }
        let home = self.0.opener.home(&deleted);
        let removed = tokio::task::spawn_blocking(move || agentd_sandbox::folder::remove_path(&home)).await;
        if let Ok(Err(error)) = removed
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(%error, server = %deleted, "failed to remove the folder of a deleted tool server");
        }
        Ok(())
    }

    /// Rejects new paths of a registration that are in the daemon's own data or contain it.
    fn reject_own_data(&self, transport: &Transport, before: Option<&Transport>) -> Result<(), ToolServerError> {
        let Transport::Stdio(stdio) = transport else { return Ok(()) };
        let is_known = |path: &String| match before {
            Some(Transport::Stdio(before)) => before.paths().any(|(_, known)| known == path),
            _ => false,
        };
        let mut problems = Problems::new();
        for (field, path) in stdio.paths().filter(|(_, path)| !is_known(path)) {
            let is_own = self.0.opener.is_own_data(Path::new(path));
            problems.require(!is_own, &field, "must not be inside the daemon's own data or contain it");
        }
        problems.into_result().map_err(|problems| ToolServerError::Invalid { problems })
    }

    /// Returns all registrations, oldest first.
    pub(crate) async fn registrations(&self, read: &mut Read) -> Result<Vec<ToolServer>, StoreError> {
        store::list_tool_servers(read).await
    }

    /// Returns the registration whose tools would have the same prefix as those of `name`.
    pub(crate) async fn find_named(&self, read: &mut Read, name: &str) -> Result<Option<ToolServer>, StoreError> {
        let prefix = names::prefix(name.trim());
        Ok(self.registrations(read).await?.into_iter().find(|server| server.prefix == prefix))
    }

    /// Creates or updates a registration in the caller's transaction. `names` are its variables or headers afterwards,
    /// including those without a value yet.
    ///
    /// # Errors
    /// See [`Self::create`] and [`Self::update`].
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
        match &mut server.transport {
            Transport::Stdio(stdio) => stdio.env = names,
            Transport::Http(http) => http.headers = names,
        }
        let problems = server.transport.problems();
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

    /// Stops sessions that do not match their registrations anymore.
    ///
    /// # Errors
    /// A store error.
    pub(crate) async fn apply_import(&self) -> Result<(), ToolServerError> {
        self.reconcile().await.map(|_| ())
    }
}
