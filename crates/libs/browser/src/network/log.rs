//! The last requests.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use agentd_base::Timestamp;
use serde::Serialize;

use super::cut;
use super::events::{
    self, Failed, Finished, Received, RequestId, Response, SocketAnswered, SocketCreated, SocketEnded, SocketHandshake,
    WillBeSent, bytes,
};
use super::pattern::UrlPattern;
use crate::cdp::Event;

const MAX_KEPT: usize = 1_000;
const MAX_URL_BYTES: usize = 2_000;
/// Requests that are known to be mocked before they are known.
const MAX_EARLY: usize = 1_000;

/// One request and what came of it. Each redirect is one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NetworkRequest {
    pub id: String,
    pub method: String,
    /// Cut at 2,000 bytes.
    pub url: String,
    pub status: Option<u16>,
    /// `document`, `stylesheet`, `image`, `script`, `xhr`, `fetch`, `websocket` and others.
    pub resource_type: String,
    pub mime_type: Option<String>,
    /// As they came over the network, with the headers.
    pub size_bytes: Option<u64>,
    /// None while it is under way.
    pub duration_ms: Option<u64>,
    pub failed: bool,
    pub error: Option<String>,
    /// Answered by a mock.
    pub mocked: bool,
    pub at: Timestamp,
}

/// Which requests; all that is named must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RequestFilter {
    /// A part of the address or, with `*`, a pattern of the whole.
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
struct Kept {
    request_id: RequestId,
    started: f64,
    request: NetworkRequest,
}

#[derive(Debug, Default)]
pub(crate) struct NetworkLog {
    kept: VecDeque<Kept>,
    /// How many were there before the first that is kept.
    forgotten: u64,
    /// The last entry of each request that is not forgotten.
    last: HashMap<RequestId, u64>,
    early_mocks: VecDeque<(RequestId, String)>,
    /// Chromium's clock at the last event, and what it is behind the wall's.
    now: f64,
    offset: f64,
}

impl NetworkLog {
    pub(crate) fn list(&self, filter: &RequestFilter) -> Vec<NetworkRequest> {
        let is_url = filter.url_matcher();
        let is_meant = |request: &&NetworkRequest| {
            is_url(&request.url)
                && filter.status.is_none_or(|status| request.status == Some(status))
                && filter.resource_type.as_ref().is_none_or(|kind| *kind == request.resource_type)
        };
        self.kept.iter().map(|kept| &kept.request).filter(is_meant).cloned().collect()
    }

