//! The HTTP face of providers.

use agentd_base::{Patch, SecretState, SecretUpdate, Timestamp};
use agentd_inference::LocalState;
use agentd_web::{ApiResult, Json, Path, Routes};
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::model::{LOCAL, LastOutcome};
use super::service::{Configured, ProviderUpdate, Providers};

#[must_use]
pub fn routes() -> Routes<Providers> {
    Routes::new().protected(
        OpenApiRouter::new()
            .routes(routes!(list_providers))
            .routes(routes!(set_provider_key, clear_provider_key))
            .routes(routes!(test_provider)),
    )
}

/// How a provider stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum ProviderStatus {
    /// No key and no base URL; for `local`: no model file.
    Unconfigured,
    /// Set, and not asked yet.
    Configured,
    /// Answered when it was last asked.
    Ok,
    /// Answered last that there were too many requests.
    RateLimited,
    /// Failed when it was last asked; `message` says how.
    Failing,
}

#[derive(Debug, Serialize, ToSchema)]
struct ProviderView {
    id: String,
    name: String,
    configured: bool,
    status: ProviderStatus,
    /// What went wrong last, or what is missing.
    message: Option<String>,
    /// When it was last asked.
    checked_at: Option<Timestamp>,
    /// Write-only: says only whether it is set.
    api_key: Option<SecretState>,
    /// Where requests go instead of the vendor's own address.
    base_url: Option<String>,
    default_base_url: Option<String>,
    /// Used where nothing names a model.
    default_model: Option<String>,
    /// Only of the model inside.
    local: Option<LocalView>,
}

/// The process that runs the model inside.
#[derive(Debug, Serialize, ToSchema)]
struct LocalView {
    state: LocalStateView,
    /// The file that is or would be used.
    model: Option<String>,
    /// Memory of the process; 0 when it does not run.
    resident_bytes: u64,
    /// In tokens; null before the first load.
    context_length: Option<u32>,
    prompt_tokens_per_second: Option<f64>,
    generation_tokens_per_second: Option<f64>,
    active_requests: u64,
}

#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum LocalStateView {
    Unloaded,
    Loading,
    Ready,
    Failed,
}

#[derive(Debug, Serialize, ToSchema)]
struct ProviderList {
    providers: Vec<ProviderView>,
    total: usize,
}

/// What is left out stays as it is; `null` clears it.
#[derive(Debug, Deserialize, ToSchema)]
struct SetProviderKey {
    /// The vendor's key. Not needed where a `base_url` names a server that wants none.
    #[serde(default)]
    #[schema(value_type = Option<SecretUpdate>)]
    api_key: Patch<SecretUpdate>,
    /// As the vendor's own SDK takes it; OpenAI's ends in `/v1`.
    #[serde(default)]
    #[schema(value_type = Option<String>, max_length = 2048)]
    base_url: Patch<String>,
    #[serde(default)]
    #[schema(value_type = Option<String>, max_length = 200)]
    default_model: Patch<String>,
}

/// Whether a provider answered.
#[derive(Debug, Serialize, ToSchema)]
struct ProviderTest {
    ok: bool,
    latency_ms: Option<u64>,
    /// The models that the key may use, as the vendor lists them.
    models: Vec<String>,
    /// The error's code, as in the stream of a chat.
    code: Option<String>,
    error: Option<String>,
}

fn view(providers: &Providers, set: &Configured) -> ProviderView {
    let last = providers.last_outcome(set.vendor.id());
    ProviderView {
        id: set.vendor.id().to_owned(),
        name: set.vendor.display_name().to_owned(),
        configured: set.backend.is_some(),
        status: status(set.backend.is_some(), last.as_ref()),
        message: last.as_ref().and_then(|last| last.message.clone()),
        checked_at: last.map(|last| last.checked_at),
        api_key: set.has_key.then_some(SecretState { set: true }),
        base_url: set.base_url.clone(),
        default_base_url: Some(set.vendor.default_base_url().to_owned()),
        default_model: Some(set.default_model.clone().unwrap_or_else(|| set.vendor.default_model().to_owned())),
        local: None,
    }
}

fn status(is_configured: bool, last: Option<&LastOutcome>) -> ProviderStatus {
    match last {
        _ if !is_configured => ProviderStatus::Unconfigured,
        None => ProviderStatus::Configured,
        Some(last) if last.is_ok => ProviderStatus::Ok,
        Some(last) if last.is_rate_limited => ProviderStatus::RateLimited,
        Some(_) => ProviderStatus::Failing,
    }
}

