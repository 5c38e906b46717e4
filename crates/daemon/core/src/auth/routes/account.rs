//! Endpoints of the account: bootstrap, registration, login, validation, logout.

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

/// State of the initial setup.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct BootstrapView {
    /// Whether no account has been created yet.
    needs_setup: bool,
}

/// Get bootstrap state
///
/// Returns whether an account still has to be created. Needs no credential.
#[utoipa::path(
    get,
    path = "/api/auth/bootstrap",
    operation_id = "get_bootstrap",
    tag = "auth",
    responses((status = 200, description = "Bootstrap state", body = BootstrapView)),
)]
pub(super) async fn get_bootstrap(State(auth): State<Auth>) -> ApiResult<Json<BootstrapView>> {
    let state = auth.recent_bootstrap_state().await?;
    Ok(Json(BootstrapView { needs_setup: state.needs_setup }))
}

/// Account to create.
#[derive(Debug, Deserialize, ToSchema)]
pub struct RegisterRequest {
    /// Login name, 3 to 64 characters.
    #[schema(min_length = 3, max_length = 64)]
    pub username: String,
    /// Password, 8 to 1,024 characters.
    #[schema(value_type = String, format = Password, min_length = 8, max_length = 1024, write_only)]
    pub password: Secret,
    /// Starts a page session, for the daemon's own page: the token is sent in the cookie `svc_session` instead of the
    /// body, and is valid only together with `page_secret`. Default: false.
    #[serde(default)]
    #[schema(required = false)]
    pub cookie: bool,
}

/// Created account with its session.
#[derive(Debug, Serialize, ToSchema)]
pub struct RegisteredUser {
    /// Id of the account.
    user_id: String,
    /// Login name of the account.
    username: String,
    /// Session token (`sess_…`), returned only once. Omitted with `cookie`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    token: Option<String>,
    /// Page secret (`page_…`), returned only once and only with `cookie`. Send it as `X-Svc-Page` with every request of
    /// the page session.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    page_secret: Option<String>,
    /// Always `session`.
    token_type: &'static str,
    /// Next step of the setup.
    message: &'static str,
}

impl RegisteredUser {
    /// Builds the response for a new account and delivers its session.
    pub fn response(logged_in: LoggedIn, delivery: &SessionDelivery) -> (StatusCode, SetCookies, Json<Self>) {
        let Delivered { cookies, token, page_secret } = delivery.deliver(&logged_in);
        let user = Self {
            user_id: logged_in.user.id.to_string(),
            username: logged_in.user.username,
            token,
            page_secret,
            token_type: "session",
            message: if logged_in.bootstrap_mode {
                "The account was created. Next, create the first API key with POST /api/auth/keys; the session grants no \
                access before that."
            } else {
                "The account was created and is logged in."
            },
        };
        (StatusCode::CREATED, cookies, Json(user))
    }
}

/// Register the account
///
/// Needs no credential until the first account or API key is created. With an `Idempotency-Key`, a repeated request
/// returns 409 `already_done` with the user's id.
#[utoipa::path(
    post,
    path = "/api/auth/register",
    operation_id = "register",
    tag = "auth",
    request_body = RegisterRequest,
    params(IdempotencyKey),
    responses(
        (status = 403, description = "Cookie requested by a page of another origin, or a session cookie sent without `X-Svc-Csrf`", body = ErrorBody),
        (status = 201, description = "Created account with its session", body = RegisteredUser),
        (status = 409, description = "An account already exists", body = ErrorBody),
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
    let recorder = record_secret_once(&once, |logged_in: &LoggedIn| logged_in.user.id.to_string());
    let logged_in =
        auth.register(&caller, request.username, request.password, delivery.complete(origin), recorder).await?;
    Ok(RegisteredUser::response(logged_in, &delivery))
}

