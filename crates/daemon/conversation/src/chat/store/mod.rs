//! Rows of conversations and messages.

mod cuts;
mod deletion;
mod recent;

use agentd_base::{Page, Timestamp};
use agentd_core::rollups::{self, Counter};
use agentd_engine::agents::{AgentId, live_agent_condition};
use agentd_engine::engine::{ConversationSummary, Reply, SessionId, Sources, TurnUsage, UnsummarizedHistory};
use agentd_engine::projects::{ProjectId, live_project_sql};
use agentd_store::{Args, Read, Row, StoreError, Tx, ValueError, args};

use super::model::{Conversation, ConversationId, Message, MessageStatus};

const MESSAGE_COLUMNS: &str = "id, conversation_id, position, role, content, rounds, status, session_id, created_at, \
    is_untrusted, agent_id, provider, model, input_tokens, output_tokens, cost_micro_usd, duration_ms";
/// Condition of a message that was not truncated.
const NOT_TRUNCATED: &str = "NOT EXISTS (SELECT 1 FROM message_cuts WHERE message_cuts.conversation_id = \
    messages.conversation_id AND messages.position > message_cuts.after_position \
    AND messages.position <= message_cuts.through_position)";

/// Returns the condition of a visible conversation: neither it nor its agent is deleted.
fn is_visible() -> String {
    format!("deleted_at IS NULL AND {}", live_agent_condition("conversations.agent_id"))
}

/// Returns the columns of a conversation; a deleted project is read as none.
fn conversation_columns() -> String {
    format!(
        "id, agent_id, device_id, {} AS project_id, title, mode, execution_mode, message_count, revision, summary, \
         summary_sources, summary_through, created_at, updated_at",
        live_project_sql("conversations.project_id")
    )
}

fn parse_column<T>(row: &Row, column: &str, parse: fn(&str) -> Option<T>) -> Result<T, StoreError> {
    let text: String = row.get(column)?;
    parse(&text).ok_or_else(|| StoreError::Column {
        column: column.to_owned(),
        source: ValueError::Other { reason: format!("`{text}` is not known") },
    })
}

fn conversation(row: &Row) -> Result<Conversation, StoreError> {
    Ok(Conversation {
        id: row.get("id")?,
        title: row.get("title")?,
        agent_id: row.get("agent_id")?,
        project_id: row.get("project_id")?,
        device_id: row.get("device_id")?,
        mode: parse_column(row, "mode", super::Mode::from_stored)?,
        execution_mode: parse_column(row, "execution_mode", super::ExecutionMode::from_stored)?,
        message_count: row.get("message_count")?,
        revision: row.get("revision")?,
        summary: row.get("summary")?,
        summary_sources: Sources::from_stored(row.get::<Option<String>>("summary_sources")?.as_deref()),
        summary_through: row.get("summary_through")?,
        created_at: row.get("created_at")?,
        updated_at: row.get("updated_at")?,
    })
}

fn message(row: &Row) -> Result<Message, StoreError> {
    Ok(Message {
        id: row.get("id")?,
        conversation_id: row.get("conversation_id")?,
        position: row.get("position")?,
        role: parse_column(row, "role", super::Role::from_stored)?,
        content: row.get("content")?,
        // Written by this module, so it is valid.
        rounds: row
            .get::<Option<String>>("rounds")?
            .and_then(|rounds| serde_json::from_str(&rounds).ok())
            .unwrap_or_default(),
        status: parse_column(row, "status", MessageStatus::from_stored)?,
        session_id: row.get("session_id")?,
        created_at: row.get("created_at")?,
        usage: usage(row)?,
        is_untrusted: row.get("is_untrusted")?,
    })
}

fn usage(row: &Row) -> Result<Option<TurnUsage>, StoreError> {
    let Some(agent_id) = row.get("agent_id")? else { return Ok(None) };
    Ok(Some(TurnUsage {
        agent_id,
        provider: row.get("provider")?,
        model: row.get("model")?,
        input_tokens: row.get("input_tokens")?,
        output_tokens: row.get("output_tokens")?,
        cost_micro_usd: row.get("cost_micro_usd")?,
        duration_ms: row.get("duration_ms")?,
    }))
}

pub(super) use cuts::{
    MessageCut, cut_messages, delete_cut, delete_cut_off, find_last_beyond, find_position, list_cut_off, list_cuts,
};
pub(super) use deletion::{
    MESSAGE_BATCH_SIZE, ROW_BATCH_SIZE, hide_conversation, list_hidden, list_of_agent, purge_conversation,
    release_project,
};

