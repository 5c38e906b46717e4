//! Tests the sandbox once the daemon is ready, so that the first run does not wait for it. Removes partial files of a
//! killed daemon from workspaces.

use std::time::Duration;

use agentd_base::Timestamp;
use agentd_core::runtime::{NextDue, Worker, WorkerError, WorkerReport};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::runner::CodeRunner;

const INTERVAL: Duration = Duration::from_secs(10);

/// Tests the isolation levels if the settings changed.
#[derive(Debug)]
pub(super) struct CheckSandbox(pub(super) CodeRunner);

impl Worker for CheckSandbox {
    fn name(&self) -> &'static str {
        "sandbox.check"
    }

    fn description(&self) -> &'static str {
        "Checks whether code can run in the sandbox."
    }

    fn interval(&self) -> Duration {
        INTERVAL
    }

    fn idle_until(&self) -> Option<Timestamp> {
        // Woken when settings are written.
        Some(NextDue::NEVER)
    }

    fn run_once(&self) -> BoxFuture<'_, Result<WorkerReport, WorkerError>> {
        async move {
            self.0.test_isolation().await;
            self.0.sweep_workspaces().await;
            Ok(WorkerReport::done(1))
        }
        .boxed()
    }
}
