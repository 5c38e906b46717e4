//! Navigation, and waiting for loads.

use std::time::Duration;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;
use tokio::time::Instant;
use url::Url;

use super::state::TabState;
use super::{Deadline, LoadState, Tab};
use crate::shared::COMMAND_TIMEOUT;
use crate::{BrowserError, address};

/// Maximum URL length; Chromium's own limit is 2 MiB.
const MAX_URL_BYTES: usize = 64 << 10;
/// Time limit for an error page, which the browser creates locally.
const ERROR_PAGE_LIMIT: Duration = Duration::from_secs(1);
/// Maximum time for a tab to leave a refused address.
const REMOVAL_LIMIT: Duration = Duration::from_secs(5);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Navigated {
    #[serde(default)]
    loader_id: Option<String>,
    #[serde(default)]
    error_text: Option<String>,
    #[serde(default)]
    is_download: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct History {
    current_index: i64,
    entries: Vec<HistoryEntry>,
}

#[derive(Deserialize)]
struct HistoryEntry {
    id: i64,
    #[serde(default)]
    url: String,
}

/// Parses a URL and checks that it may be opened.
pub(crate) fn parse_openable_url(url: &str) -> Result<Url, BrowserError> {
    if url.len() > MAX_URL_BYTES {
        return Err(BrowserError::Invalid(format!("the URL exceeds {MAX_URL_BYTES} bytes")));
    }
    let parsed =
        Url::parse(url).map_err(|error| BrowserError::Invalid(format!("`{url}` is not a valid URL: {error}")))?;
    if address::is_openable(&parsed) {
        return Ok(parsed);
    }
    let scheme = parsed.scheme();
    Err(BrowserError::Invalid(format!("`{scheme}:` URLs are not permitted; permitted are {}", address::PERMITTED)))
}

impl Tab {
    pub(crate) async fn goto(
        &self,
        url: &str,
        target_state: LoadState,
        deadline: Deadline,
    ) -> Result<(), BrowserError> {
        let url = parse_openable_url(url)?;
        self.leave_refused_address(deadline).await;
        if self.state.borrow().is_crashed {
            // The next document gets a new process.
            self.state.send_modify(|state| state.is_crashed = false);
        }
        let parameters = json!({"url": url.as_str()});
        let before = self.state.borrow().navigations;
        let navigated = match self.call::<Navigated>("Page.navigate", parameters, deadline.remaining()).await {
            Err(BrowserError::Timeout { .. }) => {
                self.stop_loading().await;
                return Err(deadline.timeout(format!("a response from {}", display_origin(&url))));
            }
            other => other?,
        };
        if let Some(error) = navigated.error_text.filter(|_| !navigated.is_download) {
            let failed_url = self.failed_url(before, deadline).await.unwrap_or_else(|| url.to_string());
            return Err(BrowserError::Navigation { url: display_origin(&url), failed_url, reason: reason(&error) });
        }
        match navigated.loader_id {
            // A same-document navigation or a download loads nothing.
            None => Ok(()),
            Some(_) if navigated.is_download => Ok(()),
            Some(loader) => self.wait_for_load(Some(&loader), target_state, deadline).await,
        }
    }

    /// Waits until the tab has left a refused address. If it stays, the next operation fails.
    async fn leave_refused_address(&self, deadline: Deadline) {
        let mut state = self.state.subscribe();
        let has_left = state.wait_for(|state| state.refused_address().is_none() || state.ended.is_some());
        let _ = tokio::time::timeout(REMOVAL_LIMIT.min(deadline.remaining()), has_left).await;
    }

    /// Returns the URL of the error page of a failed navigation; after redirects, the last one.
    async fn failed_url(&self, before: u64, deadline: Deadline) -> Option<String> {
        let limit = ERROR_PAGE_LIMIT.min(deadline.remaining());
        let has_arrived = |state: &TabState| (state.navigations != before).then(|| state.url().to_owned());
        self.wait_until(Deadline::after(limit), "the error page", has_arrived).await.ok()
    }

    /// Moves by `steps` in the history.
    pub(crate) async fn go(&self, steps: i64, target_state: LoadState, deadline: Deadline) -> Result<(), BrowserError> {
        let history: History = self.call("Page.getNavigationHistory", json!({}), COMMAND_TIMEOUT).await?;
        let entry = usize::try_from(history.current_index + steps).ok().and_then(|index| history.entries.get(index));
        let Some(entry) = entry else {
            let direction = if steps < 0 { "before" } else { "after" };
            return Err(BrowserError::Invalid(format!("the history has no page {direction} this one")));
        };
        if !address::is_permitted(&entry.url) {
            return Err(address::refused(&entry.url));
        }
        let before = self.state.borrow().navigations;
        self.call::<IgnoredAny>("Page.navigateToHistoryEntry", json!({"entryId": entry.id}), COMMAND_TIMEOUT).await?;
        self.wait_until(deadline, "the page from the history", |state| (state.navigations != before).then_some(()))
            .await?;
        self.wait_for_load(None, target_state, deadline).await
    }

    pub(crate) async fn reload(&self, target_state: LoadState, deadline: Deadline) -> Result<(), BrowserError> {
        let before = self.state.borrow().loader.clone();
        self.call::<IgnoredAny>("Page.reload", json!({}), deadline.remaining()).await?;
        self.wait_until(deadline, "the page to reload", |state| (state.loader != before).then_some(())).await?;
        self.wait_for_load(None, target_state, deadline).await
    }

    /// Waits for a document to load, or for one that replaced it (by a script redirect).
    pub(crate) async fn wait_for_load(
        &self,
        loader: Option<&str>,
        target_state: LoadState,
        deadline: Deadline,
    ) -> Result<(), BrowserError> {
        let before = self.state.borrow().loader.clone();
        let what = match target_state {
            LoadState::Load => "the page to load",
            LoadState::DomContentLoaded => "the document of the page",
            LoadState::NetworkIdle => "the network to become idle",
        };
        self.wait_until(deadline, what, |state| {
            let is_meant = loader.is_none_or(|loader| state.loader == loader || state.loader != before);
            (is_meant && state.reached.contains(&target_state)).then_some(())
        })
        .await
    }

    /// Waits for a current or future navigation; with `pattern`, for a URL that contains it.
    pub(crate) async fn wait_for_navigation(
        &self,
        pattern: Option<&str>,
        deadline: Deadline,
    ) -> Result<(), BrowserError> {
        let before = self.state.borrow().navigations;
        match pattern {
            Some(pattern) => {
                let what = format!("a page whose URL contains `{pattern}`");
                self.wait_until(deadline, &what, |state| state.url().contains(pattern).then_some(())).await?;
            }
            None => {
                self.wait_until(deadline, "a navigation", |state| (state.navigations != before).then_some(())).await?;
            }
        }
        self.wait_for_load(None, LoadState::Load, deadline).await
    }

    /// Waits until no request has been in progress for `idle`.
    pub(crate) async fn wait_for_network_idle(&self, idle: Duration, deadline: Deadline) -> Result<(), BrowserError> {
        loop {
            let what = "the network to become idle";
            let since =
                self.wait_until(deadline, what, |state| state.requests.is_empty().then_some(state.quiet_since)).await?;
            let due = since + idle;
            if due <= Instant::now() {
                return Ok(());
            }
            if due - Instant::now() > deadline.remaining() {
                tokio::time::sleep(deadline.remaining()).await;
                return Err(deadline.timeout(what));
            }
            tokio::time::sleep_until(due).await;
        }
    }

    pub(crate) async fn stop_loading(&self) {
        // Best effort, to save work.
        let _ = self.call::<IgnoredAny>("Page.stopLoading", json!({}), COMMAND_TIMEOUT).await;
    }
}

/// Formats a URL for a message, without parts that may be secret.
fn display_origin(url: &Url) -> String {
    match url.host_str() {
        Some(host) => {
            format!("{}://{host}{}", url.scheme(), url.port().map(|port| format!(":{port}")).unwrap_or_default())
        }
        None => format!("{}:", url.scheme()),
    }
}

/// Translates Chromium's network error names to sentences.
fn reason(error: &str) -> String {
    let sentence = match error {
        "net::ERR_NAME_NOT_RESOLVED" => "the host name could not be resolved",
        "net::ERR_CONNECTION_REFUSED" => "the server refused the connection",
        "net::ERR_CONNECTION_RESET" | "net::ERR_CONNECTION_CLOSED" | "net::ERR_SOCKET_NOT_CONNECTED" => {
            "the server closed the connection"
        }
        "net::ERR_EMPTY_RESPONSE" => "the server sent an empty response",
        "net::ERR_CONNECTION_TIMED_OUT" | "net::ERR_TIMED_OUT" => "the server did not answer in time",
        "net::ERR_ADDRESS_UNREACHABLE" | "net::ERR_INTERNET_DISCONNECTED" => "the address is unreachable",
        "net::ERR_TOO_MANY_REDIRECTS" => "too many redirects",
        "net::ERR_ABORTED" => "the navigation was aborted",
        "net::ERR_INVALID_RESPONSE" | "net::ERR_INVALID_HTTP_RESPONSE" => "the server sent an invalid HTTP response",
        "net::ERR_PROXY_CONNECTION_FAILED" | "net::ERR_TUNNEL_CONNECTION_FAILED" => "the proxy rejected the connection",
        "net::ERR_UNSAFE_PORT" => "browsers block this port",
        "net::ERR_BLOCKED_BY_RESPONSE" | "net::ERR_BLOCKED_BY_CLIENT" => "it was blocked",
        "net::ERR_HTTP_RESPONSE_CODE_FAILURE" => "the server returned an error without a page",
        error if error.starts_with("net::ERR_CERT") || error.starts_with("net::ERR_SSL") => {
            return format!("its certificate or encryption is invalid ({error})");
        }
        error => return error.to_owned(),
    };
    format!("{sentence} ({error})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_web_urls_are_opened() {
        for url in ["http://a.example/x", "https://a", "about:blank", "data:text/html,x", "blob:http://a/1"] {
            assert!(parse_openable_url(url).is_ok(), "{url}");
        }
        for url in
            ["file:///etc/passwd", "chrome://gpu", "view-source:http://a", "javascript:1", "about:config", "", "x"]
        {
            assert_eq!(parse_openable_url(url).unwrap_err().code(), "invalid_action", "{url}");
        }
        let long = format!("http://a/{}", "x".repeat(1 << 20));
        assert!(parse_openable_url(&long).unwrap_err().to_string().len() < 100);
    }
}
