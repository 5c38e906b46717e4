//! Sending messages: stores the question and its reply, starts the turn, and implements the sink of the engine.

use std::sync::Arc;

use agentd_engine::agents::Agent;
use agentd_engine::engine::{
    ConversationSummary, EngineError, HistoryEntry, HistoryMessage, MAX_HISTORY_MESSAGES, Origin, OriginKind, Reply,
    SessionId, Settled, StartTurn, ToolUse, TurnSink, UnsummarizedHistory, find_running_in_conversation,
};
use agentd_store::{Recorder, StoreError, Tx};
use futures_util::future::{BoxFuture, LocalBoxFuture};

use super::super::error::ChatError;
use super::super::model::{
    Conversation, ConversationId, ExecutionMode, Message, MessageId, MessageStatus, Mode, Role, title_from,
};
use super::super::store::{self, TitleSource};
use super::{CHANNEL_TRANSCRIPT, Chat, TRANSCRIPT, require_text};

/// Maximum number of messages read as history. The engine summarizes the older half before a conversation reaches it.
const MAX_MESSAGES_READ: u32 = MAX_HISTORY_MESSAGES as u32 + 100;
/// Maximum number of attempts when the conversation changes concurrently.
const MAX_ATTEMPTS: u32 = 5;
const PLAN_NOTE: &str = "Propose a plan for what you are asked to do; do not carry it out.";

/// Message to be answered.
#[derive(Debug, Clone)]
pub struct SendMessage {
    pub content: String,
    /// A new conversation if `None`.
    pub conversation_id: Option<ConversationId>,
    /// Id or `svc_name` of the agent of a new conversation; must match the agent of an existing one.
    pub agent: Option<String>,
    /// Overrides the model of the agent and the settings.
    pub model: Option<String>,
    /// Execution mode of a new conversation; the owner's default if `None`.
    pub execution_mode: Option<ExecutionMode>,
    /// Id of the device that sends it, which can only use conversations it started; the owner if `None`.
    pub device: Option<String>,
    /// API key that authenticated the request.
    pub key_id: Option<String>,
    /// Set if the message came from a chat platform.
    pub channel: Option<ChannelTurn>,
}

/// Settings of a turn for a sender on a chat platform.
#[derive(Debug, Clone)]
pub struct ChannelTurn {
    pub tools: ToolUse,
    /// Note to the agent about the sender.
    pub note: String,
    /// Sender, unless the owner trusts everyone who can write there.
    pub unknown_sender: Option<String>,
    /// Source of third-party text that the message forwards or quotes.
    pub quoted_source: Option<String>,
}

impl SendMessage {
    fn unknown_sender(&self) -> Option<&str> {
        self.channel.as_ref().and_then(|channel| channel.unknown_sender.as_deref())
    }
}

/// Ids of a stored message and its reply, for the caller's part of the transaction.
#[derive(Debug, Clone)]
pub struct StartedReply {
    pub session: SessionId,
    pub conversation: ConversationId,
    pub message: MessageId,
}

/// Conversation that a message is sent to, with its history.
struct Destination {
    conversation: Conversation,
    agent: Arc<Agent>,
    history: Vec<HistoryEntry>,
    unsummarized: Option<UnsummarizedHistory>,
    is_new: bool,
}

/// Question and reply before they are stored.
struct Exchange {
    /// Conversation as it was read; it must not have changed since.
    conversation: Conversation,
    is_new: bool,
    question: Message,
    reply: Message,
}

/// Reason why an exchange was not stored.
enum OpenError {
    /// The conversation changed since it was read.
    Changed,
    Chat(ChatError),
}

impl<E: Into<ChatError>> From<E> for OpenError {
    fn from(error: E) -> Self {
        Self::Chat(error.into())
    }
}

impl Chat {
    /// Stores a message and starts its reply, whose events are in the session's log.
    ///
    /// # Errors
    /// `Invalid`, the conversation or agent is unknown, a reply is running, the budget is used up, no model is
    /// available, or the database fails. Nothing is stored then.
    pub async fn send(&self, message: SendMessage, recorder: Recorder<SessionId>) -> Result<SessionId, ChatError> {
        let record = async move |tx: &mut Tx, reply: &StartedReply| Ok(recorder.record(tx, &reply.session).await?);
        self.send_with(message, record).await
    }

