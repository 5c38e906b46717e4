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

/// An endpoint for signed requests from outside.
#[derive(Debug, Serialize, ToSchema)]
struct WebhookFieldsView {
    id: WebhookId,
    name: String,
    /// Where the other side sends its requests.
    #[schema(example = "https://agents.example.com/api/webhooks/whk_01k/receive")]
    url: String,
    /// Whose turn each request starts; null: none.
    agent_id: Option<AgentId>,
    prompt_template: Option<String>,
    /// Tools that the agent may use besides those that change nothing; those that act ask first.
    tools: Vec<String>,
    enabled: bool,
    /// Why the daemon switched it off by itself.
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

/// An endpoint for signed requests from outside.
#[derive(Debug, Serialize, ToSchema)]
struct WebhookView {
    #[serde(flatten)]
    fields: WebhookFieldsView,
    /// Without one, nothing comes through.
    secret: SecretState,
}

impl WebhookView {
    fn new(webhooks: &Webhooks, (webhook, set): (Webhook, bool)) -> Self {
        Self { fields: WebhookFieldsView::new(webhooks, webhook), secret: SecretState { set } }
    }
}

/// A webhook that was just made, with its secret, the only time that it is shown.
#[derive(Debug, Serialize, ToSchema)]
struct WebhookWithSecret {
    #[serde(flatten)]
    fields: WebhookFieldsView,
    /// What the other side signs its requests with.
    #[schema(example = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD")]
    secret: String,
}

/// The oldest first.
#[derive(Debug, Serialize, ToSchema)]
struct WebhookList {
    webhooks: Vec<WebhookView>,
    total: usize,
}

#[derive(Debug, Deserialize, ToSchema)]
struct WebhookFields {
    #[schema(min_length = 1, max_length = 200, example = "ci")]
    name: String,
    /// What the other side signs with; made when left out. With `whsec_` before it: base64 of the key.
    #[serde(default)]
    #[schema(value_type = Option<String>, min_length = 8, max_length = 256, write_only)]
    secret: Option<Secret>,
    /// Whose turn each request starts: id or svc_name. Left out: each is an event alone.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 64)]
    agent_id: Option<String>,
    /// What the agent is told. `{{body.<path>}}` and `{{headers.<name>}}` stand for parts of the request; left
    /// out: the whole body.
    #[serde(default)]
    #[schema(max_length = 16_000, example = "A build ended: {{body.repository.name}} is {{body.status}}.")]
    prompt_template: Option<String>,
    /// Tools that the agent may use besides those that change nothing; those that act ask first.
    #[serde(default)]
    #[schema(max_items = 100)]
    tools: Option<Vec<String>>,
    /// Default true.
    #[serde(default)]
    enabled: Option<bool>,
}

/// Any of the fields; those left out stay as they are.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = WebhookUpdate)]
struct WebhookUpdateFields {
    #[serde(default)]
    #[schema(value_type = String, required = false, min_length = 1, max_length = 200)]
    name: Option<String>,
    /// A new one, or `{"set": true}` to keep it; null takes it away, and then nothing comes through.
    #[serde(default)]
    #[schema(value_type = Option<SecretUpdate>)]
    secret: Patch<SecretUpdate>,
    /// Id or svc_name; null: nobody.
    #[serde(default)]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 64)]
    agent_id: Patch<String>,
    /// Null: the whole body.
    #[serde(default)]
    #[schema(value_type = Option<String>, max_length = 16_000)]
    prompt_template: Patch<String>,
    #[serde(default)]
    #[schema(value_type = Vec<String>, required = false, max_items = 100)]
    tools: Option<Vec<String>>,
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

#[derive(Debug, Serialize, ToSchema)]
struct WebhookDeleted {
    /// Always true.
    deleted: bool,
}

/// Inbound webhooks, the oldest first
#[utoipa::path(get, path = "/api/webhooks", operation_id = "list_webhooks", tag = "webhooks",
    responses((status = 200, body = WebhookList)))]
async fn list_webhooks(State(webhooks): State<Webhooks>) -> ApiResult<Json<WebhookList>> {
    let found: Vec<_> = webhooks.list().await?.into_iter().map(|found| WebhookView::new(&webhooks, found)).collect();
    Ok(Json(WebhookList { total: found.len(), webhooks: found }))
}

/// Make an inbound webhook
///
/// The answer is the only one that shows the secret. With an `Idempotency-Key`, a repeat answers 409 `already_done`
/// with the webhook's id.
#[utoipa::path(post, path = "/api/webhooks", operation_id = "create_webhook", tag = "webhooks",
    request_body = WebhookFields, params(IdempotencyKey), responses((status = 201, body = WebhookWithSecret),
    (status = 404, body = ErrorBody, description = "There is no such agent")))]
async fn create_webhook(
    State(webhooks): State<Webhooks>,
    once: IdempotencyKey,
    Validated(Json(fields)): Validated<Json<WebhookFields>>,
) -> ApiResult<(StatusCode, Json<WebhookWithSecret>)> {
    let recorder = record_secret_once(&once, |made: &CreatedWebhook| made.webhook.id.to_string());
    let made = webhooks.create(fields.into(), recorder).await?;
    let secret = made.secret.expose().to_owned();
    let view = WebhookWithSecret { fields: WebhookFieldsView::new(&webhooks, made.webhook), secret };
    Ok((StatusCode::CREATED, Json(view)))
}

/// One inbound webhook
#[utoipa::path(get, path = "/api/webhooks/{id}", operation_id = "get_webhook", tag = "webhooks",
    params(("id" = String, Path)), responses((status = 200, body = WebhookView)))]
async fn get_webhook(State(webhooks): State<Webhooks>, Path(id): Path<WebhookId>) -> ApiResult<Json<WebhookView>> {
    Ok(Json(WebhookView::new(&webhooks, webhooks.get(&id).await?)))
}

/// Change an inbound webhook
///
/// Switched off, it refuses requests, and turns that have not begun are cancelled.
#[utoipa::path(put, path = "/api/webhooks/{id}", operation_id = "update_webhook", tag = "webhooks",
    params(("id" = String, Path)), request_body = WebhookUpdateFields, responses((status = 200, body = WebhookView)))]
async fn update_webhook(
    State(webhooks): State<Webhooks>,
    Path(id): Path<WebhookId>,
    Validated(Json(fields)): Validated<Json<WebhookUpdateFields>>,
) -> ApiResult<Json<WebhookView>> {
    Ok(Json(WebhookView::new(&webhooks, webhooks.update(&id, fields.into()).await?)))
}

/// Delete an inbound webhook with its deliveries
#[utoipa::path(delete, path = "/api/webhooks/{id}", operation_id = "delete_webhook", tag = "webhooks",
    params(("id" = String, Path)), responses((status = 200, body = WebhookDeleted)))]
async fn delete_webhook(
    State(webhooks): State<Webhooks>,
    Path(id): Path<WebhookId>,
) -> ApiResult<Json<WebhookDeleted>> {
    webhooks.delete(&id).await?;
    Ok(Json(WebhookDeleted { deleted: true }))
}
