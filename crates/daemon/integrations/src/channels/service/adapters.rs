//! The platforms as the settings have them now.

use std::collections::BTreeMap;
use std::sync::Arc;

use agentd_base::{Clock, Secret, sha256};
use agentd_chat_platforms::{
    ChatPlatform, Platform,
    discord::{Discord, DiscordConfig},
    google_chat::{GoogleChat, GoogleChatConfig},
    slack::{Slack, SlackConfig},
    teams::{Teams, TeamsConfig},
    telegram::{Telegram, TelegramConfig},
    whatsapp::{Whatsapp, WhatsappConfig},
};
use agentd_core::settings::{Section, Settings};
use agentd_core::vault::VaultError;
use agentd_net::{GuardedClient, Trust};
use agentd_store::{Read, StoreError};
use parking_lot::RwLock;
use tokio::sync::{Mutex, watch};
use url::Url;

use crate::channels::model::{ChannelRules, ChannelSettings};
use crate::channels::store;

/// A platform that is turned on.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) platform: Platform,
    pub(crate) adapter: Arc<dyn ChatPlatform>,
    pub(crate) rules: ChannelRules,
    /// Of all that a connection depends on: with another one it is opened anew.
    pub(super) connection_key: [u8; 32],
}

impl Channel {
    /// Whether a sender was approved, or is one of `allowed_senders`.
    pub(crate) async fn is_trusted(&self, read: &mut Read, sender: &str) -> Result<bool, StoreError> {
        let is_allowed = self.rules.allowed_senders.iter().any(|allowed| allowed == sender);
        Ok(is_allowed || store::find_sender(read, self.platform, sender).await?)
    }
}

#[derive(Debug, Default)]
struct Built {
    /// Of the settings that they were made from.
    version: Option<u64>,
    channels: BTreeMap<Platform, Arc<Channel>>,
}

/// Adapters with what they keep, such as tokens, until the settings change.
#[derive(Debug)]
pub(super) struct Adapters {
    settings: Settings,
    clock: Clock,
    /// Public base URL of the daemon.
    base_url: String,
    changes: watch::Receiver<u64>,
    /// Reaches what the owner names.
    owner: GuardedClient,
    /// Reaches what a platform names.
    steered: GuardedClient,
    /// Requests that nobody has verified yet come for it: they wait for nobody.
    built: RwLock<Arc<Built>>,
    /// They are built once.
    building: Mutex<()>,
}

/// Where a platform sends its requests.
pub(super) fn webhook_url(base_url: &str, platform: Platform) -> String {
    format!("{base_url}/api/channels/{}/webhook", platform.id())
}

impl Adapters {
    pub(super) fn new(settings: Settings, clock: Clock, base_url: String) -> Self {
        let client = |trust| GuardedClient::new(settings.policy(), trust);
        let (owner, steered) = (client(Trust::Owner), client(Trust::Steered));
        Self {
            changes: settings.watch(),
            clock,
            base_url,
            owner,
            steered,
            built: RwLock::default(),
            building: Mutex::default(),
            settings,
        }
    }

    /// `None`: it is switched off.
    pub(super) async fn find(&self, platform: Platform) -> Result<Option<Arc<Channel>>, VaultError> {
        Ok(self.built().await?.channels.get(&platform).cloned())
    }

    async fn built(&self) -> Result<Arc<Built>, VaultError> {
        if let Some(built) = self.current() {
            return Ok(built);
        }
        let _building = self.building.lock().await;
        if let Some(built) = self.current() {
            return Ok(built);
        }
        let version = *self.changes.borrow();
        let built = Arc::new(Built { version: Some(version), ..self.build().await? });
        *self.built.write() = Arc::clone(&built);
        Ok(built)
    }

    /// `None`: the settings have changed since.
    fn current(&self) -> Option<Arc<Built>> {
        let version = *self.changes.borrow();
        Some(Arc::clone(&self.built.read())).filter(|built| built.version == Some(version))
    }

