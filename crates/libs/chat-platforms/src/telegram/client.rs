//! One bot: its configuration, and what is kept of it.

use agentd_base::Secret;
use agentd_net::GuardedClient;
use parking_lot::Mutex;
use url::Url;

use crate::files::Files;

pub(super) const NAME: &str = "Telegram";

/// What a bot needs.
#[derive(Debug, Clone, Default)]
pub struct TelegramConfig {
    /// Where the Bot API is; `None`: `https://api.telegram.org`.
    pub api_base_url: Option<Url>,
    /// Of @BotFather: the bot's number, a colon, and a secret.
    pub bot_token: Option<Secret>,
    /// What Telegram says with each webhook request.
    pub secret_token: Option<Secret>,
}

/// One bot.
#[derive(Debug)]
pub struct Telegram {
    pub(super) config: TelegramConfig,
    pub(super) client: GuardedClient,
    /// The number before the colon of the token.
    pub(super) bot_id: Option<i64>,
    /// Of `getMe`, once it was asked; it does not change while the daemon runs.
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
