//! `email:<address>`: email over SMTP (RFC 5321), through the server in the email settings.
//!
//! Invariants
//! - The connection uses exactly the address that passed the policy. The certificate must match the configured host
//!   name, regardless of its resolved address. There is no proxy.
//! - With `starttls`, no credentials or messages are sent before TLS is established. Plain-text bytes injected after
//!   the server's STARTTLS reply are not carried over into the TLS session.
//! - Sending is bounded by the time limit, and the number of bytes received from a server is bounded.
//! - The password is loaded when needed, sent only with AUTH, and never part of an error. Replies that follow the
//!   password are not quoted.
//! - The `Message-ID` consists of the notification id and the sender's domain, so it is identical in all attempts.

mod connect;
mod error;
mod message;
mod session;
mod stream;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use agentd_base::Clock;
use agentd_base::id::IdGenerator;
use agentd_core::settings::{EmailSettings, Settings};
use agentd_net::{Lookup, SystemLookup};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use self::message::Mail;
use self::session::Server;
use self::tls::Tls;
use super::model::{MessageFormat, Target};
use super::transport::{Delivered, DeliveryFailure, Outgoing, Retry, Transport};

pub use self::error::EmailError;

pub(super) struct EmailOptions {
    /// Additional trusted root certificates (DER).
    pub(super) extra_tls_roots: Vec<Vec<u8>>,
    /// Timeout of one email, from name resolution to the last reply.
    pub(super) time_limit: Duration,
}

/// Email transport. Uses the current settings for each message.
pub(super) struct Email {
    settings: Settings,
    clock: Clock,
    lookup: Arc<dyn Lookup>,
    tls: Tls,
    time_limit: Duration,
}

impl Email {
    pub(super) fn new(settings: Settings, clock: Clock, options: EmailOptions) -> Self {
        let lookup = Arc::<SystemLookup>::default();
        let tls = Tls::new(options.extra_tls_roots);
        Self { settings, clock, lookup, tls, time_limit: options.time_limit }
    }

    /// Sends a test email.
    ///
    /// # Errors
    /// The failed step, or a timeout after `timeout`.
    pub(super) async fn send_test(&self, to: &str, ids: &IdGenerator, timeout: Duration) -> Result<(), EmailError> {
        let id = format!("test_{}", ids.next_ulid());
        let text = "This is a test. Mail from agentd arrives here.\n";
        let mail = Mail { id: &id, to, subject: "Test of agentd", body: text, format: MessageFormat::Text };
        self.send(&mail, timeout.min(self.time_limit)).await.map(|_| ())
    }

    /// Returns the owner's address; empty if it is not set.
    pub(super) fn owner(&self) -> String {
        self.settings.profile().email.clone()
    }

    /// Sends an email and returns its `Message-ID`.
    async fn send(&self, mail: &Mail<'_>, timeout: Duration) -> Result<String, EmailError> {
        let server = self.server().await?;
        let encoded = message::encode(mail, &server.from, self.clock.now())?;
        let deadline = tokio::time::Instant::now() + timeout;
        let policy = self.settings.policy().current();
        let tcp = connect::connect(&policy, self.lookup.as_ref(), (&server.host, server.port), deadline).await?;
        let connection = session::open(tcp, &server, &self.tls, deadline).await?;
        session::submit(connection, &server, &encoded, deadline).await?;
        Ok(encoded.message_id)
    }

    async fn server(&self) -> Result<Server, EmailError> {
        let settings = self.settings.get::<EmailSettings>().await?;
        let (true, Some(host), Some(from)) = (settings.enabled, &settings.smtp_host, &settings.from_address) else {
            return Err(EmailError::Off);
        };
        let login = match &settings.username {
            None => None,
            Some(username) => {
                let password = self.settings.secret::<EmailSettings>(EmailSettings::PASSWORD).await?;
                Some((username.clone(), password.ok_or(EmailError::NoPassword)?))
            }
        };
        Ok(Server { host: host.clone(), port: settings.smtp_port, tls: settings.tls, login, from: from.clone() })
    }

    async fn deliver_mail(&self, message: &Outgoing) -> Result<Delivered, DeliveryFailure> {
        let owner = self.owner();
        let to = if message.channel.is_empty() { &owner } else { &message.channel };
        if to.is_empty() {
            let message = "no recipient: the message names no address, and the profile has no email".to_owned();
            return Err(DeliveryFailure { message, retry: Retry::Later });
        }
        let mail = Mail {
            id: message.id.as_str(),
            to,
            subject: &message.subject,
            body: &message.body,
            format: message.format,
        };
        match self.send(&mail, self.time_limit).await {
            Ok(message_id) => Ok(Delivered { reference: Some(message_id) }),
            Err(error) => {
                let retry = if error.is_permanent_failure() { Retry::Never } else { Retry::Later };
                Err(DeliveryFailure { message: error.to_string(), retry })
            }
        }
    }
}

impl Transport for Email {
    fn platform(&self) -> &'static str {
        Target::EMAIL
    }

    fn deliver<'a>(&'a self, message: &'a Outgoing) -> BoxFuture<'a, Result<Delivered, DeliveryFailure>> {
        self.deliver_mail(message).boxed()
    }
}
