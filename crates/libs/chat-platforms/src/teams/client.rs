//! One bot: its configuration, and what is kept of it.

use agentd_base::{Clock, Secret};
use agentd_net::GuardedClient;
use url::Url;

use crate::access_token::AccessToken;
use crate::files::Files;
use crate::keys::{KeyCache, KeyDocument};

pub(super) const NAME: &str = "Teams";
const KEYS: &str = "https://login.botframework.com/v1/.well-known/openidconfiguration";

/// What one bot takes.
#[derive(Debug, Clone, Default)]
pub struct TeamsConfig {
    /// `None`: the service address of each request, and `https://smba.trafficmanager.net/teams/` for what answers none.
    pub api_base_url: Option<Url>,
    /// Where tokens come from. `None`: `https://login.microsoftonline.com`.
    pub login_base_url: Option<Url>,
    /// The OpenID document. `None`: that of the Bot Framework.
    pub keys_url: Option<Url>,
    /// The bot's id.
    pub app_id: Option<String>,
    /// Sends.
    pub app_password: Option<Secret>,
    /// The one tenant that may write, and that the bot is registered in. `None`: any, and a bot of many tenants.
    pub tenant_id: Option<String>,
}

/// One bot in Teams.
#[derive(Debug)]
pub struct Teams {
    pub(super) config: TeamsConfig,
    pub(super) client: GuardedClient,
    pub(super) replies: GuardedClient,
    pub(super) clock: Clock,
    pub(super) keys: KeyCache,
    pub(super) token: AccessToken,
    pub(crate) files: Files,
}

impl Teams {
    /// `client` reaches what the owner set and the platform's own addresses; `replies` reaches the service addresses of
    /// requests and what documents name, and is to be one for what others steer.
    #[must_use]
    pub fn new(config: TeamsConfig, client: GuardedClient, replies: GuardedClient, clock: Clock) -> Self {
        let keys = KeyCache::new(NAME, KeyDocument::OpenId(replies.clone()), config.keys_url.clone(), KEYS);
        let files = Files::new(NAME, &client, config.api_base_url.as_ref());
        Self { config, client, replies, clock, keys, token: AccessToken::default(), files }
    }

    /// The app's id, where it is set.
    pub(super) fn app_id(&self) -> Option<&str> {
        self.config.app_id.as_deref().filter(|id| !id.is_empty())
    }
}
