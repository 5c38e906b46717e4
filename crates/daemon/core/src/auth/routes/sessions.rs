//! Endpoints of login sessions.

use agentd_base::{Secret, Timestamp};
use agentd_web::{ApiResult, Caller, CallerKind, ErrorBody, Json, Path};
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::auth::model::{LoginOrigin, UserSession, UserSessionId};
use crate::auth::service::Auth;

/// Active login session, without its token.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct LoginSessionView {
    id: UserSessionId,
    /// Time of the login.
    created_at: Timestamp,
    /// Time at which the session ends.
    expires_at: Timestamp,
    /// Time of the last use, accurate to the minute; `null` if the session was not used yet.
    #[schema(required = true)]
    last_used_at: Option<Timestamp>,
    /// `User-Agent` of the client at login, truncated to 256 characters; `null` if it was not sent.
    #[schema(required = true)]
    user_agent: Option<String>,
    /// IP address of the client at login, as reported by a proxy in `SVC_TRUSTED_PROXIES` if there is one; `null` if
    /// unknown.
    #[schema(required = true)]
    address: Option<String>,
    /// Whether this is the session of the request.
    current: bool,
}

/// All active login sessions.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct LoginSessionList {
    /// Active sessions, newest first.
    sessions: Vec<LoginSessionView>,
    /// Number of active sessions.
    total: u64,
}

impl LoginSessionView {
    fn new(caller: &Caller, session: UserSession) -> Self {
        let UserSession { id, created_at, expires_at, last_used_at, user_agent, address } = session;
        let current = caller.kind == CallerKind::Session && *caller.credential_id == *id.as_str();
        Self { id, created_at, expires_at, last_used_at, user_agent, address, current }
    }
}

/// List login sessions
///
/// Returns active sessions, newest first. Not paginated: there are at most 100 sessions, and a further login ends the
/// oldest.
#[utoipa::path(
    get,
    path = "/api/auth/sessions",
    operation_id = "list_login_sessions",
    tag = "auth",
    responses((status = 200, description = "Active sessions without their tokens", body = LoginSessionList)),
)]
pub(super) async fn list_login_sessions(State(auth): State<Auth>, caller: Caller) -> ApiResult<Json<LoginSessionList>> {
    let found = auth.list_sessions().await?;
    let sessions: Vec<_> = found.into_iter().map(|session| LoginSessionView::new(&caller, session)).collect();
    let total = sessions.len() as u64;
    Ok(Json(LoginSessionList { sessions, total }))
}

/// Confirmation of the password.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct ReauthenticateRequest {
    /// Password of the account, at most 1,024 characters.
    #[schema(value_type = String, format = Password, max_length = 1024, write_only)]
    password: Secret,
}

/// Result of a reauthentication.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ReauthenticatedView {
    /// Time until which the session may perform actions that need a recent password: ten minutes from now.
    reauthenticated_until: Timestamp,
}

/// Reauthenticate a page session
///
/// For the next ten minutes, the session may create and rotate API keys, create, download and restore backups with
/// secrets, and change safety settings. Without it, these requests return 403 `reauthentication_required`. Other
/// credentials need no confirmation. Wrong passwords count as failed logins.
#[utoipa::path(
    post,
    path = "/api/auth/reauthenticate",
    operation_id = "reauthenticate",
    tag = "auth",
    request_body = ReauthenticateRequest,
    responses(
        (status = 200, description = "Password confirmed", body = ReauthenticatedView),
        (status = 401, description = "Invalid credential, or `wrong_password`", body = ErrorBody),
        (status = 409, description = "Credential is not a page session", body = ErrorBody),
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

/// Result of ending login sessions.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct EndedSessionsView {
    /// Number of ended sessions.
    ended: u64,
}

/// End a login session
///
/// Takes effect immediately. Streams and sockets that were opened with the session end within a few seconds.
#[utoipa::path(
    delete,
    path = "/api/auth/sessions/{id}",
    operation_id = "delete_login_session",
    tag = "auth",
    params(("id" = String, Path, description = "Id of the session")),
    responses((status = 200, description = "Session ended", body = EndedSessionsView)),
)]
pub(super) async fn delete_login_session(
    State(auth): State<Auth>,
    Path(id): Path<String>,
) -> ApiResult<Json<EndedSessionsView>> {
    auth.end_session(id).await?;
    Ok(Json(EndedSessionsView { ended: 1 }))
}

/// End other login sessions
///
/// Ends all sessions except the one of the request. With an API key, ends all sessions.
#[utoipa::path(
    delete,
    path = "/api/auth/sessions",
    operation_id = "delete_other_login_sessions",
    tag = "auth",
    responses((status = 200, description = "Sessions ended", body = EndedSessionsView)),
)]
pub(super) async fn delete_other_login_sessions(
    State(auth): State<Auth>,
    caller: Caller,
) -> ApiResult<Json<EndedSessionsView>> {
    Ok(Json(EndedSessionsView { ended: auth.end_other_sessions(&caller).await? }))
}