    /// Sends a message with a caller-defined part of the transaction, which may run more than once.
    ///
    /// # Errors
    /// Same as [`send`](Self::send), or the error of `also`.
    pub async fn send_with<F>(&self, message: SendMessage, also: F) -> Result<SessionId, ChatError>
    where
        F: AsyncFn(&mut Tx, &StartedReply) -> Result<(), ChatError> + Clone + Send + 'static,
    {
        require_text("content", &message.content)?;
        for _ in 0..MAX_ATTEMPTS {
            let destination = self.resolve_destination(&message).await?;
            let (turn, exchange) = self.prepare(&message, destination);
            let also = also.clone();
            let open = async move |tx: &mut Tx, session: &SessionId| {
                let reply = exchange.store(tx, session).await?;
                Ok(also(tx, &reply).await?)
            };
            match self.0.engine.start(turn, open).await {
                Ok(session) => return Ok(session),
                Err(OpenError::Changed) => {}
                Err(OpenError::Chat(error)) => return Err(error),
            }
        }
        Err(ChatError::Contended)
    }

    async fn resolve_destination(&self, message: &SendMessage) -> Result<Destination, ChatError> {
        let wanted = match &message.agent {
            Some(name) => Some(self.0.agents.get(name).await?),
            None => None,
        };
        let Some(id) = &message.conversation_id else {
            let agent = match wanted {
                Some(agent) => agent,
                None => self.0.agents.default_agent().await?,
            };
            let mut conversation = self.new_conversation(agent.id.clone());
            conversation.execution_mode = message.execution_mode.unwrap_or(conversation.execution_mode);
            conversation.device_id.clone_from(&message.device);
            return Ok(Destination { conversation, agent, history: Vec::new(), unsummarized: None, is_new: true });
        };
        let mut read = self.0.context.db.read().await?;
        let found = store::find_conversation(&mut read, id).await?;
        // Tools run without approval in the owner's conversations, so a device must not send messages there.
        let is_accessible = |found: &Conversation| message.device.is_none() || found.device_id == message.device;
        let conversation = found.filter(is_accessible).ok_or_else(|| ChatError::no_conversation(id.as_str()))?;
        if wanted.is_some_and(|agent| agent.id != conversation.agent_id) {
            return Err(ChatError::invalid("agent_id", "must be the agent of this conversation; omit it"));
        }
        // Checked early, so that a rejected request does not call a model.
        if let Some(session_id) = find_running_in_conversation(&mut read, id.as_str()).await? {
            let conversation_id = id.to_string();
            return Err(EngineError::TurnInProgress { conversation_id, session_id }.into());
        }
        // Read after the revision: changes in between are detected when the message is stored.
        let summarized_through = conversation.summary_through;
        let messages = store::list_newest(&mut read, id, summarized_through, MAX_MESSAGES_READ).await?;
        let unsummarized = match messages.first() {
            Some(first) if first.position > summarized_through + 1 => {
                store::find_unsummarized(&mut read, id, summarized_through, first.position).await?
            }
            _ => None,
        };
        drop(read);
        let agent = self.0.agents.get(conversation.agent_id.as_str()).await?;
        let entry = |earlier: Message| HistoryEntry {
            key: Some(earlier.position),
            message: history_message(earlier, message.unknown_sender()),
        };
        let history = messages.into_iter().map(entry).collect();
        Ok(Destination { conversation, agent, history, unsummarized, is_new: false })
    }

