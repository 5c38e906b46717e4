//! Chat platforms: users write to an agent on the platforms they use and are answered there.
//!
//! | status of a message | next step |
//! |---|---|
//! | `pending` | its turn starts when earlier messages of its chat are answered and the provider has a permit |
//! | `running` | the turn is running or waits for an approval |
//! | `answered` | none; the answer is a notification with its own delivery status |
//! | `failed` | none; there was no answer, and the sender was informed |
//! | `dropped` | none; the channel was disabled meanwhile |
//!
//! Invariants
//! - A request is verified as its platform documents before anything of it is parsed or stored.
//! - A message is one row per platform and message id, stored before the platform gets its response, so a repeated
//!   delivery has only one turn. Completing the queue item, updating the row and creating the session are one
//!   transaction; so are ending the turn and enqueueing the answer.
//! - A message received over a connection is acknowledged after it was stored. One daemon holds a connection under a
//!   lease; its successor resumes where it stopped (`service/connect.rs`).
//! - Unknown senders get a pairing code unless the owner configured otherwise, and their messages do not reach a model.
//!   If untrusted senders write in a chat, all of its text is enclosed in markers that outsiders cannot guess.
//! - A turn may use read-only tools and the tools configured for the channel. Tools with side effects request approval
//!   in the chat, and only the platform's owner can answer, in that chat and on that message (`service/approvals.rs`).
//! - Files of trusted senders are fetched before the turn starts, if the channel's `attachments` is on. A file that
//!   cannot be fetched does not block the turn.
//! - A turn that takes long is announced once in the chat.
//! - A chat or thread is one conversation, and its messages are answered one after the other.
//! - The settings of all platforms form the section `channels`. Credentials are write-only and stored in the vault
//!   under their path (`discord.bot_token`).
//! - Limits apply to messages per minute of a sender and of a platform, waiting turns, open pairing codes, and
//!   retention of messages.
//!
//! Not part of this module: the protocols of the platforms (crate `chat-platforms`), retries of deliveries (`notify`),
//! and the storage of conversations (`chat`).

mod error;
mod model;
mod routes;
mod service;
mod store;
mod transport;
mod turns;
mod worker;

use std::sync::Arc;
use std::time::Duration;

use agentd_core::parts::{Domain, DomainParts, ShutdownPhase, ShutdownStep};
use agentd_core::runtime::{Binding, Family, MetricList, PurgeWorker, QueueWorker, Sample};
use agentd_engine::agents::AgentDataOwner;
use agentd_engine::engine::TurnSink;

use routes::routes;
use transport::transports;
use worker::{KeepConnections, ReportProgress, RequestApprovals, StartTurns};

pub use error::ChannelError;
pub use model::{
    ApprovedSender, ApprovedSenders, ChannelMode, ChannelRules, ChannelSettings, DiscordSettings, GoogleChatSettings,
    GroupPolicy, Pairing, SenderPolicy, SlackSettings, TeamsSettings, TelegramSettings, WhatsappSettings,
};
pub use service::{ChannelDependencies, ChannelStatus, ChannelSummary, Channels};
pub use store::ValidateChannels;

/// Time limit for returning messages that wait for a provider permit to the queue.
const DRAIN_LIMIT: Duration = Duration::from_secs(1);

impl Domain for Channels {
    fn parts(&self) -> DomainParts {
        let mut bindings = vec![
            Binding::new::<dyn AgentDataOwner>(Arc::new(self.clone())),
            Binding::new::<dyn TurnSink>(Arc::new(self.clone())),
        ];
        bindings.extend(transports(self).map(Binding::new));
        DomainParts {
            routes: routes().with_state(self.clone()),
            workers: vec![
                Box::new(QueueWorker(StartTurns(self.clone()))),
                Box::new(RequestApprovals(self.clone())),
                Box::new(ReportProgress(self.clone())),
                Box::new(KeepConnections(self.clone())),
                Box::new(PurgeWorker(self.clone())),
            ],
            metrics: self.metrics(),
            bindings,
            shutdown: vec![ShutdownStep::new(ShutdownPhase::Queues, self, async |channels, _| {
                channels.drain(DRAIN_LIMIT).await
            })],
        }
    }
}

impl Channels {
    fn metrics(&self) -> MetricList {
        let mut metrics = MetricList::default();
        let help = "Messages of chat platforms and rejected requests by outcome (accepted, \
                    repeated, unsigned, disabled, rate_limited, overloaded, invalid, failed), since the daemon started.";
        let family = Family::counter("svc_channel_messages_total", help).by(&["outcome"]);
        metrics.read(family, self, async |channels| Ok(Sample::each(channels.request_counts())));
        metrics
    }
}
