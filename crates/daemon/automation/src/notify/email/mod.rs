//! `email:<address>`: mail by SMTP (RFC 5321), through the server of the email settings.
//!
//! Invariants
//! - The address that passed the policy is the one that is connected to, and a certificate must be
//!   for the name that was set, whatever that resolved to. There is no proxy.
//! - With `starttls` nothing is said before the connection is protected, and what a server (or
//!   somebody in between) slips in behind its consent does not survive into the protected part.
//! - A mail takes at most the time limit, and a server can make us keep only so many bytes.
//! - The password is read when it is needed, sent only by AUTH, and is in no error: whatever a server
//!   says while it has just heard the password is not repeated.
//! - The `Message-ID` is made of the notification's id and the sender's domain, so every attempt of a
//!   message carries the same.

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
    /// Certificates (DER) that servers may be vouched for by, besides those of the machine.
    pub(super) extra_tls_roots: Vec<Vec<u8>>,
    /// For one mail, from the lookup of the server to its last word.
    pub(super) time_limit: Duration,
}

/// Sends mail with the settings in force.
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

    /// Sends a mail that says that mail can be sent.
    ///
    /// # Errors
    /// What failed, also after `limit`.
    pub(super) async fn send_test(&self, to: &str, ids: &IdGenerator, limit: Duration) -> Result<(), EmailError> {
        let id = format!("test_{}", ids.next_ulid());
        let text = "This is a test. Mail from agentd arrives here.\n";
        let mail = Mail { id: &id, to, subject: "Test of agentd", body: text, format: MessageFormat::Text };
        self.send(&mail, limit.min(self.time_limit)).await.map(|_| ())
    }

    /// The owner's address; empty where nobody said.
    pub(super) fn owner(&self) -> String {
        self.settings.profile().email.clone()
    }

    /// Answers the `Message-ID`.
    async fn send(&self, mail: &Mail<'_>, limit: Duration) -> Result<String, EmailError> {
        let server = self.server().await?;
        let letter = message::write(mail, &server.from, self.clock.now())?;
        let deadline = tokio::time::Instant::now() + limit;
        let policy = self.settings.policy().current();
        let tcp = connect::connect(&policy, self.lookup.as_ref(), (&server.host, server.port), deadline).await?;
        let connection = session::open(tcp, &server, &self.tls, deadline).await?;
        session::hand_over(connection, &server, &letter, deadline).await?;
        Ok(letter.message_id)
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
            let message = "the profile has no email, and the message names no address".to_owned();
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
                let retry = if error.is_for_good() { Retry::Never } else { Retry::Later };
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
