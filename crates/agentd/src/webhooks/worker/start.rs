//! Begins the turns of deliveries, each as soon as it has a permit at its provider.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::{Backoff, DomainError, ErrorKind, Timestamp};
use agentd_store::{Lease, StoreError, Tx};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::Deserialize;
use tokio::sync::Notify;

use crate::agents::{Agent, AgentError};
use crate::engine::{BackgroundPermit, EngineError, Origin, OriginKind, SessionId, StartTurn, ToolUse};
use crate::runtime::{Claims, Worker, WorkerError, WorkerReport, keep_lease};
use crate::webhooks::model::{Delivery, DeliveryStatus, QUEUE, Webhook, WebhookDeliveryId};
use crate::webhooks::prompt::tell;
use crate::webhooks::service::Webhooks;
use crate::webhooks::store::{self, deliveries};
use crate::webhooks::turns::TRANSCRIPT;

/// Renewed while a delivery waits for its permit, so that a daemon that died holds nothing for long.
const LEASE: Duration = Duration::from_secs(15);
const HEARTBEAT: Duration = Duration::from_secs(5);
/// So that the daemon can come to rest while deliveries wait.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// What cannot begin is tried so often, over about an hour and a half.
const MAX_ATTEMPTS: u32 = 8;
const BACKOFF: Backoff =
    Backoff { base: Duration::from_secs(10), multiplier: 3.0, cap: Duration::from_secs(30 * 60), jitter: 0.2 };
const LONGEST_DELAY: Duration = Duration::from_secs(24 * 3600);

/// The worker behind turns of webhooks.
#[derive(Debug)]
pub(crate) struct StartTurns(pub Webhooks);

#[derive(Deserialize)]
struct Payload {
    delivery_id: WebhookDeliveryId,
}

/// Why a turn did not begin.
#[derive(Debug, thiserror::Error)]
enum StartError {
    /// It never will.
    #[error("{reason}")]
    Over { status: DeliveryStatus, reason: &'static str },
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl StartError {
    fn over(status: DeliveryStatus, reason: &'static str) -> Self {
        Self::Over { status, reason }
    }

    /// Whether trying again is known to be useless.
    fn is_final(&self) -> bool {
        matches!(
            self,
            Self::Over { .. } | Self::Agent(AgentError::NotFound { .. }) | Self::Engine(EngineError::AgentGone)
        )
    }

    fn is_lost_lease(&self) -> bool {
        let store = match self {
            Self::Store(error) | Self::Engine(EngineError::Store(error)) => error,
            _ => return false,
        };
        matches!(store, StoreError::LostLease { .. })
    }

    /// How long to wait before the next attempt, where the refusal says so.
    fn asked_delay(&self) -> Option<Duration> {
        let kind = match self {
            Self::Over { .. } => return None,
            Self::Agent(error) => error.kind(),
            Self::Engine(error) => error.kind(),
            Self::Store(error) => error.kind(),
        };
        match kind {
            ErrorKind::TooMany(after) | ErrorKind::InProgress(after) => Some(after.min(LONGEST_DELAY)),
            _ => None,
        }
    }
}

impl Worker for StartTurns {
    fn name(&self) -> &'static str {
        "webhooks.start"
    }

    fn interval(&self) -> Duration {
        Duration::from_secs(5)
    }

    fn idle_until(&self) -> Option<Timestamp> {
        Some(self.0.next_due().at())
    }

    fn wake(&self) -> Option<Arc<Notify>> {
        Some(self.0.start_wake())
    }

    fn run_once(&self) -> BoxFuture<'_, Result<WorkerReport, WorkerError>> {
        self.run().boxed()
    }
}

impl StartTurns {
    async fn run(&self) -> Result<WorkerReport, WorkerError> {
        let claims = Claims {
            context: self.0.context(),
            queue: QUEUE,
            permits: self.0.starting(),
            next_due: self.0.next_due(),
            lease: LEASE,
            wake: Some(self.0.start_wake()),
            longest_wait: LONGEST_WAIT,
        };
        let webhooks = &self.0;
        claims
            .begin(|lease| {
                let webhooks = webhooks.clone();
                async move { attempt(&webhooks, lease).await }
            })
            .await
    }
}

async fn attempt(webhooks: &Webhooks, lease: Lease) {
    let Err(error) = begin(webhooks, &lease).await else { return };
    let item = lease.id.clone();
    let recorded = match error {
        error if error.is_lost_lease() => Err(error),
        // It has nothing to do with the delivery.
        StartError::Engine(EngineError::Draining) => {
            let release = async move |tx: &mut Tx| tx.release(&lease).await;
            webhooks.context().db.write(release).await.map_err(StartError::Store)
        }
        error => record_failure(webhooks, lease, error).await,
    };
    match recorded {
        Ok(()) => {}
        Err(error) if error.is_lost_lease() => {
            tracing::warn!(%item, "another daemon has taken over a delivery of a webhook");
        }
        Err(error) => {
            tracing::warn!(%item, %error, "how a delivery of a webhook was begun could not be stored; it will be tried again");
        }
    }
}

