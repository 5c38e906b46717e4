//! Health of components: domains implement [`HealthCheck`], monitoring calls it.

use std::future::Future;
use std::pin::Pin;

use serde::Serialize;

/// Health of a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HealthStatus {
    /// Works as expected.
    Healthy,
    /// Works with limitations, named in `message`.
    Degraded,
    /// Does not work; `message` names the reason.
    Unhealthy,
    /// Not checked yet, or currently impossible to check.
    Unknown,
}

/// Result of a health check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComponentHealth {
    pub status: HealthStatus,
    /// Problem and remedy; `None` if healthy.
    pub message: Option<String>,
}

impl ComponentHealth {
    #[must_use]
    pub fn healthy() -> Self {
        Self { status: HealthStatus::Healthy, message: None }
    }

    #[must_use]
    pub fn degraded(message: impl Into<String>) -> Self {
        Self { status: HealthStatus::Degraded, message: Some(message.into()) }
    }

    #[must_use]
    pub fn unknown(message: impl Into<String>) -> Self {
        Self { status: HealthStatus::Unknown, message: Some(message.into()) }
    }

    #[must_use]
    pub fn unhealthy(message: impl Into<String>) -> Self {
        Self { status: HealthStatus::Unhealthy, message: Some(message.into()) }
    }
}

/// Component of the daemon that reports its health. A check must complete within a second.
pub trait HealthCheck: Send + Sync {
    /// Stable id in the API (`db`, `ai`).
    fn id(&self) -> &'static str;

    /// Display name.
    fn name(&self) -> &'static str;

    /// Whether the daemon cannot serve without the component. A critical component also decides `/health/ready`.
    fn is_critical(&self) -> bool {
        false
    }

    fn check(&self) -> Pin<Box<dyn Future<Output = ComponentHealth> + Send + '_>>;
}
