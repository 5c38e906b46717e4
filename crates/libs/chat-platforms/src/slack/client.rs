//! Slack app in a workspace: configuration and state.

use agentd_base::Secret;
use agentd_net::GuardedClient;
use parking_lot::Mutex;
use url::Url;

use crate::files::Files;

pub(super) const NAME: &str = "Slack";

/// Configuration of a Slack app.
#[derive(Debug, Clone, Default)]
pub struct SlackConfig {
    /// Base URL of the Web API; default: `https://slack.com/api`.
    pub api_base_url: Option<Url>,
    /// Secret that verifies requests of Slack.
    pub signing_secret: Option<Secret>,
    /// Bot token, which begins with `xoxb-`.
    pub bot_token: Option<Secret>,
    /// App-level token for Socket Mode, which begins with `xapp-`.
    pub app_token: Option<Secret>,
}

/// Slack app in a workspace.
#[derive(Debug)]
pub struct Slack {
    pub(super) config: SlackConfig,
    pub(super) client: GuardedClient,
    /// User ID of the bot from `auth.test`, cached. Events contain it as well.
    pub(super) bot_user: Mutex<Option<String>>,
    pub(crate) files: Files,
}

impl Slack {
    #[must_use]
    pub fn new(config: SlackConfig, client: GuardedClient) -> Self {
        let files = Files::new(NAME, &client, config.api_base_url.as_ref());
        Self { config, client, bot_user: Mutex::default(), files }
    }
}
