//! `/api/setup/*`.

use agentd_base::{FieldProblem, Secret};
use agentd_core::auth::{
    CreatedKey, IssuedKey, LoggedIn, LoginOrigin, RegisterRequest, RegisteredUser, SessionDelivery, SetCookies,
};
use agentd_core::runtime::{record_once, record_secret_once};
use agentd_engine::agents::{Agent, AgentFields, AgentView};
use agentd_web::{
    ApiResult, ApiRouter, Caller, ErrorBody, IdempotencyKey, Json, RequestingPage, Routes, Validate, Validated,
    not_found, routes,
};
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::model::{Progress, Step};
use super::service::{ProviderChoice, Setup};

/// Returns the routes of all steps, which are public until the first key exists.
#[must_use]
pub(super) fn routes() -> Routes<Setup> {
    Routes::new().open_until_first_key(
        ApiRouter::new()
            .routes(routes!(setup_status))
            .routes(routes!(setup_account))
            .routes(routes!(setup_provider))
            .routes(routes!(setup_agent))
            .routes(routes!(setup_complete))
            // Applies the access rule of the steps to unknown steps as well.
            .route("/api/setup/{step}", axum::routing::post(async || not_found())),
    )
}

/// Completed steps of the wizard.
#[derive(Debug, Serialize, ToSchema)]
struct SetupStatus {
    /// Whether an account exists.
    account: bool,
    /// Whether a model is available: a provider is configured, or the local model is installed.
    provider: bool,
    /// Whether an agent exists.
    agent: bool,
    /// Whether an API key exists, which completes the wizard.
    complete: bool,
    /// First incomplete step; `null` when the wizard is complete.
    #[schema(required = true)]
    next: Option<Step>,
}

impl From<Progress> for SetupStatus {
    fn from(progress: Progress) -> Self {
        let Progress { account, provider, agent, complete } = progress;
        Self { account, provider, agent, complete, next: progress.next() }
    }
}

/// Get setup status
#[utoipa::path(post, path = "/api/setup/status", operation_id = "setup_status", tag = "setup",
    responses((status = 200, description = "Progress of the setup", body = SetupStatus)))]
async fn setup_status(State(setup): State<Setup>) -> ApiResult<Json<SetupStatus>> {
    Ok(Json(setup.progress().await?.into()))
}

/// Create the account
///
/// Same as `POST /api/auth/register`.
#[utoipa::path(post, path = "/api/setup/account", operation_id = "setup_account", tag = "setup",
    request_body = RegisterRequest,
    params(IdempotencyKey),
    responses(
        (status = 403, description = "Cookie requested by a page of another origin, or a session cookie sent without `X-Svc-Csrf`", body = ErrorBody),
        (status = 201, description = "Created account with its session", body = RegisteredUser),
        (status = 409, description = "An account already exists", body = ErrorBody),
    ))]
async fn setup_account(
    State(setup): State<Setup>,
    caller: Caller,
    once: IdempotencyKey,
    page: RequestingPage,
    origin: LoginOrigin,
    Json(request): Json<RegisterRequest>,
) -> ApiResult<(StatusCode, SetCookies, Json<RegisteredUser>)> {
    let delivery = SessionDelivery::requested(request.cookie, page)?;
    let recorder = record_secret_once(&once, |made: &LoggedIn| made.user.id.to_string());
    let logged_in =
        setup.create_account(&caller, request.username, request.password, delivery.complete(origin), recorder).await?;
    Ok(RegisteredUser::response(logged_in, &delivery))
}

/// Provider of the models.
#[derive(Debug, Deserialize, ToSchema)]
struct SetupProvider {
    /// Id of a provider as listed by `GET /api/providers`; `local` for the local model.
    #[schema(min_length = 1, max_length = 64)]
    provider: String,
    /// API key of the provider, 1 to 4,096 characters. Can be omitted if `base_url` names a server that needs none, or
    /// if the provider is already configured and `base_url` still leads to the same server.
    #[schema(value_type = Option<String>, format = Password, min_length = 1, max_length = 4096, write_only)]
    api_key: Option<Secret>,
    /// Base URL as used by the SDK of the vendor, at most 2,048 characters; for OpenAI it ends in `/v1`. Default: the
    /// configured URL, otherwise the address of the vendor.
    #[schema(max_length = 2048)]
    base_url: Option<String>,
    /// Name of the default model, 1 to 200 characters; for `local` a model file. Default: the default model of the
    /// provider.
    #[schema(min_length = 1, max_length = 200)]
    model: Option<String>,
}

impl From<SetupProvider> for ProviderChoice {
    fn from(request: SetupProvider) -> Self {
        let SetupProvider { provider, api_key, base_url, model } = request;
        Self { provider, api_key, base_url, model }
    }
}

impl Validate<Setup> for SetupProvider {
    async fn validate(self, setup: &Setup) -> Vec<FieldProblem> {
        setup.provider_problems(self.into()).await
    }
}

/// Configure the default provider
#[utoipa::path(post, path = "/api/setup/provider", operation_id = "setup_provider", tag = "setup",
    request_body = SetupProvider,
    responses(
        (status = 200, description = "Progress of the setup", body = SetupStatus),
    ))]
async fn setup_provider(
    State(setup): State<Setup>,
    Validated(Json(request)): Validated<Json<SetupProvider>>,
) -> ApiResult<Json<SetupStatus>> {
    setup.choose_provider(request.into()).await?;
    Ok(Json(setup.progress().await?.into()))
}

/// Create an agent
///
/// Same as `POST /api/agents`.
#[utoipa::path(post, path = "/api/setup/agent", operation_id = "setup_agent", tag = "setup",
    request_body = AgentFields,
    params(IdempotencyKey),
    responses(
        (status = 201, description = "Created agent", body = AgentView),
        (status = 409, description = "The `svc_name` is already used", body = ErrorBody),
    ))]
async fn setup_agent(
    State(setup): State<Setup>,
    once: IdempotencyKey,
    Validated(Json(fields)): Validated<Json<AgentFields>>,
) -> ApiResult<(StatusCode, Json<AgentView>)> {
    let recorder = record_once(&once, StatusCode::CREATED, |agent: &Agent| AgentView::from(agent));
    let agent = setup.create_agent(fields.into(), recorder).await?;
    Ok((StatusCode::CREATED, Json(AgentView::from(&agent))))
}

/// Name of the first API key.
#[derive(Debug, Deserialize, ToSchema)]
struct SetupComplete {
    /// Name of the key, 1 to 100 characters. Default: `first`.
    #[schema(min_length = 1, max_length = 100)]
    key_name: Option<String>,
}

/// Complete the setup
///
/// Creates the first API key with the scope `full`; it is shown once. Returns 409 if a key already exists.
#[utoipa::path(post, path = "/api/setup/complete", operation_id = "setup_complete", tag = "setup",
    request_body = SetupComplete,
    params(IdempotencyKey),
    responses(
        (status = 200, description = "Created key, returned only once", body = CreatedKey),
        (status = 409, description = "A key already exists", body = ErrorBody),
    ))]
async fn setup_complete(
    State(setup): State<Setup>,
    caller: Caller,
    once: IdempotencyKey,
    Json(request): Json<SetupComplete>,
) -> ApiResult<Json<CreatedKey>> {
    let recorder = record_secret_once(&once, |issued: &IssuedKey| issued.id.to_string());
    Ok(Json(setup.complete(&caller, request.key_name, recorder).await?.into()))
}
