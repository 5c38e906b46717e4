//! Actions of hooks: sending an event over HTTP, running code, and built-in actions.

mod attempt;
mod builtin;
mod http;
mod python;

use std::error::Error;
use std::time::Duration;

use agentd_core::lease;
use agentd_store::{Durability, StoreError, Tx};

use super::error::{HookError, truncate_error};
use super::limits::HookPermit;
use super::model::{Action, EXECUTION_LEASE, ExecutionStatus, SLOW_THRESHOLD, inline_delay};
use super::store;
use super::store::executions::ExecutionResult;
use attempt::{Attempt, Failure, read_event, record};

pub(super) use self::http::send;
pub(super) use attempt::Work;

/// Retry delay above which an execution releases its queue permit while it waits.
const MAX_QUEUED_DELAY: Duration = Duration::from_secs(10);

impl Work<'_> {
    /// Runs an execution with up to `attempts` attempts and records the outcome. The lease is renewed meanwhile; if it
    /// is lost, the work stops without recording anything.
    pub(super) async fn execute(&self, attempts: u32, permit: &mut HookPermit) {
        let work = self.attempts(attempts, permit);
        match lease::run_until_lost(self.hooks.db(), &self.claim.held, EXECUTION_LEASE, work).await {
            Ok(()) => {}
            Err(HookError::Store(StoreError::LostLease { .. })) => {
                tracing::warn!(id = self.claim.id, "hook execution lease lost to another daemon");
            }
            Err(error) => tracing::warn!(
                id = self.claim.id,
                error = &error as &dyn Error,
                "failed to record hook execution; it will run again"
            ),
        }
    }

    async fn attempts(&self, attempts: u32, permit: &mut HookPermit) -> Result<(), HookError> {
        let mut attempt = 1;
        loop {
            let failure = match self.attempt(attempt, permit).await? {
                Attempt::Recorded => return Ok(()),
                Attempt::Done(output) => {
                    return self.record(self.success(attempt, output), None).await;
                }
                Attempt::Failed(failure) => failure,
            };
            if failure.is_transient && attempt < attempts {
                let delay = inline_delay(attempt);
                if delay > MAX_QUEUED_DELAY {
                    permit.leave_queue();
                } else if delay > SLOW_THRESHOLD {
                    permit.count_as_slow();
                }
                tokio::time::sleep(delay).await;
                attempt += 1;
                continue;
            }
            let result = ExecutionResult {
                status: failure.status,
                attempts: attempt,
                output: failure.output,
                error: Some(truncate_error(failure.message)),
                caused_id: None,
                duration_ms: self.duration_ms(),
            };
            return self.record(result, failure.disable).await;
        }
    }

    async fn attempt(&self, attempt: u32, permit: &mut HookPermit) -> Result<Attempt, HookError> {
        match &self.hook.hook.action {
            Action::Http(http) => {
                let sent = send(self.hooks, self.hook, self.claim, http, || permit.count_as_slow()).await;
                let output = serde_json::json!({"status": sent.status});
                Ok(match sent.problem {
                    None => Attempt::Done(output),
                    Some(problem) => Attempt::Failed(Failure {
                        status: if problem.is_timeout { ExecutionStatus::Timeout } else { ExecutionStatus::Error },
                        message: problem.message,
                        output: Some(output),
                        is_transient: problem.disable.is_none(),
                        disable: problem.disable,
                    }),
                })
            }
            Action::Python(python) => Ok(self.run_python(python).await),
            Action::Builtin(builtin) => {
                let event = match read_event(self.claim) {
                    Ok(event) => event,
                    Err(failure) => return Ok(Attempt::Failed(failure)),
                };
                self.run_builtin(builtin, &event, attempt, permit).await
            }
            Action::Broken(problem) => Ok(Attempt::Failed(Failure::permanent(problem.clone()))),
        }
    }

    async fn record(&self, result: ExecutionResult, disable: Option<&'static str>) -> Result<(), HookError> {
        let claim = self.claim.clone();
        let record = async move |tx: &mut Tx| {
            record(tx, &claim, &result).await?;
            match disable {
                Some(reason) => store::disable_hook(tx, &claim.hook_id, reason).await,
                None => Ok(()),
            }
        };
        Ok(self.hooks.db().write_locking(Durability::Full, record).await?)
    }
}
