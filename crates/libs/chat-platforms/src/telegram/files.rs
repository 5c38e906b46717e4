//! File downloads (<https://core.telegram.org/bots/api#getfile>). The URL contains the token, which is never forwarded
//! to a redirect target.

use serde_json::{Value, json};

use super::Telegram;
use super::api::TIME_LIMIT;
use crate::files::{IncomingFile, segments};
use crate::incoming_text::id;
use crate::message::FileSource;
use crate::outgoing::SendError;

/// Returns the source of a file.
pub(super) fn source(file: &Value) -> Option<FileSource> {
    Some(FileSource(json!({"file_id": id(&file["file_id"])?})))
}

impl Telegram {
    pub(super) async fn open_attachment(&self, source: &FileSource) -> Result<IncomingFile, SendError> {
        let file = self.call("getFile", &json!({"file_id": source.0["file_id"]}), TIME_LIMIT).await?;
        let path = file["file_path"].as_str().and_then(segments);
        let path = path.ok_or_else(|| SendError::Refused("Telegram returned no path for the file".to_owned()))?;
        self.files.open(self.url(&["file"], &path)?, None).await
    }
}