pub(super) use recent::{
    list_all_changed_since, list_changed_since, list_excerpts_since, list_existing, list_finished_after,
};

/// Origin of a conversation's title.
#[derive(Debug, Clone, Copy)]
pub(super) enum TitleSource {
    Default,
    Rule,
    Owner,
}

impl TitleSource {
    fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Rule => "rule",
            Self::Owner => "owner",
        }
    }
}

pub(super) async fn insert_conversation(
    tx: &mut Tx,
    conversation: &Conversation,
    title_source: TitleSource,
) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO conversations (id, agent_id, title, title_source, mode, execution_mode, message_count, revision, \
         created_at, updated_at, project_id, device_id) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9, $10, $11)",
        args![
            &conversation.id,
            &conversation.agent_id,
            &conversation.title,
            title_source.as_str(),
            conversation.mode.as_str(),
            conversation.execution_mode.as_str(),
            conversation.message_count,
            conversation.revision,
            conversation.created_at,
            conversation.project_id.as_ref(),
            conversation.device_id.as_deref()
        ],
    )
    .await?;
    rollups::count(tx, &[(Counter::Conversations, "", 1)]).await
}

pub(super) async fn find_conversation(
    read: &mut Read,
    id: &ConversationId,
) -> Result<Option<Conversation>, StoreError> {
    let sql = format!("SELECT {} FROM conversations WHERE id = $1 AND {}", conversation_columns(), is_visible());
    read.fetch_optional(sql, args![id]).await?.as_ref().map(conversation).transpose()
}

/// Filter of a conversation list.
#[derive(Debug, Clone, Default)]
pub(super) struct ConversationFilter {
    pub(super) agent: Option<AgentId>,
    pub(super) project: Option<ProjectId>,
}

/// Returns a page of conversations, most recently changed first, and their total number.
pub(super) async fn list_conversations(
    read: &mut Read,
    filter: &ConversationFilter,
    page: Page,
) -> Result<(Vec<Conversation>, u64), StoreError> {
    let (mut args, mut condition) = (Args::new(), is_visible());
    if let Some(agent) = &filter.agent {
        condition.push_str(&format!(" AND agent_id = ${}", args.push(agent)));
    }
    if let Some(project) = &filter.project {
        condition.push_str(&format!(" AND project_id = ${}", args.push(project)));
    }
    let sql = format!("SELECT COUNT(*) FROM conversations WHERE {condition}");
    let total = read.fetch_one(sql, args.clone()).await?.first()?;
    let (limit, offset) = (args.push(page.limit), args.push(page.offset));
    let sql = format!(
        "SELECT {} FROM conversations WHERE {condition} \
         ORDER BY updated_at DESC, id DESC LIMIT ${limit} OFFSET ${offset}",
        conversation_columns()
    );
    let rows = read.fetch_all(sql, args).await?;
    Ok((rows.iter().map(conversation).collect::<Result<_, _>>()?, total))
}

/// Updates title, modes and project; returns whether the conversation exists.
pub(super) async fn update_conversation(
    tx: &mut Tx,
    conversation: &Conversation,
    has_new_title: bool,
) -> Result<bool, StoreError> {
    let updated = tx
        .execute(
            format!(
                "UPDATE conversations SET title = $2, mode = $3, execution_mode = $4, updated_at = $5, \
                 title_source = CASE WHEN $6 = 1 THEN 'owner' ELSE title_source END, project_id = $7 \
                 WHERE id = $1 AND {}",
                is_visible()
            ),
            args![
                &conversation.id,
                &conversation.title,
                conversation.mode.as_str(),
                conversation.execution_mode.as_str(),
                conversation.updated_at,
                has_new_title,
                conversation.project_id.as_ref()
            ],
        )
        .await?;
    Ok(updated == 1)
}

/// Maximum number of characters of messages per read; a single message may be longer.
const MAX_CHARACTERS: u32 = 8 << 20;

/// Returns a page of messages, oldest first. A page of very long messages is shorter but never empty.
pub(super) async fn list_messages(
    read: &mut Read,
    id: &ConversationId,
    limit: u32,
    offset: u64,
) -> Result<Vec<Message>, StoreError> {
    let sql = within_budget(&messages_after("ASC", "LIMIT $4 OFFSET $5"), "ASC");
    read.fetch_all(sql, args![id, 0_u64, MAX_CHARACTERS, limit, offset]).await?.iter().map(message).collect()
}

