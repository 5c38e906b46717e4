//! What can be done with channels.

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

/// Messages that one daemon holds while their turns wait for a permit; more than this stay for others, and for later.
const MOST_HELD: usize = 128;
/// Maximum length of a sender's name or id in a text.
const MAX_NAME_CHARACTERS: usize = 100;
/// The most of an answer that is sent.
const MAX_ANSWER_BYTES: usize = 200 * 1024;

/// What channels are built on.
#[derive(Debug, Clone)]
pub struct ChannelDependencies {
    pub settings: Settings,
    pub agents: Agents,
    pub engine: Engine,
    pub chat: Chat,
    pub tools: Tools,
    pub notify: Notify,
    /// How the daemon is reached from outside, without a slash at the end.
    pub base_url: String,
    /// The same, if it was configured: only then can users open it.
    pub public_url: Option<String>,
}

struct Inner {
    context: AppContext,
    uses: ChannelDependencies,
    adapters: Adapters,
    admission: BTreeMap<Platform, RateLimiter<String>>,
    /// Pairing codes that replace another one.
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

/// The name of a sender, or else the id, in one line. Longer ones are cut.
fn plain_name(sender: &Sender) -> String {
    let name = if sender.name.trim().is_empty() { &sender.id } else { &sender.name };
    plain(name)
}

/// Text that a sender chose, in one line that ends no inline code. Longer texts are cut.
fn plain(text: &str) -> String {
    let one_line = text.replace(['`', '\n', '\t'], " ");
    visible::escape(&one_line).chars().take(MAX_NAME_CHARACTERS).collect()
}

impl Channels {
    pub fn new(context: &AppContext, uses: ChannelDependencies) -> Detached<Self> {
        Detached::new(Self(Arc::new(Inner {
            context: context.clone(),
            adapters: Adapters::new(uses.settings.clone(), context.clock.clone(), uses.base_url.clone()),
            admission: Platform::ALL.map(|platform| (platform, RateLimiter::new(LIMITS))).into(),
            evictions: RateLimiter::new(EVICTION_LIMITS),
            uses,
            counts: OutcomeCounts::default(),
            queue: WorkQueue::new(context, QUEUE, MOST_HELD),
            progress_due: NextDue::default(),
            connections: Connections::default(),
        })))
    }

    pub(super) fn context(&self) -> &AppContext {
        &self.0.context
    }

    pub(super) fn uses(&self) -> &ChannelDependencies {
        &self.0.uses
    }

    pub(super) fn queue(&self) -> &WorkQueue {
        &self.0.queue
    }

    /// When the next turn is to be reported on, if none ends.
    pub(super) fn progress_due(&self) -> &NextDue {
        &self.0.progress_due
    }

    /// What became of requests since the daemon started, by outcome.
    #[must_use]
    pub fn request_counts(&self) -> Vec<(&'static str, u64)> {
        self.0.counts.read()
    }

    /// A platform that is turned on; `None` while it is off.
    pub(super) async fn channel(&self, platform: Platform) -> Result<Option<Arc<Channel>>, ChannelError> {
        Ok(self.0.adapters.find(platform).await?)
    }

    /// Sends something there once the transaction has committed; once for each key.
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
        match self.0.uses.notify.enqueue(tx, &message).await {
            Ok(_) => Ok(()),
            Err(NotifyError::Store(error)) => Err(error),
            Err(error) => {
                tracing::error!(%error, "an answer cannot be sent");
                Ok(())
            }
        }
    }
    /// Keeps what went wrong when something was last sent. That it cannot be kept stops nothing.
    pub(crate) async fn note_outcome(&self, channel: &Channel, error: Option<String>) {
        let platform = channel.platform;
        let known = async {
            let states = store::list_states(&mut self.0.context.db.read().await?).await?;
            Ok::<_, ChannelError>(states.get(&platform).and_then(|state| state.last_error.clone()))
        };
        if known.await.is_ok_and(|known| known == error) {
            return;
        }
        let note = async move |tx: &mut Tx| store::note_error(tx, platform, error.as_deref()).await;
        if let Err(error) = self.0.context.db.write_relaxed(note).await {
            tracing::debug!(%error, "what a chat platform said could not be kept");
        }
    }
}
