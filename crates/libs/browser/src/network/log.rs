//! Log of the most recent requests.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use agentd_base::Timestamp;
use serde::Serialize;

use super::events::{
    self, Failed, Finished, Received, RequestId, Response, SocketAnswered, SocketCreated, SocketEnded, SocketHandshake,
    WillBeSent, bytes,
};
use super::pattern::UrlPattern;
use super::truncate;
use crate::cdp::Event;

const MAX_ENTRIES: usize = 1_000;
const MAX_URL_BYTES: usize = 2_000;
/// Maximum number of buffered mock marks that arrive before their request.
const MAX_EARLY: usize = 1_000;

/// Request with its outcome. Each redirect is a separate entry.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NetworkRequest {
    pub id: String,
    pub method: String,
    /// Truncated at 2,000 bytes.
    pub url: String,
    pub status: Option<u16>,
    /// `document`, `stylesheet`, `image`, `script`, `xhr`, `fetch`, `websocket` and others.
    pub resource_type: String,
    pub mime_type: Option<String>,
    /// Size as received, including headers, in bytes.
    pub size_bytes: Option<u64>,
    /// `None` while the request is in progress.
    pub duration_ms: Option<u64>,
    pub failed: bool,
    pub error: Option<String>,
    /// Whether a mock answered it.
    pub mocked: bool,
    pub at: Timestamp,
}

/// Request filter; all given conditions must match.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RequestFilter {
    /// Substring of the URL or, with `*`, a pattern for the whole URL.
    pub url: Option<String>,
    pub status: Option<u16>,
    pub resource_type: Option<String>,
}

impl RequestFilter {
    /// Selects the URLs that the filter asks for.
    pub fn url_matcher(&self) -> impl Fn(&str) -> bool {
        let pattern = self.url.as_ref().filter(|url| url.contains('*')).map(|url| UrlPattern::new(url));
        move |url| match (&pattern, &self.url) {
            (Some(pattern), _) => pattern.matches(url),
            (None, Some(part)) => url.contains(part.as_str()),
            (None, None) => true,
        }
    }
}

#[derive(Debug)]
struct LogEntry {
    request_id: RequestId,
    started: f64,
    request: NetworkRequest,
}

#[derive(Debug, Default)]
pub(crate) struct NetworkLog {
    entries: VecDeque<LogEntry>,
    /// Number of entries dropped before the first retained one.
    forgotten: u64,
    /// Ordinal of the last entry of each retained request.
    last: HashMap<RequestId, u64>,
    early_mocks: VecDeque<(RequestId, String)>,
    /// Chromium's monotonic time at the last event, and its offset to wall time.
    now: f64,
    offset: f64,
}

impl NetworkLog {
    pub(crate) fn list(&self, filter: &RequestFilter) -> Vec<NetworkRequest> {
        let is_url = filter.url_matcher();
        let matches = |request: &&NetworkRequest| {
            is_url(&request.url)
                && filter.status.is_none_or(|status| request.status == Some(status))
                && filter.resource_type.as_ref().is_none_or(|kind| *kind == request.resource_type)
        };
        self.entries.iter().map(|entry| &entry.request).filter(matches).cloned().collect()
    }

