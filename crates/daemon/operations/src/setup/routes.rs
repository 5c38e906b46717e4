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

/// Every step; open until the first key exists.
#[must_use]
pub(super) fn routes() -> Routes<Setup> {
    Routes::new().open_until_first_key(
        ApiRouter::new()
            .routes(routes!(setup_status))
            .routes(routes!(setup_account))
            .routes(routes!(setup_provider))
            .routes(routes!(setup_agent))
            .routes(routes!(setup_complete))
            // So that the access rule of these steps, and not that of all other paths, applies to unknown steps.
            .route("/api/setup/{step}", axum::routing::post(async || not_found())),
    )
}

/// What is done.
#[derive(Debug, Serialize, ToSchema)]
struct SetupStatus {
    /// An account was made.
    account: bool,
    /// A model can be used: a vendor is set up, or the model inside is there.
    provider: bool,
    /// An agent exists.
    agent: bool,
    /// An API key was made: the wizard is over.
    complete: bool,
    /// The first step that is not done; null when the wizard is over.
    #[schema(required = true)]
    next: Option<Step>,
}

impl From<Progress> for SetupStatus {
    fn from(progress: Progress) -> Self {
        let Progress { account, provider, agent, complete } = progress;
        Self { account, provider, agent, complete, next: progress.next() }
    }
}

/// What the wizard has done
#[utoipa::path(post, path = "/api/setup/status", operation_id = "setup_status", tag = "setup",
    responses((status = 200, description = "Every step", body = SetupStatus)))]
async fn setup_status(State(setup): State<Setup>) -> ApiResult<Json<SetupStatus>> {
    Ok(Json(setup.progress().await?.into()))
}

/// Make the account
///
/// The same as `POST /api/auth/register`.
#[utoipa::path(post, path = "/api/setup/account", operation_id = "setup_account", tag = "setup",
    request_body = RegisterRequest,
    params(IdempotencyKey),
    responses(
        (status = 403, description = "A page of another origin asked for a cookie, or one came without `X-Svc-Csrf`", body = ErrorBody),
        (status = 201, description = "The account, logged in", body = RegisteredUser),
        (status = 409, description = "An account exists already", body = ErrorBody),
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
        setup.make_account(&caller, request.username, request.password, delivery.complete(origin), recorder).await?;
    Ok(RegisteredUser::answer(logged_in, &delivery))
}

/// Where replies are to come from.
#[derive(Debug, Deserialize, ToSchema)]
struct SetupProvider {
    /// Id of a provider, as `GET /api/providers` lists them; `local` is the model inside.
    #[schema(min_length = 1, max_length = 64)]
    provider: String,
    /// The vendor's key. May be left out where a `base_url` names a server that wants none, and for
    /// what is set up already, unless `base_url` now leads to another server.
    #[schema(value_type = Option<String>, format = Password, min_length = 1, max_length = 4096, write_only)]
    api_key: Option<Secret>,
    /// As the vendor's own SDK takes it; OpenAI's ends in `/v1`.
    #[schema(max_length = 2048)]
    base_url: Option<String>,
    /// The provider's own name of a model.
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

/// Set a provider up and make it the default
#[utoipa::path(post, path = "/api/setup/provider", operation_id = "setup_provider", tag = "setup",
    request_body = SetupProvider,
    responses(
        (status = 200, description = "Every step", body = SetupStatus),
    ))]
async fn setup_provider(
    State(setup): State<Setup>,
    Validated(Json(request)): Validated<Json<SetupProvider>>,
) -> ApiResult<Json<SetupStatus>> {
    setup.choose_provider(request.into()).await?;
    Ok(Json(setup.progress().await?.into()))
}

/// Make an agent
///
/// The same as `POST /api/agents`.
#[utoipa::path(post, path = "/api/setup/agent", operation_id = "setup_agent", tag = "setup",
    request_body = AgentFields,
    params(IdempotencyKey),
    responses(
        (status = 201, description = "The agent", body = AgentView),
        (status = 409, description = "The svc_name is taken", body = ErrorBody),
    ))]
async fn setup_agent(
    State(setup): State<Setup>,
    once: IdempotencyKey,
    Validated(Json(fields)): Validated<Json<AgentFields>>,
) -> ApiResult<(StatusCode, Json<AgentView>)> {
    let recorder = record_once(&once, StatusCode::CREATED, |agent: &Agent| AgentView::from(agent));
    let agent = setup.make_agent(fields.into(), recorder).await?;
    Ok((StatusCode::CREATED, Json(AgentView::from(&agent))))
}

/// How the first key is to be called.
#[derive(Debug, Deserialize, ToSchema)]
struct SetupComplete {
    /// `first` when left out.
    #[schema(min_length = 1, max_length = 100)]
    key_name: Option<String>,
}

/// End the wizard with the first API key
///
/// The key has the scope `full` and is shown once. Once a key exists, however it was made: 409.
#[utoipa::path(post, path = "/api/setup/complete", operation_id = "setup_complete", tag = "setup",
    request_body = SetupComplete,
    params(IdempotencyKey),
    responses(
        (status = 200, description = "The key, shown once", body = CreatedKey),
        (status = 409, description = "A key was made before", body = ErrorBody),
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
