//! What a composed daemon can be asked for, and how it ends.

use std::time::Duration;

use agentd_automation::notify::Notify;
use agentd_automation::scheduler::Scheduler;
use agentd_conversation::chat::Chat;
use agentd_core::parts::ShutdownPhase;
use agentd_engine::tools::Tools;
use futures_util::future::join_all;

use super::{Daemon, Inside};

impl Daemon {
    /// Brings running work to its end, phase by phase; a reply or message that takes longer than `grace` is
    /// interrupted.
    pub async fn drain(&self, grace: Duration) {
        for phase in ShutdownPhase::ALL {
            let steps = self.shutdown.iter().filter(|step| step.phase() == phase);
            join_all(steps.map(|step| step.run(grace))).await;
        }
    }

    /// How many replies are being written here.
    #[must_use]
    pub fn running_turns(&self) -> usize {
        self.services.engine.running_turns()
    }

    /// What agents can do.
    #[must_use]
    pub fn tools(&self) -> &Tools {
        &self.services.tools
    }

    /// Jobs and their runs.
    #[must_use]
    pub fn scheduler(&self) -> &Scheduler {
        &self.services.scheduler
    }

    /// Durable sending, for what enqueues messages from outside of a request.
    #[must_use]
    pub fn notify(&self) -> &Notify {
        &self.services.notify
    }

    /// Whether no API key was ever made.
    pub async fn is_bootstrapping(&self) -> bool {
        self.services.auth.bootstrap_state().await.is_ok_and(|state| state.bootstrap_mode)
    }
}

impl Inside {
    /// Conversations.
    #[must_use]
    pub fn chat(&self) -> &Chat {
        &self.services.chat
    }

    /// Durable sending.
    #[must_use]
    pub fn notify(&self) -> &Notify {
        &self.services.notify
    }
}