    pub(crate) fn event(&mut self, event: &Event) {
        match &*event.method {
            "Network.requestWillBeSent" => drop(event.read().map(|params| self.will_be_sent(params))),
            "Network.responseReceived" => drop(event.read().map(|params| self.received(&params))),
            "Network.loadingFinished" => drop(event.read().map(|params: Finished| {
                let size = bytes(params.encoded_data_length);
                self.ended(&params.request_id, params.timestamp, |request| request.size_bytes = Some(size));
            })),
            "Network.loadingFailed" => drop(event.read().map(|params: Failed<'_>| {
                let reason = params.reason();
                self.ended(&params.request_id, params.timestamp, |request| fail(request, reason));
            })),
            "Network.webSocketCreated" => drop(event.read().map(|params: SocketCreated<'_>| {
                let (now, wall) = (self.now, self.now + self.offset);
                self.add(params.request_id, &params.url, "GET", "websocket", (now, wall));
            })),
            "Network.webSocketWillSendHandshakeRequest" => drop(event.read().map(|params: SocketHandshake| {
                self.clock(params.timestamp, params.wall_time);
                if let Some(entry) = self.find(&params.request_id) {
                    (entry.started, entry.request.at) = (params.timestamp, events::time(params.wall_time));
                }
            })),
            "Network.webSocketHandshakeResponseReceived" => drop(event.read().map(|params: SocketAnswered| {
                if let Some(entry) = self.find(&params.request_id) {
                    entry.request.status = events::status(params.response.status);
                }
            })),
            "Network.webSocketFrameError" => drop(event.read().map(|params: SocketEnded<'_>| {
                let reason = truncate(&params.error_message, 200);
                self.ended(&params.request_id, params.timestamp, |request| fail(request, reason));
            })),
            "Network.webSocketClosed" => drop(event.read().map(|params: SocketEnded<'_>| {
                self.ended(&params.request_id, params.timestamp, |_| {});
            })),
            _ => {}
        }
    }

    /// Marks the request to this URL as mocked. It may not be known yet.
    pub(super) fn mocked(&mut self, request_id: &RequestId, url: &str) {
        let url = truncate(url, MAX_URL_BYTES);
        match self.find(request_id).filter(|entry| entry.request.url == url) {
            Some(entry) => entry.request.mocked = true,
            None => {
                if self.early_mocks.len() == MAX_EARLY {
                    self.early_mocks.pop_front();
                }
                self.early_mocks.push_back((Arc::clone(request_id), url));
            }
        }
    }

    fn will_be_sent(&mut self, params: WillBeSent<'_>) {
        self.clock(params.timestamp, params.wall_time);
        if !events::is_sent(&params.request.url) {
            return;
        }
        match params.redirect_response {
            Some(response) => self.ended(&params.request_id, params.timestamp, |request| {
                answer(request, &response);
                request.size_bytes = Some(bytes(response.encoded_data_length));
            }),
            // Reported by two processes: the initiator and the target.
            None if self.last.contains_key(&params.request_id) => return,
            None => {}
        }
        let kind = kind(params.kind.as_deref());
        self.add(
            params.request_id,
            &params.request.url,
            &params.request.method,
            &kind,
            (params.timestamp, params.wall_time),
        );
    }

    fn received(&mut self, params: &Received<'_>) {
        self.now = params.timestamp;
        if !events::is_sent(&params.response.url) {
            return;
        }
        if !self.last.contains_key(&params.request_id) {
            // A service worker script, requested before events are enabled.
            let times = (params.timestamp, params.timestamp + self.offset);
            self.add(Arc::clone(&params.request_id), &params.response.url, "GET", &kind(params.kind.as_deref()), times);
        }
        if let Some(entry) = self.find(&params.request_id) {
            answer(&mut entry.request, &params.response);
        }
    }

    fn add(&mut self, request_id: RequestId, url: &str, method: &str, kind: &str, (started, wall): (f64, f64)) {
        let url = truncate(url, MAX_URL_BYTES);
        let early = self.early_mocks.iter().position(|(id, mocked)| *id == request_id && *mocked == url);
        let mocked = early.and_then(|index| self.early_mocks.remove(index)).is_some();
        if self.entries.len() == MAX_ENTRIES
            && let Some(oldest) = self.entries.pop_front()
        {
            if self.last.get(&oldest.request_id) == Some(&self.forgotten) {
                self.last.remove(&oldest.request_id);
            }
            self.forgotten += 1;
        }
        let ordinal = self.forgotten + self.entries.len() as u64;
        self.last.insert(Arc::clone(&request_id), ordinal);
        let request = NetworkRequest {
            id: format!("req_{}", ordinal + 1),
            method: truncate(method, 50),
            url,
            status: None,
            resource_type: kind.to_owned(),
            mime_type: None,
            size_bytes: None,
            duration_ms: None,
            failed: false,
            error: None,
            mocked,
            at: events::time(wall),
        };
        self.entries.push_back(LogEntry { request_id, started, request });
    }

    fn find(&mut self, request_id: &str) -> Option<&mut LogEntry> {
        let ordinal = self.last.get(request_id)?;
        let index = usize::try_from(ordinal.checked_sub(self.forgotten)?).ok()?;
        self.entries.get_mut(index)
    }

    /// Ends a request. Later end events are ignored.
    fn ended(&mut self, request_id: &str, timestamp: f64, change: impl FnOnce(&mut NetworkRequest)) {
        self.now = timestamp;
        let Some(entry) = self.find(request_id).filter(|entry| entry.request.duration_ms.is_none()) else { return };
        entry.request.duration_ms = Some(bytes(((timestamp - entry.started) * 1e3).round()));
        change(&mut entry.request);
    }

    fn clock(&mut self, timestamp: f64, wall_time: f64) {
        (self.now, self.offset) = (timestamp, wall_time - timestamp);
    }
}

