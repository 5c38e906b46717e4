//! Creation of hook work, triggered by an event or by another hook.

use agentd_base::id::IdGenerator;
use agentd_store::{StoreError, Tx};

use crate::hooks::model::{ExecutionId, Hook, HookDeliveryId, MAX_DEPTH};
use crate::hooks::store::deliveries::{self, InsertedDeliveries, NewWork};
use crate::hooks::store::executions;

/// Inserts a delivery or execution of a hook for an event. Returns whether it is new.
pub(crate) async fn insert_work(
    tx: &mut Tx,
    ids: &IdGenerator,
    hook: &Hook,
    work: &NewWork<'_>,
) -> Result<bool, StoreError> {
    if work.depth > MAX_DEPTH {
        let reason =
            format!("hook chain limit reached ({MAX_DEPTH}): this event was caused by a chain of {} hooks", work.depth);
        executions::insert_skipped(tx, &ExecutionId::generate(ids), work, &reason).await
    } else if hook.is_queued() {
        let added = deliveries::insert_deliveries(tx, &[(HookDeliveryId::generate(ids), *work)]).await?;
        Ok(added != InsertedDeliveries::default())
    } else if let Some(reason) = work.rejected {
        executions::insert_skipped(tx, &ExecutionId::generate(ids), work, reason).await
    } else {
        executions::insert_execution(tx, &ExecutionId::generate(ids), work).await
    }
}
