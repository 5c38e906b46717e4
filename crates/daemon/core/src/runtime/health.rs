//! Component health: the trait that a domain implements and monitoring asks.

use std::future::Future;
use std::pin::Pin;

use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HealthStatus {
    Healthy,
    Degraded,
    Unhealthy,
    /// Nothing is known of it now.
    Unknown,
}

/// What a component says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComponentHealth {
    pub status: HealthStatus,
    /// What is wrong and what would mend it; `None` when healthy.
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

/// A part of the daemon that can be asked how it does. Must answer within a second.
pub trait HealthCheck: Send + Sync {
    /// Stable id on the wire (`db`, `ai`).
    fn id(&self) -> &'static str;

    /// Name for people.
    fn name(&self) -> &'static str;

    /// Whether the daemon cannot serve without it: then it also decides `/health/ready`.
    fn is_critical(&self) -> bool {
        false
    }

    fn check(&self) -> Pin<Box<dyn Future<Output = ComponentHealth> + Send + '_>>;
}
