//! The settings of the browser, under both of their addresses.

use std::sync::Arc;

use agentd_core::settings::PartialObject;
use agentd_web::{Answer, Json};
use axum::extract::State;

use crate::browser::service::Browser;
use crate::browser::settings::{BrowserPatch, BrowserSettings};

/// How the browser runs, and which addresses its pages may reach
#[utoipa::path(get, path = "/api/settings/browser", tag = "settings",
    responses((status = 200, body = BrowserSettings)))]
pub(super) async fn get_browser_settings(State(browser): State<Browser>) -> Answer<Arc<BrowserSettings>> {
    Ok(Json(browser.all_settings().get().await?))
}

/// Changes how the browser runs, and which addresses its pages may reach
///
/// Takes any of the fields and answers the whole category, in force from now on, also for pages that are open. A field
/// that is not known is refused.
#[utoipa::path(put, path = "/api/settings/browser", tag = "settings", request_body = BrowserPatch,
    responses((status = 200, body = BrowserSettings)))]
pub(super) async fn update_browser_settings(
    State(browser): State<Browser>,
    Json(change): Json<PartialObject>,
) -> Answer<Arc<BrowserSettings>> {
    Ok(Json(browser.all_settings().update(change).await?))
}

/// The browser's settings, the same as at `/api/settings/browser`
#[utoipa::path(get, path = "/api/browser/config", tag = "browser", responses((status = 200, body = BrowserSettings)))]
pub(super) async fn get_browser_config(State(browser): State<Browser>) -> Answer<Arc<BrowserSettings>> {
    Ok(Json(browser.all_settings().get().await?))
}

/// Changes the browser's settings, the same as at `/api/settings/browser`
#[utoipa::path(put, path = "/api/browser/config", tag = "browser", request_body = BrowserPatch,
    responses((status = 200, body = BrowserSettings)))]
pub(super) async fn update_browser_config(
    State(browser): State<Browser>,
    Json(change): Json<PartialObject>,
) -> Answer<Arc<BrowserSettings>> {
    Ok(Json(browser.all_settings().update(change).await?))
}
