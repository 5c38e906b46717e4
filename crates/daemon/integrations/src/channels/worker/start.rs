//! Starts the turns of messages, each as soon as earlier messages of its chat are answered and the agent's provider has
//! a permit. Also runs commands in messages.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::Backoff;
use agentd_conversation::chat::{ChatError, ConversationId, ExecutionMode, SendMessage, StartedReply};
use agentd_core::runtime::{AppContext, ItemFailure, ItemHandler, WorkQueue};
use agentd_engine::agents::{Agent, AgentError};
use agentd_engine::engine::{EngineError, SessionId, cancel_in_conversation};
use agentd_store::{Lease, StoreError, Tx};
use serde::Deserialize;

use crate::channels::error::ChannelError;
use crate::channels::model::{ChannelMessage, ChannelMessageId, Command, FetchedFile, FinalStatus, MessageDetails};
use crate::channels::service::{Album, Channel, Channels};
use crate::channels::store;
use crate::channels::turns;

/// Interval at which a message that waits for earlier ones is checked.
const RECHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Age after which a message that cannot be started fails, because its sender no longer expects an answer.
const MAX_MESSAGE_AGE: Duration = Duration::from_secs(30 * 60);
const BACKOFF: Backoff =
    Backoff { base: Duration::from_secs(2), multiplier: 2.0, cap: Duration::from_secs(60), jitter: 0.2 };
const HELP: &str = "Send me a message, and I reply here.\n\n- `/new` starts a new conversation without the previous \
                    context.\n- `/stop` stops the current task.\n- `approve 123456` and `reject 123456` decide an \
                    approval by its code, if you are the owner.\n- `/help` shows this message.";
/// Lifetime of a typing indicator on most platforms is about five seconds.
const TYPING_INTERVAL: Duration = Duration::from_secs(4);
/// Maximum duration of the typing indicator; the answer is still sent after it.
const MAX_TYPING_DURATION: Duration = Duration::from_secs(600);

#[derive(Debug, Clone)]
pub(crate) struct StartTurns(pub Channels);

type Failure = ItemFailure<FinalStatus>;

#[derive(Deserialize)]
pub(crate) struct Payload {
    message_id: ChannelMessageId,
}

fn wait_for_earlier() -> Failure {
    Failure::retry_after(RECHECK_INTERVAL, "earlier messages of the chat are not answered yet")
}

impl ItemHandler for StartTurns {
    type Item = Payload;
    type End = FinalStatus;
    const WORKER: &'static str = "channels.start";
    const DESCRIPTION: &'static str = "Starts turns for messages of chat platforms.";
    const LEASE: Duration = Duration::from_secs(15);

    fn context(&self) -> &AppContext {
        self.0.context()
    }

    fn queue(&self) -> &WorkQueue {
        self.0.queue()
    }

    /// Starts the turn of a message. Completing the queue item, updating the message and creating the session are one
    /// transaction.
    async fn handle(&self, lease: &Lease, Payload { message_id }: &Payload) -> Result<(), Failure> {
        let channels = &self.0;
        let Some((mut message, is_first)) = find_work(channels, message_id).await? else {
            return self.complete(lease).await;
        };
        if let Some(command) = message.command() {
            return Ok(run_command(channels, lease, message, command).await?);
        }
        let off =
            || Failure::permanent(FinalStatus::Dropped, "the channel was disabled before the message was answered");
        let channel = channels.channel(message.platform).await?.ok_or_else(off)?;
        if !is_first {
            return Err(wait_for_earlier());
        }
        if message.album.is_some() {
            match channels.join_album(&message).await? {
                Album::Joined(joined) => message = *joined,
                Album::Incomplete(wait) => {
                    return Err(Failure::retry_after(wait, "more parts of the album may arrive"));
                }
                Album::Unaddressed => return self.complete(lease).await,
            }
        }
        let agent = resolve_agent(channels, &channel).await?;
        let files = self.run_until_lost(lease, fetch_files(channels, &channel, &agent, &message)).await?;
        let client = message.client();
        let permit =
            self.run_until_lost(lease, channels.dependencies().engine.background_permit(&client, &agent, None)).await?;
        // The state may have changed while waiting for the permit.
        let Some((message, _)) = find_work(channels, message_id).await? else {
            return self.complete(lease).await;
        };
        let session = start(channels, lease, &channel, &agent, &message, &files).await?;
        channels.dependencies().engine.hold_until_released(permit, session.clone());
        tokio::spawn(show_typing(channels.clone(), channel, message, session));
        Ok(())
    }

    async fn record_failure(
        &self,
        tx: &mut Tx,
        lease: &Lease,
        Payload { message_id }: &Payload,
        failure: &Failure,
    ) -> Result<(), StoreError> {
        let error = &failure.message;
        let Some(message) = store::find_pending(tx, message_id).await? else { return tx.complete(lease).await };
        if let Some(end) = failure.end {
            tx.complete(lease).await?;
            return store::update_ended(tx, message_id, end, Some(error)).await;
        }
        if tx.clock().now().since(message.received_at) < MAX_MESSAGE_AGE {
            return failure.retry(tx, lease, &BACKOFF).await;
        }
        tx.complete(lease).await?;
        store::update_ended(tx, message_id, FinalStatus::Failed, Some(error)).await?;
        let details = MessageDetails::new(message.reply_to.clone());
        let reply_text = "I could not answer this message. The owner can find the reason in the log.";
        tracing::warn!(message = %message_id, error, "chat platform message failed");
        self.0.send_in(tx, message.platform, &details, reply_text, format!("channel:{message_id}"), None).await
    }
}

