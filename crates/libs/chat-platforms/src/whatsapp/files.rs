//! Media downloads (<https://developers.facebook.com/docs/whatsapp/cloud-api/reference/media>). The URL of a media ID
//! is valid for five minutes, so it is requested each time. The token is sent only to hosts of Meta.

use http::Method;
use serde_json::{Value, json};

use super::Whatsapp;
use crate::files::{IncomingFile, at};
use crate::incoming_text::id;
use crate::message::FileSource;
use crate::outgoing::SendError;

const HOSTS: [&str; 2] = ["fbsbx.com", "facebook.com"];

/// Returns the source of a file.
pub(super) fn source(content: &Value) -> Option<FileSource> {
    Some(FileSource(json!({"media_id": id(&content["id"])?})))
}

impl Whatsapp {
    pub(super) async fn open_attachment(&self, source: &FileSource) -> Result<IncomingFile, SendError> {
        let unknown = || SendError::Refused("WhatsApp returned no URL for the file".to_owned());
        let media_id = source.0["media_id"].as_str().ok_or_else(unknown)?;
        let query = Some(("phone_number_id", self.number()?));
        let media = self.call(Method::GET, &[media_id], query, None).await?;
        let url = self.files.url_of(&at(&media["url"]).ok_or_else(unknown)?, &HOSTS)?;
        self.files.open(url, Some(("Bearer", self.token()?))).await
    }
}
