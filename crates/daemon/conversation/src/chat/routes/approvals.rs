//! Handlers for approvals.

use agentd_base::{FieldProblem, Page, PageLimits};
use agentd_engine::engine::{Approval, ApprovalId, ApprovalStatus};
use agentd_web::{ApiError, ApiResult, ErrorBody, Json, Path, Query};
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use crate::chat::model::ConversationId;
use crate::chat::service::Chat;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ApprovalsQuery {
    /// Only approvals with this status; all if omitted.
    #[param(inline)]
    status: Option<ApprovalStatus>,
    /// Maximum number of approvals to return.
    #[param(minimum = 1, maximum = 200, default = json!(PageLimits::default().default))]
    limit: Option<u32>,
    /// Number of approvals to skip, counted from the newest.
    #[param(minimum = 0, default = 0)]
    offset: Option<u64>,
}

/// Page of approvals.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ApprovalList {
    /// Approvals, newest first.
    approvals: Vec<Approval>,
    /// Number of matching approvals on all pages.
    total: u64,
}

/// Decision on an action: `approve` runs it exactly as shown, `reject` reports the rejection to the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Decision {
    Approve,
    Reject,
}

/// Captures a changed input, which other tools accept with an approval. It is rejected, so that clients do not assume
/// that it ran.
#[derive(Debug, Deserialize)]
struct EditedInput {
    input: Option<Value>,
}

impl EditedInput {
    fn reject(&self) -> ApiResult<()> {
        match self.input {
            None => Ok(()),
            Some(_) => Err(ApiError::invalid(vec![FieldProblem {
                field: "input".to_owned(),
                message:
                    "cannot be changed; an approved action runs exactly as shown. Reject it and give a reason instead"
                        .to_owned(),
            }])),
        }
    }
}

/// Decision of the owner.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct ApprovalAnswer {
    decision: Decision,
    /// Reason shown to the agent, up to 2,000 characters. Default: none.
    #[serde(default)]
    #[schema(max_length = 2_000)]
    reason: Option<String>,
    #[serde(flatten)]
    #[schema(ignore)]
    edited: EditedInput,
}

/// Decision of the owner on an approval of a conversation.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct ApprovalResponse {
    /// Id of the approval to answer, 1 to 64 characters.
    #[schema(min_length = 1, max_length = 64)]
    approval_id: String,
    decision: Decision,
    /// Reason shown to the agent, up to 2,000 characters. Default: none.
    #[serde(default)]
    #[schema(max_length = 2_000)]
    reason: Option<String>,
    #[serde(flatten)]
    #[schema(ignore)]
    edited: EditedInput,
}

/// List approvals
///
/// Returns pending approvals and those answered in the last 30 days, newest first.
#[utoipa::path(get, path = "/api/chat/approvals", operation_id = "list_approvals", tag = "chat",
    params(ApprovalsQuery), responses((status = 200, body = ApprovalList)))]
pub(super) async fn list_approvals(
    State(chat): State<Chat>,
    Query(query): Query<ApprovalsQuery>,
) -> ApiResult<Json<ApprovalList>> {
    let page = Page { limit: query.limit.unwrap_or(PageLimits::default().default), offset: query.offset.unwrap_or(0) };
    let (approvals, total) = chat.engine().approvals().list(query.status, page).await?;
    Ok(Json(ApprovalList { approvals, total }))
}

/// Answer any approval
///
/// An approved action runs exactly as shown. A rejection is reported to the agent with the reason.
#[utoipa::path(post, path = "/api/chat/approvals/{id}", operation_id = "answer_approval", tag = "chat",
    params(("id" = String, Path, description = "Id of the approval")), request_body = ApprovalAnswer,
    responses((status = 200, body = Approval),
        (status = 404, body = ErrorBody, description = "Approval not found"),
        (status = 409, body = ErrorBody, description = "The approval was already answered, has expired or is no longer possible")))]
pub(super) async fn answer_approval(
    State(chat): State<Chat>,
    Path(id): Path<ApprovalId>,
    Json(answer): Json<ApprovalAnswer>,
) -> ApiResult<Json<Approval>> {
    answer.edited.reject()?;
    let is_approved = answer.decision == Decision::Approve;
    Ok(Json(chat.engine().approvals().decide(&id, None, is_approved, answer.reason).await?))
}

/// Respond to an approval request
///
/// Works like `POST /api/chat/approvals/{id}`, but only for approvals that belong to this conversation.
#[utoipa::path(post, path = "/api/chat/conversations/{id}/approval-response", operation_id = "respond_to_approval",
    tag = "chat", params(("id" = String, Path, description = "Id of the conversation")),
    request_body = ApprovalResponse,
    responses((status = 200, body = Approval),
        (status = 404, body = ErrorBody, description = "Approval not found in this conversation"),
        (status = 409, body = ErrorBody, description = "The approval was already answered, has expired or is no longer possible")))]
pub(super) async fn respond_to_approval(
    State(chat): State<Chat>,
    Path(id): Path<ConversationId>,
    Json(answer): Json<ApprovalResponse>,
) -> ApiResult<Json<Approval>> {
    answer.edited.reject()?;
    let is_approved = answer.decision == Decision::Approve;
    let approval = ApprovalId::from(answer.approval_id);
    let conversation = chat.get(&id).await?.id.to_string();
    Ok(Json(chat.engine().approvals().decide(&approval, Some(&conversation), is_approved, answer.reason).await?))
}