    pub(crate) fn event(&mut self, event: &Event) {
        match &*event.method {
            "Network.requestWillBeSent" => drop(event.read().map(|it| self.will_be_sent(it))),
            "Network.responseReceived" => drop(event.read().map(|it| self.received(&it))),
            "Network.loadingFinished" => drop(event.read().map(|it: Finished| {
                let size = bytes(it.encoded_data_length);
                self.ended(&it.request_id, it.timestamp, |request| request.size_bytes = Some(size));
            })),
            "Network.loadingFailed" => drop(event.read().map(|it: Failed<'_>| {
                let reason = it.reason();
                self.ended(&it.request_id, it.timestamp, |request| fail(request, reason));
            })),
            "Network.webSocketCreated" => drop(event.read().map(|it: SocketCreated<'_>| {
                let (now, wall) = (self.now, self.now + self.offset);
                self.add(it.request_id, &it.url, "GET", "websocket", (now, wall));
            })),
            "Network.webSocketWillSendHandshakeRequest" => drop(event.read().map(|it: SocketHandshake| {
                self.clock(it.timestamp, it.wall_time);
                if let Some(kept) = self.find(&it.request_id) {
                    (kept.started, kept.request.at) = (it.timestamp, events::time(it.wall_time));
                }
            })),
            "Network.webSocketHandshakeResponseReceived" => drop(event.read().map(|it: SocketAnswered| {
                if let Some(kept) = self.find(&it.request_id) {
                    kept.request.status = events::status(it.response.status);
                }
            })),
            "Network.webSocketFrameError" => drop(event.read().map(|it: SocketEnded<'_>| {
                let reason = cut(&it.error_message, 200);
                self.ended(&it.request_id, it.timestamp, |request| fail(request, reason));
            })),
            "Network.webSocketClosed" => drop(event.read().map(|it: SocketEnded<'_>| {
                self.ended(&it.request_id, it.timestamp, |_| {});
            })),
            _ => {}
        }
    }

    /// This request, to this address, is answered by a mock. It may not be known yet.
    pub(super) fn mocked(&mut self, request_id: &RequestId, url: &str) {
        let url = cut(url, MAX_URL_BYTES);
        match self.find(request_id).filter(|kept| kept.request.url == url) {
            Some(kept) => kept.request.mocked = true,
            None => {
                if self.early_mocks.len() == MAX_EARLY {
                    self.early_mocks.pop_front();
                }
                self.early_mocks.push_back((Arc::clone(request_id), url));
            }
        }
    }

    fn will_be_sent(&mut self, it: WillBeSent<'_>) {
        self.clock(it.timestamp, it.wall_time);
        if !events::is_sent(&it.request.url) {
            return;
        }
        match it.redirect_response {
            Some(response) => self.ended(&it.request_id, it.timestamp, |request| {
                answer(request, &response);
                request.size_bytes = Some(bytes(response.encoded_data_length));
            }),
            // Two processes tell of it: the one that asked for it and the one that it is for.
            None if self.last.contains_key(&it.request_id) => return,
            None => {}
        }
        let kind = kind(it.kind.as_deref());
        self.add(it.request_id, &it.request.url, &it.request.method, &kind, (it.timestamp, it.wall_time));
    }

    fn received(&mut self, it: &Received<'_>) {
        self.now = it.timestamp;
        if !events::is_sent(&it.response.url) {
            return;
        }
        if !self.last.contains_key(&it.request_id) {
            // The script of a service worker, which is asked for before anybody listens.
            let times = (it.timestamp, it.timestamp + self.offset);
            self.add(Arc::clone(&it.request_id), &it.response.url, "GET", &kind(it.kind.as_deref()), times);
        }
        if let Some(kept) = self.find(&it.request_id) {
            answer(&mut kept.request, &it.response);
        }
    }

    fn add(&mut self, request_id: RequestId, url: &str, method: &str, kind: &str, (started, wall): (f64, f64)) {
        let url = cut(url, MAX_URL_BYTES);
        let early = self.early_mocks.iter().position(|(id, mocked)| *id == request_id && *mocked == url);
        let mocked = early.and_then(|index| self.early_mocks.remove(index)).is_some();
        if self.kept.len() == MAX_KEPT
            && let Some(oldest) = self.kept.pop_front()
        {
            if self.last.get(&oldest.request_id) == Some(&self.forgotten) {
                self.last.remove(&oldest.request_id);
            }
            self.forgotten += 1;
        }
        let ordinal = self.forgotten + self.kept.len() as u64;
        self.last.insert(Arc::clone(&request_id), ordinal);
        let request = NetworkRequest {
            id: format!("req_{}", ordinal + 1),
            method: cut(method, 50),
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
        self.kept.push_back(Kept { request_id, started, request });
    }

    fn find(&mut self, request_id: &str) -> Option<&mut Kept> {
        let ordinal = self.last.get(request_id)?;
        let index = usize::try_from(ordinal.checked_sub(self.forgotten)?).ok()?;
        self.kept.get_mut(index)
    }

    /// Once: what is told of a request after its end changes nothing.
    fn ended(&mut self, request_id: &str, timestamp: f64, change: impl FnOnce(&mut NetworkRequest)) {
        self.now = timestamp;
        let Some(kept) = self.find(request_id).filter(|kept| kept.request.duration_ms.is_none()) else { return };
        kept.request.duration_ms = Some(bytes(((timestamp - kept.started) * 1e3).round()));
        change(&mut kept.request);
    }

    fn clock(&mut self, timestamp: f64, wall_time: f64) {
        (self.now, self.offset) = (timestamp, wall_time - timestamp);
    }
}

fn answer(request: &mut NetworkRequest, response: &Response<'_>) {
    request.status = events::status(response.status);
    request.mime_type = (!response.mime_type.is_empty()).then(|| cut(&response.mime_type, 100));
}