    async fn build(&self) -> Result<Built, VaultError> {
        let settings = self.settings.section::<ChannelSettings>();
        let mut built = Built::default();
        for platform in Platform::ALL {
            let rules = settings.rules(platform);
            if rules.enabled {
                let adapter = self.adapter(platform, &settings, &rules).await?;
                let connection_key = self.connection_key(platform, &rules).await?;
                built.channels.insert(platform, Arc::new(Channel { platform, adapter, rules, connection_key }));
            }
        }
        Ok(built)
    }

    async fn secret(&self, platform: Platform, name: &str) -> Result<Option<Secret>, VaultError> {
        self.settings.secret::<ChannelSettings>(&format!("{}.{name}", platform.id())).await
    }

    async fn connection_key(&self, platform: Platform, rules: &ChannelRules) -> Result<[u8; 32], VaultError> {
        let mut parts = format!("{:?} {:?}", rules.api_base_url, self.settings.policy().current());
        for name in ChannelSettings::SECRETS.iter().filter_map(|secret| secret.path.strip_prefix(platform.id())) {
            if let Some(secret) = self.secret(platform, name.trim_start_matches('.')).await? {
                parts.push_str(&format!(" {name} {}", hex::encode(secret.sha256())));
            }
        }
        Ok(sha256(parts.as_bytes()))
    }

    async fn adapter(
        &self,
        platform: Platform,
        settings: &ChannelSettings,
        rules: &ChannelRules,
    ) -> Result<Arc<dyn ChatPlatform>, VaultError> {
        // They were validated when they were saved.
        let url = |text: Option<&str>| text.and_then(|text| Url::parse(text).ok());
        let api_base_url = url(rules.api_base_url.as_deref());
        let client = self.owner.clone();
        Ok(match platform {
            Platform::Discord => Arc::new(Discord::new(
                DiscordConfig {
                    api_base_url,
                    application_id: settings.discord.application_id.clone(),
                    public_key: settings.discord.public_key.clone(),
                    bot_token: self.secret(platform, "bot_token").await?,
                },
                client,
                self.clock.clone(),
            )),
            Platform::Slack => Arc::new(Slack::new(
                SlackConfig {
                    api_base_url,
                    signing_secret: self.secret(platform, "signing_secret").await?,
                    bot_token: self.secret(platform, "bot_token").await?,
                    app_token: self.secret(platform, "app_token").await?,
                },
                client,
            )),
            Platform::Telegram => Arc::new(Telegram::new(
                TelegramConfig {
                    api_base_url,
                    secret_token: self.secret(platform, "secret_token").await?,
                    bot_token: self.secret(platform, "bot_token").await?,
                },
                client,
            )),
            Platform::Whatsapp => Arc::new(Whatsapp::new(
                WhatsappConfig {
                    api_base_url,
                    app_secret: self.secret(platform, "app_secret").await?,
                    verify_token: self.secret(platform, "verify_token").await?,
                    access_token: self.secret(platform, "access_token").await?,
                    phone_number_id: settings.whatsapp.phone_number_id.clone(),
                },
                client,
            )),
            Platform::Teams => Arc::new(Teams::new(
                TeamsConfig {
                    api_base_url,
                    app_id: settings.teams.app_id.clone(),
                    app_password: self.secret(platform, "app_password").await?,
                    tenant_id: settings.teams.tenant_id.clone(),
                    login_base_url: url(settings.teams.login_base_url.as_deref()),
                    keys_url: url(settings.teams.keys_url.as_deref()),
                },
                client,
                self.steered.clone(),
                self.clock.clone(),
            )),
            Platform::GoogleChat => Arc::new(GoogleChat::new(
                GoogleChatConfig {
                    api_base_url,
                    audience: settings.google_chat.audience.clone(),
                    service_account: self.secret(platform, "service_account").await?,
                    token_url: url(settings.google_chat.token_url.as_deref()),
                    keys_url: url(settings.google_chat.keys_url.as_deref()),
                    endpoint: Some(webhook_url(&self.base_url, platform)),
                },
                client,
                self.clock.clone(),
            )),
        })
    }
}
