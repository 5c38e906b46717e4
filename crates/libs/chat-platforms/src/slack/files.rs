//! File downloads (<https://docs.slack.dev/reference/objects/file-object>). Without access, Slack returns a sign-in
//! page instead of an error.

use serde_json::{Value, json};

use super::Slack;
use crate::files::{IncomingFile, at};
use crate::incoming_text::{name, some_name};
use crate::message::{Attachment, FileSource};
use crate::outgoing::SendError;

const HOSTS: [&str; 1] = ["slack.com"];

/// Returns the source of a file; `None` for files of other workspaces, of which Slack reports only the ID.
fn source(file: &Value) -> Option<FileSource> {
    let mut source = at(&file["url_private_download"]).or_else(|| at(&file["url_private"]))?;
    source.0["is_html"] = json!(file["mimetype"] == "text/html");
    Some(source)
}

pub(super) fn attachment(file: &Value) -> Attachment {
    Attachment {
        name: name(&file["name"]),
        media_type: some_name(&file["mimetype"]),
        bytes: file["size"].as_u64(),
        source: source(file),
    }
}

impl Slack {
    pub(super) async fn open_attachment(&self, source: &FileSource) -> Result<IncomingFile, SendError> {
        let url = self.files.url_of(source, &HOSTS)?;
        let file = self.files.open(url.clone(), Some(("Bearer", self.bot_token()?))).await?;
        if file.is_html() && (source.0["is_html"] != true || file.url().path() != url.path()) {
            return Err(SendError::Credentials(
                "Slack denied the app access to the file; add the scope files:read to the app and reinstall it"
                    .to_owned(),
            ));
        }
        Ok(file)
    }
}
