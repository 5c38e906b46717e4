//! Errors of sending email.

use agentd_base::{DomainError, ErrorKind};
use agentd_core::settings::SettingsError;
use agentd_core::vault::VaultError;
use agentd_net::NetError;

/// Error of sending an email. Messages include the server and its reply, never the user name or password.
#[derive(Debug, thiserror::Error)]
pub enum EmailError {
    #[error("email is disabled; set enabled, smtp_host and from_address with PUT /api/settings/email")]
    Off,
    #[error("the password of the mail server is not set, but the user name is; set it with PUT /api/settings/email")]
    NoPassword,
    #[error("{}", .0)]
    Refused(NetError),
    #[error("{}", .0)]
    Unreachable(NetError),
    #[error("the connection to {server} was lost {during}")]
    Lost { server: String, during: &'static str, source: Box<dyn std::error::Error + Send + Sync> },
    #[error("{server} timed out {during}")]
    Timeout { server: String, during: &'static str },
    #[error("{server} sent an unexpected response {during}: {problem}")]
    Protocol { server: String, during: &'static str, problem: String },
    #[error(
        "the TLS connection to {server} failed: {problem}; check tls, smtp_port and smtp_host in the email settings"
    )]
    Tls { server: String, problem: String },
    #[error("{server} offers no STARTTLS; set tls to implicit, or to none if the network is trusted")]
    NoStarttls { server: String },
    #[error("{server} offers no supported login method (PLAIN, LOGIN); check tls, or set username to null")]
    NoMechanism { server: String },
    #[error("{server} rejected the user name or password ({code}); check both in the email settings")]
    Authentication { server: String, code: u16 },
    #[error("{server} rejected the sender {from}: {reply}")]
    Sender { server: String, from: String, reply: String, is_permanent: bool },
    #[error("{server} rejected the recipient {to}: {reply}")]
    Recipient { server: String, to: String, reply: String, is_permanent: bool },
    #[error("{server} rejected the message: {reply}")]
    Message { server: String, reply: String, is_permanent: bool },
    #[error("cannot send to {address}: {problem}")]
    Address { address: String, problem: String },
    #[error("failed to encode the email")]
    Writing(#[source] lettre::error::Error),
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Vault(#[from] VaultError),
}

impl EmailError {
    /// Whether the recipient's rejection is permanent. All other failures may be resolved before the next attempt.
    pub(super) fn is_permanent_failure(&self) -> bool {
        match self {
            Self::Sender { is_permanent, .. }
            | Self::Recipient { is_permanent, .. }
            | Self::Message { is_permanent, .. } => *is_permanent,
            Self::Address { .. } | Self::Writing(_) => true,
            _ => false,
        }
    }
}

impl DomainError for EmailError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Off | Self::NoPassword | Self::Refused(_) => ErrorKind::Unavailable,
            Self::Writing(_) => ErrorKind::Internal,
            Self::Settings(error) => error.kind(),
            Self::Vault(error) => error.kind(),
            _ => ErrorKind::Upstream,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Off => "email_off",
            Self::NoPassword => "email_password_missing",
            Self::Refused(error) | Self::Unreachable(error) => error.code(),
            Self::Lost { .. } => "email_connection_lost",
            Self::Timeout { .. } => "email_timeout",
            Self::Protocol { .. } => "email_protocol",
            Self::Tls { .. } | Self::NoStarttls { .. } => "email_tls_failed",
            Self::NoMechanism { .. } | Self::Authentication { .. } => "email_authentication_failed",
            Self::Sender { .. } => "email_sender_refused",
            Self::Recipient { .. } | Self::Address { .. } => "email_recipient_refused",
            Self::Message { .. } => "email_message_refused",
            Self::Writing(_) => "internal_error",
            Self::Settings(error) => error.code(),
            Self::Vault(error) => error.code(),
        }
    }
}
