//! Login sessions of the owner.

use agentd_base::{Secret, Timestamp};
use agentd_web::{ApiResult, Caller, CallerKind, ErrorBody, Json, Path};
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::auth::model::{LoginOrigin, UserSession, UserSessionId};
use crate::auth::service::Auth;

/// A session that has not ended. Its token is kept nowhere.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct LoginSessionView {
    id: UserSessionId,
    created_at: Timestamp,
    expires_at: Timestamp,
    /// To the minute; null when it was not used yet.
    #[schema(required = true)]
    last_used_at: Option<Timestamp>,
    /// What the client called itself at the login, 256 characters of it; null where it said nothing.
    #[schema(required = true)]
    user_agent: Option<String>,
    /// Where the login came from; behind a proxy in `SVC_TRUSTED_PROXIES`, what that says.
    #[schema(required = true)]
    address: Option<String>,
    /// It is the one that asks.
    current: bool,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct LoginSessionList {
    sessions: Vec<LoginSessionView>,
    total: u64,
}

impl LoginSessionView {
    fn shown_to(caller: &Caller, session: UserSession) -> Self {
        let UserSession { id, created_at, expires_at, last_used_at, user_agent, address } = session;
        let current = caller.kind == CallerKind::Session && *caller.credential_id == *id.as_str();
        Self { id, created_at, expires_at, last_used_at, user_agent, address, current }
    }
}

/// Where the owner is logged in, the newest login first
///
/// Not paged: of more than 100 sessions the oldest are ended.
#[utoipa::path(
    get,
    path = "/api/auth/sessions",
    operation_id = "list_login_sessions",
    tag = "auth",
    responses((status = 200, description = "The sessions that have not ended, without their tokens", body = LoginSessionList)),
)]
pub(super) async fn list_login_sessions(State(auth): State<Auth>, caller: Caller) -> ApiResult<Json<LoginSessionList>> {
    let found = auth.list_sessions().await?;
    let sessions: Vec<_> = found.into_iter().map(|session| LoginSessionView::shown_to(&caller, session)).collect();
    let total = sessions.len() as u64;
    Ok(Json(LoginSessionList { sessions, total }))
}

#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct ReauthenticateRequest {
    #[schema(value_type = String, format = Password, max_length = 1024, write_only)]
    password: Secret,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ReauthenticatedView {
    /// Until then the session may do what needs a recently entered password.
    reauthenticated_until: Timestamp,
}

/// Confirm the password of a page session
///
/// For ten minutes the session may then create and rotate API keys, create, download and restore backups with secrets,
/// and change safety settings, which is refused otherwise with 403 `reauthentication_required`. Other credentials need
/// no confirmation. Wrong passwords count as failed logins.
#[utoipa::path(
    post,
    path = "/api/auth/reauthenticate",
    operation_id = "reauthenticate",
    tag = "auth",
    request_body = ReauthenticateRequest,
    responses(
        (status = 200, description = "The password is right", body = ReauthenticatedView),
        (status = 401, description = "No valid credential, or `wrong_password`", body = ErrorBody),
        (status = 409, description = "The credential is no page session", body = ErrorBody),
        (status = 429, description = "Too many wrong passwords", body = ErrorBody),
    ),
)]
pub(super) async fn reauthenticate(
    State(auth): State<Auth>,
    caller: Caller,
    origin: LoginOrigin,
    Json(request): Json<ReauthenticateRequest>,
) -> ApiResult<Json<ReauthenticatedView>> {
    let reauthenticated_until = auth.reauthenticate(&caller, request.password, origin.address).await?;
    Ok(Json(ReauthenticatedView { reauthenticated_until }))
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct EndedSessionsView {
    /// How many sessions have ended.
    ended: u64,
}

/// End one session
///
/// At once and everywhere: streams and sockets that were opened with it end within a few seconds.
#[utoipa::path(
    delete,
    path = "/api/auth/sessions/{id}",
    operation_id = "delete_login_session",
    tag = "auth",
    params(("id" = String, Path, description = "Id of the session")),
    responses((status = 200, description = "It has ended", body = EndedSessionsView)),
)]
pub(super) async fn delete_login_session(
    State(auth): State<Auth>,
    Path(id): Path<String>,
) -> ApiResult<Json<EndedSessionsView>> {
    auth.end_session(id).await?;
    Ok(Json(EndedSessionsView { ended: 1 }))
}

/// End every session but the one that asks
///
/// Asked with an API key, it ends all of them.
#[utoipa::path(
    delete,
    path = "/api/auth/sessions",
    operation_id = "delete_other_login_sessions",
    tag = "auth",
    responses((status = 200, description = "They have ended", body = EndedSessionsView)),
)]
pub(super) async fn delete_other_login_sessions(
    State(auth): State<Auth>,
    caller: Caller,
) -> ApiResult<Json<EndedSessionsView>> {
    Ok(Json(EndedSessionsView { ended: auth.end_other_sessions(&caller).await? }))
}
