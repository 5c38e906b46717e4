//! Worker that closes an idle browser and removes leftovers of killed daemons.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agentd_base::Timestamp;
use agentd_core::runtime::{NextDue, Worker, WorkerError, WorkerReport};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::Notify;

use super::service::Browser;

const INTERVAL: Duration = Duration::from_secs(60);

pub(super) struct CloseIdle {
    browser: Browser,
    has_cleaned_up: AtomicBool,
}

impl CloseIdle {
    pub(super) fn new(browser: Browser) -> Self {
        Self { browser, has_cleaned_up: AtomicBool::new(false) }
    }
}

impl Worker for CloseIdle {
    fn name(&self) -> &'static str {
        "browser.close_idle"
    }

    fn description(&self) -> &'static str {
        "Closes an idle browser."
    }

    fn interval(&self) -> Duration {
        INTERVAL
    }

    fn wake(&self) -> Option<Arc<Notify>> {
        Some(self.browser.started())
    }

    fn idle_until(&self) -> Option<Timestamp> {
        Some(self.browser.idle_at().unwrap_or(NextDue::NEVER))
    }

    fn run_once(&self) -> BoxFuture<'_, Result<WorkerReport, WorkerError>> {
        async move {
            if !self.has_cleaned_up.swap(true, Ordering::Relaxed) {
                tokio::task::spawn_blocking(|| agentd_browser::remove_abandoned(&std::env::temp_dir())).await?;
            }
            let is_idle = self.browser.idle_at().is_some_and(|at| at <= self.browser.now());
            if is_idle {
                self.browser.close().await;
            }
            Ok(WorkerReport::done(usize::from(is_idle)))
        }
        .boxed()
    }
}
