//! Bodies of responses, which Chromium is asked for.

use serde::Deserialize;
use serde_json::json;

use crate::cdp::{Connection, SessionId};
use crate::network::events::RequestId;
use crate::shared::QUICK;

pub(super) const MAX_BODY_BYTES: usize = 1 << 20;

/// A body that Chromium is to be asked for.
#[derive(Debug)]
pub(crate) struct WantedBody {
    pub(crate) session: SessionId,
    pub(crate) request_id: RequestId,
    pub(super) entry: usize,
}

/// A body, or why there is none.
#[derive(Debug)]
pub(crate) enum Body {
    Text(String),
    Base64(String),
    LeftOut(String),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    body: String,
    base64_encoded: bool,
}

impl WantedBody {
    pub(crate) async fn fetch(&self, connection: &Connection) -> Body {
        let parameters = json!({"requestId": self.request_id});
        let answer = connection.call::<Answer>(Some(&self.session), "Network.getResponseBody", parameters, QUICK).await;
        match answer {
            Ok(Answer { body, base64_encoded: false }) => Body::Text(body),
            Ok(Answer { body, base64_encoded: true }) => Body::Base64(body),
            Err(_) => Body::LeftOut("left out: the browser does not have it any more".to_owned()),
        }
    }
}
