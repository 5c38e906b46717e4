//! Operations of channels.

mod adapters;
mod approvals;
mod connect;
mod connections;
mod contents;
mod pairings;
mod progress;
mod receive;
mod status;

use std::collections::BTreeMap;
use std::sync::Arc;

use agentd_automation::notify::{Notification, Notify, NotifyError, Target};
use agentd_base::visible;
use agentd_chat_platforms::{Platform, Sender};
use agentd_conversation::chat::Chat;
use agentd_core::parts::Detached;
use agentd_core::rate_limit::{OutcomeCounts, RateLimiter};
use agentd_core::runtime::{AppContext, NextDue, WorkQueue};
use agentd_core::settings::Settings;
use agentd_engine::agents::Agents;
use agentd_engine::engine::Engine;
use agentd_engine::tools::Tools;
use agentd_store::{StoreError, Tx};

use super::error::ChannelError;
use super::model::{EVICTION_LIMITS, LIMITS, MessageDetails, QUEUE};
use super::store;

use adapters::Adapters;
pub(super) use adapters::Channel;
use connections::Connections;
pub(super) use contents::Album;
pub use status::{ChannelStatus, ChannelSummary};

/// Maximum number of messages per daemon that wait for a permit; further ones stay in the queue.
const MAX_WAITING_MESSAGES: usize = 128;
/// Maximum length of a sender's name or id in a text.
const MAX_NAME_CHARACTERS: usize = 100;
/// Maximum length of an answer that is sent.
const MAX_ANSWER_BYTES: usize = 200 * 1024;

/// Dependencies of channels.
#[derive(Debug, Clone)]
pub struct ChannelDependencies {
    pub settings: Settings,
    pub agents: Agents,
    pub engine: Engine,
    pub chat: Chat,
    pub tools: Tools,
    pub notify: Notify,
    /// Public base URL of the daemon, without a trailing slash.
    pub base_url: String,
    /// Base URL if it was configured, so that users can open it.
    pub public_url: Option<String>,
}

struct Inner {
    context: AppContext,
    dependencies: ChannelDependencies,
    adapters: Adapters,
    admission: BTreeMap<Platform, RateLimiter<String>>,
    /// Rate limiter of pairing codes that replace another one.
    evictions: RateLimiter<Platform>,
    counts: OutcomeCounts,
    queue: WorkQueue,
    progress_due: NextDue,
    connections: Connections,
}

/// Chat platforms. Cheap to clone.
#[derive(Clone)]
pub struct Channels(Arc<Inner>);

impl std::fmt::Debug for Channels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Channels").field("queue", &self.0.queue).finish_non_exhaustive()
    }
}

/// Returns the name of a sender, or the id if there is none, as one truncated line.
fn plain_name(sender: &Sender) -> String {
    let name = if sender.name.trim().is_empty() { &sender.id } else { &sender.name };
    single_line(name)
}

/// Returns text chosen by a sender as one truncated line that cannot end inline code.
fn single_line(text: &str) -> String {
    let one_line = text.replace(['`', '\n', '\t'], " ");
    visible::escape(&one_line).chars().take(MAX_NAME_CHARACTERS).collect()
}

impl Channels {
    pub fn new(context: &AppContext, dependencies: ChannelDependencies) -> Detached<Self> {
        Detached::new(Self(Arc::new(Inner {
            context: context.clone(),
            adapters: Adapters::new(
                dependencies.settings.clone(),
                context.clock.clone(),
                dependencies.base_url.clone(),
            ),
            admission: Platform::ALL.map(|platform| (platform, RateLimiter::new(LIMITS))).into(),
            evictions: RateLimiter::new(EVICTION_LIMITS),
            dependencies,
            counts: OutcomeCounts::default(),
            queue: WorkQueue::new(context, QUEUE, MAX_WAITING_MESSAGES),
            progress_due: NextDue::default(),
            connections: Connections::default(),
        })))
    }

    pub(super) fn context(&self) -> &AppContext {
        &self.0.context
    }

    pub(super) fn dependencies(&self) -> &ChannelDependencies {
        &self.0.dependencies
    }

    pub(super) fn queue(&self) -> &WorkQueue {
        &self.0.queue
    }

    /// Returns the time at which the next turn is reported on.
    pub(super) fn progress_due(&self) -> &NextDue {
        &self.0.progress_due
    }

    /// Returns the number of requests by outcome since the daemon started.
    #[must_use]
    pub fn request_counts(&self) -> Vec<(&'static str, u64)> {
        self.0.counts.read()
    }

    /// Returns an enabled platform; `None` if it is disabled.
    pub(super) async fn channel(&self, platform: Platform) -> Result<Option<Arc<Channel>>, ChannelError> {
        Ok(self.0.adapters.find(platform).await?)
    }

    /// Enqueues a message in the transaction, at most once per key.
    pub(super) async fn send_in(
        &self,
        tx: &mut Tx,
        platform: Platform,
        details: &MessageDetails,
        text: &str,
        key: String,
        agent: Option<&str>,
    ) -> Result<(), StoreError> {
        let target = Target::Channel { platform: platform.id().to_owned(), channel: details.address.channel.clone() };
        let text = &text[..text.floor_char_boundary(MAX_ANSWER_BYTES)];
        let details = serde_json::to_value(details).unwrap_or_default();
        let mut message = Notification::new(target, "", text).idempotency_key(key).details(details);
        message.agent = agent.map(str::to_owned);
        match self.0.dependencies.notify.enqueue(tx, &message).await {
            Ok(_) => Ok(()),
            Err(NotifyError::Store(error)) => Err(error),
            Err(error) => {
                tracing::error!(%error, "failed to enqueue answer");
                Ok(())
            }
        }
    }
    /// Records the error of the last delivery, or clears it. A failure to record it is ignored.
    pub(crate) async fn record_outcome(&self, channel: &Channel, error: Option<String>) {
        let platform = channel.platform;
        let known = async {
            let states = store::list_states(&mut self.0.context.db.read().await?).await?;
            Ok::<_, ChannelError>(states.get(&platform).and_then(|state| state.last_error.clone()))
        };
        if known.await.is_ok_and(|known| known == error) {
            return;
        }
        let note = async move |tx: &mut Tx| store::record_error(tx, platform, error.as_deref()).await;
        if let Err(error) = self.0.context.db.write_relaxed(note).await {
            tracing::debug!(%error, "failed to record chat platform error");
        }
    }
}