fn fail(request: &mut NetworkRequest, reason: String) {
    (request.failed, request.error) = (true, Some(reason));
}

fn kind(kind: Option<&str>) -> String {
    cut(kind.unwrap_or("other"), 30).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn hear(log: &mut NetworkLog, method: &str, params: Value) {
        let params = serde_json::value::to_raw_value(&params).unwrap();
        log.event(&Event::new(Some("S"), method, Some(&params)));
    }

    fn sent(id: &str, url: &str, at: f64) -> Value {
        json!({"requestId": id, "timestamp": at, "wallTime": 1e9 + at, "type": "Fetch",
            "request": {"url": url, "method": "GET"}})
    }

    #[test]
    fn a_socket_is_under_way_until_it_closes() {
        let mut log = NetworkLog::default();
        hear(&mut log, "Network.requestWillBeSent", sent("1", "http://a/", 5.0));
        hear(&mut log, "Network.webSocketCreated", json!({"requestId": "2", "url": "ws://a/s"}));
        assert_eq!(log.list(&RequestFilter::default())[1].at, events::time(1e9 + 5.0));
        let handshake = json!({"requestId": "2", "timestamp": 6.0, "wallTime": 1e9 + 6.0, "request": {"headers": {}}});
        hear(&mut log, "Network.webSocketWillSendHandshakeRequest", handshake);
        let answer = json!({"status": 101, "statusText": "Switching Protocols", "headers": {}});
        let answer = json!({"requestId": "2", "timestamp": 6.1, "response": answer});
        hear(&mut log, "Network.webSocketHandshakeResponseReceived", answer);
        let socket = log.list(&RequestFilter { status: Some(101), ..RequestFilter::default() }).remove(0);
        assert_eq!((socket.at, socket.duration_ms, &*socket.method), (events::time(1e9 + 6.0), None, "GET"));
        hear(&mut log, "Network.webSocketClosed", json!({"requestId": "2", "timestamp": 8.5}));
        let socket = log.list(&RequestFilter { url: Some("/s".to_owned()), ..RequestFilter::default() }).remove(0);
        assert_eq!((socket.duration_ms, socket.failed), (Some(2_500), false));
    }

    #[test]
    fn each_hop_of_a_redirect_may_be_mocked_by_itself() {
        let mut log = NetworkLog::default();
        // Chromium asks about a request before it tells of it, and after.
        log.mocked(&"1".into(), "http://a/first");
        hear(&mut log, "Network.requestWillBeSent", sent("1", "http://a/first", 1.0));
        let mut second = sent("1", "http://a/second", 1.5);
        second["redirectResponse"] = json!({"url": "http://a/first", "status": 302, "mimeType": ""});
        hear(&mut log, "Network.requestWillBeSent", second);
        // Told by a second process.
        hear(&mut log, "Network.requestWillBeSent", sent("1", "http://a/second", 1.5));
        let all = log.list(&RequestFilter::default());
        let seen: Vec<_> = all.iter().map(|request| (request.status, request.mocked, request.duration_ms)).collect();
        assert_eq!(seen, [(Some(302), true, Some(500)), (None, false, None)]);
        log.mocked(&"1".into(), "http://a/second");
        assert!(log.list(&RequestFilter::default())[1].mocked);
    }

    #[test]
    fn what_is_forgotten_is_forgotten_whole() {
        let mut log = NetworkLog::default();
        for number in 0..3 * MAX_KEPT {
            hear(&mut log, "Network.requestWillBeSent", sent(&number.to_string(), &"u".repeat(1 << 12), 1.0));
        }
        assert_eq!((log.kept.len(), log.last.len()), (MAX_KEPT, MAX_KEPT));
        hear(&mut log, "Network.loadingFinished", json!({"requestId": "0", "timestamp": 2.0}));
        hear(
            &mut log,
            "Network.loadingFinished",
            json!({"requestId": "2999", "timestamp": 2.0, "encodedDataLength": 7}),
        );
        let all = log.list(&RequestFilter::default());
        assert_eq!((&*all[0].id, all[999].size_bytes, all[0].url.len()), ("req_2001", Some(7), MAX_URL_BYTES + 3));
    }
}
