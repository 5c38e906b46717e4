//! Messages of the DevTools protocol.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Session ID of an attached target.
pub(crate) type SessionId = Arc<str>;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Outgoing<'a, P> {
    pub(crate) id: u64,
    pub(crate) method: &'a str,
    pub(crate) params: P,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) session_id: Option<&'a str>,
}

/// Response or event; a response has an `id`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Incoming<'a> {
    pub(crate) id: Option<u64>,
    #[serde(borrow)]
    pub(crate) method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(crate) params: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) result: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) error: Option<Refusal<'a>>,
    #[serde(borrow)]
    pub(crate) session_id: Option<Cow<'a, str>>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Refusal<'a> {
    #[serde(borrow)]
    pub(crate) message: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(crate) data: Option<Cow<'a, str>>,
}

/// Protocol event. Its parameters are parsed by the handler of the method.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) session: Option<SessionId>,
    pub(crate) method: Arc<str>,
    params: Arc<RawValue>,
}

impl Event {
    pub(crate) fn new(session: Option<&str>, method: &str, params: Option<&RawValue>) -> Self {
        let params = params.unwrap_or(RawValue::NULL).to_owned();
        Self { session: session.map(Arc::from), method: method.into(), params: params.into() }
    }

    /// Parses the parameters. Logs and returns `None` if they do not have the expected form.
    pub(crate) fn read<'a, P: Deserialize<'a>>(&'a self) -> Option<P> {
        serde_json::from_str(self.params.get())
            .inspect_err(|error| tracing::warn!(method = %self.method, %error, "failed to parse Chromium event"))
            .ok()
    }
}
