//! Offline daemon: composed without a listener or running workers, for commands that need the data while no daemon
//! runs.

use std::net::SocketAddr;
use std::sync::LazyLock;

use agentd_base::{Clock, Entropy};
use agentd_core::runtime::DataDir;
use agentd_operations::backup::WhileBusy;
use agentd_operations::monitoring::Readiness;
use agentd_store::Db;
use axum::Router;
use tokio_util::sync::CancellationToken;
use utoipa::openapi::OpenApi;

use super::error::StartError;
use super::open_context;
use crate::compose::{Daemon, compose};
use crate::config::Config;

/// Offline daemon. Holds the lock of the data directory, so no daemon can start meanwhile.
#[derive(Debug)]
pub struct Offline {
    daemon: Daemon,
    db: Db,
    draining: CancellationToken,
}

impl Offline {
    /// Opens the data directory and composes the daemon as at a start.
    ///
    /// # Errors
    /// `StartError` if a daemon could not start, for example because one is running.
    pub async fn open(config: Config, clock: Clock, entropy: Entropy) -> Result<Self, StartError> {
        let data_dir = DataDir::open(&config.data_dir)?;
        let context = open_context(&config, data_dir, clock, entropy).await?;
        let (db, draining) = (context.db.clone(), context.draining.clone());
        let readiness = Readiness::starting();
        // Not listened on; the address is only used in generated URLs.
        let address: SocketAddr = config.listen;
        let daemon = compose(context, &config, address, readiness.clone(), WhileBusy::Refuse).await?;
        readiness.set_ready();
        Ok(Self { daemon, db, draining })
    }

    /// Returns the router of the private socket.
    pub fn router(&self) -> Router {
        LazyLock::force(&self.daemon.local_router).clone()
    }

    /// The OpenAPI document.
    #[must_use]
    pub fn document(&self) -> OpenApi {
        self.daemon.document()
    }

    /// Stops background tasks, closes the database and releases the data directory.
    pub async fn close(self) {
        self.draining.cancel();
        self.db.close().await;
    }
}
