//! Registrations that come with an import of settings.

use std::collections::BTreeSet;

use agentd_store::{Read, StoreError, Tx};

use super::change::{ToolServerChange, ToolServerId};
use super::error::ToolServerError;
use super::model::ToolServer;
use super::reach::Reach;
use super::service::{MAX_SERVERS, ToolServers};
use super::{names, secrets, store};

impl ToolServers {
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
