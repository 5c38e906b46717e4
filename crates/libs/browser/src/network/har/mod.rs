//! HAR 1.2 recording: requests between start and stop with headers, timings, text bodies and WebSocket messages.
//!
//! The numbers of entries and messages, the size of a body and the total size are limited. The HAR states omissions
//! where they occur.

mod body;
mod entry;
mod events;
mod recorder;
mod sockets;
#[cfg(test)]
mod tests;
mod timings;

use std::sync::Arc;

use super::events::{self as network, Failed, RequestId, is_sent};
use super::truncate;
use crate::cdp::{Event, SessionId};
use body::{Body, BodyRequest, MAX_BODY_BYTES};
use entry::{Entry, MAX_URL_BYTES};
use events::{DataReceived, ExtraReceived, ExtraSent, Finished, HeaderMap, Lifecycle, Received, WillBeSent};
pub(crate) use recorder::HarRecorder;
use recorder::{EarlyInfo, body_too_long};

impl HarRecorder {
    /// Processes an event. `tab` is the main frame of its page. Returns a response body to request.
    pub(crate) fn event(&mut self, event: &Event, tab: Option<&Arc<str>>) -> Option<BodyRequest> {
        match &*event.method {
            "Network.requestWillBeSent" => self.will_be_sent(event.read()?, tab),
            "Network.requestWillBeSentExtraInfo" => {
                let ExtraSent { request_id, headers } = event.read()?;
                let headers = self.fit_headers(headers);
                self.apply_extra(&request_id, EarlyInfo::Sent(headers));
            }
            "Network.responseReceived" => self.received(event.read()?, tab),
            "Network.responseReceivedExtraInfo" => {
                let ExtraReceived { request_id, headers } = event.read()?;
                let headers = self.fit_headers(headers);
                self.apply_extra(&request_id, EarlyInfo::Received(headers));
            }
            "Network.dataReceived" => {
                let params: DataReceived = event.read()?;
                self.with(&params.request_id, |entry| entry.data_bytes += params.data_length);
            }
            "Network.loadingFinished" => return self.finished(&event.read()?, event.session.clone()?),
            "Network.loadingFailed" => {
                let params: Failed<'_> = event.read()?;
                self.with(&params.request_id, |entry| entry.fail(params.timestamp, params.reason()));
            }
            "Page.lifecycleEvent" => {
                let params: Lifecycle<'_> = event.read()?;
                let page = self.pages.iter_mut().rev().find(|page| *page.loader == *params.loader_id)?;
                match &*params.name {
                    "DOMContentLoaded" => page.content_load = Some(params.timestamp),
                    "load" => page.load = Some(params.timestamp),
                    _ => {}
                }
            }
            _ => self.socket(event, tab)?,
        }
        None
    }

    pub(super) fn mocked(&mut self, request_id: &RequestId) {
        self.apply_extra(request_id, EarlyInfo::Mocked);
    }

    fn will_be_sent(&mut self, params: WillBeSent, tab: Option<&Arc<str>>) {
        (self.now, self.offset) = (params.timestamp, params.wall_time - params.timestamp);
        if !is_sent(&params.request.url) {
            return;
        }
        match params.redirect_response {
            Some(response) => {
                let has_extra = params.redirect_has_extra_info;
                let to = truncate(&params.request.url, MAX_URL_BYTES);
                let response = self.fit_response(response);
                self.with(&params.request_id, |entry| entry.redirected(response, has_extra, to, params.timestamp));
            }
            // Reported by two processes.
            None if self.hops.contains_key(&params.request_id) => return,
            None => {}
        }
        let is_document = params.loader_id.as_ref() == Some(&params.request_id) && params.frame_id.as_ref() == tab;
        if let Some(tab) = tab.filter(|_| is_document) {
            self.page(tab, &params.request_id, &params.request.url, (params.timestamp, params.wall_time));
        }
        let page = tab.and_then(|tab| self.shown.get(tab).copied());
        let kind = params.kind.unwrap_or_default();
        let times = (params.timestamp, params.wall_time);
        let mut entry = Entry::new(params.request_id, &params.request.method, &params.request.url, &kind, times, page);
        entry.set_post(params.request.post_data, params.request.has_post_data, &params.request.headers);
        self.add(entry, params.request.headers);
    }

    fn received(&mut self, params: Received, tab: Option<&Arc<str>>) {
        self.now = params.timestamp;
        if !is_sent(&params.response.url) {
            return;
        }
        if !self.hops.contains_key(&params.request_id) {
            // A service worker script, requested before events are enabled, or a request from before the start.
            let times = (params.timestamp, params.timestamp + self.offset);
            let page = tab.and_then(|tab| self.shown.get(tab).copied());
            let kind = params.kind.unwrap_or_default();
            let entry = Entry::new(Arc::clone(&params.request_id), "GET", &params.response.url, &kind, times, page);
            if self.offset == 0.0 {
                return;
            }
            self.add(entry, HeaderMap::new());
        }
        let response = self.fit_response(params.response);
        self.with(&params.request_id, |entry| {
            entry.has_extra = Some(params.has_extra_info);
            entry.answer(response, params.timestamp);
        });
    }

    fn finished(&mut self, params: &Finished, session: SessionId) -> Option<BodyRequest> {
        let index = *self.hops.get(&params.request_id)?.last()?;
        let entry = self.entries.get_mut(index)?;
        entry.encoded_bytes = Some(network::bytes(params.encoded_data_length));
        entry.end(params.timestamp);
        if !entry.has_text() {
            return None;
        }
        if entry.data_bytes > MAX_BODY_BYTES as u64 {
            entry.body = Some(Body::Omitted(body_too_long()));
            return None;
        }
        // Placeholder until params arrives.
        entry.body = Some(Body::Omitted("omitted: the body had not arrived when the recording was stopped".to_owned()));
        Some(BodyRequest { session, request_id: Arc::clone(&params.request_id), entry: index })
    }
}
