//! Response bodies, requested from Chromium.

use serde::Deserialize;
use serde_json::json;

use crate::cdp::{Connection, SessionId};
use crate::network::events::RequestId;
use crate::shared::COMMAND_TIMEOUT;

pub(super) const MAX_BODY_BYTES: usize = 1 << 20;

/// Response body to request from Chromium.
#[derive(Debug)]
pub(crate) struct BodyRequest {
    pub(crate) session: SessionId,
    pub(crate) request_id: RequestId,
    pub(super) entry: usize,
}

/// Response body, or the reason why it is missing.
#[derive(Debug)]
pub(crate) enum Body {
    Text(String),
    Base64(String),
    Omitted(String),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResponseBody {
    body: String,
    base64_encoded: bool,
}

impl BodyRequest {
    pub(crate) async fn fetch(&self, connection: &Connection) -> Body {
        let parameters = json!({"requestId": self.request_id});
        let answer = connection
            .call::<ResponseBody>(Some(&self.session), "Network.getResponseBody", parameters, COMMAND_TIMEOUT)
            .await;
        match answer {
            Ok(ResponseBody { body, base64_encoded: false }) => Body::Text(body),
            Ok(ResponseBody { body, base64_encoded: true }) => Body::Base64(body),
            Err(_) => Body::Omitted("omitted: the body is no longer available in the browser".to_owned()),
        }
    }
}