/// Login credentials.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct LoginRequest {
    /// Login name, at most 1,024 characters.
    #[schema(max_length = 1024)]
    username: String,
    /// Password, at most 1,024 characters.
    #[schema(value_type = String, format = Password, max_length = 1024, write_only)]
    password: Secret,
    /// Starts a page session, for the daemon's own page: the token is sent in the cookie `svc_session` instead of the
    /// body, and is valid only together with `page_secret`. Default: false.
    #[serde(default)]
    #[schema(required = false)]
    cookie: bool,
}

/// New session.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct LoginView {
    /// Session token (`sess_…`), returned only once. Omitted with `cookie`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    token: Option<String>,
    /// Page secret (`page_…`), returned only once and only with `cookie`. Send it as `X-Svc-Page` with every request of
    /// the page session.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    page_secret: Option<String>,
    /// Always `session`.
    token_type: &'static str,
    /// Lifetime of the session in seconds, from the setting `security.session_ttl_seconds`.
    expires_in: u64,
    /// Account that was logged in.
    user: UserView,
}

/// Account of the owner.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct UserView {
    /// Id of the account.
    id: String,
    /// Login name of the account.
    username: String,
}

impl From<User> for UserView {
    fn from(user: User) -> Self {
        Self { id: user.id.to_string(), username: user.username }
    }
}

/// Log in
///
/// An unknown user and a wrong password get the same response. After too many failures for a user from one address,
/// attempts from there get 429 with `Retry-After`: one second at first, doubled after each further failure, up to a
/// minute. Failures from other addresses only delay the response. With an `Idempotency-Key`, which belongs to the user,
/// a repeated request returns 409 `already_done` with the session's id.
///
/// With `cookie`, the browser's previous session ends.
#[utoipa::path(
    post,
    path = "/api/auth/login",
    operation_id = "login",
    tag = "auth",
    request_body = LoginRequest,
    params(IdempotencyKey),
    responses(
        (status = 403, description = "Cookie requested by a page of another origin, or a session cookie sent without `X-Svc-Csrf`", body = ErrorBody),
        (status = 200, description = "New session", body = LoginView),
        (status = 401, description = "Wrong username or password", body = ErrorBody),
        (status = 409, description = "Login with this idempotency key already done", body = ErrorBody),
        (status = 429, description = "Too many failures or too many concurrent logins", body = ErrorBody),
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

/// Result of validating a credential.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ValidateView {
    /// Whether the credential is valid.
    valid: bool,
    /// Kind of the credential: `api_key` or `session`; `null` if it is not valid.
    #[schema(required = true)]
    token_type: Option<&'static str>,
}

/// Validate the credential
///
/// Returns 200 even if the credential is invalid or missing. A session is valid during bootstrap too, although it
/// grants no access until the first key exists.
#[utoipa::path(
    post,
    path = "/api/auth/validate",
    operation_id = "validate",
    tag = "auth",
    responses(
        (status = 200, description = "Validity and kind of the credential", body = ValidateView),
        (status = 403, description = "Session cookie sent without `X-Svc-Csrf`", body = ErrorBody),
    ),
)]
pub(super) async fn validate(State(auth): State<Auth>, request: Request) -> ApiResult<Json<ValidateView>> {
    let credential = read_credential(&request)?;
    let kind = auth.validate(credential).await.map_err(|_| ApiError::from(AccessDenied::Unavailable))?;
    let token_type = kind.map(|kind| if kind == CallerKind::Session { "session" } else { "api_key" });
    Ok(Json(ValidateView { valid: token_type.is_some(), token_type }))
}

/// Result of a logout.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct LogoutView {
    /// Whether a session ended. False for an API key, which can be revoked with
    /// `DELETE /api/auth/keys/{id}`.
    success: bool,
}

/// Log out
///
/// Ends the session of the request. The response deletes the session cookie of the daemon's own page.
#[utoipa::path(
    post,
    path = "/api/auth/logout",
    operation_id = "logout",
    tag = "auth",
    responses((status = 200, description = "Whether a session ended", body = LogoutView)),
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
