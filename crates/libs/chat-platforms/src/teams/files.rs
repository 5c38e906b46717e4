//! File downloads (<https://learn.microsoft.com/microsoftteams/platform/bots/how-to/bots-filesv4>). Uploads are in the
//! user's OneDrive under a pre-authorized URL; pictures are at the connector.

use serde_json::{Value, json};
use url::Url;

use super::Teams;
use crate::files::{IncomingFile, at, is_host_or_subdomain};
use crate::message::FileSource;
use crate::outgoing::SendError;

/// Connector host that the token is valid for.
const CONNECTOR: [&str; 1] = ["smba.trafficmanager.net"];

/// Returns the source of an attachment. `service_url` is the verified service URL of the activity.
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

    /// Whether the token may be sent to this URL.
    fn is_connectors(&self, url: &Url, source: &FileSource) -> bool {
        let is_of_service = || {
            let service = source.0["service_url"].as_str().and_then(|service| Url::parse(service).ok());
            service.is_some_and(|service| service.origin() == url.origin())
        };
        self.files.has_api_origin(url) || is_host_or_subdomain(url, &CONNECTOR) || is_of_service()
    }
}
