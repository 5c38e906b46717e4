//! One application with its bot: its configuration, and what is kept of it.

use agentd_base::{Clock, Secret};
use agentd_net::GuardedClient;
use url::Url;

use super::verify;
use crate::files::Files;

pub(super) const NAME: &str = "Discord";

/// What an application needs.
#[derive(Debug, Clone, Default)]
pub struct DiscordConfig {
    /// Where the REST API is; `None`: `https://discord.com/api/v10`.
    pub api_base_url: Option<Url>,
    /// The application's number.
    pub application_id: Option<String>,
    /// The application's Ed25519 key in hexadecimal characters: verifies the requests of Discord.
    pub public_key: Option<String>,
    pub bot_token: Option<Secret>,
}

/// One application with its bot.
#[derive(Debug)]
pub struct Discord {
    pub(super) config: DiscordConfig,
    pub(super) client: GuardedClient,
    pub(super) clock: Clock,
    /// `None` where it is not set, or is no key.
    pub(super) key: Option<verify::PublicKey>,
    pub(crate) files: Files,
}

impl Discord {
    /// `clock`: says whether an interaction still takes follow-ups.
    #[must_use]
    pub fn new(config: DiscordConfig, client: GuardedClient, clock: Clock) -> Self {
        let key = config.public_key.as_deref().and_then(verify::key);
        let files = Files::new(NAME, &client, config.api_base_url.as_ref());
        Self { config, client, clock, key, files }
    }
}
