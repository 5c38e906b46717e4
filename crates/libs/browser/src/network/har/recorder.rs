//! Entries and pages of a HAR under way, within its bounds.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use serde_json::{Value, json};

use super::body::{Body, MAX_BODY_BYTES, WantedBody};
use super::entry::{Entry, MAX_URL_BYTES, page_id, rfc3339};
use super::events::{self, HeaderMap, Response};
use super::timings::round;
use crate::network::cut;
use crate::network::events::RequestId;

const MAX_ENTRIES: usize = 5_000;
const MAX_PAGES: usize = 500;
/// Addresses, headers, bodies and messages of all entries.
pub(super) const MAX_BYTES: usize = 32 << 20;
/// Headers and marks that come before their request.
const MAX_EARLY: usize = 500;

#[derive(Debug, Default)]
pub(crate) struct HarRecorder {
    pub(super) entries: Vec<Entry>,
    /// A request, and what it was redirected to.
    pub(super) hops: HashMap<RequestId, Vec<usize>>,
    early: VecDeque<(RequestId, Early)>,
    pub(super) pages: Vec<Page>,
    /// What each tab shows.
    pub(super) shown: HashMap<Arc<str>, usize>,
    pub(super) bytes: usize,
    /// Of all sockets.
    pub(super) messages: usize,
    left_out: u64,
    pub(super) now: f64,
    pub(super) offset: f64,
}

#[derive(Debug)]
pub(super) enum Early {
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
    /// What Chromium keeps for it.
    pub(crate) fn buffers() -> Value {
        json!({
            "maxTotalBufferSize": 64 << 20, "maxResourceBufferSize": MAX_BODY_BYTES, "maxPostDataSize": MAX_BODY_BYTES,
            // A page that is left takes its bodies along otherwise.
            "enableDurableMessages": true,
        })
    }

    /// What was asked for has come.
    pub(crate) fn body(&mut self, wanted: &WantedBody, body: Body) {
        let Some(entry) = self.entries.get_mut(wanted.entry) else { return };
        if entry.request_id != wanted.request_id {
            return;
        }
        let bytes = match &body {
            Body::Text(text) | Body::Base64(text) => text.len(),
            Body::LeftOut(_) => 0,
        };
        if bytes > MAX_BODY_BYTES * 2 {
            entry.body = Some(Body::LeftOut(longer()));
        } else if self.bytes + bytes > MAX_BYTES {
            entry.body = Some(Body::LeftOut(format!("left out: this HAR has {MAX_BYTES} bytes of texts already")));
        } else {
            self.bytes += bytes;
            entry.body = Some(body);
        }
    }

    /// The document that people and programs read.
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
            let bounds = format!("of {MAX_ENTRIES} requests or {MAX_BYTES} bytes of texts");
            log["comment"] =
                format!("{} later requests are left out: this HAR has the most {bounds}", self.left_out).into();
        }
        json!({"log": log})
    }

    pub(super) fn page(&mut self, tab: &Arc<str>, loader: &RequestId, url: &str, (started, wall): (f64, f64)) {
        let shown = self.shown.get(tab).and_then(|page| self.pages.get(*page));
        if shown.is_some_and(|page| page.loader == *loader) || self.pages.len() == MAX_PAGES {
            return;
        }
        self.shown.insert(Arc::clone(tab), self.pages.len());
        let (loader, url) = (Arc::clone(loader), cut(url, MAX_URL_BYTES));
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
        let (mine, others) = self.early.drain(..).partition(|(of, _)| *of == id);
        self.early = others;
        let mine: VecDeque<_> = mine;
        for (id, early) in mine {
            self.extra(&id, early);
        }
    }

    /// Headers as they were really sent and received, for the first hop that has none. They come in the order of the
    /// hops, but before or after what they belong to.
    pub(super) fn extra(&mut self, request_id: &RequestId, extra: Early) {
        let hops = self.hops.get(request_id).map(Vec::as_slice).unwrap_or_default();
        let meant =
            hops.iter().copied().find(|index| self.entries.get(*index).is_some_and(|entry| extra.is_for(entry)));
        let Some(entry) = meant.and_then(|index| self.entries.get_mut(index)) else {
            if self.early.len() == MAX_EARLY {
                self.early.pop_front();
            }
            self.early.push_back((Arc::clone(request_id), extra));
            return;
        };
        match extra {
            Early::Sent(headers) => entry.sent_headers = Some(headers),
            Early::Received(headers) => entry.received_headers = Some(headers),
            Early::Mocked => entry.is_mocked = true,
        }
    }

    pub(super) fn with(&mut self, request_id: &str, change: impl FnOnce(&mut Entry)) {
        let index = self.hops.get(request_id).and_then(|hops| hops.last());
        if let Some(entry) = index.and_then(|index| self.entries.get_mut(*index)) {
            change(entry);
        }
    }

    /// Whether so much may still be kept; it is, then.
    pub(super) fn has_room(&mut self, bytes: usize) -> bool {
        let fits = self.bytes + bytes <= MAX_BYTES;
        if fits {
            self.bytes += bytes;
        }
        fits
    }

    /// None of them where they do not fit.
    pub(super) fn fitting(&mut self, headers: HeaderMap) -> HeaderMap {
        if self.has_room(events::bytes_of(&headers)) { headers } else { HeaderMap::new() }
    }

    /// Without what a server can make long, where that does not fit.
    pub(super) fn fitting_response(&mut self, response: Response) -> Response {
        if self.has_room(response.bytes()) { response } else { response.stripped() }
    }
}

impl Early {
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

pub(super) fn longer() -> String {
    format!("left out: it is longer than {MAX_BODY_BYTES} bytes")
}
