//! The settings of the platforms, and what is valid in them.

mod platforms;
mod rules;

pub use platforms::{
    ChannelSettings, DiscordSettings, GoogleChatSettings, SlackSettings, TeamsSettings, TelegramSettings,
    WhatsappSettings,
};
pub use rules::{ChannelRules, Platform, SenderPolicy};

pub(super) use platforms::ChannelPatch;
