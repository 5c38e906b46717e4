//! What hooks do: send the event somewhere, run code, or something that the daemon knows how to do.

mod builtin;
mod http;
mod python;

use std::error::Error;
use std::time::Duration;

use agentd_core::lease;
use agentd_store::{StoreError, Tx};
use serde_json::Value;
use tokio::time::Instant;

use super::cache::LoadedHook;
use super::error::{HookError, shortened};
use super::limits::HookPermit;
use super::model::{Action, EXECUTION_LEASE, ExecutionStatus, QUICK, inline_delay};
use super::service::Hooks;
use super::store;
use super::store::executions::{self, ExecutionResult};
use super::store::figures::{self, Figures};
use super::store::queue::Claim;

/// Who waits longer between two attempts leaves its queue to others meanwhile.
const LONGEST_HELD: Duration = Duration::from_secs(10);

/// What came of one attempt.
enum Attempt {
    /// It was done, and that was recorded together with it.
    Recorded,
    Done(Value),
    Failed(Failure),
}

/// Why an attempt came to nothing.
struct Failure {
    status: ExecutionStatus,
    message: String,
    output: Option<Value>,
    /// Whether another attempt may do better.
    is_passing: bool,
    /// Why the hook is switched off.
    disable: Option<&'static str>,
}

impl Failure {
    fn for_good(message: impl Into<String>) -> Self {
        let message = message.into();
        Self { status: ExecutionStatus::Error, message, output: None, is_passing: false, disable: None }
    }

    fn passing(message: impl Into<String>) -> Self {
        Self { is_passing: true, ..Self::for_good(message) }
    }
}

/// The event that a claim is about.
fn read_event(claim: &Claim) -> Result<Value, Failure> {
    serde_json::from_str(&claim.payload)
        .map_err(|error| Failure::for_good(format!("the event cannot be read, so nothing was done about it: {error}")))
}

pub(super) fn milliseconds(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// A delivery or execution that is claimed here.
#[derive(Clone, Copy)]
pub(super) struct Work<'a> {
    hooks: &'a Hooks,
    hook: &'a LoadedHook,
    claim: &'a Claim,
    begun: Instant,
}

impl<'a> Work<'a> {
    pub(super) fn new(hooks: &'a Hooks, hook: &'a LoadedHook, claim: &'a Claim) -> Self {
        Self { hooks, hook, claim, begun: Instant::now() }
    }

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
                duration_ms: milliseconds(self.begun),
            };
            return self.record(result, failure.disable).await;
        }
    }

    fn success(&self, attempts: u32, output: Value) -> ExecutionResult {
        ExecutionResult {
            status: ExecutionStatus::Success,
            attempts,
            output: Some(output),
            error: None,
            caused_id: None,
            duration_ms: milliseconds(self.begun),
        }
    }

    async fn attempt(&self, attempt: u32, permit: &mut HookPermit) -> Result<Attempt, HookError> {
        match &self.hook.hook.action {
            Action::Http(http) => {
                let sent = self.send(http, || permit.count_as_slow()).await;
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
        Ok(self.hooks.db().write_locking(agentd_store::Durability::Full, record).await?)
    }
}

/// Ends a claimed execution, in the transaction of whatever it did.
async fn record(tx: &mut Tx, claim: &Claim, result: &ExecutionResult) -> Result<(), StoreError> {
    executions::update_result(tx, claim, result).await?;
    let figures = Figures::of(result.status == ExecutionStatus::Success, result.duration_ms);
    figures::add_figures(tx, &claim.hook_id, &claim.event_type, figures).await
}
