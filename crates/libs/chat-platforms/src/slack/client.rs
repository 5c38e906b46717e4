//! One app in one workspace: its configuration, and what is kept of it.

use agentd_base::Secret;
use agentd_net::GuardedClient;
use parking_lot::Mutex;
use url::Url;

use crate::files::Files;

pub(super) const NAME: &str = "Slack";

/// What an app needs.
#[derive(Debug, Clone, Default)]
pub struct SlackConfig {
    /// Where the Web API is; `None`: `https://slack.com/api`.
    pub api_base_url: Option<Url>,
    /// Signs the requests of Slack.
    pub signing_secret: Option<Secret>,
    /// Begins with `xoxb-`.
    pub bot_token: Option<Secret>,
    /// For Socket Mode; begins with `xapp-`.
    pub app_token: Option<Secret>,
}

/// One app in one workspace.
#[derive(Debug)]
pub struct Slack {
    pub(super) config: SlackConfig,
    pub(super) client: GuardedClient,
    /// Of `auth.test`, once it was asked. Events say it as well.
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
