//! Hooks: actions that run when an event occurs. A hook subscribes to one event type. It sends the event to a URL, runs
//! code in the sandbox, or performs a built-in action.
//!
//! Invariants
//! - Only the event commits with the change that caused it. A single reader processes events in order. One transaction
//!   inserts the work for each event (unique on hook and event) and advances the cursor. A crash of the reader
//!   therefore neither loses an event nor processes it twice.
//! - A hook receives the events that occur after it was created, enabled, or given another event type.
//! - Deliveries and executions are leased in their rows, fenced by owner and claim count. Work leased by a killed
//!   daemon runs again after the lease expires. Sending is at least once, and both copies carry the same id. Built-in
//!   actions run exactly once: the effect and its record share one transaction.
//! - One hook holds at most a quarter of the permits, and so do all hooks of a slow receiver together. Among the hooks
//!   of one event, those of higher priority start first; the others wait at most one second for them.
//! - The circuit of a receiver opens after ten consecutive failures, for a growing pause. A single probe then tests the
//!   receiver. Deliveries wait while the circuit is open; waiting does not count as an attempt.
//! - The backlog is bounded. When the backlog of progressing hooks is full, events stay in the outbox. New work for a
//!   stalled hook is dead-lettered immediately, with the backlog as the reason.
//! - A chain of hooks that trigger each other's events ends after five.
//! - The secret and credential headers are stored in the vault. They are never shown, logged, or included in an error.
//!   Credentials stored in plain text by earlier versions are moved to the vault at start.
//!
//! | delivery | trigger | next |
//! |---|---|---|
//! | – | a matching event | pending |
//! | – | a matching event while the hook is stalled and the backlog is full | dead_letter |
//! | pending, failed | due, the hook is enabled and the receiver's circuit is closed | processing |
//! | processing | a 2xx response | success |
//! | processing | any other result | failed, due after its backoff; dead_letter after `max_retries` attempts, or 410 |
//! | processing | any other result after the hook was deleted | dead_letter, with the deletion as the reason |
//! | processing | the lease expired | pending, the attempt not counted |
//! | failed, dead_letter | a manual retry | pending, attempts reset to zero |
//! | pending, failed | the hook was deleted | dead_letter, with the deletion as the reason |
//!
//! | execution | trigger | next |
//! |---|---|---|
//! | – | a matching event | running |
//! | – | the hook chain is too long, or the hook is stalled and the backlog is full | skipped |
//! | running | the action succeeded | success |
//! | running | the action failed: permanently, or `max_retries` times | error, timeout |
//! | running | the lease expired | running, executed again |
//!
//! Modules: `routes` and `worker` use `act` (performs actions), which uses `service`, which uses `cache`, `limits` and
//! `store`, which use `model`.
//!
//! Out of scope: the events themselves (`events`, and the domains that emit them), and inbound requests (`webhooks`).

mod act;
mod cache;
mod error;
mod limits;
mod model;
mod restored;
mod routes;
mod service;
mod store;
mod test_run;
mod worker;

use std::sync::Arc;

use agentd_core::parts::{Domain, DomainParts, ShutdownPhase, ShutdownStep};
use agentd_core::runtime::{Binding, Family, MetricList, PurgeWorker, Sample};
use agentd_engine::agents::AgentDataOwner;

use routes::routes;
use worker::{DeliverHooks, ExecuteHooks, PurgeHooks, ReadEvents};

pub use error::HookError;
pub use model::{
    Action, BuiltinAction, Delivery, DeliveryStatus, Execution, ExecutionId, ExecutionStatus, Filter, FilterProblem,
    Hook, HookChange, HookDeliveryId, HookId, HookType, HttpAction, PythonAction,
};
pub use restored::ValidateHooks;
pub use service::{Analytics, DeliveryCounts, DeliveryOutcomes, HookDependencies, Hooks, Period, Totals};

impl Domain for Hooks {
    fn parts(&self) -> DomainParts {
        DomainParts {
            routes: routes().with_state(self.clone()),
            workers: vec![
                Box::new(ReadEvents::new(self.clone())),
                Box::new(DeliverHooks::new(self.clone())),
                Box::new(ExecuteHooks(self.clone())),
                Box::new(PurgeWorker(PurgeHooks::new(self.clone()))),
            ],
            metrics: self.metrics(),
            bindings: vec![Binding::new::<dyn AgentDataOwner>(Arc::new(self.clone()))],
            shutdown: vec![ShutdownStep::new(ShutdownPhase::Work, self, async |hooks, grace| hooks.drain(grace).await)],
        }
    }
}

impl Hooks {
    fn metrics(&self) -> MetricList {
        let mut metrics = MetricList::default();
        let family = Family::gauge("svc_hook_queue", "Retained hook deliveries by status.");
        metrics.read(family.by(&["status"]), self, async |hooks| {
            let counts = hooks.queue_stats().await?;
            Ok(Sample::each([
                ("pending", counts.pending),
                ("processing", counts.processing),
                ("success", counts.success),
                ("failed", counts.failed),
                ("dead_letter", counts.dead_letter),
            ]))
        });
        let help = "Hook delivery attempts by outcome since the daemon started.";
        metrics.read(Family::counter("svc_hook_deliveries_total", help).by(&["status"]), self, async |hooks| {
            let ends = hooks.delivery_outcomes();
            let ends = [("success", ends.success), ("failed", ends.failed), ("dead_letter", ends.dead_letter)];
            Ok(Sample::each(ends))
        });
        let help = "Age of the oldest event that the hook reader has not processed, in seconds.";
        metrics.read(Family::gauge("svc_hook_reader_lag_seconds", help), self, async |hooks| {
            Ok(Sample::seconds(hooks.reader_lag().await?))
        });
        let help = "1 while the hook reader is paused because the backlog is full, otherwise 0.";
        metrics.read(Family::gauge("svc_hook_reader_paused", help), self, async |hooks| {
            Ok(Sample::one(hooks.is_reader_paused().into()))
        });
        let help = "Stalled hooks whose new work is dead-lettered because their backlog is full.";
        metrics
            .read(Family::gauge("svc_hooks_behind", help), self, async |hooks| Ok(Sample::one(hooks.stalled_hooks())));
        let help = "Hook receivers whose circuit is open after repeated failures.";
        metrics.read(Family::gauge("svc_hook_open_circuits", help), self, async |hooks| {
            Ok(Sample::one(hooks.open_circuits().await?))
        });
        metrics
    }
}
