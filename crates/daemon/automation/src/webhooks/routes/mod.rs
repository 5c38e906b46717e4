//! `/api/webhooks`.

mod deliveries;
mod receive;

use agentd_base::{FieldProblem, Patch, Secret, SecretState, SecretUpdate, Timestamp};
use agentd_core::runtime::record_secret_once;
use agentd_engine::agents::AgentId;
use agentd_web::{ApiResult, ApiRouter, ErrorBody, IdempotencyKey, Json, Path, Routes, Validate, Validated, routes};
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::model::{Webhook, WebhookChange, WebhookId};
use super::service::{CreatedWebhook, Webhooks};

#[must_use]
pub(super) fn routes() -> Routes<Webhooks> {
    Routes::new().public(ApiRouter::new().routes(routes!(receive::receive_webhook))).protected(
        ApiRouter::new()
            .routes(routes!(list_webhooks, create_webhook))
            .routes(routes!(get_webhook, update_webhook, delete_webhook))
            .routes(routes!(deliveries::list_webhook_deliveries))
            .routes(routes!(deliveries::get_webhook_delivery))
            .routes(routes!(deliveries::replay_webhook_delivery)),
    )
}

/// An endpoint for signed requests from other systems.
#[derive(Debug, Serialize, ToSchema)]
struct WebhookFieldsView {
    id: WebhookId,
    /// Display name.
    name: String,
    /// URL that receives the requests.
    #[schema(example = "https://agents.example.com/api/webhooks/whk_01k/receive")]
    url: String,
    /// Agent whose turn each request starts; null if requests only emit an event.
    agent_id: Option<AgentId>,
    /// Template of the agent's prompt; null if the prompt is the whole body.
    prompt_template: Option<String>,
    /// Tools that the agent may use in addition to read-only ones; tools that act require approval.
    tools: Vec<String>,
    /// Whether the webhook accepts requests. A disabled webhook rejects them with status 409.
    enabled: bool,
    /// Reason the daemon disabled the webhook; null if it did not.
    disabled_reason: Option<String>,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl WebhookFieldsView {
    fn new(webhooks: &Webhooks, webhook: Webhook) -> Self {
        Self {
            url: webhooks.url(&webhook.id),
            id: webhook.id,
            name: webhook.name,
            agent_id: webhook.agent_id,
            prompt_template: webhook.prompt_template,
            tools: webhook.tools,
            enabled: webhook.enabled,
            disabled_reason: webhook.disabled_reason,
            created_at: webhook.created_at,
            updated_at: webhook.updated_at,
        }
    }
}

/// An endpoint for signed requests from other systems.
#[derive(Debug, Serialize, ToSchema)]
struct WebhookView {
    #[serde(flatten)]
    fields: WebhookFieldsView,
    /// Whether a secret is set. Requests are rejected without one.
    secret: SecretState,
}

impl WebhookView {
    fn new(webhooks: &Webhooks, (webhook, set): (Webhook, bool)) -> Self {
        Self { fields: WebhookFieldsView::new(webhooks, webhook), secret: SecretState { set } }
    }
}

/// A newly created webhook with its secret, which is not shown again.
#[derive(Debug, Serialize, ToSchema)]
struct WebhookWithSecret {
    #[serde(flatten)]
    fields: WebhookFieldsView,
    /// Secret for signing the requests.
    #[schema(example = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD")]
    secret: String,
}

/// List of all inbound webhooks.
#[derive(Debug, Serialize, ToSchema)]
struct WebhookList {
    /// Webhooks, oldest first.
    webhooks: Vec<WebhookView>,
    /// Number of webhooks, at most 1,000.
    total: usize,
}

/// Definition of a new inbound webhook.
#[derive(Debug, Deserialize, ToSchema)]
struct WebhookFields {
    /// Display name, 1 to 200 characters. Whitespace is collapsed.
    #[schema(min_length = 1, max_length = 200, example = "ci")]
    name: String,
    /// Secret for signing requests, 8 to 256 characters. With the prefix `whsec_`, the rest is the key in base64.
    /// Default: a generated 256-bit secret.
    #[serde(default)]
    #[schema(value_type = Option<String>, min_length = 8, max_length = 256, write_only)]
    secret: Option<Secret>,
    /// Agent whose turn each request starts, by id or `svc_name`. Default: no agent; requests only emit an event.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 64)]
    agent_id: Option<String>,
    /// Template of the agent's prompt, at most 16,000 characters and 100 placeholders. `{{body.<path>}}` and
    /// `{{headers.<name>}}` insert parts of the request. Default: the whole body.
    #[serde(default)]
    #[schema(max_length = 16_000, example = "A build ended: {{body.repository.name}} is {{body.status}}.")]
    prompt_template: Option<String>,
    /// Names of tools that the agent may use in addition to read-only ones, at most 100; tools that act require
    /// approval. Default: none.
    #[serde(default)]
    #[schema(max_items = 100)]
    tools: Option<Vec<String>>,
    /// Whether the webhook accepts requests. Default: true.
    #[serde(default)]
    enabled: Option<bool>,
}

/// Changes to a webhook. Omitted fields keep their value.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = WebhookUpdate)]
struct WebhookUpdateFields {
    /// Display name, 1 to 200 characters. Whitespace is collapsed.
    #[serde(default)]
    #[schema(value_type = String, required = false, min_length = 1, max_length = 200)]
    name: Option<String>,
    /// New secret of 8 to 256 characters, or `{"set": true}` to keep the current one. Null removes it, after which
    /// requests are rejected.
    #[serde(default)]
    #[schema(value_type = Option<SecretUpdate>)]
    secret: Patch<SecretUpdate>,
    /// Agent by id or `svc_name`; null for none.
    #[serde(default)]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 64)]
    agent_id: Patch<String>,
    /// Template of the agent's prompt, at most 16,000 characters and 100 placeholders; null for the whole body.
    #[serde(default)]
    #[schema(value_type = Option<String>, max_length = 16_000)]
    prompt_template: Patch<String>,
    /// Names of tools that the agent may use in addition to read-only ones, at most 100. Replaces the current list.
    #[serde(default)]
    #[schema(value_type = Vec<String>, required = false, max_items = 100)]
    tools: Option<Vec<String>>,
    /// Whether the webhook accepts requests.
    #[serde(default)]
    #[schema(value_type = bool, required = false)]
    enabled: Option<bool>,
}

impl From<WebhookFields> for WebhookChange {
    fn from(fields: WebhookFields) -> Self {
        let set = |text: Option<String>| text.map_or(Patch::Keep, Patch::Set);
        Self {
            name: Some(fields.name),
            secret: fields.secret.map_or(Patch::Keep, |secret| Patch::Set(SecretUpdate::New(secret))),
            agent: set(fields.agent_id),
            prompt_template: set(fields.prompt_template),
            tools: fields.tools,
            enabled: fields.enabled,
        }
    }
}

impl From<WebhookUpdateFields> for WebhookChange {
    fn from(fields: WebhookUpdateFields) -> Self {
        Self {
            name: fields.name,
            secret: fields.secret,
            agent: fields.agent_id,
            prompt_template: fields.prompt_template,
            tools: fields.tools,
            enabled: fields.enabled,
        }
    }
}

impl Validate<Webhooks> for WebhookFields {
    async fn validate(self, webhooks: &Webhooks) -> Vec<FieldProblem> {
        webhooks.problems(&self.into())
    }
}

impl Validate<Webhooks> for WebhookUpdateFields {
    async fn validate(self, webhooks: &Webhooks) -> Vec<FieldProblem> {
        webhooks.problems(&self.into())
    }
}

/// Result of deleting a webhook.
#[derive(Debug, Serialize, ToSchema)]
struct WebhookDeleted {
    /// Always true.
    deleted: bool,
}

/// List inbound webhooks
///
/// Returns all inbound webhooks, oldest first.
#[utoipa::path(get, path = "/api/webhooks", operation_id = "list_webhooks", tag = "webhooks",
    responses((status = 200, body = WebhookList)))]
