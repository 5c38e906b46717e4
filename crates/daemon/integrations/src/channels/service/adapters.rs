//! Platform adapters for the current settings.

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

/// Enabled platform.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) platform: Platform,
    pub(crate) adapter: Arc<dyn ChatPlatform>,
    pub(crate) rules: ChannelRules,
    /// Hash of everything a connection depends on; a change reopens the connection.
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
struct AdapterSet {
    /// Version of the settings they were built from.
    version: Option<u64>,
    channels: BTreeMap<Platform, Arc<Channel>>,
}

/// Cache of adapters and their state, such as tokens, until the settings change.
#[derive(Debug)]
pub(super) struct Adapters {
    settings: Settings,
    clock: Clock,
    /// Public base URL of the daemon.
    base_url: String,
    changes: watch::Receiver<u64>,
    /// Client for URLs configured by the owner.
    owner: GuardedClient,
    /// Client for URLs provided by platforms.
    untrusted: GuardedClient,
    /// Read without waiting for a build, because unverified requests access it.
    adapter_set: RwLock<Arc<AdapterSet>>,
    /// Ensures that adapters are built only once.
    build_lock: Mutex<()>,
}

/// Returns the webhook URL of a platform.
pub(super) fn webhook_url(base_url: &str, platform: Platform) -> String {
    format!("{base_url}/api/channels/{}/webhook", platform.id())
}

impl Adapters {
    pub(super) fn new(settings: Settings, clock: Clock, base_url: String) -> Self {
        let client = |trust| GuardedClient::new(settings.policy(), trust);
        let (owner, untrusted) = (client(Trust::Owner), client(Trust::Untrusted));
        Self {
            changes: settings.watch(),
            clock,
            base_url,
            owner,
            untrusted,
            adapter_set: RwLock::default(),
            build_lock: Mutex::default(),
            settings,
        }
    }

    /// Returns the adapter of a platform; `None` if it is disabled.
    pub(super) async fn find(&self, platform: Platform) -> Result<Option<Arc<Channel>>, VaultError> {
        Ok(self.adapter_set().await?.channels.get(&platform).cloned())
    }

    async fn adapter_set(&self) -> Result<Arc<AdapterSet>, VaultError> {
        if let Some(adapter_set) = self.current() {
            return Ok(adapter_set);
        }
        let _building = self.build_lock.lock().await;
        if let Some(adapter_set) = self.current() {
            return Ok(adapter_set);
        }
        let version = *self.changes.borrow();
        let adapter_set = Arc::new(AdapterSet { version: Some(version), ..self.build().await? });
        *self.adapter_set.write() = Arc::clone(&adapter_set);
        Ok(adapter_set)
    }

    /// Returns the cached adapters; `None` if the settings have changed.
    fn current(&self) -> Option<Arc<AdapterSet>> {
        let version = *self.changes.borrow();
        Some(Arc::clone(&self.adapter_set.read())).filter(|adapter_set| adapter_set.version == Some(version))
    }

    async fn build(&self) -> Result<AdapterSet, VaultError> {
        let settings = self.settings.section::<ChannelSettings>();
        let mut adapter_set = AdapterSet::default();
        for platform in Platform::ALL {
            let rules = settings.rules(platform);
            if rules.enabled {
                let adapter = self.adapter(platform, &settings, &rules).await?;
                let connection_key = self.connection_key(platform, &rules).await?;
                adapter_set.channels.insert(platform, Arc::new(Channel { platform, adapter, rules, connection_key }));
            }
        }
        Ok(adapter_set)
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
        // URLs were validated when they were saved.
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
                self.untrusted.clone(),
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
