//! An attempt of an execution: its outcome, and recording it.

use agentd_store::{StoreError, Tx};
use serde_json::Value;
use tokio::time::Instant;

use crate::hooks::cache::LoadedHook;
use crate::hooks::model::ExecutionStatus;
use crate::hooks::service::Hooks;
use crate::hooks::store::executions::{self, ExecutionResult};
use crate::hooks::store::figures::{self, Figures};
use crate::hooks::store::queue::Claim;

/// What came of one attempt.
pub(super) enum Attempt {
    /// It was done, and that was recorded together with it.
    Recorded,
    Done(Value),
    Failed(Failure),
}

/// Why an attempt came to nothing.
pub(super) struct Failure {
    pub(super) status: ExecutionStatus,
    pub(super) message: String,
    pub(super) output: Option<Value>,
    /// Whether another attempt may do better.
    pub(super) is_passing: bool,
    /// Why the hook is switched off.
    pub(super) disable: Option<&'static str>,
}

impl Failure {
    pub(super) fn for_good(message: impl Into<String>) -> Self {
        let message = message.into();
        Self { status: ExecutionStatus::Error, message, output: None, is_passing: false, disable: None }
    }

    pub(super) fn passing(message: impl Into<String>) -> Self {
        Self { is_passing: true, ..Self::for_good(message) }
    }
}

/// The event that a claim is about.
pub(super) fn read_event(claim: &Claim) -> Result<Value, Failure> {
    serde_json::from_str(&claim.payload)
        .map_err(|error| Failure::for_good(format!("the event cannot be read, so nothing was done about it: {error}")))
}

/// An execution that is claimed here.
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

    /// Time since the work began.
    pub(super) fn duration_ms(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// Ends a claimed execution, in the transaction of whatever it did.
pub(super) async fn record(tx: &mut Tx, claim: &Claim, result: &ExecutionResult) -> Result<(), StoreError> {
    executions::update_result(tx, claim, result).await?;
    let figures = Figures::of(result.status == ExecutionStatus::Success, result.duration_ms);
    figures::add_figures(tx, &claim.hook_id, &claim.event_type, figures).await
}
