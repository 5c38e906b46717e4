//! Endpoints of API keys and tickets.

use agentd_base::Timestamp;
use agentd_web::{ApiResult, Caller, ErrorBody, IdempotencyKey, Json, Path, Scope};
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::auth::model::{ApiKey, IssuedKey, IssuedTicket, KeyId, NewKey};
use crate::auth::service::Auth;
use crate::runtime::record_secret_once;

/// Scope of an API key.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum KeyScope {
    /// All requests.
    #[default]
    Full,
    /// Only GET and HEAD requests.
    Read,
}

impl From<KeyScope> for Scope {
    fn from(scope: KeyScope) -> Self {
        match scope {
            KeyScope::Full => Self::Full,
            KeyScope::Read => Self::Read,
        }
    }
}

impl From<Scope> for KeyScope {
    fn from(scope: Scope) -> Self {
        match scope {
            Scope::Full => Self::Full,
            Scope::Read => Self::Read,
        }
    }
}

/// API key to create.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct CreateKey {
    /// Display name, 1 to 100 characters. Need not be unique.
    #[schema(min_length = 1, max_length = 100)]
    name: String,
    /// Purpose of the key, at most 1,000 characters. Default: none.
    #[schema(max_length = 1000)]
    description: Option<String>,
    /// Requests that the key permits. Default: `full`.
    #[schema(required = false)]
    scope: Option<KeyScope>,
}

impl From<CreateKey> for NewKey {
    fn from(request: CreateKey) -> Self {
        Self { name: request.name, description: request.description, scope: request.scope.unwrap_or_default().into() }
    }
}

/// Created API key with its secret.
#[derive(Debug, Serialize, ToSchema)]
pub struct CreatedKey {
    id: KeyId,
    /// Display name of the key.
    name: String,
    /// Secret (`svc_…`), returned only once; only its hash is stored.
    key: String,
    /// Time of creation; a rotation does not change it.
    created_at: Timestamp,
}

impl From<IssuedKey> for CreatedKey {
    fn from(issued: IssuedKey) -> Self {
        Self { id: issued.id, name: issued.name, key: issued.key.expose().to_owned(), created_at: issued.created_at }
    }
}

/// Create an API key
///
/// Needs no credential until the first key is created, which ends bootstrap. With an `Idempotency-Key`, a repeated
/// request returns 409 `already_done` with the key's id.
#[utoipa::path(
    post,
    path = "/api/auth/keys",
    operation_id = "create_key",
    tag = "auth",
    request_body = CreateKey,
    params(IdempotencyKey),
    responses((status = 200, description = "Created key, returned only once", body = CreatedKey)),
)]
pub(super) async fn create_key(
    State(auth): State<Auth>,
    caller: Caller,
    once: IdempotencyKey,
    Json(request): Json<CreateKey>,
) -> ApiResult<Json<CreatedKey>> {
    let recorder = record_secret_once(&once, |issued: &IssuedKey| issued.id.to_string());
    Ok(Json(auth.create_key(&caller, request.into(), recorder).await?.into()))
}

/// Active API key.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct KeyView {
    id: KeyId,
    /// Display name, 1 to 100 characters.
    name: String,
    /// Purpose of the key, at most 1,000 characters; `null` if none was given.
    #[schema(required = true)]
    description: Option<String>,
    /// Requests that the key permits.
    scope: KeyScope,
    /// Time of creation; a rotation does not change it.
    created_at: Timestamp,
    /// Time of the last use, accurate to the minute; `null` if the key was not used since its creation or rotation.
    #[schema(required = true)]
    last_used: Option<Timestamp>,
}

impl From<ApiKey> for KeyView {
    fn from(key: ApiKey) -> Self {
        Self {
            id: key.id,
            name: key.name,
            description: key.description,
            scope: key.scope.into(),
            created_at: key.created_at,
            last_used: key.last_used,
        }
    }
}

/// All active API keys.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct KeyList {
    /// Active keys, newest first.
    keys: Vec<KeyView>,
}

/// List API keys
///
/// Returns active keys, newest first.
#[utoipa::path(
    get,
    path = "/api/auth/keys",
    operation_id = "list_keys",
    tag = "auth",
    responses((status = 200, description = "Keys without their secrets", body = KeyList)),
)]
pub(super) async fn list_keys(State(auth): State<Auth>) -> ApiResult<Json<KeyList>> {
    let keys = auth.list_keys().await?.into_iter().map(KeyView::from).collect();
    Ok(Json(KeyList { keys }))
}

/// Rotate an API key
///
/// Issues a new secret; the old one is invalid immediately. Id, name, scope and creation time are preserved.
#[utoipa::path(
    post,
    path = "/api/auth/keys/{id}/rotate",
    operation_id = "rotate_key",
    tag = "auth",
    params(("id" = String, Path, description = "Id of the key"), IdempotencyKey),
    responses((status = 200, description = "New key, returned only once", body = CreatedKey)),
)]
pub(super) async fn rotate_key(
    State(auth): State<Auth>,
    Path(id): Path<String>,
    once: IdempotencyKey,
) -> ApiResult<Json<CreatedKey>> {
    let recorder = record_secret_once(&once, |issued: &IssuedKey| issued.id.to_string());
    Ok(Json(auth.rotate_key(id.into(), recorder).await?.into()))
}

/// Confirmation that an API key was revoked.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RevokedView {
    /// Always true.
    revoked: bool,
}

/// Revoke an API key
///
/// Revocation is permanent and takes effect immediately. A key that is already revoked returns 404.
#[utoipa::path(
    delete,
    path = "/api/auth/keys/{id}",
    operation_id = "delete_key",
    tag = "auth",
    params(("id" = String, Path, description = "Id of the key")),
    responses((status = 200, description = "Key revoked", body = RevokedView)),
)]
pub(super) async fn delete_key(State(auth): State<Auth>, Path(id): Path<String>) -> ApiResult<Json<RevokedView>> {
    auth.revoke_key(id.into()).await?;
    Ok(Json(RevokedView { revoked: true }))
}

/// Ticket with its secret, returned only once.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct TicketView {
    /// Value for the query of one connection: `?ticket=…`.
    ticket: String,
    /// Lifetime in seconds.
    expires_in: u64,
}

/// Create a connection ticket
///
/// The ticket represents the credential of the request for one stream or socket that a browser opens without custom
/// headers.
#[utoipa::path(
    post,
    path = "/api/auth/ticket",
    operation_id = "create_ticket",
    tag = "auth",
    params(IdempotencyKey),
    responses(
        (status = 200, description = "Created ticket, returned only once", body = TicketView),
        (status = 429, description = "Too many unused tickets", body = ErrorBody),
    ),
)]
pub(super) async fn create_ticket(
    State(auth): State<Auth>,
    caller: Caller,
    once: IdempotencyKey,
) -> ApiResult<Json<TicketView>> {
    let recorder = record_secret_once(&once, |issued: &IssuedTicket| issued.id.to_string());
    let issued = auth.create_ticket(caller, recorder).await?;
    Ok(Json(TicketView { ticket: issued.ticket.expose().to_owned(), expires_in: issued.expires_in_seconds }))
}
