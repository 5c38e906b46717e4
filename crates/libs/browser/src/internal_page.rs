//! Internal page without network access: every request is answered here with an empty document.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::BrowserError;
use crate::browser::Context;
use crate::cdp::{Delivery, Subscription};
use crate::shared::COMMAND_TIMEOUT;
use crate::tab::{Deadline, LoadState, Tab};

const DOCUMENT: &[u8] = b"<!doctype html><title></title>";
const CONTENT_TYPE: (&str, &str) = ("content-type", "text/html; charset=utf-8");

/// Response headers of an internal page.
pub(crate) type Headers = &'static [(&'static str, &'static str)];

/// Tab whose requests never leave this process. Only scripts of this crate run in it.
#[derive(Debug)]
pub(crate) struct InternalPage {
    pub(crate) tab: Arc<Tab>,
    /// Task that answers requests until the page is dropped.
    _answers: JoinSet<()>,
}

/// Outcome of a script evaluation.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Evaluated {
    pub(crate) result: RemoteValue,
    #[serde(default)]
    pub(crate) exception_details: Option<IgnoredAny>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RemoteValue {
    #[serde(default)]
    pub(crate) value: Value,
    #[serde(default)]
    pub(crate) object_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Paused {
    request_id: String,
}

impl InternalPage {
    /// Opens a blank tab. Documents in it have these headers in addition to their content type.
    pub(crate) async fn open(context: &Context, headers: Headers) -> Result<Self, BrowserError> {
        let tab = context.open_internal_tab().await?;
        let events = context.shared().connection.subscribe(Some(tab.main_session()), &["Fetch.requestPaused"], 64);
        if let Err(error) = intercept_requests(&tab).await {
            // Fails if the browser has ended.
            let _ = context.close_and_wait(&tab).await;
            return Err(error);
        }
        let mut answers = JoinSet::new();
        answers.spawn(answer_requests(Arc::clone(&tab), events, headers));
        Ok(Self { tab, _answers: answers })
    }

    pub(crate) async fn visit(&self, url: &str, deadline: Deadline) -> Result<(), BrowserError> {
        self.tab.goto(url, LoadState::DomContentLoaded, deadline).await
    }

    /// Evaluates a script or calls a function in the page; `parameters` are those of the protocol method.
    pub(crate) async fn run(
        &self,
        method: &'static str,
        parameters: impl Serialize,
        limit: Duration,
    ) -> Result<Evaluated, BrowserError> {
        self.tab.call(method, parameters, limit).await
    }
}

async fn intercept_requests(tab: &Tab) -> Result<(), BrowserError> {
    let bypass = json!({"bypass": true});
    tab.call::<IgnoredAny>("Network.setBypassServiceWorker", bypass, COMMAND_TIMEOUT).await?;
    let everything = json!({"patterns": [{"urlPattern": "*"}]});
    tab.call::<IgnoredAny>("Fetch.enable", everything, COMMAND_TIMEOUT).await?;
    Ok(())
}

async fn answer_requests(tab: Arc<Tab>, mut events: Subscription, headers: Headers) {
    let headers = headers.iter().chain([&CONTENT_TYPE]);
    let headers: Vec<Value> = headers.map(|(name, value)| json!({"name": name, "value": value})).collect();
    while let Some(delivery) = events.next().await {
        let Delivery::Event(event) = delivery else { continue };
        let Some(Paused { request_id }) = event.read() else { continue };
        let parameters = json!({
            "requestId": request_id,
            "responseCode": 200,
            "responseHeaders": headers,
            "body": STANDARD.encode(DOCUMENT),
        });
        // Fails if the page is gone.
        if let Err(error) = tab.call::<IgnoredAny>("Fetch.fulfillRequest", parameters, COMMAND_TIMEOUT).await {
            tracing::debug!(%error, "failed to answer request of internal page");
        }
    }
}
