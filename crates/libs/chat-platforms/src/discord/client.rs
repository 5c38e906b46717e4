//! Discord application with its bot: configuration and state.

use agentd_base::{Clock, Secret};
use agentd_net::GuardedClient;
use url::Url;

use super::verify;
use crate::files::Files;

pub(super) const NAME: &str = "Discord";

/// Configuration of a Discord application.
#[derive(Debug, Clone, Default)]
pub struct DiscordConfig {
    /// Base URL of the REST API; default: `https://discord.com/api/v10`.
    pub api_base_url: Option<Url>,
    /// Application ID.
    pub application_id: Option<String>,
    /// Hexadecimal Ed25519 key that verifies webhook requests.
    pub public_key: Option<String>,
    pub bot_token: Option<Secret>,
}

/// Discord application with its bot.
#[derive(Debug)]
pub struct Discord {
    pub(super) config: DiscordConfig,
    pub(super) client: GuardedClient,
    pub(super) clock: Clock,
    /// Verification key; `None` if it is not set or invalid.
    pub(super) key: Option<verify::PublicKey>,
    pub(crate) files: Files,
}

impl Discord {
    /// Creates an adapter. `clock` decides whether an interaction still accepts follow-ups.
    #[must_use]
    pub fn new(config: DiscordConfig, client: GuardedClient, clock: Clock) -> Self {
        let key = config.public_key.as_deref().and_then(verify::parse_key);
        let files = Files::new(NAME, &client, config.api_base_url.as_ref());
        Self { config, client, clock, key, files }
    }
}
