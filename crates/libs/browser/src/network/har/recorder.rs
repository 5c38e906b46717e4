//! Entries and pages of an active HAR recording, within its limits.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use serde_json::{Value, json};

use super::body::{Body, BodyRequest, MAX_BODY_BYTES};
use super::entry::{Entry, MAX_URL_BYTES, page_id, rfc3339};
use super::events::{self, HeaderMap, Response};
use super::timings::round;
use crate::network::events::RequestId;
use crate::network::truncate;

const MAX_ENTRIES: usize = 5_000;
const MAX_PAGES: usize = 500;
/// Maximum total size of URLs, headers, bodies and messages.
pub(super) const MAX_BYTES: usize = 32 << 20;
/// Maximum number of buffered headers and mock marks that arrive before their request.
const MAX_EARLY: usize = 500;

#[derive(Debug, Default)]
pub(crate) struct HarRecorder {
    pub(super) entries: Vec<Entry>,
    /// Entry indexes of each request, one per redirect hop.
    pub(super) hops: HashMap<RequestId, Vec<usize>>,
    early_info: VecDeque<(RequestId, EarlyInfo)>,
    pub(super) pages: Vec<Page>,
    /// Page index of the document shown in each tab.
    pub(super) shown: HashMap<Arc<str>, usize>,
    pub(super) bytes: usize,
    /// Number of recorded messages of all sockets.
    pub(super) messages: usize,
    left_out: u64,
    pub(super) now: f64,
    pub(super) offset: f64,
}

#[derive(Debug)]
pub(super) enum EarlyInfo {
    Sent(HeaderMap),
    Received(HeaderMap),
    Mocked,
}

#[derive(Debug)]
pub(super) struct Page {
    pub(super) loader: RequestId,
    url: String,
    started: f64,
    wall: f64,
    pub(super) content_load: Option<f64>,
    pub(super) load: Option<f64>,
}

impl HarRecorder {
    /// Returns the buffer settings of Chromium for a recording.
    pub(crate) fn buffers() -> Value {
        json!({
            "maxTotalBufferSize": 64 << 20, "maxResourceBufferSize": MAX_BODY_BYTES, "maxPostDataSize": MAX_BODY_BYTES,
            // Otherwise bodies are lost when the page navigates away.
            "enableDurableMessages": true,
        })
    }

    /// Stores a requested body.
    pub(crate) fn body(&mut self, request: &BodyRequest, body: Body) {
        let Some(entry) = self.entries.get_mut(request.entry) else { return };
        if entry.request_id != request.request_id {
            return;
        }
        let bytes = match &body {
            Body::Text(text) | Body::Base64(text) => text.len(),
            Body::Omitted(_) => 0,
        };
        if bytes > MAX_BODY_BYTES * 2 {
            entry.body = Some(Body::Omitted(body_too_long()));
        } else if self.bytes + bytes > MAX_BYTES {
            entry.body = Some(Body::Omitted(format!("omitted: the recording reached {MAX_BYTES} bytes of text")));
        } else {
            self.bytes += bytes;
            entry.body = Some(body);
        }
    }

    /// Returns the HAR document.
    pub(crate) fn finish(self, browser: &str) -> Value {
        let (name, version) = browser.split_once('/').unwrap_or((browser, ""));
        let pages: Vec<Value> = self.pages.iter().enumerate().map(|(index, page)| page.json(index)).collect();
        let entries: Vec<Value> = self.entries.iter().map(Entry::json).collect();
        let mut log = json!({
            "version": "1.2",
            "creator": {"name": "agentd", "version": env!("CARGO_PKG_VERSION")},
            "browser": {"name": name, "version": version},
            "pages": pages,
            "entries": entries,
        });
        if self.left_out > 0 {
            let bounds = format!("{MAX_ENTRIES} requests or {MAX_BYTES} bytes of text");
            log["comment"] =
                format!("{} later requests were omitted: the recording reached its limit of {bounds}", self.left_out)
                    .into();
        }
        json!({"log": log})
    }

