//! The settings of the platforms: what each has, and its own credentials.

use agentd_base::{Problems, SecretState};
use agentd_chat_platforms::Platform;
use agentd_core::settings::{
    Part, ResetGroup, SafetySetting, Section, Strength, WriteOnly, is_agent_name, section_patch,
};
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
    fn validate(&self, platform: Platform, problems: &mut Problems) {
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

/// A platform's settings; the common fields stand in each, so that each is one flat object.
macro_rules! platform_settings {
    ($(#[$meta:meta])* $name:ident { $($(#[$field_meta:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
        #[serde(default)]
        pub struct $name {
            /// Whether messages are taken and sent.
            pub enabled: bool,
            /// Id or `svc_name` of the agent that answers; `null`: the default agent.
            #[schema(min_length = 1, max_length = 64)]
            pub agent_id: Option<String>,
            /// Where the platform's API is; `null`: where the platform has it. With another server, the credentials that
            /// are sent there are asked for again.
            #[schema(max_length = 2048)]
            pub api_base_url: Option<String>,
            /// Who may talk to the agent.
            pub sender_policy: SenderPolicy,
            /// Ids of senders on the platform; for the policy `allowlist`.
            #[schema(max_items = 1000)]
            pub allowed_senders: Vec<String>,
            /// When the agent answers in groups.
            pub groups: GroupPolicy,
            /// Tools that a message may set to work, beyond those that only read; `*` at the end
            /// stands for any rest.
            #[schema(max_items = 200)]
            pub tools: Vec<String>,
            /// Whether files of messages by those whom you let in are fetched into the agent's workspace, before it
            /// answers: ten a message, 20 MiB each.
            pub attachments: bool,
            $($(#[$field_meta])* pub $field: $type,)*
        }

        impl $name {
            /// What it has in common with the others.
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
    /// Discord.
    DiscordSettings {
        /// How messages come. `connect` (the Gateway) needs no `public_key` and no address that is reached from outside,
        /// and brings messages as well as commands.
        mode: ChannelMode,
        #[schema(min_length = 1, max_length = 32)]
        application_id: Option<String>,
        /// The application's Ed25519 key, 64 hexadecimal characters: what signs its requests.
        #[schema(min_length = 64, max_length = 64)]
        public_key: Option<String>,
        /// Write-only.
        bot_token: Option<SecretState>,
    }
);

platform_settings!(
    /// Slack.
    SlackSettings {
        /// How messages come. `connect` (Socket Mode) needs an `app_token`, and no `signing_secret` and no address that
        /// is reached from outside.
        mode: ChannelMode,
        /// Write-only; signs the platform's requests.
        signing_secret: Option<SecretState>,
        /// Write-only.
        bot_token: Option<SecretState>,
        /// Write-only; begins with `xapp-`, and opens the sockets of the mode `connect`.
        app_token: Option<SecretState>,
    }
);

platform_settings!(
    /// Telegram.
    TelegramSettings {
        /// How messages come. `connect` needs no `secret_token` and no address that is reached from outside.
        mode: ChannelMode,
        /// Write-only; the platform sends it with each request.
        secret_token: Option<SecretState>,
        /// Write-only.
        bot_token: Option<SecretState>,
    }
);

platform_settings!(
    /// WhatsApp.
    WhatsappSettings {
        /// Write-only; signs the platform's requests.
        app_secret: Option<SecretState>,
        /// Write-only; the platform says it when it asks whether this address is ours.
        verify_token: Option<SecretState>,
        /// Write-only.
        access_token: Option<SecretState>,
        #[schema(min_length = 1, max_length = 32)]
        phone_number_id: Option<String>,
    }
);

platform_settings!(
    /// Microsoft Teams.
    TeamsSettings {
        #[schema(min_length = 1, max_length = 64)]
        app_id: Option<String>,
        /// Write-only.
        app_password: Option<SecretState>,
        #[schema(min_length = 1, max_length = 64)]
        tenant_id: Option<String>,
        /// Where tokens are got; `null`: where Microsoft has it.
        #[schema(max_length = 2048)]
        login_base_url: Option<String>,
        /// The OpenID document that names the keys of requests; `null`: that of the Bot Framework.
        #[schema(max_length = 2048)]
        keys_url: Option<String>,
    }
);

platform_settings!(
    /// Google Chat.
    GoogleChatSettings {
        /// What the platform's tokens are made out to: the project's number, or this daemon's address.
        #[schema(min_length = 1, max_length = 2048)]
        audience: Option<String>,
        /// Write-only; the key file of the service account, JSON as text.
        service_account: Option<SecretState>,
        /// Where tokens are got; `null`: where the key file says.
        #[schema(max_length = 2048)]
        token_url: Option<String>,
        /// Where the keys of requests are; `null`: where Google has them.
        #[schema(max_length = 2048)]
        keys_url: Option<String>,
    }
);

/// The settings of every platform.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct ChannelSettings {
    #[schema(inline)]
    pub discord: DiscordSettings,
    #[schema(inline)]
    pub slack: SlackSettings,
    #[schema(inline)]
    pub telegram: TelegramSettings,
    #[schema(inline)]
    pub whatsapp: WhatsappSettings,
    #[schema(inline)]
    pub teams: TeamsSettings,
    #[schema(inline)]
    pub google_chat: GoogleChatSettings,
}

section_patch!(
    /// Any fields of any platforms; those left out stay as they are.
    ChannelPatch, ChannelSettings
);

/// Who may talk to an agent, and what their messages may set to work.
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
                effect: "Messages may set the added tools to work.",
            },
        )*]
    };
}

