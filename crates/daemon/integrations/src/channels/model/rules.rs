//! What every platform has: whose agent answers, whom, and with which tools.

use agentd_base::Problems;
use agentd_chat_platforms::Platform;
use agentd_core::settings::is_agent_name;
use serde::{Deserialize, Serialize};
use url::{Host, Url};
use utoipa::ToSchema;

const MAX_TOOL: usize = 128;
const MAX_SENDER: usize = 200;

/// Who may talk to the agent of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SenderPolicy {
    /// A stranger gets a code that the owner approves; until then nothing he writes reaches a model.
    #[default]
    Pairing,
    /// `allowed_senders` alone.
    Allowlist,
    /// Everybody.
    Open,
}

/// How messages come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChannelMode {
    /// The platform sends them to the daemon's address.
    #[default]
    Webhook,
    /// The daemon fetches them itself, and needs no address that is reached from outside.
    Connect,
}

/// When the agent answers where others read along.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum GroupPolicy {
    /// When it is mentioned or answered.
    #[default]
    Mention,
    Always,
    Never,
}

/// What every platform's settings hold besides its credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelRules {
    pub enabled: bool,
    /// Id or `svc_name`; `None`: the default agent.
    pub agent_id: Option<String>,
    /// `None`: the platform's own.
    pub api_base_url: Option<String>,
    pub sender_policy: SenderPolicy,
    pub allowed_senders: Vec<String>,
    pub groups: GroupPolicy,
    pub mode: ChannelMode,
    /// What a turn of a channel may use beyond reading; `*` at the end stands for any rest.
    pub tools: Vec<String>,
    /// Whether files of those whom the owner let in are fetched.
    pub attachments: bool,
}

impl ChannelRules {
    pub(super) fn validate(&self, platform: Platform, problems: &mut Problems) {
        let field = |name: &str| format!("{}.{name}", platform.id());
        problems.require(
            self.agent_id.as_deref().is_none_or(is_agent_name),
            &field("agent_id"),
            "must be an agent's id or svc_name: lower-case letters, digits, `-` and `_`, at most 63",
        );
        problems.require(self.api_base_url.as_deref().is_none_or(is_base_url), &field("api_base_url"), BASE_URL);
        for (index, sender) in self.allowed_senders.iter().enumerate() {
            let is_sender = (1..=MAX_SENDER).contains(&sender.len())
                && !sender.chars().any(|c| c.is_whitespace() || c.is_control());
            let message = format!("must be a sender's id on the platform, without spaces, at most {MAX_SENDER} bytes");
            problems.require(is_sender, &field(&format!("allowed_senders[{index}]")), message);
        }
        for (index, tool) in self.tools.iter().enumerate() {
            let name = tool.strip_suffix('*').unwrap_or(tool);
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
            problems.require(
                (1..=MAX_TOOL).contains(&tool.len()) && name.bytes().all(is_plain),
                &field(&format!("tools[{index}]")),
                "must be the name of a tool: letters, digits, `-`, `_`, `.`, and `*` only at the end",
            );
        }
    }
}

/// What is wrong with what is none.
pub(super) const BASE_URL: &str = "must be an http(s) address without a user, a query or a fragment";

pub(super) fn is_base_url(text: &str) -> bool {
    let Ok(url) = Url::parse(text) else { return false };
    matches!(url.scheme(), "http" | "https")
        && url.host().is_some_and(|host| !matches!(host, Host::Domain("")))
        && url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none()
}

#[cfg(test)]
mod tests {
    use agentd_core::settings::CHANNEL_PLATFORMS;

    use super::*;

    #[test]
    fn the_settings_know_the_same_platforms() {
        assert_eq!(Platform::ALL.map(Platform::id), CHANNEL_PLATFORMS);
        assert_eq!(Platform::from_id("google_chat"), Some(Platform::GoogleChat));
        assert_eq!(Platform::from_id("irc"), None);
    }

    #[test]
    fn base_addresses_are_plain() {
        for good in ["https://discord.example/api", "http://127.0.0.1:9/", "http://[::1]:80"] {
            assert!(is_base_url(good), "{good}");
        }
        for bad in ["", "discord.com", "ftp://x", "https://u:p@x", "https://x?y", "https://x#y", "https://"] {
            assert!(!is_base_url(bad), "{bad}");
        }
    }
}
