//! One number: its configuration, and what is kept of it.

use agentd_base::Secret;
use agentd_net::GuardedClient;
use url::Url;

use crate::files::Files;

pub(super) const NAME: &str = "WhatsApp";

/// What one number takes.
#[derive(Debug, Clone, Default)]
pub struct WhatsappConfig {
    /// `None`: `https://graph.facebook.com/v23.0`.
    pub api_base_url: Option<Url>,
    /// Signs requests.
    pub app_secret: Option<Secret>,
    /// Said in the handshake.
    pub verify_token: Option<Secret>,
    /// Sends.
    pub access_token: Option<Secret>,
    /// The number's id at the platform, which is not the number.
    pub phone_number_id: Option<String>,
}

/// One number of WhatsApp.
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
