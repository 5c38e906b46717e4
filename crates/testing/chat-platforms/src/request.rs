//! Access to parts of a request that tests need.

use agentd_chat_platforms::WebhookRequest;
use serde_json::Value;

/// Reads a [`WebhookRequest`].
pub trait RequestExt {
    /// Returns the body as JSON, or `null` if it is not JSON.
    fn body_as_json(&self) -> Value;
}

impl RequestExt for WebhookRequest {
    fn body_as_json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}
