//! Teams bot: configuration and state.

use agentd_base::{Clock, Secret};
use agentd_net::GuardedClient;
use url::Url;

use crate::access_token::AccessToken;
use crate::files::Files;
use crate::keys::{KeyCache, KeyDocument};

pub(super) const NAME: &str = "Teams";
const KEYS: &str = "https://login.botframework.com/v1/.well-known/openidconfiguration";

/// Configuration of a Teams bot.
#[derive(Debug, Clone, Default)]
pub struct TeamsConfig {
    /// Base URL of the API; default: the service URL of each request, or `https://smba.trafficmanager.net/teams/` for
    /// messages that answer none.
    pub api_base_url: Option<Url>,
    /// Login server; default: `https://login.microsoftonline.com`.
    pub login_base_url: Option<Url>,
    /// OpenID configuration URL; default: that of the Bot Framework.
    pub keys_url: Option<Url>,
    /// App ID of the bot.
    pub app_id: Option<String>,
    /// Client secret of the app, for sending.
    pub app_password: Option<Secret>,
    /// Only tenant that may write, in which the bot is registered. Default: any tenant, with a multi-tenant bot.
    pub tenant_id: Option<String>,
}

/// Teams bot.
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
    /// Creates an adapter. `client` is used for configured URLs and the platform's own; `replies` for the untrusted
    /// service URLs of requests and URLs in documents.
    #[must_use]
    pub fn new(config: TeamsConfig, client: GuardedClient, replies: GuardedClient, clock: Clock) -> Self {
        let keys = KeyCache::new(NAME, KeyDocument::OpenId(replies.clone()), config.keys_url.clone(), KEYS);
        let files = Files::new(NAME, &client, config.api_base_url.as_ref());
        Self { config, client, replies, clock, keys, token: AccessToken::default(), files }
    }

    /// Returns the app ID, if set.
    pub(super) fn app_id(&self) -> Option<&str> {
        self.config.app_id.as_deref().filter(|id| !id.is_empty())
    }
}
