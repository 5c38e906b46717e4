//! Sending a message: the question and its reply, and the turn that writes it.

use std::sync::Arc;

use agentd_engine::agents::Agent;
use agentd_engine::engine::{
    EngineError, HistoryMessage, MAX_HISTORY, Origin, OriginKind, SessionId, StartTurn, ToolUse, Unread,
    find_running_in_conversation,
};
use agentd_store::{Recorder, Tx};

use super::super::error::ChatError;
use super::super::model::{Conversation, ConversationId, ExecutionMode, Message, MessageId, MessageStatus, Mode, Role};
use super::super::store::{self, TitleSource};
use super::super::title::title_from;
use super::{CHANNEL_TRANSCRIPT, Chat, TRANSCRIPT, require_text};

/// More of a conversation is not read at once. The engine makes a summary of the older half before it has so many.
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
    history: Vec<HistoryMessage>,
    /// The position of each.
    keys: Vec<u64>,
    unread: Option<Unread>,
    is_new: bool,
}

/// The transaction's part of ours: why it gave up.
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
    /// As [`send`](Self::send), or what `with` answers.
    pub async fn send_with<F>(&self, message: SendMessage, with: F) -> Result<SessionId, ChatError>
    where
        F: AsyncFn(&mut Tx, &StartedReply) -> Result<(), ChatError> + Clone + Send + 'static,
    {
        require_text("content", &message.content)?;
        for _ in 0..MAX_ATTEMPTS {
            let place = self.find_place(&message).await?;
            match self.start(&message, place, with.clone()).await {
                Ok(session) => return Ok(session),
                Err(OpenError::Changed) => {}
                Err(OpenError::Chat(error)) => return Err(error),
            }
        }
        Err(ChatError::Contended)
    }

    async fn find_place(&self, message: &SendMessage) -> Result<Destination, ChatError> {
        let wanted = match &message.agent {
            Some(name) => Some(self.named_agent(name).await?),
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
            return Ok(Destination {
                conversation,
                agent,
                history: Vec::new(),
                keys: Vec::new(),
                unread: None,
                is_new: true,
            });
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
        let keys = messages.iter().map(|message| message.position).collect();
        let history = messages.into_iter().map(history_message).collect();
        Ok(Destination { conversation, agent, history, keys, unread, is_new: false })
    }

    async fn start<F>(&self, message: &SendMessage, place: Destination, with: F) -> Result<SessionId, OpenError>
    where
        F: AsyncFn(&mut Tx, &StartedReply) -> Result<(), ChatError> + Send + 'static,
    {
        let Destination { conversation, agent, mut history, keys, unread, is_new } = place;
        if conversation.mode == Mode::Plan {
            history.push(HistoryMessage::Note(PLAN_NOTE.to_owned()));
        }
        if let Some(channel) = &message.channel {
            history.push(HistoryMessage::Note(channel.note.clone()));
        }
        let unknown_sender = message.channel.as_ref().and_then(|channel| channel.unknown_sender.as_deref());
        let mut sources = conversation.summary_sources.clone();
        message.channel.iter().filter_map(|channel| channel.quoted_source.as_deref()).for_each(|of| sources.add(of));
        history.push(HistoryMessage::User(message.content.clone()));
        if let Some(sender) = unknown_sender {
            history = history.into_iter().map(|message| distrust(message, sender)).collect();
        }
        let now = self.0.context.clock.now();
        let title = title_from(&message.content);
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
            origin: match (&message.channel, &message.device) {
                (Some(_), _) => Origin::of(OriginKind::Channel),
                (None, Some(_)) => Origin::of(OriginKind::Device),
                (None, None) => Origin::chat(message.key_id.clone()),
            },
            history,
            keys,
            unread,
            summary: conversation.summary.clone(),
            sources,
            model: message.model.clone(),
            project_id: conversation.project_id.as_ref().map(ToString::to_string),
            conversation_id: Some(conversation.id.to_string()),
            message_id: Some(reply.id.to_string()),
            transcript: Some(if message.channel.is_some() { CHANNEL_TRANSCRIPT } else { TRANSCRIPT }),
            tools: message.channel.as_ref().map_or_else(|| conversation.tool_use(), |channel| channel.tools.clone()),
            max_output_tokens: None,
            // What is remembered is for the owner, and for whom the owner let in.
            recall: unknown_sender.is_none().then(|| message.content.clone()),
        };
        let open = async move |tx: &mut Tx, session: &SessionId| {
            if is_new {
                let new = Conversation { title: title.clone(), message_count: 2, revision: 2, ..conversation.clone() };
                store::insert_conversation(tx, &new, TitleSource::Rule).await?;
            } else if !store::reserve_messages(tx, &conversation.id, conversation.revision, 2, &title, now).await? {
                return Err(OpenError::Changed);
            }
            let question = Message { session_id: Some(session.clone()), ..question.clone() };
            let reply = Message { session_id: Some(session.clone()), ..reply.clone() };
            store::insert_exchange(tx, &question, &reply).await?;
            let started = StartedReply {
                session: session.clone(),
                conversation: conversation.id.clone(),
                message: reply.id.clone(),
            };
            Ok(with(tx, &started).await?)
        };
        self.0.engine.start(turn, open).await
    }
}

/// In a chat with an unknown sender nothing that was asked is the owner's.
fn distrust(message: HistoryMessage, sender: &str) -> HistoryMessage {
    match message {
        HistoryMessage::User(text) => HistoryMessage::Untrusted { text, source: sender.to_owned() },
        other => other,
    }
}

pub(super) fn history_message(message: Message) -> HistoryMessage {
    match message.role {
        Role::User if message.is_untrusted => {
            HistoryMessage::Untrusted { text: message.content, source: "an unknown sender".to_owned() }
        }
        Role::User => HistoryMessage::User(message.content),
        Role::Assistant if !message.rounds.is_empty() => HistoryMessage::Worked(message.rounds),
        Role::Assistant => HistoryMessage::Assistant(message.content),
        Role::System => HistoryMessage::Note(message.content),
    }
}
