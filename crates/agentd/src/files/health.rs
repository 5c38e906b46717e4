//! Whether the disk takes what is written into workspaces.

use std::fs::File;
use std::future::Future;
use std::pin::Pin;

use agentd_base::{ComponentHealth, HealthCheck};
use agentd_sandbox::folder::Space;

use super::service::Files;

impl HealthCheck for Files {
    fn id(&self) -> &'static str {
        "disk"
    }

    fn name(&self) -> &'static str {
        "Disk"
    }

    fn check(&self) -> Pin<Box<dyn Future<Output = ComponentHealth> + Send + '_>> {
        // A file system over a network may not answer; who asks gives up after a while.
        let [workspaces, root] = self.disk();
        let look = move || {
            let folder = File::open(workspaces).or_else(|_| File::open(root))?;
            Space::at(folder).map_err(std::io::Error::from)
        };
        Box::pin(async move {
            match tokio::task::spawn_blocking(look).await {
                Ok(Ok(space)) => space.shortage().map_or_else(ComponentHealth::healthy, |shortage| {
                    ComponentHealth::degraded(format!(
                        "Nothing more is written into workspaces: {shortage}; make room on the disk that holds the data directory"
                    ))
                }),
                Ok(Err(error)) => {
                    tracing::warn!(%error, "what the disk has left is not known");
                    ComponentHealth::unknown("What the disk has left is not known now; the daemon's log says why")
                }
                Err(_) => ComponentHealth::unknown("What the disk has left is not known now"),
            }
        })
    }
}
