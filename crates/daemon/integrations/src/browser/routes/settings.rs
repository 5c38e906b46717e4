//! Handlers for browser settings, under both of their paths.

use std::sync::Arc;

use agentd_core::settings::PartialObject;
use agentd_web::{Answer, Json};
use axum::extract::State;

use crate::browser::service::Browser;
use crate::browser::settings::{BrowserPatch, BrowserSettings};

/// Get browser settings
#[utoipa::path(get, path = "/api/settings/browser", tag = "settings",
    responses((status = 200, body = BrowserSettings)))]
pub(super) async fn get_browser_settings(State(browser): State<Browser>) -> Answer<Arc<BrowserSettings>> {
    Ok(Json(browser.all_settings().get().await?))
}

/// Update browser settings
///
/// Accepts any subset of the fields and returns all settings. Changes apply immediately, also to open pages. Unknown
/// fields are rejected.
#[utoipa::path(put, path = "/api/settings/browser", tag = "settings", request_body = BrowserPatch,
    responses((status = 200, body = BrowserSettings)))]
pub(super) async fn update_browser_settings(
    State(browser): State<Browser>,
    Json(change): Json<PartialObject>,
) -> Answer<Arc<BrowserSettings>> {
    Ok(Json(browser.all_settings().update(change).await?))
}

/// Get browser configuration
///
/// Same as `GET /api/settings/browser`.
#[utoipa::path(get, path = "/api/browser/config", tag = "browser", responses((status = 200, body = BrowserSettings)))]
pub(super) async fn get_browser_config(State(browser): State<Browser>) -> Answer<Arc<BrowserSettings>> {
    Ok(Json(browser.all_settings().get().await?))
}

/// Update browser configuration
///
/// Same as `PUT /api/settings/browser`.
#[utoipa::path(put, path = "/api/browser/config", tag = "browser", request_body = BrowserPatch,
    responses((status = 200, body = BrowserSettings)))]
pub(super) async fn update_browser_config(
    State(browser): State<Browser>,
    Json(change): Json<PartialObject>,
) -> Answer<Arc<BrowserSettings>> {
    Ok(Json(browser.all_settings().update(change).await?))
}
