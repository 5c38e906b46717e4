//! Inbound webhooks: endpoints through which other programs tell the daemon that something happened, and
//! may let an agent look at it.
//!
//! | status of a delivery | what happens next |
//! |---|---|
//! | `received` | nothing: the webhook names no agent |
//! | `pending` | its agent's turn begins when there is room; a failed start is repeated after a growing delay |
//! | `running` | the turn is under way, or waits for an approval; `session_id` is its log |
//! | `success` | nothing; `output` is what the agent said |
//! | `failed` | nothing; `error` says why |
//! | `cancelled` | nothing: the turn was cancelled, or the webhook was switched off before it began |
//! | `interrupted` | nothing: the daemon ended in the middle of the turn |
//!
//! What ended can be replayed: that is a new delivery with the same request.
//!
//! Invariants
//! - Nothing is read of a request, or kept, before its signature was found right over its raw bytes,
//!   compared in constant time. Every signature that is presented must be right, and one must be.
//! - A delivery, its event `webhook.received` and what starts the turn are one transaction, and 202 is
//!   answered after its commit. The end of that start and the turn's session are one transaction, too,
//!   so a turn begins once, whoever is killed where. A turn that was cut off is not begun again by
//!   itself: its tools may have had an effect.
//! - The same id of a message within a day is the same delivery, and one event.
//! - What came from outside reaches a model between marks that nobody outside can know, and is called
//!   untrusted there. The turn has the tools that change nothing, and those that the webhook names;
//!   what acts asks first.
//! - A turn takes one of the background permits at its provider, as runs of jobs do, and waits for it under a
//!   lease that is renewed.
//! - Bounded: requests a minute of one webhook and of all, how many turns wait, how far behind
//!   the readers of events may be, how many deliveries and bytes are kept of a webhook, and for how long.
//!
//! Deliberately absent: other verifications than signatures (`channels` verifies platforms), and what
//! else reacts to the event (`hooks`).

mod error;
mod model;
mod routes;
mod service;
mod signature;
mod store;
mod turns;
mod worker;

use std::sync::Arc;
use std::time::Duration;

use agentd_core::parts::{Domain, DomainParts, ShutdownPhase, ShutdownStep};
use agentd_core::runtime::{Binding, Family, MetricList, PurgeWorker, QueueWorker, Sample};
use agentd_engine::agents::OwnsAgentData;
use agentd_engine::engine::TurnSink;

use routes::routes;
use worker::{PurgeDeliveries, StartTurns};

pub use error::WebhookError;
pub use model::{Delivery, DeliveryStatus, StoredRequest, Webhook, WebhookChange, WebhookDeliveryId, WebhookId};
pub use service::{CreatedWebhook, ReceivedRequest, Webhooks};

/// Deliveries that wait for a permit at a provider are given back within this time.
const DRAIN_LIMIT: Duration = Duration::from_secs(1);

impl Domain for Webhooks {
    fn parts(&self) -> DomainParts {
        DomainParts {
            routes: routes().with_state(self.clone()),
            workers: vec![
                Box::new(QueueWorker(StartTurns(self.clone()))),
                Box::new(PurgeWorker(PurgeDeliveries(self.clone()))),
            ],
            metrics: self.metrics(),
            bindings: vec![
                Binding::new::<dyn OwnsAgentData>(Arc::new(self.clone())),
                Binding::new::<dyn TurnSink>(Arc::new(self.clone())),
            ],
            shutdown: vec![ShutdownStep::new(ShutdownPhase::Waiting, self, async |webhooks, _| {
                webhooks.drain(DRAIN_LIMIT).await
            })],
        }
    }
}

impl Webhooks {
    fn metrics(&self) -> MetricList {
        let mut metrics = MetricList::default();
        let help = "Requests to inbound webhooks by what became of them (accepted, repeated, unsigned, disabled, \
                    rate_limited, overloaded, invalid, failed), since the daemon started.";
        let family = Family::counter("svc_webhook_requests_total", help).by(&["outcome"]);
        metrics.read(family, self, async |webhooks| Ok(Sample::each(webhooks.request_counts())));
        let help = "Deliveries of inbound webhooks whose agent has still to begin.";
        metrics.read(Family::gauge("svc_webhook_turns_waiting", help), self, async |webhooks| {
            Ok(Sample::one(webhooks.waiting_turns().await?))
        });
        metrics
    }
}