    /// Builds the turn that answers a message, and the messages to store.
    fn prepare(&self, message: &SendMessage, destination: Destination) -> (StartTurn, Exchange) {
        let Destination { conversation, agent, mut history, unsummarized, is_new } = destination;
        let (channel, unknown_sender) = (message.channel.as_ref(), message.unknown_sender());
        if conversation.mode == Mode::Plan {
            history.push(HistoryMessage::Note(PLAN_NOTE.to_owned()).into());
        }
        history.extend(channel.map(|channel| HistoryMessage::Note(channel.note.clone()).into()));
        history.push(user_message(message.content.clone(), unknown_sender).into());
        let mut sources = conversation.summary_sources.clone();
        if let Some(source) = channel.and_then(|channel| channel.quoted_source.as_deref()) {
            sources.add(source);
        }
        let now = self.0.context.clock.now();
        let new_message = |role, position, content: String, status| Message {
            id: MessageId::generate(&self.0.context.ids),
            conversation_id: conversation.id.clone(),
            position: conversation.revision + position,
            role,
            content,
            rounds: Vec::new(),
            status,
            session_id: None,
            created_at: now,
            usage: None,
            is_untrusted: unknown_sender.is_some(),
        };
        let question = new_message(Role::User, 1, message.content.clone(), MessageStatus::Complete);
        let reply = new_message(Role::Assistant, 2, String::new(), MessageStatus::Running);
        let turn = StartTurn {
            agent,
            origin: match (channel, &message.device) {
                (Some(_), _) => Origin::of(OriginKind::Channel),
                (None, Some(_)) => Origin::of(OriginKind::Device),
                (None, None) => Origin::chat(message.key_id.clone()),
            },
            history,
            unsummarized,
            summary: conversation.summary.clone(),
            sources,
            model: message.model.clone(),
            project_id: conversation.project_id.as_ref().map(ToString::to_string),
            conversation_id: Some(conversation.id.to_string()),
            message_id: Some(reply.id.to_string()),
            sink: Some(if channel.is_some() { CHANNEL_TRANSCRIPT } else { TRANSCRIPT }),
            tools: channel.map_or_else(|| conversation.tool_use(), |channel| channel.tools.clone()),
            max_output_tokens: None,
            // Recalls only for the owner and trusted senders.
            recall: unknown_sender.is_none().then(|| message.content.clone()),
        };
        (turn, Exchange { conversation, is_new, question, reply })
    }
}

impl Exchange {
    async fn store(&self, tx: &mut Tx, session: &SessionId) -> Result<StartedReply, OpenError> {
        let Self { conversation, is_new, question, reply } = self;
        let title = title_from(&question.content);
        if *is_new {
            let new = Conversation { title, message_count: 2, revision: 2, ..conversation.clone() };
            store::insert_conversation(tx, &new, TitleSource::Rule).await?;
        } else {
            let (revision, now) = (conversation.revision, question.created_at);
            if !store::reserve_messages(tx, &conversation.id, revision, 2, &title, now).await? {
                return Err(OpenError::Changed);
            }
        }
        store::insert_exchange(tx, question, reply, session).await?;
        Ok(StartedReply { session: session.clone(), conversation: conversation.id.clone(), message: reply.id.clone() })
    }
}

/// Wraps a user's message. Text of an unknown sender is marked as untrusted.
fn user_message(text: String, unknown_sender: Option<&str>) -> HistoryMessage {
    match unknown_sender {
        Some(sender) => HistoryMessage::Untrusted { text, source: sender.to_owned() },
        None => HistoryMessage::User(text),
    }
}

fn history_message(message: Message, unknown_sender: Option<&str>) -> HistoryMessage {
    match message.role {
        Role::User if message.is_untrusted => user_message(message.content, Some("an unknown sender")),
        Role::User => user_message(message.content, unknown_sender),
        Role::Assistant if !message.rounds.is_empty() => HistoryMessage::AssistantWithTools(message.rounds),
        Role::Assistant => HistoryMessage::Assistant(message.content),
        Role::System => HistoryMessage::Note(message.content),
    }
}

impl TurnSink for Chat {
    fn name(&self) -> &'static str {
        TRANSCRIPT
    }

    fn settle<'t>(&'t self, tx: &'t mut Tx, reply: &'t Reply) -> LocalBoxFuture<'t, Result<Settled, StoreError>> {
        Box::pin(async move {
            let (Some(conversation), Some(message)) = (&reply.conversation_id, &reply.message_id) else {
                return Ok(Settled::Ended);
            };
            let now = tx.clock().now();
            let usage = self.0.engine.turn_usage(tx, &reply.session_id).await?;
            store::finish_reply(tx, conversation, message, reply, usage.as_ref(), now).await?;
            Ok(Settled::Ended)
        })
    }

    fn store_summary<'t>(
        &'t self,
        tx: &'t mut Tx,
        conversation_id: &'t str,
        summary: ConversationSummary<'t>,
    ) -> LocalBoxFuture<'t, Result<(), StoreError>> {
        Box::pin(store::set_summary(tx, conversation_id, summary))
    }

    fn messages_between<'t>(
        &'t self,
        conversation_id: &'t str,
        after: u64,
        before: u64,
    ) -> BoxFuture<'t, Result<Vec<(u64, HistoryMessage)>, StoreError>> {
        Box::pin(async move {
            let mut read = self.0.context.db.read().await?;
            let messages = store::list_between(&mut read, conversation_id, after, before).await?;
            Ok(messages.into_iter().map(|message| (message.position, history_message(message, None))).collect())
        })
    }
}
