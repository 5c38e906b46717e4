//! Health check of the disk that stores the daemon's data.

use std::fs::File;
use std::path::PathBuf;

use agentd_core::runtime::{ComponentHealth, DataDir, HealthCheck, HealthStatus};
use agentd_sandbox::folder::Space;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::probe::{DATABASE_ID, DatabaseCheck};

/// Combined check of the database and the disk. Readiness only checks the database, because the daemon still serves
/// requests when the disk is nearly full.
#[derive(Debug, Clone)]
pub(super) struct StorageCheck {
    database: DatabaseCheck,
    /// Parent folder of all workspaces, and the folder that will contain it.
    folders: [PathBuf; 2],
}

impl StorageCheck {
    pub(super) fn new(database: DatabaseCheck, data_dir: &DataDir) -> Self {
        Self { database, folders: [data_dir.agents(), data_dir.root().to_path_buf()] }
    }

    async fn disk(&self) -> ComponentHealth {
        let [workspaces, root] = self.folders.clone();
        let read_space = move || {
            let folder = File::open(workspaces).or_else(|_| File::open(root))?;
            Space::at(folder).map_err(std::io::Error::from)
        };
        match tokio::task::spawn_blocking(read_space).await {
            Ok(Ok(space)) => space.shortage().map_or_else(ComponentHealth::healthy, |shortage| {
                ComponentHealth::degraded(format!(
                    "Writing to workspaces is disabled: {shortage}; free space on the disk of the data directory"
                ))
            }),
            Ok(Err(error)) => {
                tracing::warn!(%error, "failed to read free disk space");
                ComponentHealth::degraded("The free disk space cannot be read; see the daemon's log")
            }
            Err(_) => ComponentHealth::degraded("The free disk space cannot be read"),
        }
    }
}

impl HealthCheck for StorageCheck {
    fn id(&self) -> &'static str {
        DATABASE_ID
    }

    fn name(&self) -> &'static str {
        self.database.name()
    }

    fn check(&self) -> BoxFuture<'_, ComponentHealth> {
        async {
            let database = self.database.check().await;
            if database.status == HealthStatus::Healthy { self.disk().await } else { database }
        }
        .boxed()
    }
}
