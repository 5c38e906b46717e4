//! Status of platforms, and tests.

use agentd_base::Timestamp;
use agentd_chat_platforms::{Account, Outgoing, Platform, SendError, Sent};
use serde::Serialize;
use url::Url;
use utoipa::ToSchema;

use super::Channels;
use super::adapters::webhook_url;
use crate::channels::error::ChannelError;
use crate::channels::model::{ChannelMode, ChannelSettings};
use crate::channels::store;

/// Status of a platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChannelStatus {
    /// The channel is disabled.
    Off,
    /// Enabled; the last delivery did not fail.
    Ready,
    /// Receives messages over a connection of a daemon that uses the same database.
    Connected,
    /// The last delivery failed or there is no connection; see `last_error`.
    Error,
}

/// Platform with its status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelSummary {
    pub platform: Platform,
    pub enabled: bool,
    pub mode: ChannelMode,
    pub agent_id: Option<String>,
    pub status: ChannelStatus,
    pub webhook_url: String,
    pub last_received_at: Option<Timestamp>,
    pub last_error: Option<String>,
}

const GREETING: &str = "Hello from agentd: this channel works.";

impl Channels {
    /// Returns the webhook URL of a platform.
    #[must_use]
    pub fn webhook_url(&self, platform: Platform) -> String {
        webhook_url(&self.0.dependencies.base_url, platform)
    }

    /// Returns all platforms.
    ///
    /// # Errors
    /// The database fails.
    pub async fn list(&self) -> Result<Vec<ChannelSummary>, ChannelError> {
        let settings = self.0.dependencies.settings.get::<ChannelSettings>().await?;
        let mut read = self.0.context.db.read().await?;
        let mut states = store::list_states(&mut read).await?;
        let connected = store::list_connected(&mut read, self.0.context.clock.now()).await?;
        drop(read);
        let summary = |platform: Platform| {
            let (rules, state) = (settings.rules(platform), states.remove(&platform).unwrap_or_default());
            let is_connected = rules.mode == ChannelMode::Connect && connected.contains(&platform);
            let status = match (rules.enabled, &state.last_error) {
                (false, _) => ChannelStatus::Off,
                (true, Some(_)) => ChannelStatus::Error,
                (true, None) if is_connected => ChannelStatus::Connected,
                (true, None) => ChannelStatus::Ready,
            };
            ChannelSummary {
                platform,
                enabled: rules.enabled,
                mode: rules.mode,
                agent_id: rules.agent_id,
                status,
                webhook_url: self.webhook_url(platform),
                last_received_at: state.last_received_at,
                last_error: state.last_error,
            }
        };
        Ok(Platform::ALL.into_iter().map(summary).collect())
    }

    /// Sends a greeting immediately and returns the platform's response.
    ///
    /// # Errors
    /// `Off`, `Invalid` for an invalid channel id, `Send` with the platform's reason, or the database fails.
    pub async fn test(&self, platform: Platform, to: &str) -> Result<Sent, ChannelError> {
        self.0.dependencies.settings.refresh().await?;
        let channel = self.channel(platform).await?.ok_or(ChannelError::Off)?;
        let address = channel.adapter.address(to).map_err(|problem| ChannelError::invalid("channel", problem))?;
        let text = channel.adapter.render(GREETING).into_iter().next().unwrap_or_default();
        let sent = channel.adapter.send(&address, &Outgoing::text(text)).await;
        self.record_outcome(&channel, sent.as_ref().err().map(ToString::to_string)).await;
        Ok(sent?)
    }

    /// Checks the credentials with the platform.
    ///
    /// # Errors
    /// `Off`, or `Send` with the platform's reason.
    pub async fn check(&self, platform: Platform) -> Result<Account, ChannelError> {
        self.0.dependencies.settings.refresh().await?;
        let channel = self.channel(platform).await?.ok_or(ChannelError::Off)?;
        Ok(channel.adapter.check().await?)
    }

    /// Registers the webhook URL or the bot commands with the platform; returns what was registered.
    ///
    /// # Errors
    /// `Off`, or `Send` with the platform's reason.
    pub async fn register(&self, platform: Platform) -> Result<String, ChannelError> {
        self.0.dependencies.settings.refresh().await?;
        let channel = self.channel(platform).await?.ok_or(ChannelError::Off)?;
        let url = Url::parse(&self.webhook_url(platform))
            .map_err(|_| SendError::NotSetUp("the public URL of the daemon is unknown; set SVC_BASE_URL".to_owned()))?;
        Ok(channel.adapter.register(&url).await?)
    }
}