/// Returns the newest messages after position `after`, oldest first; fewer than `limit` if they are very long.
pub(super) async fn list_newest(
    read: &mut Read,
    id: &ConversationId,
    after: u64,
    limit: u32,
) -> Result<Vec<Message>, StoreError> {
    let sql = within_budget(&messages_after("DESC", "LIMIT $4"), "DESC");
    let rows = read.fetch_all(sql, args![id, after, MAX_CHARACTERS, limit]).await?;
    rows.iter().rev().map(message).collect()
}

/// Returns the number of messages between two positions, if any.
pub(super) async fn find_unsummarized(
    read: &mut Read,
    id: &ConversationId,
    after: u64,
    before: u64,
) -> Result<Option<UnsummarizedHistory>, StoreError> {
    let sql = format!(
        "SELECT COUNT(*) AS entries FROM messages \
         WHERE conversation_id = $1 AND position > $2 AND position < $3 AND {NOT_TRUNCATED}"
    );
    let entries: u64 = read.fetch_one(sql, args![id, after, before]).await?.get("entries")?;
    Ok((entries > 0).then_some(UnsummarizedHistory { after, before, entries }))
}

/// Returns the first messages between two positions, in order. A page of very long messages is shorter; it is empty
/// only at the end.
pub(super) async fn list_between(
    read: &mut Read,
    conversation_id: &str,
    after: u64,
    before: u64,
) -> Result<Vec<Message>, StoreError> {
    let between = format!(
        "SELECT {MESSAGE_COLUMNS} FROM messages WHERE conversation_id = $1 AND position > $2 AND position < $4 AND {NOT_TRUNCATED} \
         ORDER BY position ASC LIMIT 500"
    );
    let args = args![conversation_id, after, MAX_CHARACTERS, before];
    read.fetch_all(within_budget(&between, "ASC"), args).await?.iter().map(message).collect()
}

fn messages_after(order: &str, part: &str) -> String {
    format!(
        "SELECT {MESSAGE_COLUMNS} FROM messages WHERE conversation_id = $1 AND position > $2 AND {NOT_TRUNCATED} \
         ORDER BY position {order} {part}"
    )
}

/// Limits `messages` to the budget of `$3` characters; the first message is always included.
fn within_budget(messages: &str, order: &str) -> String {
    format!(
        "SELECT {MESSAGE_COLUMNS} FROM (SELECT {MESSAGE_COLUMNS}, \
         SUM(LENGTH(content) + COALESCE(LENGTH(rounds), 0)) OVER (ORDER BY position {order}) AS so_far, \
         ROW_NUMBER() OVER (ORDER BY position {order}) AS nth \
         FROM ({messages}) AS part) AS page WHERE so_far <= $3 OR nth = 1 ORDER BY position {order}"
    )
}

/// Reserves positions for messages if `revision` is still current; returns whether it is.
pub(super) async fn reserve_messages(
    tx: &mut Tx,
    id: &ConversationId,
    revision: u64,
    count: u64,
    title: &str,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let reserved = tx
        .execute(
            format!(
                "UPDATE conversations SET revision = revision + $3, message_count = message_count + $3, \
                 updated_at = $4, title = CASE WHEN title_source = 'default' THEN $5 ELSE title END, \
                 title_source = CASE WHEN title_source = 'default' THEN 'rule' ELSE title_source END \
                 WHERE id = $1 AND revision = $2 AND {}",
                is_visible()
            ),
            args![id, revision, count, now, title],
        )
        .await?;
    Ok(reserved == 1)
}

/// Reserves a position for one message; returns it, or `None` if the conversation does not exist.
pub(super) async fn reserve_next(
    tx: &mut Tx,
    id: &ConversationId,
    title: Option<&str>,
    now: Timestamp,
) -> Result<Option<u64>, StoreError> {
    let row = tx
        .fetch_optional(
            format!(
                "UPDATE conversations SET revision = revision + 1, message_count = message_count + 1, \
                 updated_at = $2, title = CASE WHEN title_source = 'default' AND $4 = 1 THEN $3 ELSE title END, \
                 title_source = CASE WHEN title_source = 'default' AND $4 = 1 THEN 'rule' ELSE title_source END \
                 WHERE id = $1 AND {} RETURNING revision",
                is_visible()
            ),
            args![id, now, title.unwrap_or_default(), title.is_some()],
        )
        .await?;
    row.map(|row| row.get("revision")).transpose()
}

