//! Accessors of a composed daemon, and its shutdown.

use std::time::Duration;

use agentd_automation::notify::Notify;
use agentd_automation::scheduler::Scheduler;
use agentd_conversation::chat::Chat;
use agentd_core::parts::ShutdownPhase;
use agentd_engine::tools::Tools;
use futures_util::future::join_all;

use super::{Daemon, Inside};

impl Daemon {
    /// Runs the shutdown steps, one phase after the other. Replies and messages that take longer than `grace` are
    /// interrupted.
    pub async fn drain(&self, grace: Duration) {
        for phase in ShutdownPhase::ALL {
            let steps = self.shutdown.iter().filter(|step| step.phase() == phase);
            join_all(steps.map(|step| step.run(grace))).await;
        }
    }

    /// Number of turns that run in this process.
    #[must_use]
    pub fn running_turns(&self) -> usize {
        self.services.engine.running_turns()
    }

    /// The registry of tools.
    #[must_use]
    pub fn tools(&self) -> &Tools {
        &self.services.tools
    }

    /// The scheduler.
    #[must_use]
    pub fn scheduler(&self) -> &Scheduler {
        &self.services.scheduler
    }

    /// The notification service.
    #[must_use]
    pub fn notify(&self) -> &Notify {
        &self.services.notify
    }

    /// Whether no API key has been created yet.
    pub async fn is_bootstrapping(&self) -> bool {
        self.services.auth.bootstrap_state().await.is_ok_and(|state| state.bootstrap_mode)
    }
}

impl Inside {
    /// The chat service.
    #[must_use]
    pub fn chat(&self) -> &Chat {
        &self.services.chat
    }

    /// The notification service.
    #[must_use]
    pub fn notify(&self) -> &Notify {
        &self.services.notify
    }
}
