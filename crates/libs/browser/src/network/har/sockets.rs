//! WebSockets in a HAR with their messages, in the format of Chromium's developer tools.

use std::sync::Arc;

use super::body::MAX_BODY_BYTES;
use super::entry::{Entry, Message};
use super::events::{HeaderMap, Response};
use super::recorder::HarRecorder;
use crate::cdp::Event;
use crate::network::events::{SocketAnswered, SocketCreated, SocketEnded, SocketHandshake, SocketMessage};
use crate::network::truncate;

/// Maximum number of messages of all sockets.
pub(super) const MAX_MESSAGES: usize = 20_000;

impl HarRecorder {
    pub(super) fn socket(&mut self, event: &Event, tab: Option<&Arc<str>>) -> Option<()> {
        match &*event.method {
            "Network.webSocketCreated" => {
                let params: SocketCreated<'_> = event.read()?;
                let times = (self.now, self.now + self.offset);
                let page = tab.and_then(|tab| self.shown.get(tab).copied());
                self.add(Entry::new(params.request_id, "GET", &params.url, "websocket", times, page), HeaderMap::new());
            }
            "Network.webSocketWillSendHandshakeRequest" => {
                let params: SocketHandshake = event.read()?;
                let headers = self.fit_headers(params.request.headers);
                self.with(&params.request_id, |entry| {
                    (entry.started, entry.wall) = (params.timestamp, params.wall_time);
                    entry.request_headers = headers;
                });
            }
            "Network.webSocketHandshakeResponseReceived" => {
                let params: SocketAnswered = event.read()?;
                let answer = params.response;
                let response = Response::from_socket(answer.status, answer.status_text, answer.headers);
                let response = self.fit_response(response);
                self.with(&params.request_id, |entry| entry.answer(response, params.timestamp));
            }
            "Network.webSocketFrameSent" => self.message("send", event.read()?),
            "Network.webSocketFrameReceived" => self.message("receive", event.read()?),
            "Network.webSocketFrameError" => {
                let params: SocketEnded<'_> = event.read()?;
                self.with(&params.request_id, |entry| {
                    entry.fail(params.timestamp, truncate(&params.error_message, 200))
                });
            }
            "Network.webSocketClosed" => {
                let params: SocketEnded<'_> = event.read()?;
                self.with(&params.request_id, |entry| entry.end(params.timestamp));
            }
            _ => {}
        }
        Some(())
    }

    fn message(&mut self, kind: &'static str, params: SocketMessage) {
        // A socket that was open before the start has no entry.
        if !self.hops.contains_key(&params.request_id) {
            return;
        }
        let data = params.response.payload_data;
        let is_recorded = self.messages < MAX_MESSAGES && data.len() <= 2 * MAX_BODY_BYTES && self.reserve(data.len());
        self.messages += usize::from(is_recorded);
        self.with(&params.request_id, |entry| {
            if is_recorded {
                let wall = entry.wall + (params.timestamp - entry.started);
                let opcode = crate::network::events::bytes(params.response.opcode);
                entry.messages.kept.push(Message { kind, wall, opcode, data });
            } else {
                entry.messages.left_out += 1;
            }
        });
    }
}
