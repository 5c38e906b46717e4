//! A daemon that is composed but listens nowhere and works on nothing by itself: how a command
//! reaches the data when no daemon runs.

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

/// Holds the data directory's lock, so that no daemon starts meanwhile.
#[derive(Debug)]
pub struct Offline {
    daemon: Daemon,
    db: Db,
    draining: CancellationToken,
}

impl Offline {
    /// Opens the data directory and composes, as a start does.
    ///
    /// # Errors
    /// What would keep a daemon from starting; a daemon that runs is one of them.
    pub async fn open(config: Config, clock: Clock, entropy: Entropy) -> Result<Self, StartError> {
        let data_dir = DataDir::open(&config.data_dir)?;
        let context = open_context(&config, data_dir, clock, entropy).await?;
        let (db, draining) = (context.db.clone(), context.draining.clone());
        let readiness = Readiness::starting();
        // Nobody can reach it there; the address only fills in what pages would show.
        let address: SocketAddr = config.listen;
        let daemon = compose(context, &config, address, readiness.clone(), WhileBusy::Refuse).await?;
        readiness.set_ready();
        Ok(Self { daemon, db, draining })
    }

    /// What the private socket of a running daemon would answer.
    pub fn router(&self) -> Router {
        LazyLock::force(&self.daemon.local_router).clone()
    }

    /// The OpenAPI document.
    #[must_use]
    pub fn document(&self) -> OpenApi {
        self.daemon.document()
    }

    /// Finishes what is under way and gives the data directory back.
    pub async fn close(self) {
        self.draining.cancel();
        self.db.close().await;
    }
}
