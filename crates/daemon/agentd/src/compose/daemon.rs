//! Composed daemon: its parts, accessors for programs that embed it, and its shutdown.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use agentd_automation::notify::Notify;
use agentd_automation::scheduler::Scheduler;
use agentd_conversation::chat::Chat;
use agentd_conversation::memory::Memory;
use agentd_core::auth::Auth;
use agentd_core::parts::{ShutdownPhase, ShutdownStep};
use agentd_core::runtime::{AppContext, EventBacklog, Metrics, Workers};
use agentd_core::settings::Settings;
use agentd_engine::engine::Engine;
use agentd_engine::tools::Tools;
use agentd_operations::backup::Backup;
use agentd_operations::monitoring::Gate;
use agentd_operations::web_ui::DescribeApi;
use agentd_telemetry::{LogRecords, TelemetryConfig};
use agentd_web::{GuardedRouter, Routes};
use axum::Router;
use futures_util::future::join_all;
use utoipa::openapi::OpenApi;

use super::collector::start_log_export;

/// Services and workers of a daemon, without its HTTP routers. Returned by [`wire`](super::wire).
pub struct DaemonServices {
    pub workers: Workers,
    pub(super) services: Services,
    pub(super) routes: Routes,
    pub(super) describe: Arc<DescribeApi>,
    pub(super) shutdown: Vec<ShutdownStep>,
    pub(super) backlog: EventBacklog,
    pub(super) hashing_key: [u8; 32],
}

impl std::fmt::Debug for DaemonServices {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inside").field("workers", &self.workers).finish_non_exhaustive()
    }
}

/// Services that the routers and programs that embed the daemon use.
#[derive(Clone)]
pub(super) struct Services {
    pub(super) metrics: Arc<Metrics>,
    pub(super) backup: Backup,
    pub(super) settings: Settings,
    pub(super) auth: Auth,
    pub(super) tools: Tools,
    pub(super) engine: Engine,
    pub(super) chat: Chat,
    pub(super) memory: Memory,
    pub(super) notify: Notify,
    pub(super) scheduler: Scheduler,
}

/// Router of the private socket, built at its first use.
pub type LocalRouter = Arc<LazyLock<Router, Box<dyn FnOnce() -> Router + Send>>>;

/// Composed daemon with its HTTP routers and background workers.
#[derive(Clone)]
pub struct Daemon {
    /// Router for the network, with its middleware.
    pub router: GuardedRouter<Gate>,
    /// Router for the private socket, without the network middleware.
    pub local_router: LocalRouter,
    pub workers: Workers,
    pub(super) services: Services,
    pub(super) describe: Arc<DescribeApi>,
    pub(super) shutdown: Vec<ShutdownStep>,
}

impl std::fmt::Debug for Daemon {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Daemon").field("workers", &self.workers).finish_non_exhaustive()
    }
}

impl Daemon {
    /// Runs the shutdown steps, one phase after the other. Replies and messages that take longer than `grace` are
    /// interrupted.
    pub async fn drain(&self, grace: Duration) {
        for phase in ShutdownPhase::ALL {
            let steps = self.shutdown.iter().filter(|step| step.phase() == phase);
            join_all(steps.map(|step| step.run(grace))).await;
        }
    }

    /// The OpenAPI document.
    #[must_use]
    pub fn document(&self) -> OpenApi {
        (self.describe)()
    }

    /// Starts the task that exports log records. The records belong to the process, which logs before the daemon is
    /// composed.
    pub fn export_logs(&self, context: &AppContext, telemetry: &TelemetryConfig, records: &LogRecords) {
        start_log_export(context, &self.services.settings, telemetry, records);
    }

    /// Number of turns running in this process.
    #[must_use]
    pub fn running_turns(&self) -> usize {
        self.services.engine.running_turns()
    }

    /// The registry of tools.
    #[must_use]
    pub fn tools(&self) -> &Tools {
        &self.services.tools
    }

    /// The scheduler.
    #[must_use]
    pub fn scheduler(&self) -> &Scheduler {
        &self.services.scheduler
    }

    /// The notification service.
    #[must_use]
    pub fn notify(&self) -> &Notify {
        &self.services.notify
    }

    /// Whether no API key has been created yet.
    pub async fn is_bootstrapping(&self) -> bool {
        self.services.auth.bootstrap_state().await.is_ok_and(|state| state.bootstrap_mode)
    }
}

impl DaemonServices {
    /// The chat service.
    #[must_use]
    pub fn chat(&self) -> &Chat {
        &self.services.chat
    }

    /// The notification service.
    #[must_use]
    pub fn notify(&self) -> &Notify {
        &self.services.notify
    }
}