async fn list_webhooks(State(webhooks): State<Webhooks>) -> ApiResult<Json<WebhookList>> {
    let found: Vec<_> = webhooks.list().await?.into_iter().map(|found| WebhookView::new(&webhooks, found)).collect();
    Ok(Json(WebhookList { total: found.len(), webhooks: found }))
}

/// Create an inbound webhook
///
/// Only this response contains the secret. A repeated request with the same `Idempotency-Key` returns 409
/// `already_done` with the id of the webhook.
#[utoipa::path(post, path = "/api/webhooks", operation_id = "create_webhook", tag = "webhooks",
    request_body = WebhookFields, params(IdempotencyKey), responses((status = 201, body = WebhookWithSecret),
    (status = 404, body = ErrorBody, description = "The agent was not found")))]
async fn create_webhook(
    State(webhooks): State<Webhooks>,
    once: IdempotencyKey,
    Validated(Json(fields)): Validated<Json<WebhookFields>>,
) -> ApiResult<(StatusCode, Json<WebhookWithSecret>)> {
    let recorder = record_secret_once(&once, |created: &CreatedWebhook| created.webhook.id.to_string());
    let created = webhooks.create(fields.into(), recorder).await?;
    let secret = created.secret.expose().to_owned();
    let view = WebhookWithSecret { fields: WebhookFieldsView::new(&webhooks, created.webhook), secret };
    Ok((StatusCode::CREATED, Json(view)))
}

/// Get an inbound webhook
#[utoipa::path(get, path = "/api/webhooks/{id}", operation_id = "get_webhook", tag = "webhooks",
    params(("id" = String, Path, description = "Webhook id")), responses((status = 200, body = WebhookView)))]
async fn get_webhook(State(webhooks): State<Webhooks>, Path(id): Path<WebhookId>) -> ApiResult<Json<WebhookView>> {
    Ok(Json(WebhookView::new(&webhooks, webhooks.get(&id).await?)))
}

/// Update an inbound webhook
///
/// Changes the given fields. A disabled webhook rejects requests, and its pending turns are cancelled.
#[utoipa::path(put, path = "/api/webhooks/{id}", operation_id = "update_webhook", tag = "webhooks",
    params(("id" = String, Path, description = "Webhook id")), request_body = WebhookUpdateFields,
    responses((status = 200, body = WebhookView)))]
async fn update_webhook(
    State(webhooks): State<Webhooks>,
    Path(id): Path<WebhookId>,
    Validated(Json(fields)): Validated<Json<WebhookUpdateFields>>,
) -> ApiResult<Json<WebhookView>> {
    Ok(Json(WebhookView::new(&webhooks, webhooks.update(&id, fields.into()).await?)))
}

/// Delete an inbound webhook
///
/// Deletes the webhook with its deliveries.
#[utoipa::path(delete, path = "/api/webhooks/{id}", operation_id = "delete_webhook", tag = "webhooks",
    params(("id" = String, Path, description = "Webhook id")), responses((status = 200, body = WebhookDeleted)))]
async fn delete_webhook(
    State(webhooks): State<Webhooks>,
    Path(id): Path<WebhookId>,
) -> ApiResult<Json<WebhookDeleted>> {
    webhooks.delete(&id).await?;
    Ok(Json(WebhookDeleted { deleted: true }))
}
