//! File downloads (<https://docs.discord.com/developers/resources/message#attachment-object>). URLs are signed and
//! expire after a day; the bot token is never sent to them.

use serde_json::Value;

use super::Discord;
use crate::files::{IncomingFile, at};
use crate::incoming_text::{name, some_name};
use crate::message::{Attachment, FileSource};
use crate::outgoing::SendError;

const HOSTS: [&str; 2] = ["cdn.discordapp.com", "media.discordapp.net"];

pub(super) fn attachment(file: &Value) -> Attachment {
    Attachment {
        name: name(&file["filename"]),
        media_type: some_name(&file["content_type"]),
        bytes: file["size"].as_u64(),
        source: at(&file["url"]),
    }
}

impl Discord {
    pub(super) async fn open_attachment(&self, source: &FileSource) -> Result<IncomingFile, SendError> {
        self.files.open(self.files.url_of(source, &HOSTS)?, None).await
    }
}
