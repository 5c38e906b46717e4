//! Attempts of an execution: outcome and recording.

use agentd_store::{StoreError, Tx};
use serde_json::Value;
use tokio::time::Instant;

use crate::hooks::cache::LoadedHook;
use crate::hooks::model::ExecutionStatus;
use crate::hooks::service::Hooks;
use crate::hooks::store::executions::{self, ExecutionResult};
use crate::hooks::store::figures::{self, Figures};
use crate::hooks::store::queue::Claim;

/// Outcome of one attempt.
pub(super) enum Attempt {
    /// The action succeeded and was recorded in the same transaction.
    Recorded,
    Done(Value),
    Failed(Failure),
}

/// Reason an attempt failed.
pub(super) struct Failure {
    pub(super) status: ExecutionStatus,
    pub(super) message: String,
    pub(super) output: Option<Value>,
    /// Whether another attempt may succeed.
    pub(super) is_transient: bool,
    /// Reason to disable the hook, if it must be disabled.
    pub(super) disable: Option<&'static str>,
}

impl Failure {
    pub(super) fn permanent(message: impl Into<String>) -> Self {
        let message = message.into();
        Self { status: ExecutionStatus::Error, message, output: None, is_transient: false, disable: None }
    }

    pub(super) fn transient(message: impl Into<String>) -> Self {
        Self { is_transient: true, ..Self::permanent(message) }
    }
}

/// Parses the event of a claim.
pub(super) fn read_event(claim: &Claim) -> Result<Value, Failure> {
    serde_json::from_str(&claim.payload)
        .map_err(|error| Failure::permanent(format!("the event could not be parsed: {error}")))
}

/// A claimed execution.
#[derive(Clone, Copy)]
pub(in crate::hooks) struct Work<'a> {
    pub(super) hooks: &'a Hooks,
    pub(super) hook: &'a LoadedHook,
    pub(super) claim: &'a Claim,
    begun: Instant,
}

impl<'a> Work<'a> {
    pub(in crate::hooks) fn new(hooks: &'a Hooks, hook: &'a LoadedHook, claim: &'a Claim) -> Self {
        Self { hooks, hook, claim, begun: Instant::now() }
    }

    pub(super) fn success(&self, attempts: u32, output: Value) -> ExecutionResult {
        ExecutionResult {
            status: ExecutionStatus::Success,
            attempts,
            output: Some(output),
            error: None,
            caused_id: None,
            duration_ms: self.duration_ms(),
        }
    }

    /// Time since the work started.
    pub(super) fn duration_ms(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// Completes a claimed execution, in the transaction of its effect.
pub(super) async fn record(tx: &mut Tx, claim: &Claim, result: &ExecutionResult) -> Result<(), StoreError> {
    executions::update_result(tx, claim, result).await?;
    let figures = Figures::of(result.status == ExecutionStatus::Success, result.duration_ms);
    figures::add_figures(tx, &claim.hook_id, &claim.event_type, figures).await
}
