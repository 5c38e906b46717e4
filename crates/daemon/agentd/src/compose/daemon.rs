//! What a composed daemon can be asked for, and how it ends.

use std::time::Duration;

use agentd_automation::notify::Notify;
use agentd_automation::scheduler::Scheduler;
use agentd_conversation::chat::Chat;
use agentd_engine::tools::Tools;

use super::{Daemon, Inside};

/// What an agent said about itself is stored within this time, once its turn has ended.
const EVOLUTION_DRAIN: Duration = Duration::from_secs(1);
/// Runs and deliveries that wait for a permit at a provider are given back within this time.
const WAITING_DRAIN: Duration = Duration::from_secs(1);
impl Daemon {
    /// Brings running work to its end; a reply or message that takes longer than `grace` is
    /// interrupted.
    pub async fn drain(&self, grace: Duration) {
        let services = &self.services;
        tokio::join!(services.engine.drain(grace), services.notify.drain(grace), services.hooks.drain(grace));
        tokio::join!(
            services.scheduler.drain(WAITING_DRAIN),
            services.webhooks.drain(WAITING_DRAIN),
            services.channels.drain(WAITING_DRAIN)
        );
        self.services.evolution.drain(EVOLUTION_DRAIN).await;
        if let Err(error) = services.rollups.flush(true).await {
            tracing::warn!(%error, "what was measured in the last minute is lost");
        }
        // After the replies, which may use their tools to the end.
        self.services.devices.drain().await;
        tokio::join!(
            self.services.tool_servers.servers.shut_down(),
            self.services.providers.shut_down(),
            self.services.memory.close(),
            self.services.embedder.shutdown(),
            self.services.browser.close()
        );
    }

    /// How many replies are being written here.
    #[must_use]
    pub fn running_turns(&self) -> usize {
        self.services.engine.running_turns()
    }

    /// What agents can do; a program that embeds the daemon may add to it.
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