fn local_view(providers: &Providers) -> ProviderView {
    let (state, file) = providers.local_state();
    let last = providers.last_outcome(LOCAL);
    let missing = file.as_ref().err().map(ToString::to_string);
    ProviderView {
        id: LOCAL.to_owned(),
        name: "Model inside".to_owned(),
        configured: file.is_ok(),
        status: status(file.is_ok(), last.as_ref()),
        message: missing.or_else(|| last.as_ref().and_then(|last| last.message.clone())),
        checked_at: last.map(|last| last.checked_at),
        api_key: None,
        base_url: None,
        default_base_url: None,
        default_model: file.as_ref().ok().cloned(),
        local: Some(LocalView {
            state: match state.state {
                LocalState::Unloaded => LocalStateView::Unloaded,
                LocalState::Loading => LocalStateView::Loading,
                LocalState::Ready => LocalStateView::Ready,
                LocalState::Failed => LocalStateView::Failed,
            },
            model: file.ok(),
            resident_bytes: state.resident_bytes,
            context_length: state.context_length,
            prompt_tokens_per_second: state.prompt_tokens_per_second,
            generation_tokens_per_second: state.generation_tokens_per_second,
            active_requests: state.active_requests as u64,
        }),
    }
}

async fn find_view(providers: &Providers, id: &str) -> ApiResult<ProviderView> {
    let configured = providers.configured().await?;
    let found = configured.iter().find(|set| set.vendor.id() == id).map(|set| view(providers, set));
    Ok(found.unwrap_or_else(|| local_view(providers)))
}

/// List the eight vendors and the model inside
#[utoipa::path(
    get,
    path = "/api/providers",
    operation_id = "list_providers",
    tag = "Providers",
    responses((status = 200, description = "In a fixed order, the model inside last", body = ProviderList)),
)]
async fn list_providers(State(providers): State<Providers>) -> ApiResult<Json<ProviderList>> {
    let configured = providers.configured().await?;
    let mut list: Vec<ProviderView> = configured.iter().map(|set| view(&providers, set)).collect();
    list.push(local_view(&providers));
    Ok(Json(ProviderList { total: list.len(), providers: list }))
}

/// Set a vendor's key, base URL and default model
#[utoipa::path(
    put,
    path = "/api/providers/{id}/key",
    operation_id = "set_provider_key",
    tag = "Providers",
    params(("id" = String, Path, description = "Id of a vendor")),
    request_body = SetProviderKey,
    responses((status = 200, description = "The provider as it stands now", body = ProviderView)),
)]
async fn set_provider_key(
    State(providers): State<Providers>,
    Path(id): Path<String>,
    Json(body): Json<SetProviderKey>,
) -> ApiResult<Json<ProviderView>> {
    let SetProviderKey { api_key, base_url, default_model } = body;
    providers.update(&id, ProviderUpdate { api_key, base_url, default_model }).await?;
    Ok(Json(find_view(&providers, &id).await?))
}

/// Forget a vendor's key, base URL and default model
#[utoipa::path(
    delete,
    path = "/api/providers/{id}/key",
    operation_id = "clear_provider_key",
    tag = "Providers",
    params(("id" = String, Path, description = "Id of a vendor")),
    responses((status = 200, description = "The provider as it stands now", body = ProviderView)),
)]
async fn clear_provider_key(
    State(providers): State<Providers>,
    Path(id): Path<String>,
) -> ApiResult<Json<ProviderView>> {
    providers.clear(&id).await?;
    Ok(Json(find_view(&providers, &id).await?))
}

/// Ask a provider whether it answers
///
/// The model inside writes one token for it, and is loaded if it was not.
#[utoipa::path(
    post,
    path = "/api/providers/{id}/test",
    operation_id = "test_provider",
    tag = "Providers",
    params(("id" = String, Path, description = "Id of a vendor, or `local`")),
    responses((status = 200, description = "Whether it answered", body = ProviderTest)),
)]
async fn test_provider(State(providers): State<Providers>, Path(id): Path<String>) -> ApiResult<Json<ProviderTest>> {
    let outcome = providers.test(&id).await?;
    Ok(Json(match outcome {
        Ok(report) => ProviderTest {
            ok: true,
            latency_ms: Some(report.latency_ms),
            models: report.models,
            code: None,
            error: None,
        },
        Err(error) => ProviderTest {
            ok: false,
            latency_ms: None,
            models: Vec::new(),
            code: Some(error.code.as_str().to_owned()),
            error: Some(error.message),
        },
    }))
}
