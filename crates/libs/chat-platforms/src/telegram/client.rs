//! Telegram bot: configuration and state.

use agentd_base::Secret;
use agentd_net::GuardedClient;
use parking_lot::Mutex;
use url::Url;

use crate::files::Files;

pub(super) const NAME: &str = "Telegram";

/// Configuration of a Telegram bot.
#[derive(Debug, Clone, Default)]
pub struct TelegramConfig {
    /// Base URL of the Bot API; default: `https://api.telegram.org`.
    pub api_base_url: Option<Url>,
    /// Token from @BotFather: the bot ID, a colon, and a secret.
    pub bot_token: Option<Secret>,
    /// Secret that Telegram includes in each webhook request.
    pub secret_token: Option<Secret>,
}

/// Telegram bot.
#[derive(Debug)]
pub struct Telegram {
    pub(super) config: TelegramConfig,
    pub(super) client: GuardedClient,
    /// Bot ID, the number before the colon of the token.
    pub(super) bot_id: Option<i64>,
    /// Username from `getMe`, cached; it does not change while the daemon runs.
    pub(super) username: Mutex<Option<String>>,
    pub(crate) files: Files,
}

impl Telegram {
    #[must_use]
    pub fn new(config: TelegramConfig, client: GuardedClient) -> Self {
        let token = config.bot_token.as_ref().map(Secret::expose);
        let bot_id = token.and_then(|token| token.split_once(':')?.0.parse().ok());
        let files = Files::new(NAME, &client, config.api_base_url.as_ref());
        Self { config, client, bot_id, username: Mutex::default(), files }
    }
}
