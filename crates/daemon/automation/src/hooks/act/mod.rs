//! What hooks do: send the event somewhere, run code, or something that the daemon knows how to do.

mod attempt;
mod builtin;
mod http;
mod python;

use std::error::Error;
use std::time::Duration;

use agentd_core::lease;
use agentd_store::{Durability, StoreError, Tx};

use super::error::{HookError, shortened};
use super::limits::HookPermit;
use super::model::{Action, EXECUTION_LEASE, ExecutionStatus, QUICK, inline_delay};
use super::store;
use super::store::executions::ExecutionResult;
use attempt::{Attempt, Failure, read_event, record};

pub(super) use self::http::send;
pub(super) use attempt::Work;

/// Who waits longer between two attempts leaves its queue to others meanwhile.
const LONGEST_HELD: Duration = Duration::from_secs(10);

impl Work<'_> {
    /// Does what an execution is about, `attempts` times at most, and records what came of it. The
    /// lease is kept meanwhile; whoever loses it stops, and records nothing.
    pub(super) async fn execute(&self, attempts: u32, permit: &mut HookPermit) {
        let work = self.attempts(attempts, permit);
        match lease::hold(self.hooks.db(), &self.claim.held, EXECUTION_LEASE, work).await {
            Ok(()) => {}
            Err(HookError::Store(StoreError::LostLease { .. })) => {
                tracing::warn!(id = self.claim.id, "another daemon has taken over what a hook does here");
            }
            Err(error) => tracing::warn!(
                id = self.claim.id,
                error = &error as &dyn Error,
                "what a hook did could not be recorded; it will be done again"
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
            if failure.is_passing && attempt < attempts {
                let delay = inline_delay(attempt);
                if delay > LONGEST_HELD {
                    permit.leave_queue();
                } else if delay > QUICK {
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
                error: Some(shortened(failure.message)),
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
                        is_passing: problem.disable.is_none(),
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
                self.do_builtin(builtin, &event, attempt, permit).await
            }
            Action::Broken(problem) => Ok(Attempt::Failed(Failure::for_good(problem.clone()))),
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
