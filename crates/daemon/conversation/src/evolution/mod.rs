//! Evolution: an agent reviews recent conversations and proposes changes to its own instructions.
//!
//! The owner chooses per agent (`evolution_choice`): `off`, no proposals; `check`, a proposal is an approval that
//! expires after a week; `auto`, it is applied immediately. Each change creates a version of the instructions that can
//! be restored.
//!
//! Invariants
//! - A turn costs one in-memory increment. Counts are persisted once a minute; a crash loses at most that minute.
//! - A review is a queue item, at most one per agent. Its result, the reset of the count and the completion of the item
//!   are one transaction, fenced by the lease of the item. After a crash the model is called again, but nothing is
//!   proposed twice.
//! - At most one proposal per agent is pending; a unique index enforces it.
//! - A proposal is valid only for the instructions it was made from.
//! - Messages reach the model as quoted data. Text of unknown senders is marked, and excluded if no owner reviews the
//!   result (`auto`).
//!
//! Not part of this module: permissions. Tools, approvals and budgets do not depend on the instructions, so their
//! wording cannot extend an agent's rights.

mod model;
mod prompt;
mod service;
mod store;
mod utterance;
mod worker;

use std::sync::Arc;
use std::time::Duration;

use agentd_core::parts::{Domain, DomainParts, ShutdownPhase, ShutdownStep};
use agentd_core::runtime::{Binding, MetricList, QueueWorker};
use agentd_engine::agents::AgentDataOwner;
use agentd_engine::engine::{ApprovalHandler, TurnObserver};
use agentd_web::Routes;

use worker::{CountTurns, ProposeChanges};

pub use service::Evolution;
pub use utterance::{Author, RecentUtterances, Utterance};

/// Time limit for storing proposals after their turns have ended.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

impl Domain for Evolution {
    fn parts(&self) -> DomainParts {
        DomainParts {
            routes: Routes::new(),
            workers: vec![Box::new(CountTurns(self.clone())), Box::new(QueueWorker(ProposeChanges(self.clone())))],
            metrics: MetricList::default(),
            bindings: vec![
                Binding::new::<dyn AgentDataOwner>(Arc::new(self.clone())),
                Binding::new::<dyn TurnObserver>(Arc::new(self.clone())),
                Binding::new::<dyn ApprovalHandler>(Arc::new(self.clone())),
            ],
            shutdown: vec![ShutdownStep::new(ShutdownPhase::Results, self, async |evolution, _| {
                evolution.drain(DRAIN_TIMEOUT).await
            })],
        }
    }
}
