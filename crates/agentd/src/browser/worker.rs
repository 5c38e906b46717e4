//! Closes a browser that nobody uses.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::Timestamp;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::Notify;

use super::service::Browser;
use crate::runtime::{Worker, WorkerError, WorkerReport};

const INTERVAL: Duration = Duration::from_secs(60);
/// Looked at again by then, whatever happens.
const NEVER: Duration = Duration::from_secs(86_400);

pub(super) struct CloseIdle(pub(super) Browser);

impl Worker for CloseIdle {
    fn name(&self) -> &'static str {
        "browser.close_idle"
    }

    fn interval(&self) -> Duration {
        INTERVAL
    }

    fn wake(&self) -> Option<Arc<Notify>> {
        Some(self.0.started())
    }

    fn idle_until(&self) -> Option<Timestamp> {
        Some(self.0.idle_at().unwrap_or_else(|| self.0.now() + NEVER))
    }

    fn run_once(&self) -> BoxFuture<'_, Result<WorkerReport, WorkerError>> {
        async move {
            let is_idle = self.0.idle_at().is_some_and(|at| at <= self.0.now());
            if is_idle {
                self.0.close().await;
            }
            Ok(WorkerReport::done(usize::from(is_idle)))
        }
        .boxed()
    }
}
