//! Test runs of a hook with a synthetic event.

use std::time::Duration;

use agentd_base::{Timestamp, trace};
use agentd_core::events;
use agentd_store::{EventId, Recorder, Tx};
use serde_json::{Map, Value};
use tracing::Instrument as _;

use super::act::Work;
use super::error::HookError;
use super::limits::HookPermit;
use super::model::{Action, BuiltinAction, EXECUTION_LEASE, Execution, ExecutionId, HookId, event_body};
use super::service::Hooks;
use super::store::deliveries::NewWork;
use super::store::executions;
use super::store::queue::{self, QueueKind};

/// Maximum time a request waits for a test that starts an agent; the execution may still be running then.
const MAX_START_WAIT: Duration = Duration::from_secs(20);
/// Maximum time a request waits for any other test. Exceeds the longest timeout of an action, that of code.
const MAX_TEST_WAIT: Duration = Duration::from_secs(400);

/// Builds an event from the example values of its type.
fn synthetic_event(id: &EventId, event_type: &str, now: Timestamp) -> String {
    let fields = events::find(event_type).map(|known| known.data).unwrap_or_default();
    let data: Map<String, Value> = fields
        .iter()
        .map(|field| (field.name.to_owned(), serde_json::from_str(field.example).unwrap_or_default()))
        .collect();
    event_body(id.as_str(), event_type, now, &Value::Object(data)).to_string()
}

/// Runs a hook once, immediately, with a synthetic event. Ignores its filter and whether it is enabled.
///
/// # Errors
/// `NotFound`, or the database is unavailable. A failure of the hook itself is part of the returned execution.
pub(super) async fn test_hook(
    hooks: &Hooks,
    id: HookId,
    recorder: Recorder<Execution>,
) -> Result<Execution, HookError> {
    let here = hooks.clone();
    let (event, execution) = (EventId::generate(&hooks.context().ids), ExecutionId::generate(&hooks.context().ids));
    let begun = execution.clone();
    let begin = async move |tx: &mut Tx| {
        let cache = here.cache(tx).await?;
        let hook = cache.find(&id).cloned().ok_or_else(|| HookError::not_found(id.as_str()))?;
        let payload = synthetic_event(&event, &hook.hook.event_type, tx.clock().now());
        let work = NewWork {
            hook_id: &id,
            event_id: event.as_str(),
            event_type: &hook.hook.event_type,
            payload: &payload,
            depth: 0,
            trace: trace::current(),
            rejected: None,
        };
        executions::insert_execution(tx, &begun, &work).await?;
        let owner = &here.context().instance;
        let claim = queue::claim_one(tx, QueueKind::Executions, begun.as_str(), owner, EXECUTION_LEASE).await?;
        let claim = claim.ok_or_else(|| HookError::not_found(id.as_str()))?;
        Ok::<_, HookError>((hook, claim))
    };
    let (hook, claim) = hooks.db().write(begin).await?;
    let here = hooks.clone();
    let limit = match &hook.hook.action {
        Action::Builtin(BuiltinAction::StartAgent { .. }) => MAX_START_WAIT,
        _ => MAX_TEST_WAIT,
    };
    // Runs in its own task, so that a client that disconnects does not cancel it.
    let trace = claim.trace;
    let work = async move { Work::new(&here, &hook, &claim).execute(1, &mut HookPermit::default()).await };
    let done = tokio::spawn(trace::with_context(trace, work).in_current_span());
    if let Ok(Err(panic)) = tokio::time::timeout(limit, done).await {
        tracing::error!(%panic, "hook test run panicked");
    }
    let read = async move |tx: &mut Tx| {
        let done = executions::find_execution(tx, &execution).await?;
        let done = done.ok_or_else(|| HookError::not_found(execution.as_str()))?;
        recorder.record(tx, &done).await?;
        Ok(done)
    };
    hooks.db().write(read).await
}
