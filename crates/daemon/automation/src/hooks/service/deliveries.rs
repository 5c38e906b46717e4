//! Listing deliveries and executions, and retrying deliveries.

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

/// Maximum number of rows changed in one transaction.
const BATCH_SIZE: u32 = 500;

/// Number of deliveries in each state.
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
    /// Returns a page of a hook's executions, newest first, and the total number of matches.
    ///
    /// # Errors
    /// `NotFound`, or the database is unavailable.
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

    /// Returns a page of a hook's deliveries, newest first, the total number of matches, and the counts by state.
    ///
    /// # Errors
    /// `NotFound`, or the database is unavailable.
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

    /// Returns a delivery and its event payload.
    ///
    /// # Errors
    /// `NoSuchDelivery`, or the database is unavailable.
    pub async fn delivery(&self, hook: &HookId, id: &HookDeliveryId) -> Result<(Delivery, Value), HookError> {
        let found = deliveries::find_payload(&mut self.db().read().await?, hook, id).await?;
        let missing = || HookError::NoSuchDelivery { id: id.as_str().chars().take(80).collect() };
        let (delivery, payload) = found.ok_or_else(missing)?;
        Ok((delivery, serde_json::from_str(&payload).unwrap_or(Value::String(payload))))
    }

    /// Returns a page of dead letters, newest first, and their total number. `None` selects all hooks.
    ///
    /// # Errors
    /// The database is unavailable.
    pub async fn dead_letters(&self, hook: Option<&HookId>, page: Page) -> Result<(Vec<Delivery>, u64), HookError> {
        let mut read = self.db().read().await?;
        Ok(deliveries::list_deliveries(&mut read, hook, Some(DeliveryStatus::DeadLetter), page).await?)
    }

    /// Returns the number of dead letters by hook id. Hooks without dead letters are omitted.
    ///
    /// # Errors
    /// The database is unavailable.
    pub async fn dead_letter_counts(&self) -> Result<BTreeMap<String, u64>, HookError> {
        let counts = deliveries::count_dead_letters(&mut self.db().read().await?).await?;
        Ok(counts.into_iter().map(|(hook, count)| (hook.to_string(), count)).collect())
    }

    /// Returns the number of deliveries of all hooks in each state.
    ///
    /// # Errors
    /// The database is unavailable.
    pub async fn queue_stats(&self) -> Result<DeliveryCounts, HookError> {
        Ok(DeliveryCounts::of(deliveries::count_by_status(&mut self.db().read().await?, None).await?))
    }

    /// Queues a `test.notification` event for the hook's URL.
    ///
    /// # Errors
    /// `NotFound`, `NotHttp`, or the database is unavailable.
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
                rejected: None,
            };
            deliveries::insert_deliveries(tx, &[(delivery.clone(), work)]).await?;
            queue::move_to_front(tx, &id, &delivery).await?;
            queue::permit_probe(tx, &id).await?;
            let queued = deliveries::find_delivery(tx, &id, &delivery).await?;
            let queued = queued.ok_or_else(|| HookError::not_found(id.as_str()))?;
            recorder.record(tx, &queued).await?;
            Ok(queued)
        };
        let queued = self.db().write(queue_it).await?;
        self.wake_queues();
        Ok(queued)
    }

    /// Requeues a failed or dead-lettered delivery and resets its attempt count.
    ///
    /// # Errors
    /// `NotFound`, `NoSuchDelivery`, `NotFailed` in any other state, `Deleted` if its hook was deleted, or the database
    /// is unavailable.
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
            queue::move_to_front(tx, &hook, &id).await?;
            queue::permit_probe(tx, &hook).await?;
            let retried = deliveries::find_delivery(tx, &hook, &id).await?.ok_or_else(missing)?;
            recorder.record(tx, &retried).await?;
            Ok(retried)
        };
        let retried = self.db().write(retry).await?;
        self.wake_queues();
        Ok(retried)
    }

    /// Requeues all dead letters, of one hook or of all existing hooks. Returns their number.
    ///
    /// # Errors
    /// The database is unavailable; batches committed before the error remain requeued.
    pub async fn retry_dead_letters(&self, hook: Option<HookId>, recorder: Recorder<u64>) -> Result<u64, HookError> {
        let mut retried = 0;
        loop {
            let (hook, recorder) = (hook.clone(), recorder.clone());
            let batch = async move |tx: &mut Tx| {
                let mut hooks = deliveries::retry_dead_letters(tx, hook.as_ref(), BATCH_SIZE).await?;
                let count = u64::try_from(hooks.len()).unwrap_or(u64::MAX);
                hooks.sort();
                hooks.dedup();
                for hook in &hooks {
                    queue::permit_probe(tx, hook).await?;
                }
                if count < u64::from(BATCH_SIZE) {
                    recorder.record(tx, &(retried + count)).await?;
                }
                Ok::<_, HookError>(count)
            };
            let count = self.db().write(batch).await?;
            self.wake_queues();
            retried += count;
            if count < u64::from(BATCH_SIZE) {
                return Ok(retried);
            }
        }
    }

    /// Deletes all dead letters, of one hook or of all hooks. Returns their number.
    ///
    /// # Errors
    /// The database is unavailable; batches committed before the error remain deleted.
    pub async fn delete_dead_letters(&self, hook: Option<HookId>) -> Result<u64, HookError> {
        let mut deleted = 0;
        loop {
            let hook = hook.clone();
            let batch = async move |tx: &mut Tx| deliveries::delete_dead_letters(tx, hook.as_ref(), BATCH_SIZE).await;
            let count = self.db().write(batch).await?;
            deleted += count;
            if count < u64::from(BATCH_SIZE) {
                return Ok(deleted);
            }
        }
    }
}
