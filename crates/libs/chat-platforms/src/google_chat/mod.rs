//! Google Chat (<https://developers.google.com/workspace/chat>), by its interaction events over HTTP.
//!
//! Invariants
//! - A request counts only with a token that Google signed for Chat and made out to the audience that is set.
//! - The private key of the service account signs what asks for tokens, and goes nowhere.
//! - Text of agents mentions nobody: what would is parted by a character that nobody sees.
//!
//! Deliberately absent: events in the form of Workspace add-ons and of Pub/Sub, dialogs, signs of typing (the platform
//! has none), and files of Google Drive, which take the person's own consent.

mod account;
mod event;
mod files;
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

use self::account::ServiceAccount;
use self::verify::Audience;
use crate::access_token::AccessToken;
use crate::files::{Files, IncomingFile};
use crate::markup;
use crate::message::FileSource;
use crate::outgoing::{Account, Address, Outgoing, SendError, Sent};
use crate::platform::{ChatPlatform, Platform};
use crate::webhook::{Received, Rejection, WebhookRequest};

const NAME: &str = "Google Chat";

/// What one app takes.
#[derive(Debug, Clone, Default)]
pub struct GoogleChatConfig {
    /// `None`: `https://chat.googleapis.com`.
    pub api_base_url: Option<Url>,
    /// Where access tokens come from. `None`: what the service account says.
    pub token_url: Option<Url>,
    /// Where the keys of requests are. `None`: where Google has them for this kind of audience.
    pub keys_url: Option<Url>,
    /// The project's number, or the address that the app is set to call.
    pub audience: Option<String>,
    /// The key file of a service account: JSON as text.
    pub service_account: Option<Secret>,
    /// The address that requests come to, which a Workspace add-on names.
    pub endpoint: Option<String>,
}

/// One app in Google Chat.
#[derive(Debug)]
pub struct GoogleChat {
    api_base_url: Option<Url>,
    token_url: Option<Url>,
    client: GuardedClient,
    clock: Clock,
    audience: Option<Audience>,
    endpoint: Option<String>,
    /// Or the sentence why there is none.
    account: Result<ServiceAccount, String>,
    token: AccessToken,
    pub(crate) files: Files,
}

impl GoogleChat {
    #[must_use]
    pub fn new(config: GoogleChatConfig, client: GuardedClient, clock: Clock) -> Self {
        let GoogleChatConfig { api_base_url, token_url, keys_url, audience, service_account, endpoint } = config;
        let audience = audience.filter(|audience| !audience.is_empty());
        let audience = audience.map(|audience| Audience::new(audience, endpoint.clone(), keys_url));
        let account = match service_account.filter(|account| !account.is_empty()) {
            Some(account) => ServiceAccount::read(&account),
            None => Err("set channels.google_chat.service_account to send messages".to_owned()),
        };
        let files = Files::new(NAME, &client, api_base_url.as_ref());
        let token = AccessToken::default();
        Self { api_base_url, token_url, client, clock, audience, endpoint, account, token, files }
    }
}

impl ChatPlatform for GoogleChat {
    fn platform(&self) -> Platform {
        Platform::GoogleChat
    }

    fn receive<'a>(
        &'a self,
        request: &'a WebhookRequest,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Received, Rejection>> {
        async move {
            self.verify(request, now).await?;
            let event = serde_json::from_slice(&request.body)
                .map_err(|_| Rejection::Malformed("Google Chat sent what is not JSON".to_owned()))?;
            Ok(self.read(&event))
        }
        .boxed()
    }

    fn address(&self, channel: &str) -> Result<Address, String> {
        if write::name_after(channel, &["spaces"]).is_some() {
            return Ok(Address::of_channel(channel));
        }
        Err("a Google Chat channel is the name of a space, such as spaces/AAAAMpdlehY".to_owned())
    }

    fn render(&self, markdown: &str) -> Vec<String> {
        markup::render(markdown, &write::STYLE)
    }

    fn render_text(&self, title: &str, text: &str) -> Vec<String> {
        markup::render_text(title, text, &write::STYLE)
    }

    fn send<'a>(&'a self, to: &'a Address, message: &'a Outgoing) -> BoxFuture<'a, Result<Sent, SendError>> {
        self.send_message(to, message).boxed()
    }

    fn settle<'a>(&'a self, message: &'a Address, text: &'a str) -> BoxFuture<'a, Result<(), SendError>> {
        self.replace_message(message, text).boxed()
    }

    fn show_typing<'a>(&'a self, _: &'a Address) -> BoxFuture<'a, Result<(), SendError>> {
        std::future::ready(Ok(())).boxed()
    }

    fn open_file<'a>(&'a self, source: &'a FileSource) -> BoxFuture<'a, Result<IncomingFile, SendError>> {
        self.open_attachment(source).boxed()
    }

    fn secrets(&self) -> Vec<&Secret> {
        // The private key signs and is sent to no server; access tokens are not part of the configuration.
        Vec::new()
    }

    fn fetch_account(&self) -> BoxFuture<'_, Result<Account, SendError>> {
        self.account().boxed()
    }
}
