//! Handlers for conversations and their modes.

use agentd_base::{Page, PageLimits, Patch, Problems, Timestamp};
use agentd_core::runtime::record_once;
use agentd_engine::agents::AgentId;
use agentd_engine::projects::ProjectId;
use agentd_web::{ApiError, ApiResult, IdempotencyKey, Json, Path, Query};
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::messages::MessageView;
use crate::chat::model::{Conversation, ConversationId, ExecutionMode, Mode};
use crate::chat::service::{Chat, CreateConversation, UpdateConversation};

/// Conversation with an agent, without its messages.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ConversationView {
    id: ConversationId,
    /// Title, up to 200 characters; derived from the first user message unless set explicitly.
    title: String,
    /// Agent that answers; cannot be changed.
    agent_id: AgentId,
    /// Project of the conversation; null if it has none or the project was deleted.
    project_id: Option<ProjectId>,
    mode: Mode,
    execution_mode: ExecutionMode,
    /// Number of messages, including a reply that is being written.
    message_count: u64,
    created_at: Timestamp,
    /// Time of the last message or change.
    updated_at: Timestamp,
}

impl From<&Conversation> for ConversationView {
    fn from(conversation: &Conversation) -> Self {
        Self {
            id: conversation.id.clone(),
            title: conversation.title.clone(),
            agent_id: conversation.agent_id.clone(),
            project_id: conversation.project_id.clone(),
            mode: conversation.mode,
            execution_mode: conversation.execution_mode,
            message_count: conversation.message_count,
            created_at: conversation.created_at,
            updated_at: conversation.updated_at,
        }
    }
}

/// Page of conversations, most recently changed first.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ConversationList {
    /// Conversations of this page, without their messages.
    conversations: Vec<ConversationView>,
    /// Total number of conversations on all pages.
    total: u64,
}

/// Conversation with a page of its messages, oldest first. `message_count` is their total number.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ConversationWithMessages {
    #[serde(flatten)]
    conversation: ConversationView,
    /// Messages of this page; a running reply contains the text written so far.
    messages: Vec<MessageView>,
}

/// Conversation to create.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct ConversationFields {
    /// Id or svc_name of the agent. Default: the default agent.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 64)]
    agent_id: Option<String>,
    /// Title, 1 to 200 characters. Default: derived from the first user message.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 200)]
    title: Option<String>,
    /// Capabilities of the agent. Default: `agent`.
    #[serde(default)]
    mode: Option<Mode>,
    /// Whether tools with side effects require approval. Default: `autonomous`.
    #[serde(default)]
    execution_mode: Option<ExecutionMode>,
    /// Id of the project to add the conversation to. Default: none.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 64)]
    project_id: Option<String>,
}

/// Changed fields; omitted fields keep their values.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct ConversationChange {
    /// New title, 1 to 200 characters; it is then no longer derived from messages.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 200)]
    title: Option<String>,
    /// New mode, which applies from the next message.
    #[serde(default)]
    mode: Option<Mode>,
    /// New execution mode, which applies from the next message.
    #[serde(default)]
    execution_mode: Option<ExecutionMode>,
    /// Id of the new project; null removes the conversation from its project.
    #[serde(default)]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 64)]
    project_id: Patch<String>,
}

/// Mode of a conversation.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(super) struct ModeBody {
    mode: Mode,
}

/// Execution mode of a conversation.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(super) struct ExecutionModeBody {
    execution_mode: ExecutionMode,
}

/// Confirmation of a deleted conversation.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ConversationDeleted {
    /// Always true.
    deleted: bool,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ConversationQuery {
    /// Only conversations of this agent (id or svc_name).
    #[param(min_length = 1, max_length = 64)]
    agent_id: Option<String>,
    /// Only conversations of this project (id).
    #[param(min_length = 1, max_length = 64)]
    project_id: Option<String>,
    /// Maximum number of conversations to return.
    #[param(minimum = 1, maximum = 200, default = json!(PageLimits::default().default))]
    limit: Option<i64>,
    /// Number of conversations to skip, counted from the most recently changed.
    #[param(minimum = 0, default = 0)]
    offset: Option<i64>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct MessageQuery {
    /// Maximum number of messages to return.
    #[param(minimum = 1, maximum = 200, default = json!(PageLimits::default().default))]
    limit: Option<i64>,
    /// Number of messages to skip, counted from the oldest.
    #[param(minimum = 0, default = 0)]
    offset: Option<i64>,
}

fn page(limit: Option<i64>, offset: Option<i64>) -> ApiResult<Page> {
    let mut problems = Problems::new();
    let page = Page::checked(limit, offset, PageLimits::default(), &mut problems);
    problems.into_result().map_err(ApiError::invalid)?;
    Ok(page)
}

/// List conversations
///
/// Sorted by last change, newest first.
#[utoipa::path(get, path = "/api/chat/conversations", operation_id = "list_conversations", tag = "chat",
    params(ConversationQuery), responses((status = 200, body = ConversationList),
    (status = 404, body = agentd_web::ErrorBody, description = "Agent or project not found")))]
pub(super) async fn list_conversations(
    State(chat): State<Chat>,
    Query(query): Query<ConversationQuery>,
) -> ApiResult<Json<ConversationList>> {
    let page = page(query.limit, query.offset)?;
    let (conversations, total) = chat.list(query.agent_id.as_deref(), query.project_id.as_deref(), page).await?;
    Ok(Json(ConversationList { conversations: conversations.iter().map(ConversationView::from).collect(), total }))
}

