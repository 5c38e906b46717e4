//! What every platform can do.

use std::fmt;
use std::sync::Arc;

use agentd_base::{Redactor, Secret, Timestamp};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use url::Url;

use crate::connection::{Connection, Opening};
use crate::files::IncomingFile;
use crate::message::FileSource;
use crate::outgoing::{Account, Address, Outgoing, SendError, Sent};
use crate::webhook::{Received, Rejection, WebhookRequest};

/// The chat platforms.
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

    /// On the wire: in paths, in targets, and in settings.
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

/// One platform with one set of credentials. Ready to be dropped anywhere.
pub trait ChatPlatform: fmt::Debug + Send + Sync + 'static {
    fn platform(&self) -> Platform;

    /// Verifies a request at this time, and reads it. Handshakes are answered here as well.
    fn receive<'a>(&'a self, request: &'a WebhookRequest, now: Timestamp)
    -> BoxFuture<'a, Result<Received, Rejection>>;

    /// Opens a connection by which messages come, and does not wait for it. `None`: the platform has none.
    fn connect(self: Arc<Self>, opening: Opening) -> Option<Connection> {
        let _ = opening;
        None
    }

    /// Where `channel`, what stands behind the colon of a target, is.
    ///
    /// # Errors
    /// A sentence: why it is no channel of this platform.
    fn address(&self, channel: &str) -> Result<Address, String>;

    /// Renders Markdown as messages in the platform's markup, each within its limit; none where it is blank.
    fn render(&self, markdown: &str) -> Vec<String>;

    /// Renders plain text below a title as messages that are sent with [`Outgoing::is_plain`]. Line breaks and
    /// indentation are kept. Either may be empty.
    fn render_text(&self, title: &str, text: &str) -> Vec<String>;

    /// Whether a rendered part fits into one message together with buttons.
    fn fits_with_buttons(&self, part: &str) -> bool {
        let _ = part;
        true
    }

    /// Sends one message. Answers after the platform has it.
    fn send<'a>(&'a self, to: &'a Address, message: &'a Outgoing) -> BoxFuture<'a, Result<Sent, SendError>>;

    /// Takes the buttons of a message away, and puts `text` (one rendered part) in the place of what it said.
    fn settle<'a>(&'a self, message: &'a Address, text: &'a str) -> BoxFuture<'a, Result<(), SendError>>;

    /// Shows for some seconds that an answer is being written. Does nothing where the platform cannot.
    fn show_typing<'a>(&'a self, to: &'a Address) -> BoxFuture<'a, Result<(), SendError>>;

    /// Begins to fetch a file that stands in a message, with the platform's own authorisation. Steered by others: what
    /// it may reach is what they may.
    fn open_file<'a>(&'a self, source: &'a FileSource) -> BoxFuture<'a, Result<IncomingFile, SendError>>;

    /// Tells the platform where the daemon is, or which commands its bot has. Answers what it was told.
    fn register<'a>(&'a self, webhook_url: &'a Url) -> BoxFuture<'a, Result<String, SendError>> {
        let _ = webhook_url;
        let name = self.platform().id();
        let text = format!("nothing is registered with {name} from here: enter the address on its own pages");
        Box::pin(std::future::ready(Err(SendError::Refused(text))))
    }

    /// The credentials of the configuration, which no answer of the API shows.
    fn secrets(&self) -> Vec<&Secret>;

    /// Asks the platform for its account, as the platform answers.
    fn fetch_account(&self) -> BoxFuture<'_, Result<Account, SendError>>;

    /// Asks the platform whether the credentials hold. The account repeats none of the [`secrets`](Self::secrets).
    fn check(&self) -> BoxFuture<'_, Result<Account, SendError>> {
        async move { Ok(self.fetch_account().await?.redacted(&Redactor::of(self.secrets()))) }.boxed()
    }
}
