//! Microsoft Teams, by the Bot Framework (<https://learn.microsoft.com/azure/bot-service/rest-api>).
//!
//! Invariants
//! - A request counts only with a token that the Bot Framework signed by a key endorsed for Teams, made out to our app
//!   and to the service address that stands in the request.
//! - Credentials go to the login service alone; the token that it gives goes only to a service address that was
//!   verified, or that the owner set.
//! - A service address comes from outside, so it is reached as what others steer is: never a private one.
//!
//! Deliberately absent: other channels of the Bot Framework, invokes (their answers are of another kind), and message
//! extensions.

mod contents;
mod files;
mod html;
mod kinds;
mod read;
mod send;
mod verify;
mod write;

#[cfg(test)]
mod tests;

pub(crate) use kinds::KINDS;

use agentd_base::{Clock, Secret, Timestamp};
use agentd_net::GuardedClient;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use url::Url;

use crate::access_token::AccessToken;
use crate::files::{Files, IncomingFile};
use crate::keys::{KeyCache, KeyDocument};
use crate::markup;
use crate::message::FileSource;
use crate::outgoing::{Account, Address, Outgoing, SendError, Sent};
use crate::platform::{ChatPlatform, Platform};
use crate::webhook::{Received, Rejection, WebhookRequest};

const NAME: &str = "Teams";
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
    config: TeamsConfig,
    client: GuardedClient,
    replies: GuardedClient,
    clock: Clock,
    keys: KeyCache,
    token: AccessToken,
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
    fn app_id(&self) -> Option<&str> {
        self.config.app_id.as_deref().filter(|id| !id.is_empty())
    }
}

impl ChatPlatform for Teams {
    fn platform(&self) -> Platform {
        Platform::Teams
    }

    fn receive<'a>(
        &'a self,
        request: &'a WebhookRequest,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Received, Rejection>> {
        async move {
            let activity = self.verify(request, now).await?;
            Ok(self.read(&activity))
        }
        .boxed()
    }

    fn address(&self, channel: &str) -> Result<Address, String> {
        if write::is_segment(channel) {
            return Ok(Address::of_channel(channel));
        }
        Err("a Teams channel is the id of a conversation, such as 19:…@thread.tacv2".to_owned())
    }

    fn render(&self, markdown: &str) -> Vec<String> {
        markup::render(markdown, &write::STYLE)
    }

    fn render_text(&self, title: &str, text: &str) -> Vec<String> {
        markup::render_text(title, text, &write::PLAIN)
    }

    fn send<'a>(&'a self, to: &'a Address, message: &'a Outgoing) -> BoxFuture<'a, Result<Sent, SendError>> {
        self.send_message(to, message).boxed()
    }

    fn settle<'a>(&'a self, message: &'a Address, text: &'a str) -> BoxFuture<'a, Result<(), SendError>> {
        self.replace_message(message, text).boxed()
    }

    fn show_typing<'a>(&'a self, to: &'a Address) -> BoxFuture<'a, Result<(), SendError>> {
        self.send_typing(to).boxed()
    }

    fn open_file<'a>(&'a self, source: &'a FileSource) -> BoxFuture<'a, Result<IncomingFile, SendError>> {
        self.open_attachment(source).boxed()
    }

    fn secrets(&self) -> Vec<&Secret> {
        self.config.app_password.iter().collect()
    }

    fn fetch_account(&self) -> BoxFuture<'_, Result<Account, SendError>> {
        self.account().boxed()
    }
}
