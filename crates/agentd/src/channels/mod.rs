//! Chat platforms: for now, what is set for each of them.
//!
//! Invariants
//! - Settings of all platforms are one section of the settings, `channels`; a change names any fields
//!   of any platforms, and is taken whole or not at all.
//! - Credentials are write-only: they are kept in the vault under their path
//!   (`discord.bot_token`) and read back as whether they are set.
//! - A stranger is met with a pairing code unless the owner decided otherwise.
//!
//! Deliberately absent: whether the agent of a channel exists, and whether a platform takes its
//! credentials. Agents come and go, and an import may name one that is made later; whoever
//! receives a message finds out and says so.

mod model;
mod routes;

pub use model::{
    ChannelRules, ChannelSettings, DiscordSettings, GoogleChatSettings, Platform, SenderPolicy, SlackSettings,
    TeamsSettings, TelegramSettings, WhatsappSettings,
};
pub use routes::routes;
