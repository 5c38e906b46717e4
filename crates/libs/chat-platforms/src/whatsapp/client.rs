//! WhatsApp number: configuration and state.

use agentd_base::Secret;
use agentd_net::GuardedClient;
use url::Url;

use crate::files::Files;

pub(super) const NAME: &str = "WhatsApp";

/// Configuration of a WhatsApp number.
#[derive(Debug, Clone, Default)]
pub struct WhatsappConfig {
    /// Base URL of the API; default: `https://graph.facebook.com/v23.0`.
    pub api_base_url: Option<Url>,
    /// App secret that verifies requests.
    pub app_secret: Option<Secret>,
    /// Token of the webhook handshake.
    pub verify_token: Option<Secret>,
    /// Access token for sending.
    pub access_token: Option<Secret>,
    /// ID of the number on the platform, which differs from the telephone number.
    pub phone_number_id: Option<String>,
}

/// WhatsApp number.
#[derive(Debug)]
pub struct Whatsapp {
    pub(super) config: WhatsappConfig,
    pub(super) client: GuardedClient,
    pub(crate) files: Files,
}

impl Whatsapp {
    #[must_use]
    pub fn new(config: WhatsappConfig, client: GuardedClient) -> Self {
        let files = Files::new(NAME, &client, config.api_base_url.as_ref());
        Self { config, client, files }
    }
}
