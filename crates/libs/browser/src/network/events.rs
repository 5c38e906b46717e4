//! Events of the `Network` domain, reduced to the fields in use.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;

pub(super) type RequestId = Arc<str>;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WillBeSent<'a> {
    pub(super) request_id: RequestId,
    #[serde(borrow)]
    pub(super) request: Request<'a>,
    /// Monotonic time in seconds.
    pub(super) timestamp: f64,
    /// Seconds since the Unix epoch.
    pub(super) wall_time: f64,
    #[serde(borrow, default, rename = "type")]
    pub(super) kind: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) redirect_response: Option<Response<'a>>,
}

#[derive(Deserialize)]
pub(super) struct Request<'a> {
    #[serde(borrow)]
    pub(super) url: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) method: Cow<'a, str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Response<'a> {
    #[serde(borrow, default)]
    pub(super) url: Cow<'a, str>,
    pub(super) status: i64,
    #[serde(borrow, default)]
    pub(super) mime_type: Cow<'a, str>,
    #[serde(default)]
    pub(super) encoded_data_length: f64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Received<'a> {
    pub(super) request_id: RequestId,
    pub(super) timestamp: f64,
    #[serde(borrow)]
    pub(super) response: Response<'a>,
    #[serde(borrow, default, rename = "type")]
    pub(super) kind: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Finished {
    pub(super) request_id: RequestId,
    pub(super) timestamp: f64,
    #[serde(default)]
    pub(super) encoded_data_length: f64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Failed<'a> {
    pub(super) request_id: RequestId,
    pub(super) timestamp: f64,
    #[serde(borrow, default)]
    pub(super) error_text: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) blocked_reason: Option<Cow<'a, str>>,
}

impl Failed<'_> {
    pub(super) fn reason(&self) -> String {
        let reason = self.blocked_reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
        super::truncate(&format!("{}{reason}", self.error_text), 200)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SocketCreated<'a> {
    pub(super) request_id: RequestId,
    #[serde(borrow)]
    pub(super) url: Cow<'a, str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SocketHandshake {
    pub(super) request_id: RequestId,
    pub(super) timestamp: f64,
    pub(super) wall_time: f64,
    #[serde(default)]
    pub(super) request: SocketHeaders,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SocketAnswered {
    pub(super) request_id: RequestId,
    pub(super) timestamp: f64,
    pub(super) response: SocketHeaders,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
pub(super) struct SocketHeaders {
    #[serde(default)]
    pub(super) status: i64,
    #[serde(default)]
    pub(super) status_text: String,
    #[serde(default)]
    pub(super) headers: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SocketMessage {
    pub(super) request_id: RequestId,
    pub(super) timestamp: f64,
    pub(super) response: SocketData,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SocketData {
    pub(super) opcode: f64,
    /// Text, or base64 for a binary message.
    pub(super) payload_data: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SocketEnded<'a> {
    pub(super) request_id: RequestId,
    pub(super) timestamp: f64,
    #[serde(borrow, default)]
    pub(super) error_message: Cow<'a, str>,
}

/// Converts a protocol number to a byte count.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "negative and huge ones saturate")]
pub(super) fn bytes(number: f64) -> u64 {
    number as u64
}

/// Converts wall time in seconds to a timestamp.
pub(super) fn time(wall_seconds: f64) -> agentd_base::Timestamp {
    #[allow(clippy::cast_possible_truncation, reason = "saturates")]
    agentd_base::Timestamp::from_micros((wall_seconds * 1e6) as i64)
}

pub(super) fn status(number: i64) -> Option<u16> {
    u16::try_from(number).ok().filter(|status| *status > 0)
}

/// Whether a URL causes a request. Chromium also reports `data:` URLs, which do not.
pub(super) fn is_sent(url: &str) -> bool {
    !url.starts_with("data:")
}
