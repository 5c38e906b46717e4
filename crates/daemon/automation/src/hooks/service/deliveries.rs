//! Looking at deliveries and executions, and trying deliveries again.

use std::collections::BTreeMap;

use agentd_base::{Page, Timestamp, trace};
use agentd_store::{EventId, Recorder, Tx};
use serde_json::{Value, json};

use super::Hooks;
use crate::hooks::error::HookError;
use crate::hooks::model::{
    Action, Delivery, DeliveryStatus, Execution, ExecutionStatus, HookDeliveryId, HookId, TEST_EVENT, event_body,
};
use crate::hooks::store::deliveries::NewWork;
use crate::hooks::store::{self, deliveries, executions, queue};

/// A transaction of a change of many.
const BATCH: u32 = 500;

/// How many deliveries are in each state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeliveryCounts {
    pub pending: u64,
    pub processing: u64,
    pub success: u64,
    pub failed: u64,
    pub dead_letter: u64,
}

impl DeliveryCounts {
    fn of(counted: Vec<(DeliveryStatus, u64)>) -> Self {
        let mut counts = Self::default();
        for (status, count) in counted {
            *match status {
                DeliveryStatus::Pending => &mut counts.pending,
                DeliveryStatus::Processing => &mut counts.processing,
                DeliveryStatus::Success => &mut counts.success,
                DeliveryStatus::Failed => &mut counts.failed,
                DeliveryStatus::DeadLetter => &mut counts.dead_letter,
            } = count;
        }
        counts
    }
}

impl Hooks {
    /// What a hook did about events, the newest first, and how much there is.
    ///
    /// # Errors
    /// `NotFound`, or the database is away.
    pub async fn executions(
        &self,
        id: &HookId,
        status: Option<ExecutionStatus>,
        since: Option<Timestamp>,
        page: Page,
    ) -> Result<(Vec<Execution>, u64), HookError> {
        let mut read = self.db().read().await?;
        store::find_hook(&mut read, id).await?.ok_or_else(|| HookError::not_found(id.as_str()))?;
        Ok(executions::list_executions(&mut read, id, status, since, page).await?)
    }

    /// A hook's deliveries, the newest first, how many match, and how many are in each state.
    ///
    /// # Errors
    /// `NotFound`, or the database is away.
    pub async fn deliveries(
        &self,
        id: &HookId,
        status: Option<DeliveryStatus>,
        page: Page,
    ) -> Result<(Vec<Delivery>, u64, DeliveryCounts), HookError> {
        let mut read = self.db().read().await?;
        store::find_hook(&mut read, id).await?.ok_or_else(|| HookError::not_found(id.as_str()))?;
        let (found, total) = deliveries::list_deliveries(&mut read, Some(id), status, page).await?;
        let counts = DeliveryCounts::of(deliveries::count_by_status(&mut read, Some(id)).await?);
        Ok((found, total, counts))
    }

    /// One delivery, with the event that it sends.
    ///
    /// # Errors
    /// `NoSuchDelivery`, or the database is away.
    pub async fn delivery(&self, hook: &HookId, id: &HookDeliveryId) -> Result<(Delivery, Value), HookError> {
        let found = deliveries::find_payload(&mut self.db().read().await?, hook, id).await?;
        let missing = || HookError::NoSuchDelivery { id: id.as_str().chars().take(80).collect() };
        let (delivery, payload) = found.ok_or_else(missing)?;
        Ok((delivery, serde_json::from_str(&payload).unwrap_or(Value::String(payload))))
    }

    /// Dead letters of every hook, the newest first, and how many there are.
    ///
    /// # Errors
    /// The database is away.
    pub async fn dead_letters(&self, hook: Option<&HookId>, page: Page) -> Result<(Vec<Delivery>, u64), HookError> {
        let mut read = self.db().read().await?;
        Ok(deliveries::list_deliveries(&mut read, hook, Some(DeliveryStatus::DeadLetter), page).await?)
    }

