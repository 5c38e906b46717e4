//! Routes of `/api/browser` and its settings.

mod action;
mod auth_states;
mod cookies;
mod downloads;
mod emulation;
mod inspection;
mod mocks;
mod network;
mod profile;
mod recordings;
mod replay;
mod screen_recording;
mod settings;
mod stream;
mod tabs;
mod url_access;

use agentd_web::{ApiRouter, Routes, limits, routes};

use super::service::Browser;

#[must_use]
pub(super) fn routes() -> Routes<Browser> {
    let protected = ApiRouter::new()
        .routes(routes!(inspection::get_browser_status))
        .routes(routes!(inspection::close_browser))
        .routes(routes!(action::act_in_browser))
        .routes(routes!(inspection::get_browser_screenshot, inspection::take_browser_screenshot))
        .routes(routes!(inspection::get_browser_snapshot))
        .routes(routes!(tabs::list_browser_tabs, tabs::open_browser_tab))
        .routes(routes!(tabs::close_browser_tab))
        .routes(routes!(tabs::activate_browser_tab))
        .routes(routes!(downloads::list_browser_downloads))
        .routes(routes!(network::list_browser_requests))
        .routes(routes!(network::start_browser_har))
        .routes(routes!(network::stop_browser_har))
        .routes(routes!(mocks::list_browser_mocks, mocks::mock_browser_requests, mocks::delete_browser_mocks))
        .routes(routes!(emulation::emulate_browser_device))
        .routes(routes!(profile::change_browser_profile))
        .routes(routes!(recordings::start_browser_recording))
        .routes(routes!(recordings::stop_browser_recording))
        .routes(routes!(recordings::list_browser_recordings))
        .routes(routes!(recordings::get_browser_recording, recordings::delete_browser_recording))
        .routes(routes!(recordings::get_browser_recording_picture))
        .routes(routes!(replay::replay_browser_recording))
        .routes(routes!(screen_recording::record_screen))
        .routes(routes!(screen_recording::create_recording_video))
        .routes(routes!(settings::get_browser_settings, settings::update_browser_settings))
        .routes(routes!(settings::get_browser_config, settings::update_browser_config));
    // Cookies grant access to accounts.
    let full_scope = ApiRouter::new()
        .routes(routes!(cookies::list_browser_cookies, cookies::set_browser_cookies, cookies::clear_browser_cookies))
        .routes(routes!(auth_states::list_browser_auth_states))
        .routes(routes!(auth_states::get_browser_auth_state, auth_states::delete_browser_auth_state))
        .routes(routes!(auth_states::restore_browser_auth_state));
    let streams = ApiRouter::new().routes(routes!(stream::watch_browser));
    // The body may contain a login state.
    let large = ApiRouter::new().routes(routes!(auth_states::save_browser_auth_state));
    Routes::new().protected(protected).protected_up_to(limits::UPLOAD, large).full_scope(full_scope).streams(streams)
}
