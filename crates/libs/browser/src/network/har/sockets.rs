//! WebSockets in a HAR, with what was said through them, as Chromium's own tools write it.

use std::sync::Arc;

use super::body::MAX_BODY_BYTES;
use super::entry::{Entry, Message};
use super::events::{HeaderMap, Response};
use super::recorder::HarRecorder;
use crate::cdp::Event;
use crate::network::cut;
use crate::network::events::{SocketAnswered, SocketCreated, SocketEnded, SocketHandshake, SocketMessage};

/// Of all sockets.
pub(super) const MAX_MESSAGES: usize = 20_000;

impl HarRecorder {
    pub(super) fn socket(&mut self, event: &Event, tab: Option<&Arc<str>>) -> Option<()> {
        match &*event.method {
            "Network.webSocketCreated" => {
                let it: SocketCreated<'_> = event.read()?;
                let times = (self.now, self.now + self.offset);
                let page = tab.and_then(|tab| self.shown.get(tab).copied());
                self.add(Entry::new(it.request_id, "GET", &it.url, "websocket", times, page), HeaderMap::new());
            }
            "Network.webSocketWillSendHandshakeRequest" => {
                let it: SocketHandshake = event.read()?;
                let headers = self.fitting(it.request.headers);
                self.with(&it.request_id, |entry| {
                    (entry.started, entry.wall) = (it.timestamp, it.wall_time);
                    entry.request_headers = headers;
                });
            }
            "Network.webSocketHandshakeResponseReceived" => {
                let it: SocketAnswered = event.read()?;
                let answer = it.response;
                let response = Response::of_socket(answer.status, answer.status_text, answer.headers);
                let response = self.fitting_response(response);
                self.with(&it.request_id, |entry| entry.answer(response, it.timestamp));
            }
            "Network.webSocketFrameSent" => self.message("send", event.read()?),
            "Network.webSocketFrameReceived" => self.message("receive", event.read()?),
            "Network.webSocketFrameError" => {
                let it: SocketEnded<'_> = event.read()?;
                self.with(&it.request_id, |entry| entry.fail(it.timestamp, cut(&it.error_message, 200)));
            }
            "Network.webSocketClosed" => {
                let it: SocketEnded<'_> = event.read()?;
                self.with(&it.request_id, |entry| entry.end(it.timestamp));
            }
            _ => {}
        }
        Some(())
    }

    fn message(&mut self, kind: &'static str, it: SocketMessage) {
        // One that was open before the start has no entry.
        if !self.hops.contains_key(&it.request_id) {
            return;
        }
        let data = it.response.payload_data;
        let is_kept = self.messages < MAX_MESSAGES && data.len() <= 2 * MAX_BODY_BYTES && self.has_room(data.len());
        self.messages += usize::from(is_kept);
        self.with(&it.request_id, |entry| {
            if is_kept {
                let wall = entry.wall + (it.timestamp - entry.started);
                let opcode = crate::network::events::bytes(it.response.opcode);
                entry.messages.kept.push(Message { kind, wall, opcode, data });
            } else {
                entry.messages.left_out += 1;
            }
        });
    }
}
