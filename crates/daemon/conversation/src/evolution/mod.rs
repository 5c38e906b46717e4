//! Evolution: an agent looks back at what was said, and proposes a change to its own instructions.
//!
//! What becomes of it is the owner's choice (`evolution_choice`): `off`, nothing is proposed; `check`,
//! the proposal is an approval that waits a week; `auto`, it takes effect at once. Either way the change
//! is a version of the agent's instructions, which can be restored.
//!
//! Invariants
//! - A turn costs one addition in memory. What was counted is written once a minute; a crash loses
//!   that minute and nothing else.
//! - Being asked what it learned is an item of the queue, one an agent at most. What comes of it, the
//!   count that starts anew and the end of the item are one transaction, fenced by the item's lease: a
//!   crash anywhere means that the model is asked once more, never that something is proposed twice.
//! - One proposal an agent waits at a time; a unique index decides.
//! - A proposal holds only for the instructions that it was made from. If the agent has others by
//!   then, it is void.
//! - What was said reaches the model as quoted material. What strangers wrote is marked as theirs, and
//!   left out where nobody looks at the outcome (`auto`).
//!
//! Deliberately absent: rights. Tools, approvals and budgets do not ask the instructions, so no wording
//! of them gives an agent more than its owner did.

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
use agentd_engine::agents::OwnsAgentData;
use agentd_engine::engine::{DecidesApproval, TurnObserver};
use agentd_web::Routes;

use worker::{CountTurns, ProposeChanges};

pub use service::Evolution;
pub use utterance::{Author, RecentUtterances, Utterance};

/// What an agent said about itself is stored within this time, once its turn has ended.
const DRAIN_LIMIT: Duration = Duration::from_secs(1);

impl Domain for Evolution {
    fn parts(&self) -> DomainParts {
        DomainParts {
            routes: Routes::new(),
            workers: vec![Box::new(CountTurns(self.clone())), Box::new(QueueWorker(ProposeChanges(self.clone())))],
            metrics: MetricList::default(),
            bindings: vec![
                Binding::new::<dyn OwnsAgentData>(Arc::new(self.clone())),
                Binding::new::<dyn TurnObserver>(Arc::new(self.clone())),
                Binding::new::<dyn DecidesApproval>(Arc::new(self.clone())),
            ],
            shutdown: vec![ShutdownStep::new(ShutdownPhase::Learned, self, async |evolution, _| {
                evolution.drain(DRAIN_LIMIT).await
            })],
        }
    }
}