/// Create a conversation
#[utoipa::path(post, path = "/api/chat/conversations", operation_id = "create_conversation", tag = "chat",
    request_body = ConversationFields, params(IdempotencyKey), responses((status = 201, body = ConversationView),
    (status = 404, body = agentd_web::ErrorBody, description = "Agent or project not found")))]
pub(super) async fn create_conversation(
    State(chat): State<Chat>,
    once: IdempotencyKey,
    Json(fields): Json<ConversationFields>,
) -> ApiResult<(StatusCode, Json<ConversationView>)> {
    let wanted = CreateConversation {
        agent: fields.agent_id,
        title: fields.title,
        mode: fields.mode,
        execution_mode: fields.execution_mode,
        project: fields.project_id,
    };
    let recorder = record_once(&once, StatusCode::CREATED, |created: &Conversation| ConversationView::from(created));
    let created = chat.create(wanted, recorder).await?;
    Ok((StatusCode::CREATED, Json(ConversationView::from(&created))))
}

/// Get a conversation
///
/// Includes a page of its messages, oldest first.
#[utoipa::path(get, path = "/api/chat/conversations/{id}", operation_id = "get_conversation", tag = "chat",
    params(("id" = String, Path, description = "Id of the conversation"), MessageQuery),
    responses((status = 200, body = ConversationWithMessages)))]
pub(super) async fn get_conversation(
    State(chat): State<Chat>,
    Path(id): Path<ConversationId>,
    Query(query): Query<MessageQuery>,
) -> ApiResult<Json<ConversationWithMessages>> {
    let (conversation, messages) = chat.get_with_messages(&id, page(query.limit, query.offset)?).await?;
    Ok(Json(ConversationWithMessages {
        conversation: ConversationView::from(&conversation),
        messages: messages.into_iter().map(MessageView::from).collect(),
    }))
}

/// Update a conversation
///
/// Changes the title, the modes or the project.
#[utoipa::path(put, path = "/api/chat/conversations/{id}", operation_id = "update_conversation", tag = "chat",
    params(("id" = String, Path, description = "Id of the conversation")), request_body = ConversationChange,
    responses((status = 200, body = ConversationView)))]
pub(super) async fn update_conversation(
    State(chat): State<Chat>,
    Path(id): Path<ConversationId>,
    Json(change): Json<ConversationChange>,
) -> ApiResult<Json<ConversationView>> {
    let change = UpdateConversation {
        title: change.title,
        mode: change.mode,
        execution_mode: change.execution_mode,
        project: change.project_id,
    };
    Ok(Json(ConversationView::from(&chat.update(&id, change).await?)))
}

/// Delete a conversation
///
/// Permanently deletes the conversation with its messages and cancels a running reply.
#[utoipa::path(delete, path = "/api/chat/conversations/{id}", operation_id = "delete_conversation", tag = "chat",
    params(("id" = String, Path, description = "Id of the conversation")),
    responses((status = 200, body = ConversationDeleted)))]
pub(super) async fn delete_conversation(
    State(chat): State<Chat>,
    Path(id): Path<ConversationId>,
) -> ApiResult<Json<ConversationDeleted>> {
    chat.delete(&id).await?;
    Ok(Json(ConversationDeleted { deleted: true }))
}

/// Get conversation mode
#[utoipa::path(get, path = "/api/chat/conversations/{id}/mode", operation_id = "get_mode", tag = "chat",
    params(("id" = String, Path, description = "Id of the conversation")), responses((status = 200, body = ModeBody)))]
pub(super) async fn get_mode(State(chat): State<Chat>, Path(id): Path<ConversationId>) -> ApiResult<Json<ModeBody>> {
    Ok(Json(ModeBody { mode: chat.get(&id).await?.mode }))
}

/// Update conversation mode
#[utoipa::path(patch, path = "/api/chat/conversations/{id}/mode", operation_id = "update_mode", tag = "chat",
    params(("id" = String, Path, description = "Id of the conversation")),
    request_body = ModeBody, responses((status = 200, body = ModeBody)))]
pub(super) async fn update_mode(
    State(chat): State<Chat>,
    Path(id): Path<ConversationId>,
    Json(body): Json<ModeBody>,
) -> ApiResult<Json<ModeBody>> {
    let change = UpdateConversation { mode: Some(body.mode), ..UpdateConversation::default() };
    Ok(Json(ModeBody { mode: chat.update(&id, change).await?.mode }))
}

/// Get execution mode
#[utoipa::path(get, path = "/api/chat/conversations/{id}/execution-mode", operation_id = "get_execution_mode",
    tag = "chat", params(("id" = String, Path, description = "Id of the conversation")),
    responses((status = 200, body = ExecutionModeBody)))]
pub(super) async fn get_execution_mode(
    State(chat): State<Chat>,
    Path(id): Path<ConversationId>,
) -> ApiResult<Json<ExecutionModeBody>> {
    Ok(Json(ExecutionModeBody { execution_mode: chat.get(&id).await?.execution_mode }))
}

/// Update execution mode
#[utoipa::path(put, path = "/api/chat/conversations/{id}/execution-mode", operation_id = "update_execution_mode",
    tag = "chat", params(("id" = String, Path, description = "Id of the conversation")),
    request_body = ExecutionModeBody, responses((status = 200, body = ExecutionModeBody)))]
pub(super) async fn update_execution_mode(
    State(chat): State<Chat>,
    Path(id): Path<ConversationId>,
    Json(body): Json<ExecutionModeBody>,
) -> ApiResult<Json<ExecutionModeBody>> {
    let change = UpdateConversation { execution_mode: Some(body.execution_mode), ..UpdateConversation::default() };
    Ok(Json(ExecutionModeBody { execution_mode: chat.update(&id, change).await?.execution_mode }))
}
