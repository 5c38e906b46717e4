//! The account: bootstrap, registration, login, validation, logout.

use agentd_base::Secret;
use agentd_web::{
    AccessDenied, ApiError, ApiResult, Caller, CallerKind, CookieScope, ErrorBody, IdempotencyKey, Json,
    RequestingPage, presented_idempotency_key, read_credential,
};
use axum::extract::{Request, State};
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::delivery::{Delivered, SessionDelivery, SetCookies, set_cookies};
use crate::auth::model::{LoggedIn, LoginOrigin, User};
use crate::auth::service::Auth;
use crate::runtime::record_secret_once;

/// Whether an account is still to be made.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct BootstrapView {
    /// No account was ever made.
    needs_setup: bool,
}

/// Whether an account is still to be made
#[utoipa::path(
    get,
    path = "/api/auth/bootstrap",
    operation_id = "get_bootstrap",
    tag = "auth",
    responses((status = 200, description = "What is still to be done", body = BootstrapView)),
)]
pub(super) async fn get_bootstrap(State(auth): State<Auth>) -> ApiResult<Json<BootstrapView>> {
    let state = auth.recent_bootstrap_state().await?;
    Ok(Json(BootstrapView { needs_setup: state.needs_setup }))
}

/// The account to make.
#[derive(Debug, Deserialize, ToSchema)]
pub struct RegisterRequest {
    #[schema(min_length = 3, max_length = 64)]
    pub username: String,
    #[schema(value_type = String, format = Password, min_length = 8, max_length = 1024, write_only)]
    pub password: Secret,
    /// For the daemon's own page: begins a page session. Its token comes as the cookie `svc_session` and not in the
    /// body; the cookie counts only together with `page_secret`.
    #[serde(default)]
    #[schema(required = false)]
    pub cookie: bool,
}

/// The account that was made, logged in.
#[derive(Debug, Serialize, ToSchema)]
pub struct RegisteredUser {
    user_id: String,
    username: String,
    /// `sess_…`; shown once. Left out with `cookie`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    token: Option<String>,
    /// `page_…`; shown once, only with `cookie`. Send it as `X-Svc-Page` with every request of the page session.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    page_secret: Option<String>,
    /// `session`
    token_type: &'static str,
    /// What to do next.
    message: &'static str,
}

impl RegisteredUser {
    /// The answer for who is logged in now, its session handed over.
    pub fn answer(logged_in: LoggedIn, delivery: &SessionDelivery) -> (StatusCode, SetCookies, Json<Self>) {
        let Delivered { cookies, token, page_secret } = delivery.deliver(&logged_in);
        let user = Self {
            user_id: logged_in.user.id.to_string(),
            username: logged_in.user.username,
            token,
            page_secret,
            token_type: "session",
            message: if logged_in.bootstrap_mode {
                "The account is made. Next make the first API key with POST /api/auth/keys; the session opens nothing \
                 before that."
            } else {
                "The account is made and logged in."
            },
        };
        (StatusCode::CREATED, cookies, Json(user))
    }
}

/// Make the one account
///
/// Needs no credential while neither an account nor an API key was ever made. With an
/// `Idempotency-Key`, a repeat answers 409 `already_done` with the user's id.
#[utoipa::path(
    post,
    path = "/api/auth/register",
    operation_id = "register",
    tag = "auth",
    request_body = RegisterRequest,
    params(IdempotencyKey),
    responses(
        (status = 403, description = "A page of another origin asked for a cookie, or one came without `X-Svc-Csrf`", body = ErrorBody),
        (status = 201, description = "The account, logged in", body = RegisteredUser),
        (status = 409, description = "An account exists already", body = ErrorBody),
    ),
)]
pub(super) async fn register(
    State(auth): State<Auth>,
    caller: Caller,
    once: IdempotencyKey,
    page: RequestingPage,
    origin: LoginOrigin,
    Json(request): Json<RegisterRequest>,
) -> ApiResult<(StatusCode, SetCookies, Json<RegisteredUser>)> {
    let delivery = SessionDelivery::requested(request.cookie, page)?;
    let recorder = record_secret_once(&once, |made: &LoggedIn| made.user.id.to_string());
    let logged_in =
        auth.register(&caller, request.username, request.password, delivery.complete(origin), recorder).await?;
    Ok(RegisteredUser::answer(logged_in, &delivery))
}

