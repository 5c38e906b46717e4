//! Settings of the platforms, with their credentials.

use agentd_base::{Problems, SecretState};
use agentd_chat_platforms::Platform;
use agentd_core::settings::{
    DestinationField, ResetGroup, SafetySetting, Section, Strength, WriteOnly, is_agent_name, section_patch,
};
use serde::{Deserialize, Serialize};
use url::{Host, Url};
use utoipa::ToSchema;

const MAX_TOOL_NAME_BYTES: usize = 128;
const MAX_SENDER_BYTES: usize = 200;

/// Policy for senders who may talk to the agent of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SenderPolicy {
    /// An unknown sender receives a code that the owner approves; until then, messages of the sender do not reach a
    /// model.
    #[default]
    Pairing,
    /// Only senders in `allowed_senders`.
    Allowlist,
    /// All senders.
    Open,
}

/// Method of receiving messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChannelMode {
    /// The platform sends them to the daemon's public URL.
    #[default]
    Webhook,
    /// The daemon connects to the platform and needs no public URL.
    Connect,
}

/// Policy for answering in group chats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum GroupPolicy {
    /// Answer only when the agent is mentioned or replied to.
    #[default]
    Mention,
    /// Answer every message.
    Always,
    /// Do not answer in groups.
    Never,
}

/// Settings that all platforms have in common, without credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelRules {
    pub enabled: bool,
    /// Id or `svc_name`; the default agent if `None`.
    pub agent_id: Option<String>,
    /// The platform's own URL if `None`.
    pub api_base_url: Option<String>,
    pub sender_policy: SenderPolicy,
    pub allowed_senders: Vec<String>,
    pub groups: GroupPolicy,
    pub mode: ChannelMode,
    /// Tools that a turn of the channel may use in addition to read-only ones; a trailing `*` matches any suffix.
    pub tools: Vec<String>,
    /// Whether files of trusted senders are fetched.
    pub attachments: bool,
}

impl ChannelRules {
    fn validate(&self, platform: Platform, problems: &mut Problems) {
        let field = |name: &str| format!("{}.{name}", platform.id());
        problems.require(
            self.agent_id.as_deref().is_none_or(is_agent_name),
            &field("agent_id"),
            "must be an agent id or `svc_name`: at most 63 lower-case letters, digits, `-` and `_`",
        );
        problems.require(self.api_base_url.as_deref().is_none_or(is_base_url), &field("api_base_url"), BASE_URL);
        for (index, sender) in self.allowed_senders.iter().enumerate() {
            let is_sender = (1..=MAX_SENDER_BYTES).contains(&sender.len())
                && !sender.chars().any(|c| c.is_whitespace() || c.is_control());
            let message = format!("must be a sender id on the platform: 1 to {MAX_SENDER_BYTES} bytes without spaces");
            problems.require(is_sender, &field(&format!("allowed_senders[{index}]")), message);
        }
        for (index, tool) in self.tools.iter().enumerate() {
            let name = tool.strip_suffix('*').unwrap_or(tool);
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
            problems.require(
                (1..=MAX_TOOL_NAME_BYTES).contains(&tool.len()) && name.bytes().all(is_plain),
                &field(&format!("tools[{index}]")),
                "must be a tool name: letters, digits, `-`, `_`, `.`, and `*` only at the end",
            );
        }
    }
}

