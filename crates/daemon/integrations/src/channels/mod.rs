//! Chat platforms: people write to an agent where they already are, and are answered there.
//!
//! | status of a message | what happens next |
//! |---|---|
//! | `pending` | its turn begins when those before it in its chat are answered and there is a permit at the provider |
//! | `running` | the turn is under way, or waits for an approval |
//! | `answered` | nothing: the answer is a notification, which says whether it went out |
//! | `failed` | nothing: there was no answer, and the sender was told |
//! | `dropped` | nothing: the channel was switched off meanwhile |
//!
//! Invariants
//! - Nothing is read of a request, or kept, before it is verified as its platform documents it.
//! - A message is one row for its platform and its id, stored before the platform is answered; however often it comes,
//!   it has one turn. The end of its place in the queue, its row and the turn's session are one transaction; so are the
//!   end of the turn and the answer that is to be sent.
//! - What comes by a connection that the daemon opened is acknowledged after it was stored; one daemon holds it, under
//!   a lease, and whoever takes it over goes on where it was (`service/connect.rs`).
//! - A stranger is met with a pairing code unless the owner decided otherwise; what strangers write reaches no model,
//!   and where somebody wrote whom the owner did not let in, all that was said stands between marks that nobody outside
//!   can know.
//! - The turn has the tools that change nothing, and those that the channel names. What acts asks in the chat, and only
//!   the owner of the platform may answer, there and on that message (`service/approvals.rs`).
//! - Files are fetched of those whom the owner let in, where a channel's `attachments` is on, before the turn begins; that
//!   one cannot be had holds up no turn.
//! - Of a turn that takes long the chat hears once that it goes on.
//! - A chat or a thread is one conversation, and its messages are answered one after the other.
//! - Settings of all platforms are one section of the settings, `channels`; credentials are write-only and kept in the
//!   vault under their path (`discord.bot_token`).
//! - Bounded: messages a minute of one sender and of a platform, how many turns wait, open codes, and how long messages
//!   are kept.
//!
//! Deliberately absent: what platforms' requests look like (the crate `chat-platforms`), sending again (`notify`), and
//! keeping what was said (`chat`).

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
use agentd_engine::agents::OwnsAgentData;
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

/// Messages that wait for a permit at a provider are given back within this time.
const DRAIN_LIMIT: Duration = Duration::from_secs(1);

impl Domain for Channels {
    fn parts(&self) -> DomainParts {
        let mut bindings = vec![
            Binding::new::<dyn OwnsAgentData>(Arc::new(self.clone())),
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
            shutdown: vec![ShutdownStep::new(ShutdownPhase::Waiting, self, async |channels, _| {
                channels.drain(DRAIN_LIMIT).await
            })],
        }
    }
}

impl Channels {
    fn metrics(&self) -> MetricList {
        let mut metrics = MetricList::default();
        let help = "Messages of chat platforms, and requests that were refused, by what became of them (accepted, \
                    repeated, unsigned, disabled, rate_limited, overloaded, invalid, failed), since the daemon started.";
        let family = Family::counter("svc_channel_messages_total", help).by(&["outcome"]);
        metrics.read(family, self, async |channels| Ok(Sample::each(channels.request_counts())));
        metrics
    }
}
