//! Routes of providers and model prices.

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

/// List of providers.
#[derive(Debug, Serialize, ToSchema)]
struct ProviderList {
    /// All providers: the eight vendors in a fixed order, then `local`.
    providers: Vec<ProviderView>,
    /// Number of providers.
    total: usize,
}

/// Changes to a provider. Absent fields keep their values; null clears them.
#[derive(Debug, Deserialize, ToSchema)]
struct UpdateProviderKey {
    /// API key of the vendor, up to 4,096 characters; null clears it. Optional if `base_url` is a server without
    /// authentication, such as Ollama. `{"set": true}` keeps the current key, unless `base_url` changes to another
    /// server, which must not receive it.
    #[serde(default)]
    #[schema(value_type = Option<SecretUpdate>)]
    api_key: Patch<SecretUpdate>,
    /// Base URL that replaces the vendor's, up to 2,048 characters, in the form that the vendor's SDK accepts (OpenAI's
    /// ends in `/v1`). May be private or local. Null restores the vendor's.
    #[serde(default)]
    #[schema(value_type = Option<String>, max_length = 2048)]
    base_url: Patch<String>,
    /// Model that is used if none is specified, 1 to 200 characters. Null restores the vendor's default.
    #[serde(default)]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 200)]
    default_model: Patch<String>,
}

/// Result of a provider test.
#[derive(Debug, Serialize, ToSchema)]
struct ProviderTestView {
    /// Whether the test succeeded: the vendor accepted the key, or the built-in model generated a token.
    ok: bool,
    /// Duration of the test in milliseconds.
    latency_ms: u64,
    /// Models that the provider offers; only if `ok`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Vec<String>, required = false)]
    models: Option<Vec<String>>,
    /// Error message; only if not `ok`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    error: Option<String>,
    /// Error code as in the `error` event of a chat stream, or `unconfigured`; only if not `ok`.
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

/// List AI providers
///
/// Returns the eight vendors and `local`, the built-in model, which needs no key. `status` is the result of the last
/// call or test.
#[utoipa::path(get, path = "/api/providers", tag = "providers", responses((status = 200, body = ProviderList)))]
async fn list_providers(State(providers): State<Providers>) -> Answer<ProviderList> {
    let providers = providers.list().await?;
    Ok(Json(ProviderList { total: providers.len(), providers }))
}

/// Update a provider
///
/// Sets the key, base URL or default model; takes effect with the next call. The key is encrypted at rest and never
/// returned.
#[utoipa::path(
    put, path = "/api/providers/{id}/key", tag = "providers", request_body = UpdateProviderKey,
    params(("id" = String, Path, description = "Id of the provider, for example `anthropic`")),
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

/// Delete a provider key
///
/// Deletes its key, base URL and default model.
#[utoipa::path(
    delete, path = "/api/providers/{id}/key", tag = "providers",
    params(("id" = String, Path, description = "Id of the provider, for example `anthropic`")),
    responses((status = 200, body = ProviderView)),
)]
async fn delete_provider_key(State(providers): State<Providers>, Path(id): Path<String>) -> Answer<ProviderView> {
    Ok(Json(providers.clear_key(&id).await?))
}

/// Test a provider
///
/// Lists the models of a vendor, which is free of charge; for `local`, loads the model and generates one token. Returns
/// 200 if the test could run; `ok` is its result.
#[utoipa::path(
    post, path = "/api/providers/{id}/test", tag = "providers",
    params(("id" = String, Path, description = "Id of the provider, for example `anthropic`, or `local`")),
    responses((status = 200, body = ProviderTestView)),
)]
async fn test_provider(State(providers): State<Providers>, Path(id): Path<String>) -> Answer<ProviderTestView> {
    Ok(Json(providers.test(&id).await?.into()))
}