    /// Number of dead letters of each hook that has some.
    ///
    /// # Errors
    /// The database is away.
    pub async fn dead_letter_counts(&self) -> Result<BTreeMap<String, u64>, HookError> {
        let counts = deliveries::count_dead_letters(&mut self.db().read().await?).await?;
        Ok(counts.into_iter().map(|(hook, count)| (hook.to_string(), count)).collect())
    }

    /// How many deliveries of all hooks are in each state.
    ///
    /// # Errors
    /// The database is away.
    pub async fn queue_stats(&self) -> Result<DeliveryCounts, HookError> {
        Ok(DeliveryCounts::of(deliveries::count_by_status(&mut self.db().read().await?, None).await?))
    }

    /// Queues an event `test.notification` for the hook's URL.
    ///
    /// # Errors
    /// `NotFound`, `NotHttp`, or the database is away.
    pub async fn test_delivery(&self, id: HookId, recorder: Recorder<Delivery>) -> Result<Delivery, HookError> {
        let here = self.clone();
        let (event, delivery) = (EventId::generate(&self.context().ids), HookDeliveryId::generate(&self.context().ids));
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
                trace: trace::current(),
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

    /// Sends a delivery that failed or was given up again, with its attempts allowed anew.
    ///
    /// # Errors
    /// `NotFound`, `NoSuchDelivery`, `NotFailed` in any other state, `Deleted` where the delivery outlived its hook, or
    /// the database is away.
    pub async fn retry(
        &self,
        hook: HookId,
        id: HookDeliveryId,
        recorder: Recorder<Delivery>,
    ) -> Result<Delivery, HookError> {
        let retry = async move |tx: &mut Tx| {
            let missing = || HookError::NoSuchDelivery { id: id.as_str().chars().take(80).collect() };
            let found = deliveries::find_delivery(tx, &hook, &id).await?;
            if store::find_hook(tx, &hook).await?.is_none() {
                return Err(found.map_or_else(|| HookError::not_found(hook.as_str()), |_| HookError::Deleted));
            }
            let found = found.ok_or_else(missing)?;
            if !deliveries::retry_delivery(tx, &found).await? {
                return Err(HookError::NotFailed { status: found.status.as_str() });
            }
            queue::put_first(tx, &hook, &id).await?;
            queue::hurry_circuit(tx, &hook).await?;
            let retried = deliveries::find_delivery(tx, &hook, &id).await?.ok_or_else(missing)?;
            recorder.record(tx, &retried).await?;
            Ok(retried)
        };
        let retried = self.db().write(retry).await?;
        self.wake_queues();
        Ok(retried)
    }

    /// Sends every dead letter again, of one hook or of all that are there; answers how many.
    ///
    /// # Errors
    /// The database is away; what was retried until then is.
    pub async fn retry_dead_letters(&self, hook: Option<HookId>, recorder: Recorder<u64>) -> Result<u64, HookError> {
        let mut retried = 0;
        loop {
            let (hook, recorder) = (hook.clone(), recorder.clone());
            let batch = async move |tx: &mut Tx| {
                let mut hooks = deliveries::retry_dead_letters(tx, hook.as_ref(), BATCH).await?;
                let count = u64::try_from(hooks.len()).unwrap_or(u64::MAX);
                hooks.sort();
                hooks.dedup();
                for hook in &hooks {
                    queue::hurry_circuit(tx, hook).await?;
                }
                if count < u64::from(BATCH) {
                    recorder.record(tx, &(retried + count)).await?;
                }
                Ok::<_, HookError>(count)
            };
            let count = self.db().write(batch).await?;
            self.wake_queues();
            retried += count;
            if count < u64::from(BATCH) {
                return Ok(retried);
            }
        }
    }

    /// Forgets every dead letter, of one hook or of all; answers how many.
    ///
    /// # Errors
    /// The database is away; what was forgotten until then is.
    pub async fn delete_dead_letters(&self, hook: Option<HookId>) -> Result<u64, HookError> {
        let mut deleted = 0;
        loop {
            let hook = hook.clone();
            let batch = async move |tx: &mut Tx| deliveries::delete_dead_letters(tx, hook.as_ref(), BATCH).await;
            let count = self.db().write(batch).await?;
            deleted += count;
            if count < u64::from(BATCH) {
                return Ok(deleted);
            }
        }
    }
}
