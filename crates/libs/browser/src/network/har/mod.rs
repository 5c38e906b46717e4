//! A HAR 1.2: what was requested between a start and a stop, with headers, timings, the bodies of texts, and what was
//! said through sockets.
//!
//! Bounded: entries, messages, one body, and all texts together. What is left out is said where it would be.

mod entry;
mod events;
mod sockets;
#[cfg(test)]
mod tests;
mod timings;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use super::events::{self as network, Failed, RequestId};
use super::{cut, events::is_sent};
use crate::cdp::{Connection, Event, SessionId};
use crate::tab::QUICK;
use entry::{Entry, rfc3339};
use events::{DataReceived, ExtraReceived, ExtraSent, Finished, HeaderMap, Lifecycle, Received, WillBeSent};

pub(super) const MAX_BODY_BYTES: usize = 1 << 20;
const MAX_ENTRIES: usize = 5_000;
const MAX_PAGES: usize = 500;
/// Addresses, headers, bodies and messages of all entries.
const MAX_BYTES: usize = 32 << 20;
const MAX_URL_BYTES: usize = 64 << 10;
/// Headers and marks that come before their request.
const MAX_EARLY: usize = 500;

#[derive(Debug, Default)]
pub(crate) struct HarRecorder {
    entries: Vec<Entry>,
    /// A request, and what it was redirected to.
    hops: HashMap<RequestId, Vec<usize>>,
    early: VecDeque<(RequestId, Early)>,
    pages: Vec<Page>,
    /// What each tab shows.
    shown: HashMap<Arc<str>, usize>,
    bytes: usize,
    /// Of all sockets.
    messages: usize,
    left_out: u64,
    now: f64,
    offset: f64,
}

#[derive(Debug)]
enum Early {
    Sent(HeaderMap),
    Received(HeaderMap),
    Mocked,
}

#[derive(Debug)]
struct Page {
    loader: RequestId,
    url: String,
    started: f64,
    wall: f64,
    content_load: Option<f64>,
    load: Option<f64>,
}

/// A body that Chromium is to be asked for.
#[derive(Debug)]
pub(crate) struct WantedBody {
    pub(crate) session: SessionId,
    pub(crate) request_id: RequestId,
    entry: usize,
}

/// A body, or why there is none.
#[derive(Debug)]
pub(crate) enum Body {
    Text(String),
    Base64(String),
    LeftOut(String),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    body: String,
    base64_encoded: bool,
}

impl WantedBody {
    pub(crate) async fn fetch(&self, connection: &Connection) -> Body {
        let parameters = json!({"requestId": self.request_id});
        let answer = connection.call::<Answer>(Some(&self.session), "Network.getResponseBody", parameters, QUICK).await;
        match answer {
            Ok(Answer { body, base64_encoded: false }) => Body::Text(body),
            Ok(Answer { body, base64_encoded: true }) => Body::Base64(body),
            Err(_) => Body::LeftOut("left out: the browser does not have it any more".to_owned()),
        }
    }
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

    /// `tab` is the main frame of the page that it came from.
    pub(crate) fn event(&mut self, event: &Event, tab: Option<&Arc<str>>) -> Option<WantedBody> {
        match &*event.method {
            "Network.requestWillBeSent" => self.will_be_sent(event.read()?, tab),
            "Network.requestWillBeSentExtraInfo" => {
                let ExtraSent { request_id, headers } = event.read()?;
                let headers = self.fitting(headers);
                self.extra(&request_id, Early::Sent(headers));
            }
            "Network.responseReceived" => self.received(event.read()?, tab),
            "Network.responseReceivedExtraInfo" => {
                let ExtraReceived { request_id, headers } = event.read()?;
                let headers = self.fitting(headers);
                self.extra(&request_id, Early::Received(headers));
            }
            "Network.dataReceived" => {
                let it: DataReceived = event.read()?;
                self.with(&it.request_id, |entry| entry.data_bytes += it.data_length);
            }
            "Network.loadingFinished" => return self.finished(&event.read()?, event.session.clone()?),
            "Network.loadingFailed" => {
                let it: Failed<'_> = event.read()?;
                self.with(&it.request_id, |entry| entry.fail(it.timestamp, it.reason()));
            }
            "Page.lifecycleEvent" => {
                let it: Lifecycle<'_> = event.read()?;
                let page = self.pages.iter_mut().rev().find(|page| *page.loader == *it.loader_id)?;
                match &*it.name {
                    "DOMContentLoaded" => page.content_load = Some(it.timestamp),
                    "load" => page.load = Some(it.timestamp),
                    _ => {}
                }
            }
            _ => self.socket(event, tab)?,
        }
        None
    }

