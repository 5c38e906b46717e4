//! Hooks: what the owner wants to happen when something happens. A hook listens to one type of event and sends it to a
//! URL, runs code in the sandbox, or does one of the things that the daemon knows how to do.
//!
//! Invariants
//! - Only the event commits with the change that caused it. One reader goes over the events in their order and, in
//!   one transaction, writes down what each calls for (unique on hook and event) and moves its cursor. So no
//!   event is missed and none is worked on twice because of a crash of the reader.
//! - A hook hears what happens after it was made, switched on, or given another type of event.
//! - Deliveries and executions are held by leases in their rows, fenced by owner and a count of claims. What a killed
//!   daemon held is done again after its lease: sending is at least once, and both copies carry the same id. What the
//!   daemon itself does (`builtin`) is done once: the effect and its record are one transaction.
//! - One hook holds a quarter of the permits at most, and so do all hooks of a slow receiver together. Of the hooks of
//!   one event those of higher priority begin first, and are waited for a second at most. A receiver that fails ten
//!   times in a row is left in peace for a while that grows; then one delivery shows whether it is back. What is held waits, and counts no attempt.
//! - What waits is bounded. When too much waits for hooks that get on, events are left in the outbox; what further
//!   comes for one that does not is given up at once, with that as the reason.
//! - A chain of hooks that lead to each other's events ends after five.
//! - The secret and the headers that carry a credential lie in the vault; they are never shown, logged, or part of
//!   an error. Those that are older than this rule are moved there at start.
//!
//! | delivery | by | next |
//! |---|---|---|
//! | – | an event that the hook listens to | pending |
//! | – | the same, and too much waits for it without getting on | dead_letter |
//! | pending, failed | it is due, its hook is enabled, its receiver's circuit is closed | processing |
//! | processing | an answer of 2xx | success |
//! | processing | anything else | failed, due after its backoff; dead_letter after `max_retries` attempts, or 410 |
//! | processing | the same, and its hook was deleted meanwhile | dead_letter, with that as the reason |
//! | processing | its lease ended | pending, the attempt not counted |
//! | failed, dead_letter | a retry by hand | pending, attempts counted anew |
//! | pending, failed | its hook was deleted | dead_letter, with that as the reason |
//!
//! | execution | by | next |
//! |---|---|---|
//! | – | an event that the hook listens to | running |
//! | – | the chain of hooks is too long, or too much waits without getting on | skipped |
//! | running | it did what it is to do | success |
//! | running | it failed, for `max_retries` attempts where another one may help | error, timeout |
//! | running | its lease ended | running, done again |
//!
//! Its modules: `routes` and `worker` use `act` (doing what a hook is to do), which uses `service`, which uses `cache`,
//! `limits` and `store`, which use `model`.
//!
//! Deliberately absent: the events themselves (`events`, and the domains that emit them), and requests from
//! outside, which are another domain's.

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
use agentd_engine::agents::OwnsAgentData;

use routes::routes;
use worker::{DeliverHooks, ExecuteHooks, PurgeHooks, ReadEvents};

pub use error::HookError;
pub use model::{
    Action, BuiltinAction, Delivery, DeliveryStatus, Execution, ExecutionId, ExecutionStatus, Filter, FilterProblem,
    Hook, HookChange, HookDeliveryId, HookId, HookType, HttpAction, PythonAction,
};
pub use restored::ValidateHooks;
pub use service::{Analytics, DeliveryCounts, DeliveryEnds, HookDependencies, Hooks, Period, Totals};

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
            bindings: vec![Binding::new::<dyn OwnsAgentData>(Arc::new(self.clone()))],
            shutdown: vec![ShutdownStep::new(ShutdownPhase::Work, self, async |hooks, grace| hooks.drain(grace).await)],
        }
    }
}

impl Hooks {
    fn metrics(&self) -> MetricList {
        let mut metrics = MetricList::default();
        let family = Family::gauge("svc_hook_queue", "Deliveries of hooks that are kept, by their status.");
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
        let help = "Attempts of deliveries of hooks by what came of them, since the daemon started.";
        metrics.read(Family::counter("svc_hook_deliveries_total", help).by(&["status"]), self, async |hooks| {
            let ends = hooks.delivery_ends();
            let ends = [("success", ends.success), ("failed", ends.failed), ("dead_letter", ends.dead_letter)];
            Ok(Sample::each(ends))
        });
        let help = "The age of the oldest event that no hook has looked at.";
        metrics.read(Family::gauge("svc_hook_reader_lag_seconds", help), self, async |hooks| {
            Ok(Sample::seconds(hooks.reader_lag().await?))
        });
        let help = "1 while so much waits to be delivered that events are left where they are.";
        metrics.read(Family::gauge("svc_hook_reader_paused", help), self, async |hooks| {
            Ok(Sample::one(hooks.is_reader_paused().into()))
        });
        let help = "Hooks for which so much waits without getting on that what further comes for them is given up.";
        metrics
            .read(Family::gauge("svc_hooks_behind", help), self, async |hooks| Ok(Sample::one(hooks.hooks_behind())));
        let help = "Receivers that nothing is sent to for a while because they failed.";
        metrics.read(Family::gauge("svc_hook_open_circuits", help), self, async |hooks| {
            Ok(Sample::one(hooks.open_circuits().await?))
        });
        metrics
    }
}
