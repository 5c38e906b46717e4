//! `/api/channels`.

mod pairings;
mod settings;
mod status;
mod webhook;

use agentd_web::{ApiRouter, Routes, routes};

use super::service::Channels;

#[must_use]
pub(super) fn routes() -> Routes<Channels> {
    Routes::new()
        .public(ApiRouter::new().routes(routes!(webhook::receive_channel_webhook, webhook::verify_channel_webhook)))
        .protected(
            ApiRouter::new()
                .routes(routes!(settings::get_channel_settings, settings::update_channel_settings))
                .routes(routes!(status::list_channels))
                .routes(routes!(status::test_channel))
                .routes(routes!(status::register_channel))
                .routes(routes!(status::check_channel))
                .routes(routes!(pairings::list_pairings))
                .routes(routes!(pairings::approve_pairing))
                .routes(routes!(pairings::refuse_pairing))
                .routes(routes!(pairings::list_senders))
                .routes(routes!(pairings::set_channel_owner))
                .routes(routes!(pairings::remove_sender)),
        )
}
