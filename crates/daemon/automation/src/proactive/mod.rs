//! Turns that agents begin by themselves, where the owner allows it: about a run of a job that failed, and about
//! what the owner's habits suggest. The agent of the job begins the one, the default agent the other.
//!
//! | turn | by | next |
//! |---|---|---|
//! | – | a cause that had none, on a day that has room, outside quiet hours | running |
//! | running | the agent came to its end | success |
//! | running | the model failed; it was cancelled; the daemon ended | failed, cancelled, interrupted |
//!
//! Invariants
//! - A turn's row is stored in the transaction that stores its session, and asks the settings there once more. So
//!   whoever is killed where, a turn that is counted was begun, and one that was not begun is looked for again.
//! - Rows decide and nothing in memory: (agent, day, ordinal) and (cause, its id) are unique, so however many
//!   daemons look, an agent begins so many turns a day at most, and a cause has one turn, ever. From its
//!   beginning on a turn is held by its session's lease. One that was cut off is not begun again.
//! - Its end, its row and the message to the owner are one transaction.
//! - It takes a background permit only where one is free: everything else goes first.
//! - It has the tools that change nothing, for nobody asked for it.
//! - While it is switched off, nothing is looked for.
//!
//! It also wakes the owner's devices for approvals that wait for a moment (`waking`): the message has the approval's
//! key, so there is one of it, however many daemons look and whoever is killed where. Once the approval is answered,
//! another one takes it away.
//!
//! Deliberately absent: when a run has failed and what is suggested (`scheduler`), and how a message reaches
//! somebody (`notify`).

mod model;
mod prompt;
mod routes;
mod service;
mod store;
mod turns;
mod waking;
mod worker;

use std::sync::Arc;

use agentd_core::parts::{Domain, DomainParts};
use agentd_core::runtime::{Binding, MetricList};
use agentd_engine::agents::OwnsAgentData;
use agentd_engine::engine::TurnSink;

use routes::routes;
use worker::{StartProactive, WakeDevices};

pub use model::{Cause, CauseKind, ProactiveTurn, ProactiveTurnId, TurnStatus};
pub use service::{Proactive, ProactiveError};

impl Domain for Proactive {
    fn parts(&self) -> DomainParts {
        DomainParts {
            routes: routes().with_state(self.clone()),
            workers: vec![Box::new(StartProactive(self.clone())), Box::new(WakeDevices::new(self.clone()))],
            metrics: MetricList::default(),
            bindings: vec![
                Binding::new::<dyn OwnsAgentData>(Arc::new(self.clone())),
                Binding::new::<dyn TurnSink>(Arc::new(self.clone())),
            ],
            shutdown: Vec::new(),
        }
    }
}
