//! Health check of memory.

use std::future::Future;
use std::pin::Pin;

use agentd_core::runtime::{ComponentHealth, HealthCheck};

use super::service::Memory;

impl HealthCheck for Memory {
    fn id(&self) -> &'static str {
        "memory"
    }

    fn name(&self) -> &'static str {
        "Memory"
    }

    fn check(&self) -> Pin<Box<dyn Future<Output = ComponentHealth> + Send + '_>> {
        Box::pin(async {
            if !self.rules().enabled {
                return ComponentHealth::unknown(
                    "Memory is switched off; `enabled` of PUT /api/settings/memory turns it on",
                );
            }
            if let Err(error) = self.statistics().await {
                tracing::warn!(%error, "failed to read memory");
                return ComponentHealth::unhealthy("What is remembered cannot be read now; the daemon's log says why");
            }
            match self.embedding().missing_reason().await {
                None => ComponentHealth::healthy(),
                Some(reason) => ComponentHealth::degraded(format!("Memory is searched by words alone: {reason}")),
            }
        })
    }
}