/// Who logs in.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct LoginRequest {
    #[schema(max_length = 1024)]
    username: String,
    #[schema(value_type = String, format = Password, max_length = 1024, write_only)]
    password: Secret,
    /// For the daemon's own page: begins a page session. Its token comes as the cookie `svc_session` and not in the
    /// body; the cookie counts only together with `page_secret`.
    #[serde(default)]
    #[schema(required = false)]
    cookie: bool,
}

/// A session.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct LoginView {
    /// `sess_…`; shown once. Left out with `cookie`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    token: Option<String>,
    /// `page_…`; shown once, only with `cookie`. Send it as `X-Svc-Page` with every request of the page session.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    page_secret: Option<String>,
    /// `session`
    token_type: &'static str,
    /// Seconds that the session lasts.
    expires_in: u64,
    user: UserView,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct UserView {
    id: String,
    username: String,
}

impl From<User> for UserView {
    fn from(user: User) -> Self {
        Self { id: user.id.to_string(), username: user.username }
    }
}

/// Begin a session with username and password
///
/// A wrong user and a wrong password are answered alike. After too many failures for a user from one address, attempts
/// from there get 429 with `Retry-After`: one second at first, twice as long after each further failure, at most a
/// minute. Failures from other addresses only delay the answer. With an `Idempotency-Key`, which belongs to the user, a
/// repeat answers 409 `already_done` with the session's id.
///
/// With `cookie`, the session ends that the browser had before.
#[utoipa::path(
    post,
    path = "/api/auth/login",
    operation_id = "login",
    tag = "auth",
    request_body = LoginRequest,
    params(IdempotencyKey),
    responses(
        (status = 403, description = "A page of another origin asked for a cookie, or one came without `X-Svc-Csrf`", body = ErrorBody),
        (status = 200, description = "The session", body = LoginView),
        (status = 401, description = "The username or the password is wrong", body = ErrorBody),
        (status = 409, description = "This login was done before", body = ErrorBody),
        (status = 429, description = "Too many failures or too many logins at once", body = ErrorBody),
    ),
)]
pub(super) async fn login(
    State(auth): State<Auth>,
    headers: HeaderMap,
    page: RequestingPage,
    origin: LoginOrigin,
    Json(request): Json<LoginRequest>,
) -> ApiResult<(SetCookies, Json<LoginView>)> {
    let delivery = SessionDelivery::requested(request.cookie, page)?;
    let (origin, once) = (delivery.complete(origin), presented_idempotency_key(&headers)?);
    let logged_in = auth.login(request.username, request.password, origin, once).await?;
    let Delivered { cookies, token, page_secret } = delivery.deliver(&logged_in);
    let (expires_in, user) = (logged_in.expires_in_seconds, logged_in.user.into());
    Ok((cookies, Json(LoginView { token, page_secret, token_type: "session", expires_in, user })))
}

/// What a credential is.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ValidateView {
    valid: bool,
    /// `api_key` or `session`; null when it is not valid.
    #[schema(required = true)]
    token_type: Option<&'static str>,
}

/// Whether the presented credential is valid
///
/// Answers 200 also when it is not, or when there is none. A session is valid in bootstrap too,
/// although it opens nothing there.
#[utoipa::path(
    post,
    path = "/api/auth/validate",
    operation_id = "validate",
    tag = "auth",
    responses(
        (status = 200, description = "What the credential is", body = ValidateView),
        (status = 403, description = "A session cookie came without `X-Svc-Csrf`", body = ErrorBody),
    ),
)]
pub(super) async fn validate(State(auth): State<Auth>, request: Request) -> ApiResult<Json<ValidateView>> {
    let credential = read_credential(&request)?;
    let kind = auth.validate(credential).await.map_err(|_| ApiError::from(AccessDenied::Unavailable))?;
    let token_type = kind.map(|kind| if kind == CallerKind::Session { "session" } else { "api_key" });
    Ok(Json(ValidateView { valid: token_type.is_some(), token_type }))
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct LogoutView {
    /// False when the credential is an API key: that is revoked with DELETE.
    success: bool,
}

/// End the session that asks
///
/// The response deletes the session cookie of the daemon's own page.
#[utoipa::path(
    post,
    path = "/api/auth/logout",
    operation_id = "logout",
    tag = "auth",
    responses((status = 200, description = "Whether a session was ended", body = LogoutView)),
)]
pub(super) async fn logout(
    State(auth): State<Auth>,
    caller: Caller,
    cookies: CookieScope,
) -> ApiResult<(SetCookies, Json<LogoutView>)> {
    let success = auth.logout(&caller).await?;
    let deleted = if success { cookies.delete_sessions() } else { Vec::new() };
    Ok((set_cookies(deleted), Json(LogoutView { success })))
}