    pub(super) fn mocked(&mut self, request_id: &RequestId) {
        self.extra(request_id, Early::Mocked);
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

    fn will_be_sent(&mut self, it: WillBeSent, tab: Option<&Arc<str>>) {
        (self.now, self.offset) = (it.timestamp, it.wall_time - it.timestamp);
        if !is_sent(&it.request.url) {
            return;
        }
        match it.redirect_response {
            Some(response) => {
                let has_extra = it.redirect_has_extra_info;
                let to = cut(&it.request.url, MAX_URL_BYTES);
                let response = self.fitting_response(response);
                self.with(&it.request_id, |entry| entry.redirected(response, has_extra, to, it.timestamp));
            }
            // Two processes tell of it.
            None if self.hops.contains_key(&it.request_id) => return,
            None => {}
        }
        let is_document = it.loader_id.as_ref() == Some(&it.request_id) && it.frame_id.as_ref() == tab;
        if let Some(tab) = tab.filter(|_| is_document) {
            self.page(tab, &it.request_id, &it.request.url, (it.timestamp, it.wall_time));
        }
        let page = tab.and_then(|tab| self.shown.get(tab).copied());
        let kind = it.kind.unwrap_or_default();
        let times = (it.timestamp, it.wall_time);
        let mut entry = Entry::new(it.request_id, &it.request.method, &it.request.url, &kind, times, page);
        entry.set_post(it.request.post_data, it.request.has_post_data, &it.request.headers);
        self.add(entry, it.request.headers);
    }

    fn page(&mut self, tab: &Arc<str>, loader: &RequestId, url: &str, (started, wall): (f64, f64)) {
        let shown = self.shown.get(tab).and_then(|page| self.pages.get(*page));
        if shown.is_some_and(|page| page.loader == *loader) || self.pages.len() == MAX_PAGES {
            return;
        }
        self.shown.insert(Arc::clone(tab), self.pages.len());
        let (loader, url) = (Arc::clone(loader), cut(url, MAX_URL_BYTES));
        self.pages.push(Page { loader, url, started, wall, content_load: None, load: None });
    }

    fn add(&mut self, mut entry: Entry, headers: HeaderMap) {
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

    fn received(&mut self, it: Received, tab: Option<&Arc<str>>) {
        self.now = it.timestamp;
        if !is_sent(&it.response.url) {
            return;
        }
        if !self.hops.contains_key(&it.request_id) {
            // The script of a service worker, which is asked for before anybody listens; or one from before the start.
            let times = (it.timestamp, it.timestamp + self.offset);
            let page = tab.and_then(|tab| self.shown.get(tab).copied());
            let kind = it.kind.unwrap_or_default();
            let entry = Entry::new(Arc::clone(&it.request_id), "GET", &it.response.url, &kind, times, page);
            if self.offset == 0.0 {
                return;
            }
            self.add(entry, HeaderMap::new());
        }
        let response = self.fitting_response(it.response);
        self.with(&it.request_id, |entry| {
            entry.has_extra = Some(it.has_extra_info);
            entry.answer(response, it.timestamp);
        });
    }

    fn finished(&mut self, it: &Finished, session: SessionId) -> Option<WantedBody> {
        let index = *self.hops.get(&it.request_id)?.last()?;
        let entry = self.entries.get_mut(index)?;
        entry.encoded_bytes = Some(network::bytes(it.encoded_data_length));
        entry.end(it.timestamp);
        if !entry.has_text() {
            return None;
        }
        if entry.data_bytes > MAX_BODY_BYTES as u64 {
            entry.body = Some(Body::LeftOut(longer()));
            return None;
        }
        // Until it comes.
        entry.body = Some(Body::LeftOut("left out: it had not come when the recording was stopped".to_owned()));
        Some(WantedBody { session, request_id: Arc::clone(&it.request_id), entry: index })
    }

    /// Headers as they were really sent and received, for the first hop that has none. They come in the order of the
    /// hops, but before or after what they belong to.
    fn extra(&mut self, request_id: &RequestId, extra: Early) {
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

    fn with(&mut self, request_id: &str, change: impl FnOnce(&mut Entry)) {
        let index = self.hops.get(request_id).and_then(|hops| hops.last());
        if let Some(entry) = index.and_then(|index| self.entries.get_mut(*index)) {
            change(entry);
        }
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
        let since = |time: Option<f64>| time.map_or(-1.0, |time| timings::round((time - self.started) * 1e3));
        json!({
            "startedDateTime": rfc3339(self.wall),
            "id": page_id(index),
            "title": self.url,
            "pageTimings": {"onContentLoad": since(self.content_load), "onLoad": since(self.load)},
        })
    }
}

fn page_id(index: usize) -> String {
    format!("page_{}", index + 1)
}

fn longer() -> String {
    format!("left out: it is longer than {MAX_BODY_BYTES} bytes")
}
