//! Items of a leased queue that are worked on beside their worker, each in a task of its own under a permit: what has
//! begun is not cut off when the workers stop.

use std::sync::Arc;
use std::time::Duration;

use agentd_store::Lease;
use tokio::sync::Notify;
use tracing::Instrument as _;

use super::AppContext;
use super::due::NextDue;
use super::limits::{ConcurrencyLimit, claim_span};
use super::report::{WorkerError, WorkerReport};

/// How the items of a queue are claimed.
#[derive(Debug)]
pub struct Claims<'w> {
    pub context: &'w AppContext,
    pub queue: &'static str,
    pub permits: &'w ConcurrencyLimit,
    pub next_due: &'w NextDue,
    pub lease: Duration,
    /// Says that there is more to do.
    pub wake: Option<Arc<Notify>>,
    /// A pass waits for work that is under way no longer than this.
    pub longest_wait: Duration,
}

impl Claims<'_> {
    /// One pass: claims as many due items as there are permits, begins `work` on each, and waits until a permit is
    /// free again.
    ///
    /// # Errors
    /// The store's refusal.
    pub async fn begin<F>(self, work: impl Fn(Lease) -> F) -> Result<WorkerReport, WorkerError>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let Self { context, queue, permits, next_due, lease, wake, longest_wait } = self;
        let mut items = 0;
        let free = permits.free();
        if !context.draining.is_cancelled() {
            let due = context.db.read().await?.next_due(queue).await?;
            next_due.note(due);
            if free > 0 && due.is_some_and(|due| due <= context.clock.now()) {
                let limit = u32::try_from(free).unwrap_or(1);
                for claimed in context.db.claim(queue, &context.instance, limit, lease).await? {
                    items += 1;
                    let (permit, span) = (permits.take(), claim_span(&claimed));
                    let work = work(claimed);
                    let held = async move {
                        work.await;
                        drop(permit);
                    };
                    tokio::spawn(held.instrument(span));
                }
            }
        }
        Ok(WorkerReport { items, has_more: permits.settle(wake.as_deref(), longest_wait).await })
    }
}
