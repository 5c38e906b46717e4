//! Operations on conversations.

mod deletion;
mod send;
mod sessions;
mod welcome;

use std::sync::Arc;

use agentd_base::{Page, Patch, Timestamp};
use agentd_core::parts::Detached;
use agentd_core::runtime::AppContext;
use agentd_engine::agents::{AgentError, AgentId, Agents};
use agentd_engine::engine::{
    Engine, SessionEvent, SessionId, Sources, cancel_in_conversation, find_running_in_conversation,
};
use agentd_engine::projects::Projects;
use agentd_store::{Recorder, StoreError, Tx};
use futures_util::Stream;
use tokio::sync::Notify;

use super::error::ChatError;
use super::model::{
    Conversation, ConversationId, Cut, ExecutionMode, Message, MessageId, MessageStatus, Mode, Role, UNTITLED,
    title_from,
};
use super::store;
use super::store::{ConversationFilter, MessageCut, TitleSource};

pub use send::{ChannelTurn, SendMessage, StartedReply};

/// Name of the turn sink of chat replies.
const TRANSCRIPT: &str = "chat";
/// Name of the turn sink of replies that are also sent to a chat platform.
pub const CHANNEL_TRANSCRIPT: &str = "channel";
const MAX_TITLE_CHARACTERS: usize = 200;

/// Input for a new conversation.
#[derive(Debug, Clone, Default)]
pub struct CreateConversation {
    /// Id or `svc_name`; the default agent if `None`.
    pub agent: Option<String>,
    pub title: Option<String>,
    pub mode: Option<Mode>,
    pub execution_mode: Option<ExecutionMode>,
    pub project: Option<String>,
}

/// Changes to a conversation; `None` leaves a field unchanged.
#[derive(Debug, Clone, Default)]
pub struct UpdateConversation {
    pub title: Option<String>,
    pub mode: Option<Mode>,
    pub execution_mode: Option<ExecutionMode>,
    pub project: Patch<String>,
}

impl UpdateConversation {
    fn is_empty(&self) -> bool {
        self.title.is_none()
            && self.mode.is_none()
            && self.execution_mode.is_none()
            && matches!(self.project, Patch::Keep)
    }
}

/// Message added to a conversation without a reply.
#[derive(Debug, Clone)]
pub struct InjectMessage {
    pub conversation_id: ConversationId,
    pub role: Role,
    pub content: String,
}

struct Inner {
    context: AppContext,
    agents: Agents,
    projects: Projects,
    engine: Engine,
    purge_wake: Arc<Notify>,
}

/// Service for conversations and messages. Cheap to clone.
#[derive(Clone)]
pub struct Chat(Arc<Inner>);

impl std::fmt::Debug for Chat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Chat").finish_non_exhaustive()
    }
}

impl Chat {
    pub fn new(context: AppContext, agents: Agents, projects: Projects, engine: Engine) -> Detached<Self> {
        Detached::new(Self(Arc::new(Inner { context, agents, projects, engine, purge_wake: Arc::default() })))
    }

    /// Creates a conversation.
    ///
    /// # Errors
    /// `Invalid`, the agent or project is unknown, or the database fails.
    pub async fn create(
        &self,
        wanted: CreateConversation,
        recorder: Recorder<Conversation>,
    ) -> Result<Conversation, ChatError> {
        let agent = match &wanted.agent {
            Some(name) => self.0.agents.get(name).await?,
            None => self.0.agents.default_agent().await?,
        };
        let title = wanted.title.as_deref().map(validate_title).transpose()?;
        let source = if title.is_some() { TitleSource::Owner } else { TitleSource::Default };
        let mut conversation = self.new_conversation(agent.id.clone());
        conversation.title = title.unwrap_or_else(|| UNTITLED.to_owned());
        conversation.mode = wanted.mode.unwrap_or(conversation.mode);
        conversation.execution_mode = wanted.execution_mode.unwrap_or(conversation.execution_mode);
        let (agents, projects) = (self.0.agents.clone(), self.0.projects.clone());
        self.0
            .context
            .db
            .write(async move |tx: &mut Tx| {
                if !agents.is_alive(tx, &conversation.agent_id).await? {
                    return Err(AgentError::NotFound { name: conversation.agent_id.to_string() }.into());
                }
                let mut conversation = conversation.clone();
                if let Some(id) = &wanted.project {
                    conversation.project_id = Some(projects.get_in(tx, id).await?.id);
                }
                store::insert_conversation(tx, &conversation, source).await?;
                recorder.record(tx, &conversation).await?;
                Ok(conversation)
            })
            .await
    }

