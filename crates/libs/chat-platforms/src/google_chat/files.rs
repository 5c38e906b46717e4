//! Downloads of uploaded files (<https://developers.google.com/workspace/chat/api/reference/rest/v1/media/download>).

use serde_json::{Value, json};

use super::GoogleChat;
use super::send::BASE;
use crate::api::{base_url, join};
use crate::files::{IncomingFile, segments};
use crate::incoming_text::{name, some_name};
use crate::message::{Attachment, FileSource};
use crate::outgoing::SendError;

const MAX_NAME: usize = 2_048;

/// Returns the source of an attachment.
fn source(attachment: &Value) -> Option<FileSource> {
    let name = attachment["attachmentDataRef"]["resourceName"].as_str();
    let name = name.filter(|name| name.len() <= MAX_NAME && !name.contains(char::is_control))?;
    Some(FileSource(json!({"resource_name": name})))
}

pub(super) fn attachment(attachment: &Value) -> Attachment {
    Attachment {
        name: name(&attachment["contentName"]),
        media_type: some_name(&attachment["contentType"]),
        bytes: None,
        source: source(attachment),
    }
}

impl GoogleChat {
    pub(super) async fn open_attachment(&self, source: &FileSource) -> Result<IncomingFile, SendError> {
        self.service_account()?;
        let name = source.0["resource_name"].as_str().and_then(segments);
        let name =
            name.ok_or_else(|| SendError::Refused("Google Chat returned no resource name for the file".to_owned()))?;
        let base = base_url(self.api_base_url.as_ref(), BASE)?;
        let mut url = join(&base, &[&["v1", "media"], &name[..]].concat());
        url.query_pairs_mut().append_pair("alt", "media");
        self.token.open(&self.files, &self.clock, &url, || self.fetch_token()).await
    }
}
