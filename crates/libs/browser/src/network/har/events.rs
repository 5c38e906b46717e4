//! Events of the `Network` domain with the additional fields of a HAR.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;

use super::RequestId;

pub(super) type HeaderMap = BTreeMap<String, String>;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WillBeSent {
    pub(super) request_id: RequestId,
    pub(super) request: Request,
    pub(super) timestamp: f64,
    pub(super) wall_time: f64,
    #[serde(default, rename = "type")]
    pub(super) kind: Option<String>,
    #[serde(default)]
    pub(super) redirect_response: Option<Response>,
    #[serde(default)]
    pub(super) redirect_has_extra_info: bool,
    #[serde(default)]
    pub(super) loader_id: Option<RequestId>,
    #[serde(default)]
    pub(super) frame_id: Option<Arc<str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Request {
    pub(super) url: String,
    pub(super) method: String,
    #[serde(default)]
    pub(super) headers: HeaderMap,
    #[serde(default)]
    pub(super) post_data: Option<String>,
    #[serde(default)]
    pub(super) has_post_data: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Received {
    pub(super) request_id: RequestId,
    pub(super) timestamp: f64,
    pub(super) response: Response,
    #[serde(default)]
    pub(super) has_extra_info: bool,
    #[serde(default, rename = "type")]
    pub(super) kind: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Response {
    #[serde(default)]
    pub(super) url: String,
    pub(super) status: i64,
    #[serde(default)]
    pub(super) status_text: String,
    #[serde(default)]
    pub(super) headers: HeaderMap,
    #[serde(default)]
    pub(super) mime_type: String,
    #[serde(default, rename = "remoteIPAddress")]
    pub(super) remote_ip_address: Option<String>,
    #[serde(default)]
    pub(super) protocol: Option<String>,
    #[serde(default)]
    pub(super) encoded_data_length: f64,
    #[serde(default)]
    pub(super) timing: Option<Timing>,
    /// Whether variable-length fields were dropped because of the size limit.
    #[serde(skip)]
    pub(super) is_stripped: bool,
}

impl Response {
    /// Size of the fields whose length the server controls.
    pub(super) fn bytes(&self) -> usize {
        bytes_of(&self.headers) + self.status_text.len() + self.mime_type.len()
    }

    pub(super) fn stripped(self) -> Self {
        let (headers, status_text, mime_type) = Default::default();
        Self { headers, status_text, mime_type, is_stripped: true, ..self }
    }

    pub(super) fn from_socket(status: i64, status_text: String, headers: HeaderMap) -> Self {
        Self { status, status_text, headers, ..Self::default() }
    }
}

/// Milliseconds since `request_time`, which is in seconds; -1 for phases that did not occur.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Timing {
    pub(super) request_time: f64,
    pub(super) dns_start: f64,
    pub(super) dns_end: f64,
    pub(super) connect_start: f64,
    pub(super) connect_end: f64,
    pub(super) ssl_start: f64,
    pub(super) ssl_end: f64,
    pub(super) send_start: f64,
    pub(super) send_end: f64,
    pub(super) receive_headers_end: f64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ExtraSent {
    pub(super) request_id: RequestId,
    pub(super) headers: HeaderMap,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ExtraReceived {
    pub(super) request_id: RequestId,
    pub(super) headers: HeaderMap,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DataReceived {
    pub(super) request_id: RequestId,
    pub(super) data_length: u64,
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
pub(super) struct Lifecycle<'a> {
    #[serde(borrow)]
    pub(super) loader_id: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) name: Cow<'a, str>,
    pub(super) timestamp: f64,
}

pub(super) fn bytes_of(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.len() + value.len()).sum()
}