fn answer(request: &mut NetworkRequest, response: &Response<'_>) {
    request.status = events::status(response.status);
    request.mime_type = (!response.mime_type.is_empty()).then(|| truncate(&response.mime_type, 100));
}

fn fail(request: &mut NetworkRequest, reason: String) {
    (request.failed, request.error) = (true, Some(reason));
}

fn kind(kind: Option<&str>) -> String {
    truncate(kind.unwrap_or("other"), 30).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn dispatch(log: &mut NetworkLog, method: &str, params: Value) {
        let params = serde_json::value::to_raw_value(&params).unwrap();
        log.event(&Event::new(Some("S"), method, Some(&params)));
    }

    fn sent(id: &str, url: &str, at: f64) -> Value {
        json!({"requestId": id, "timestamp": at, "wallTime": 1e9 + at, "type": "Fetch",
            "request": {"url": url, "method": "GET"}})
    }

    #[test]
    fn socket_is_in_progress_until_closed() {
        let mut log = NetworkLog::default();
        dispatch(&mut log, "Network.requestWillBeSent", sent("1", "http://a/", 5.0));
        dispatch(&mut log, "Network.webSocketCreated", json!({"requestId": "2", "url": "ws://a/s"}));
        assert_eq!(log.list(&RequestFilter::default())[1].at, events::time(1e9 + 5.0));
        let handshake = json!({"requestId": "2", "timestamp": 6.0, "wallTime": 1e9 + 6.0, "request": {"headers": {}}});
        dispatch(&mut log, "Network.webSocketWillSendHandshakeRequest", handshake);
        let answer = json!({"status": 101, "statusText": "Switching Protocols", "headers": {}});
        let answer = json!({"requestId": "2", "timestamp": 6.1, "response": answer});
        dispatch(&mut log, "Network.webSocketHandshakeResponseReceived", answer);
        let socket = log.list(&RequestFilter { status: Some(101), ..RequestFilter::default() }).remove(0);
        assert_eq!((socket.at, socket.duration_ms, &*socket.method), (events::time(1e9 + 6.0), None, "GET"));
        dispatch(&mut log, "Network.webSocketClosed", json!({"requestId": "2", "timestamp": 8.5}));
        let socket = log.list(&RequestFilter { url: Some("/s".to_owned()), ..RequestFilter::default() }).remove(0);
        assert_eq!((socket.duration_ms, socket.failed), (Some(2_500), false));
    }

    #[test]
    fn each_redirect_hop_is_mocked_separately() {
        let mut log = NetworkLog::default();
        // Chromium may pause a request before or after it reports it.
        log.mocked(&"1".into(), "http://a/first");
        dispatch(&mut log, "Network.requestWillBeSent", sent("1", "http://a/first", 1.0));
        let mut second = sent("1", "http://a/second", 1.5);
        second["redirectResponse"] = json!({"url": "http://a/first", "status": 302, "mimeType": ""});
        dispatch(&mut log, "Network.requestWillBeSent", second);
        // Reported by a second process.
        dispatch(&mut log, "Network.requestWillBeSent", sent("1", "http://a/second", 1.5));
        let all = log.list(&RequestFilter::default());
        let seen: Vec<_> = all.iter().map(|request| (request.status, request.mocked, request.duration_ms)).collect();
        assert_eq!(seen, [(Some(302), true, Some(500)), (None, false, None)]);
        log.mocked(&"1".into(), "http://a/second");
        assert!(log.list(&RequestFilter::default())[1].mocked);
    }

    #[test]
    fn oldest_requests_are_dropped_completely() {
        let mut log = NetworkLog::default();
        for number in 0..3 * MAX_ENTRIES {
            dispatch(&mut log, "Network.requestWillBeSent", sent(&number.to_string(), &"u".repeat(1 << 12), 1.0));
        }
        assert_eq!((log.entries.len(), log.last.len()), (MAX_ENTRIES, MAX_ENTRIES));
        dispatch(&mut log, "Network.loadingFinished", json!({"requestId": "0", "timestamp": 2.0}));
        dispatch(
            &mut log,
            "Network.loadingFinished",
            json!({"requestId": "2999", "timestamp": 2.0, "encodedDataLength": 7}),
        );
        let all = log.list(&RequestFilter::default());
        assert_eq!((&*all[0].id, all[999].size_bytes, all[0].url.len()), ("req_2001", Some(7), MAX_URL_BYTES + 3));
    }
}
