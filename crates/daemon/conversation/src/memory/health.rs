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
                    "Memory is disabled; enable it with `enabled` in PUT /api/settings/memory",
                );
            }
            if let Err(error) = self.statistics().await {
                tracing::warn!(%error, "failed to read memory");
                return ComponentHealth::unhealthy("Memory cannot be read; see the log of the daemon");
            }
            match self.embedding().missing_reason().await {
                None => ComponentHealth::healthy(),
                Some(reason) => ComponentHealth::degraded(format!(
                    "Semantic search is unavailable, only keyword search works: {reason}"
                )),
            }
        })
    }
}