const SAFETY: &[SafetySetting] = platform_safety!("discord", "slack", "telegram", "whatsapp", "teams", "google_chat");

impl ChannelSettings {
    /// What is set for a platform besides its credentials.
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
    /// The credentials without which what is turned on cannot connect.
    fn needed_to_connect(&self) -> Vec<(&'static str, Option<SecretState>)> {
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
        WriteOnly::sent("discord.bot_token", &[Part::Server("discord.api_base_url")]),
        WriteOnly::kept("slack.signing_secret"),
        WriteOnly::sent("slack.bot_token", &[Part::Server("slack.api_base_url")]),
        WriteOnly::sent("slack.app_token", &[Part::Server("slack.api_base_url")]),
        // Told to the platform, so that it can say it with each request.
        WriteOnly::sent("telegram.secret_token", &[Part::Server("telegram.api_base_url")]),
        WriteOnly::sent("telegram.bot_token", &[Part::Server("telegram.api_base_url")]),
        WriteOnly::kept("whatsapp.app_secret"),
        WriteOnly::kept("whatsapp.verify_token"),
        WriteOnly::sent("whatsapp.access_token", &[Part::Server("whatsapp.api_base_url")]),
        WriteOnly::sent(
            "teams.app_password",
            &[Part::Server("teams.api_base_url"), Part::Server("teams.login_base_url")],
        ),
        WriteOnly::sent(
            "google_chat.service_account",
            &[Part::Server("google_chat.api_base_url"), Part::Server("google_chat.token_url")],
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
        for (field, credential) in self.needed_to_connect() {
            let is_set = credential.is_some_and(|state| state.set);
            problems.require(is_set, field, "must be set before the mode is `connect` and the channel is turned on");
        }
        let mut require = |field: &str, value: &Option<String>, holds: fn(&str) -> bool, message: &str| {
            problems.require(value.as_deref().is_none_or(holds), field, message);
        };
        require("discord.application_id", &self.discord.application_id, is_number, "must be the application's number");
        require("discord.public_key", &self.discord.public_key, is_key, "must be 64 hexadecimal characters");
        require("whatsapp.phone_number_id", &self.whatsapp.phone_number_id, is_number, "must be a number");
        require("teams.app_id", &self.teams.app_id, is_id, "must be the application's id, such as a UUID");
        require("teams.tenant_id", &self.teams.tenant_id, is_id, "must be the tenant's id or its domain");
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

/// 32 bytes in hex.
fn is_key(text: &str) -> bool {
    hex::decode(text).is_ok_and(|bytes| bytes.len() == 32)
}

fn is_word(text: &str) -> bool {
    !text.chars().any(|c| c.is_whitespace() || c.is_control())
}

/// What is wrong with what is none.
const BASE_URL: &str = "must be an http(s) address without a user, a query or a fragment";

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
