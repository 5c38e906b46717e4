//! Settings of the mail server.

use agentd_base::{Problems, SecretState};
use serde::{Deserialize, Serialize};
use url::Host;
use utoipa::ToSchema;

use super::profile::is_mailbox;
use crate::settings::destination::{DestinationField, WriteOnly};
use crate::settings::patch::section_patch;
use crate::settings::section::{ResetGroup, Section};

/// Encryption of the connection to the mail server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EmailTls {
    /// No encryption: all data including the password is sent in plain text. Only for a server on the same machine or
    /// network.
    None,
    /// STARTTLS, usually on port 587. A server that does not support it is rejected.
    #[default]
    Starttls,
    /// TLS from the first byte, usually on port 465.
    Implicit,
}

/// Mail server settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct EmailSettings {
    /// Whether email is enabled. Requires `smtp_host` and `from_address`. Default: false.
    pub enabled: bool,
    /// Host name or IP address of the SMTP server, at most 253 characters.
    #[schema(min_length = 1, max_length = 253)]
    pub smtp_host: Option<String>,
    /// Port of the SMTP server, usually 587 with `starttls` and 465 with `implicit`. Default: 587.
    #[schema(minimum = 1, maximum = 65535)]
    pub smtp_port: u16,
    /// Encryption of the connection. Default: `starttls`.
    pub tls: EmailTls,
    /// User name for authentication, at most 320 characters. `null` disables authentication.
    #[schema(min_length = 1, max_length = 320)]
    pub username: Option<String>,
    /// Password, write-only. Must be entered again if the host or port changes, or if `tls` becomes `none`.
    pub password: Option<SecretState>,
    /// Sender address, such as `name@example.org`, 3 to 254 characters.
    #[schema(min_length = 3, max_length = 254)]
    pub from_address: Option<String>,
}

section_patch!(
    /// Fields of the email settings to change; omitted fields are unchanged.
    EmailPatch, EmailSettings
);

impl Default for EmailSettings {
    fn default() -> Self {
        Self {
            enabled: false,
            smtp_host: None,
            smtp_port: 587,
            tls: EmailTls::default(),
            username: None,
            password: None,
            from_address: None,
        }
    }
}

impl EmailSettings {
    /// Name of the password in the vault, for `Settings::secret`.
    pub const PASSWORD: &'static str = "password";
}

impl Section for EmailSettings {
    const NAME: &'static str = "email";
    const RESET: ResetGroup = ResetGroup::Never;
    const SECRETS: &'static [WriteOnly] = &[WriteOnly::sent_to(
        Self::PASSWORD,
        &[
            DestinationField::Value("smtp_host"),
            DestinationField::Value("smtp_port"),
            DestinationField::Protection("tls", "none"),
        ],
    )];
    type Patch = EmailPatch;

    fn normalize(&mut self) {
        for text in [&mut self.smtp_host, &mut self.from_address].into_iter().flatten() {
            *text = text.trim().to_owned();
        }
        if let Some(host) = &mut self.smtp_host
            && let Some(parsed) = parse_host(host)
        {
            *host = match parsed {
                Host::Ipv6(address) => address.to_string(),
                other => other.to_string(),
            };
        }
    }

    fn validate(&self, problems: &mut Problems) {
        problems.require(
            self.smtp_host.as_deref().is_none_or(|host| parse_host(host).is_some()),
            "smtp_host",
            "must be the name or the IP address of a server, without a port",
        );
        problems.require(
            self.from_address.as_deref().is_none_or(is_mailbox),
            "from_address",
            "must be an address such as name@example.org",
        );
        problems.require(
            self.username.as_deref().is_none_or(|name| !name.chars().any(char::is_control)),
            "username",
            "must not contain line breaks or other control characters",
        );
        for (field, is_missing) in
            [("smtp_host", self.smtp_host.is_none()), ("from_address", self.from_address.is_none())]
        {
            problems.require(!self.enabled || !is_missing, field, "is required when email is enabled");
        }
    }
}

/// Parses a host name or an IP address, with optional brackets for IPv6.
fn parse_host(text: &str) -> Option<Host> {
    if let Ok(address) = text.parse::<std::net::Ipv6Addr>() {
        return Some(Host::Ipv6(address));
    }
    let host = Host::parse(text.strip_suffix('.').unwrap_or(text)).ok()?;
    match &host {
        Host::Domain(name) => {
            let is_name = name.len() <= 253
                && name.split('.').all(|label| (1..=63).contains(&label.len()))
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_'));
            is_name.then_some(host)
        }
        _ => Some(host),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_host_accepts_names_and_addresses() {
        for (text, spelling) in [
            ("Mail.Example.ORG.", "mail.example.org"),
            ("127.0.0.1", "127.0.0.1"),
            ("::1", "::1"),
            ("[::1]", "[::1]"),
            ("bücher.example", "xn--bcher-kva.example"),
        ] {
            assert_eq!(
                parse_host(text).map(|host| host.to_string().trim_matches(['[', ']']).to_owned()),
                Some(spelling.trim_matches(['[', ']']).to_owned()),
                "{text}"
            );
        }
        for bad in ["", "a b", "mail.example.org:25", "smtp://x", "a..b", "x/y", "user@host"] {
            assert!(parse_host(bad).is_none(), "{bad}");
        }
    }
}