/// Begins the turn of a delivery when there is a permit for it. The end of the queue's item, the delivery's row
/// and the session are one transaction.
async fn begin(webhooks: &Webhooks, lease: &Lease) -> Result<(), StartError> {
    let Payload { delivery_id } = lease.payload()?;
    let Some((webhook, _)) = find_work(webhooks, &delivery_id).await? else {
        return close(webhooks, lease).await;
    };
    let agent = agent_of(webhooks, &webhook).await?;
    let place = wait_for_place(webhooks, lease, &agent).await?;
    // Anything may have changed while it waited.
    let Some((webhook, delivery)) = find_work(webhooks, &delivery_id).await? else {
        return close(webhooks, lease).await;
    };
    let agent = agent_of(webhooks, &webhook).await?;
    let request = deliveries::find_request(&mut webhooks.context().db.read().await?, &delivery.id).await?;
    let request = request.ok_or(StartError::over(DeliveryStatus::Failed, "its request is not kept any more"))?;
    let told = tell(&webhook, &request, &webhooks.context().entropy);
    let turn = StartTurn {
        origin: Origin::of(OriginKind::Webhook),
        message_id: Some(delivery.id.to_string()),
        transcript: Some(TRANSCRIPT),
        tools: ToolUse::reading_and(&webhook.tools),
        recall: Some(told.question),
        ..StartTurn::aside(Arc::clone(&agent), told.history)
    };
    let (held, agent_id) = (lease.clone(), agent.id.clone());
    let open = async move |tx: &mut Tx, session: &SessionId| {
        tx.complete(&held).await?;
        if deliveries::update_started(tx, &delivery.id, &agent_id, session.as_str()).await? {
            return Ok(());
        }
        Err(StartError::over(DeliveryStatus::Cancelled, "it was begun or ended already"))
    };
    let session = webhooks.engine().start(turn, open).await?;
    webhooks.engine().hold_until_let_go(place, session);
    Ok(())
}

/// Waits for a permit at the agent's provider, and keeps the lease meanwhile.
async fn wait_for_place(webhooks: &Webhooks, lease: &Lease, agent: &Agent) -> Result<BackgroundPermit, StartError> {
    tokio::select! {
        place = webhooks.engine().background_permit(agent, None) => Ok(place?),
        lost = keep_lease(&webhooks.context().db, lease, LEASE, HEARTBEAT) => Err(lost.into()),
    }
}

/// Nothing is left to do about an item of the queue.
async fn close(webhooks: &Webhooks, lease: &Lease) -> Result<(), StartError> {
    let held = lease.clone();
    Ok(webhooks.context().db.write(async move |tx: &mut Tx| tx.complete(&held).await).await?)
}

/// The delivery that waits and its webhook; `None` when nothing is left to do.
async fn find_work(webhooks: &Webhooks, id: &WebhookDeliveryId) -> Result<Option<(Webhook, Delivery)>, StartError> {
    let mut read = webhooks.context().db.read().await?;
    let delivery = deliveries::find_delivery(&mut read, id).await?;
    let Some(delivery) = delivery.filter(|delivery| delivery.status == DeliveryStatus::Pending) else {
        return Ok(None);
    };
    let Some(webhook) = store::find_webhook(&mut read, &delivery.webhook_id).await? else { return Ok(None) };
    Ok(Some((webhook, delivery)))
}

async fn agent_of(webhooks: &Webhooks, webhook: &Webhook) -> Result<Arc<Agent>, StartError> {
    let cancelled = |reason| StartError::over(DeliveryStatus::Cancelled, reason);
    if !webhook.enabled {
        return Err(cancelled("the webhook was switched off before the turn began; replay it if it is wanted"));
    }
    let Some(agent) = &webhook.agent_id else {
        return Err(cancelled("the webhook named no agent any more before the turn began"));
    };
    Ok(webhooks.agents().get(agent.as_str()).await?)
}

async fn record_failure(webhooks: &Webhooks, lease: Lease, error: StartError) -> Result<(), StartError> {
    let Payload { delivery_id } = lease.payload()?;
    let (text, delay) = (error.to_string(), error.asked_delay());
    let end = match &error {
        StartError::Over { status, .. } => Some(*status),
        _ if error.is_final() || lease.attempt >= MAX_ATTEMPTS => Some(DeliveryStatus::Failed),
        _ => None,
    };
    tracing::info!(delivery = %delivery_id, error = text, is_last = end.is_some(), "the turn of a delivery did not begin");
    let record = async move |tx: &mut Tx| {
        if let Some(status) = end {
            tx.complete(&lease).await?;
            return deliveries::update_given_up(tx, &delivery_id, status, &text).await;
        }
        match delay {
            Some(delay) => tx.fail_for(&lease, &text, delay).await?,
            None => tx.fail(&lease, &text, &BACKOFF).await?,
        };
        deliveries::update_delayed(tx, &delivery_id, &text).await
    };
    Ok(webhooks.context().db.write::<_, StoreError, _>(record).await?)
}
