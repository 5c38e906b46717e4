//! Proactive turns: turns that agents start on their own, if the owner permits it. A turn follows a failed job run or a
//! schedule suggestion. The agent of the job handles failed runs, the default agent handles suggestions.
//!
//! | turn | trigger | next |
//! |---|---|---|
//! | – | a cause without a turn, within the daily limit and outside quiet hours | running |
//! | running | the agent completed | success |
//! | running | the model failed; it was cancelled; the daemon ended | failed, cancelled, interrupted |
//!
//! Invariants
//! - The row of a turn is stored in the transaction that stores its session, which checks the settings again. After a
//!   crash, every counted turn has started, and a cause without a turn is considered again.
//! - Only rows decide, no state in memory. (agent, day, ordinal) and (cause, cause id) are unique. With any number of
//!   daemons, the daily limit holds and each cause gets at most one turn, ever. A started turn is protected by the
//!   lease of its session. An interrupted turn is not repeated.
//! - The end of a turn, its row and the message to the owner are written in one transaction.
//! - A turn uses a background permit only if one is free, so all other work takes precedence.
//! - A turn has only read-only tools, because it was not requested.
//! - While the feature is disabled, no causes are searched for.
//!
//! The module also notifies the owner's devices about pending approvals after a short delay (`waking`). The message has
//! a key derived from the approval, so it is sent once, with any number of daemons and after a crash. Once the approval
//! is answered, a second message withdraws it.
//!
//! Out of scope: detection of failed runs and suggestions (`scheduler`), and message delivery (`notify`).

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
use agentd_engine::agents::AgentDataOwner;
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
                Binding::new::<dyn AgentDataOwner>(Arc::new(self.clone())),
                Binding::new::<dyn TurnSink>(Arc::new(self.clone())),
            ],
            shutdown: Vec::new(),
        }
    }
}
