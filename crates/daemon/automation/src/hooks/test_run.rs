//! Trying a hook with an event that did not happen.

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

/// A test that waits for its agent's provider is answered after this as it is then. What a hook does
/// else has limits of its own, the longest of them that of code.
const START_LIMIT: Duration = Duration::from_secs(20);
const OTHER_LIMIT: Duration = Duration::from_secs(400);

/// An event as it could happen.
fn synthetic(id: &EventId, event_type: &str, now: Timestamp) -> String {
    let fields = events::find(event_type).map(|known| known.data).unwrap_or_default();
    let data: Map<String, Value> = fields
        .iter()
        .map(|field| (field.name.to_owned(), serde_json::from_str(field.example).unwrap_or_default()))
        .collect();
    event_body(id.as_str(), event_type, now, &Value::Object(data)).to_string()
}

/// Does what the hook does, once and at once, about an event made up for it; whatever its filter, and also
/// when it is switched off.
///
/// # Errors
/// `NotFound`, or the database is away. What the hook fails with is in the answer.
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
        let payload = synthetic(&event, &hook.hook.event_type, tx.clock().now());
        let work = NewWork {
            hook_id: &id,
            event_id: event.as_str(),
            event_type: &hook.hook.event_type,
            payload: &payload,
            depth: 0,
            trace: trace::current(),
            given_up: None,
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
        Action::Builtin(BuiltinAction::StartAgent { .. }) => START_LIMIT,
        _ => OTHER_LIMIT,
    };
    // In a task of its own: a client that goes away does not leave it half done.
    let trace = claim.trace;
    let work = async move { Work::new(&here, &hook, &claim).execute(1, &mut HookPermit::default()).await };
    let done = tokio::spawn(trace::within(trace, work).in_current_span());
    if let Ok(Err(panic)) = tokio::time::timeout(limit, done).await {
        tracing::error!(%panic, "the test of a hook went wrong");
    }
    let read = async move |tx: &mut Tx| {
        let done = executions::find_execution(tx, &execution).await?;
        let done = done.ok_or_else(|| HookError::not_found(execution.as_str()))?;
        recorder.record(tx, &done).await?;
        Ok(done)
    };
    hooks.db().write(read).await
}