pub(super) async fn insert_message(tx: &mut Tx, message: &Message) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO messages (id, conversation_id, position, role, content, status, session_id, created_at, \
         is_untrusted) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        args![
            &message.id,
            &message.conversation_id,
            message.position,
            message.role.as_str(),
            &message.content,
            message.status.as_str(),
            &message.session_id,
            message.created_at,
            message.is_untrusted
        ],
    )
    .await?;
    rollups::count(tx, &[(Counter::Messages, "", 1)]).await
}

/// Inserts a question and the reply that `session` will write.
pub(super) async fn insert_exchange(
    tx: &mut Tx,
    question: &Message,
    reply: &Message,
    session: &SessionId,
) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO messages (id, conversation_id, position, role, content, status, session_id, created_at, \
         is_untrusted) VALUES ($1, $2, $3, 'user', $4, 'complete', $5, $6, $7), \
         ($8, $2, $9, 'assistant', '', 'running', $5, $6, $10)",
        args![
            &question.id,
            &question.conversation_id,
            question.position,
            &question.content,
            session,
            question.created_at,
            question.is_untrusted,
            &reply.id,
            reply.position,
            reply.is_untrusted
        ],
    )
    .await?;
    rollups::count(tx, &[(Counter::Messages, "", 2)]).await
}

/// Stores the end of a reply.
pub(super) async fn finish_reply(
    tx: &mut Tx,
    conversation_id: &str,
    message_id: &str,
    reply: &Reply,
    usage: Option<&TurnUsage>,
    now: Timestamp,
) -> Result<(), StoreError> {
    let rounds = (!reply.rounds.is_empty()).then(|| serde_json::to_string(&reply.rounds).unwrap_or_default());
    tx.execute(
        "UPDATE messages SET content = $2, rounds = $3, status = $4, agent_id = $5, provider = $6, model = $7, \
         input_tokens = $8, output_tokens = $9, cost_micro_usd = $10, duration_ms = $11 WHERE id = $1",
        args![
            message_id,
            &reply.content,
            rounds,
            MessageStatus::from(reply.status).as_str(),
            usage.map(|usage| usage.agent_id.as_str()),
            usage.map(|usage| usage.provider.as_str()),
            usage.map(|usage| usage.model.as_str()),
            usage.map(|usage| usage.input_tokens),
            usage.map(|usage| usage.output_tokens),
            usage.and_then(|usage| usage.cost_micro_usd),
            usage.and_then(|usage| usage.duration_ms)
        ],
    )
    .await?;
    tx.execute(
        "UPDATE conversations SET revision = revision + 1, updated_at = $2 WHERE id = $1",
        args![conversation_id, now],
    )
    .await
    .map(|_| ())
}

/// Stores a summary, unless a newer one exists.
pub(super) async fn set_summary(
    tx: &mut Tx,
    conversation_id: &str,
    summary: ConversationSummary<'_>,
) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE conversations SET summary = $2, summary_sources = $4, summary_through = $3 \
         WHERE id = $1 AND summary_through < $3",
        args![conversation_id, summary.text, summary.through, summary.sources.to_stored()],
    )
    .await
    .map(|_| ())
}

pub(super) async fn agent_exists(read: &mut Read, id: &AgentId) -> Result<bool, StoreError> {
    let sql = format!("SELECT 1 AS one WHERE {}", live_agent_condition("$1"));
    Ok(read.fetch_optional(sql, args![id]).await?.is_some())
}

/// Returns whether a reply's message is visible: the message, its conversation and its agent are not deleted.
pub(super) async fn is_message_visible(
    read: &mut Read,
    conversation_id: &str,
    message_id: &str,
) -> Result<bool, StoreError> {
    let sql = format!(
        "SELECT 1 AS one FROM messages WHERE id = $2 AND conversation_id = $1 AND {NOT_TRUNCATED} \
         AND EXISTS (SELECT 1 FROM conversations WHERE conversations.id = $1 AND {})",
        is_visible()
    );
    Ok(read.fetch_optional(sql, args![conversation_id, message_id]).await?.is_some())
}

/// Counts the owner's messages by interval. A partial index covers the query.
pub(super) async fn count_written(
    read: &mut Read,
    since: Timestamp,
    interval_micros: i64,
) -> Result<Vec<(Timestamp, u64)>, StoreError> {
    let sql = "SELECT created_at / $2 AS place, COUNT(*) AS messages FROM messages \
        WHERE role = 'user' AND created_at >= $1 GROUP BY place ORDER BY place";
    let rows = read.fetch_all(sql, args![since, interval_micros]).await?;
    rows.iter()
        .map(|row| {
            let place: i64 = row.get("place")?;
            Ok((Timestamp::from_micros(place * interval_micros), row.get("messages")?))
        })
        .collect()
}