    fn new_conversation(&self, agent_id: AgentId) -> Conversation {
        let now = self.0.context.clock.now();
        Conversation {
            id: ConversationId::generate(&self.0.context.ids),
            title: UNTITLED.to_owned(),
            agent_id,
            project_id: None,
            device_id: None,
            mode: Mode::Agent,
            execution_mode: ExecutionMode::Autonomous,
            message_count: 0,
            revision: 0,
            summary: None,
            summary_sources: Sources::default(),
            summary_through: 0,
            created_at: now,
            updated_at: now,
        }
    }

    /// Returns a page of conversations, most recently changed first, and their total number.
    ///
    /// # Errors
    /// The agent or project is unknown, or the database fails.
    pub async fn list(
        &self,
        agent: Option<&str>,
        project: Option<&str>,
        page: Page,
    ) -> Result<(Vec<Conversation>, u64), ChatError> {
        let mut filter = ConversationFilter::default();
        if let Some(name) = agent {
            filter.agent = Some(self.0.agents.get(name).await?.id.clone());
        }
        let mut read = self.0.context.db.read_snapshot().await?;
        if let Some(id) = project {
            filter.project = Some(self.0.projects.get_in(&mut read, id).await?.id);
        }
        Ok(store::list_conversations(&mut read, &filter, page).await?)
    }

    /// Returns a conversation.
    ///
    /// # Errors
    /// `ConversationNotFound`, or the database fails.
    pub async fn get(&self, id: &ConversationId) -> Result<Conversation, ChatError> {
        let found = store::find_conversation(&mut self.0.context.db.read().await?, id).await?;
        found.ok_or_else(|| ChatError::no_conversation(id.as_str()))
    }

    /// Returns a conversation with a page of its messages, oldest first. A running reply contains its text so far.
    ///
    /// # Errors
    /// `ConversationNotFound`, or the database fails.
    pub async fn get_with_messages(
        &self,
        id: &ConversationId,
        page: Page,
    ) -> Result<(Conversation, Vec<Message>), ChatError> {
        let mut read = self.0.context.db.read_snapshot().await?;
        let found = store::find_conversation(&mut read, id).await?;
        let conversation = found.ok_or_else(|| ChatError::no_conversation(id.as_str()))?;
        let mut messages = store::list_messages(&mut read, id, page.limit, page.offset).await?;
        for message in &mut messages {
            if message.status == MessageStatus::Running
                && let Some(session) = &message.session_id
            {
                (message.content, message.rounds) = self.0.engine.read_partial_reply(&mut read, session).await?;
                message.usage = self.0.engine.turn_usage(&mut read, session).await?;
            }
        }
        Ok((conversation, messages))
    }

    /// Updates a conversation.
    ///
    /// # Errors
    /// `Invalid`, `ConversationNotFound`, the project is unknown, or the database fails.
    pub async fn update(&self, id: &ConversationId, change: UpdateConversation) -> Result<Conversation, ChatError> {
        let title = change.title.as_deref().map(validate_title).transpose()?;
        let (id, projects) = (id.clone(), self.0.projects.clone());
        self.0
            .context
            .db
            .write(async move |tx: &mut Tx| {
                let found = store::find_conversation(tx, &id).await?;
                let mut conversation = found.ok_or_else(|| ChatError::no_conversation(id.as_str()))?;
                if change.is_empty() {
                    return Ok(conversation);
                }
                if let Some(title) = &title {
                    conversation.title.clone_from(title);
                }
                conversation.mode = change.mode.unwrap_or(conversation.mode);
                conversation.execution_mode = change.execution_mode.unwrap_or(conversation.execution_mode);
                match &change.project {
                    Patch::Keep => {}
                    Patch::Clear => conversation.project_id = None,
                    Patch::Set(project) => conversation.project_id = Some(projects.get_in(tx, project).await?.id),
                }
                conversation.updated_at = tx.clock().now();
                store::update_conversation(tx, &conversation, title.is_some()).await?;
                Ok(conversation)
            })
            .await
    }

    /// Deletes a conversation with its messages and cancels its reply.
    ///
    /// # Errors
    /// `ConversationNotFound`, or the database fails.
    pub async fn delete(&self, id: &ConversationId) -> Result<(), ChatError> {
        let id = id.clone();
        let running = self
            .0
            .context
            .db
            .write(async move |tx: &mut Tx| {
                let now = tx.clock().now();
                if !store::hide_conversation(tx, &id, now).await? {
                    return Err(ChatError::no_conversation(id.as_str()));
                }
                cancel_in_conversation(tx, id.as_str()).await?;
                Ok(find_running_in_conversation(tx, id.as_str()).await?)
            })
            .await?;
        if let Some(session) = running {
            self.0.engine.await_cancelled(&session).await;
        }
        self.0.purge_wake.notify_one();
        Ok(())
    }

