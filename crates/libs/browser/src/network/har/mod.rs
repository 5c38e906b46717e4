//! A HAR 1.2: what was requested between a start and a stop, with headers, timings, the bodies of texts, and what was
//! said through sockets.
//!
//! Bounded: entries, messages, one body, and all texts together. What is left out is said where it would be.

mod body;
mod entry;
mod events;
mod recorder;
mod sockets;
#[cfg(test)]
mod tests;
mod timings;

use std::sync::Arc;

use super::cut;
use super::events::{self as network, Failed, RequestId, is_sent};
use crate::cdp::{Event, SessionId};
use body::{Body, MAX_BODY_BYTES, WantedBody};
use entry::{Entry, MAX_URL_BYTES};
use events::{DataReceived, ExtraReceived, ExtraSent, Finished, HeaderMap, Lifecycle, Received, WillBeSent};
pub(crate) use recorder::HarRecorder;
use recorder::{Early, longer};

impl HarRecorder {
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
}
