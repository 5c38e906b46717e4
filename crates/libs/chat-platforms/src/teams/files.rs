//! Fetching files (<https://learn.microsoft.com/microsoftteams/platform/bots/how-to/bots-filesv4>). What was uploaded lies
//! in the person's OneDrive, under an address that opens it without a token; pictures lie with the connector.

use serde_json::{Value, json};
use url::Url;

use super::Teams;
use crate::files::{IncomingFile, at, is_below};
use crate::message::FileSource;
use crate::outgoing::SendError;

/// The connector, which the token is for.
const CONNECTOR: [&str; 1] = ["smba.trafficmanager.net"];

/// Where a file of an activity is. `service_url`: of the activity, verified.
pub(super) fn source(attachment: &Value, service_url: &Value) -> Option<FileSource> {
    let mut source = at(&attachment["content"]["downloadUrl"]).or_else(|| at(&attachment["contentUrl"]))?;
    source.0["service_url"] = json!(service_url);
    Some(source)
}

impl Teams {
    pub(super) async fn open_attachment(&self, source: &FileSource) -> Result<IncomingFile, SendError> {
        let url = self.files.url(source)?;
        if !self.is_connectors(&url, source) {
            return self.files.open(url, None).await;
        }
        self.credentials()?;
        self.token.open(&self.files, &self.clock, &url, || self.fetch_token()).await
    }

    /// Whether the token may go there.
    fn is_connectors(&self, url: &Url, source: &FileSource) -> bool {
        let is_of_service = || {
            let service = source.0["service_url"].as_str().and_then(|service| Url::parse(service).ok());
            service.is_some_and(|service| service.origin() == url.origin())
        };
        self.files.is_owners(url) || is_below(url, &CONNECTOR) || is_of_service()
    }
}