    /// Adds a message to a conversation without a reply.
    ///
    /// # Errors
    /// `Invalid`, `ConversationNotFound`, or the database fails.
    pub async fn inject(&self, wanted: InjectMessage, recorder: Recorder<Message>) -> Result<Message, ChatError> {
        require_text("content", &wanted.content)?;
        let title = (wanted.role == Role::User).then(|| title_from(&wanted.content));
        let message = Message {
            id: MessageId::generate(&self.0.context.ids),
            conversation_id: wanted.conversation_id,
            position: 0,
            role: wanted.role,
            content: wanted.content,
            rounds: Vec::new(),
            status: MessageStatus::Complete,
            session_id: None,
            created_at: self.0.context.clock.now(),
            usage: None,
            is_untrusted: false,
        };
        self.0
            .context
            .db
            .write(async move |tx: &mut Tx| {
                let mut message = message.clone();
                let id = message.conversation_id.clone();
                let position = store::reserve_next(tx, &id, title.as_deref(), message.created_at).await?;
                message.position = position.ok_or_else(|| ChatError::no_conversation(id.as_str()))?;
                store::insert_message(tx, &message).await?;
                recorder.record(tx, &message).await?;
                Ok(message)
            })
            .await
    }

    /// Removes messages and returns their number. They are hidden immediately; rows and reply logs are purged later.
    ///
    /// # Errors
    /// `ConversationNotFound`, `MessageNotFound`, `Busy` while a reply is written, or the database fails.
    pub async fn truncate(&self, id: &ConversationId, cut: Cut) -> Result<u64, ChatError> {
        let id = id.clone();
        let removed = self
            .0
            .context
            .db
            .write(async move |tx: &mut Tx| {
                let found = store::find_conversation(tx, &id).await?;
                let conversation = found.ok_or_else(|| ChatError::no_conversation(id.as_str()))?;
                if let Some(session_id) = find_running_in_conversation(tx, id.as_str()).await? {
                    return Err(ChatError::Busy { session_id });
                }
                let (after, through) = match &cut {
                    Cut::After(message) => match store::find_position(tx, &id, message).await? {
                        // Positions never exceed the revision.
                        Some(position) => (position, conversation.revision),
                        None => {
                            let id = message.as_str().chars().take(80).collect();
                            return Err(ChatError::MessageNotFound { id });
                        }
                    },
                    Cut::KeepLast(keep) => match store::find_last_beyond(tx, &id, *keep).await? {
                        Some(position) => (0, position),
                        None => return Ok(0),
                    },
                };
                let now = tx.clock().now();
                let cut = MessageCut { conversation_id: id.clone(), after, through };
                Ok(store::cut_messages(tx, &cut, now).await?)
            })
            .await?;
        if removed > 0 {
            self.0.purge_wake.notify_one();
        }
        Ok(removed)
    }

    /// Counts the owner's messages since `since`, grouped by intervals of `interval_micros`. Returns the first instant
    /// of each interval that has a message, and the count.
    ///
    /// # Errors
    /// The database fails.
    pub async fn count_written(
        &self,
        since: Timestamp,
        interval_micros: i64,
    ) -> Result<Vec<(Timestamp, u64)>, StoreError> {
        store::count_written(&mut self.0.context.db.read().await?, since, interval_micros).await
    }

    /// Streams the events of a reply after number `after`, or all of them, and then live events to the last one.
    pub fn follow(&self, session: &SessionId, after: Option<u64>) -> impl Stream<Item = SessionEvent> + Send + use<> {
        self.0.engine.follow(session, after)
    }

    /// Returns the engine, for the logs of replies.
    pub(super) fn engine(&self) -> &Engine {
        &self.0.engine
    }

    pub(super) fn context(&self) -> &AppContext {
        &self.0.context
    }

    pub(super) fn purge_wake(&self) -> Arc<Notify> {
        Arc::clone(&self.0.purge_wake)
    }
}

fn validate_title(title: &str) -> Result<String, ChatError> {
    let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
    if title.is_empty() || title.chars().count() > MAX_TITLE_CHARACTERS {
        return Err(ChatError::invalid("title", format!("must have 1 to {MAX_TITLE_CHARACTERS} characters")));
    }
    Ok(title)
}

fn require_text(field: &str, text: &str) -> Result<(), ChatError> {
    if text.trim().is_empty() { Err(ChatError::invalid(field, "must not be empty")) } else { Ok(()) }
}
