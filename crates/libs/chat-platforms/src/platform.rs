//! Interface of all chat platforms.

use std::fmt;
use std::sync::Arc;

use agentd_base::{Redactor, Secret, Timestamp};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use url::Url;

use crate::connection::{ConnectOptions, Connection};
use crate::files::IncomingFile;
use crate::message::FileSource;
use crate::outgoing::{Account, Address, Outgoing, SendError, Sent};
use crate::webhook::{Received, Rejection, WebhookRequest};

/// Chat platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Platform {
    Discord,
    Slack,
    Telegram,
    Whatsapp,
    Teams,
    GoogleChat,
}

impl Platform {
    pub const ALL: [Self; 6] =
        [Self::Discord, Self::Slack, Self::Telegram, Self::Whatsapp, Self::Teams, Self::GoogleChat];

    /// ID in paths, targets and settings.
    #[must_use]
    pub fn id(self) -> &'static str {
        match self {
            Self::Discord => "discord",
            Self::Slack => "slack",
            Self::Telegram => "telegram",
            Self::Whatsapp => "whatsapp",
            Self::Teams => "teams",
            Self::GoogleChat => "google_chat",
        }
    }

    #[must_use]
    pub fn from_id(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|platform| platform.id() == id)
    }
}

/// Adapter for a platform with one set of credentials. Can be dropped in any context.
pub trait ChatPlatform: fmt::Debug + Send + Sync + 'static {
    fn platform(&self) -> Platform;

    /// Verifies and reads a webhook request received at `now`. Handshakes are answered as well.
    fn receive<'a>(&'a self, request: &'a WebhookRequest, now: Timestamp)
    -> BoxFuture<'a, Result<Received, Rejection>>;

    /// Opens an outbound connection for incoming messages without waiting for it. Returns `None` if the platform has
    /// none.
    fn connect(self: Arc<Self>, options: ConnectOptions) -> Option<Connection> {
        let _ = options;
        None
    }

    /// Returns the address of a channel, as written after the colon of a target.
    ///
    /// # Errors
    /// Reason why it is not a channel of this platform.
    fn address(&self, channel: &str) -> Result<Address, String>;

    /// Renders Markdown as messages in the platform's markup, each within its limit; empty for blank input.
    fn render(&self, markdown: &str) -> Vec<String>;

    /// Renders plain text below a title as messages to be sent with [`Outgoing::is_plain`]. Line breaks and indentation
    /// are preserved. Either may be empty.
    fn render_text(&self, title: &str, text: &str) -> Vec<String>;

    /// Whether a rendered part fits into one message together with buttons.
    fn fits_with_buttons(&self, part: &str) -> bool {
        let _ = part;
        true
    }

    /// Sends a message. Returns after the platform has accepted it.
    fn send<'a>(&'a self, to: &'a Address, message: &'a Outgoing) -> BoxFuture<'a, Result<Sent, SendError>>;

    /// Removes the buttons of a message and replaces its contents by `text`, one rendered part.
    fn settle<'a>(&'a self, message: &'a Address, text: &'a str) -> BoxFuture<'a, Result<(), SendError>>;

    /// Shows a typing indicator for some seconds. Does nothing on platforms without one.
    fn show_typing<'a>(&'a self, to: &'a Address) -> BoxFuture<'a, Result<(), SendError>>;

    /// Opens a file of a message with the platform's authorization. The source is untrusted, which restricts reachable
    /// addresses.
    fn open_file<'a>(&'a self, source: &'a FileSource) -> BoxFuture<'a, Result<IncomingFile, SendError>>;

    /// Registers the webhook URL or the commands of the bot. Returns a description of what was registered.
    fn register<'a>(&'a self, webhook_url: &'a Url) -> BoxFuture<'a, Result<String, SendError>> {
        let _ = webhook_url;
        let name = self.platform().id();
        let text = format!("{name} does not support registration; enter the webhook URL in its developer console");
        Box::pin(std::future::ready(Err(SendError::Refused(text))))
    }

    /// Returns the configured credentials, which no API response may contain.
    fn secrets(&self) -> Vec<&Secret>;

    /// Fetches the account as returned by the platform.
    fn fetch_account(&self) -> BoxFuture<'_, Result<Account, SendError>>;

    /// Checks the credentials at the platform. The account contains none of the [`secrets`](Self::secrets).
    fn check(&self) -> BoxFuture<'_, Result<Account, SendError>> {
        async move { Ok(self.fetch_account().await?.redacted(&Redactor::from_secrets(self.secrets()))) }.boxed()
    }
}
