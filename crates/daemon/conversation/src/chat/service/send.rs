//! Sending a message: the question and its reply, the turn that writes it, and what the engine asks of the conversation
//! while that turn runs.

use std::sync::Arc;

use agentd_engine::agents::Agent;
use agentd_engine::engine::{
    ConversationSummary, EngineError, HistoryEntry, HistoryMessage, MAX_HISTORY, Origin, OriginKind, Reply, SessionId,
    Settled, StartTurn, ToolUse, TurnSink, Unread, find_running_in_conversation,
};
use agentd_store::{Recorder, StoreError, Tx};
use futures_util::future::{BoxFuture, LocalBoxFuture};

use super::super::error::ChatError;
use super::super::model::{
    Conversation, ConversationId, ExecutionMode, Message, MessageId, MessageStatus, Mode, Role, title_from,
};
use super::super::store::{self, TitleSource};
use super::{CHANNEL_TRANSCRIPT, Chat, TRANSCRIPT, require_text};

/// Maximum number of messages that are read as the history. The engine makes a summary of the older half before a
/// conversation has that many.
const HISTORY_MESSAGES: u32 = MAX_HISTORY as u32 + 100;
/// How often a conversation that changed meanwhile is read again.
const MAX_ATTEMPTS: u32 = 5;
const PLAN_NOTE: &str = "Propose a plan for what you are asked to do; do not carry it out.";

/// A message that is to be answered.
#[derive(Debug, Clone)]
pub struct SendMessage {
    pub content: String,
    /// `None`: a new one.
    pub conversation_id: Option<ConversationId>,
    /// Id or `svc_name`, for a new conversation; of an existing one it must be the agent.
    pub agent: Option<String>,
    /// Goes before the agent's and the settings' model.
    pub model: Option<String>,
    /// For a new conversation; `None`: as the owner's conversations begin.
    pub execution_mode: Option<ExecutionMode>,
    /// The id of the device that says it: it knows the conversations that it began, and no others. `None`: the owner.
    pub device: Option<String>,
    /// The API key with which it is sent.
    pub key_id: Option<String>,
    /// Came over a chat platform, by this; `None`: it did not.
    pub channel: Option<ChannelTurn>,
}

/// What a turn for somebody on a chat platform goes by.
#[derive(Debug, Clone)]
pub struct ChannelTurn {
    pub tools: ToolUse,
    /// What the agent is told of whom it talks to.
    pub note: String,
    /// Who wrote, unless the owner trusts everybody who wrote there.
    pub unknown_sender: Option<String>,
    /// Where words of others come from that the message forwards or answers.
    pub quoted_source: Option<String>,
}

impl SendMessage {
    fn unknown_sender(&self) -> Option<&str> {
        self.channel.as_ref().and_then(|channel| channel.unknown_sender.as_deref())
    }
}

/// What a message came to, for who writes more in the same transaction.
#[derive(Debug, Clone)]
pub struct StartedReply {
    pub session: SessionId,
    pub conversation: ConversationId,
    pub message: MessageId,
}

/// Where a message goes.
struct Destination {
    conversation: Conversation,
    agent: Arc<Agent>,
    history: Vec<HistoryEntry>,
    unread: Option<Unread>,
    is_new: bool,
}

/// A question and its reply, before they are stored.
struct Exchange {
    /// As it was read: it must not have changed since.
    conversation: Conversation,
    is_new: bool,
    question: Message,
    reply: Message,
}

/// Why an exchange was not stored.
enum OpenError {
    /// The conversation is not what was read.
    Changed,
    Chat(ChatError),
}

impl<E: Into<ChatError>> From<E> for OpenError {
    fn from(error: E) -> Self {
        Self::Chat(error.into())
    }
}

impl Chat {
    /// Stores a message and starts its reply, which the session's log shows.
    ///
    /// # Errors
    /// `Invalid`, an unknown conversation or agent, a running reply, a used-up budget, no model, or
    /// the store's refusal. Then nothing was stored.
    pub async fn send(&self, message: SendMessage, recorder: Recorder<SessionId>) -> Result<SessionId, ChatError> {
        let record = async move |tx: &mut Tx, reply: &StartedReply| Ok(recorder.record(tx, &reply.session).await?);
        self.send_with(message, record).await
    }

    /// The same, with the caller's own part of the transaction. It may run more than once.
    ///
    /// # Errors
    /// As [`send`](Self::send), or what `also` returns.
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
            let mut conversation = self.blank(agent.id.clone());
            conversation.execution_mode = message.execution_mode.unwrap_or(conversation.execution_mode);
            conversation.device_id.clone_from(&message.device);
            return Ok(Destination { conversation, agent, history: Vec::new(), unread: None, is_new: true });
        };
        let mut read = self.0.context.db.read().await?;
        let found = store::find_conversation(&mut read, id).await?;
        // The owner's run their tools without asking: what a device says there would, too.
        let is_its_own = |found: &Conversation| message.device.is_none() || found.device_id == message.device;
        let conversation = found.filter(is_its_own).ok_or_else(|| ChatError::no_conversation(id.as_str()))?;
        if wanted.is_some_and(|agent| agent.id != conversation.agent_id) {
            return Err(ChatError::invalid("agent_id", "is not the agent of this conversation; leave it out"));
        }
        // Asked before a model is: a call that is refused anyway costs nothing.
        if let Some(session_id) = find_running_in_conversation(&mut read, id.as_str()).await? {
            let conversation_id = id.to_string();
            return Err(EngineError::TurnInProgress { conversation_id, session_id }.into());
        }
        // Read after the revision: what changes in between is noticed when the message is stored.
        let summarised = conversation.summary_through;
        let messages = store::list_newest(&mut read, id, summarised, HISTORY_MESSAGES).await?;
        let unread = match messages.first() {
            Some(first) if first.position > summarised + 1 => {
                store::find_unread(&mut read, id, summarised, first.position).await?
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
        Ok(Destination { conversation, agent, history, unread, is_new: false })
    }

    /// The turn that answers a message, and what is stored of it.
    fn prepare(&self, message: &SendMessage, destination: Destination) -> (StartTurn, Exchange) {
        let Destination { conversation, agent, mut history, unread, is_new } = destination;
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
            unread,
            summary: conversation.summary.clone(),
            sources,
            model: message.model.clone(),
            project_id: conversation.project_id.as_ref().map(ToString::to_string),
            conversation_id: Some(conversation.id.to_string()),
            message_id: Some(reply.id.to_string()),
            transcript: Some(if channel.is_some() { CHANNEL_TRANSCRIPT } else { TRANSCRIPT }),
            tools: channel.map_or_else(|| conversation.tool_use(), |channel| channel.tools.clone()),
            max_output_tokens: None,
            // What is remembered is for the owner, and for whom the owner let in.
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

/// What a user wrote. In a chat with an unknown sender nothing of it is the owner's.
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
        Role::Assistant if !message.rounds.is_empty() => HistoryMessage::Worked(message.rounds),
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
            store::settle_reply(tx, conversation, message, reply, usage.as_ref(), now).await?;
            Ok(Settled::Ended)
        })
    }

    fn keep_summary<'t>(
        &'t self,
        tx: &'t mut Tx,
        conversation_id: &'t str,
        summary: ConversationSummary<'t>,
    ) -> LocalBoxFuture<'t, Result<(), StoreError>> {
        Box::pin(store::set_summary(tx, conversation_id, summary))
    }

    fn said_between<'t>(
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