/// Declares the settings of a platform. The common fields are repeated in each, so that the settings are a flat object.
macro_rules! platform_settings {
    ($(#[$meta:meta])* $name:ident { $($(#[$field_meta:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
        #[serde(default)]
        pub struct $name {
            /// Whether messages are received and sent. Default: false.
            pub enabled: bool,
            /// Id or `svc_name` of the agent that answers, at most 63 characters. Default: `null`, the default agent.
            #[schema(min_length = 1, max_length = 64)]
            pub agent_id: Option<String>,
            /// Base URL of the platform's API, without user, query and fragment, at most 2,048 characters. Default:
            /// `null`, the platform's own. After a change to another server, the credentials sent there must be entered
            /// again.
            #[schema(max_length = 2048)]
            pub api_base_url: Option<String>,
            /// Policy for senders who may talk to the agent. Default: `pairing`.
            pub sender_policy: SenderPolicy,
            /// Sender ids on the platform that may talk to the agent under every policy, at most 1,000 of 200 bytes
            /// each. Default: none.
            #[schema(max_items = 1000)]
            pub allowed_senders: Vec<String>,
            /// Policy for answering in groups. Default: `mention`.
            pub groups: GroupPolicy,
            /// Tools that messages may use in addition to read-only ones, at most 200; a trailing `*` matches any
            /// suffix. Default: none.
            #[schema(max_items = 200)]
            pub tools: Vec<String>,
            /// Whether files of trusted senders are fetched into the agent's workspace before it answers; at most ten
            /// per message, 20 MiB each. Default: false.
            pub attachments: bool,
            $($(#[$field_meta])* pub $field: $type,)*
        }

        impl $name {
            /// Returns the settings it has in common with other platforms.
            #[must_use]
            pub fn rules(&self) -> ChannelRules {
                ChannelRules {
                    enabled: self.enabled,
                    agent_id: self.agent_id.clone(),
                    api_base_url: self.api_base_url.clone(),
                    sender_policy: self.sender_policy,
                    allowed_senders: self.allowed_senders.clone(),
                    groups: self.groups,
                    mode: ChannelMode::default(),
                    tools: self.tools.clone(),
                    attachments: self.attachments,
                }
            }
        }
    };
}

platform_settings!(
    /// Settings for Discord.
    DiscordSettings {
        /// Method of receiving messages. Default: `webhook`. `connect` uses the Gateway, needs no `public_key` and no
        /// public URL, and receives messages as well as commands.
        mode: ChannelMode,
        /// Id of the application, a number of at most 32 digits.
        #[schema(min_length = 1, max_length = 32)]
        application_id: Option<String>,
        /// Ed25519 public key of the application that verifies its requests, 64 hexadecimal characters.
        #[schema(min_length = 64, max_length = 64)]
        public_key: Option<String>,
        /// Token of the bot; write-only. Required for the mode `connect`.
        bot_token: Option<SecretState>,
    }
);

platform_settings!(
    /// Settings for Slack.
    SlackSettings {
        /// Method of receiving messages. Default: `webhook`. `connect` uses Socket Mode and needs an `app_token`, but
        /// no `signing_secret` and no public URL.
        mode: ChannelMode,
        /// Secret that verifies the platform's requests; write-only.
        signing_secret: Option<SecretState>,
        /// Token of the bot, which sends messages; write-only. Required for the mode `connect`.
        bot_token: Option<SecretState>,
        /// Token for Socket Mode, beginning with `xapp-`; write-only. Required for the mode `connect`.
        app_token: Option<SecretState>,
    }
);

platform_settings!(
    /// Settings for Telegram.
    TelegramSettings {
        /// Method of receiving messages. Default: `webhook`. `connect` needs no `secret_token` and no public URL.
        mode: ChannelMode,
        /// Token that the platform sends with each request; write-only.
        secret_token: Option<SecretState>,
        /// Token of the bot; write-only. Required for the mode `connect`.
        bot_token: Option<SecretState>,
    }
);

platform_settings!(
    /// Settings for WhatsApp.
    WhatsappSettings {
        /// Secret that verifies the platform's requests; write-only.
        app_secret: Option<SecretState>,
        /// Token with which the platform verifies the webhook URL; write-only.
        verify_token: Option<SecretState>,
        /// Access token of the Graph API, which sends messages; write-only.
        access_token: Option<SecretState>,
        /// Id of the phone number that messages are sent from, at most 32 digits.
        #[schema(min_length = 1, max_length = 32)]
        phone_number_id: Option<String>,
    }
);

platform_settings!(
    /// Settings for Microsoft Teams.
    TeamsSettings {
        /// Id of the application, such as a UUID, at most 64 characters.
        #[schema(min_length = 1, max_length = 64)]
        app_id: Option<String>,
        /// Client secret of the application; write-only.
        app_password: Option<SecretState>,
        /// Id or domain of the tenant, at most 64 characters.
        #[schema(min_length = 1, max_length = 64)]
        tenant_id: Option<String>,
        /// Base URL of the token endpoint, at most 2,048 characters. Default: `null`, Microsoft's own.
        #[schema(max_length = 2048)]
        login_base_url: Option<String>,
        /// URL of the OpenID document with the keys of requests, at most 2,048 characters. Default: `null`, that of the
        /// Bot Framework.
        #[schema(max_length = 2048)]
        keys_url: Option<String>,
    }
);

platform_settings!(
    /// Settings for Google Chat.
    GoogleChatSettings {
        /// Expected audience of the platform's tokens: the project number, or the URL of this daemon.
        #[schema(min_length = 1, max_length = 2048)]
        audience: Option<String>,
        /// JSON key file of the service account as text; write-only.
        service_account: Option<SecretState>,
        /// URL of the token endpoint, at most 2,048 characters. Default: `null`, the one in the key file.
        #[schema(max_length = 2048)]
        token_url: Option<String>,
        /// URL of the keys of requests, at most 2,048 characters. Default: `null`, Google's own.
        #[schema(max_length = 2048)]
        keys_url: Option<String>,
    }
);

/// Settings of all platforms.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct ChannelSettings {
    /// Settings for Discord.
    #[schema(inline)]
    pub discord: DiscordSettings,
    /// Settings for Slack.
    #[schema(inline)]
    pub slack: SlackSettings,
    /// Settings for Telegram.
    #[schema(inline)]
    pub telegram: TelegramSettings,
    /// Settings for WhatsApp.
    #[schema(inline)]
    pub whatsapp: WhatsappSettings,
    /// Settings for Microsoft Teams.
    #[schema(inline)]
    pub teams: TeamsSettings,
    /// Settings for Google Chat.
    #[schema(inline)]
    pub google_chat: GoogleChatSettings,
}

section_patch!(
    /// Any subset of the settings of any platforms; omitted fields keep their values.
    ChannelPatch, ChannelSettings
);

/// Settings that determine who may talk to an agent and which tools messages may use.
macro_rules! platform_safety {
    ($($platform:literal),*) => {
        &[$(
            SafetySetting {
                path: concat!($platform, ".sender_policy"),
                strength: Strength::Ranked(&[&["allowlist", "pairing"], &["open"]]),
                effect: "Unknown senders may talk to the agent.",
            },
            SafetySetting {
                path: concat!($platform, ".allowed_senders"),
                strength: Strength::Permissions,
                effect: "The added senders may talk to the agent.",
            },
            SafetySetting {
                path: concat!($platform, ".tools"),
                strength: Strength::Permissions,
                effect: "Messages may use the added tools.",
            },
        )*]
    };
}

const SAFETY: &[SafetySetting] = platform_safety!("discord", "slack", "telegram", "whatsapp", "teams", "google_chat");

impl ChannelSettings {
    /// Returns the settings of a platform without its credentials.
    #[must_use]
    pub fn rules(&self, platform: Platform) -> ChannelRules {
        match platform {
            Platform::Discord => ChannelRules { mode: self.discord.mode, ..self.discord.rules() },
            Platform::Slack => ChannelRules { mode: self.slack.mode, ..self.slack.rules() },
            Platform::Telegram => ChannelRules { mode: self.telegram.mode, ..self.telegram.rules() },
            Platform::Whatsapp => self.whatsapp.rules(),
            Platform::Teams => self.teams.rules(),
            Platform::GoogleChat => self.google_chat.rules(),
        }
    }
}

impl ChannelSettings {
    /// Returns the credentials that enabled connections require.
    fn required_credentials(&self) -> Vec<(&'static str, Option<SecretState>)> {
        let needed = [
            (Platform::Discord, "discord.bot_token", &self.discord.bot_token),
            (Platform::Slack, "slack.app_token", &self.slack.app_token),
            (Platform::Slack, "slack.bot_token", &self.slack.bot_token),
            (Platform::Telegram, "telegram.bot_token", &self.telegram.bot_token),
        ];
        let is_needed = |platform: Platform| {
            let rules = self.rules(platform);
            rules.enabled && rules.mode == ChannelMode::Connect
        };
        let needed = needed.into_iter().filter(|(platform, ..)| is_needed(*platform));
        needed.map(|(_, field, credential)| (field, *credential)).collect()
    }
}

impl Section for ChannelSettings {
    const NAME: &'static str = "channels";
    const RESET: ResetGroup = ResetGroup::Never;
    const SECRETS: &'static [WriteOnly] = &[
        WriteOnly::sent_to("discord.bot_token", &[DestinationField::Server("discord.api_base_url")]),
        WriteOnly::internal("slack.signing_secret"),
        WriteOnly::sent_to("slack.bot_token", &[DestinationField::Server("slack.api_base_url")]),
        WriteOnly::sent_to("slack.app_token", &[DestinationField::Server("slack.api_base_url")]),
        // Sent to the platform, which includes it in each request.
        WriteOnly::sent_to("telegram.secret_token", &[DestinationField::Server("telegram.api_base_url")]),
        WriteOnly::sent_to("telegram.bot_token", &[DestinationField::Server("telegram.api_base_url")]),
        WriteOnly::internal("whatsapp.app_secret"),
        WriteOnly::internal("whatsapp.verify_token"),
        WriteOnly::sent_to("whatsapp.access_token", &[DestinationField::Server("whatsapp.api_base_url")]),
        WriteOnly::sent_to(
            "teams.app_password",
            &[DestinationField::Server("teams.api_base_url"), DestinationField::Server("teams.login_base_url")],
        ),
        WriteOnly::sent_to(
            "google_chat.service_account",
            &[DestinationField::Server("google_chat.api_base_url"), DestinationField::Server("google_chat.token_url")],
        ),
    ];
    const SAFETY: &'static [SafetySetting] = SAFETY;
    type Patch = ChannelPatch;

    fn normalize(&mut self) {
        if let Some(key) = &mut self.discord.public_key {
            key.make_ascii_lowercase();
        }
    }

    fn validate(&self, problems: &mut Problems) {
        for platform in Platform::ALL {
            self.rules(platform).validate(platform, problems);
        }
        for (field, credential) in self.required_credentials() {
            let is_set = credential.is_some_and(|state| state.set);
            problems.require(is_set, field, "is required while the channel is enabled with the mode `connect`");
        }
        let mut require = |field: &str, value: &Option<String>, holds: fn(&str) -> bool, message: &str| {
            problems.require(value.as_deref().is_none_or(holds), field, message);
        };
        require(
            "discord.application_id",
            &self.discord.application_id,
            is_number,
            "must be the application id, a number",
        );
        require("discord.public_key", &self.discord.public_key, is_key, "must be 64 hexadecimal characters");
        require("whatsapp.phone_number_id", &self.whatsapp.phone_number_id, is_number, "must be a number");
        require("teams.app_id", &self.teams.app_id, is_id, "must be an application id, such as a UUID");
        require("teams.tenant_id", &self.teams.tenant_id, is_id, "must be a tenant id or domain");
        for (field, value) in [
            ("teams.login_base_url", &self.teams.login_base_url),
            ("teams.keys_url", &self.teams.keys_url),
            ("google_chat.token_url", &self.google_chat.token_url),
            ("google_chat.keys_url", &self.google_chat.keys_url),
        ] {
            require(field, value, is_base_url, BASE_URL);
        }
        require("google_chat.audience", &self.google_chat.audience, is_word, "must not contain spaces");
    }
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_id(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'))
}

/// Returns whether the text is 32 bytes in hex.
fn is_key(text: &str) -> bool {
    hex::decode(text).is_ok_and(|bytes| bytes.len() == 32)
}

fn is_word(text: &str) -> bool {
    !text.chars().any(|c| c.is_whitespace() || c.is_control())
}

/// Message for an invalid base URL.
const BASE_URL: &str = "must be an http(s) URL without user, query or fragment";

fn is_base_url(text: &str) -> bool {
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
    fn settings_and_platforms_match() {
        assert_eq!(Platform::ALL.map(Platform::id), CHANNEL_PLATFORMS);
        assert_eq!(Platform::from_id("google_chat"), Some(Platform::GoogleChat));
        assert_eq!(Platform::from_id("irc"), None);
    }

    #[test]
    fn base_url_must_be_plain() {
        for good in ["https://discord.example/api", "http://127.0.0.1:9/", "http://[::1]:80"] {
            assert!(is_base_url(good), "{good}");
        }
        for bad in ["", "discord.com", "ftp://x", "https://u:p@x", "https://x?y", "https://x#y", "https://"] {
            assert!(!is_base_url(bad), "{bad}");
        }
    }
}