/// Runs a command and completes the queue item.
async fn run_command(
    channels: &Channels,
    lease: &Lease,
    message: ChannelMessage,
    command: Command,
) -> Result<(), ChannelError> {
    let decided = match command {
        Command::Decide { is_approved, code } => channels.decide_by_code(&message, code, is_approved).await?,
        Command::New | Command::Stop | Command::Help => String::new(),
    };
    let (this, lease) = (channels.clone(), lease.clone());
    let work = async move |tx: &mut Tx| {
        tx.complete(&lease).await?;
        let text = match command {
            Command::Help => HELP,
            Command::New => {
                store::delete_conversation(tx, message.platform, &message.chat).await?;
                "Your next message starts a new conversation."
            }
            Command::Stop => {
                if let Some(running) = store::find_conversation(tx, message.platform, &message.chat).await? {
                    cancel_in_conversation(tx, &running).await?;
                }
                "Stopped."
            }
            Command::Decide { .. } => &decided,
        };
        store::update_ended(tx, &message.id, FinalStatus::Answered, None).await?;
        let details = MessageDetails::new(message.reply_to.clone());
        this.send_in(tx, message.platform, &details, text, format!("channel:{}", message.id), None).await
    };
    Ok(channels.context().db.write::<_, StoreError, _>(work).await?)
}

async fn start(
    channels: &Channels,
    lease: &Lease,
    channel: &Channel,
    agent: &Arc<Agent>,
    message: &ChannelMessage,
    files: &[FetchedFile],
) -> Result<SessionId, Failure> {
    let mut read = channels.context().db.read().await?;
    let known = store::find_conversation(&mut read, message.platform, &message.chat).await?;
    let is_trusted = message.is_trusted && !store::has_untrusted(&mut read, message).await?;
    drop(read);
    let send = async |conversation: Option<String>| {
        let wanted = SendMessage {
            content: message.text(files),
            conversation_id: conversation.map(ConversationId::from),
            agent: Some(agent.id.to_string()),
            model: None,
            execution_mode: Some(ExecutionMode::ApprovalRequired),
            device: None,
            key_id: None,
            channel: Some(turns::turn(message, &channel.rules, is_trusted)),
        };
        let (held, message, agent) = (lease.clone(), message.clone(), agent.id.clone());
        let also = async move |tx: &mut Tx, reply: &StartedReply| {
            tx.complete(&held).await?;
            if !store::update_started(tx, &message.id, &agent, reply).await? {
                return Err(ChatError::Contended);
            }
            Ok(store::put_conversation(tx, &message, reply.conversation.as_str()).await?)
        };
        channels.dependencies().chat.send_with(wanted, also).await
    };
    let sent = match send(known).await {
        // The conversation was deleted, or the channel has another agent now.
        Err(ChatError::ConversationNotFound { .. } | ChatError::Invalid { .. }) => send(None).await,
        sent => sent,
    };
    sent.map_err(|error| match error {
        ChatError::Engine(EngineError::TurnInProgress { .. }) => wait_for_earlier(),
        error => error.into(),
    })
}

/// Fetches the message's files, unless the daemon drains meanwhile.
async fn fetch_files(
    channels: &Channels,
    channel: &Channel,
    agent: &Agent,
    message: &ChannelMessage,
) -> Result<Vec<FetchedFile>, Failure> {
    tokio::select! {
        files = channels.fetch_files(channel, agent, message) => Ok(files),
        () = channels.context().draining.cancelled() => Err(EngineError::Draining.into()),
    }
}

/// Returns the pending message and whether it is the first of its chat; `None` if nothing is left to do.
async fn find_work(channels: &Channels, id: &ChannelMessageId) -> Result<Option<(ChannelMessage, bool)>, StoreError> {
    let mut read = channels.context().db.read().await?;
    let Some(message) = store::find_pending(&mut read, id).await? else { return Ok(None) };
    let is_first = !store::has_earlier(&mut read, &message).await?;
    Ok(Some((message, is_first)))
}

async fn resolve_agent(channels: &Channels, channel: &Channel) -> Result<Arc<Agent>, AgentError> {
    let agents = &channels.dependencies().agents;
    Ok(match &channel.rules.agent_id {
        Some(name) => agents.get(name).await?,
        None => agents.default_agent().await?,
    })
}

/// Shows a typing indicator until the answer is ready. Errors are ignored.
async fn show_typing(channels: Channels, channel: Arc<Channel>, message: ChannelMessage, session: SessionId) {
    let shown = async {
        while channel.adapter.show_typing(&message.reply_to).await.is_ok() {
            tokio::time::sleep(TYPING_INTERVAL).await;
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = channels.dependencies().engine.wait_until_released(&session) => {}
        () = channels.context().draining.cancelled() => {}
        () = tokio::time::sleep(MAX_TYPING_DURATION) => {}
        () = shown => {}
    }
}
