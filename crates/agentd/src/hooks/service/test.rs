//! Trying a hook with an event that did not happen.

use std::time::Duration;

use agentd_base::Timestamp;
use agentd_store::{EventId, Recorder, Tx};
use serde_json::{Map, Value, json};

use super::Hooks;
use crate::events;
use crate::hooks::error::HookError;
use crate::hooks::limits::Permit;
use crate::hooks::model::{
    Action, BuiltinAction, Delivery, EXECUTION_LEASE, Execution, ExecutionId, HookDeliveryId, HookId, TEST_EVENT,
    event_body,
};
use crate::hooks::store::deliveries::{self, NewWork};
use crate::hooks::store::executions;
use crate::hooks::store::queue::{self, QueueKind};

/// A test that waits for a place at its agent's provider is answered after this as it is then. What a hook does
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

impl Hooks {
    /// Does what the hook does, once and at once, about an event made up for it; whatever its filter, and also
    /// when it is switched off.
    ///
    /// # Errors
    /// `NotFound`, or the database is away. What the hook fails with is in the answer.
    pub async fn test(&self, id: HookId, recorder: Recorder<Execution>) -> Result<Execution, HookError> {
        let here = self.clone();
        let (event, execution) = (EventId::generate(&self.ground().ids), ExecutionId::generate(&self.ground().ids));
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
                given_up: None,
            };
            executions::insert_execution(tx, &begun, &work).await?;
            let owner = &here.ground().instance;
            let claim = queue::claim_one(tx, QueueKind::Executions, begun.as_str(), owner, EXECUTION_LEASE).await?;
            let claim = claim.ok_or_else(|| HookError::not_found(id.as_str()))?;
            Ok::<_, HookError>((hook, claim))
        };
        let (hook, claim) = self.db().write(begin).await?;
        let here = self.clone();
        let limit = match &hook.hook.action {
            Action::Builtin(BuiltinAction::StartAgent { .. }) => START_LIMIT,
            _ => OTHER_LIMIT,
        };
        // In a task of its own: a client that goes away does not leave it half done.
        let done = tokio::spawn(async move { here.execute(&hook, &claim, 1, &mut Permit::default()).await });
        if let Ok(Err(panic)) = tokio::time::timeout(limit, done).await {
            tracing::error!(%panic, "the test of a hook went wrong");
        }
        let read = async move |tx: &mut Tx| {
            let done = executions::find_execution(tx, &execution).await?;
            let done = done.ok_or_else(|| HookError::not_found(execution.as_str()))?;
            recorder.record(tx, &done).await?;
            Ok(done)
        };
        self.db().write(read).await
    }

    /// Queues an event `test.notification` for the hook's URL.
    ///
    /// # Errors
    /// `NotFound`, `NotHttp`, or the database is away.
    pub async fn test_delivery(&self, id: HookId, recorder: Recorder<Delivery>) -> Result<Delivery, HookError> {
        let here = self.clone();
        let (event, delivery) = (EventId::generate(&self.ground().ids), HookDeliveryId::generate(&self.ground().ids));
        let queue_it = async move |tx: &mut Tx| {
            let cache = here.cache(tx).await?;
            let hook = cache.find(&id).ok_or_else(|| HookError::not_found(id.as_str()))?;
            if !matches!(hook.hook.action, Action::Http(_)) {
                return Err(HookError::NotHttp);
            }
            let data = json!({"hook_id": id, "message": "This is a test of the hook's delivery."});
            let payload = event_body(event.as_str(), TEST_EVENT, tx.clock().now(), &data).to_string();
            let work = NewWork {
                hook_id: &id,
                event_id: event.as_str(),
                event_type: TEST_EVENT,
                payload: &payload,
                depth: 0,
                given_up: None,
            };
            deliveries::insert_deliveries(tx, &[(delivery.clone(), work)]).await?;
            queue::put_first(tx, &id, &delivery).await?;
            queue::hurry_circuit(tx, &id).await?;
            let queued = deliveries::find_delivery(tx, &id, &delivery).await?;
            let queued = queued.ok_or_else(|| HookError::not_found(id.as_str()))?;
            recorder.record(tx, &queued).await?;
            Ok(queued)
        };
        let queued = self.db().write(queue_it).await?;
        self.wake_queues();
        Ok(queued)
    }
}
