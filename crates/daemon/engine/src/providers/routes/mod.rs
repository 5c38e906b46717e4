//! `/api/providers`, and the prices of models.

mod prices;

use agentd_base::{Patch, SecretUpdate};
use agentd_web::{Answer, ApiRouter, Json, Path, Routes, routes};
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::model::{ProviderChange, ProviderReport, ProviderView};
use super::service::Providers;

#[must_use]
pub(super) fn routes() -> Routes<Providers> {
    let router = ApiRouter::new()
        .routes(routes!(list_providers))
        .routes(routes!(update_provider_key, delete_provider_key))
        .routes(routes!(test_provider))
        .routes(routes!(prices::list_prices, prices::set_prices));
    Routes::new().protected(router)
}

/// Every provider: the eight vendors in this order, then the model inside the daemon.
#[derive(Debug, Serialize, ToSchema)]
struct ProviderList {
    providers: Vec<ProviderView>,
    total: usize,
}

/// What is set up anew. What is left out stays; `null` clears.
#[derive(Debug, Deserialize, ToSchema)]
struct UpdateProviderKey {
    /// The vendor's API key. May be left out when `base_url` names a server that needs none, such
    /// as Ollama. `{"set": true}`, as it is shown, keeps the present one; not when `base_url` now
    /// leads to another server, which must not be given a key that was meant for the one before.
    #[serde(default)]
    #[schema(value_type = Option<SecretUpdate>)]
    api_key: Patch<SecretUpdate>,
    /// Where requests go instead of to the vendor, written as the vendor's own SDK takes it
    /// (OpenAI's ends in `/v1`). May be private or on this machine.
    #[serde(default)]
    #[schema(value_type = Option<String>, max_length = 2048)]
    base_url: Patch<String>,
    /// The model that answers where none is named.
    #[serde(default)]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 200)]
    default_model: Patch<String>,
}

/// What a test found.
#[derive(Debug, Serialize, ToSchema)]
struct ProviderTestView {
    /// Whether the provider answered and took the key.
    ok: bool,
    latency_ms: u64,
    /// The models that it offers; only when `ok`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Vec<String>, required = false)]
    models: Option<Vec<String>>,
    /// Why it failed; only when not `ok`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    error: Option<String>,
    /// The kind of failure, as in the `error` event of a chat stream, or `unconfigured`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    code: Option<&'static str>,
}

impl From<ProviderReport> for ProviderTestView {
    fn from(report: ProviderReport) -> Self {
        let latency_ms = u64::try_from(report.latency.as_millis()).unwrap_or(u64::MAX);
        match report.outcome {
            Ok(models) => Self { ok: true, latency_ms, models: Some(models), error: None, code: None },
            Err(failure) => {
                Self { ok: false, latency_ms, models: None, error: Some(failure.message), code: Some(failure.code) }
            }
        }
    }
}

/// All AI providers, with their state
///
/// The eight vendors and `local`, the model inside the daemon, which needs no key. `status` is
/// what the last call or test said.
#[utoipa::path(get, path = "/api/providers", tag = "providers", responses((status = 200, body = ProviderList)))]
async fn list_providers(State(providers): State<Providers>) -> Answer<ProviderList> {
    let providers = providers.list().await?;
    Ok(Json(ProviderList { total: providers.len(), providers }))
}

/// Sets a provider's key, base URL or default model
///
/// In force for the next call. The key is encrypted at rest and never shown again.
#[utoipa::path(
    put, path = "/api/providers/{id}/key", tag = "providers", request_body = UpdateProviderKey,
    params(("id" = String, Path, description = "Such as `anthropic`")),
    responses((status = 200, body = ProviderView)),
)]
async fn update_provider_key(
    State(providers): State<Providers>,
    Path(id): Path<String>,
    Json(request): Json<UpdateProviderKey>,
) -> Answer<ProviderView> {
    let UpdateProviderKey { api_key, base_url, default_model } = request;
    Ok(Json(providers.set_key(&id, ProviderChange { api_key, base_url, default_model }).await?))
}

/// Forgets a provider's key, base URL and default model
#[utoipa::path(
    delete, path = "/api/providers/{id}/key", tag = "providers",
    params(("id" = String, Path, description = "Such as `anthropic`")),
    responses((status = 200, body = ProviderView)),
)]
async fn delete_provider_key(State(providers): State<Providers>, Path(id): Path<String>) -> Answer<ProviderView> {
    Ok(Json(providers.clear_key(&id).await?))
}

/// Asks a provider whether it answers
///
/// 200 whenever it could be asked; `ok` says what came of it. A vendor is asked for its models,
/// which costs nothing; `local` loads its model and writes one token.
#[utoipa::path(
    post, path = "/api/providers/{id}/test", tag = "providers",
    params(("id" = String, Path, description = "Such as `anthropic`, or `local`")),
    responses((status = 200, body = ProviderTestView)),
)]
async fn test_provider(State(providers): State<Providers>, Path(id): Path<String>) -> Answer<ProviderTestView> {
    Ok(Json(providers.test(&id).await?.into()))
}
