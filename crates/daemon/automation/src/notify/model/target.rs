//! Targets of messages.

use std::fmt;
use std::str::FromStr;

use agentd_core::settings::{CHANNEL_PLATFORMS, is_mailbox};
use url::Url;

const MAX_PLATFORM: usize = 32;
const MAX_CHANNEL: usize = 2048;

/// Target of a message: `email:<address>`, `webhook:<url>`, `push:` or `<platform>:<channel>`. `email:` alone selects
/// the address in the profile, `push:` all registered devices, and `push:<id>` one device. Whether the platform is
/// configured is checked when a target is stored ([`Notify::target_problem`](crate::notify::Notify::target_problem)) and when a
/// message is sent.
#[derive(Clone, PartialEq, Eq)]
pub enum Target {
    Email(String),
    Webhook(Url),
    Push(String),
    Channel { platform: String, channel: String },
}

/// Error of parsing a target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be email:<address>, webhook:<http(s) url>, push:, or <platform>:<channel>: {problem}")]
pub struct TargetError {
    problem: &'static str,
}

impl Target {
    pub const EMAIL: &'static str = "email";
    pub const WEBHOOK: &'static str = "webhook";
    pub const PUSH: &'static str = "push";

    /// Returns the part before the colon.
    #[must_use]
    pub fn platform(&self) -> &str {
        match self {
            Self::Email(_) => Self::EMAIL,
            Self::Webhook(_) => Self::WEBHOOK,
            Self::Push(_) => Self::PUSH,
            Self::Channel { platform, .. } => platform,
        }
    }

    /// Returns why the target can never be used, if so.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        match self {
            Self::Email(_) | Self::Webhook(_) | Self::Push(_) => None,
            Self::Channel { platform, .. } if CHANNEL_PLATFORMS.contains(&platform.as_str()) => None,
            Self::Channel { platform, .. } if ["http", "https"].contains(&platform.as_str()) => {
                Some("is a URL; use webhook:<url>".to_owned())
            }
            Self::Channel { platform, .. } => Some(format!(
                "must be email:<address>, webhook:<url>, push:, or <platform>:<channel> with one of {}; \
                 `{platform}` is not a known platform",
                CHANNEL_PLATFORMS.join(", ")
            )),
        }
    }

    /// Returns the target for display. A URL shows only its scheme and host, because the rest may be secret.
    #[must_use]
    pub fn redacted(&self) -> String {
        format!("{}:{}", self.platform(), redact_channel(self.platform(), self.channel()))
    }

    /// Returns the part after the colon.
    #[must_use]
    pub fn channel(&self) -> &str {
        match self {
            Self::Email(address) => address,
            Self::Webhook(url) => url.as_str(),
            Self::Push(device) => device,
            Self::Channel { channel, .. } => channel,
        }
    }
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let problem = |problem| Err(TargetError { problem });
        let Some((platform, channel)) = text.split_once(':') else { return problem("the colon is missing") };
        match platform {
            // The address in the profile.
            Self::EMAIL if channel.is_empty() => return Ok(Self::Email(String::new())),
            Self::PUSH if channel.is_empty() => return Ok(Self::Push(String::new())),
            _ => {}
        }
        if channel.is_empty() || channel.len() > MAX_CHANNEL || channel.chars().any(char::is_control) {
            return problem(
                "the part after the colon is empty, longer than 2048 bytes, or contains control characters",
            );
        }
        match platform {
            Self::EMAIL if is_mailbox(channel) => Ok(Self::Email(channel.to_owned())),
            Self::EMAIL => problem("the part after `email:` is not an email address"),
            Self::WEBHOOK => match Url::parse(channel) {
                Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => Ok(Self::Webhook(url)),
                _ => problem("the part after `webhook:` is not an http(s) URL"),
            },
            Self::PUSH if is_device(channel) => Ok(Self::Push(channel.to_owned())),
            Self::PUSH => problem("the part after `push:` is not a device id"),
            _ if is_platform(platform) => {
                Ok(Self::Channel { platform: platform.to_owned(), channel: channel.to_owned() })
            }
            _ => problem(
                "the platform must be a lowercase letter followed by lowercase letters, digits and `_`, at most 32 \
                 characters",
            ),
        }
    }
}

fn is_device(text: &str) -> bool {
    text.len() <= 64 && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn is_platform(text: &str) -> bool {
    text.len() <= MAX_PLATFORM
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

/// Formats the full target, as parsed by [`FromStr`].
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.platform(), self.channel())
    }
}

/// Formats the target without secrets.
impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.redacted())
    }
}

/// Returns a channel for display. A URL shows only its scheme and host, because user, path and query may contain a
/// token.
pub(crate) fn redact_channel(platform: &str, channel: &str) -> String {
    match Url::parse(channel) {
        Ok(url) if matches!(url.scheme(), "http" | "https") => url.origin().ascii_serialization(),
        _ if platform == Target::WEBHOOK => "?".to_owned(),
        _ => channel.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn valid_targets_parse_and_invalid_ones_are_rejected() {
        for good in [
            "email:a@b.co",
            "email:you@localhost",
            "email:",
            "push:",
            "push:push_0123",
            "webhook:https://x.example/a?b=c",
            "slack:#general",
            "google_chat:spaces/A:b",
        ] {
            assert_eq!(good.parse::<Target>().map(|target| target.to_string()), Ok(good.to_owned()));
        }
        for bad in
            ["", "email", "email:x", "webhook:ftp://x", "webhook:x", "Slack:#x", "1x:y", "slack:a\nb", "push: ", ":x"]
        {
            assert!(bad.parse::<Target>().is_err(), "{bad}");
        }
    }

    #[test]
    fn secrets_in_urls_are_hidden() {
        let target: Target = "webhook:https://user:pass@hooks.example:8443/T0/secret?token=x".parse().unwrap();
        assert_eq!(format!("{target:?}"), "webhook:https://hooks.example:8443");
        for (target, shown) in [
            ("slack:https://hooks.example/services/T0/secret", "slack:https://hooks.example"),
            ("slack:#general", "slack:#general"),
            ("teams:19:abc@thread.v2", "teams:19:abc@thread.v2"),
            ("google_chat:spaces/A:b", "google_chat:spaces/A:b"),
            ("email:a@b.co", "email:a@b.co"),
        ] {
            assert_eq!(target.parse::<Target>().unwrap().redacted(), shown);
        }
    }

    proptest! {
        #[test]
        fn parsed_targets_round_trip(text in "\\PC{0,60}", platform in "(email|webhook|push|slack|[a-zA-Z0-9_]{0,8})") {
            if let Ok(target) = format!("{platform}:{text}").parse::<Target>() {
                prop_assert_eq!(target.to_string().parse::<Target>(), Ok(target));
            }
        }
    }
}
