//! Settings, messages, pairings and approvals of channels.

mod approval;
mod attachments;
mod message;
mod pairing;
mod settings;

pub use pairing::{ApprovedSender, ApprovedSenders, Pairing};
pub use settings::{
    ChannelMode, ChannelRules, ChannelSettings, DiscordSettings, GoogleChatSettings, GroupPolicy, SenderPolicy,
    SlackSettings, TeamsSettings, TelegramSettings, WhatsappSettings,
};

pub(super) use approval::{ApprovalCode, ChatApproval, parse_button, parse_decision};
pub(super) use attachments::{FetchedFile, MAX_FILE_BYTES, MAX_FILES};
pub(super) use message::{
    ALBUM_PAUSE, ChannelMessage, ChannelMessageId, Command, FinalStatus, LIMITS, MAX_ALBUM_PARTS, MAX_ALBUM_WAIT,
    MESSAGE_RETENTION, MessageDetails, QUEUE,
};
pub(super) use pairing::{CODE_LIFETIME, EVICTION_LIMITS, MAX_OPEN_CODES, PAIRING_LIMIT_NOTICE_INTERVAL, new_code};
pub(super) use settings::ChannelPatch;
