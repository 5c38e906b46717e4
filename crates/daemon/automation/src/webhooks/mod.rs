//! Inbound webhooks: endpoints for signed requests from other programs. Each request emits an event and may start an
//! agent turn.
//!
//! | delivery status | next |
//! |---|---|
//! | `received` | final: the webhook names no agent |
//! | `pending` | the agent's turn starts when a permit is free; a failed start is retried with backoff |
//! | `running` | the turn is running, or waits for an approval; `session_id` identifies its log |
//! | `success` | final; `output` is the agent's output |
//! | `failed` | final; `error` contains the reason |
//! | `cancelled` | final: the turn was cancelled, or the webhook was disabled before it started |
//! | `interrupted` | final: the daemon ended during the turn |
//!
//! A delivery can be replayed, which creates a new delivery with the same request.
//!
//! Invariants
//! - No part of a request is parsed or stored before its signature over the raw bytes is verified, in constant time. At
//!   least one signature is required, and every signature present must be valid.
//! - A delivery, its event `webhook.received` and the queue item of the turn are written in one transaction; the 202
//!   response follows the commit. Completing the queue item and storing the session share one transaction too, so a
//!   turn starts exactly once, even after a crash. An interrupted turn is not restarted, because its tools may have had
//!   effects.
//! - Requests with the same message id within a day are the same delivery, with one event.
//! - Content from a request is passed to a model between random marks and declared untrusted. The turn has the
//!   read-only tools and those named by the webhook; tools that act require approval.
//! - A turn uses a background permit of its provider, like job runs, and waits for it under a renewed lease.
//! - Limits apply to: requests per minute, per webhook and in total; waiting turns; the lag of event readers; and the
//!   number, size and age of stored deliveries per webhook.
//!
//! Out of scope: verification methods other than signatures (`channels` verifies platforms), and other reactions to the
//! event (`hooks`).

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
use agentd_engine::agents::AgentDataOwner;
use agentd_engine::engine::TurnSink;

use routes::routes;
use worker::{PurgeDeliveries, StartTurns};

pub use error::WebhookError;
pub use model::{Delivery, DeliveryStatus, StoredRequest, Webhook, WebhookChange, WebhookDeliveryId, WebhookId};
pub use service::{CreatedWebhook, ReceivedRequest, Webhooks};

/// Maximum time for which a drain waits until deliveries that await a provider permit are released.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

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
                Binding::new::<dyn AgentDataOwner>(Arc::new(self.clone())),
                Binding::new::<dyn TurnSink>(Arc::new(self.clone())),
            ],
            shutdown: vec![ShutdownStep::new(ShutdownPhase::Queues, self, async |webhooks, _| {
                webhooks.drain(DRAIN_TIMEOUT).await
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