    pub(super) fn page(&mut self, tab: &Arc<str>, loader: &RequestId, url: &str, (started, wall): (f64, f64)) {
        let shown = self.shown.get(tab).and_then(|page| self.pages.get(*page));
        if shown.is_some_and(|page| page.loader == *loader) || self.pages.len() == MAX_PAGES {
            return;
        }
        self.shown.insert(Arc::clone(tab), self.pages.len());
        let (loader, url) = (Arc::clone(loader), truncate(url, MAX_URL_BYTES));
        self.pages.push(Page { loader, url, started, wall, content_load: None, load: None });
    }

    pub(super) fn add(&mut self, mut entry: Entry, headers: HeaderMap) {
        entry.request_headers = headers;
        let bytes = entry.bytes();
        if self.entries.len() == MAX_ENTRIES || self.bytes + bytes > MAX_BYTES {
            self.left_out += 1;
            return;
        }
        self.bytes += bytes;
        let id = Arc::clone(&entry.request_id);
        self.hops.entry(Arc::clone(&id)).or_default().push(self.entries.len());
        self.entries.push(entry);
        let (matching, others) = self.early_info.drain(..).partition(|(of, _)| *of == id);
        self.early_info = others;
        let matching: VecDeque<_> = matching;
        for (id, early_info) in matching {
            self.apply_extra(&id, early_info);
        }
    }

    /// Applies actual headers or a mock mark to the first hop without them. They arrive in hop order, but before or
    /// after the request that they belong to.
    pub(super) fn apply_extra(&mut self, request_id: &RequestId, extra: EarlyInfo) {
        let hops = self.hops.get(request_id).map(Vec::as_slice).unwrap_or_default();
        let index =
            hops.iter().copied().find(|index| self.entries.get(*index).is_some_and(|entry| extra.is_for(entry)));
        let Some(entry) = index.and_then(|index| self.entries.get_mut(index)) else {
            if self.early_info.len() == MAX_EARLY {
                self.early_info.pop_front();
            }
            self.early_info.push_back((Arc::clone(request_id), extra));
            return;
        };
        match extra {
            EarlyInfo::Sent(headers) => entry.sent_headers = Some(headers),
            EarlyInfo::Received(headers) => entry.received_headers = Some(headers),
            EarlyInfo::Mocked => entry.is_mocked = true,
        }
    }

    pub(super) fn with(&mut self, request_id: &str, change: impl FnOnce(&mut Entry)) {
        let index = self.hops.get(request_id).and_then(|hops| hops.last());
        if let Some(entry) = index.and_then(|index| self.entries.get_mut(*index)) {
            change(entry);
        }
    }

    /// Reserves bytes of the total limit. Returns false if they do not fit.
    pub(super) fn reserve(&mut self, bytes: usize) -> bool {
        let fits = self.bytes + bytes <= MAX_BYTES;
        if fits {
            self.bytes += bytes;
        }
        fits
    }

    /// Returns the headers, or none if they exceed the limit.
    pub(super) fn fit_headers(&mut self, headers: HeaderMap) -> HeaderMap {
        if self.reserve(events::bytes_of(&headers)) { headers } else { HeaderMap::new() }
    }

    /// Returns the response, without variable-length fields if they exceed the limit.
    pub(super) fn fit_response(&mut self, response: Response) -> Response {
        if self.reserve(response.bytes()) { response } else { response.stripped() }
    }
}

impl EarlyInfo {
    fn is_for(&self, entry: &Entry) -> bool {
        let may_have = entry.has_extra != Some(false);
        match self {
            Self::Sent(_) => may_have && entry.sent_headers.is_none(),
            Self::Received(_) => may_have && entry.received_headers.is_none(),
            Self::Mocked => !entry.is_mocked && entry.is_open(),
        }
    }
}

impl Page {
    fn json(&self, index: usize) -> Value {
        let since = |time: Option<f64>| time.map_or(-1.0, |time| round((time - self.started) * 1e3));
        json!({
            "startedDateTime": rfc3339(self.wall),
            "id": page_id(index),
            "title": self.url,
            "pageTimings": {"onContentLoad": since(self.content_load), "onLoad": since(self.load)},
        })
    }
}

pub(super) fn body_too_long() -> String {
    format!("omitted: the body exceeds {MAX_BODY_BYTES} bytes")
}
